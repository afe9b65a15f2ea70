"""Singular values and vectors of stacked square matrices as a kernel.

Golub and Van Loan, Matrix Computations, section 8.6: reflections from both sides make the matrix bidiagonal. Iterations
with implicit shifts then make it diagonal by rotations from both sides. A step of the first part reads the matrix twice
(Howell and others, Cache efficient bidiagonalization using BLAS 2.5 operators, 2008). If a diagonal entry is zero, a
sweep without a shift moves it to the end (Demmel and Kahan, Accurate singular values of bidiagonal matrices, 1990).
"""

from __future__ import annotations

from dataclasses import dataclass

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.numbers import Number, Numbers, where
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


def svd_text(name: str, batch: int, size: int, n: int, form: Form) -> tuple[str, list[Memory]]:
    """A kernel for the singular values in descending order, and left and right vectors as rows; NaN without convergence.

    Args:
      name: the name of the kernel.
      batch: the number of matrices; each has one workgroup.
      size: the number of rows and columns with padding, a multiple of `reflection_step(form)`.
      n: the number of rows and columns without padding, at least 2; the padding is zero.
      form: the form of vectors and tiles.

    Returns:
      The text, and the buffers of the results: values, left and right vectors, and memory that the kernel needs.
    """
    t, element = Text(form), form.element
    a = Memory("%a", (batch, size, size), element, read_only=True)
    values = Memory("%values", (batch, n), element)
    left, right, work, q, p, u, v = (
        Memory(f"%{x}", (batch, size, size), element) for x in ("left", "right", "work", "q", "p", "u", "v")
    )
    pending, line = Memory("%pending", (batch, 6, size), element), Memory("%line", (batch, 4, size + 1), element)
    stores = [Rotations.memories(x, batch, n, form) for x in ("left_rotations", "right_rotations")]
    b = t.result(workgroup())
    scale = divide_by_largest(t, a, work, b)
    diagonal, above, left_taus, right_taus = (Numbers(t, line, (b, i)) for i in range(4))
    rows, columns = (Reflections(t, m, b, reflection_step(form)) for m in (u, v))
    # A = Qᵀ B P with an upper bidiagonal B; then B is made diagonal by rotations, which also change the rows of q and p.
    _Reduction(t, work, pending, rows, columns, n).run(diagonal, above, left_taus, right_taus)
    rows.multiply_identity(q, n - 1, 0, lambda k: left_taus[k])
    columns.multiply_identity(p, n - 1, 1, lambda k: right_taus[k])
    sides = [(Rotations(t, *memories, b, from_above=True), m) for memories, m in zip(stores, (q, p), strict=True)]
    found = _Iteration(t, diagonal, above, sides, n).run()
    _write_in_order(t, diagonal, scale, ((q, left), (p, right)), Numbers(t, values, (b,)), n)
    fill_unless(t, found, b, (values, left, right))
    results = [values, left, right, work, q, p, u, v, pending, line, *stores[0], *stores[1]]
    return t.kernel(name, [a, *results], (batch, 1, 1)), results


def _write_in_order(
    t: Text, diagonal: Numbers, scale: Number, vectors: tuple[tuple[Memory, Memory], ...], values: Numbers, n: int
) -> None:
    """Writes singular values and vectors in descending order of the values.

    Args:
      t: the kernel.
      diagonal: the values; a negative value changes its sign, and so does its right vector.
      scale: the number by which the values are multiplied.
      vectors: source and target of the left vectors, and of the right vectors.
      values: the target of the values.
      n: the number of values.
    """
    (b, _), lanes = diagonal.position, t.form.lanes
    signs = Numbers(t, diagonal.memory, (b, 1))  # overwrites the superdiagonal, which is no longer needed
    with t.loop(0, n) as i:
        signs[i] = where(diagonal[i].is_less(0.0), Number(t, t.number(-1)), 1.0)
        diagonal[i] = abs(diagonal[i])
    with t.loop(0, n) as i:
        position = place_in_order(t, diagonal, i, n, descending=True)
        values[position] = diagonal[i] * scale
        for (source, target), factor in zip(vectors, (Number(t, t.number(1)), signs[i]), strict=True):
            with t.loop(0, source.shape[2], lanes) as j:
                t.put(t.scaled([t.vector(source, b, i, j)], factor.name)[0], target, b, position, j)


