"""What IREE's ABI is told of the arguments of functions."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

DONATED, OUTPUT = "iree.abi.consume", "iree.abi.output"  # given away, or memory for a result


def attribute_of(function: ir.Operation, i: int, name: str) -> ir.Attribute | None:
    """What argument `i` of a function says under a name, or None."""
    if "arg_attrs" not in function.attributes:
        return None
    attributes = ir.DictAttr(ir.ArrayAttr(function.attributes["arg_attrs"])[i])
    return next((pair.attr for pair in attributes if pair.name == name), None)


def is_writable(function: ir.Operation, i: int) -> bool:
    """Whether a call may write to an argument: the caller gave it away, or it is memory for a result."""
    return any(attribute_of(function, i, name) is not None for name in (DONATED, OUTPUT))


def give_away(function: ir.Operation, places: Sequence[int]) -> None:
    """Says of these arguments, and of no other, that the caller gives them away."""
    count = len(function.regions[0].blocks[0].arguments)
    with function.context:
        marks = [ir.DictAttr.get({DONATED: ir.UnitAttr.get()} if i in places else {}) for i in range(count)]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
