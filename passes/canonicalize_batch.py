"""One canonical form of maps, before they are expanded."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.batch import NOT_CARRIED, VmapOp, bound_axes, free_axes, rename_axes
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.regions import reads_of
from nabla_mlir.ops.shape import transpose
from nabla_mlir.ops.tensor import wrap
from nabla_mlir.passes.base import Pass, register

Places = tuple[int, ...]


def _rebuild(view: VmapOp, operands: list[ir.Value], in_axes: list[Places], out_axes: list[Places]) -> VmapOp:
    with view.op.location, ir.InsertionPoint(view.op):
        return VmapOp.build(operands, view.block, view.axes, view.sizes, in_axes, out_axes)


def _share_unmapped(op: ir.Operation) -> None:
    """An operand that carries no axis is used from outside as it is: nothing of it is passed into the map."""
    view = VmapOp(op)
    for argument, operand, places in zip(view.arguments, op.operands, view.in_axes, strict=True):
        if all(p == NOT_CARRIED for p in places):
            argument.replace_all_uses_with(operand)


def hoist_invariant(op: ir.Operation) -> None:
    """Operations that depend on no mapped argument are computed once, before the map."""
    view = VmapOp(op)
    varying = set(view.arguments)
    for inner in view.body:
        if any(v in varying for v in reads_of(inner)) or not free_axes(inner).isdisjoint(view.axes):
            varying.update(inner.results)
        else:
            inner.move_before(op)


def _merge_inner(op: ir.Operation) -> None:
    """A map that does nothing but another map is one map over both axes."""
    view = VmapOp(op)
    body = view.body
    if len(body) != 1 or body[0].name != "batch.vmap":
        return
    inner = VmapOp(body[0])
    returned = list(view.terminator.operands)
    results = list(inner.op.results)
    if any(r not in results for r in returned) or any(
        returned.count(r) > 1 or (v[0] == NOT_CARRIED and any(p != NOT_CARRIED for p in v)) for r, v in
        zip(returned, view.out_axes, strict=True)
    ):  # fmt: skip
        return
    arguments = view.arguments
    operands, in_axes = [], []
    for value, places in zip(inner.op.operands, inner.in_axes, strict=True):
        if value in arguments:
            i = arguments.index(value)
            operands.append(op.operands[i])
            in_axes.append(_joined(view.in_axes[i], places))
        else:
            operands.append(value)
            in_axes.append((*[NOT_CARRIED] * len(view.axes), *places))
    if any(v in arguments for inner_op in inner.body for v in reads_of(inner_op)):
        return  # a value of the outer map is used inside without being passed: it carries only the outer axis
    order = [results.index(r) for r in returned]
    if sorted(order) != list(range(len(results))):
        return
    out_axes = [_joined(view.out_axes[k], inner.out_axes[j]) for k, j in enumerate(order)]
    by_result = [out_axes[order.index(j)] for j in range(len(results))]
    with op.location, ir.InsertionPoint(op):
        renamed = _renamed(inner, set(view.axes))
        rename_axes(inner.op, renamed)
        names = (*view.axes, *renamed.values())
        merged = VmapOp.build(operands, inner.block, names, (*view.sizes, *inner.sizes), in_axes, by_result)
    for k, j in enumerate(order):
        op.results[k].replace_all_uses_with(merged.op.results[j])
    op.erase()


def _joined(outer: Places, inner: Places) -> Places:
    """Places of outer and inner axes in the type outside both: inserting the outer ones moves the inner ones."""
    shifted = list(inner)
    for place in sorted(p for p in outer if p != NOT_CARRIED):
        shifted = [p + 1 if p != NOT_CARRIED and p >= place else p for p in shifted]
    return (*outer, *shifted)


def _renamed(view: VmapOp, taken: set[str]) -> dict[str, str]:
    """A name for each axis of a map that is neither taken nor that of another axis of the map or inside it."""
    used, names = taken | set(view.axes) | bound_axes(view.op), {}
    for axis in view.axes:
        names[axis] = axis
        if axis in taken:
            names[axis] = next(name for n in itertools.count(1) if (name := f"{axis}_{n}") not in used)
            used.add(names[axis])
    return names


def _lead_with_prefix(op: ir.Operation) -> None:
    """Moves the axes of every operand and result to the front, in the order of the map; drops unused operands."""
    view = VmapOp(op)
    in_axes, out_axes = view.in_axes, view.out_axes
    kept = [i for i, a in enumerate(view.arguments) if next(iter(a.uses), None) is not None]
    canonical = all(_leading(in_axes[i]) == in_axes[i] for i in kept) and all(_leading(p) == p for p in out_axes)
    if canonical and len(kept) == len(in_axes):
        return
    with op.location, ir.InsertionPoint(op):
        operands = [_moved(op.operands[i], in_axes[i], _leading(in_axes[i])) for i in kept]
    for i in reversed(range(len(in_axes))):
        if i not in kept:
            view.block.erase_argument(i)
    new = _rebuild(view, operands, [_leading(in_axes[i]) for i in kept], [_leading(p) for p in out_axes])
    with op.location, ir.InsertionPoint.after(new.op):
        for old, result, places in zip(op.results, new.op.results, out_axes, strict=True):
            value = _moved(result, _leading(places), places)
            old.replace_all_uses_with(value)
    op.erase()


def _leading(places: Places) -> Places:
    carried = iter(range(len(places)))
    return tuple(next(carried) if p != NOT_CARRIED else NOT_CARRIED for p in places)


def _moved(value: ir.Value, source: Places, target: Places) -> ir.Value:
    """The value with its mapped axes moved from the places `source` to the places `target`."""
    if source == target:
        return value
    rank = len(shape_and_dtype(value.type)[0])
    inner = [d for d in range(rank) if d not in source]
    order: list[int] = [NOT_CARRIED] * rank
    for s, t in zip(source, target, strict=True):
        if t != NOT_CARRIED:
            order[t] = s
    rest = iter(inner)
    order = [next(rest) if d == NOT_CARRIED else d for d in order]
    return transpose(wrap(value), permutation=tuple(order)).value


@register
@dataclass(frozen=True)
class CanonicalizeBatchPass(Pass):
    """Bring every `batch.vmap` into its canonical form: the prefix leads, and only what varies goes in.

    Operands that carry no axis are used from outside; operations that do not vary are hoisted; a map that holds
    nothing but a map becomes one map over both axes; axes are moved to the front once, at the boundary.
    Example: tests/filecheck/passes/canonicalize_batch.mlir
    """

    name: ClassVar[str] = "nabla-canonicalize-batch"

    def run(self, module: ir.Operation) -> None:
        # Inner maps first; axes are moved last, since the moves would stand between maps that can be merged.
        for op in [o for o in nested(module) if o.name == "batch.vmap"]:
            _share_unmapped(op)
            hoist_invariant(op)
            _merge_inner(op)
        for op in [o for o in nested(module) if o.name == "batch.vmap"]:
            _lead_with_prefix(op)