U, Y, Z, V, LINE, PRODUCT = range(6)  # the rows of the memory `pending` of `_Reduction`


@dataclass(frozen=True)
class _Reduction:
    """The reduction to an upper bidiagonal matrix. The update of step k, u yᵀ + z vᵀ, is subtracted in step k + 1.

    Args:
      t: the kernel.
      work: the matrix.
      pending: u, y, z, v, a row or a column of the matrix, and the product of its transpose with the next u.
      rows: the reflections from the left.
      columns: the reflections from the right.
      n: the number of rows of the matrix.
    """

    t: Text
    work: Memory
    pending: Memory
    rows: Reflections
    columns: Reflections
    n: int

    def run(self, diagonal: Numbers, above: Numbers, left_taus: Numbers, right_taus: Numbers) -> None:
        """Writes the diagonal, the superdiagonal (from index 1 on; 0 at index 0), and the tau of each left and right reflection."""
        t, n = self.t, self.n
        with t.loop(0, self.pending.shape[2], t.form.lanes) as j:
            for i in range(6):
                self._put(t.zeros(), i, j)
        above[0] = 0.0
        with t.loop(0, n - 1) as k:
            # Column k is reflected from the left, then row k from the right of the diagonal; the rest of the matrix changes one
            # step later.
            after = t.add(k, 1)
            self._read_column(k)
            left_taus[k], diagonal[k] = self.rows.make(k, (self.pending, LINE), k)
            self._change_and_multiply(k)
            self._read_row(k, left_taus[k])
            right_taus[k], above[after] = self.columns.make(k, (self.pending, LINE), after)
            self._next_pending(k, right_taus[k])
        self._read_column(n - 1)
        diagonal[n - 1] = Numbers(t, self.pending, (self.rows.group, LINE))[n - 1]

    def _vector(self, i: int, j: Index) -> str:
        """A vector of row i of the memory `pending`, loaded from column j on."""
        return self.t.vector(self.pending, self.rows.group, i, j)

    def _put(self, x: str, i: int, j: Index) -> None:
        """Stores the vector `x` in row i of the memory `pending`, from column j on."""
        self.t.put(x, self.pending, self.rows.group, i, j)

    def _entry(self, i: int, j: Index) -> Number:
        """The number in row i and column j of the memory `pending`."""
        return Number(self.t, self.t.load(self.pending, self.rows.group, i, j))

    def _over(self, first: Index) -> tuple[Index, Index, int]:
        """The start, end and step of a loop over vectors of columns, which starts at or shortly before column `first`."""
        return self.t.multiple(first, self.rows.step), self.pending.shape[2], self.t.form.lanes

    def _read_column(self, k: Index) -> None:
        """Writes column k of the matrix, from the diagonal on, to row LINE of `pending`, with the pending update subtracted.

        LINE[i] = A[i, k] - U[i] Y[k] - Z[i] V[k], where U, Y, Z and V are the rows of `pending`.
        """
        t, b = self.t, self.rows.group
        y, v = self._entry(Y, k), self._entry(V, k)
        with t.loop(k, self.n) as i:
            x = Number(t, t.load(self.work, b, i, k)) - self._entry(U, i) * y - self._entry(Z, i) * v
            t.store(x.name, self.pending, b, LINE, i)

    def _change_and_multiply(self, k: str) -> None:
        """Subtracts the pending update from the rows from k on, and writes their transpose times vector u of step k to PRODUCT.

        A[row, j] -= U[row] Y[j] + Z[row] V[j], and PRODUCT[j] = sum over rows of u[row] A[row, j]. The first tile may include rows
        above row k, whose results are not needed.
        """
        t, b, rows = self.t, self.rows.group, self.t.form.rows
        with t.loop(*self._over(k)) as j:
            self._put(t.zeros(), PRODUCT, j)
        with t.loop(t.multiple(k, rows), self.pending.shape[2], rows) as start:
            positions = [t.add(start, i) for i in range(rows)]
            entries = [[t.splat(self._entry(i, row).name) for i in (U, Z)] for row in positions]
            factors = [t.splat(t.load(self.rows.vectors, b, k, row)) for row in positions]
            with t.loop(*self._over(t.add(k, 1))) as j:
                y, v, product = (self._vector(i, j) for i in (Y, V, PRODUCT))
                for row, (u, z), factor in zip(positions, entries, factors, strict=True):
                    x = t.minus(t.vector(self.work, b, row, j), t.multiplied(u, y))
                    x = t.minus(x, t.multiplied(z, v))
                    t.put(x, self.work, b, row, j)
                    product = t.plus(product, t.multiplied(factor, x))
                self._put(product, PRODUCT, j)

    def _read_row(self, k: str, tau: Number) -> None:
        """Applies the left reflection to row k: row Y of `pending` becomes tau times PRODUCT, and LINE becomes row k minus Y."""
        t, factor = self.t, self.t.splat(tau.name)
        with t.loop(*self._over(t.add(k, 1))) as j:
            y = t.multiplied(factor, self._vector(PRODUCT, j))
            self._put(y, Y, j)
            self._put(t.minus(t.vector(self.work, self.rows.group, k, j), y), LINE, j)

    def _next_pending(self, k: str, tau: Number) -> None:
        """Writes the vectors u, z and v of the next pending update, with z = tau (A v - u (y v)), and zeros before entry k."""
        t, b, rows = self.t, self.rows.group, self.t.form.rows
        after = t.add(k, 1)
        (inner,) = self.columns.products(k, after, self.pending, [Y])
        with t.loop(t.multiple(after, rows), self.pending.shape[2], rows) as start:
            positions = [t.add(start, i) for i in range(rows)]
            for row, x in zip(positions, self.columns.products(k, after, self.work, positions), strict=True):
                u = Number(t, t.load(self.rows.vectors, b, k, row))
                t.store((tau * (x - u * inner)).name, self.pending, b, Z, row)
        with t.loop(t.multiple(k, self.rows.step), after) as i:
            t.store(t.number(0), self.pending, b, Z, i)
        with t.loop(*self._over(k)) as j:
            self._put(t.vector(self.rows.vectors, b, k, j), U, j)
        with t.loop(*self._over(after)) as j:
            self._put(t.vector(self.columns.vectors, b, k, j), V, j)


