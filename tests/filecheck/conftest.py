"""Every .mlir file is a pytest item; lit runs once, for all of the chosen ones."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent
RESULTS = pytest.StashKey[dict[str, dict[str, Any]]]()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return LitFile.from_parent(parent, path=file_path) if file_path.suffix == ".mlir" else None


class LitFile(pytest.File):
    def collect(self) -> list[pytest.Item]:
        # One name in front of all, by which pytest-xdist keeps them in one process: lit runs them side by side itself.
        name = f"tests/filecheck::{self.path.relative_to(FOLDER).as_posix()}"
        return [LitItem.from_parent(self, name="lit", nodeid=name)]


class LitItem(pytest.Item):
    def runtest(self) -> None:
        if RESULTS not in self.session.stash:
            chosen = [item.path for item in self.session.items if isinstance(item, LitItem)]
            self.session.stash[RESULTS] = run_lit(chosen)
        result = self.session.stash[RESULTS].get(self.path.relative_to(FOLDER).as_posix())
        if result is None or result["code"] != "PASS":
            raise LitError("lit did not run this file" if result is None else result["output"])

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, LitError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"filecheck {self.path.relative_to(FOLDER)}"


class LitError(Exception):
    pass


@contextlib.contextmanager
def warm(address: Path) -> Iterator[Path]:
    """The tools in a warm process, for as long as it lasts."""
    command = [sys.executable, str(FOLDER / "warm.py"), "serve", str(address)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield address
        finally:
            server.kill()


def run_lit(files: list[Path]) -> dict[str, dict[str, Any]]:
    """The results of lit by the path of the test in this folder."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "results.json"
        lit = "from lit.main import main; main()"  # the module cannot be run with -m
        command = [sys.executable, "-c", lit, "-q", "-o", str(output), *map(str, files)]
        with warm(Path(folder) / "warm") as address:
            environment = {**os.environ, "NABLA_MLIR_WARM": str(address)}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if not output.exists():
            raise LitError(f"lit failed:\n{done.stdout}{done.stderr}")
        tests = json.loads(output.read_text())["tests"]
    return {test["name"].partition(" :: ")[2]: test for test in tests}
