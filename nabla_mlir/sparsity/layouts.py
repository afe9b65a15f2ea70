"""Boxes after a reshape: axes are split and merged in row-major order."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from nabla_mlir.sparsity.boxes import Box

Shape = tuple[int, ...]
_Line = tuple[int, int, int, int]  # start, count, step and stride of one axis


@functools.lru_cache(maxsize=1024)
def factors(old: Shape, new: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The smallest groups of neighbouring axes of two shapes that have equal numbers of elements in both.

    For example, (6, 5) and (2, 3, 5) give [((0,), (0, 1)), ((1,), (2,))].
    """
    groups, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        first, second, left, right = i, j, 1, 1
        # The group grows on the side that has fewer elements so far (left: of `old`, right: of `new`).
        while (i, j) == (first, second) or left != right:
            if left <= right and i < len(old):
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        groups.append((tuple(range(first, i)), tuple(range(second, j))))
    return groups


@functools.lru_cache(maxsize=1024)
def matching_axes(old: Shape, new: Shape) -> list[int | None] | None:
    """The axis of `old` for each axis of `new` (None for a size of 1), if the shapes differ only in axes of size 1; else None."""
    long = [a for a, n in enumerate(old) if n != 1]
    if [old[a] for a in long] != [n for n in new if n != 1]:
        return None
    positions = iter(long)
    return [None if n == 1 else next(positions) for n in new]


def reshaped(box: Box, old: Shape, new: Shape) -> list[Box] | None:
    """The boxes that a box becomes in a reshape from shape `old` to shape `new`; None if a stride does not fit."""
    if old == new:
        return [box]
    found: list[tuple[int, list[_Line]]] = [(box.base, [])]  # the base, and the axes so far
    for old_axes, new_axes in factors(old, new):
        lines = [(box.starts[a], box.counts[a], box.steps[a], box.strides[a]) for a in old_axes]
        line = _merge_axes(lines, [old[a] for a in old_axes])
        if line is None:
            return None
        pieces = _split_axis(line, [new[a] for a in new_axes])
        if pieces is None:
            return None
        found = [(base + offset, [*before, *axes]) for base, before in found for offset, axes in pieces]
    return [_box(base, axes, box.free) for base, axes in found]


def _box(base: int, axes: Sequence[_Line], free: tuple[tuple[int, int], ...]) -> Box:
    """The box with these lines, one for each axis, the given base, and the free counts with their strides."""
    plain = [(start, 1, 1, 0) if count == 1 else (start, count, step, stride) for start, count, step, stride in axes]
    starts, counts, steps, strides = zip(*plain, strict=True) if plain else ((), (), (), ())
    return Box(starts, counts, steps, strides, base, free)


def _merge_axes(lines: Sequence[_Line], sizes: Sequence[int]) -> _Line | None:
    """The line of neighbouring axes of these sizes as one axis, if one step and one stride describe it; else None.

    For example, the lines (0, 2, 1, 3) and (0, 3, 1, 1) of axes of sizes 2 and 3 are the line (0, 6, 1, 1) of an axis of size 6.
    """
    start, count, step, stride = 0, 1, 1, 0
    for (axis_start, n, axis_step, axis_stride), size in zip(lines, sizes, strict=True):
        if n == 1:  # one element of this axis: neighbours on the axes before it are `size` elements from each other
            start, step = start * size + axis_start, step * size
        elif count == 1:
            start, count, step, stride = start * size + axis_start, n, axis_step, axis_stride
        elif axis_step * n == step * size and axis_stride * n == stride:
            start, count, step, stride = start * size + axis_start, count * n, axis_step, axis_stride
        else:
            return None
    return start, count, step, stride


def _split_axis(line: _Line, sizes: Sequence[int]) -> list[tuple[int, list[_Line]]] | None:
    """A line along an axis that is split into axes of these sizes, as several pieces; None if its step does not fit.

    Each piece is (offset of the base, a line for each new axis). For example, the line (0, 6, 1, 1) and the sizes 2 and 3 give one
    piece, (0, [(0, 2, 1, 3), (0, 3, 1, 1)]).
    """
    if not sizes:
        return [(0, [])]
    start, count, step, stride = line
    if len(sizes) == 1:
        return [(0, [line])]
    inner = 1
    for size in sizes[1:]:
        inner *= size
    found = []
    for offset, row, rest in _split_at_rows(start, count, step, stride, inner) or ():
        pieces = _split_axis(rest, sizes[1:])
        if pieces is None:
            return None
        found += [(offset + more, [row, *axes]) for more, axes in pieces]
    return found or None


def _split_at_rows(start: int, count: int, step: int, stride: int, inner: int) -> list[tuple[int, _Line, _Line]] | None:
    """A line over rows of `inner` elements, as pieces (offset of the base, line along the rows, line inside a row).

    There are up to three pieces: a part of the first row, whole rows, a part of the last row. For example, elements 2 to 6 in rows
    of 4 are elements 2 and 3 of row 0, and elements 0 to 2 of row 1. None if the step does not fit.
    """
    if count == 1:
        return [(0, (start // inner, 1, 1, 0), (start % inner, 1, 1, 0))]
    if step % inner == 0:  # every element is in another row, at the same position
        return [(0, (start // inner, count, step // inner, stride), (start % inner, 1, 1, 0))]
    if inner % step:  # the positions in a row would differ from row to row
        return None
    per_row, first, found = inner // step, start // step, []
    row, position = divmod(first, per_row)
    count_before = 0
    if position or count < per_row:
        n = min(per_row - position, count)
        found.append((0, (row, 1, 1, 0), (start % step + step * position, n, step, stride)))
        count_before, row = n, row + 1
    full_rows = (count - count_before) // per_row
    if full_rows:
        found.append((stride * count_before, (row, full_rows, 1, stride * per_row), (start % step, per_row, step, stride)))
        count_before, row = count_before + full_rows * per_row, row + full_rows
    if count_before < count:
        found.append((stride * count_before, (row, 1, 1, 0), (start % step, count - count_before, step, stride)))
    return found
