"""Masks of cotangents: the elements that a selection did not choose, whose cotangent is therefore zero.

``y = where(x > 0, log(x), 0)`` has the derivative 0 at x = 0, where the derivative of log(x), 1 / x, is infinite. The
cotangent of log(x) is ``where(x > 0, ct, 0)``; times 1 / x it would be 0 * inf = NaN. So the product with a partial is
computed inside the mask ``x > 0`` only. `selection_mask` finds the mask: it follows the cotangent back, through operations that
move and add elements, to the selection that made it. The mask never tests the value of the cotangent, because a
cotangent that happens to be zero may have a tangent.

The carry of a backward loop is an argument of its body, so no selection can be found there. If `vanishes` proves that
the body leaves the carry zero outside the mask of its initial value, the body may apply the mask once more (`masked`):
this selection changes no value, and `selection_mask` finds it. The same holds for the results of a branch (`remasked`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import before_reshapes, made_by
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.ops.logic import logical_and, logical_not, logical_or, where_zero
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.scatter import scatter
from nabla_mlir.ops.shape import broadcast_in_dim, dynamic_slice, reshape
from nabla_mlir.table.regions import body_of
from nabla_mlir.table.registry import MaybeZero, Zero, record_of
from nabla_mlir.table.tensor import Tensor, full, splat_of, wrap
from nabla_mlir.table.traits import is_sum, is_view, moved, returns_of_regions

Known = dict[ir.Value, Any]
Answer = TypeVar("Answer")
Asking = Generator[ir.Value, Any, Answer]  # a question: yields values whose answers it needs, returns its own


def _follow(value: ir.Value, ask: Callable[[ir.Value], Asking[Answer]], answers: Known) -> Answer:
    """The answer to a question about a value, computed from the answers for other values; without recursion, because
    programs are deep.

    A question is a generator: ``mask = yield other`` asks for the answer of another value, and ``return`` gives its
    own. Questions that wait for an answer are on a stack, and each value is asked about once.
    """
    waiting = [] if value in answers else [(value, ask(value))]
    answer = answers.get(value)
    while waiting:
        current, asking = waiting[-1]
        try:
            other = asking.send(answer)
        except StopIteration as end:
            answers[current] = answer = end.value
            waiting.pop()
            continue
        answer = answers.get(other)
        if other not in answers:
            waiting.append((other, ask(other)))
    return answers[value]


def selection_mask(ct: Tensor, answers: Known | None = None) -> Tensor | None:
    """A mask of the cotangent, False for elements that a selection made zero; None if no selection is found.

    Args:
      ct: the cotangent. For ``reshape(where(m, t, 0))`` the mask is ``reshape(m)``.
      answers: the masks of values in the same block that are known already.
    """
    return _follow(ct.value, _mask_of, {} if answers is None else answers)


def choice_of(ct: Tensor) -> Tensor | None:
    """The scalar predicate of a selection that made the whole cotangent zero; None if there is none."""
    op = made_by(before_reshapes(ct.value))
    if op is None or op.name != "stablehlo.select":
        return None
    predicate, value, other = (wrap(v) for v in op.operands)
    if predicate.ndim or not value.ndim:
        return None
    return predicate if _is_zero(other) else logical_not(predicate) if _is_zero(value) else None


def _mask_of(value: ir.Value) -> Asking[Tensor | None]:
    """The mask of a value, from the masks of the operands that it is computed from."""
    op = made_by(value)
    if op is None:
        return None
    if op.name == "stablehlo.select":
        return (yield from _of_selection(op))
    if op.name == "stablehlo.dynamic_slice":
        mask = yield op.operands[0]
        return row_of(mask, [wrap(v) for v in op.operands[1:]], wrap(value).shape)
    if moved(op) and len(op.results) == 1:
        return (yield from _of_moved(op))
    if op.name == "stablehlo.scatter":
        return (yield from _of_scatter(op))
    if op.name == "stablehlo.reduce":
        return (yield from _of_sum(op))
    if is_sum(op):  # such as the cotangents of several uses: the sum is zero where each of them is
        return (yield from _of_terms(op))
    return None


def _of_moved(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a result that moves elements: the masks are moved in the same way.

    A source without a mask counts as all True, or as all False if it is zero.
    """
    masks: dict[ir.Value, Tensor | None] = {}
    for source in moved(op):
        masks[source] = yield source
    present = [mask for mask in masks.values() if mask is not None]
    if not present:
        return None
    whole = before_reshapes(present[0].value)  # two reshapes that cancel
    if is_view(op) and wrap(whole).shape == wrap(op.results[0]).shape:
        return wrap(whole)

    def mask_of(source: ir.Value) -> Tensor:
        mask, x = masks[source], wrap(source)
        return full(x.shape, not _is_zero(x), np.dtype(bool)) if mask is None else mask

    record = record_of(op, "vjp")
    return record.apply([mask_of(v) if v in masks else wrap(v) for v in op.operands], record.read(op))[0]


