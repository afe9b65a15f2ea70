"""Eigenvalues and eigenvectors of stacked symmetric matrices as a kernel.

Golub and Van Loan, Matrix Computations, section 8.3: reflections make the matrix tridiagonal, T = Qᵀ A Q. Iterations
with implicit shifts then make T diagonal by rotations, and Q is multiplied by the rotations. Each step of the first part reads
the matrix once: it applies the update of the previous step and multiplies by the next vector (Howell and others, Cache
efficient bidiagonalization using BLAS 2.5 operators, 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.numbers import Number, Numbers
from nabla_mlir.passes.iree.kernels.reflections import Reflections, reflection_step
from nabla_mlir.passes.iree.kernels.rotations import Rotations
from nabla_mlir.passes.iree.kernels.spectrum import (
    Sweeps,
    accuracy,
    divide_by_largest,
    fill_unless,
    hypotenuse,
    is_finite,
    place_in_order,
    size_of,
)
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text


def eigh_text(name: str, batch: int, size: int, n: int, form: Form) -> tuple[str, list[Memory]]:
    """A kernel for the eigenvalues in ascending order, and the eigenvectors as rows of a matrix; NaN without convergence.

    Args:
      name: the name of the kernel.
      batch: the number of matrices; each has one workgroup.
      size: the number of rows and columns with padding, a multiple of `reflection_step(form)`.
      n: the number of rows and columns without padding, at least 2; the padding is zero.
      form: the form of vectors and tiles.

    Returns:
      The text, and the buffers of the results: values, vectors, and memory that the kernel needs.
    """
    t, element = Text(form), form.element
    a = Memory("%a", (batch, size, size), element, read_only=True)
    values, vectors = Memory("%values", (batch, n), element), Memory("%vectors", (batch, size, size), element)
    work, q, reflectors = (Memory(x, (batch, size, size), element) for x in ("%work", "%q", "%reflectors"))
    pair, line = Memory("%pair", (batch, 3, size), element), Memory("%line", (batch, 3, size + 1), element)
    stores = Rotations.memories("rotations", batch, n, form)
    b = t.result(workgroup())
    scale = divide_by_largest(t, a, work, b)
    diagonal, off_diagonal, taus = (Numbers(t, line, (b, i)) for i in range(3))
    reflections = Reflections(t, reflectors, b, reflection_step(form))
    # A = Qᵀ T Q with a tridiagonal T; then T is made diagonal by rotations, which also change the rows of q.
    _Reduction(t, work, pair, reflections, n).run(diagonal, off_diagonal, taus)
    reflections.multiply_identity(q, max(n - 2, 0), 1, lambda k: taus[k])
    found = _Iteration(t, diagonal, off_diagonal, Rotations(t, *stores, b, from_above=False), q, n).run()
    with t.loop(0, n) as i:
        position = place_in_order(t, diagonal, i, n, descending=False)
        Numbers(t, values, (b,))[position] = diagonal[i] * scale
        with t.loop(0, size, form.lanes) as j:
            t.put(t.vector(q, b, i, j), vectors, b, position, j)
    fill_unless(t, found, b, (values, vectors))
    results = [values, vectors, work, q, reflectors, pair, line, *stores]
    return t.kernel(name, [a, *results], (batch, 1, 1)), results


@dataclass(frozen=True)
class _Reduction:
    """The reduction to a tridiagonal matrix. The update of step k, v wᵀ + w vᵀ, is subtracted in step k + 1.

    Args:
      t: the kernel.
      work: the matrix.
      pair: v, w, and the product of the matrix with the next vector.
      reflections: the reflections, whose vectors it computes.
      n: the number of rows of the matrix.
    """

    t: Text
    work: Memory
    pair: Memory
    reflections: Reflections
    n: int

    def run(self, diagonal: Numbers, off_diagonal: Numbers, taus: Numbers) -> None:
        """Writes the diagonal and the off-diagonal of T, and tau of each reflection."""
        t, b, n = self.t, self.reflections.group, self.n
        with t.loop(0, self.pair.shape[2], t.form.lanes) as j:
            for row in range(3):
                t.put(t.zeros(), self.pair, b, row, j)
        with t.loop(0, max(n - 2, 0)) as k:
            # Row k is final; its reflection changes the rows below, and is subtracted from them as a pair later.
            self._change_row(k)
            diagonal[k] = Number(t, t.load(self.work, b, k, k))
            tau, beta = self.reflections.make(k, (self.work, k), t.add(k, 1))
            off_diagonal[k], taus[k] = beta, tau
            self._change_and_multiply(k)
            self._store_pair(k, tau)
        for i in (n - 2, n - 1):
            self._change_row(i)
            diagonal[i] = Number(t, t.load(self.work, b, i, i))
        off_diagonal[n - 2] = Number(t, t.load(self.work, b, n - 2, n - 1))
        off_diagonal[n - 1] = 0.0

    def _vector(self, i: int, j: Index) -> str:
        """A vector of row i of the memory `pair`, loaded from column j on."""
        return self.t.vector(self.pair, self.reflections.group, i, j)

    def _changed(self, row: Index, j: str, v: str, w: str) -> str:
        """A vector of the matrix (from column j on in a row) minus the same part of v wᵀ + w vᵀ, which is also stored.

        `v` and `w` are the entries of the vectors v and w for that row, in every lane.
        """
        t, b = self.t, self.reflections.group
        x = t.minus(t.vector(self.work, b, row, j), t.multiplied(v, self._vector(1, j)))
        x = t.minus(x, t.multiplied(w, self._vector(0, j)))
        t.put(x, self.work, b, row, j)
        return x

    def _entries(self, row: Index) -> list[str]:
        """The entries of v and w for a row, each in every lane."""
        return [self.t.splat(self.t.load(self.pair, self.reflections.group, i, row)) for i in range(2)]

    def _change_row(self, k: Index) -> None:
        """Writes the subtraction of the pending update v wᵀ + w vᵀ from row k."""
        t = self.t
        v, w = self._entries(k)
        with t.loop(t.multiple(k, self.reflections.step), self.pair.shape[2], t.form.lanes) as j:
            self._changed(k, j, v, w)

    def _change_and_multiply(self, k: str) -> None:
        """Writes the subtraction of the pending update from the rows below row k, and the products of these rows with vector k.

        The products are row 2 of `pair`. The first tile may include rows above row k + 1, whose results are not needed.
        """
        t, b, size = self.t, self.reflections.group, self.pair.shape[2]
        below, rows = t.add(k, 1), t.form.rows
        with t.loop(t.multiple(below, rows), size, rows) as start:
            positions = [t.add(start, i) for i in range(rows)]
            entries = [self._entries(i) for i in positions]

            def add(j: str, sums: list[str]) -> list[str]:
                """The lane sums of the products of each row with vector k, after the terms from index j on."""
                x = t.vector(self.reflections.vectors, b, k, j)
                lines = [self._changed(i, j, *e) for i, e in zip(positions, entries, strict=True)]
                return [t.plus(s, t.multiplied(x, row)) for s, row in zip(sums, lines, strict=True)]

            first = t.multiple(below, self.reflections.step)
            sums = t.carried(first, size, [t.zeros()] * rows, [t.form.vector] * rows, add, t.form.lanes)
            for i, x in zip(positions, sums, strict=True):
                t.store(t.lane_sum(x), self.pair, b, 2, i)

    def _store_pair(self, k: str, tau: Number) -> None:
        """Stores v, and w = tau y - (tau² (y · v) / 2) v for the product y of the matrix with v, as rows 0 and 1 of the pair."""
        t, b = self.t, self.reflections.group
        first = t.add(k, 1)
        (product,) = self.reflections.products(k, first, self.pair, [2])
        factor, taus = t.splat((tau * tau * product * 0.5).name), t.splat(tau.name)
        start = t.multiple(first, self.reflections.step)
        with t.loop(start, self.pair.shape[2], t.form.lanes) as j:
            v = t.vector(self.reflections.vectors, b, k, j)
            t.put(v, self.pair, b, 0, j)
            t.put(t.minus(t.multiplied(taus, self._vector(2, j)), t.multiplied(factor, v)), self.pair, b, 1, j)
        # The first vector may begin before entry k + 1: its entries before are zero.
        with t.loop(start, first) as j:
            t.store(t.number(0), self.pair, b, 1, j)


@dataclass(frozen=True)
class _Iteration:
    """The implicit QL iteration of a tridiagonal matrix, from the first eigenvalue to the last.

    Args:
      t: the kernel.
      diagonal: the diagonal of the matrix; at the end it has the eigenvalues.
      off_diagonal: the off-diagonal.
      rotations: the memory of the rotations.
      q: the matrix whose rows are rotated.
      n: the number of eigenvalues.
    """

    t: Text
    diagonal: Numbers
    off_diagonal: Numbers
    rotations: Rotations
    q: Memory
    n: int

    def run(self) -> str:
        """An i1 that is true if all eigenvalues were found, after code that writes them to `diagonal`."""
        t = self.t
        size = size_of(t, self.diagonal, self.off_diagonal, self.n)
        bound = size * (0.5 * accuracy(t))
        block = lambda first: (first, self._end_of_block(first, bound))  # noqa: E731
        return Sweeps(t, [(self.rotations, self.q)], self.n, block, self._sweep).run(is_finite(size))

    def _end_of_block(self, first: str, bound: Number) -> str:
        """The last row of the block from row `first` on: rows i and i + 1 are in one block if off-diagonal entry i is > bound."""
        t = self.t

        def is_inside(values: list[str]) -> str:
            is_tied = abs(self.off_diagonal[values[0]]).is_not_at_most(bound)
            return t.result(f"arith.andi {t.compare('slt', values[0], self.n - 1)}, {is_tied} : i1")

        return t.while_loop([first], ["index"], is_inside, lambda values: [str(t.add(values[0], 1))])[0]

    def _sweep(self, first: str, last: str, end: str) -> None:
        """Writes one QL sweep with an implicit shift over the rows `first` to `last`; rotations are stored from index `end` on.

        It is the sweep of EISPACK's tql2 and of `tqli` in Numerical Recipes, with d as the diagonal and e as the off-diagonal. The
        shift is the eigenvalue of the first 2 x 2 block that is nearer to d[first].
        """
        t, element = self.t, self.t.form.element
        d, e = self.diagonal, self.off_diagonal
        ratio = (d[t.add(first, 1)] - d[first]) / (e[first] * 2.0)
        root = (ratio * ratio + 1.0).sqrt()
        shift = d[last] - d[first] + e[first] / (ratio + root.with_sign_of(ratio))
        one, zero = Number(t, t.number(1)), Number(t, t.number(0))

        def rotate(step: str, values: list[str]) -> list[str]:
            """Computes and stores one rotation of the sweep; the values are its sine and cosine, p and g of the QL algorithm."""
            s, c, p, g = (Number(t, x) for x in values)
            i = t.of_indices("subi", t.add(last, -1), step)
            below = t.add(i, 1)
            f, h = s * e[i], c * e[i]
            e[below], c, s = hypotenuse(g, f)
            g = d[below] - p
            r = (d[i] - g) * s + c * h * 2.0
            p = s * r
            d[below] = g + p
            self.rotations.keep(t.add(end, step), c, s)
            return [s.name, c.name, p.name, (c * r - h).name]

        inits = [one.name, one.name, zero.name, shift.name]
        count = t.of_indices("subi", last, first)
        *_, p, g = t.carried(0, count, inits, [element] * 4, rotate)
        d[first] = d[first] - Number(t, p)
        e[first] = Number(t, g)
        e[last] = 0.0
