"""What a legalisation pattern is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val

Target = str  # a name of nabla_mlir.targets
Replacement = Val | Sequence[Val] | None
Pattern = Callable[[ir.Operation, Target], Replacement]
PATTERNS: dict[str, list[Pattern]] = {}
P = TypeVar("P", bound=Pattern)


def pattern(*names: str) -> Callable[[P], P]:
    """Registers a function as the pattern of the named operations.

    It is called with the insertion point before the operation and returns the values that replace its results, or
    None if IREE does this operation right on this target. Its docstring names the fact about IREE that it answers.
    """

    def register(function: P) -> P:
        for name in names:
            PATTERNS.setdefault(name, []).append(function)
        return function

    return register


def operands(op: ir.Operation) -> list[Val]:
    """The operands, wrapped."""
    return [Val(v) for v in op.operands]


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes by name."""
    return {name: op.attributes[name] for name in op.attributes}
