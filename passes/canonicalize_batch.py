"""The canonical form of maps (`batch.vmap`), before they are expanded.

Positions are the axes of a value that are mapped, one for each axis of the map; NOT_CARRIED for an axis that the value does
not carry.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.batch import NOT_CARRIED, VmapOp, bound_axes, free_axes, rename_axes
from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.shape import broadcast_in_dim, transpose
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.tensor import wrap

Positions = tuple[int, ...]


def _rebuild(view: VmapOp, operands: list[ir.Value], in_axes: list[Positions], out_axes: list[Positions]) -> VmapOp:
    """A map with the body of `view`, and with other operands; `in_axes` and `out_axes` have their positions of the mapped axes."""
    with view.op.location, ir.InsertionPoint(view.op):
        return VmapOp.build(operands, view.block, view.axes, view.sizes, in_axes, out_axes)


def _share_unmapped(op: ir.Operation) -> None:
    """Replaces each argument whose operand carries no mapped axis by the operand itself, which the body then captures."""
    view = VmapOp(op)
    for argument, operand, positions in zip(view.arguments, op.operands, view.in_axes, strict=True):
        if all(p == NOT_CARRIED for p in positions):
            argument.replace_all_uses_with(operand)


def hoist_invariant(op: ir.Operation) -> None:
    """Moves operations that depend on no mapped argument before the map, so that they are computed once."""
    view = VmapOp(op)
    varying, axes = set(view.arguments), view.axes
    for inner in view.body:
        if any(v in varying for v in reads_of(inner)) or not free_axes(inner).isdisjoint(axes):
            varying.update(inner.results)
        else:
            inner.move_before(op)


def _share_broadcast(op: ir.Operation) -> ir.Operation:
    """Replaces an operand that is broadcast along mapped axes by the smaller array before the broadcast.

    Returns:
      The map, which may be a new operation.
    """
    view = VmapOp(op)
    operands, in_axes = list(op.operands), view.in_axes
    for i, (operand, positions) in enumerate(zip(operands, in_axes, strict=True)):
        repeated = [p for p in positions if p != NOT_CARRIED and _is_repeated(operand, p)]
        if not repeated:
            continue
        remaining_dims = [d for d in range(len(shape_and_dtype(operand.type)[0])) if d not in repeated]
        with op.location, ir.InsertionPoint(op):
            operands[i] = _without_copies(operand, remaining_dims)
        in_axes[i] = tuple(NOT_CARRIED if p in repeated else p if p == NOT_CARRIED else remaining_dims.index(p) for p in positions)
    if operands == list(op.operands):
        return op
    new = _rebuild(view, operands, in_axes, view.out_axes).op
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()
    return new


def _broadcast_of(value: ir.Value) -> ir.Operation | None:
    """The broadcast that computes a value, if nothing else reads it: a smaller broadcast can then replace it."""
    owner = made_by(value)
    is_broadcast = owner is not None and owner.name == "stablehlo.broadcast_in_dim"
    return owner if is_broadcast and len(list(value.uses)) == 1 else None


def _is_repeated(value: ir.Value, dimension: int) -> bool:
    """True if a value is a broadcast that copies along a dimension, and has no other use."""
    op = _broadcast_of(value)
    return op is not None and dimension not in tuple(op.attributes["broadcast_dimensions"])


def _without_copies(value: ir.Value, remaining: list[int]) -> ir.Value:
    """The broadcast `value` with only its dimensions `remaining`; its operand if no copies remain then."""
    op = _broadcast_of(value)
    assert op is not None
    x, shape = wrap(op.operands[0]), shape_and_dtype(value.type)[0]
    dims = tuple(remaining.index(d) for d in op.attributes["broadcast_dimensions"])
    smaller = tuple(shape[d] for d in remaining)
    if smaller == x.shape and dims == tuple(range(x.ndim)):
        return x.value
    return broadcast_in_dim(x, shape=smaller, broadcast_dimensions=dims).value


def _merge_inner(op: ir.Operation) -> None:
    """Replaces a map that contains only another map by one map over the axes of both.

    For example, a map over axis a whose body is a map over axis b becomes one map over the axes (a, b).
    """
    view = VmapOp(op)
    body = view.body
    if len(body) != 1 or body[0].name != "batch.vmap":
        return
    inner = VmapOp(body[0])
    outputs, results = list(view.terminator.operands), list(inner.op.results)
    if len(outputs) != len(results) or set(outputs) != set(results):
        return
    # order[j]: the result of the inner map that is result j of the outer one.
    order = [results.index(r) for r in outputs]
    arguments, inner_operands, inner_axes = view.arguments, list(inner.op.operands), inner.in_axes
    # A value of the outer entry that the inner map only captures is passed too; it carries the outer axes alone.
    uses = {v for o in inner.body for v in reads_of(o)} | set(inner.terminator.operands)
    for argument in arguments:
        if argument in uses:
            inside = inner.block.add_argument(argument.type, op.location)
            argument.replace_all_uses_with(inside)
            inner_operands.append(argument)
            inner_axes.append((NOT_CARRIED,) * len(inner.axes))
    operands, in_axes = [], []
    for value, positions in zip(inner_operands, inner_axes, strict=True):
        i = arguments.index(value) if value in arguments else None
        operands.append(value if i is None else op.operands[i])
        in_axes.append(_compose_positions((NOT_CARRIED,) * len(view.axes) if i is None else view.in_axes[i], positions))
    out_axes = [_compose_positions(view.out_axes[order.index(j)], inner.out_axes[j]) for j in range(len(results))]
    with op.location, ir.InsertionPoint(op):
        axis_names = _unique_names(inner, set(view.axes))
        rename_axes(inner.op, axis_names)
        names = (*view.axes, *axis_names.values())
        whole = VmapOp.build(operands, inner.block, names, (*view.sizes, *inner.sizes), in_axes, out_axes)
    for k, j in enumerate(order):
        op.results[k].replace_all_uses_with(whole.op.results[j])
    op.erase()


def _compose_positions(outer: Positions, inner: Positions) -> Positions:
    """The positions of outer and inner axes in the type outside both maps.

    An outer axis shifts the inner axes behind it: the outer positions (0,) and the inner positions (0, 2) give (0, 1, 3).
    """
    shifted = list(inner)
    for position in sorted(p for p in outer if p != NOT_CARRIED):
        shifted = [p + 1 if p != NOT_CARRIED and p >= position else p for p in shifted]
    return (*outer, *shifted)


def _unique_names(view: VmapOp, names_outside: set[str]) -> dict[str, str]:
    """A new name for each axis of a map that differs from the names in use outside and inside the map; its own if possible."""
    names_in_use, names = names_outside | set(view.axes) | bound_axes(view.op), {}
    for axis in view.axes:
        names[axis] = axis
        if axis in names_outside:
            names[axis] = next(name for n in itertools.count(1) if (name := f"{axis}_{n}") not in names_in_use)
            names_in_use.add(names[axis])
    return names


def _lead_with_prefix(op: ir.Operation) -> None:
    """Moves the axes of every operand and result to the front, in the order of the map; drops unused operands."""
    view = VmapOp(op)
    in_axes, out_axes = view.in_axes, view.out_axes
    live = [i for i, a in enumerate(view.arguments) if next(iter(a.uses), None) is not None]
    is_canonical = all(_leading(in_axes[i]) == in_axes[i] for i in live) and all(_leading(p) == p for p in out_axes)
    if is_canonical and len(live) == len(in_axes):
        return
    with op.location, ir.InsertionPoint(op):
        operands = [_move_axes(op.operands[i], in_axes[i], _leading(in_axes[i])) for i in live]
    for i in reversed(range(len(in_axes))):
        if i not in live:
            view.block.erase_argument(i)
    new = _rebuild(view, operands, [_leading(in_axes[i]) for i in live], [_leading(p) for p in out_axes])
    with op.location, ir.InsertionPoint.after(new.op):
        for old, result, positions in zip(op.results, new.op.results, out_axes, strict=True):
            value = _move_axes(result, _leading(positions), positions)
            old.replace_all_uses_with(value)
    op.erase()


def _leading(positions: Positions) -> Positions:
    """The positions 0, 1, 2, ... for the axes that a value carries, in their order."""
    numbers = iter(range(len(positions)))
    return tuple(next(numbers) if p != NOT_CARRIED else NOT_CARRIED for p in positions)


def _move_axes(value: ir.Value, source: Positions, target: Positions) -> ir.Value:
    """The value with its mapped axes moved from the positions `source` to the positions `target`."""
    if source == target:
        return value
    rank = len(shape_and_dtype(value.type)[0])
    inner = [d for d in range(rank) if d not in source]
    # order[d]: the axis of `value` that becomes axis d; other axes keep their order.
    order: list[int] = [NOT_CARRIED] * rank
    for s, t in zip(source, target, strict=True):
        if t != NOT_CARRIED:
            order[t] = s
    others = iter(inner)
    order = [next(others) if d == NOT_CARRIED else d for d in order]
    owner = made_by(value)
    if owner is not None and owner.name == "stablehlo.transpose":  # two moves are one, or none
        permutation = tuple(owner.attributes["permutation"])
        value, order = owner.operands[0], [permutation[d] for d in order]
    if order == sorted(order):
        return value
    return transpose(wrap(value), permutation=tuple(order)).value


def _maps(module: ir.Operation) -> list[ir.Operation]:
    """All maps of a module, inner ones before outer ones."""
    return [op for op in nested(module) if op.name == VmapOp.name]


@register
@dataclass(frozen=True)
class CanonicalizeBatchPass(Pass):
    """Bring every `batch.vmap` into its canonical form: the batch prefix leads, and only values that vary are operands.

    - An operand without the axis is used from outside the region. A value that is only broadcast along the axis loses it.
    - An operation that does not vary moves out of the region.
    - A map that contains only another map becomes one map over the axes of both, also if the inner map captures entries
      of the outer one.
    - Axes move to the front once, at the boundary of the region, where such moves cancel.

    One sweep reaches the fixed point. No rewrite raises the number of operations, elements or flops.

    Example: tests/filecheck/passes/canonicalize_batch.mlir
    """

    name: ClassVar[str] = "nabla-canonicalize-batch"

    def run(self, module: ir.Operation) -> None:
        """Simplifies all maps of the module, the inner ones first, in place."""
        # Inner maps first. Axes are moved last, because the moves would separate maps that can be merged.
        for view in _maps(module):
            op = _share_broadcast(view)
            _share_unmapped(op)
            hoist_invariant(op)
            _merge_inner(op)
        for op in _maps(module):
            hoist_invariant(op)  # an inner map has just added transposes of invariant values
            _lead_with_prefix(op)
