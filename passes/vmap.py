"""The expansion of maps (`batch.vmap`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects import debug
from nabla_mlir.dialects.batch import AXIS_INDEX, CURRENT, NOT_CARRIED, VmapOp, collectives, rename_axes
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import scratch_block
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.ops.shape import expand, iota, move_axis
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.inline import expand_all
from nabla_mlir.table.batching import batch_ops
from nabla_mlir.table.rules import Batch
from nabla_mlir.table.tensor import Tensor, full, wrap


def expand_vmap(op: ir.Operation) -> None:
    """Replaces one `batch.vmap` by its body on values with leading batch axes.

    Values that do not vary do not change. Several axes are expanded one after the other, the innermost first.
    """
    view = VmapOp(op)
    view.verify()
    with ir.InsertionPoint(op):
        if len(view.axes) > 1:
            op = _nest(view).op
            (inner,) = (o.operation for o in VmapOp(op).block.operations if o.operation.name == "batch.vmap")
            expand_vmap(inner)
            expand_vmap(op)
            return
        _expand_axis(view)


def _nest(view: VmapOp) -> VmapOp:
    """A map over the first axis, whose body is a map over the other axes; it replaces a map over several axes."""
    outer_in, outer_out = ([a[0] for a in axes] for axes in (view.in_axes, view.out_axes))
    inner_in, inner_out = ([_without_first(a) for a in axes] for axes in (view.in_axes, view.out_axes))
    types = [_drop_axis(v.type, p) for v, p in zip(view.op.operands, outer_in, strict=True)]
    block = scratch_block(types)
    names, sizes = view.axes, view.sizes
    with ir.InsertionPoint(block), view.op.location:
        inner = VmapOp.build(list(block.arguments), view.block, names[1:], sizes[1:], inner_in, inner_out)
        ir.Operation.create("stablehlo.return", operands=list(inner.op.results))
    with view.op.location:
        outer = VmapOp.build(list(view.op.operands), block, names[:1], sizes[:1], [[p] for p in outer_in], [[p] for p in outer_out])
    for old, new in zip(view.op.results, outer.op.results, strict=True):
        old.replace_all_uses_with(new)
    view.op.erase()
    block.owner.erase()
    return outer


def _without_first(positions: tuple[int, ...]) -> tuple[int, ...]:
    """The positions of the axes after the first, in a type without the first axis."""
    first, others = positions[0], positions[1:]
    return tuple(p - 1 if first != NOT_CARRIED and p > first else p for p in others)


def _drop_axis(type: ir.Type, position: int) -> ir.Type:
    """The tensor type without the axis at `position`; the type itself for NOT_CARRIED."""
    shape, dtype = shape_and_dtype(type)
    return type if position == NOT_CARRIED else tensor_type(shape[:position] + shape[position + 1 :], dtype)


def _expand_axis(view: VmapOp) -> None:
    """Replaces a map over one axis by its body on values with a leading batch axis."""
    op, size = view.op, view.sizes[0]
    if debug.wanted("batch"):
        debug.say(
            "batch",
            f"vmap over {view.axes[0]} = {size} of {len(view.body)} operations, operands "
            f"{debug.types(op.operands)} carry it at {[p for (p,) in view.in_axes]}, results "
            f"{debug.types(op.results)} at {[p for (p,) in view.out_axes]}",
            op.location,
        )
    if size == 0 and all(position != NOT_CARRIED for (position,) in view.out_axes):
        _drop_empty(op)
        return
    batch = Batch(size)
    with op.location:
        for argument, operand, (position,) in zip(view.arguments, op.operands, view.in_axes, strict=True):
            x, is_mapped = wrap(operand), position != NOT_CARRIED
            batch.bind(argument, move_axis(x, position, 0) if is_mapped else x, is_mapped)
    indices = _entry_numbers(view)
    with op.location:
        for index in indices:
            batch.bind(index, iota(shape=(size,), dtype=np.dtype(np.int32), iota_dimension=0))
    rename_axes(op, {view.axes[0]: CURRENT})
    body = [inner for inner in view.body if not any(r in indices for r in inner.results)]
    batch_ops(body, batch)
    with op.location:
        outs = [
            _place_axis(view, i, batch[v], v in batch, position, size).value
            for i, (v, (position,)) in enumerate(zip(view.terminator.operands, view.out_axes, strict=True))
        ]
    for result, value in zip(op.results, outs, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def _drop_empty(op: ir.Operation) -> None:
    """Replaces a map without entries, all of whose results carry its axis, by empty arrays."""
    with op.location:
        for result in op.results:
            shape, dtype = shape_and_dtype(result.type)
            result.replace_all_uses_with(full(shape, 0, dtype).value)
    op.erase()


def _entry_numbers(view: VmapOp) -> list[ir.Value]:
    """The results of the operations that read the index of the entry of a map; these operations move to the start of the body."""
    indices = [o for o in collectives(view.op, view.axes[0]) if o.name == AXIS_INDEX]
    for op in indices:
        op.move_before(view.block.operations[0])
    return [op.results[0] for op in indices]


def _place_axis(view: VmapOp, i: int, x: Tensor, is_mapped: bool, position: int, size: int) -> Tensor:
    """The value of result `i` outside the map.

    Args:
      view: the map.
      i: the index of the result, for an error.
      x: the value inside; the mapped axis leads if `is_mapped`.
      is_mapped: True if the value varies over the axis.
      position: where the result carries the axis, or NOT_CARRIED.
      size: the size of the axis.
    """
    if position == NOT_CARRIED:
        if is_mapped:
            raise PassError(
                f"batch.vmap requires a position for every axis that a result varies over, got -1 for axis "
                f"'{view.axes[0]}' of result {i}, which does vary.",
                where=source_of(view.op.location),
                help="give this result an out axis, or reduce over the axis.",
            )
        return x
    if is_mapped:
        return move_axis(x, 0, position)
    shape = (*x.shape[:position], size, *x.shape[position:])
    return expand(x, shape, (position,))


@register
@dataclass(frozen=True)
class VmapPass(Pass):
    """Replace each `batch.vmap` by its body with a leading batch prefix on every value that varies.

    A value that does not vary gets no prefix and is not copied; such a result is broadcast at the end. Bodies must not contain
    other transforms (see nabla-expand).

    Example: tests/filecheck/passes/vmap.mlir
    """

    name: ClassVar[str] = "nabla-vmap"

    def run(self, module: ir.Operation) -> None:
        expand_all(module, "batch.vmap", expand_vmap, self.name)
