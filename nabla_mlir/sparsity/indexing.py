"""Sparsity rules of gather and scatter: exact for constant indices; for other indices, an element depends on whole axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.sparsity.operands import Operand, Shape, columns_of, dense
from nabla_mlir.sparsity.relation import Relation, union
from nabla_mlir.sparsity.structure import joined

Dims = dict[str, Any]


def elements_read(shape: Shape, indices: np.ndarray, dims: Dims, sizes: Sequence[int], clip: bool) -> np.ndarray:
    """The element of the operand that each element of a gather reads, as an index in row-major order.

    For example, a gather of the rows 2 and 0 of a 3 x 2 matrix reads [[4, 5], [0, 1]].

    Args:
      shape: the shape of the operand.
      indices: the starts of the windows.
      dims: the dimension numbers of the gather.
      sizes: the shape of a window.
      clip: True if windows are clamped into the operand; otherwise an element out of range gets -1.
    """
    vector = dims["index_vector_dim"]
    starts = indices[..., None] if vector == indices.ndim else np.moveaxis(indices, vector, -1)
    batch = starts.shape[:-1]
    offset_axes = [d for d in range(len(shape)) if d not in (*dims["collapsed_slice_dims"], *dims["operand_batching_dims"])]
    window = tuple(sizes[d] for d in offset_axes)
    rank = len(batch) + len(window)
    element, inside = np.zeros((*batch, *window), np.int64), np.ones((*batch, *window), bool)
    for d, size in enumerate(shape):
        position = np.zeros((1,) * rank, np.int64)
        if d in dims["start_index_map"]:
            first = starts[..., dims["start_index_map"].index(d)].astype(np.int64)
            first = np.clip(first, 0, size - sizes[d]) if clip else first
            position = position + first.reshape(batch + (1,) * len(window))
        if d in dims["operand_batching_dims"]:
            axis = dims["start_indices_batching_dims"][dims["operand_batching_dims"].index(d)]
            axis -= axis > vector
            position = position + np.arange(size).reshape([-1 if a == axis else 1 for a in range(rank)])
        if d in offset_axes:
            axis = len(batch) + offset_axes.index(d)
            position = position + np.arange(sizes[d]).reshape([-1 if a == axis else 1 for a in range(rank)])
        inside &= (position >= 0) & (position < size)
        element = element * size + position
    element = np.where(inside, element, -1)
    # The axes of the windows are offset_dims of the result; the other axes are those of the indices. Both keep their
    # order.
    batches, windows = iter(range(len(batch))), iter(range(len(batch), rank))
    return element.transpose([next(windows) if d in dims["offset_dims"] else next(batches) for d in range(rank)])


def progressions(indices: np.ndarray) -> list[tuple[int, int, int]] | None:
    """A list of numbers as a few runs (start, count, step); None if there are too many. [0, 2, 4, 7] is [(0, 3, 2), (7, 1, 1)]."""
    steps = np.diff(indices)
    changes = np.nonzero(np.diff(steps))[0] + 1
    if len(changes) > 2 * thresholds.PATTERN_PIECES:
        return None
    runs, position, ends = [], 0, [*changes.tolist(), len(indices) - 1]
    while position < len(indices):
        end = next((e for e in ends if e > position), position)
        runs.append((int(indices[position]), end - position + 1, int(steps[position]) if end > position else 1))
        position = end + 1
    return runs if len(runs) <= thresholds.PATTERN_PIECES else None


def _only_axis(dims: Dims, shape: Shape, sizes: Sequence[int]) -> int | None:
    """The single axis that is indexed, one element at a time, if a gather reads all other axes whole; else None.

    `dims` are the dimension numbers, `shape` is the shape of the operand, and `sizes` that of a window.
    """
    axes = dims["start_index_map"]
    if len(axes) != 1 or dims["operand_batching_dims"] or tuple(dims["collapsed_slice_dims"]) != tuple(axes):
        return None
    if any(size != n for d, (size, n) in enumerate(zip(sizes, shape, strict=True)) if d != axes[0]):
        return None
    return int(axes[0])


def gather(
    xs: Sequence[Operand], outs: Sequence[Shape], dimension_numbers: Dims, slice_sizes: Sequence[int], **_: Any
) -> list[Relation]:
    """The patterns of the result of a gather, from the operands `xs` and the shapes `outs` of the results.

    An element depends on a whole axis if its index along that axis is not known.
    """
    x, dims, shape = xs[0].relation, dimension_numbers, outs[0]
    indices = xs[1].read()
    if indices is None:
        return [_gather_unknown(x, dims, slice_sizes, shape)]
    axis = _only_axis(dims, x.shape, slice_sizes)
    if axis is not None and x.boxes is not None:
        positions = np.clip(indices.astype(np.int64).reshape(-1), 0, x.shape[axis] - 1)
        runs = progressions(positions)
        if runs is not None:
            batch = [d for d in range(len(shape)) if d not in dims["offset_dims"]]
            return [_gather_runs(x, axis, runs, dims["offset_dims"], batch, shape)]
    return [x.selected(elements_read(x.shape, indices, dims, slice_sizes, clip=True).reshape(-1), shape)]


def _gather_runs(
    x: Relation, axis: int, runs: Sequence[tuple[int, int, int]], windows: Sequence[int], batch: Sequence[int], shape: Shape
) -> Relation:
    """The relation of a gather along one axis, from the runs (start, count, step) of its indices.

    Args:
      x: the operand.
      axis: the indexed axis.
      runs: the runs.
      windows: the axes of the result for the other axes of the operand.
      batch: the axes of the result for the indices.
      shape: the shape of the result.
    """
    # A run start, start + step, ... is a slice of the operand, reversed for a negative step; step 0 repeats one row. The slices are
    # joined along the axis, which then becomes the axes `batch` of the result.
    pieces = []
    for start, count, step in runs:
        low, high, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        first, last = sorted((start, start + step * (count - 1)))
        low[axis], high[axis], strides[axis] = first, last + 1, max(1, abs(step))
        piece = x.sliced(low, high, strides)
        if step < 0:
            piece = piece.reversed([axis])
        if step == 0 and count > 1:
            wide = tuple(count if a == axis else n for a, n in enumerate(x.shape))
            piece = piece.broadcast(wide, range(len(wide)))
        pieces.append(piece)
    length = sum(count for _, count, _ in runs)
    joint = joined(pieces, axis, tuple(length if a == axis else n for a, n in enumerate(x.shape)), x.columns)
    others = [a for a in range(len(x.shape)) if a != axis]
    joint = joint.transposed([axis, *others]).reshaped([*(shape[d] for d in batch), *(shape[d] for d in windows)])
    order = [*batch, *windows]
    return joint.transposed([order.index(d) for d in range(len(shape))])


def _gather_unknown(x: Relation, dims: Dims, sizes: Sequence[int], shape: Shape) -> Relation:
    """The pattern of a gather with unknown indices: an element depends on the whole of each indexed axis of the operand x."""
    # An axis that is read whole needs no index, so it is not spread.
    x = x.spread([d for d in dims["start_index_map"] if sizes[d] < x.shape[d]])
    extents = [n if d in dims["operand_batching_dims"] else size for d, (n, size) in enumerate(zip(x.shape, sizes, strict=True))]
    x = x.sliced([0] * len(extents), extents, [1] * len(extents))
    remaining = [d for d in range(len(extents)) if d not in dims["collapsed_slice_dims"]]
    x = x.reshaped([extents[d] for d in remaining])
    vector, windows = dims["index_vector_dim"], iter(dims["offset_dims"])
    batch = [d for d in range(len(shape)) if d not in dims["offset_dims"]]
    positions = []  # the axis of the result for each remaining axis of the operand
    for d in remaining:
        if d in dims["operand_batching_dims"]:
            axis = dims["start_indices_batching_dims"][dims["operand_batching_dims"].index(d)]
            positions.append(batch[axis - (axis > vector)])  # the result has no axis for the components of an index vector
        else:
            positions.append(next(windows))
    return x.broadcast(shape, positions)


def gather_of(dims: Dims) -> Dims:
    """The dimension numbers of the gather that reads the positions to which a scatter writes."""
    return {
        "offset_dims": dims["update_window_dims"],
        "collapsed_slice_dims": dims["inserted_window_dims"],
        "operand_batching_dims": dims["input_batching_dims"],
        "start_indices_batching_dims": dims["scatter_indices_batching_dims"],
        "start_index_map": dims["scatter_dims_to_operand_dims"],
        "index_vector_dim": dims["index_vector_dim"],
    }


def scatter(xs: Sequence[Operand], outs: Sequence[Shape], scatter_dimension_numbers: Dims, body: Any, **_: Any) -> list[Relation]:
    """The pattern of the result of a scatter; elements that are certainly overwritten lose their dependences.

    If an index is not known, the update may be anywhere along its axis. `xs` are the operands, and `outs` the shapes of the
    results.
    """
    if len(xs) != 3:
        return dense(xs, outs)
    x, updates, dims = xs[0].relation, xs[2].relation, gather_of(scatter_dimension_numbers)
    indices = xs[1].read()
    windows = iter(updates.shape[d] for d in dims["offset_dims"])
    absent = (*dims["collapsed_slice_dims"], *dims["operand_batching_dims"])
    sizes = [1 if d in absent else next(windows) for d in range(len(x.shape))]
    if indices is None:
        return [union([x, _scatter_unknown(updates, dims, sizes, x.shape)], x.shape, columns_of(xs))]
    axis = _only_axis(dims, x.shape, sizes)
    runs = None
    if axis is not None and updates.boxes is not None and body == "add":
        positions = indices.astype(np.int64).reshape(-1)
        inside = positions.size and positions.min() >= 0 and positions.max() < x.shape[axis]
        runs = progressions(positions) if inside else None
    if axis is not None and runs is not None:
        batch = [d for d in range(len(updates.shape)) if d not in dims["offset_dims"]]
        return [x.union(_scatter_runs(updates, axis, runs, dims["offset_dims"], batch, x.shape))]
    target = elements_read(x.shape, indices, dims, sizes, clip=False)
    image = updates.grouped(target, x.shape)
    if body == "set" and not x.is_empty:
        others = np.ones(math.prod(x.shape), bool)
        others[target[target >= 0]] = False
        x = x.restricted(others.reshape(x.shape))
    return [x.union(image)]


def _scatter_runs(
    updates: Relation, axis: int, runs: Sequence[tuple[int, int, int]], windows: Sequence[int], batch: Sequence[int], shape: Shape
) -> Relation:
    """The pattern of an array of this shape to which updates are added at runs (start, count, step) of indices along one axis.

    `batch` are the axes of the updates for the indices, and `windows` those for the other axes of the array.
    """
    others = [n for a, n in enumerate(shape) if a != axis]
    # One row of x for each index, in the order of the runs.
    x = updates.transposed([*batch, *windows]).reshaped([math.prod(updates.shape[d] for d in batch), *others])
    found, offset = Relation.none(shape, updates.columns), 0
    for start, count, step in runs:
        rank = len(x.shape)
        piece = x.sliced([offset, *(0,) * (rank - 1)], [offset + count, *others], [1] * rank)
        offset += count
        if step == 0:  # all updates of the run are added to one row, which depends on each of them
            piece, count, step = piece.gathered([0]).broadcast((1, *others), range(1, rank)), 1, 1
        if step < 0:
            piece, start, step = piece.reversed([0]), start + step * (count - 1), -step
        size = shape[axis]
        zeros = [0] * (rank - 1)
        piece = piece.padded([start, *zeros], [size - start - (count - 1) * step - 1, *zeros], [step - 1, *zeros])
        order = [a + 1 if a < axis else 0 if a == axis else a for a in range(rank)]  # moves axis 0 to `axis`
        found = found.union(piece.transposed(order))
    return found


def _scatter_unknown(updates: Relation, dims: Dims, sizes: Sequence[int], shape: Shape) -> Relation:
    """The pattern of the updates of a scatter with unknown indices: each update may be anywhere along the indexed axes.

    `sizes` is the shape of a window, and `shape` that of the array.
    """
    vector = dims["index_vector_dim"]
    batch = [d for d in range(len(updates.shape)) if d not in dims["offset_dims"]]
    batching = {
        batch[a - (a > vector)]: d for a, d in zip(dims["start_indices_batching_dims"], dims["operand_batching_dims"], strict=True)
    }
    offset_axes = [d for d in range(len(shape)) if d not in (*dims["collapsed_slice_dims"], *dims["operand_batching_dims"])]
    axis_of = dict(zip(dims["offset_dims"], offset_axes, strict=True)) | batching  # axis of the updates -> axis of the array
    movable = {d for d in dims["start_index_map"] if sizes[d] < shape[d]}  # a window as long as the axis can only begin at 0
    dropped = [u for u in range(len(updates.shape)) if u not in axis_of or axis_of[u] in movable]
    positions = [axis_of[u] for u in range(len(updates.shape)) if u not in dropped]
    found = updates.gathered(dropped)
    # Along an axis that no index moves, a window may be shorter than the array: the elements after it get no update.
    covered = tuple(found.shape[positions.index(d)] if d in positions else n for d, n in enumerate(shape))
    found = found.broadcast(covered, positions)
    return found.padded([0] * len(shape), [n - m for n, m in zip(shape, covered, strict=True)])
