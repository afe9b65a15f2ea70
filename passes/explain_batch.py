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
    """Writes the mapped axes that each result carries on the operations of a block, as the attribute `batch.carries`.

    For x with the axis "i", ``%y = stablehlo.sine %x`` becomes ``%y = stablehlo.sine %x {batch.carries = [["i"]]}``.

    Args:
      block: the block.
      carried: the names of the axes of each value; the function adds the values of the block.
      axes: the names of the axes of all maps around the block, the outermost first.
      regional: the axes of the operation around the block, such as those of a predicate: all values inside carry them, too.
    """
    for op in (o.operation for o in block.operations):
        names = {axis for v in op.operands for axis in carried.get(v, ())} | set(regional)
        if op.name == VmapOp.name:
            _explain_map(op, carried, axes)
            continue
        for region in op.regions:
            for inner in region.blocks:
                carried.update((a, _ordered(names, axes)) for a in inner.arguments)
                _explain(inner, carried, axes, _ordered(names, axes))
                names |= {axis for o in inner.operations for v in o.operation.operands for axis in carried.get(v, ())}
        if op.name in COLLECTIVES:
            names = names - {axis_of(op)} if op.name in (*REDUCTIONS, ALL_GATHER) else names | {axis_of(op)}
        carried.update((r, _ordered(names, axes)) for r in op.results)
        if axes and len(op.results):
            op.attributes[RESULTS] = _lists([carried[r] for r in op.results])


def _explain_map(op: ir.Operation, carried: Carried, axes: tuple[str, ...]) -> None:
    """Writes the mapped axes of each argument and each result of a map, and of the values inside, as attributes.

    `carried` has the axes of each value, and gets those of the map; `axes` has the axes of all maps around the map.
    """
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
    """The axes in `names`, in the order of `axes`."""
    return tuple(axis for axis in axes if axis in names)


def _lists(values: list[tuple[str, ...]]) -> ir.Attribute:
    """An array attribute with a list of strings for each of `values`."""
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
