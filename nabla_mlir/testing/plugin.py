"""Lets pytest run .mlir files with RUN lines; lit runs once for all selected files, with the tools in a warm process.

Import this function in a conftest.py in the folder of the files, next to a lit.cfg.py
(`nabla_mlir.testing.lit_config`):

    from nabla_mlir.testing.plugin import pytest_collect_file
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nabla_mlir.testing.lit_config import WARM

_RESULTS = pytest.StashKey[dict[str, dict[str, Any]]]()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A collector for an .mlir file with RUN lines, which is one test; None for other files. pytest calls this function."""
    if file_path.suffix != ".mlir" or "RUN:" not in file_path.read_text():
        return None
    return LitFile.from_parent(parent, path=file_path)


class LitFile(pytest.File):
    """A file that lit runs."""

    def collect(self) -> list[pytest.Item]:
        """The list of the one test of the file."""
        # One common prefix keeps them in one process of pytest-xdist, because lit runs them in parallel itself.
        suite = os.path.relpath(_suite(self.path), self.config.rootpath)
        return [LitItem.from_parent(self, name="lit", nodeid=f"{suite}::{_name(self.path)}")]


class LitItem(pytest.Item):
    """The test of one file."""

    def runtest(self) -> None:
        """Runs lit on all selected files at the first call, and reports the result of this file."""
        if _RESULTS not in self.session.stash:
            files = [item.path for item in self.session.items if isinstance(item, LitItem)]
            self.session.stash[_RESULTS] = run_lit(files)
        result = self.session.stash[_RESULTS].get(_name(self.path))
        if result is None or result["code"] not in ("PASS", "XFAIL"):
            raise LitError("lit did not run this file" if result is None else result["output"])

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The output of lit."""
        return str(excinfo.value) if isinstance(excinfo.value, LitError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The file."""
        return self.path, None, f"lit {self.path.name}"


class LitError(Exception):
    """A file failed; the error contains the output of lit."""


def _suite(path: Path) -> Path:
    """The folder of the lit.cfg.py that a file belongs to; raises LitError if there is none."""
    for folder in path.resolve().parents:
        if (folder / "lit.cfg.py").exists():
            return folder
    raise LitError(f"{path} requires a lit.cfg.py in a folder above it: see nabla_mlir.testing.lit_config.")


def _name(path: Path) -> str:
    """The name of a file in lit, within its suite."""
    return path.resolve().relative_to(_suite(path)).as_posix()


@contextlib.contextmanager
def warm(address: Path) -> Iterator[Path]:
    """A context in which the tools run in a warm process, which listens at an address."""
    command = [sys.executable, str(Path(__file__).with_name("warm.py")), "serve", str(address)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield address
        finally:
            server.kill()


def run_lit(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """The result of lit for each file, by its name within the suite; raises LitError if lit fails."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "results.json"
        lit = "from lit.main import main; main()"  # the module cannot be run with -m
        command = [sys.executable, "-c", lit, "-q", "-o", str(output), *map(str, files)]
        with warm(Path(folder) / "warm") as address:
            environment = {**os.environ, WARM: str(address), "NABLA_MLIR_LIT_OUTPUT": str(Path(folder) / "output")}
            process = subprocess.run(command, capture_output=True, text=True, env=environment)
        if not output.exists():
            raise LitError(f"lit failed:\n{process.stdout}{process.stderr}")
        tests = json.loads(output.read_text())["tests"]
    return {test["name"].partition(" :: ")[2]: test for test in tests}
