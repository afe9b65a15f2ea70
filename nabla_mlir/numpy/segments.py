"""Reductions of segments: rows with the same segment id are combined, as in `jax.ops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_float
from nabla_mlir.numpy.axes import dynamic_shape
from nabla_mlir.numpy.operands import convert, require_integer, tensor
from nabla_mlir.ops.reduction import identity_of
from nabla_mlir.ops.scatter import scatter, scatter_dims
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Tensor:
    """The sums of the rows of `data` with the same segment id; 0 for a segment without rows.

    Args:
      data: an array whose leading axes are those of `segment_ids`.
      segment_ids: integers; rows whose id is negative or not below `num_segments` are left out.
      num_segments: the length of the result; required in traces. The default is 1 + the largest id.
      indices_are_sorted: True if the ids are sorted.
      unique_indices: True if no id occurs twice.
      bucket_size: has no effect.
      mode: the treatment of ids out of range; every mode of JAX except "promise_in_bounds" drops them.

    Raises:
      TraceError: `segment_ids` are traced and `num_segments` is missing.
      ShapeError: the leading axes differ.

    Example:
      >>> segment_sum(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 0])).tolist()
      [4.0, 0.0, 2.0]
    """
    return _segments("add", data, segment_ids, num_segments, indices_are_sorted, unique_indices)


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Tensor:
    """The products of the rows with the same segment id; 1 for a segment without rows. Arguments as for `segment_sum`."""
    return _segments("mul", data, segment_ids, num_segments, indices_are_sorted, unique_indices)


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Tensor:
    """The largest of the rows with the same segment id; -inf (the smallest integer) for a segment without rows.

    Arguments as for `segment_sum`. Ties share the derivative.
    """
    return _segments("max", data, segment_ids, num_segments, indices_are_sorted, unique_indices)


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Tensor:
    """The smallest of the rows with the same segment id; inf (the largest integer) for a segment without rows.

    Arguments as for `segment_sum`. Ties share the derivative.
    """
    return _segments("min", data, segment_ids, num_segments, indices_are_sorted, unique_indices)


def _segments(
    combiner: str, data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None, is_sorted: bool, is_unique: bool
) -> Any:
    """A reduction of segments; without `num_segments`, the largest known id decides their number."""
    if num_segments is None:
        if isinstance(segment_ids, Tensor):
            dynamic_shape(f"segment_{combiner}", "pass num_segments=, the length of the result.")
        ids = np.asarray(segment_ids)
        num_segments = 1 + int(ids.max()) if ids.size else 0
    return _scattered(data, segment_ids, num_segments, combiner, is_sorted, is_unique)


@library
def _scattered(data: Any, segment_ids: Any, count: Static[int], combiner: str, is_sorted: bool, is_unique: bool) -> Tensor:
    """One row for each of `count` segments: the rows of `data` with its id, combined by "add", "mul", "max" or "min"."""
    x, ids = tensor(data), require_integer("segment_ids", tensor(segment_ids))
    if x.shape[: ids.ndim] != ids.shape:
        raise ShapeError(
            f"segment reductions require data whose leading axes are {ids.shape}, got shape {x.shape}.", where=user_frame()
        )
    rows = x.shape[ids.ndim :]
    neutral = identity_of(combiner, x.dtype)
    if combiner in ("max", "min") and is_float(x.dtype):
        neutral = -np.inf if combiner == "max" else np.inf
    start = full((count, *rows), neutral, x.dtype)
    if not x.size:
        return start
    if ids.dtype.kind == "u":  # unsigned ids have no -1; the largest integer is out of range too
        ids = convert(ids, np.int64)
    dims = scatter_dims(
        update_window_dims=tuple(range(1, len(rows) + 1)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )
    return scatter(
        start,
        reshaped(ids, (ids.size, 1)),
        reshaped(x, (ids.size, *rows)),
        scatter_dimension_numbers=dims,
        indices_are_sorted=is_sorted,
        unique_indices=is_unique,
        body=combiner,
    )
