"""Boxes: a compact form for the part of a sparsity pattern that is an index map with strides and offsets.

A box is a set of pairs (row, column):

    row = starts + steps * i,    column = base + sum(strides * i) + sum(stride_k * j_k)

for 0 <= i < counts (one number for each axis of the array) and 0 <= j_k < count_k (the free counts: columns that all
rows of the box have). An operation that moves elements moves boxes, at a cost that does not depend on the size of the
array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

Numbers = tuple[int, ...]


class Box(NamedTuple):
    """Rows of an array, with their columns, as described above.

    Attributes:
      starts, counts, steps: for each axis of the array, the rows.
      strides: for each axis, the distance of the columns of neighbouring rows; 0 (and step 1) on an axis with one row.
      base: the column of the first row.
      free: pairs (count, stride): columns that each row has in addition.
    """

    starts: Numbers
    counts: Numbers
    steps: Numbers
    strides: Numbers
    base: int
    free: tuple[tuple[int, int], ...] = ()

    @property
    def width(self) -> int:
        """The number of columns of each row; columns that coincide count twice."""
        return math.prod([count for count, _ in self.free]) if self.free else 1

    def on_axis(self, axis: int, start: int, count: int, step: int, stride: int, base: int) -> Box:
        """The box in which `axis` has other numbers (start, count, step, stride), and with another base.

        An axis with one row gets step 1 and stride 0, so that equal boxes have equal numbers.
        """
        if count == 1:
            step, stride = 1, 0
        return Box(
            _replace_number(self.starts, axis, start),
            _replace_number(self.counts, axis, count),
            _replace_number(self.steps, axis, step),
            _replace_number(self.strides, axis, stride),
            base,
            self.free,
        )

    def clipped(self, axis: int, first: int, limit: int, stride: int = 1) -> Box | None:
        """The box after a slice of an axis: of its rows, first, first + stride, ... below `limit` remain, and become 0, 1, ...

        None if no row remains. For example, rows 0, 2, 4, 6 with first=2, limit=7, stride=4 keep 2 and 6, which become 0 and 1.
        """
        start, count, step = self.starts[axis], self.counts[axis], self.steps[axis]
        if stride == 1 and first <= start and start + step * (count - 1) < limit:
            return self.shifted(axis, -first) if first else self
        shared = math.gcd(step, stride)
        if (first - start) % shared:
            return None
        period = stride // shared  # every period-th row of the box is requested
        # The smallest i >= 0 for which first + (a multiple of stride) is row start + step * i, then the smallest one not below
        # first.
        low = ((first - start) // shared * pow(step // shared, -1, period)) % period if period > 1 else 0
        if start + step * low < first:
            low += -(-(first - start - step * low) // (step * period)) * period
        last = min(count - 1, (limit - 1 - start) // step)
        if low > last:
            return None
        return self.on_axis(
            axis,
            (start + step * low - first) // stride,
            (last - low) // period + 1,
            step * period // stride,
            self.strides[axis] * period,
            self.base + self.strides[axis] * low,
        )

    def shifted(self, axis: int, low: int, interior: int = 0) -> Box:
        """The box after padding of an axis: row r becomes row low + r * (interior + 1).

        `low` is the number of new rows in front, and `interior` that between neighbours.
        """
        if not interior:
            starts = _replace_number(self.starts, axis, low + self.starts[axis])
            return Box(starts, self.counts, self.steps, self.strides, self.base, self.free)
        spread = interior + 1
        return self.on_axis(
            axis, low + self.starts[axis] * spread, self.counts[axis], self.steps[axis] * spread, self.strides[axis], self.base
        )

    def reversed(self, axis: int, size: int) -> Box:
        """The box after an axis is reversed: row r becomes row size - 1 - r, where `size` is the length of the axis."""
        start, count, step, stride = self.starts[axis], self.counts[axis], self.steps[axis], self.strides[axis]
        last = start + step * (count - 1)
        return self.on_axis(axis, size - 1 - last, count, step, -stride, self.base + stride * (count - 1))

    def arranged(self, axes: Sequence[int | None], sizes: Sequence[int]) -> Box:
        """The box after a transpose or a broadcast: axis k of the result is axis axes[k] of the box.

        If axes[k] is None, axis k is new, and the box is repeated sizes[k] times along it.
        """
        if not sizes:
            return Box((), (), (), (), self.base, self.free)
        axes_of_box = list(zip(self.starts, self.counts, self.steps, self.strides, strict=True))
        lines = [(0, n, 1, 0) if a is None else axes_of_box[a] for a, n in zip(axes, sizes, strict=True)]
        starts, counts, steps, strides = zip(*lines, strict=True)
        return Box(starts, counts, steps, strides, self.base, self.free)

    def repeated(self, axis: int, size: int) -> Box:
        """The box, whose array has one row along the axis, in an array in which this row is repeated `size` times."""
        return self.on_axis(axis, 0, size, 1, 0, self.base)

    def gathered(self, axes: Iterable[int]) -> Box:
        """The box after a sum over `axes`: these axes disappear, and each remaining row has the columns of all rows along them."""
        summed = set(axes)
        remaining = [a for a in range(len(self.starts)) if a not in summed]
        # An axis with n rows of stride s becomes a free count: the columns 0, s, ..., (n - 1) s in addition.
        more = [(self.counts[a], self.strides[a]) for a in summed]
        base, free = normal_free(self.base, [*self.free, *more])

        def left(own: Numbers) -> Numbers:
            """The numbers of the axes that remain."""
            return tuple([own[a] for a in remaining])

        return Box(left(self.starts), left(self.counts), left(self.steps), left(self.strides), base, free)


def _replace_number(numbers: Numbers, position: int, value: int) -> Numbers:
    """The tuple of numbers with `value` at index `position`."""
    return (*numbers[:position], value, *numbers[position + 1 :])


def normal_free(base: int, free: Iterable[tuple[int, int]]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The base and the free counts of the same columns in a normal form: positive strides in order, and joined where possible.

    For example, base 5 with (3, -1) is base 3 with (3, 1): columns 3, 4, 5. The counts (3, 1) and (2, 3) become (6, 1): the columns
    0, 1, 2 and 3, 4, 5.
    """
    found: list[tuple[int, int]] = []
    for count, stride in free:
        if stride < 0:
            base, stride = base + stride * (count - 1), -stride
        if count > 1 and stride:
            found.append((count, stride))
    runs: list[tuple[int, int]] = []
    for count, stride in sorted(found, key=lambda f: (f[1], f[0])):
        if runs:
            inner, unit = runs[-1]
            if stride % unit == 0 and stride // unit <= inner:  # they touch or overlap, so they form one longer count
                runs[-1] = (inner + (count - 1) * (stride // unit), unit)
                continue
        runs.append((count, stride))
    return base, tuple(runs)


def coalesced(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """The same pairs in fewer boxes: duplicates are dropped, and neighbours on one index map are joined.

    With `alone` in the functions below, two single rows may be joined, too; they determine the stride of their union.
    """
    found = list(dict.fromkeys(boxes))
    if len(found) < 2:
        return tuple(found)
    for alone in (False, True):  # single rows have no stride yet, so they join long boxes first
        for axis in range(len(found[0].starts)):
            starts = {box.starts[axis] for box in found}
            if len(starts) == 1 or (alone and all(box.counts[axis] > 1 for box in found)):
                continue  # no box begins where another one ends
            found = _join_along(found, axis, alone)
            if len(found) == 1:
                return tuple(found)
    return tuple(found)


def _join_along(boxes: list[Box], axis: int, alone: bool) -> list[Box]:
    """The boxes after neighbours along an axis are joined; with `alone`, also two boxes of a single row."""
    groups: dict[object, list[Box]] = {}
    for box in boxes:
        others = tuple(numbers[:axis] + numbers[axis + 1 :] for numbers in (box.starts, box.counts, box.steps, box.strides))
        groups.setdefault((others, box.free), []).append(box)
    if len(groups) == len(boxes):
        return boxes
    found: list[Box] = []
    for group in groups.values():
        # Boxes on one index map have the same column for row 0; among these, in the order of the rows.
        group.sort(key=lambda b: (b.base - b.strides[axis] * b.starts[axis], b.starts[axis]))
        found += _join_group(group, axis, alone) if len(group) > 1 else group
    return found


def _join_group(group: list[Box], axis: int, alone: bool) -> list[Box]:
    """The boxes of a group, which differ on one axis only, after neighbours are joined where their union is a box.

    With `alone`, two boxes of a single row are joined, too.
    """
    if alone:
        group.sort(key=lambda b: b.starts[axis])
    found = [group[0]]
    for box in group[1:]:
        union = _join_pair(found[-1], box, axis, alone)
        if union is None:
            found.append(box)
        else:
            found[-1] = union
    return found if alone or len(found) == 1 else _join_single_rows(found, axis)


def _join_single_rows(group: list[Box], axis: int) -> list[Box]:
    """The boxes of a group, after single rows at the ends of long boxes are joined to these boxes.

    A single row has no stride, so it is joined only if it continues the stride of the long box next to it.
    """
    group = sorted(group, key=lambda b: b.starts[axis])
    found = [group[0]]
    for before, box in pairwise(group):
        long = before if before.counts[axis] > 1 else box
        last = found[-1]
        union = _join_pair(last, box, axis, False, long.strides[axis]) if long.counts[axis] > 1 else None
        if union is None:
            found.append(box)
        else:
            found[-1] = union
    return found


def _join_pair(a: Box, b: Box, axis: int, alone: bool, stride: int | None = None) -> Box | None:
    """One box for two boxes whose rows follow each other, and whose columns grow by the same stride; None if they do not.

    Args:
      a: the box with the first rows.
      b: the other box, which differs from `a` on one axis only.
      axis: this axis.
      alone: True if two single rows may be joined.
      stride: the stride of the union; None for any.
    """
    if a.steps[axis] != 1 or b.steps[axis] != 1 or b.starts[axis] > a.starts[axis] + a.counts[axis]:
        return None
    distance = b.starts[axis] - a.starts[axis]
    strides = {box.strides[axis] for box in (a, b) if box.counts[axis] > 1}
    if len(strides) > 1 or distance < 0:
        return None
    if not strides:
        if not alone or not distance:
            return None
        # Two single rows have no stride yet: the distance of their columns gives one.
        strides = {(b.base - a.base) // distance}
    (common,) = strides
    if (stride is not None and common != stride) or b.base - a.base != common * distance:
        return None
    return a.on_axis(axis, a.starts[axis], max(a.counts[axis], distance + b.counts[axis]), 1, common, a.base)
