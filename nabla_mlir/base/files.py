"""Writing of files that appear whole or not at all: they are written to temporary names, and renamed when all are complete."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

TEMPORARY = ".tmp-"  # the prefix of the names of incomplete files
Content = bytes | Callable[[Path], object]


def write_files(contents: Mapping[str | os.PathLike[str], Content]) -> None:
    """Writes all of the files, or none: existing files stay until all new ones are complete.

    Links lead to the file that is replaced; a pipe or a device, such as /dev/stdout, is written to directly.

    Args:
      contents: by the path of each file, its bytes or what writes them to the path that it is called with.

    Raises:
      OSError: a folder does not exist or cannot be written to, or the disk is full.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     write_files({f"{folder}/a": b"1", f"{folder}/b": lambda path: path.write_text("2")})
      ...     sorted(path.read_text() for path in Path(folder).iterdir())
      ['1', '2']
    """
    temporaries: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            destination = temporary = Path(path)
            if not _is_stream(destination):
                destination = Path(os.path.realpath(destination))
                temporary = destination.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
                temporaries[temporary] = destination
            if callable(content):
                content(temporary)
            else:
                temporary.write_bytes(content)
        for temporary, destination in temporaries.items():
            if destination.is_file():
                temporary.chmod(destination.stat().st_mode)
            os.replace(temporary, destination)
    finally:
        for temporary in temporaries:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _is_stream(path: Path) -> bool:
    """True for a path that can be written to but not replaced, such as a device or a pipe."""
    return path.absolute().parent == Path("/dev") or (path.exists() and not (path.is_file() or path.is_dir()))
