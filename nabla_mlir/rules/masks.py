"""Masks of cotangents: the elements that a selection did not choose, whose cotangent is therefore zero.

``y = where(x > 0, log(x), 0)`` has the derivative 0 at x = 0, where the derivative of log(x), 1 / x, is infinite. The
cotangent of log(x) is ``where(x > 0, ct, 0)``; times 1 / x it would be 0 * inf = NaN. So the product with a partial is
computed inside the mask ``x > 0`` only. `selection_mask` finds the mask: it follows the cotangent back, through operations that
move and add elements, to the selection that made it. The mask never tests the value of the cotangent, because a
cotangent that happens to be zero may have a tangent.

The carry of a backward loop is an argument of its body, so no selection can be found there. If `vanishes` (vanishing.py)
proves that the body leaves the carry zero outside the mask of its initial value, the body may apply the mask once more (`masked`):
this selection changes no value, and `selection_mask` finds it. The same holds for the results of a branch (`remasked`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import before_reshapes, made_by
from nabla_mlir.ops.logic import logical_and, logical_not, logical_or, where_zero
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.scatter import scatter
from nabla_mlir.ops.shape import broadcast_in_dim, dynamic_slice, reshape
from nabla_mlir.rules.questions import Asking, Known, follow
from nabla_mlir.rules.vanishing import implies, is_zero, mask_of_rows, vanishes
from nabla_mlir.table.registry import record_of
from nabla_mlir.table.rules import MaybeZero, Zero
from nabla_mlir.table.tensor import Tensor, full, wrap
from nabla_mlir.table.traits import is_sum, is_view, moved


def selection_mask(ct: Tensor, answers: Known | None = None) -> Tensor | None:
    """A mask of the cotangent, False for elements that a selection made zero; None if no selection is found.

    Args:
      ct: the cotangent. For ``reshape(where(m, t, 0))`` the mask is ``reshape(m)``.
      answers: the masks of values in the same block that are known already.
    """
    return follow(ct.value, _mask_of, {} if answers is None else answers)


def choice_of(ct: Tensor) -> Tensor | None:
    """The scalar predicate of a selection outside of which all of `ct` is zero; None if no selection made it.

    Example: select(p, x, 0) with a scalar p gives p, and select(p, 0, x) gives not p.
    """
    op = made_by(before_reshapes(ct.value))
    if op is None or op.name != "stablehlo.select":
        return None
    predicate, value, other = (wrap(v) for v in op.operands)
    if predicate.ndim or not value.ndim:
        return None
    return predicate if is_zero(other) else logical_not(predicate) if is_zero(value) else None


def _mask_of(value: ir.Value) -> Asking[Tensor | None]:
    """The mask of a value, from the masks of the operands that it is computed from."""
    op = made_by(value)
    if op is None:
        return None
    if op.name == "stablehlo.select":
        return (yield from _mask_of_selection(op))
    if op.name == "stablehlo.dynamic_slice":
        mask = yield op.operands[0]
        return row_of(mask, [wrap(v) for v in op.operands[1:]], wrap(value).shape)
    if moved(op) and len(op.results) == 1:
        return (yield from _mask_of_moved(op))
    if op.name == "stablehlo.scatter":
        return (yield from _mask_of_scatter(op))
    if op.name == "stablehlo.reduce":
        return (yield from _mask_of_reduction(op))
    if is_sum(op):  # such as the cotangents of several uses: the sum is zero where each of them is
        return (yield from _mask_of_terms(op))
    return None


def _mask_of_moved(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a result whose operation only moves elements: the operation, applied to the masks of its operands.

    It yields each operand, and receives its mask. An operand without a mask counts as all True, or as all False if it is zero.
    """
    masks: dict[ir.Value, Tensor | None] = {}
    for source in moved(op):
        masks[source] = yield source
    present = [mask for mask in masks.values() if mask is not None]
    if not present:
        return None
    whole = before_reshapes(present[0].value)  # a view of a reshape may be the mask before the reshape
    if is_view(op) and wrap(whole).shape == wrap(op.results[0]).shape:
        return wrap(whole)

    def mask_of(source: ir.Value) -> Tensor:
        """The mask of an operand that is moved; without one, all True, or all False if the operand is zero."""
        mask, x = masks[source], wrap(source)
        return full(shape=x.shape, value=not is_zero(x), dtype=np.dtype(bool)) if mask is None else mask

    record = record_of(op, "vjp")
    return record.apply([mask_of(v) if v in masks else wrap(v) for v in op.operands], record.read(op))[0]


