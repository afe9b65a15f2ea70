"""Masks of the carries of a backward loop: a selection before the loop stays known in its body.

In ``where(m, loop(x), 0)`` the cotangent of the loop's result is ``where(m, ct, 0)``, the initial value of a carry of the
backward loop. If each iteration leaves the carry zero outside of m, the body applies m once more: outside of m, the derivative
of a partial may be infinite.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.rules.loop_body import Backward, Roles, trace_backward
from nabla_mlir.rules.masks import repeated, selection_mask, shared_masks
from nabla_mlir.rules.vanishing import mask_of_rows, vanishes
from nabla_mlir.table.rules import MaybeZero, Zero
from nabla_mlir.table.tensor import Tensor, wrap

Masks = list[Tensor | None]


def masked_backward(op: ir.Operation, roles: Roles, cts: Sequence[MaybeZero], residuals: set[ir.Value]) -> tuple[Backward, Masks]:
    """Emits one iteration in reverse, inside masks that are proven to hold after every iteration; returns the body and the masks.

    A mask is assumed first. If the body that was emitted inside the masks does not prove one of them, the body is
    emitted once more without that mask.

    Args:
      op: the loop.
      roles: the roles of its carries and captures.
      cts: the cotangents of the results of the loop.
      residuals: values of the body that are stored if they are needed, even if they are cheap.
    """
    rows = {i: (ct, selection_mask(ct)) for i in roles.tapes if isinstance(ct := cts[i], Tensor)}
    seeds = [(op.results[i], cts[i]) for i in roles.carries]
    masks = _assume_masks(seeds, roles.sums, [cts[i] for i in roles.tapes])
    backward = trace_backward(op, roles, masks, rows, residuals)
    while not all(proven := _prove_masks(backward, masks)):
        backward.holder.erase()
        masks = [mask if holds else None for mask, holds in zip(masks, proven, strict=True)]
        backward = trace_backward(op, roles, masks, rows, residuals)
    return backward, masks


def _assume_masks(seeds: Sequence[tuple[ir.Value, MaybeZero]], sums: Sequence[ir.Value], rows: Sequence[MaybeZero]) -> Masks:
    """The mask of each carry of the backward loop; outside of it, the initial value of the carry is zero. None means no mask.

    A mask of one cotangent is assumed for all carries of the same shape.

    Args:
      seeds: the carried results of the forward loop, and their cotangents.
      sums: the values whose cotangents are summed.
      rows: the cotangents of tapes.
    """
    shared = shared_masks([*(ct for _, ct in seeds), *rows])
    shared = {m.shape: m for whole in shared.values() if (m := mask_of_rows(whole)) is not None} | shared
    # A carry that begins with a cotangent without a mask may differ from zero everywhere.
    are_masked = [isinstance(ct, Zero) or selection_mask(ct) is not None for _, ct in seeds]
    carry_masks = [shared.get(wrap(v).shape) if m else None for (v, _), m in zip(seeds, are_masked, strict=True)]
    shapes = [wrap(v).shape for v in sums]
    by_shape = {n: repeated(shared.get(n[1:]), n) for n in shapes} | shared  # tapes of one shape share one mask
    return carry_masks + [by_shape[n] for n in shapes]


def _prove_masks(backward: Backward, masks: Sequence[Tensor | None]) -> list[bool]:
    """A list with True for each carry of the backward loop that has no mask, or that provably stays zero outside of it.

    `masks` has the mask of the initial value of each carry, or None.
    """
    arguments, outputs = list(backward.block.arguments), list(backward.block.operations)[-1].operands
    proven = []
    for value, mask in zip(outputs, masks, strict=True):
        alike = [a for a, m in zip(arguments, masks, strict=True) if m is mask]
        proven.append(mask is None or vanishes(wrap(value), mask, alike))
    return proven
