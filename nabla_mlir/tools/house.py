"""The plan of the house: its rooms from the bottom up, which tests/test_architecture.py checks, and a picture of them."""

from __future__ import annotations

import ast
from pathlib import Path

# A room imports only from earlier rooms. "" is the package itself, which exports the public names.
ROOMS = (
    "base",
    "targets",
    "runtime",
    "sparsity",
    "dialects",
    "table",
    "ops",
    "rules",
    "passes",
    "interpreter",
    "compiling",
    "staging",
    "transforms",
    "numpy",
    "random",
    "nn",
    "jax",
    "sparse",
    "prepared",
    "interop",
    "distributed",
    "explorer",
    "",
    "tools",
    "testing",
)
# Rooms that run where neither the compiler nor optree is installed.
DEPLOYED = ("base", "targets", "runtime")
_AT_TOP = ("dialects", "passes")  # folders next to nabla_mlir/


def picture(root: Path) -> str:
    """A text with the rooms from the top down, each with the first sentence of its docstring.

    Args:
      root: the folder of the checkout.
    """
    width = max(map(len, ROOMS)) + 2
    lines = []
    for room in reversed(ROOMS):
        if room == DEPLOYED[-1]:
            lines.append("-" * width + " the rooms below are deployed: they need only NumPy and iree-base-runtime")
        lines.append(f"{room or 'nabla_mlir':{width}} {_sentence(root, room)}")
    return "\n".join(lines)


def _sentence(root: Path, room: str) -> str:
    """The first sentence of the docstring of a room."""
    home = root / room if room in _AT_TOP else root / "nabla_mlir" / room
    path = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".")
