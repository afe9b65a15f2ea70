"""The order in which the operations of a block meet named axes: that of their operands, as operation by operation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.stablehlo import I64Array

Names = list[str]


def met(groups: Iterable[Sequence[str]]) -> Names:
    """All names in order of first appearance."""
    return list(dict.fromkeys(itertools.chain(*groups)))


def orders_of_results(block: ir.Block, arguments: Sequence[Sequence[str]]) -> list[Names]:
    """For each value that a block returns, the axes it depends on; the arguments carry those given."""
    known = {argument: list(names) for argument, names in zip(block.arguments, arguments, strict=True)}
    return _through(block, known)


def _through(block: ir.Block, known: dict[ir.Value, Names]) -> list[Names]:
    *ops, terminator = (op.operation for op in block.operations)
    for op in ops:
        given = met(known.get(x, []) for x in op.operands)
        captured = met(known.get(x, []) for inner in nested(op) for x in inner.operands) if len(op.regions) else []
        inner = [_through_region(op, region, known) for region in op.regions if len(region.blocks)]
        # The regions of a choice take no arguments: what it chooses by comes first.
        chosen = all(not len(region.blocks[0].arguments) for region in op.regions if len(region.blocks))
        for i, result in enumerate(op.results):
            own = [_of_result(op, i, names) for names in inner]
            if op.name == "stablehlo.while":  # what it starts with comes first, then what it reads
                found = met([known.get(op.operands[i], []), *own])
                known[result] = [name for name in met([given, captured, *own]) if name in found]
            else:
                known[result] = met([given, *own] if chosen else [*own, given])
    return [known.get(x, []) for x in terminator.operands]


def _of_result(op: ir.Operation, i: int, returned: list[Names]) -> Names:
    """What the i-th result has from a region: what that returns there, or, for derivatives and a sort, from all of it."""
    if i < len(returned):
        return returned[i]
    of = I64Array.decode(op.attributes["of"]) if "of" in op.attributes else range(len(returned))
    if op.name == "ad.jvp":
        return returned[of[i - len(returned)]]
    return met(returned[k] for k in of)


def _through_region(op: ir.Operation, region: ir.Region, known: dict[ir.Value, Names]) -> list[Names]:
    """What a region returns, its arguments being the operands in order; a loop is followed until nothing is added."""
    block = region.blocks[0]
    carried = [known.get(x, []) for x in op.operands]
    carried += [[]] * (len(block.arguments) - len(carried))
    while True:
        known |= dict(zip(block.arguments, carried, strict=False))
        found = _through(block, known)
        if op.name != "stablehlo.while" or len(found) != len(carried):
            return found
        wider = [met(pair) for pair in zip(carried, found, strict=True)]
        if wider == carried:
            return carried
        carried = wider
