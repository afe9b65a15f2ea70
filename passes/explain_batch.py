"""An annotation: the mapped axes that each value carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.batch import ALL_GATHER, COLLECTIVES, NOT_CARRIED, REDUCTIONS, VmapOp, axis_of
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import blocks_of
from nabla_mlir.passes.base import Pass, register

RESULTS, ARGUMENTS = "batch.carries", "batch.arguments"
Carried = dict[ir.Value, tuple[str, ...]]


def _explain(block: ir.Block, carried: Carried, axes: tuple[str, ...], regional: tuple[str, ...]) -> None:
    """Annotates the operations of a block with the mapped axes of their results.

    Args:
      block: the block.
      carried: the axes of each value; the function adds the values of the block.
      axes: the axes of all maps around the block.
      regional: the axes that the operation around the block carries, for example by its other operands.
    """
    for op in (o.operation for o in block.operations):
        own = {axis for v in op.operands for axis in carried.get(v, ())} | set(regional)
        if op.name == VmapOp.name:
            _explain_map(op, carried, axes, own)
            continue
        for region in op.regions:
            for inner in region.blocks:
                carried.update((a, _ordered(own, axes)) for a in inner.arguments)
                _explain(inner, carried, axes, _ordered(own, axes))
                own |= {axis for o in inner.operations for v in o.operation.operands for axis in carried.get(v, ())}
        if op.name in COLLECTIVES:
            own = own - {axis_of(op)} if op.name in (*REDUCTIONS, ALL_GATHER) else own | {axis_of(op)}
        carried.update((r, _ordered(own, axes)) for r in op.results)
        if axes and len(op.results):
            op.attributes[RESULTS] = _lists([carried[r] for r in op.results])


def _explain_map(op: ir.Operation, carried: Carried, axes: tuple[str, ...], own: set[str]) -> None:
    """Writes the named axes of each argument of a map, and of the values inside, as attributes."""
    view = VmapOp(op)
    inside = (*axes, *view.axes)
    for argument, operand, positions in zip(view.arguments, op.operands, view.in_axes, strict=True):
        own_axes = [axis for axis, position in zip(view.axes, positions, strict=True) if position != NOT_CARRIED]
        carried[argument] = (*carried.get(operand, ()), *own_axes)
    op.attributes[ARGUMENTS] = _lists([carried[a] for a in view.arguments])
    _explain(view.block, carried, inside, ())
    # Outside the map its axes are ordinary axes.
    for result, value in zip(op.results, view.terminator.operands, strict=True):
        carried[result] = tuple(axis for axis in carried.get(value, ()) if axis not in view.axes)
    if axes:
        op.attributes[RESULTS] = _lists([carried[r] for r in op.results])


def _ordered(names: set[str], axes: tuple[str, ...]) -> tuple[str, ...]:
    """The names in the order of `axes`."""
    return tuple(axis for axis in axes if axis in names)


def _lists(values: list[tuple[str, ...]]) -> ir.Attribute:
    """An attribute with a list of strings for each value."""
    lists = [ir.ArrayAttr.get([ir.StringAttr.get(n, context()) for n in names], context()) for names in values]
    return ir.ArrayAttr.get(lists, context())


@register
@dataclass(frozen=True)
class ExplainBatchPass(Pass):
    """Annotate each value inside a `batch.vmap` with the axes that it carries.

    An operation gets `batch.carries`, a list of names for each of its results. A map gets `batch.arguments`, a list for each
    argument of its body. Nothing else changes. `nabla-opt --explain-batch` runs the pass before it prints.

    Example: tests/filecheck/passes/explain_batch.mlir
    """

    name: ClassVar[str] = "nabla-explain-batch"

    def run(self, module: ir.Operation) -> None:
        for block in blocks_of(module):
            _explain(block, {}, (), ())
