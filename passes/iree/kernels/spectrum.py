"""Common code of the kernels for eigenvalues and singular values: scaling, iteration, order, and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nabla_mlir.passes.iree.kernels.numbers import Number, Numbers, larger, where
from nabla_mlir.passes.iree.kernels.rotations import Rotations
from nabla_mlir.passes.iree.kernels.text import Memory, Text

MOST_SWEEPS = 50  # the number of sweeps for each value, on average, before an iteration fails; usually two are enough


def accuracy(t: Text) -> float:
    """The distance from 1 to the next floating-point number of the kernel's dtype."""
    return float(np.finfo(np.float32 if t.form.element == "f32" else np.float64).eps)


def size_of(t: Text, diagonal: Numbers, off_diagonal: Numbers, n: int) -> Number:
    """The largest sum |diagonal[i]| + |off_diagonal[i]| for n rows of a tridiagonal matrix: about its norm."""

    def row_maximum(i: str, best: list[str]) -> list[str]:
        """The larger one of the best sum so far and the sum of row i."""
        return [larger(Number(t, best[0]), abs(diagonal[i]) + abs(off_diagonal[i])).name]

    return Number(t, t.carried(0, n, [t.number(0)], [t.form.element], row_maximum)[0])


def is_finite(x: Number) -> str:
    """An i1 that is true if the number is finite."""
    return (x * 0.0).is_at_most(0.0)


def hypotenuse(f: Number, g: Number) -> tuple[Number, Number, Number]:
    """The rotation that makes g zero: (r, c, s) with c f + s g = r and c g - s f = 0; (0, 1, 0) if the squares underflow.

    The entries of the matrix are at most 1, so f and g are then far below the rounding errors of the matrix.
    """
    t = f.t
    zero, one = Number(t, t.number(0)), Number(t, t.number(1))
    squares = f * f + g * g
    is_zero = squares.is_at_most(1e-30 if t.form.element == "f32" else 1e-290)
    size = where(is_zero, one, squares.sqrt())
    return where(is_zero, zero, size), where(is_zero, one, f / size), where(is_zero, zero, g / size)


def divide_by_largest(t: Text, a: Memory, work: Memory, group: str) -> Number:
    """The largest absolute value of matrix `group` of `a`, or 1 if it is zero; the matrix divided by it is written to `work`.

    Then no square overflows, and no relevant square underflows.
    """
    _, rows, columns = a.shape
    kind = t.form.vector

    def row_maximum(i: str, best: list[str]) -> list[str]:
        """The largest absolute values, in lanes, of row `i` and of the rows before it."""

        def in_row(j: str, best: list[str]) -> list[str]:
            """The largest absolute values, in lanes, after the entries of the row from index j on."""
            size = t.result(f"math.absf {t.vector(a, group, i, j)} : {kind}")
            return [t.result(f"arith.maximumf {best[0]}, {size} : {kind}")]

        return t.carried(0, columns, best, [kind], in_row, t.form.lanes)

    (best,) = t.carried(0, rows, [t.zeros()], [kind], row_maximum)
    largest = Number(t, t.result(f"vector.reduction <maximumf>, {best} : {kind} into {t.form.element}"))
    one = Number(t, t.number(1))
    size = where(largest.is_at_most(0.0), one, largest)
    factor = one / size
    with t.loop(0, rows) as i, t.loop(0, columns, t.form.lanes) as j:
        t.put(t.scaled([t.vector(a, group, i, j)], factor.name)[0], work, group, i, j)
    return size


def place_in_order(t: Text, values: Numbers, i: str, n: int, descending: bool) -> str:
    """The index that value number i has after n values are sorted; equal values keep their order."""
    value = values[i]

    def count(j: str, positions: list[str]) -> list[str]:
        """The number of values before value i in the order, among the values up to number j."""
        other = values[j]
        is_before = value.is_less(other) if descending else other.is_less(value)
        is_equal_before = t.result(f"arith.andi {value.equals(other)}, {t.compare('slt', j, i)} : i1")
        either = t.result(f"arith.ori {is_before}, {is_equal_before} : i1")
        return [str(t.add(positions[0], t.result(f"arith.index_castui {either} : i1 to index")))]

    return t.carried(0, n, [t.index(0)], ["index"], count)[0]


