"""The memory layout of a factor of a product, and the addresses of its elements in a kernel.

A run is a sequence of consecutive terms (or rows, or columns) that have one stride: it goes along the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nabla_mlir.passes.iree.kernels.text import Index, Memory, Text


class Axis(NamedTuple):
    """An axis: its size, and the distance in memory, in elements, between neighbours along it; a negative one goes backwards."""

    size: int
    stride: int


# Every kernel has room for this many axes of each sort: fewer kernels are compiled, and an extra axis costs nothing.
AXES = 2


class Kind(NamedTuple):
    """The properties that all layouts of one kernel share; sizes and strides are arguments of the kernel.

    Args:
      unit: the elements that are adjacent in memory: "k" terms, "f" rows or columns, "s" neither (all have strides).
      free: the number of free axes, at least `AXES`.
      terms: the number of axes that are summed over, at least `AXES`.
    """

    unit: str
    free: int
    terms: int

    def __str__(self) -> str:
        return f"{self.unit}{self.free}{self.terms}"


@dataclass(frozen=True)
class Layout:
    """A factor X[b, i, k] of a product: the address of an element is the start plus, for each axis, its index times the stride.

    So a factor may be any view of its memory: a transpose, every second element, or overlapping windows. The free
    dimension and the summed dimension may each consist of several axes, the last one changing fastest.

    Args:
      elements: the number of elements of the memory.
      batch: the strides of the batch axes, whose sizes are those of the product; 0 means that all matrices are the
        same.
      free: the axes of rows (or columns).
      terms: the axes that are summed over.
      start: the offset of the first element.
    """

    elements: int
    batch: tuple[int, ...]
    free: tuple[Axis, ...]
    terms: tuple[Axis, ...]
    start: int = 0

    @property
    def rows(self) -> int:
        """The number of rows; the number of columns for a right factor."""
        return math.prod(axis.size for axis in self.free)

    @property
    def length(self) -> int:
        """The number of terms of a sum."""
        return math.prod(axis.size for axis in self.terms)

    @property
    def kind(self) -> Kind:
        """The properties of the layout on which the text of the kernel depends.

        Its unit tells which stride is 1: "f" that of the free axis (rows), "k" that of the terms, "s" neither. If both are 1, the
        longer axis counts.
        """
        terms, free = self.terms[-1], self.free[-1]
        if terms.stride == free.stride == 1:
            unit = "f" if free.size >= terms.size else "k"
        else:
            unit = "k" if terms.stride == 1 else "f" if free.stride == 1 else "s"
        return Kind(unit, max(AXES, len(self.free)), max(AXES, len(self.terms)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sizes and strides of the layout as the integer arguments of its kernel, in the order in which `View` reads them."""
        free, terms = padded(self.free), padded(self.terms)
        inner = [axis.size for axes in (free, terms) for axis in axes[1:]]
        strides = [axis.stride for axis in (*free, *terms)]
        return self.elements, self.start, *[0] * (AXES - len(self.batch)), *self.batch, *inner, *strides


