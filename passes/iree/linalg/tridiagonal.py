"""Legalisation of LAPACK's gtsv: tridiagonal systems by Gaussian elimination with exchanges of neighbouring rows."""

from __future__ import annotations

import numpy as np

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val, select


def _row(x: Val, i: Val) -> Val:
    """Row i (an index of the second axis) of each entry of the stack x; the axis stays, with size 1."""
    start = [i if d == 1 else b.full(0, (), np.int32) for d in range(x.rank)]
    sizes = [1 if d == 1 else n for d, n in enumerate(x.shape)]
    return b.dynamic_slice(x, start, sizes)


def _put(x: Val, i: Val, row: Val) -> Val:
    """The stack x in which row i (an index of the second axis) of each entry is replaced by `row`."""
    return b.dynamic_update_slice(x, row, [i if d == 1 else b.full(0, (), np.int32) for d in range(x.rank)])


def _size(x: Val) -> Val:
    """The number |re| + |im| by which LAPACK compares pivots."""
    return abs(b.real(x)) + abs(b.imag(x)) if x.dtype.kind == "c" else abs(x)


def tridiagonal_solve(lower: Val, diagonal: Val, upper: Val, right: Val) -> list[Val]:
    """The results of gtsv: three diagonals of the triangular factor, the solutions, and info: 1 if a pivot is zero, else 0.

    Args:
      lower: the lower diagonal, of shape (stack, n); its first entry is not read.
      upper: the upper diagonal, of shape (stack, n); its last entry is not read.
      right: the right-hand sides, of shape (stack, n, m).

    The elimination of entry i + 1 of the lower diagonal exchanges rows i and i + 1 if that entry is larger than the
    pivot; row i then has one more entry. So each row of the triangular matrix has three entries, stored as one row of
    `packed`.
    """
    stack, n = diagonal.shape
    columns = lambda *xs: b.concat([b.reshape(x, (*x.shape, 1)) for x in xs], 2)  # noqa: E731
    zero = b.full(0, diagonal.shape, diagonal.dtype)
    packed = columns(diagonal, upper, zero)  # the entries i, i + 1 and i + 2 of row i
    inside = b.iota((stack, n, 3), 1, np.int32) + b.iota((stack, n, 3), 2, np.int32) < n
    packed = select(inside, packed, 0)

    def eliminate(i: Val, packed: Val, right: Val) -> list[Val]:
        """Eliminates the entry below the diagonal in column i, after the exchange of two rows if that entry is larger."""
        after = i + 1
        row, last_rows = _row(packed, i), _row(packed, after)
        below = b.reshape(_row(lower, after), (stack, 1, 1))
        last_rows = b.concat([below, b.cut(last_rows, 2, 0, 2)], 2)
        swaps = _size(below) > _size(b.cut(row, 2, 0, 1))
        wide = b.broadcast(swaps, row.shape, [0, 1, 2])
        top, bottom = select(wide, last_rows, row), select(wide, row, last_rows)
        pivot = b.cut(top, 2, 0, 1)
        factor = b.cut(bottom, 2, 0, 1) / pivot
        bottom = bottom - b.broadcast(factor, row.shape, [0, 1, 2]) * top
        bottom = b.pad(b.cut(bottom, 2, 1, 3), [0, 0, 0], [0, 0, 1])
        right_i, right_after = _row(right, i), _row(right, after)
        wide = b.broadcast(swaps, right_i.shape, [0, 1, 2])
        first, second = select(wide, right_after, right_i), select(wide, right_i, right_after)
        second = second - b.broadcast(factor, right_i.shape, [0, 1, 2]) * first
        packed = _put(_put(packed, i, top), after, bottom)
        return [packed, _put(_put(right, i, first), after, second)]

    packed, right = b.for_loop(n - 1, [packed, right], eliminate)

    def substitute(step: Val, x: Val, next_: Val, second: Val) -> list[Val]:
        """The values of a loop after a step of the back substitution, which computes row n - 1 - step of the solutions x.

        `next_` and `second` are the rows that the last two steps computed.
        """
        i = (n - 1) - step
        pivot, one, two = (b.broadcast(b.cut(_row(packed, i), 2, k, k + 1), next_.shape, [0, 1, 2]) for k in range(3))
        solution = (_row(right, i) - one * next_ - two * second) / pivot
        return [_put(x, i, solution), solution, next_]

    nothing = b.full(0, (stack, 1, right.shape[2]), right.dtype)
    x, *_ = b.for_loop(n, [right, nothing, nothing], substitute)
    singular = b.reduce_any(b.eq(b.cut(packed, 2, 0, 1), 0), [1, 2])
    diagonals = [b.reshape(b.cut(packed, 2, k, k + 1), (stack, n)) for k in (2, 0, 1)]
    return [*diagonals, x, select(singular, b.full(1, (stack,), np.int32), 0)]