@dataclass(frozen=True)
class Sweeps:
    """An iteration that finds one value after another, by sweeps over the block of rows that contains it.

    Args:
      t: the kernel.
      sides: the memories of rotations, each with the matrix whose rows they rotate.
      n: the number of values.
      block: for step i, the first and the last row of the block that contains value i; a block of one row is a value.
      sweep: called with the first row, the last row, and the index from which on the rotations of a sweep are stored.
    """

    t: Text
    sides: Sequence[tuple[Rotations, Memory]]
    n: int
    block: Callable[[str], tuple[str, str]]
    sweep: Callable[[str, str, str], None]

    def run(self, is_possible: str) -> str:
        """An i1 that is true if all values were found; no value is searched if `is_possible` is false."""
        t, zero = self.t, self.t.index(0)
        kinds = ["i1", "index", "index", "index"]
        found, _, sweeps, _ = t.carried(0, self.n, [is_possible, zero, zero, zero], kinds, self._find)
        for rotations, rows in self.sides:
            rotations.apply(rows, sweeps)
        return found

    def _find(self, step: str, state: list[str]) -> list[str]:
        """The new state after sweeps that find the value of a step.

        The state is an i1 (all values so far were found), and the numbers of stored rotations, of stored sweeps, and of all sweeps.
        """
        t = self.t
        inits = [*state, *self.block(step)]
        results = t.while_loop(inits, ["i1", *["index"] * 5], self._needs_sweep, lambda values: self._next(step, values))
        found, end, sweeps, count, first, last = results
        return [t.result(f"arith.andi {found}, {t.compare('eq', first, last)} : i1"), end, sweeps, count]

    def _needs_sweep(self, values: list[str]) -> str:
        """An i1: no earlier value failed, the block has more than one row, and the number of sweeps is below the limit."""
        t, (found, _, _, count, first, last) = self.t, values
        is_unfinished = t.result(f"arith.andi {found}, {t.compare('ne', first, last)} : i1")
        return t.result(f"arith.andi {is_unfinished}, {t.compare('slt', count, MOST_SWEEPS * self.n)} : i1")

    def _next(self, step: str, values: list[str]) -> list[str]:
        """The values of the loop after one more sweep: the state (see `_find`), and the first and last row of the next block."""
        t, (found, end, sweeps, count, first, last) = self.t, values
        # Each side applies its own rotations; all sides store the same sweeps, so the new numbers are equal.
        (end, sweeps), *_ = [rotations.make_room(rows, end, sweeps, self.n) for rotations, rows in self.sides]
        self.sweep(first, last, end)
        for rotations, _ in self.sides:
            rotations.end_sweep(sweeps, first, last)
        end = str(t.add(end, t.of_indices("subi", last, first)))
        return [found, end, str(t.add(sweeps, 1)), str(t.add(count, 1)), *self.block(step)]


def fill_unless(t: Text, found: str, group: str, memories: Sequence[Memory]) -> None:
    """Writes code that fills the results `memories` of matrix `group` with NaN if the i1 `found` is false."""
    element = t.form.element
    nan = t.constant("0x7FC00000" if element == "f32" else "0x7FF8000000000000", element)
    with t.if_holds(found) as otherwise:
        otherwise()  # nothing happens if the values were found
        for memory in memories:
            if len(memory.shape) == 2:
                with t.loop(0, memory.shape[1]) as i:
                    t.store(nan, memory, group, i)
                continue
            with t.loop(0, memory.shape[1]) as i, t.loop(0, memory.shape[2], t.form.lanes) as j:
                t.put(t.splat(nan), memory, group, i, j)