def merged(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Fewer axes with the same offsets: two axes that continue each other in memory become one, and axes of size 1 are dropped.

    For example, (size 3, stride 4) and (size 4, stride 1) become (size 12, stride 1).
    """
    result: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if result and result[-1].stride == axis.size * axis.stride:
            result[-1] = Axis(result[-1].size * axis.size, axis.stride)
        else:
            result.append(axis)
    return tuple(result) or (Axis(1, 1),)


def padded(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes, after additional axes of size 1 that make their number at least `AXES`."""
    return *[Axis(1, 0)] * (AXES - len(axes)), *axes


class View:
    """A factor in a kernel: its memory, and the addresses of its elements.

    Args:
      text: the text of the kernel; its next arguments are the numbers of the layout.
      name: the name of the factor.
      kind: the kind of its layout.
      batches: the number of batch axes.
      rows: the number of rows (or columns).
    """

    t: Text
    rows: str
    unit: str
    start: str

    def __init__(self, text: Text, name: str, kind: Kind, batches: int, rows: str):
        """Makes the view of one factor, whose sizes and strides are arguments of the kernel.

        Args:
          text: the kernel.
          name: the name of the factor, "a" or "b".
          kind: the properties of its layout.
          batches: the number of batch axes.
          rows: the argument with the number of rows.
        """
        self.t, self.rows, self.unit = text, rows, kind.unit
        argument = lambda label: text.number_argument(f"{name}_{label}")  # noqa: E731
        elements, self.start = argument("elements"), argument("start")
        self._batch = [argument(f"batch{n}") for n in range(batches)]
        self._free_sizes = [argument(f"free_size{n}") for n in range(1, kind.free)]
        self._term_sizes = [argument(f"term_size{n}") for n in range(1, kind.terms)]
        free = [argument(f"free_stride{n}") for n in range(kind.free)]
        terms = [argument(f"term_stride{n}") for n in range(kind.terms)]
        # A stride of 1 is written into the kernel, which then loads vectors.
        self._free: list[Index] = [*free[:-1], 1 if self.unit == "f" else free[-1]]
        self._terms: list[Index] = [*terms[:-1], 1 if self.unit == "k" else terms[-1]]
        self.memory: Memory = Memory(f"%{name}", (-1,), text.form.element, read_only=True, given=(elements,))

    @property
    def run(self) -> str:
        """The number of consecutive terms with one stride."""
        return self._term_sizes[-1]

    @property
    def free_run(self) -> str:
        """The number of consecutive rows (or columns) with one stride."""
        return self._free_sizes[-1]

    def of_batch(self, positions: Sequence[Index]) -> Index:
        """The offset of the first element of the matrix at `positions`, the indices along the batch axes."""
        return self._sum(self.start, positions, self._batch)

    def of_row(self, base: Index, row: Index) -> Index:
        """The offset of a row (or column) of the matrix that begins at the offset `base`."""
        return self._sum(base, self._positions(row, self._free_sizes), self._free)

    def of_rows(self, base: Index, first: Index, count: int) -> list[Index]:
        """The offsets of `count` rows from `first` on; rows after the last one get the offset of the last one."""
        t, last = self.t, self.t.add(self.rows, -1)
        if len(self._free) > AXES:
            return [self.of_row(base, t.of_indices("minsi", t.add(first, r), last)) for r in range(count)]
        row = t.of_indices("minsi", first, last)  # later rows add steps, because a division takes as long as copying a few vectors
        positions, index = [self.of_row(base, row)], self.row_in_run(row)
        outer, inner = self._free
        # Rows lie in runs of `free_run` rows with the stride `inner`; this is the step from the last row of a run to the next run.
        to_next_run = t.of_indices("subi", outer, t.mul(t.add(self.free_run, -1), inner))
        for r in range(1, count):
            index = t.add(index, 1)
            ends = t.compare("eq", index, self.free_run)
            step = t.chosen(t.compare("slt", t.add(first, r), self.rows), t.chosen(ends, to_next_run, inner), 0)
            positions.append(t.add(positions[-1], step))
            index = t.chosen(ends, 0, index)
        return positions

    def of_run(self, base: Index, run: Index) -> Index:
        """The offset `base` plus the distance to the first term of a run, from the index of the run."""
        return self._sum(base, self._positions(run, self._term_sizes[:-1]), self._terms[:-1])

    def of_term(self, base: Index, position: Index) -> Index:
        """The offset of a term: `base` is the offset of its run, and `position` is the index of the term in the run."""
        return self._sum(base, [position], self._terms[-1:])

    def row_in_run(self, row: Index) -> Index:
        """The index of a row (or column) in its run."""
        return self.t.of_indices("remui", row, self._free_sizes[-1])

    def _positions(self, n: Index, inner: Sequence[str]) -> list[Index]:
        """The index along each axis, from the row-major flat index `n`; `inner` has the sizes of all axes but the first."""
        positions: list[Index] = []
        for size in reversed(inner):
            positions.append(self.t.of_indices("remui", n, size))
            n = self.t.of_indices("divui", n, size)
        return [n, *reversed(positions)]

    def _sum(self, base: Index, positions: Sequence[Index], strides: Sequence[Index]) -> Index:
        """The offset `base` plus, for each axis, the index in `positions` times the stride."""
        for position, stride in zip(positions, strides, strict=True):
            base = self.t.add(base, self.t.mul(position, stride))
        return base