def _of_scatter(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a scatter: the initial elements and the updates may differ from zero only inside their own masks."""
    params = scatter.read(op)
    if params["body"] != "add" or len(op.operands) != 3 or not _is_zero(wrap(op.operands[0])):
        return None
    mask = yield op.operands[2]
    whole, positions, _ = (wrap(v) for v in op.operands)
    never = full(whole.shape, False, np.dtype(bool))
    return None if mask is None else scatter(never, positions, mask, **{**params, "body": "or"})


def _of_terms(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a sum of terms: it may differ from zero where any term may."""
    union: Tensor | None = None
    for value in op.operands:
        mask = yield value
        if mask is None:
            return None
        union = mask if union is None or union.value == mask.value else logical_or(union, mask)
    return union


def _of_sum(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a reduction: a sum is zero if all its elements are zero."""
    params = reduce.read(op)
    if params["body"] != "add" or len(op.operands) != 2 or not _is_zero(wrap(op.operands[1])):
        return None
    mask = yield op.operands[0]
    never = full((), False, np.dtype(bool))
    return None if mask is None else reduce(mask, never, dimensions=params["dimensions"], body="or")


def _of_selection(op: ir.Operation) -> Asking[Tensor | None]:
    """The mask of a selection: the predicate and the mask of the selected value must both hold."""
    predicate, value, other = (wrap(v) for v in op.operands)
    if _is_zero(other):
        own, rest = predicate, value
    elif _is_zero(value):
        own, rest = logical_not(predicate), other
    else:
        return None
    before = yield rest.value
    if own.shape != rest.shape:  # a scalar predicate: see `choice_of`
        return before
    return own if before is None or _implies(own.value, before.value) else logical_and(own, before)


def _is_zero(x: Tensor) -> bool:
    splat = splat_of(x)
    return splat is not None and splat == 0


# ---------------------------------------------------------------- at the border of a region


def shared_masks(cts: Sequence[MaybeZero]) -> dict[tuple[int, ...], Tensor]:
    """For each shape, the mask inside which any of the cotangents that have a mask may differ from zero."""
    masks: dict[tuple[int, ...], Tensor] = {}
    for ct in cts:
        mask = None if isinstance(ct, Zero) else selection_mask(ct)
        if mask is not None:
            other = masks.get(mask.shape, mask)
            masks[mask.shape] = mask if other.value == mask.value else logical_or(other, mask)
    return masks


def remasked(results: Sequence[Tensor], cts: Sequence[MaybeZero]) -> list[Tensor]:
    """Applies masks to the results of a region: a result that is provably zero outside the mask of the cotangents of its
    shape gets that mask.

    Example: a branch gets the cotangent ``where(m, ct, 0)`` and returns ``ct * 2``. The new result is ``where(m, ct *
      2, 0)``.
    """
    shared = shared_masks(cts)
    masks = [shared.get(r.shape) for r in results]
    return [masked(r, m) if m is not None and vanishes(r, m) else r for r, m in zip(results, masks, strict=True)]


def masked(t: Tensor, mask: Tensor | None) -> Tensor:
    """The value `t`, which is zero outside of `mask`, as a selection by which `selection_mask` finds the mask."""
    return t if mask is None else where_zero(mask, t)


def repeated(mask: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """The mask of a tape in which all rows have the mask `mask`."""
    if mask is None:
        return None
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=tuple(range(1, len(shape))))


def row_of(mask: Tensor | None, starts: Sequence[Tensor], sizes: tuple[int, ...]) -> Tensor | None:
    """The mask of a row of a tape, or of another part of it, from the mask of the whole tape."""
    if mask is None:
        return None
    same = mask_of_rows(mask) if sizes == (1, *mask.shape[1:]) else None
    return dynamic_slice(mask, *starts, slice_sizes=sizes) if same is None else reshape(same, shape=sizes)


def mask_of_rows(mask: Tensor) -> Tensor | None:
    """The mask that all rows of a tape share, if it was made by `repeated`; else None."""
    maker = made_by(mask.value)
    if maker is None or maker.name != "stablehlo.broadcast_in_dim":
        return None
    dims = I64Array.decode(maker.attributes["broadcast_dimensions"])
    return wrap(maker.operands[0]) if list(dims) == list(range(1, mask.ndim)) else None


def vanishes(t: Tensor, mask: Tensor, zeros: Iterable[ir.Value] = ()) -> bool:
    """True if it is proven that a value is zero outside of a mask of its shape.

    Args:
      t: the value.
      mask: truth values of its shape.
      zeros: values that are known to be zero outside of the mask.
    """
    return _follow(t.value, lambda value: _vanishes(value, mask.value), dict.fromkeys(zeros, True))


def _vanishes(value: ir.Value, mask: ir.Value) -> Asking[bool]:
    """Asks if a value is zero outside of a mask, from the operands of its operation."""
    op = made_by(value)
    if op is None or _is_zero(wrap(value)):
        return op is not None
    if _keeps_order(op):
        return (yield from _all(op.operands))
    if op.name == "stablehlo.select":
        predicate, one, other = op.operands  # a value that is selected outside of the mask must be zero there
        return (_implies(before_reshapes(predicate), mask) or (yield one)) and (yield other)
    if op.name == "stablehlo.dynamic_slice":
        tape = op.operands[0]
        whole_row = wrap(value).shape == (1, *wrap(tape).shape[1:])
        return whole_row and _follow(tape, lambda v: _rows_vanish(v, mask), {})
    if op.name == "stablehlo.dynamic_update_slice":
        whole, row, *position = op.operands
        return (yield whole) and _follow(row, lambda v: _row_vanishes(v, mask, position), {})
    if returns_of_regions(op):
        i = list(op.results).index(value)
        return (yield from _all(body_of(region)[2][i] for region in op.regions))
    return False


def _keeps_order(op: ir.Operation) -> bool:
    """True if a result is zero wherever the operands are zero at the same index in row-major order."""
    return is_sum(op) or (is_view(op) and bool(moved(op)))


def _all(values: Iterable[ir.Value]) -> Asking[bool]:
    for value in values:
        if not (yield value):
            return False
    return True


def _rows_vanish(value: ir.Value, mask: ir.Value) -> Asking[bool]:
    """Asks if each row of a tape is zero outside of a mask of rows."""

    def is_inside(predicate: ir.Value) -> bool:
        same = mask_of_rows(wrap(predicate))
        return same is not None and _implies(same.value, mask)

    return (yield from _selected(value, is_sum, is_inside))


def _row_vanishes(value: ir.Value, mask: ir.Value, position: Sequence[ir.Value]) -> Asking[bool]:
    """Asks if a row that is written to a tape at index `position` is zero outside of the tape's mask for that row."""
    return (yield from _selected(value, _keeps_order, lambda predicate: _is_part(predicate, mask, position)))


def _selected(
    value: ir.Value, keeps: Callable[[ir.Operation], bool], is_inside: Callable[[ir.Value], bool]
) -> Asking[bool]:
    """Asks if a value differs from zero only where selections inside of a mask chose an element.

    Operations for which `keeps` is true may add such values.
    """
    op = made_by(value)
    if op is None or _is_zero(wrap(value)):
        return op is not None
    if keeps(op):
        return (yield from _all(op.operands))
    if op.name != "stablehlo.select":
        return False
    predicate, one, other = op.operands
    return (is_inside(predicate) or (yield one)) and (yield other)


def _is_part(predicate: ir.Value, mask: ir.Value, position: Sequence[ir.Value]) -> bool:
    """True if a predicate is, or implies, the tape's mask for the row at index `position`."""
    same, work, seen = mask_of_rows(wrap(mask)), [predicate], set()
    while work:
        part = before_reshapes(work.pop())
        maker = made_by(part)
        if same is not None and _implies(part, same.value):
            return True
        if maker is not None and maker.name == "stablehlo.dynamic_slice" and list(maker.operands) == [mask, *position]:
            return True
        if maker is not None and maker.name == "stablehlo.and" and part not in seen:
            seen.add(part)
            work += maker.operands
    return False


def _implies(predicate: ir.Value, mask: ir.Value) -> bool:
    """True if it is proven that a predicate is False outside of a mask.

    Example: ``a & b`` is False outside of ``a | c``.
    """
    return not _parts(predicate, "stablehlo.and").isdisjoint(_parts(mask, "stablehlo.or"))


def _parts(value: ir.Value, name: str) -> set[ir.Value]:
    """The truth value and all values from which it is computed by operations `name` (`and`, or `or`)."""
    parts, work = {value}, [value]
    while work:
        maker = made_by(work.pop())
        if maker is not None and maker.name == name:
            new = set(maker.operands) - parts
            parts |= new
            work += new
    return parts
