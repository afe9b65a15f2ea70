"""An artifact on disk: several files with one stem, a folder, or one archive.

hvp.json         the manifest
hvp.vmfb         the code; with several targets one file for each, such as hvp.cpu-znver5.vmfb
hvp.mlirbc       the StableHLO from which it was compiled, if it was saved: for other targets and transforms

A path that ends in .zip names an archive of these files, as unzip reads it. A folder contains them. Any other path is their
common stem.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import reprlib
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from nabla_mlir.base.errors import DeployError, NablaError, user_frame, writing
from nabla_mlir.base.files import write_files
from nabla_mlir.runtime.manifest import SAVE_ANEW, Code, Manifest

_ENDINGS = (".vmfb", ".json")


def save_artifact(path: str | os.PathLike[str], vmfbs: Sequence[bytes], manifest: Manifest, stablehlo: bytes = b"") -> Path:
    """Writes an artifact, sets the names and checksums in the manifest, and returns the path that loads it.

    Args:
      path: NAME.zip for a single file; a folder, or a name that ends in a slash; or the stem of files, with or without
        .vmfb.
      vmfbs: the content of each code of the manifest.
      manifest: the manifest.
      stablehlo: the bytecode of the module from which it was compiled.

    Either all files appear, each of them whole, or none.

    Raises:
      SaveError: the folder cannot be made, or written to.
    """
    is_folder = os.fspath(path).endswith(("/", os.sep))
    suffix = Path(path).suffix
    if not is_folder and suffix and suffix not in (*_ENDINGS, ".zip") and not Path(path).is_dir():
        raise DeployError(
            f"save requires a path that ends in .vmfb, .zip or /, got {os.fspath(path)!r}.",
            where=user_frame(),
            help=f"write {os.fspath(path)}.vmfb for two files, .zip for one, or a / at the end.",
        )
    source, stem = _path(path, is_folder)
    files = _files(stem, vmfbs, manifest, stablehlo)
    with writing(path):
        source.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".zip":
            write_files({source: functools.partial(_write_archive, files=files)})
            return source
        source.mkdir(exist_ok=True)
        write_files({source / name: data for name, data in files.items()})
    return source / (f"{stem}.vmfb" if len(vmfbs) == 1 else f"{stem}.json")


def artifact_bytes(vmfbs: Sequence[bytes], manifest: Manifest, stablehlo: bytes = b"") -> bytes:
    """The content of a .zip with an artifact. Equal artifacts have equal content on every machine. See `save_artifact`."""
    file = io.BytesIO()
    _write_archive(file, _files("artifact", vmfbs, manifest, stablehlo))
    return file.getvalue()


def store_artifact(folder: str | os.PathLike[str], content: bytes) -> Path:
    """Puts the content of a .zip into a folder that many processes and machines may share, named by its SHA-256.

    Args:
      folder: the folder; it is created if it does not exist.
      content: content from `artifact_bytes`.

    A file appears whole or not at all. It is written once; the second process finds it.

    Raises:
      SaveError: the folder cannot be made, or written to.

    Example:
      >>> import nabla_mlir as nm, tempfile
      >>> compiled = nm.trace(lambda x: x * x, nm.spec(), name="square").lower().compile()
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = store_artifact(folder, compiled.to_bytes())
      ...     float(nm.load(path).square(3.0))
      9.0
    """
    source = Path(folder) / f"{_sha256(content)}.zip"
    with writing(folder):
        source.parent.mkdir(parents=True, exist_ok=True)
        if not source.exists():
            write_files({source: content})
    return source


_LARGE = 1 << 30  # an entry of an archive up to this many bytes may be compressed by any factor
_MOST_COMPRESSED = 100
# The errors of `zipfile` for a damaged archive: it does not check headers, and an entry may be encrypted or in any
# format.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError)


class Artifact:
    """A saved artifact that can be read. Its files are checked against the manifest when they are read.

    Args:
      path: the .zip, the folder, the manifest, the .vmfb of the only target, or their common stem; or the content of a .zip.
      sha256: the SHA-256 of the .zip, or of the manifest, which names those of the other files; None accepts any.
      max_bytes: the largest unpacked size of each file; None accepts any size of a file, and a plausible one of an archive.

    Raises:
      DeployError: there is no artifact, or its manifest is missing, damaged or of a newer release; or the SHA-256 differs, or a
        file is too large.
    """

    def __init__(self, path: str | os.PathLike[str] | bytes, sha256: str | None = None, max_bytes: int | None = None):
        """Finds the manifest of an artifact and reads it; the class describes the arguments and errors."""
        if not isinstance(path, (str, os.PathLike, bytes)):
            raise DeployError(
                f"load requires a path, or the bytes of an artifact, got {reprlib.repr(path)}.",
                where=user_frame(),
                help="for example nm.load('hvp.vmfb') or nm.load(compiled.to_bytes()).",
            )
        self._max_bytes = max_bytes
        self._content = path if isinstance(path, bytes) else None
        path = f"<{len(path)} bytes>.zip" if isinstance(path, bytes) else path
        self._named = os.fspath(path)
        self._path, self._stem = _path(path)
        if Path(path).is_dir() or self._path.suffix == ".zip":
            self._stem = self._only_stem()
        if sha256 is not None:
            self._check_content(sha256)
        self.manifest: Manifest = self._manifest()
        self._check_file()

    def vmfb(self, code: Code) -> bytes:
        """The code for one target. Raises DeployError if it is missing or damaged."""
        return self._checked_bytes(code.file, code.sha256, "load")

    def stablehlo(self) -> bytes:
        """The StableHLO as bytecode. Raises DeployError if it was not saved, is missing or damaged."""
        if not self.manifest.stablehlo:
            raise DeployError(f"lower requires the StableHLO of an artifact, got {self._stem}, which was saved without.")
        return self._checked_bytes(f"{self._stem}.mlirbc", self.manifest.stablehlo, "lower")

    def _check_file(self) -> None:
        """Raises DeployError if the user named a .vmfb that the manifest next to it does not have: another file would be loaded."""
        name = Path(self._named).name
        files = [code.file for code in self.manifest.code]
        if name.endswith(".vmfb") and name not in files:
            raise DeployError(
                f"load requires the manifest of {name}, got {self._stem}.json, which is that of {', '.join(files)}.",
                where=user_frame(),
                help="files of an artifact keep their names: copy them together, or use a .zip, which may have any name.",
            )

    def _check_content(self, sha256: str) -> None:
        """Raises DeployError if the archive, or the manifest of files in a folder, has another SHA-256 than this one."""
        is_archive = self._path.suffix == ".zip"
        if not is_archive:
            data = self._read(f"{self._stem}.json")
        else:
            data = self._content if self._content is not None else self._read_file(self._path)
        if data is not None and _sha256(data) != sha256.lower():
            name = self._path if is_archive else self._path / f"{self._stem}.json"
            raise DeployError(
                f"load requires {name} to have the SHA-256 {sha256}, got {_sha256(data)}.",
                help="it is another artifact, or was changed since: its code can do what the process can.",
            )

    def _manifest(self) -> Manifest:
        """The manifest of the artifact; raises if a file is missing or is no manifest."""
        name = f"{self._stem}.json"
        data = self._read(name)
        where = str(self._path / name)
        if data is None and self._read(f"{self._stem}.vmfb") is not None:
            raise DeployError(
                f"load requires the manifest next to the artifact, got {self._stem}.vmfb without {name}.",
                help=f"copy {name} too, or use Executable.load for a module without a manifest.",
            )
        if data is None:
            reason = "which is no artifact" if os.path.exists(self._named) else "which does not exist"
            raise DeployError(
                f"load requires an artifact, got {self._named}, {reason}.",
                where=user_frame(),
                help=f"an artifact is a .zip, or {self._stem}.vmfb with {name} next to it.",
            )
        try:
            return Manifest.from_json(data.decode(), where)
        except UnicodeDecodeError:
            raise DeployError(f"{where} requires the JSON of a manifest, got binary data.", help=SAVE_ANEW) from None

    def _only_stem(self) -> str:
        """The name, without ".json", of the only manifest in a folder or an archive; raises DeployError if there is not one."""
        try:
            stems = [name[:-5] for name in self._list_names() if name.endswith(".json")]
        except FileNotFoundError:
            raise DeployError(
                f"load requires an artifact, got {self._path}, which does not exist.", where=user_frame(), help="check the path."
            ) from None
        except _DAMAGE as error:
            raise DeployError(f"load requires an archive, got {self._path}: {error}.", help=SAVE_ANEW) from None
        if len(stems) != 1:
            names = ", ".join(f"{name}.json" for name in sorted(stems)) or "none"
            is_code = self._content is not None and not stems
            advice = "the bytes of an artifact are those of a .zip; a .vmfb needs its path." if is_code else "name the manifest."
            raise DeployError(f"load requires one manifest in {self._path}, got {names}.", help=advice)
        return stems[0]

    def _archive(self) -> Path | IO[bytes]:
        """The path of the archive, or its content as a file."""
        return self._path if self._content is None else io.BytesIO(self._content)

    def _list_names(self) -> list[str]:
        """The names of the files in the folder or the archive."""
        if self._path.suffix != ".zip":
            return os.listdir(self._path)
        with zipfile.ZipFile(self._archive()) as archive:
            return archive.namelist()

    def _read(self, name: str) -> bytes | None:
        """The bytes of a file of the artifact; None if it does not exist. Raises DeployError if the archive is damaged."""
        try:
            if self._path.suffix != ".zip":
                return self._read_file(self._path / name)
            with zipfile.ZipFile(self._archive()) as archive:
                self._check_size(archive.getinfo(name))
                return archive.read(name)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, KeyError):
            return None
        except NablaError:
            raise
        except _DAMAGE as error:
            raise DeployError(f"{self._path} requires a whole archive, got: {error}.", help=SAVE_ANEW) from None

    def _read_file(self, path: Path) -> bytes:
        """The content of a regular file; a pipe or a device is refused, because reading it might never end."""
        if path.exists() and not path.is_file():
            message = f"load requires files, got {path}, which is something else."
            raise DeployError(message, help="check the path, and where links lead.")
        self._check_bytes(path, path.stat().st_size)
        return path.read_bytes()

    def _check_bytes(self, name: object, size: int) -> None:
        """Raises DeployError if `size`, the bytes of the file `name`, is larger than the caller's `max_bytes`."""
        if self._max_bytes is not None and size > self._max_bytes:
            raise DeployError(f"load requires files of at most {self._max_bytes} bytes, as max_bytes says, got {size} in {name}.")

    def _check_size(self, entry: zipfile.ZipInfo) -> None:
        """Raises DeployError for an entry of an archive that would be too large after unpacking, or implausibly large."""
        self._check_bytes(entry.filename, entry.file_size)
        if entry.file_size > max(_LARGE, _MOST_COMPRESSED * entry.compress_size):
            raise DeployError(
                f"{self._path} requires entries of plausible sizes, got {entry.filename} of {entry.file_size} bytes in "
                f"{entry.compress_size}.",
                help="unpack it, if you trust it, and load the folder.",
            )

    def _checked_bytes(self, name: str, sha256: str, who: str) -> bytes:
        """The bytes of the file `name`; raises DeployError, as function `who`, if it is missing or its SHA-256 is not `sha256`."""
        if Path(name).name != name:
            raise DeployError(f"{who} requires files next to the manifest, got {name!r}.", help=SAVE_ANEW)
        data = self._read(name)
        if data is None:
            raise DeployError(f"{who} requires the file {self._path / name}, which does not exist.", help=SAVE_ANEW)
        if _sha256(data) != sha256:
            raise DeployError(
                f"{self._path / name} requires the content that its manifest names, got another SHA-256 ({len(data)} bytes).",
                help=f"the file is damaged or belongs to another manifest: {SAVE_ANEW}",
            )
        return data


