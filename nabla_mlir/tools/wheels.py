"""python -m nabla_mlir.tools.wheels FOLDER: two wheels of one source tree.

`nabla-mlir-runtime` contains all files and requires only the dependencies of artifacts, NumPy and IREE's runtime.
`nabla-mlir` contains no files: it requires the first wheel, the compiler, and the other dependencies of tracing; it has
the extras. With either wheel, each file is installed once.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

from nabla_mlir.base.errors import NablaError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "nabla_mlir")
RUNTIME = ("numpy", "iree-base-runtime")  # the imports of the rooms that artifacts need
COMMAND = "nabla-mlir"  # this command also runs and verifies artifacts; other commands need the compiler


def build(folder: Path) -> tuple[Path, Path]:
    """Writes the wheel of the runtime, and the wheel that requires it and the compiler.

    Args:
      folder: the folder for the wheels.

    Raises:
      NablaError: the source tree is missing, or setuptools or wheel is not installed.

    Example:
      >>> from pathlib import Path
      >>> runtime, whole = build(Path("dist"))  # doctest: +SKIP
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        return _divided(_built(Path(directory)), folder)


def _built(directory: Path) -> Path:
    """The path of the ordinary wheel, built from a copy of the source tree; raises NablaError if the source tree or a tool for
    building is missing.

    setuptools would leave folders in the tree, and would read older ones.
    """
    if not (ROOT / "pyproject.toml").exists():
        raise NablaError(f"wheels requires the source tree, got {ROOT}, which has no pyproject.toml.", help="clone the repository.")
    tree = directory / "tree"
    tree.mkdir()
    for name in SOURCES:
        source = ROOT / name
        copy = shutil.copy if source.is_file() else lambda a, b: shutil.copytree(a, b, ignore=shutil.ignore_patterns("__pycache__"))
        copy(source, tree / name)
    command = f"from setuptools import build_meta; build_meta.build_wheel({str(directory)!r})"
    result = subprocess.run([sys.executable, "-c", command], cwd=tree, capture_output=True, text=True)
    if result.returncode:
        reason = result.stderr.strip().splitlines()[-1]
        raise NablaError(f"wheels requires setuptools and wheel, got: {reason}", help="pip install 'setuptools>=77' wheel")
    return next(directory.glob("*.whl"))


def _divided(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """The paths of the two wheels, written from an ordinary wheel."""
    name, version, *tags = wheel.stem.split("-")
    with ZipFile(wheel) as archive:
        files = {n: archive.read(n) for n in archive.namelist() if not n.endswith("/RECORD")}
    about = f"{name}-{version}.dist-info/"
    package = {n: content for n, content in files.items() if not n.startswith(about)}
    head = {n.removeprefix(about): content for n, content in files.items() if n.startswith(about)}
    metadata, commands = head["METADATA"], head["entry_points.txt"].decode()
    requirements = message_from_bytes(metadata).get_all("Requires-Dist", [])
    ours = [line for line in requirements if _name(line) in RUNTIME and "extra ==" not in line]
    others = [f"nabla-mlir-runtime=={version}", *(line for line in requirements if line not in ours)]

    def half(suffix: str, content: dict[str, bytes], needs: list[str]) -> Path:
        """The path of one wheel with this suffix, content and requirements."""
        lines = [line for line in commands.splitlines() if "=" not in line or (line.split()[0] == COMMAND) == bool(content)]
        new = head | {"METADATA": _about(metadata, f"nabla-mlir{suffix}", needs), "entry_points.txt": "\n".join(lines).encode()}
        new["top_level.txt"] = head["top_level.txt"] if content else b""
        stem = f"{name}{suffix.replace('-', '_')}-{version}"
        return _written(folder / f"{'-'.join([stem, *tags])}.whl", content, f"{stem}.dist-info/", new)

    return half("-runtime", package, ours), half("", {}, others)


def _written(path: Path, content: dict[str, bytes], about: str, head: dict[str, bytes]) -> Path:
    """The path of a wheel, which is written with its record of checksums.

    `content` maps the names of files to their bytes; `head` has the files of the folder `about`, which describe the wheel.
    """
    from wheel.wheelfile import WheelFile

    path.unlink(missing_ok=True)
    with WheelFile(path, "w") as archive:
        for name, data in {**content, **{about + name: data for name, data in head.items()}}.items():
            archive.writestr(name, data)
    return path


def _about(metadata: bytes, name: str, requirements: Sequence[str]) -> bytes:
    """The metadata of a wheel with another name and other requirements."""
    message: Message = message_from_bytes(metadata)
    message.replace_header("Name", name)
    del message["Requires-Dist"]
    if name.endswith("-runtime"):
        del message["Provides-Extra"]
    for line in requirements:
        message["Requires-Dist"] = line
    return message.as_bytes()


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def main() -> int:
    """Builds the wheels in the folder of the command line, and prints their sizes; returns the exit code, 1 after an error."""
    parser = argparse.ArgumentParser(prog="python -m nabla_mlir.tools.wheels", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("dist"), help="where the wheels go (default: dist)")
    try:
        paths = build(parser.parse_args().folder)
    except NablaError as error:
        print(f"wheels: error: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(f"{path}  {path.stat().st_size / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
