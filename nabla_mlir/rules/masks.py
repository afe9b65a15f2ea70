"""Where a cotangent is zero because a selection did not take the value.

``y = where(x > 0, log(x), 0)`` has the derivative 0 at x = 0, where that of log(x), 1 / x, is infinite. The cotangent of
log(x) is ``where(x > 0, ct, 0)``; times 1 / x it would be 0 * inf = NaN. So what is multiplied by a partial is multiplied
inside of the mask ``x > 0`` alone: `taken` finds it by following the cotangent back to the selection that made it, through
what moves and adds elements. The mask is never a test of the cotangent's value: one that merely happens to be zero may
have a tangent.

The carry of a backward loop is an argument of its body: there is no selection to be found. If the body leaves it zero
outside of the mask that it starts with (`vanishes` proves that), the body may put the mask on it once more: a selection
that changes no value, and that `taken` finds (`masked`). The same holds for what a branch returns (`remasked`).
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
Asking = Generator[ir.Value, Any, Answer]  # asks what holds of other values, and returns what holds of one


def _follow(value: ir.Value, ask: Callable[[ir.Value], Asking[Answer]], answers: Known) -> Answer:
    """What holds of a value by what holds of others; without recursion, since programs are as deep as they like.

    A question is a generator: ``mask = yield other`` asks for the answer of another value, ``return`` gives its own. Those
    that wait for an answer stand on a stack, and each value is asked about once.
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


def taken(ct: Tensor, answers: Known | None = None) -> Tensor | None:
    """A truth value per element of a cotangent, False where a selection made it zero; None where no one did.

    Args:
      ct: the cotangent. Of ``reshape(where(m, t, 0))`` this is ``reshape(m)``.
      answers: what was found in the same block before.
    """
    return _follow(ct.value, _mask_of, {} if answers is None else answers)


def choice_of(ct: Tensor) -> Tensor | None:
    """The predicate, one truth value, of a selection that made a cotangent zero as a whole; None where there is none."""
    op = made_by(before_reshapes(ct.value))
    if op is None or op.name != "stablehlo.select":
        return None
    predicate, value, other = (wrap(v) for v in op.operands)
    if predicate.ndim or not value.ndim:
        return None
    return predicate if _is_zero(other) else logical_not(predicate) if _is_zero(value) else None


def _mask_of(value: ir.Value) -> Asking[Tensor | None]:
    """The mask of a value by those of what it is made of."""
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
    if is_sum(op):  # for instance of what several uses contribute: zero where each of them is
        return (yield from _of_terms(op))
    return None


def _of_moved(op: ir.Operation) -> Asking[Tensor | None]:
    """What is moved takes its mask along; of several sources those without one count as taken, unless they are zero."""
    masks: dict[ir.Value, Tensor | None] = {}
    for source in moved(op):
        masks[source] = yield source
    present = [mask for mask in masks.values() if mask is not None]
    if not present:
        return None
    whole = before_reshapes(present[0].value)  # moved there and back
    if is_view(op) and wrap(whole).shape == wrap(op.results[0]).shape:
        return wrap(whole)

    def mask_of(source: ir.Value) -> Tensor:
        mask, x = masks[source], wrap(source)
        return full(x.shape, not _is_zero(x), np.dtype(bool)) if mask is None else mask

    record = record_of(op, "vjp")
    return record.apply([mask_of(v) if v in masks else wrap(v) for v in op.operands], record.read(op))[0]


def _of_scatter(op: ir.Operation) -> Asking[Tensor | None]:
    """Zero but where updates are added that are not."""
    params = scatter.read(op)
    if params["body"] != "add" or len(op.operands) != 3 or not _is_zero(wrap(op.operands[0])):
        return None
    mask = yield op.operands[2]
    whole, places, _ = (wrap(v) for v in op.operands)
    never = full(whole.shape, False, np.dtype(bool))
    return None if mask is None else scatter(never, places, mask, **{**params, "body": "or"})


