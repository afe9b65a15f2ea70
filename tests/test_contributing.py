"""What CONTRIBUTING.md tells to write works: its examples run in order, as the files that they say they are."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.passes.base import PASSES
from nabla_mlir.passes.iree.math.legalize_math import LegalizeMathPass
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.targets import TARGETS
from nabla_mlir.tools import opt

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = [(part.partition("\n")[0], re.findall(r"^```(\w+)\n(.*?)^```$", part, re.M | re.S)) for part in TEXT.split("\n## ")[1:]]
EXAMPLES = [(title, blocks) for title, blocks in BLOCKS if title.startswith("Add ")]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    tables: list[dict[str, Any]] = [REGISTRY, PASSES, TARGETS, LegalizeMathPass.patterns.by_name]
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


def file_of(code: str) -> Path | None:
    """The file that a block begins with the name of."""
    named = re.match(r"(?:#|//) ([\w/]+\.\w+)\n", code)
    return ROOT / named[1] if named else None


def new_module(path: Path, code: str, folder: Path) -> ModuleType:
    """The module that a file with the code would be."""
    copy = folder / path.name
    copy.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run_python(code: str, names: dict[str, Any], folder: Path) -> None:
    path = file_of(code)
    if path is None:
        test = doctest.DocTestParser().get_doctest(code, names, "CONTRIBUTING.md", None, 0)
        report: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append, clear_globs=False)
        assert not report, "".join(report)
    elif path.exists():  # added to a file that is there: with its names
        parts = path.relative_to(ROOT).with_suffix("").parts
        home = ".".join(parts if parts[0] == "nabla_mlir" else ("nabla_mlir", *parts)).removesuffix(".__init__")
        inside = dict(vars(importlib.import_module(home))) | names | {"PATTERNS": LegalizeMathPass.patterns}
        before = set(inside)
        exec(compile(f"from __future__ import annotations\n{code}", str(path), "exec"), inside)
        names |= {name: inside[name] for name in set(inside) - before}
    else:
        names |= {name: value for name, value in vars(new_module(path, code, folder)).items() if name[0] != "_"}


def run_mlir(code: str, folder: Path) -> None:
    """As lit would, but where the passes of this process are known."""
    path = file_of(code)
    assert path is not None
    assert not path.exists()
    (folder / path.name).write_text(code)
    command = re.search(r"// RUN: nabla-opt %s (.*) \| filecheck %s", code)
    assert command is not None
    output = folder / "out.mlir"
    assert opt.main([str(folder / path.name), *command[1].split(), "-o", str(output)]) == 0
    check = [sys.executable, "-m", "filecheck", "--enable-var-scope", str(folder / path.name)]
    subprocess.run(check, input=output.read_text(), text=True, check=True)


@pytest.mark.parametrize(("title", "blocks"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_examples(title: str, blocks: list[tuple[str, str]], tmp_path: Path) -> None:
    names: dict[str, Any] = {"nm": nm, "nnp": nm.numpy, "np": np}
    for kind, code in blocks:
        if kind == "python":
            run_python(code, names, tmp_path)
        elif kind == "mlir":
            run_mlir(code, tmp_path)


COMMANDS = [line for _, blocks in BLOCKS for kind, code in blocks if kind == "sh" for line in code.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in dict.fromkeys(COMMANDS) if not c.startswith("make ")])
def test_commands(command: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(command, shell=True, check=True, cwd=ROOT, env=os.environ | {"PATH": path})


def test_what_is_named_exists() -> None:
    text = re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", text) + re.findall(r"`((?:[\w.]+/)+[\w.]*)`", text):
        assert (ROOT / path).exists(), path
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {c.split()[1] for c in COMMANDS if c.startswith("make ")} <= set(targets)
    for kind in ("operation", "pass", "target", "NumPy function"):
        assert any(title.endswith(kind) for title, _ in EXAMPLES)


def test_changes_have_names_that_towncrier_reads() -> None:
    kinds = {kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]}
    for path in (ROOT / "docs/changes").iterdir():
        _, kind, ending = path.name.rsplit(".", 2) if path.name != "README.md" else ("", "added", "md")
        assert kind in kinds, path.name
        assert ending == "md", path.name