@dataclass(frozen=True)
class _Iteration:
    """The implicit iteration of Golub and Kahan for a bidiagonal matrix, from the last singular value to the first.

    Args:
      t: the kernel.
      diagonal: the diagonal of the matrix; at the end it has the singular values, some of them negative.
      above: the superdiagonal, from index 1 on.
      sides: the memories of the rotations from the left and from the right, each with the matrix whose rows they rotate.
      n: the number of singular values.
    """

    t: Text
    diagonal: Numbers
    above: Numbers
    sides: list[tuple[Rotations, Memory]]
    n: int

    def run(self) -> str:
        """An i1 that is true if all singular values were found, after code that writes them to `diagonal`."""
        t = self.t
        size = size_of(t, self.diagonal, self.above, self.n)
        bound = size * accuracy(t)

        def block(step: str) -> tuple[str, str]:
            """The first and the last row of the block with the singular value of a step; steps go from the last value on."""
            last = t.of_indices("subi", self.n - 1, step)
            return self._start_of_block(last, bound), last

        sweep = lambda first, last, end: self._sweep(first, last, end, bound)  # noqa: E731
        return Sweeps(t, self.sides, self.n, block, sweep).run(is_finite(size))

    def _start_of_block(self, last: str, bound: Number) -> str:
        """The first row of the block that ends with row `last`: rows i - 1 and i are in one block if |above[i]| > bound."""
        t = self.t

        def is_inside(values: list[str]) -> str:
            is_tied = abs(self.above[values[0]]).is_not_at_most(bound)
            return t.result(f"arith.andi {t.compare('sgt', values[0], 0)}, {is_tied} : i1")  # true also for NaN

        return t.while_loop([last], ["index"], is_inside, lambda values: [str(t.add(values[0], -1))])[0]

    def _shift(self, first: str, last: str, bound: Number) -> Number:
        """The value for the first rotation of a sweep: x - s² / x for the first diagonal entry x and the shift s.

        There is no shift, and the value is x, if a diagonal entry is at most `bound`; that entry is set to zero.
        """
        t, w, e = self.t, self.diagonal, self.above

        def clear(i: str, flags: list[str]) -> list[str]:
            """Sets diagonal entry i to zero if it is small; returns the flag, or true if the entry is small."""
            is_zero = abs(w[i]).is_at_most(bound)
            w[i] = where(is_zero, Number(t, t.number(0)), w[i])
            return [t.result(f"arith.ori {flags[0]}, {is_zero} : i1")]

        (has_zero,) = t.carried(first, last, [t.constant(0, "i1")], ["i1"], clear)
        one, before = Number(t, t.number(1)), t.add(last, -1)
        x, y, z, g, h = w[first], w[before], w[last], e[before], e[last]
        is_safe = t.result(f"arith.xori {has_zero}, {t.constant(1, 'i1')} : i1")
        x1, y1 = where(is_safe, x, one), where(is_safe, y, one)
        # As in the SVD of EISPACK and Numerical Recipes, from the last two diagonal entries y, z and superdiagonal entries g, h.
        f = ((y - z) * (y + z) + (g - h) * (g + h)) / (h * y1 * 2.0)
        root = (f * f + 1.0).sqrt()
        shifted = ((x - z) * (x + z) + h * (y / (f + root.with_sign_of(f)) - h)) / x1
        return where(is_safe, shifted, x)

    def _sweep(self, first: str, last: str, end: str, bound: Number) -> None:
        """Writes one sweep with an implicit shift over the rows `first` to `last`; rotations are stored from index `end` on.

        It is the sweep of Golub and Reinsch, with the names of `svdcmp` in Numerical Recipes: w is the diagonal, e the
        superdiagonal.
        """
        t, w, e = self.t, self.diagonal, self.above
        one = Number(t, t.number(1))
        start = self._shift(first, last, bound)
        (left, _), (right, _) = self.sides

        def rotate(i: str, values: list[str]) -> list[str]:
            """Computes and stores a rotation from the right and one from the left; the values are c, s, f and x of the sweep."""
            c, s, f, x = (Number(t, v) for v in values)
            after, position = t.add(i, 1), t.add(end, t.of_indices("subi", i, first))
            g, y = e[after], w[after]
            h, g = s * g, c * g
            e[i], c, s = hypotenuse(f, h)
            right.keep(position, c, -s)
            f, g, h, y = x * c + g * s, g * c - x * s, y * s, y * c
            w[i], c, s = hypotenuse(f, h)
            left.keep(position, c, -s)
            return [c.name, s.name, (c * g + s * y).name, (c * y - s * g).name]

        inits = [one.name, one.name, start.name, w[first].name]
        *_, f, x = t.carried(first, last, inits, [t.form.element] * 4, rotate)
        e[first] = 0.0
        e[last] = Number(t, f)
        w[last] = Number(t, x)
