"""Operations with indices as data: gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nabla_mlir.interpreter.evaluations import evaluation
from nabla_mlir.interpreter.reductions import UFUNCS, Body, combine

Shape = tuple[int, ...]


def _slice_starts(
    indices: np.ndarray, vector_dim: int, index_map: Sequence[int], batches: Sequence[int], of_indices: Sequence[int], rank: int
) -> np.ndarray:
    """The start of each slice in the operand, shape (axes of the operand, index vectors...).

    Args:
      indices: the index vectors; `vector_dim` is their axis.
      index_map: the axis of the operand for each component of an index vector.
      batches, of_indices: the batch axes of the operand, and the matching axes of `indices`.
      rank: the number of axes of the operand.
    """
    if vector_dim == indices.ndim:  # StableHLO's form for index vectors of one component, which have no axis
        indices = indices[..., None]
    parts = np.moveaxis(indices, vector_dim, 0)  # one array for each component
    starts = np.zeros((rank, *parts.shape[1:]), np.int64)
    for part, axis in zip(parts, index_map, strict=True):
        starts[axis] = np.minimum(part, np.iinfo(np.int64).max) if part.dtype == np.uint64 else part
    for axis, index_axis in zip(batches, of_indices, strict=True):
        index_axis -= index_axis > vector_dim  # axes after that of the index vectors move forward by one
        sizes = [n if d == index_axis else 1 for d, n in enumerate(parts.shape[1:])]
        starts[axis] = np.arange(parts.shape[1 + index_axis]).reshape(sizes)
    return starts


def _elements(starts: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The indices of all elements of the slices: [axis, index vectors..., positions in a slice...].

    `sizes` are the sizes of a slice.
    """
    offsets = np.indices(sizes, np.int64).reshape(len(sizes), *([1] * (starts.ndim - 1)), *sizes)
    return starts.reshape(starts.shape + (1,) * len(sizes)) + offsets


@evaluation("stablehlo.gather")
def gather(x: np.ndarray, indices: np.ndarray, dimension_numbers: Mapping[str, Any], slice_sizes: Shape, **_: Any) -> np.ndarray:
    """The slices of x at the index vectors in `indices`; a start index is clamped so that its slice lies inside x.

    `dimension_numbers` has the fields of StableHLO's attribute by name.
    """
    dims = dimension_numbers
    batches = dims["operand_batching_dims"]
    starts = _slice_starts(
        indices, dims["index_vector_dim"], dims["start_index_map"], batches, dims["start_indices_batching_dims"], x.ndim
    )
    limits = np.subtract(x.shape, slice_sizes).reshape(-1, *([1] * (starts.ndim - 1)))
    positions = _elements(np.clip(starts, 0, limits), slice_sizes)
    out = x[tuple(positions)]
    without = {*dims["collapsed_slice_dims"], *batches}
    count = starts.ndim - 1
    out = out.reshape(out.shape[:count] + tuple(n for d, n in enumerate(slice_sizes) if d not in without))
    offsets = list(dims["offset_dims"])
    others = [d for d in range(out.ndim) if d not in offsets]
    return np.moveaxis(out, list(range(out.ndim)), [*others, *offsets])


@evaluation("stablehlo.scatter")
def scatter(*operands: np.ndarray, scatter_dimension_numbers: Mapping[str, Any], body: Body, **_: Any) -> list[np.ndarray]:
    """The arrays, combined with updates at the indices; an update that is partly outside is left out.

    `operands` are the arrays, the indices, and one array of updates for each array. `body` is the name of an operation such as
    "add", "set", or a function of an old and a new element.
    """
    count = len(operands) // 2
    xs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    dims = scatter_dimension_numbers
    batches, windows = dims["input_batching_dims"], list(dims["update_window_dims"])
    starts = _slice_starts(
        indices,
        dims["index_vector_dim"],
        dims["scatter_dims_to_operand_dims"],
        batches,
        dims["scatter_indices_batching_dims"],
        xs[0].ndim,
    )
    without = {*dims["inserted_window_dims"], *batches}
    sizes = iter([updates[0].shape[d] for d in windows])
    slice_sizes = [1 if d in without else next(sizes) for d in range(xs[0].ndim)]
    limits = np.subtract(xs[0].shape, slice_sizes).reshape(-1, *([1] * (starts.ndim - 1)))
    is_inside = ((starts >= 0) & (starts <= limits)).all(0).reshape(-1)
    positions = _elements(starts, slice_sizes).reshape(xs[0].ndim, is_inside.size, math.prod(slice_sizes))[:, is_inside]
    if not positions.size:
        return list(xs)
    flat = [_by_slice(u, windows, is_inside) for u in updates]
    return _apply_updates([x.copy() for x in xs], positions.reshape(xs[0].ndim, -1), flat, body)


def _by_slice(update: np.ndarray, windows: Sequence[int], is_inside: np.ndarray) -> np.ndarray:
    """The elements of those updates that are inside the operand, slice by slice, as a flat array."""
    others = [d for d in range(update.ndim) if d not in windows]
    return update.transpose([*others, *windows]).reshape(is_inside.size, -1)[is_inside].reshape(-1)


def _apply_updates(outs: list[np.ndarray], positions: np.ndarray, updates: Sequence[np.ndarray], body: Body) -> list[np.ndarray]:
    """The arrays `outs` after all updates, one update after the other.

    `positions` has one column of indices for each update. `body` is "set", an operation's name, or a function of an old and a new
    element.
    """
    index = tuple(positions)
    if body == "set":
        outs[0][index] = updates[0]  # of several updates for one index NumPy stores the last
    elif isinstance(body, str) and outs[0].dtype.kind != "V":
        UFUNCS[body].at(outs[0], index, updates[0])
    else:  # a function, or a dtype such as bfloat16, for which NumPy has no ufunc
        for i in range(positions.shape[1]):
            position = tuple(positions[:, i])
            for out, y in zip(outs, combine(body, *(out[position] for out in outs), *(u[i] for u in updates)), strict=True):
                out[position] = y
    return outs
