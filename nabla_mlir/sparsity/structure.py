"""Sparsity rules of operations that move elements, or that combine elements along axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.sparsity.operands import Operand, Shape, columns_of, fitted
from nabla_mlir.sparsity.relation import Relation, union


def transpose(xs: Sequence[Operand], outs: Any, permutation: Sequence[int]) -> list[Relation]:
    """The pattern of a transpose, from the operand and the permutation."""
    return [xs[0].relation.transposed(permutation)]


def reshape(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """The pattern of a reshape, from the operand and the shape of the result."""
    return [xs[0].relation.reshaped(outs[0])]


def broadcast_in_dim(xs: Sequence[Operand], outs: Any, broadcast_dimensions: Sequence[int], **_: Any) -> list[Relation]:
    """The pattern of a broadcast, from the operand, the shape of the result, and the axes to which it maps."""
    return [xs[0].relation.broadcast(outs[0], broadcast_dimensions)]


def slice_(xs: Sequence[Operand], outs: Any, start_indices: Any, limit_indices: Any, strides: Any) -> list[Relation]:
    """The pattern of a slice, from the operand, starts, limits and strides."""
    return [xs[0].relation.sliced(start_indices, limit_indices, strides)]


def pad(
    xs: Sequence[Operand], outs: Sequence[Shape], edge_padding_low: Any, edge_padding_high: Any, interior_padding: Any
) -> list[Relation]:
    """The pattern of a padded array; padded elements have the dependences of the padding value."""
    x, filling = (operand.relation for operand in xs)
    padded = x.padded(edge_padding_low, edge_padding_high, interior_padding)
    if filling.is_empty:
        return [padded]
    # Padded elements are those that depend on no element of x.
    positions = Relation.identity(x.shape, math.prod(x.shape)).padded(edge_padding_low, edge_padding_high, interior_padding)
    is_padding = positions.rows.lengths().reshape(outs[0]) == 0
    return [padded.union(fitted(filling, outs[0]).restricted(is_padding))]


def joined(pieces: Sequence[Relation], axis: int, shape: Shape, columns: int) -> Relation:
    """The relation of pieces that are concatenated along an axis to an array of this shape."""
    starts = itertools.accumulate((piece.shape[axis] for piece in pieces[:-1]), initial=0)
    return union([piece.placed(axis, at, shape) for piece, at in zip(pieces, starts, strict=True)], shape, columns)


def concatenate(xs: Sequence[Operand], outs: Sequence[Shape], dimension: int) -> list[Relation]:
    """The pattern of a concatenation, from the operands and the axis."""
    return [joined([x.relation for x in xs], dimension, outs[0], columns_of(xs))]


def reverse(xs: Sequence[Operand], outs: Any, dimensions: Sequence[int]) -> list[Relation]:
    """The pattern of a reversed array, from the operand and the reversed axes."""
    return [xs[0].relation.reversed(dimensions)]


def _starts(xs: Sequence[Operand], shape: Shape, sizes: Sequence[int]) -> list[int | None]:
    """The start of a window of these sizes along each axis of an array of `shape`; None along an axis if it is not known.

    `xs` are the scalar operands that give the starts; StableHLO clips them so that the window fits into the array.
    """
    found: list[int | None] = []
    for x, n, size in zip(xs, shape, sizes, strict=True):
        number = np.zeros((), np.int64) if n == size else x.read()  # a window as long as the axis begins at 0
        found.append(None if number is None else int(np.clip(int(number), 0, n - size)))
    return found


def dynamic_slice(xs: Sequence[Operand], outs: Any, slice_sizes: Sequence[int]) -> list[Relation]:
    """The pattern of a dynamic slice; along an axis whose start is not known, an element depends on the whole axis."""
    x = xs[0].relation
    starts = _starts(xs[1:], x.shape, slice_sizes)
    x = x.spread([a for a, start in enumerate(starts) if start is None])
    first = [start or 0 for start in starts]
    return [x.sliced(first, [s + n for s, n in zip(first, slice_sizes, strict=True)], [1] * len(first))]


def dynamic_update_slice(xs: Sequence[Operand], outs: Any, **_: Any) -> list[Relation]:
    """The pattern of an array after an update of a window; overwritten elements lose their dependences if the start is known."""
    x, update = xs[0].relation, xs[1].relation
    starts = _starts(xs[2:], x.shape, update.shape)
    unknown = [a for a, start in enumerate(starts) if start is None]
    low = [start or 0 for start in starts]
    if unknown:
        for axis in unknown:
            shape = tuple(x.shape[a] if a == axis else n for a, n in enumerate(update.shape))
            update = update.gathered([axis]).broadcast(shape, [a for a in range(len(shape)) if a != axis])
        high = [n - s - m for n, s, m in zip(x.shape, low, update.shape, strict=True)]
        return [x.union(update.padded(low, high))]
    high = [n - s - m for n, s, m in zip(x.shape, low, update.shape, strict=True)]
    return [_outside_window(x, low, update.shape).union(update.padded(low, high))]


def _outside_window(x: Relation, low: Sequence[int], sizes: Sequence[int]) -> Relation:
    """The pattern x in which the elements of a window, at `low` and of these sizes, have no dependences.

    The array is cut along each axis into the part before, inside and after the window; all but the inside is kept.
    """
    if x.is_empty:
        return x
    around = Relation.none(x.shape, x.columns)
    remaining = x  # the part that is inside the window on all axes before
    for axis, (start, size) in enumerate(zip(low, sizes, strict=True)):
        before, inside, after = (
            _inside_bounds(remaining, axis, *bounds)
            for bounds in ((0, start), (start, start + size), (start + size, x.shape[axis]))
        )
        around = around.union(before).union(after)
        remaining = inside
    return around


def _inside_bounds(x: Relation, axis: int, first: int, limit: int) -> Relation:
    """The pattern x in which only the elements from `first` to `limit` - 1 of an axis have dependences."""
    if first >= limit:
        return Relation.none(x.shape, x.columns)
    starts, limits = [0] * len(x.shape), list(x.shape)
    starts[axis], limits[axis] = first, limit
    cut = x.sliced(starts, limits, [1] * len(starts))
    return cut.padded(starts, [n - m for n, m in zip(x.shape, limits, strict=True)])


def reduce(xs: Sequence[Operand], outs: Sequence[Shape], dimensions: Sequence[int], **_: Any) -> list[Relation]:
    """The patterns of a reduction: a result depends on all operands along the axes, and on their initial values.

    The first half of `xs` are the operands, the second half their initial values; `outs` are the shapes of the results.
    """
    count = len(xs) // 2
    parts = [x.relation.gathered(dimensions) for x in xs[:count]]
    parts += [fitted(x.relation, outs[0]) for x in xs[count:]]
    return [union(parts, shape, columns_of(xs)) for shape in outs]


def along(name: str) -> Any:
    """The rule of operations that mix each operand along the axis in the parameter `name`.

    A rule computes the patterns of the results from the operands and the shapes of the results.
    """

    def rule(xs: Sequence[Operand], outs: Sequence[Shape], **params: Any) -> list[Relation]:
        return [x.relation.spread([params[name] % len(shape)]) for x, shape in zip(xs, outs, strict=True)]

    return rule


def last_axes(xs: Sequence[Operand], outs: Sequence[Shape], fft_length: Sequence[int], **_: Any) -> list[Relation]:
    """The pattern of a Fourier transform: elements mix along the transformed axes, whose lengths may change."""
    x, lead = xs[0].relation, len(outs[0]) - len(fft_length)
    return [x.gathered(range(lead, len(x.shape))).broadcast(outs[0], range(lead))]
