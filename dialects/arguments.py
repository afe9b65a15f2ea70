"""Attributes of function arguments for IREE's ABI: donated arguments, and memory for results."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

DONATED, OUTPUT = "iree.abi.consume", "iree.abi.output"  # donated, or memory for a result


def attribute_of(function: ir.Operation, i: int, name: str) -> ir.Attribute | None:
    """The attribute `name` of argument `i` of a function, or None."""
    if "arg_attrs" not in function.attributes:
        return None
    attributes = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[i])
    return next((pair.attr for pair in attributes if pair.name == name), None)


def is_writable(function: ir.Operation, i: int) -> bool:
    """True if a call may write to an argument: it is donated, or it is memory for a result."""
    return any(attribute_of(function, i, name) is not None for name in (DONATED, OUTPUT))


def mark_donated(function: ir.Operation, positions: Sequence[int]) -> None:
    """Marks the arguments of `function` at these positions, and no others, as donated by the caller."""
    count = len(function.regions[0].blocks[0].arguments)
    with function.context:
        marks = [ir.DictAttr.get({DONATED: ir.UnitAttr.get()} if i in positions else {}) for i in range(count)]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
