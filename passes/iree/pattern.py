"""Patterns: functions that rewrite one operation, registered by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes import patterns as table
from nabla_mlir.targets import Codegen

Target = Codegen  # the properties of the target that patterns get
Replacement = Val | Sequence[Val] | None
Pattern = Callable[[ir.Operation, Target], Replacement]


class Patterns(table.Patterns[Pattern]):
    """Patterns of operations that IREE does not compile rightly for a target.

    A pattern is called with the insertion point before the operation. It returns the values that replace the results, or None if
    IREE compiles this operation rightly for the target. Its docstring states the new form, and the fault of IREE that needs it.
    """


def operands(op: ir.Operation) -> list[Val]:
    """The operands of the operation as `Val`."""
    return [Val(v) for v in op.operands]


def on_signed_numbers(op: ir.Operation) -> Replacement:
    """An operation that moves or sums unsigned numbers, on signed numbers with the same bits; None for other numbers."""
    result = Val(op.results[0])
    if result.dtype.kind != "u":
        return None
    values = [b.bitcast(v, f"i{v.dtype.itemsize}") for v in operands(op)]
    signed = b.make(op.name, values, [b.like(result, f"i{result.dtype.itemsize}")], attributes_of(op)).results[0]
    return b.bitcast(Val(signed), result.dtype)


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes of the operation by name."""
    return {name: op.attributes[name] for name in op.attributes}
