"""A proof that a value is zero outside of a mask, from the operations that compute it.

A backward loop may apply the mask of its initial value to a carry in each iteration if the body leaves the carry zero
outside of the mask: the selection changes no value then. The proof follows the result of the body back to

- a selection inside the mask, ``where(p, t, 0)`` with a predicate p that implies the mask;
- a carry for which the same is to be shown (induction over the iterations);
- sums and views of such values, zeros, and the results of branches that are all such values.

For ``carry * 2`` there is no proof: products are not followed, because 0 * inf is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.regions import before_reshapes, made_by
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.rules.questions import Asking, follow
from nabla_mlir.table.regions import body_of
from nabla_mlir.table.tensor import Tensor, splat_of, wrap
from nabla_mlir.table.traits import is_sum, is_view, moved, returns_of_regions


def vanishes(t: Tensor, mask: Tensor, zeros: Iterable[ir.Value] = ()) -> bool:
    """True if it is proven that a value is zero outside of a mask of its shape.

    Args:
      t: the value.
      mask: truth values of its shape.
      zeros: values that are known to be zero outside of the mask.
    """
    return follow(t.value, lambda value: _vanishes(value, mask.value), dict.fromkeys(zeros, True))


def _vanishes(value: ir.Value, mask: ir.Value) -> Asking[bool]:
    """True if `value` is zero outside of `mask`, as its operation and operands prove; yields values, and receives their answers."""
    op = made_by(value)
    if op is None or is_zero(wrap(value)):
        return op is not None
    if _keeps_order(op):
        return (yield from _all(op.operands))
    if op.name == "stablehlo.select":
        predicate, one, other = op.operands  # a value that is selected outside of the mask must be zero there
        return (implies(before_reshapes(predicate), mask) or (yield one)) and (yield other)
    if op.name == "stablehlo.dynamic_slice":
        tape = op.operands[0]
        # A row of a tape vanishes if each row that the loop wrote vanishes.
        whole_row = wrap(value).shape == (1, *wrap(tape).shape[1:])
        return whole_row and follow(tape, lambda v: _rows_vanish(v, mask), {})
    if op.name == "stablehlo.dynamic_update_slice":
        whole, row, *position = op.operands
        return (yield whole) and follow(row, lambda v: _row_vanishes(v, mask, position), {})
    if returns_of_regions(op):
        i = list(op.results).index(value)
        return (yield from _all(body_of(region)[2][i] for region in op.regions))
    return False


def _keeps_order(op: ir.Operation) -> bool:
    """True if a result is zero wherever the operands are zero at the same index in row-major order."""
    return is_sum(op) or (is_view(op) and bool(moved(op)))


def _all(values: Iterable[ir.Value]) -> Asking[bool]:
    """True if the answer for each value is True: the generator yields each value, and its caller sends the answer."""
    for value in values:
        if not (yield value):
            return False
    return True


def _rows_vanish(value: ir.Value, mask: ir.Value) -> Asking[bool]:
    """True if each row of the tape `value` is zero outside of a mask of rows; yields values, and receives their answers."""

    def is_inside(predicate: ir.Value) -> bool:
        """True if a predicate is one mask for all rows, and implies the mask."""
        same = mask_of_rows(wrap(predicate))
        return same is not None and implies(same.value, mask)

    return (yield from _selected(value, is_sum, is_inside))


def _row_vanishes(value: ir.Value, mask: ir.Value, position: Sequence[ir.Value]) -> Asking[bool]:
    """True if the row `value`, which is written to a tape at index `position`, is zero outside of the tape's mask for that row.

    Yields values, and receives their answers.
    """
    return (yield from _selected(value, _keeps_order, lambda predicate: _is_part(predicate, mask, position)))


def _selected(value: ir.Value, keeps: Callable[[ir.Operation], bool], is_inside: Callable[[ir.Value], bool]) -> Asking[bool]:
    """True if a value is zero, except where selections inside of a mask chose an element; yields values, and receives their
    answers.

    Args:
      value: the value.
      keeps: True for an operation whose result has the property if its operands have it, for example a sum.
      is_inside: True for a predicate that implies the mask.
    """
    op = made_by(value)
    if op is None or is_zero(wrap(value)):
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
        if same is not None and implies(part, same.value):
            return True
        if maker is not None and maker.name == "stablehlo.dynamic_slice" and list(maker.operands) == [mask, *position]:
            return True
        if maker is not None and maker.name == "stablehlo.and" and part not in seen:
            seen.add(part)
            work += maker.operands
    return False


# ---------------------------------------------------------------- predicates


def is_zero(x: Tensor) -> bool:
    """True for a constant whose elements are all zero."""
    splat = splat_of(x)
    return splat is not None and splat == 0


def mask_of_rows(mask: Tensor) -> Tensor | None:
    """The mask that all rows of a tape share, if it was made by `repeated`; else None."""
    maker = made_by(mask.value)
    if maker is None or maker.name != "stablehlo.broadcast_in_dim":
        return None
    dims = I64Array.decode(maker.attributes["broadcast_dimensions"])
    return wrap(maker.operands[0]) if list(dims) == list(range(1, mask.ndim)) else None


def implies(predicate: ir.Value, mask: ir.Value) -> bool:
    """True if it is proven that a predicate is False outside of a mask.

    Example: ``a & b`` is False outside of ``a | c``.
    """
    return not _parts(predicate, "stablehlo.and").isdisjoint(_parts(mask, "stablehlo.or"))


def _parts(value: ir.Value, name: str) -> set[ir.Value]:
    """The values whose conjunction, or disjunction, a truth value is, and the value; `name` is the operation `and` or `or`."""
    parts, work = {value}, [value]
    while work:
        maker = made_by(work.pop())
        if maker is not None and maker.name == name:
            new = set(maker.operands) - parts
            parts |= new
            work += new
    return parts