def _of_terms(op: ir.Operation) -> Asking[Tensor | None]:
    """A sum of terms may differ from zero where any of them may."""
    union: Tensor | None = None
    for value in op.operands:
        mask = yield value
        if mask is None:
            return None
        union = mask if union is None or union.value == mask.value else logical_or(union, mask)
    return union


def _of_sum(op: ir.Operation) -> Asking[Tensor | None]:
    """A sum is zero where all that is summed is."""
    params = reduce.read(op)
    if params["body"] != "add" or len(op.operands) != 2 or not _is_zero(wrap(op.operands[1])):
        return None
    mask = yield op.operands[0]
    never = full((), False, np.dtype(bool))
    return None if mask is None else reduce(mask, never, dimensions=params["dimensions"], body="or")


def _of_selection(op: ir.Operation) -> Asking[Tensor | None]:
    """Both the selection and the ones before it must have taken an element."""
    predicate, value, other = (wrap(v) for v in op.operands)
    if _is_zero(other):
        own, rest = predicate, value
    elif _is_zero(value):
        own, rest = logical_not(predicate), other
    else:
        return None
    before = yield rest.value
    if own.shape != rest.shape:  # all of it or nothing: see `choice_of`
        return before
    return own if before is None or _implies(own.value, before.value) else logical_and(own, before)


def _is_zero(x: Tensor) -> bool:
    splat = splat_of(x)
    return splat is not None and splat == 0


# ---------------------------------------------------------------- at the border of a region


def shared_masks(cts: Sequence[MaybeZero]) -> dict[tuple[int, ...], Tensor]:
    """For each shape, where any of the cotangents that have a mask may differ from zero."""
    masks: dict[tuple[int, ...], Tensor] = {}
    for ct in cts:
        mask = None if isinstance(ct, Zero) else taken(ct)
        if mask is not None:
            other = masks.get(mask.shape, mask)
            masks[mask.shape] = mask if other.value == mask.value else logical_or(other, mask)
    return masks


def remasked(results: Sequence[Tensor], cts: Sequence[MaybeZero]) -> list[Tensor]:
    """What a region returns; a result that is proven zero outside of the mask of the cotangents of its shape gets that mask.

    For example, a branch that is differentiated with the cotangent ``where(m, ct, 0)`` and returns ``ct * 2`` returns
    ``where(m, ct * 2, 0)``.
    """
    shared = shared_masks(cts)
    masks = [shared.get(r.shape) for r in results]
    return [masked(r, m) if m is not None and vanishes(r, m) else r for r, m in zip(results, masks, strict=True)]


def masked(t: Tensor, mask: Tensor | None) -> Tensor:
    """A value that is zero outside of a mask, such that `taken` finds the mask."""
    return t if mask is None else where_zero(mask, t)


def repeated(mask: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """A mask of rows for a tape of such rows."""
    if mask is None:
        return None
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=tuple(range(1, len(shape))))


def row_of(mask: Tensor | None, starts: Sequence[Tensor], sizes: tuple[int, ...]) -> Tensor | None:
    """The mask of one row of a tape, or of another part of it, by the mask of the whole tape."""
    if mask is None:
        return None
    same = mask_of_rows(mask) if sizes == (1, *mask.shape[1:]) else None
    return dynamic_slice(mask, *starts, slice_sizes=sizes) if same is None else reshape(same, shape=sizes)


def mask_of_rows(mask: Tensor) -> Tensor | None:
    """The mask that all rows of a tape share, if it is `repeated`."""
    maker = made_by(mask.value)
    if maker is None or maker.name != "stablehlo.broadcast_in_dim":
        return None
    dims = I64Array.decode(maker.attributes["broadcast_dimensions"])
    return wrap(maker.operands[0]) if list(dims) == list(range(1, mask.ndim)) else None


def vanishes(t: Tensor, mask: Tensor, zeros: Iterable[ir.Value] = ()) -> bool:
    """Whether a value is proven zero outside of a mask of its shape.

    Args:
      t: the value.
      mask: truth values of its shape.
      zeros: values that are known to be zero outside of the mask.
    """
    return _follow(t.value, lambda value: _vanishes(value, mask.value), dict.fromkeys(zeros, True))


