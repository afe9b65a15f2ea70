"""Formats inside of IREE have one address in passes/ and one in compiling/: its table is whole, and nothing else knows them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import iree.compiler.version
import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("nabla_mlir/compiling/internals", "passes/iree/internals")
SOURCES = sorted(p for folder in ("nabla_mlir", "dialects", "passes") for p in (ROOT / folder).rglob("*.py"))
OTHERS = [p for p in SOURCES if "internals" not in p.parts]
# The readers of bytes, of the FlatBuffer and of disassembled text: other files use what is built on them.
READERS = ("archive", "disassembly", "executables", "c_scalars")
# Operations and attributes of dialects that IREE does not document as its input. `util.global` is state, and documented.
INNER = re.compile(r"\b(hal|flow|stream|vm|iree_codegen|iree_cpu|iree_linalg_ext|util\.optimization_barrier)\b[.:<]?\w")
DESCRIBING = [ROOT / "nabla_mlir/targets/gpu.py"]  # a GPU as an attribute, the only form in which IREE takes its limits
COLUMNS = ["file", "depends on", "IREE", "buys", "test"]


def rows(folder: str) -> list[list[str]]:
    """The rows of the table in the docstring of a folder."""
    text = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""
    lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    assert lines[0] == COLUMNS
    return lines[1:]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_file_has_a_row(folder: str) -> None:
    files = sorted(path.name for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py")
    assert [row[0] for row in rows(folder)] == files


@pytest.mark.parametrize("row", [row for folder in FOLDERS for row in rows(folder)], ids=lambda row: row[0])
def test_a_row_is_whole(row: list[str]) -> None:
    assert len(row) == len(COLUMNS)
    assert all(row)
    _, _, version, buys, test = row
    assert iree.compiler.version.VERSION.startswith(f"{version}."), f"{row[0]} was written for IREE {version}: check it"
    assert re.search(r"\d+ %|^feature|^correctness|^loops that do not compile|\.py$|kernels/$", buys), f"{buys} is not measured"
    path, _, name = test.partition("::")
    functions = [node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)]
    assert name in functions, f"{test} does not exist"


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_else_reads_bytes_or_disassembled_text(path: Path) -> None:
    readers = {f"nabla_mlir.compiling.internals.{name}" for name in READERS}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            assert not modules & readers, f"{path.name}:{node.lineno}"


def texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The texts of a file that are not docstrings."""
    bodies = [n.body for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    docstrings = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value, node.lineno


@pytest.mark.parametrize("path", [p for p in OTHERS if p not in DESCRIBING], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_else_names_inner_operations(path: Path) -> None:
    found = [f"{path.name}:{line}: {text[:60]}" for text, line in texts(ast.parse(path.read_text())) if INNER.search(text)]
    assert not found, "\n".join(found)


def test_inner_operations_are_found() -> None:
    tree = ast.parse('"""About hal.buffer."""\nx = f"%a = hal.interface.id[{n}]"\ny = "util.global"\nz = "flow.dispatch"')
    assert {line for text, line in texts(tree) if INNER.search(text)} == {2, 4}
