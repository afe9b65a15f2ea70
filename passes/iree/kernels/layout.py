"""How a factor of a product lies in memory, and where a kernel finds its elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nabla_mlir.passes.iree.kernels.text import Index, Memory, Text


class Axis(NamedTuple):
    """An axis: its size, and how many elements apart two neighbours along it stand in memory; negative: backwards."""

    size: int
    stride: int


# Axes that every kernel has room for, free ones and others: fewer kernels are compiled, and one turn of a loop costs nothing.
AXES = 2


class Kind(NamedTuple):
    """What layouts of one kernel share; they differ in numbers.

    Args:
      unit: what lies side by side in memory: "k", terms; "f", rows or columns; "s", neither: there is a stride.
      free: how many axes are free, `AXES` at least.
      terms: how many are summed over, likewise.
    """

    unit: str
    free: int
    terms: int

    def __str__(self) -> str:
        return f"{self.unit}{self.free}{self.terms}"


@dataclass(frozen=True)
class Layout:
    """A factor X[b, i, k] of a product: its element stands at the start plus, for each axis, place times stride.

    So a factor may be any view of its memory: a transpose, every second element, or windows that overlap. What is free,
    and what is summed over, may be several axes, the last one changing fastest.

    Args:
      elements: of the memory.
      batch: the strides of the batch axes, whose sizes are the product's; 0: all of them have the same matrix.
      free: the axes of rows, or columns.
      terms: the axes that are summed over.
      start: the place of the first element.
    """

    elements: int
    batch: tuple[int, ...]
    free: tuple[Axis, ...]
    terms: tuple[Axis, ...]
    start: int = 0

    @property
    def rows(self) -> int:
        """What is free, or columns of a right factor."""
        return math.prod(axis.size for axis in self.free)

    @property
    def length(self) -> int:
        """Terms of a sum."""
        return math.prod(axis.size for axis in self.terms)

    @property
    def kind(self) -> Kind:
        """What the kernel for it is written for."""
        terms, free = self.terms[-1], self.free[-1]
        if terms.stride == free.stride == 1:
            unit = "f" if free.size >= terms.size else "k"
        else:
            unit = "k" if terms.stride == 1 else "f" if free.stride == 1 else "s"
        return Kind(unit, max(AXES, len(self.free)), max(AXES, len(self.terms)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """What the kernel is given, in the order in which `View` reads it."""
        free, terms = padded(self.free), padded(self.terms)
        inner = [axis.size for axes in (free, terms) for axis in axes[1:]]
        strides = [axis.stride for axis in (*free, *terms)]
        return self.elements, self.start, *[0] * (AXES - len(self.batch)), *self.batch, *inner, *strides


def merged(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """The same places by fewer axes: those that follow each other in memory are one; one of size 1 is none."""
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
    """The same places by as many axes as kernels have."""
    return *[Axis(1, 0)] * (AXES - len(axes)), *axes


class View:
    """A factor in a kernel: the memory that it is bound to, and the places of its elements.

    Args:
      text: of the kernel, which is given the numbers of the layout next.
      name: of the factor.
      kind: of its layout.
      batches: how many axes of the batch there are.
      rows: how many rows there are, or columns.
    """

    t: Text
    rows: str
    unit: str
    start: str

    def __init__(self, text: Text, name: str, kind: Kind, batches: int, rows: str):
        self.t, self.rows, self.unit = text, rows, kind.unit
        number = lambda what: text.number_argument(f"{name}_{what}")  # noqa: E731
        elements, self.start = number("elements"), number("start")
        self._batch = [number(f"batch{n}") for n in range(batches)]
        self._free_sizes = [number(f"free_size{n}") for n in range(1, kind.free)]
        self._term_sizes = [number(f"term_size{n}") for n in range(1, kind.terms)]
        free = [number(f"free_stride{n}") for n in range(kind.free)]
        terms = [number(f"term_stride{n}") for n in range(kind.terms)]
        # That a stride is 1 is written in the kernel; loads are of vectors then.
        self._free: list[Index] = [*free[:-1], 1 if self.unit == "f" else free[-1]]
        self._terms: list[Index] = [*terms[:-1], 1 if self.unit == "k" else terms[-1]]
        self.memory: Memory = Memory(f"%{name}", (-1,), text.form.element, read_only=True, given=(elements,))

    @property
    def run(self) -> str:
        """How many terms follow each other by one stride."""
        return self._term_sizes[-1]

    @property
    def free_run(self) -> str:
        """How many rows, or columns, do."""
        return self._free_sizes[-1]

    def of_batch(self, places: Sequence[Index]) -> Index:
        """Where the matrix at a place of the batch begins."""
        return self._sum(self.start, places, self._batch)

    def of_row(self, base: Index, row: Index) -> Index:
        """Where a row, or column, begins."""
        return self._sum(base, self._places(row, self._free_sizes), self._free)

    def of_rows(self, base: Index, first: Index, count: int) -> list[Index]:
        """Where so many rows begin, from one on; those beyond the last one are copies of it."""
        t, last = self.t, self.t.add(self.rows, -1)
        if len(self._free) > AXES:
            return [self.of_row(base, t.of_indices("minsi", t.add(first, r), last)) for r in range(count)]
        row = t.of_indices("minsi", first, last)  # the others by steps, since a division takes as long as copying a few vectors
        places, place = [self.of_row(base, row)], self.row_in_run(row)
        outer, inner = self._free
        to_next_run = t.of_indices("subi", outer, t.mul(t.add(self.free_run, -1), inner))
        for r in range(1, count):
            place = t.add(place, 1)
            ends = t.compare("eq", place, self.free_run)
            step = t.chosen(t.compare("slt", t.add(first, r), self.rows), t.chosen(ends, to_next_run, inner), 0)
            places.append(t.add(places[-1], step))
            place = t.chosen(ends, 0, place)
        return places

    def of_run(self, base: Index, run: Index) -> Index:
        """Where the terms of a run begin."""
        return self._sum(base, self._places(run, self._term_sizes[:-1]), self._terms[:-1])

    def of_term(self, base: Index, place: Index) -> Index:
        """Where a term stands, by its place in its run."""
        return self._sum(base, [place], self._terms[-1:])

    def row_in_run(self, row: Index) -> Index:
        """The place of a row, or column, in its run."""
        return self.t.of_indices("remui", row, self._free_sizes[-1])

    def _places(self, n: Index, inner: Sequence[str]) -> list[Index]:
        """The place along each axis, from the sizes of all but the first."""
        places: list[Index] = []
        for size in reversed(inner):
            places.append(self.t.of_indices("remui", n, size))
            n = self.t.of_indices("divui", n, size)
        return [n, *reversed(places)]

    def _sum(self, base: Index, places: Sequence[Index], strides: Sequence[Index]) -> Index:
        for place, stride in zip(places, strides, strict=True):
            base = self.t.add(base, self.t.mul(place, stride))
        return base
