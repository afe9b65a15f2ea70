"""Fourier transforms of many rows or columns as a kernel: a vector holds the same element of several rows or columns.

The steps are in Stockham's order (Van Loan, Computational Frameworks for the Fast Fourier Transform, section 1.7): each
step of a radix reads one buffer and writes another, so no element is moved to a digit-reversed index. The memory of a workgroup
has two halves, which are these buffers in turn; both are called columns here, also if the operand has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.butterflies import Complex, dft, plus, times
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text

MOST_GROUPS = 8


class Strides(NamedTuple):
    """The distances, in complex numbers, between groups, between columns, and between elements of a column.

    `column` or `element` is 1.
    """

    group: int
    column: int
    element: int


@dataclass(frozen=True)
class Transforms:
    """The transforms that a kernel computes, one for each column.

    Args:
      n: the number of complex elements of a column.
      groups: the number of groups of columns.
      columns: the number of columns of a group; a vector holds some of them.
      source: the strides of the operand.
      target: the strides of the result.
      inverse: True for a positive sign of the exponent.
      scale: a factor of all results.
      whole: if it is not 0, the length of a transform of which this is the first of two: element k of column c is multiplied by
        exp(-2 pi i k c / whole).
      in_place: True if the results are written to the memory of the source; both have columns with equal strides.
      real: True if the columns are rows of 2 n real numbers with n + 1 complex numbers in the spectrum, which is the
        result of a forward transform, or the operand of an inverse one.
    """

    n: int
    groups: int
    columns: int
    source: Strides
    target: Strides
    inverse: bool = False
    scale: float = 1.0
    whole: int = 0
    in_place: bool = False
    real: bool = False


def radices(n: int, form: Form) -> list[int] | None:
    """The numbers of elements of the butterflies in each step of a transform of length n; None if a prime factor is too large."""
    largest = 8 if form.rows == 8 else 4  # the largest radix that fits into 32 registers, or into 16
    steps = []
    for radix in (largest, 4, 2, 3, 5, 7, 11, 13):
        while n % radix == 0:
            steps.append(radix)
            n //= radix
    return steps if n == 1 else None


def roots(spec: Transforms, form: Form) -> list[np.ndarray]:
    """The tables of roots of unity that a kernel reads, in f64; the second dimension has the cosine and the sine.

    The first table is for the steps, the second for real rows if there are any, the last for the first of two transforms.
    """
    tables = [_step_roots(spec.n, form)]
    if spec.real:
        tables.append(cosines_and_sines(np.arange(spec.n + 1), 2 * spec.n))
    if spec.whole:
        step = share(spec.n)
        k = np.concatenate([np.arange(step), step * np.arange(-(-spec.n // step))])
        tables.append(cosines_and_sines(k[:, None] * np.arange(spec.columns), spec.whole))
    return tables


def fourier_text(name: str, spec: Transforms, form: Form, tables: Sequence[np.ndarray]) -> tuple[str, list[Memory]]:
    """A kernel for the transforms of all columns.

    Args:
      name: the name of the kernel.
      spec: the transforms; a group has at least as many columns as a vector has lanes.
      form: the form of vectors.
      tables: the tables from `roots`.

    Returns:
      The text, and the buffers of the results: the transforms, as pairs of numbers, and memory that the kernel needs.
      The operands are the source, unless the transform is in place, and the tables.
    """
    return _Writer(spec, form, tables).write(name)


def cosines_and_sines(k: np.ndarray, n: int) -> np.ndarray:
    """Cosines and sines of -2 pi k / n, along a second dimension; rounded once if the machine has a longer float type."""
    angles = 8 * np.arctan(np.longdouble(1)) * (k % n) / n
    return np.stack([np.cos(angles), -np.sin(angles)], 1).astype(np.float64)


def _step_roots(n: int, form: Form) -> np.ndarray:
    """The roots by which the results of each step (except the last) are multiplied, after one row that is not read."""
    tables, remaining = [cosines_and_sines(np.zeros(1, int), 1)], n
    for radix in radices(n, form) or ():
        if remaining > radix:
            tables.append(cosines_and_sines(np.outer(np.arange(remaining // radix), np.arange(1, radix)).ravel(), remaining))
        remaining //= radix
    return np.concatenate(tables)


def share(n: int) -> int:
    """A step of about sqrt(n): a table of roots 0 ... step - 1 and of every step-th root gives all n roots, as products of two."""
    return 1 << (n.bit_length() + 1) // 2


Read = Callable[[Index], Complex]
Write = Callable[[Index, Complex], None]


class _Writer:
    """Writes the kernel. A `Read` gives the element with an index for a vector of columns, and a `Write` stores one."""

    def __init__(self, spec: Transforms, form: Form, tables: Sequence[np.ndarray]):  # tables: the roots, see `roots`
        self.t, self.spec, self.steps, self.lanes = Text(form), spec, radices(spec.n, form) or [], form.lanes
        self.panels = -(-spec.columns // form.lanes)  # vectors of columns
        self.workgroups = min(spec.groups * self.panels, MOST_GROUPS)
        spectrum = spec.n + spec.real  # a spectrum of 2 n real numbers has n + 1 numbers
        self.sizes = (spectrum, spec.n) if spec.inverse else (spec.n, spectrum)  # elements of a source and a target
        self.source, self.target = (
            Memory(name, (2 * _extent(spec, strides, size),), form.element, name == "%source")
            for name, strides, size in zip(("%source", "%target"), (spec.source, spec.target), self.sizes, strict=True)
        )
        self.tables = [Memory(f"%roots{i}", table.shape, form.element, read_only=True) for i, table in enumerate(tables)]
        self.count = ""  # the number of columns of a vector that are written; "" means all
        self.memory = Memory("%memory", (self.workgroups, 2, spectrum, 2, self.lanes), form.element)
        if spec.in_place:
            self.source = self.target
        self.workgroup = self.t.result(workgroup())

    def write(self, name: str) -> tuple[str, list[Memory]]:
        """The text of the kernel with this name, and the buffers of its results: the transforms, and memory that it needs."""
        t, spec, lanes = self.t, self.spec, self.lanes
        with t.loop(self.workgroup, spec.groups * self.panels, self.workgroups) as unit:
            group, panel = t.of_indices("divui", unit, self.panels), t.of_indices("remui", unit, self.panels)
            # If the columns do not fill the first vector, the second one overlaps with it.
            surplus = -spec.columns % lanes
            column = t.of_indices("maxsi", t.of_indices("subi", t.mul(panel, lanes), surplus), 0)
            if spec.in_place and surplus:
                is_first = t.compare("eq", panel, 0)
                self.count = t.result(f"arith.select {is_first}, {t.index(lanes - surplus)}, {t.index(lanes)} : index")
            self._vector(group, column)
        results = [self.target, self.memory]
        operands = [*([] if spec.in_place else [self.source]), *self.tables]
        return t.kernel(name, [*operands, *results], (self.workgroups, 1, 1)), results

    def _vector(self, group: Index, column: Index) -> None:
        """Writes all steps for one vector of columns, from the column `column` of a group on; each swaps the halves of memory."""
        spec, side = self.spec, 0
        if spec.source.column == 1:
            elements = self._columns(group, column)
        else:
            self._read_rows(group, column)
            elements, side = self._reader(0), 1
        if spec.inverse and spec.real:
            self._join_halves(elements, self._put(side))
            elements, side = self._reader(side), 1 - side
        if spec.inverse:
            elements = _swapped(elements)
        before, row = 1, 1  # the roots of the first step begin in row 1 of their table
        for radix in self.steps[:-1]:
            self._step(radix, before, row, elements, self._put(side))
            elements, side, before = self._reader(side), 1 - side, before * radix
            row += spec.n // before * (radix - 1)
        if spec.target.column == 1:
            self._step(self.steps[-1], before, row, elements, self._final(self._put_columns(group, column), column))
            return
        self._step(self.steps[-1], before, row, elements, self._final(self._put(side), column))
        if spec.real and not spec.inverse:
            self._part_halves(self._reader(side), self._put(1 - side))
            side = 1 - side
        self._write_rows(group, column, self._reader(side))

    def _step(self, radix: int, before: int, first: int, elements: Read, write: Write) -> None:
        """Writes one step of the transform.

        Args:
          radix: the number of elements that a butterfly transforms.
          before: the product of the radices of earlier steps.
          first: the row of the table in which the roots of the step begin.
          elements: reads the elements.
          write: writes the results.
        """
        t, terms = self.t, self.spec.n // (before * radix)

        def write_butterfly(p: Index, q: Index, factors: list[Complex]) -> None:
            """Writes the butterfly of elements q + before (p + terms k); its results, except the first, are times the factors."""
            values = [elements(t.add(q, t.mul(before, t.add(p, terms * k)))) for k in range(radix)]
            for j, x in enumerate(dft(t, values)):
                product = times(t, x, factors[j - 1]) if j and factors else x
                write(t.add(q, t.mul(before, t.add(t.mul(p, radix), j))), product)

        if terms == 1:
            with t.loop(0, before) as q:
                write_butterfly(0, q, [])
            return
        with t.loop(0, terms) as p:
            row = t.add(t.mul(p, radix - 1), first)
            factors = [self._root(self.tables[0], t.add(row, j)) for j in range(radix - 1)]
            if before == 1:
                write_butterfly(p, 0, factors)
                return
            with t.loop(0, before) as q:
                write_butterfly(p, q, factors)

    # ---------------------------------------------------------------- spec is read and written

    def _reader(self, side: int) -> Read:
        """A function that loads an element (of a vector of columns) from one half of the memory; `side` is 0 or 1."""

        def elements(i: Index) -> Complex:
            return Complex(*(self.t.vector(self.memory, self.workgroup, side, i, part, 0) for part in (0, 1)))

        return elements

    def _put(self, side: int) -> Write:
        """A function that stores an element (of a vector of columns) in one half of the memory; `side` is 0 or 1."""

        def put(i: Index, x: Complex) -> None:
            for part, value in enumerate(x):
                self.t.put(value, self.memory, self.workgroup, side, i, part, 0)

        return put

    def _final(self, write: Write, column: Index) -> Write:
        """A function that scales a result, multiplies it by a root for the first of two transforms, and gives it to `write`."""
        t, spec = self.t, self.spec

        def put(i: Index, x: Complex) -> None:
            """Writes element i of the results."""
            if spec.whole:
                for root in self._column_roots(i, column):
                    x = times(t, x, root)
            if spec.scale != 1.0:
                scale = t.constant(f"dense<{spec.scale:.17e}>", t.form.vector)
                x = Complex(t.multiplied(x.re, scale), t.multiplied(x.im, scale))
            write(i, Complex(x.im, x.re) if spec.inverse else x)

        return put

    def _columns(self, group: Index, column: Index) -> Read:
        """A function that loads elements of the columns from `column` on of a group: real and imaginary parts are adjacent."""
        t, lanes = self.t, self.lanes

        def elements(i: Index) -> Complex:
            start = self._start(self.spec.source, group, column, i)
            low, high = t.vector(self.source, start), t.vector(self.source, t.add(start, lanes))
            return Complex(*(t.shuffled(low, high, [2 * lane + part for lane in range(lanes)]) for part in (0, 1)))

        return elements

    def _put_columns(self, group: Index, column: Index) -> Write:
        """A function that stores elements of the columns from `column` on, with real and imaginary parts adjacent."""
        t, lanes = self.t, self.lanes

        def put(i: Index, x: Complex) -> None:
            """Writes element i of a vector of columns."""
            start = self._start(self.spec.target, group, column, i)
            for half in (0, 1):
                interleaved = [lane // 2 + lanes * (lane % 2) for lane in range(half * lanes, (half + 1) * lanes)]
                vector, position = t.shuffled(*x, interleaved), t.add(start, half * lanes)
                if self.count:
                    mask = t.mask(t.of_indices("subi", t.mul(self.count, 2), half * lanes))
                    t.masked_put(mask, vector, self.target, position)
                else:
                    t.put(vector, self.target, position)

        return put

    def _read_rows(self, group: Index, column: Index) -> None:
        """Writes a copy of rows of the source to memory: whole vectors of a row are transposed, remaining numbers are single."""
        t, put, count = self.t, self._put(0), self.lanes // 2  # complex numbers in a vector
        whole = self.sizes[0] // count * count
        with t.loop(0, whole, count) as i:
            rows = [t.vector(self.source, self._row(self.spec.source, group, column, lane, i)) for lane in range(self.lanes)]
            parts = t.transposed(rows)
            for k in range(count):
                put(t.add(i, k), Complex(parts[2 * k], parts[2 * k + 1]))
        with t.loop(whole, self.sizes[0]) as i:
            for lane in range(self.lanes):
                start = self._row(self.spec.source, group, column, lane, i)
                for part in (0, 1):
                    t.store(t.load(self.source, t.add(start, part)), self.memory, self.workgroup, 0, i, part, lane)

    def _write_rows(self, group: Index, column: Index, elements: Read) -> None:
        """Writes the elements to rows of the target: transposed to whole vectors of a row, and remaining numbers one by one."""
        t, count = self.t, self.lanes // 2
        whole = self.sizes[1] // count * count
        with t.loop(0, whole, count) as i:
            parts = [part for k in range(count) for part in elements(t.add(i, k))]
            for lane, row in enumerate(t.transposed(parts)):
                t.put(row, self.target, self._row(self.spec.target, group, column, lane, i))
        with t.loop(whole, self.sizes[1]) as i:
            for part, x in enumerate(elements(i)):
                for lane in range(self.lanes):
                    start = self._row(self.spec.target, group, column, lane, i)
                    t.store(t.lane(x, lane), self.target, t.add(start, part))

    def _row(self, strides: Strides, group: Index, column: Index, lane: int, i: Index) -> Index:
        """The offset of element i of the column that a lane of a vector holds, in real numbers; `column` is that of lane 0."""
        return self._start(strides, group, self.t.add(column, lane), i)

    def _start(self, strides: Strides, group: Index, column: Index, i: Index) -> Index:
        """The offset of element i of a column in the source or target, in real numbers: a complex number is two of them."""
        t = self.t
        terms = [t.mul(2 * n, x) for n, x in zip(strides, (group, column, i), strict=True)]
        return t.add(t.add(terms[0], terms[1]), terms[2])

    # ---------------------------------------------------------------- roots

    def _root(self, table: Memory, row: Index) -> Complex:
        """The complex root of unity in a row of a table, in every lane of a vector."""
        t = self.t
        return Complex(*(t.splat(t.load(table, row, part)) for part in (0, 1)))

    def _column_roots(self, i: Index, column: Index) -> list[Complex]:
        """Two complex numbers whose product is the root of unity for element i, in each lane for one column from `column` on."""
        t, step = self.t, share(self.spec.n)
        rows = t.of_indices("remui", i, step), t.add(t.of_indices("divui", i, step), step)
        return [Complex(*(t.vector(self.tables[-1], row, part, column) for part in (0, 1))) for row in rows]

    # ---------------------------------------------------------------- real rows

    def _part_halves(self, elements: Read, write: Write) -> None:
        """Writes the spectrum of real rows of 2 h numbers, from the spectrum Z of h complex numbers, each made of two neighbours.

        Let E and O be the spectra of the elements at even and odd indices. Then Z = E + i O, and the result is E + w O, with
        w(k) = exp(-pi i k / h). E and O are spectra of real numbers, so E(k) = (Z(k) + conj Z(h - k)) / 2.
        """
        t, h = self.t, self.spec.n
        half, zero = t.constant("dense<0.5>", t.form.vector), t.zeros()
        first = elements(0)
        write(0, Complex(t.plus(first.re, first.im), zero))
        write(h, Complex(t.minus(first.re, first.im), zero))
        with t.loop(1, h) as k:
            x, y = elements(k), elements(t.of_indices("subi", h, k))
            even = Complex(t.plus(x.re, y.re), t.minus(x.im, y.im))
            odd = Complex(t.plus(x.im, y.im), t.minus(y.re, x.re))
            both = plus(t, even, times(t, odd, self._root(self.tables[1], k)))
            write(k, Complex(t.multiplied(both.re, half), t.multiplied(both.im, half)))

    def _join_halves(self, elements: Read, write: Write) -> None:
        """Writes 2 Z for the spectrum X of real rows; the inverse transform of Z is the rows, two neighbours in a complex number.

        With Z, E, O and w as in `_part_halves`: 2 E(k) = X(k) + conj X(h - k), and 2 O(k) = conj(w) (X(k) - conj X(h - k)). The
        imaginary parts of the first and the last number of X are ignored.
        """
        t, h = self.t, self.spec.n
        first, last = elements(0), elements(h)
        write(0, Complex(t.plus(first.re, last.re), t.minus(first.re, last.re)))
        with t.loop(1, h) as k:
            x, y = elements(k), elements(t.of_indices("subi", h, k))
            even = Complex(t.plus(x.re, y.re), t.minus(x.im, y.im))
            difference = Complex(t.minus(x.re, y.re), t.plus(x.im, y.im))
            cos, sin = self._root(self.tables[1], k)
            odd = Complex(
                t.plus(t.multiplied(difference.re, cos), t.multiplied(difference.im, sin)),
                t.minus(t.multiplied(difference.im, cos), t.multiplied(difference.re, sin)),
            )
            write(k, Complex(t.minus(even.re, odd.im), t.plus(even.im, odd.re)))


def _extent(spec: Transforms, strides: Strides, n: int) -> int:
    """The size of a source or a target with `n` elements in a column, in complex numbers."""
    sizes = (spec.groups, spec.columns, n)
    return 1 + sum(stride * (size - 1) for stride, size in zip(strides, sizes, strict=True))


def _swapped(elements: Read) -> Read:
    """A reader of the same elements with real and imaginary parts exchanged.

    A forward transform of such elements, with the parts of its results exchanged, is the inverse transform.
    """

    def swapped(i: Index) -> Complex:
        re, im = elements(i)
        return Complex(im, re)

    return swapped
