"""Values that IREE must not compute in one dispatch with their readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, stored
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.traits import is_elementwise, is_reduction, is_view, moved

Positions = tuple[int, ...]


@register
@dataclass(frozen=True)
class SeparateUsesPass(Pass):
    """Put a barrier after each sum that is broadcast along different dimensions: ``s[:, None] + s[None, :]``.

    IREE 3.13 computes such a sum inside the operation that reads it, for the rows of each workgroup. It reads the columns, which
    that workgroup has not computed, from memory with other values: wrong numbers, silently, from about 64 elements on. Pairwise
    distances are one case: ``|x|² + |y|² - 2 x·y``.

    Example: tests/filecheck/passes/separate_uses.mlir
    """

    name: ClassVar[str] = "nabla-separate-uses"

    def run(self, module: ir.Operation) -> None:
        """Adds barriers after sums that are broadcast along different dimensions."""
        for op in nested_in_functions(module):
            if is_reduction(op):
                for result in op.results:
                    if len(positions_of_broadcasts(result)) > 1:
                        store_before_uses(op, result)


def store_before_uses(op: ir.Operation, value: ir.Value) -> None:
    """Materialises a result of `op`, so that no reader is computed in the dispatch of `op`."""
    users = [(use.owner.operation, use.operand_number) for use in value.uses]
    with ir.InsertionPoint.after(op), op.location:
        copy = stored(Val(value)).value
    for user, i in users:
        user.operands[i] = copy


def positions_of_broadcasts(value: ir.Value) -> set[Positions]:
    """A set with a tuple for each broadcast of a value: the dimensions to which it maps the dimensions of the value.

    Dimensions are counted from the end. Broadcasts of values that IREE fuses with this value count, too.
    """
    positions: set[Positions] = set()
    sizes = _sizes(value)
    seen, work = {value}, [value]
    while work:
        for use in work.pop().uses:
            user = use.owner.operation
            if len(user.results) != 1 or is_reduction(user):
                continue
            if user.name == "stablehlo.broadcast_in_dim":
                positions.add(_of_broadcast(user))
            elif moved(user) and not is_view(user) and not is_elementwise(user):
                continue  # a copy
            elif user.results[0] not in seen and _sizes(user.results[0]) == sizes:  # not a broadcast
                seen.add(user.results[0])
                work.append(user.results[0])
    return positions


def _of_broadcast(op: ir.Operation) -> Positions:
    """The dimensions of a broadcast, counted from the end, along which the dimensions of its operand run, without size 1."""
    dims = I64Array.decode(op.attributes["broadcast_dimensions"])
    rank = len(op.results[0].type.shape)
    # Counted from the end, so that additional leading dimensions make no difference.
    return tuple(d - rank for d, n in zip(dims, op.operands[0].type.shape, strict=True) if n != 1)


def _sizes(value: ir.Value) -> list[int]:
    """The sizes of the dimensions of a value, without those of size 1."""
    return [n for n in value.type.shape if n != 1]