def _path(path: str | os.PathLike[str], folder: bool = False) -> tuple[Path, str]:
    """The folder or the archive that holds the files of an artifact, and their common stem: "a/hvp.vmfb" -> ("a", "hvp").

    `folder` is True if the path is that of a folder, which may not exist.
    """
    path = Path(path)
    if path.suffix == ".zip":
        return path, path.stem
    if folder or path.is_dir():
        return path, path.resolve().name
    return path.parent, path.stem if path.suffix in _ENDINGS else path.name


def _files(stem: str, vmfbs: Sequence[bytes], manifest: Manifest, stablehlo: bytes) -> dict[str, bytes]:
    """The content of each file of an artifact by its name, "STEM.json" and so on.

    Args:
      stem: the part of the names that they share.
      vmfbs: the code for each target of the manifest.
      manifest: the manifest, without the names and checksums of the files, which are added.
      stablehlo: the bytecode of the module; empty if it is not saved.
    """
    codes = tuple(
        replace(code, file=name, sha256=_sha256(vmfb))
        for code, name, vmfb in zip(manifest.code, _names(stem, manifest.code), vmfbs, strict=True)
    )
    manifest = replace(manifest, code=codes, stablehlo=_sha256(stablehlo) if stablehlo else "")
    files = {code.file: vmfb for code, vmfb in zip(codes, vmfbs, strict=True)}
    return files | {f"{stem}.json": manifest.to_json().encode()} | ({f"{stem}.mlirbc": stablehlo} if stablehlo else {})


def _names(stem: str, codes: Sequence[Code]) -> list[str]:
    """The name of the file of each code, without folder.

    It is "STEM.vmfb" for one target, and "STEM.LABEL.vmfb" for several, with a number if labels are equal.
    """
    if len(codes) == 1:
        return [f"{stem}.vmfb"]
    labels = [code.label for code in codes]
    names = [f"{x}-{labels[: i + 1].count(x)}" if labels.count(x) > 1 else x for i, x in enumerate(labels)]
    return [f"{stem}.{name}.vmfb" for name in names]


def _write_archive(file: Path | IO[bytes], files: dict[str, bytes]) -> None:
    """Writes a .zip with these files, the content by name."""
    with zipfile.ZipFile(file, "w") as archive:  # uncompressed and dated 1980, so that equal content gives equal bytes
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def _sha256(data: bytes) -> str:
    """The SHA-256 of the data, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
