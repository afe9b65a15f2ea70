"""Householder reflections of the rows of a matrix: 1 - tau v vᵀ, applied from the right.

Golub and Van Loan, Matrix Computations, section 5.1. The elements of a row are adjacent in memory, so rows are
reflected independently, a few at a time, while they are in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from nabla_mlir.passes.iree.kernels.numbers import Number, larger, where
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text


@dataclass(frozen=True)
class Reflections:
    """The vectors of reflections, in the rows of a memory.

    A vector has a first entry; the elements before it are zero, from the last multiple of `step` on.

    Args:
      t: the kernel.
      vectors: memory of shape batch x reflections x columns; the number of columns is a multiple of `step`.
      group: the index of the matrix in the batch.
      step: a multiple of the lanes; a vector is read from the last multiple of it at or before its first entry.
    """

    t: Text
    vectors: Memory
    group: str
    step: int

    def make(self, k: Index, row: tuple[Memory, Index], first: Index) -> tuple[Number, Number]:
        """Tau and the entry `first` of a row after its reflection by a new vector k, which makes the entries after `first` zero.

        For the row x with alpha = x[first]: beta = -sign(alpha) |x|, tau = (beta - alpha) / beta, and the vector is x / (alpha -
        beta) with the entry `first` set to 1. If the entries after `first` are zero, tau is 0 and beta is alpha. `row` has the
        matrices and the index of the row. Entries are divided by the largest one before they are squared, so no square overflows.
        """
        t, (memory, i) = self.t, row
        self._copy(k, row, first)
        alpha, one = Number(t, t.load(memory, self.group, i, first)), Number(t, t.number(1))
        size = larger(abs(alpha), self._largest(k, first))
        scale = one / where(size.is_at_most(0.0), one, size)
        head, tail = alpha * scale, self._squares(k, first, scale)
        norm = (head * head + tail).sqrt() * size
        is_trivial = tail.is_at_most(0.0)
        beta = where(is_trivial, alpha, -norm.with_sign_of(alpha))
        # The difference one - 1.0 is a zero.
        tau = where(is_trivial, one - 1.0, (beta - alpha) / where(is_trivial, one, beta))
        factor = where(is_trivial, one - 1.0, one / where(is_trivial, one, alpha - beta))
        with self._columns(first) as j:
            t.put(t.scaled([t.vector(self.vectors, self.group, k, j)], factor.name)[0], self.vectors, self.group, k, j)
        t.store(t.number(1), self.vectors, self.group, k, first)
        return tau, beta

    def apply(self, k: Index, first: Index, tau: Number, rows: Memory, start: Index, count: int) -> None:
        """Reflects `count` rows of a matrix in `rows`, from row `start` on, by vector v number k: row -= tau (row · v) v.

        `first` is the index of the first entry of the vector.
        """
        t, indices = self.t, [self.t.add(start, i) for i in range(count)]
        products = self.products(k, first, rows, indices)
        factors = [t.splat((tau * x).name) for x in products]
        with self._columns(first) as j:
            v = t.vector(self.vectors, self.group, k, j)
            for i, factor in zip(indices, factors, strict=True):
                row = t.vector(rows, self.group, i, j)
                t.put(t.minus(row, t.multiplied(factor, v)), rows, self.group, i, j)

    def multiply_identity(self, rows: Memory, count: int, before: int, tau: Callable[[str], Number]) -> None:
        """Writes the rows of H(count - 1) ... H(0) to `rows`; the first entry of vector k has index k + `before`.

        `tau(k)` is the tau of reflection H(k). A row of the identity is not changed by vectors that begin after its 1.
        """
        t, many = self.t, self.t.form.rows
        with t.loop(0, rows.shape[1], many) as start:
            for i in (t.add(start, n) for n in range(many)):
                with t.loop(0, rows.shape[2], t.form.lanes) as j:
                    t.put(t.zeros(), rows, self.group, i, j)
                t.store(t.number(1), rows, self.group, i, i)
            last = t.of_indices("minsi", t.add(start, many - before), count)
            with t.loop(0, last) as step:
                k = t.of_indices("subi", t.add(last, -1), step)
                self.apply(k, t.add(k, before), tau(k), rows, start, many)

    def products(self, k: Index, first: Index, rows: Memory, indices: list[Index]) -> list[Number]:
        """The inner products of some rows of a matrix with vector k.

        Args:
          k: the index of the vector.
          first: the index of its first entry.
          rows: the matrices.
          indices: the indices of the rows.
        """
        t = self.t

        def add(j: str, sums: list[str]) -> list[str]:
            """The lane sums of the products of each row with vector k, after the terms from index j on."""
            v = t.vector(self.vectors, self.group, k, j)
            return [t.plus(x, t.multiplied(v, t.vector(rows, self.group, i, j))) for x, i in zip(sums, indices, strict=True)]

        sums = self._over(first, [t.zeros()] * len(indices), add)
        return [Number(t, t.lane_sum(x)) for x in sums]

    def _copy(self, k: Index, row: tuple[Memory, Index], first: Index) -> None:
        """Copies the entries after `first` of a row (its matrices and its index) to vector k, whose other entries become zero."""
        t, (memory, i) = self.t, row
        with self._columns(first) as j:
            t.put(t.vector(memory, self.group, i, j), self.vectors, self.group, k, j)
        # The first vector of lanes may begin before entry `first`.
        with t.loop(t.multiple(first, self.step), t.add(first, 1)) as j:
            t.store(t.number(0), self.vectors, self.group, k, j)

    def _largest(self, k: Index, first: Index) -> Number:
        """The largest absolute value of vector k from the entry `first` on; NaN if one is NaN."""
        t, kind = self.t, self.t.form.vector

        def grow(j: str, best: list[str]) -> list[str]:
            """The largest absolute values, in lanes, after the entries from index j on."""
            size = t.result(f"math.absf {t.vector(self.vectors, self.group, k, j)} : {kind}")
            return [t.result(f"arith.maximumf {best[0]}, {size} : {kind}")]

        (best,) = self._over(first, [t.zeros()], grow)
        return Number(t, t.result(f"vector.reduction <maximumf>, {best} : {kind} into {t.form.element}"))

    def _squares(self, k: Index, first: Index, scale: Number) -> Number:
        """The sum of the squares of the entries of vector k from `first` on, each multiplied by `scale` first."""
        t = self.t

        def add(j: str, sums: list[str]) -> list[str]:
            """The sums of the squares, in lanes, after the entries from index j on."""
            (x,) = t.scaled([t.vector(self.vectors, self.group, k, j)], scale.name)
            return [t.plus(sums[0], t.multiplied(x, x))]

        return Number(t, t.lane_sum(self._over(first, [t.zeros()], add)[0]))

    def _over(self, first: Index, inits: list[str], body: Callable[[str, list[str]], list[str]]) -> list[str]:
        """The last carried vectors of a loop over vectors of columns, which starts at or shortly before column `first`.

        The loop begins at the last multiple of `step`; `body` gets the column and the carried vectors, and returns new ones.
        """
        t = self.t
        types = [t.form.vector] * len(inits)
        return t.carried(t.multiple(first, self.step), self.vectors.shape[2], inits, types, body, t.form.lanes)

    def _columns(self, first: Index) -> AbstractContextManager[str]:
        """A loop over vectors of columns as a context: from the last multiple of `step` that is not after `first`."""
        return self.t.loop(self.t.multiple(first, self.step), self.vectors.shape[2], self.t.form.lanes)


def reflection_step(form: Form) -> int:
    """The step of the offsets at which vectors of reflections are read; no tile of rows begins between two of them."""
    return max(form.lanes, form.rows)
