"""Relations: for each element of an array, the columns (inputs) on which it depends.

A relation is stored as boxes while these describe it, and else as compressed rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.sparsity.boxes import Box, coalesced
from nabla_mlir.sparsity.layouts import Shape, matching_axes, reshaped
from nabla_mlir.sparsity.rows import Rows, check_size, rows_of


class Relation:
    """The pattern of the derivative of an array with respect to columns.

    It never lacks a pair; it may have too many, which depends on the rules that made it.

    Attributes:
      shape: the shape of the array.
      columns: the number of inputs.
      layout: the shape to which the boxes refer: `shape`, or a shape with the same elements in row-major order.

    Boxes are loose if some of them could be joined; they are joined when there are many of them, or when they are read.
    """

    shape: Shape
    columns: int
    layout: Shape

    def __init__(
        self, shape: Sequence[int], columns: int, boxes: Iterable[Box] | None, layout: Shape | None = None, is_loose: bool = False
    ):
        """Makes a relation of boxes; for a relation of rows, `boxes` is None, and `of_rows` adds the rows."""
        self.shape, self.columns = tuple(shape), columns
        self.layout = self.shape if layout is None else layout
        self._boxes = None if boxes is None else tuple(boxes)
        self._is_loose = is_loose
        # Computed when first read: the rows, the largest number of columns of an element, and the boxes in other layouts.
        self._rows: Rows | None = None
        self._widest: int | None = None
        self._laid_out: dict[Shape, tuple[Box, ...] | None] = {}

    # ---------------------------------------------------------------- making

    @staticmethod
    def none(shape: Sequence[int], columns: int) -> Relation:
        """The relation of an array without dependences."""
        return Relation(shape, columns, ())

    @staticmethod
    def identity(shape: Sequence[int], columns: int, base: int = 0) -> Relation:
        """The relation in which element k, in row-major order, depends on column base + k."""
        strides = tuple(math.prod(shape[a + 1 :]) for a in range(len(shape)))
        if not all(shape):
            return Relation.none(shape, columns)
        strides = tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
        box = Box((0,) * len(shape), tuple(shape), (1,) * len(shape), strides, base)
        return Relation(shape, columns, (box,))

    @staticmethod
    def full(shape: Sequence[int], columns: int) -> Relation:
        """The relation in which every element depends on every column."""
        return Relation.identity((columns,), columns).gathered([0]).broadcast(shape, ())

    @staticmethod
    def of_rows(shape: Sequence[int], rows: Rows) -> Relation:
        """The relation from compressed rows, one for each element in row-major order."""
        if not rows.indices.size:
            return Relation.none(shape, rows.columns)
        if rows.count == 1 and (runs := rows.runs()) is not None:  # if it is broadcast, rows would be copied as often
            ones, zeros = (1,) * len(shape), (0,) * len(shape)
            boxes = [Box(zeros, ones, ones, zeros, start, ((size, 1),) if size > 1 else ()) for start, size in runs]
            return Relation(shape, rows.columns, boxes)
        relation = Relation(shape, rows.columns, None)
        relation._rows = rows
        return relation

    # ---------------------------------------------------------------- reading

    @property
    def is_empty(self) -> bool:
        """True if no element depends on anything."""
        return self._boxes == ()

    @property
    def is_full(self) -> bool:
        """True if one box has all pairs."""
        boxes = self._boxes or ()
        return len(boxes) == 1 and boxes[0].free == ((self.columns, 1),) and boxes[0].counts == self.layout

    @property
    def boxes(self) -> tuple[Box, ...] | None:
        """The boxes, joined as far as possible, in `layout`; None if the pattern is stored as rows."""
        if self._boxes is not None and self._is_loose:
            self._boxes, self._is_loose, self._widest = coalesced(self._boxes), False, None
        return self._boxes

    @property
    def widest(self) -> int:
        """An upper bound on the number of columns on which one element depends."""
        if self._widest is None:
            if self._boxes is None:
                self._widest = int(self.rows.lengths().max(initial=0))
            else:
                self._widest = min(self.columns, sum([box.width if box.free else 1 for box in self._boxes]))
        return self._widest

    @property
    def has_full_row(self) -> bool:
        """True if an element depends on all columns; if that is expensive to decide, True if one may."""
        # A box without free counts gives a row one column, so fewer boxes than columns cannot fill a row.
        if self._boxes is not None and len(self._boxes) < self.columns:
            for box in self._boxes:
                if box.free:
                    break
            else:
                return False
        if self.widest < self.columns:
            return False
        if self._boxes is None or any(box.width >= self.columns for box in self._boxes):
            return True
        return self.entries > thresholds.PATTERN_WRITTEN or int(self.rows.lengths().max(initial=0)) >= self.columns

    @property
    def entries(self) -> int:
        """An upper bound on the number of pairs (element, column); boxes that overlap count them twice."""
        if self._boxes is None:
            return int(self.rows.indices.size)
        return sum(math.prod(box.counts) * box.width for box in self._boxes)

    @property
    def rows(self) -> Rows:
        """The pattern as compressed rows, in row-major order of the elements."""
        if self._rows is None:
            boxes = self._boxes if self.entries <= thresholds.PATTERN_WRITTEN else self.boxes
            assert boxes is not None
            check_size(self.entries, math.prod(self.shape), self.columns)
            self._rows = rows_of(boxes, self.layout, self.columns)
        return self._rows

    def same_as(self, other: Relation) -> bool:
        """True if both relations are known to be equal; False if they differ, or if that is not known. The cost is small."""
        if self is other:
            return True
        if self._boxes is None or other._boxes is None:
            return self._rows is other._rows
        return self.layout == other.layout and set(self.boxes or ()) == set(other.boxes or ())

    def equals(self, other: Relation) -> bool:
        """True if both relations have the same pairs."""
        if self.same_as(other) or self.is_full or other.is_full:
            return self.same_as(other)
        return np.array_equal(self.rows.offsets, other.rows.offsets) and np.array_equal(self.rows.indices, other.rows.indices)

    def __str__(self) -> str:
        """``4 boxes`` or ``12 entries``, and the largest number of columns on which an element depends."""
        if self.is_empty:
            return "none"
        count = len(self.boxes or ())
        boxes = "1 box" if count == 1 else f"{count} boxes"
        size = f"{self.rows.indices.size} entries" if self._boxes is None else boxes
        return f"{size}, up to {self.widest} of {self.columns} columns"

    # ---------------------------------------------------------------- two relations

    def union(self, other: Relation) -> Relation:
        """The relation with the pairs of both relations, for arrays of the same shape."""
        if other.is_empty or self is other:
            return self
        if self.is_empty:
            return other
        if (self._boxes is None and self._rows is other._rows) or self.is_full:
            return self
        if other.is_full:
            return other
        layout = max((self.layout, other.layout, self.shape), key=len)
        own_boxes, other_boxes = self.laid_out(layout), other.laid_out(layout)
        if own_boxes is not None and other_boxes is not None:
            # A dict is used as an ordered set.
            distinct = dict.fromkeys(own_boxes)
            count = len(distinct)
            distinct.update(dict.fromkeys(other_boxes))
            if len(distinct) == count and layout == self.layout:
                return self
            is_loose = len(distinct) <= thresholds.PATTERN_LOOSE  # few boxes are moved faster than they are merged
            boxes = tuple(distinct) if is_loose else coalesced(distinct)
            if len(boxes) <= thresholds.PATTERN_BOXES:
                return Relation(self.shape, self.columns, boxes, layout, is_loose)
        return Relation.of_rows(self.shape, self.rows.union(other.rows))

    def among(self, columns: int) -> Relation:
        """The same pairs in a relation with `columns` columns, which are more."""
        if self._boxes is None:
            return Relation.of_rows(self.shape, Rows(self.rows.offsets, self.rows.indices, columns))
        return Relation(self.shape, columns, self._boxes, self.layout, self._is_loose)

    def laid_out(self, layout: Shape) -> tuple[Box, ...] | None:
        """The boxes in another layout with the same number of elements; None if they do not fit or do not exist."""
        if self._boxes is None or layout == self.layout:
            return self._boxes
        if layout not in self._laid_out:
            pieces = [reshaped(box, self.layout, layout) for box in self._boxes]
            found = None if None in pieces else tuple(box for p in pieces for box in p or ())
            is_split = found is not None and len(found) > len(pieces)
            self._laid_out[layout] = coalesced(found) if found is not None and is_split else found
        return self._laid_out[layout]

    # ---------------------------------------------------------------- moves

    def moved(self, shape: Sequence[int], box: Callable[[Box], Box | None], source: Callable[[np.ndarray], Any]) -> Relation:
        """The relation of an array whose elements were moved, dropped or repeated.

        Args:
          shape: the new shape.
          box: ``box of the old shape -> box of the new shape``, or None if its rows are dropped.
          source: applies the same move to an array of element numbers; new elements get -1.
        """
        if self.is_empty or not all(shape):
            return Relation.none(shape, self.columns)
        boxes = self.laid_out(self.shape)
        if boxes is not None:
            new = [b for b in map(box, boxes) if b is not None]
            return Relation(shape, self.columns, new, is_loose=len(new) > 1)
        numbers = np.arange(math.prod(self.shape)).reshape(self.shape)
        return self.selected(np.asarray(source(numbers)), shape)

    def selected(self, source: np.ndarray, shape: Sequence[int]) -> Relation:
        """The relation of an array whose element k is element source[k] of this one; a negative source[k] means no dependences."""
        return Relation.of_rows(shape, self.rows.take(source))

    def grouped(self, target: np.ndarray, shape: Sequence[int]) -> Relation:
        """The relation of an array of this shape whose element i is combined from all elements k with target[k] = i."""
        return Relation.of_rows(shape, self.rows.grouped(target, math.prod(shape)))

    def reshaped(self, shape: Sequence[int]) -> Relation:
        """The relation of the array after a reshape to `shape`."""
        if self._boxes is None:
            return Relation.of_rows(shape, self.rows)
        if not all(shape):
            return Relation.none(shape, self.columns)
        axes = matching_axes(self.layout, tuple(shape))
        if axes is None:
            return Relation(shape, self.columns, self._boxes, self.layout, self._is_loose)
        return Relation(shape, self.columns, [b.arranged(axes, shape) for b in self._boxes], is_loose=self._is_loose)

    def sliced(self, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Relation:
        """The relation of a slice: the elements from `starts` up to `limits` with `strides`."""
        shape = list(self.shape)
        cut = []
        for axis, bounds in enumerate(zip(starts, limits, strides, strict=True)):
            if bounds != (0, shape[axis], 1):
                start, limit, stride = bounds
                shape[axis] = max(0, -(-(limit - start) // stride))
                cut.append((axis, *bounds))

        def clip(box: Box | None) -> Box | None:
            """The part of a box that the slice keeps; None if there is none."""
            for position in cut:
                box = box.clipped(*position) if box is not None else None
            return box

        return self.moved(shape, clip, lambda x: x[tuple(map(slice, starts, limits, strides))])

    def padded(self, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None) -> Relation:
        """The relation of the array after padding with elements without dependences; negative widths cut elements off."""
        interior = (0,) * len(self.shape) if interior is None else interior
        spread = [max(0, n + (n - 1) * i) for n, i in zip(self.shape, interior, strict=True)]
        starts = [max(0, -n) for n in low]
        limits = [n + min(0, h) for n, h in zip(spread, high, strict=True)]
        shape = [n + a + b for n, a, b in zip(spread, low, high, strict=True)]
        axes = [axis for axis in range(len(shape)) if low[axis] or high[axis] or interior[axis]]

        def padded_box(box: Box) -> Box | None:
            """A box after the padding of all axes; None if negative widths cut it off."""
            found: Box | None = box
            for axis in axes:
                if found is not None and interior[axis]:
                    found = found.shifted(axis, 0, interior[axis])
                found = None if found is None else found.clipped(axis, starts[axis], limits[axis])
                if found is not None and low[axis] > 0:
                    found = found.shifted(axis, low[axis])
            return found

        def padded_numbers(x: np.ndarray) -> np.ndarray:
            """The padding of an array that has, for each element, the number of an input element; -1 for a padded element."""
            wide = np.full(spread, -1)
            wide[tuple(slice(None, None, i + 1) for i in interior)] = x
            cut = wide[tuple(map(slice, starts, limits))]
            return np.pad(cut, [(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True)], constant_values=-1)

        return self.moved(shape, padded_box, padded_numbers)

    def placed(self, axis: int, at: int, shape: Sequence[int]) -> Relation:
        """The relation of a larger array, which has this one at offset `at` along an axis and no other dependences."""

        def numbers(x: np.ndarray) -> np.ndarray:
            """The larger array of the numbers of input elements `x`; -1 outside of it."""
            wide = np.full(shape, -1)
            wide[(slice(None),) * axis + (slice(at, at + self.shape[axis]),)] = x
            return wide

        return self.moved(shape, (lambda b: b.shifted(axis, at)) if at else _same, numbers)

    def transposed(self, permutation: Sequence[int]) -> Relation:
        """The relation of the transposed array, whose axis k is axis permutation[k] of this one."""
        shape = [self.shape[a] for a in permutation]
        return self.moved(shape, lambda b: b.arranged(permutation, shape), lambda x: x.transpose(permutation))

    def reversed(self, axes: Sequence[int]) -> Relation:
        """The relation of the array with the elements along these axes in reverse order."""

        def flip(box: Box) -> Box:
            """A box after the reversal of all axes."""
            for axis in axes:
                box = box.reversed(axis, self.shape[axis])
            return box

        return self.moved(self.shape, flip, lambda x: np.flip(x, tuple(axes)))

    def broadcast(self, shape: Sequence[int], dimensions: Sequence[int]) -> Relation:
        """The relation of the broadcast array: axis k becomes axis dimensions[k]; other axes, and axes of size 1, are repeated."""
        axes: list[int | None] = [None] * len(shape)
        for axis, position in enumerate(dimensions):
            axes[position] = axis
        ones = [p for a, p in enumerate(dimensions) if self.shape[a] == 1 != shape[p]]

        def repeat(box: Box) -> Box:
            """A box after the broadcast: new axes are added, and axes of size 1 repeated."""
            box = box.arranged(axes, shape)
            for axis in ones:
                box = box.repeated(axis, shape[axis])
            return box

        def numbers(x: np.ndarray) -> np.ndarray:
            """The broadcast of an array that has, for each element, the number of an element of the input."""
            order = np.argsort(dimensions)
            spread = [self.shape[axes[d]] if axes[d] is not None else 1 for d in range(len(shape))]  # type: ignore[index]
            return np.broadcast_to(x.transpose(order).reshape(spread), shape)

        return self.moved(shape, repeat, numbers)

    # ---------------------------------------------------------------- sums

    def gathered(self, axes: Sequence[int]) -> Relation:
        """The relation of a sum over `axes`: an element depends on all that the elements along these axes depend on."""
        axes = tuple(axes)
        shape = tuple(n for a, n in enumerate(self.shape) if a not in axes)
        if self.is_empty or not axes:
            return Relation.none(shape, self.columns) if self.is_empty else self
        boxes = self.laid_out(self.shape)
        if boxes is not None:
            return Relation(shape, self.columns, coalesced(b.gathered(axes) for b in boxes))
        # The number of the element of the result to which each element belongs.
        rest = np.arange(math.prod(shape)).reshape([1 if a in axes else n for a, n in enumerate(self.shape)])
        return self.grouped(np.broadcast_to(rest, self.shape), shape)

    def spread(self, axes: Sequence[int]) -> Relation:
        """The relation in which an element depends on all that the elements along these axes depend on."""
        axes = tuple(axes)
        rest = [a for a in range(len(self.shape)) if a not in axes]
        return self.gathered(axes).broadcast(self.shape, rest) if axes else self

    def restricted(self, where: np.ndarray) -> Relation:
        """The relation in which only elements where the mask `where` is true have dependences."""
        if self.is_empty or (where if where.ndim == 0 else where.all()):
            return self
        where = np.broadcast_to(where, self.shape)
        return self.selected(np.where(where, np.arange(where.size).reshape(where.shape), -1), self.shape)


def _same(box: Box) -> Box:
    return box


def union(relations: Iterable[Relation], shape: Sequence[int], columns: int) -> Relation:
    """The relation with the pairs of several relations, for arrays of one shape; none without relations."""
    found: Relation | None = None
    for relation in relations:
        if not relation.is_empty:
            found = relation if found is None else found.union(relation)
    return Relation.none(shape, columns) if found is None else found