def _mask_of_scatter(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a sum of updates that are scattered into zeros: the scattered mask of the updates; None for other scatters.

    It yields the updates, and receives their mask.
    """
    params = scatter.read(op)
    if params["body"] != "add" or len(op.operands) != 3 or not is_zero(wrap(op.operands[0])):
        return None
    mask = yield op.operands[2]
    whole, positions, _ = (wrap(v) for v in op.operands)
    never = full(whole.shape, False, np.dtype(bool))
    return None if mask is None else scatter(never, positions, mask, **{**params, "body": "or"})


def _mask_of_terms(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a sum of terms, which may differ from zero where any term may; None if a term has no mask.

    It yields each term, and receives its mask.
    """
    union: Tensor | None = None
    for value in op.operands:
        mask = yield value
        if mask is None:
            return None
        union = mask if union is None or union.value == mask.value else logical_or(union, mask)
    return union


def _mask_of_reduction(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a sum over axes: True if any summed element may differ from zero; None for other reductions.

    It yields the summed array, and receives its mask.
    """
    params = reduce.read(op)
    if params["body"] != "add" or len(op.operands) != 2 or not is_zero(wrap(op.operands[1])):
        return None
    mask = yield op.operands[0]
    never = full((), False, np.dtype(bool))
    return None if mask is None else reduce(mask, never, dimensions=params["dimensions"], body="or")


def _mask_of_selection(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a selection between a value and zero: the predicate and the mask of the value; None for other selections.

    It yields the value, and receives its mask.
    """
    predicate, value, other = (wrap(v) for v in op.operands)
    if is_zero(other):
        chosen, selected = predicate, value
    elif is_zero(value):
        chosen, selected = logical_not(predicate), other
    else:
        return None
    inner = yield selected.value
    if chosen.shape != selected.shape:  # a scalar predicate: see `choice_of`
        return inner
    return chosen if inner is None or implies(chosen.value, inner.value) else logical_and(chosen, inner)


# ---------------------------------------------------------------- at the border of a region


def shared_masks(cts: Sequence[MaybeZero]) -> dict[tuple[int, ...], Tensor]:
    """The union of the masks of all cotangents `cts` of a shape, by shape: outside of it, these cotangents are zero.

    Cotangents without a mask are ignored.
    """
    masks: dict[tuple[int, ...], Tensor] = {}
    for ct in cts:
        mask = None if isinstance(ct, Zero) else selection_mask(ct)
        if mask is not None:
            other = masks.get(mask.shape, mask)
            masks[mask.shape] = mask if other.value == mask.value else logical_or(other, mask)
    return masks


def remasked(results: Sequence[Tensor], cts: Sequence[MaybeZero]) -> list[Tensor]:
    """The results of a region, with masks: a result that is provably zero outside the shared mask of the cotangents of its
    shape gets that mask.

    Example: a branch gets the cotangent ``where(m, ct, 0)`` and returns ``ct * 2``. The new result is ``where(m, ct *
      2, 0)``.
    """
    shared = shared_masks(cts)
    masks = [shared.get(r.shape) for r in results]
    return [masked(r, m) if m is not None and vanishes(r, m) else r for r, m in zip(results, masks, strict=True)]


def masked(t: Tensor, mask: Tensor | None) -> Tensor:
    """A selection of `t` inside `mask`, in which `selection_mask` finds the mask; `t` must be zero outside `mask`."""
    return t if mask is None else where_zero(mask, t)


def repeated(mask: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """The mask of a tape of the given shape in which each row has the mask `mask`; None if `mask` is None."""
    if mask is None:
        return None
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=tuple(range(1, len(shape))))


def row_of(mask: Tensor | None, starts: Sequence[Tensor], sizes: tuple[int, ...]) -> Tensor | None:
    """The mask of a row of a tape, or of another window, from the mask of the whole tape; None if the tape has no mask.

    `starts` and `sizes` are the window.
    """
    if mask is None:
        return None
    same = mask_of_rows(mask) if sizes == (1, *mask.shape[1:]) else None
    return dynamic_slice(mask, *starts, slice_sizes=sizes) if same is None else reshape(same, shape=sizes)
