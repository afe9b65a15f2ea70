"""The reference of errors: each class, what its messages require, and the repair that they name, read from the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("nabla_mlir", "passes", "dialects")


def messages() -> dict[str, list[tuple[str, str]]]:
    """For each class of error its messages with their repairs, "" where the message says it all; values are dots."""
    found: dict[str, set[tuple[str, str]]] = {}
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, message, repair in _raised(ast.parse(path.read_text())):
                found.setdefault(name, set()).add((message, repair))
    return {name: sorted(own) for name, own in found.items()}


def _raised(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    texts = {t.id: n.value for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error") and node.args:
            message = _words(node.args[0], texts)
            if "requires" in message:
                repair = next((_words(k.value, texts) for k in node.keywords if k.arg == "help"), "")
                yield node.func.id, message, repair


def _words(node: ast.AST, texts: dict[str, ast.expr]) -> str:
    """The text of a string whose values are dots; "" for what is not written where it is raised, or in its module."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        case ast.BinOp(op=ast.Add()):
            return _words(node.left, texts) + (_words(node.right, texts) or "…")
        case ast.Name() if node.id in texts:
            return _words(texts[node.id], {})
    return ""


def table(rows: list[tuple[str, str]]) -> str:
    """Messages and repairs as a table of Markdown."""
    if not rows:
        return ""
    cells = [tuple(_cell(text) for text in row) for row in rows]
    return "| message | what to do |\n|---|---|\n" + "".join(f"| {a} | {b} |\n" for a, b in cells) + "\n"


def _cell(text: str) -> str:
    for mark in "\\`*_<>[]|$#{}":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