def _vanishes(value: ir.Value, mask: ir.Value) -> Asking[bool]:
    """Whether a value is zero outside of a mask, by what its maker reads."""
    op = made_by(value)
    if op is None or _is_zero(wrap(value)):
        return op is not None
    if _keeps_order(op):
        return (yield from _all(op.operands))
    if op.name == "stablehlo.select":
        predicate, one, other = op.operands  # what is taken outside of the mask must be zero there
        return (_implies(before_reshapes(predicate), mask) or (yield one)) and (yield other)
    if op.name == "stablehlo.dynamic_slice":
        tape = op.operands[0]
        whole_row = wrap(value).shape == (1, *wrap(tape).shape[1:])
        return whole_row and _follow(tape, lambda v: _rows_vanish(v, mask), {})
    if op.name == "stablehlo.dynamic_update_slice":
        whole, row, *place = op.operands
        return (yield whole) and _follow(row, lambda v: _row_vanishes(v, mask, place), {})
    if returns_of_regions(op):
        i = list(op.results).index(value)
        return (yield from _all(body_of(region)[2][i] for region in op.regions))
    return False


def _keeps_order(op: ir.Operation) -> bool:
    """Whether elements are zero where those at the same place in row-major order are."""
    return is_sum(op) or (is_view(op) and bool(moved(op)))


def _all(values: Iterable[ir.Value]) -> Asking[bool]:
    for value in values:
        if not (yield value):
            return False
    return True


def _rows_vanish(value: ir.Value, mask: ir.Value) -> Asking[bool]:
    """Whether each row of a tape is zero outside of a mask of rows."""

    def is_inside(predicate: ir.Value) -> bool:
        same = mask_of_rows(wrap(predicate))
        return same is not None and _implies(same.value, mask)

    return (yield from _selected(value, is_sum, is_inside))


def _row_vanishes(value: ir.Value, mask: ir.Value, place: Sequence[ir.Value]) -> Asking[bool]:
    """Whether a row that is written into a tape is zero outside of what the tape's mask says of the row at that place."""
    return (yield from _selected(value, _keeps_order, lambda predicate: _is_part(predicate, mask, place)))


def _selected(
    value: ir.Value, keeps: Callable[[ir.Operation], bool], is_inside: Callable[[ir.Value], bool]
) -> Asking[bool]:
    """Whether a value is zero but where selections inside of a mask took it, and operations that keep places added it."""
    op = made_by(value)
    if op is None or _is_zero(wrap(value)):
        return op is not None
    if keeps(op):
        return (yield from _all(op.operands))
    if op.name != "stablehlo.select":
        return False
    predicate, one, other = op.operands
    return (is_inside(predicate) or (yield one)) and (yield other)


def _is_part(predicate: ir.Value, mask: ir.Value, place: Sequence[ir.Value]) -> bool:
    """Whether a predicate is, or implies, what a mask says of the row at a place."""
    same, work, seen = mask_of_rows(wrap(mask)), [predicate], set()
    while work:
        part = before_reshapes(work.pop())
        maker = made_by(part)
        if same is not None and _implies(part, same.value):
            return True
        if maker is not None and maker.name == "stablehlo.dynamic_slice" and list(maker.operands) == [mask, *place]:
            return True
        if maker is not None and maker.name == "stablehlo.and" and part not in seen:
            seen.add(part)
            work += maker.operands
    return False


def _implies(predicate: ir.Value, mask: ir.Value) -> bool:
    """Whether it can be shown that a predicate holds nowhere outside of a mask, as ``a & b`` does not outside of ``a | c``."""
    return not _parts(predicate, "stablehlo.and").isdisjoint(_parts(mask, "stablehlo.or"))


def _parts(value: ir.Value, name: str) -> set[ir.Value]:
    """A truth value and those that it is the `and`, or the `or`, of."""
    parts, work = {value}, [value]
    while work:
        maker = made_by(work.pop())
        if maker is not None and maker.name == name:
            new = set(maker.operands) - parts
            parts |= new
            work += new
    return parts
