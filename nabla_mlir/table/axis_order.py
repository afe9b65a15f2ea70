"""The order of named axes in results. Named axes are the batch axes of vectorised tensors, which users name.

A result has the axes of all values from which it is computed, in the order in which operations read these values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.stablehlo import I64Array

Names = list[str]
# An attribute of a selection that replaces elements at indices out of range: the axes of its values come before those of its
# mask.
IS_FILL = "is_fill"


def met(groups: Iterable[Sequence[str]]) -> Names:
    """All names, in the order of first appearance."""
    return list(dict.fromkeys(itertools.chain(*groups)))


def orders_of_results(block: ir.Block, arguments: Sequence[Sequence[str]]) -> list[Names]:
    """The named axes of each value that a block returns, in the order in which the operations of the block read these axes.

    Args:
      block: the block.
      arguments: the named axes of each argument of the block.
    """
    orders = {argument: list(names) for argument, names in zip(block.arguments, arguments, strict=True)}
    return _follow_block(block, orders)


def _follow_block(block: ir.Block, orders: dict[ir.Value, Names]) -> list[Names]:
    """The named axes of the values that a block returns; `orders` gets the axes of the results of all its operations."""
    *ops, terminator = (op.operation for op in block.operations)
    for op in ops:
        operands = [*op.operands][::-1] if IS_FILL in op.attributes else op.operands
        of_operands = met(orders.get(x, []) for x in operands)
        if _combines_elements(op):
            orders |= dict.fromkeys(op.results, of_operands)
            continue
        of_captures = met(orders.get(x, []) for inner in nested(op) for x in inner.operands) if len(op.regions) else []
        inner = [_through_region(op, region, orders) for region in op.regions if len(region.blocks)]
        # The regions of a choice have no arguments: the axes of its index come first.
        is_choice = all(not len(region.blocks[0].arguments) for region in op.regions if len(region.blocks))
        for i, result in enumerate(op.results):
            names_of_regions = [_axes_from_region(op, i, names) for names in inner]
            if op.name == "stablehlo.while":  # the axes of its initial value come first, then those of captures
                order = met([orders.get(op.operands[i], []), *names_of_regions])
                orders[result] = [name for name in met([of_operands, of_captures, *names_of_regions]) if name in order]
            else:
                orders[result] = met([of_operands, *names_of_regions] if is_choice else [*names_of_regions, of_operands])
    return [orders.get(x, []) for x in terminator.operands]


def _combines_elements(op: ir.Operation) -> bool:
    """True if the arguments of a region are elements of the operands, as in a reduction, and not the operands."""
    blocks = [region.blocks[0] for region in op.regions if len(region.blocks)]
    return op.name.startswith("stablehlo.") and any(
        len(block.arguments) and [x.type for x in block.arguments] != [x.type for x in op.operands] for block in blocks
    )


def _axes_from_region(op: ir.Operation, i: int, names: list[Names]) -> Names:
    """The named axes that result `i` of `op` gets from a region that returns values with the axes `names`.

    A result of a derivative beyond these values is a tangent or cotangent: its axes are those of the values at `of`.
    """
    if i < len(names):
        return names[i]
    differentiated = I64Array.decode(op.attributes["of"]) if "of" in op.attributes else range(len(names))
    if op.name == "ad.jvp":
        return names[differentiated[i - len(names)]]
    return met(names[k] for k in differentiated)


def _through_region(op: ir.Operation, region: ir.Region, orders: dict[ir.Value, Names]) -> list[Names]:
    """The named axes of the values that a region returns, if its arguments are the operands of `op`; `orders` has those of known
    values.

    The body of a loop is followed until no axis is added.
    """
    block = region.blocks[0]
    carry = [orders.get(x, []) for x in op.operands]
    carry += [[]] * (len(block.arguments) - len(carry))  # arguments that are no operands have no named axes
    while True:
        orders |= dict(zip(block.arguments, carry, strict=False))
        results = _follow_block(block, orders)
        if op.name != "stablehlo.while" or len(results) != len(carry):
            return results
        wider = [met(pair) for pair in zip(carry, results, strict=True)]
        if wider == carry:
            return carry
        carry = wider
