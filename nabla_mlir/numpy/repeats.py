"""Repeats elements of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import axis_of, dynamic_shape
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.operands import tensor
from nabla_mlir.numpy.running import cumsum
from nabla_mlir.numpy.sorting import searchsorted
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor


def repeat(a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Tensor:
    """Repeats each element `repeats` times, or element i repeats[i] times; the numbers must be known.

    If `total_repeat_length` gives the length of the result, the numbers may be traced. The last element fills the rest of the
    result. An axis without elements does not change, as in JAX.
    """
    if total_repeat_length is not None:
        return _repeat_to(a, repeats, axis, total_repeat_length)
    if isinstance(repeats, Tensor):
        dynamic_shape("repeat", "pass the repeats as Python integers.")
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "iub" and counts.size:
        raise DtypeError(f"repeat requires integers as repeats, got {counts.dtype}.", where=user_frame())
    return _repeat(a, counts.tolist(), axis)


@library
def _repeat_to(x: Any, repeats: Any, axis: Static[int | None], length: Static[int]) -> Tensor:
    """The array with elements repeated traced numbers of times along `axis`, to a fixed length.

    Position p of the result is element i, where i is the number of elements whose repetitions end at or before p.
    """
    x = tensor(x)
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of("repeat", axis, x.ndim)
    count = x.shape[axis]
    if not count:
        return x
    ends = cumsum(broadcast_to(tensor(repeats), (count,)))
    positions = searchsorted(ends, np.arange(length).astype(ends.dtype), side="right")
    return take(x, positions, axis, mode="clip")


@library
def _repeat(x: Any, repeats: Static[Any], axis: Static[int | None]) -> Tensor:
    """The array with each element along `axis` repeated a number of times that is known while tracing; `repeats` is a number or a
    list.
    """
    x = tensor(x)
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of("repeat", axis, x.ndim)
    if isinstance(repeats, list) and len(repeats) != 1:
        return take(x, np.repeat(np.arange(x.shape[axis]), np.array(repeats, np.int64)), axis)
    k = repeats[0] if isinstance(repeats, list) else repeats
    shape = (*x.shape[: axis + 1], k, *x.shape[axis + 1 :])
    # A new axis of length k after the repeated one, joined with it by the reshape.
    spread = sh.broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(d + (d > axis) for d in range(x.ndim)))
    return reshaped(spread, (*x.shape[:axis], x.shape[axis] * k, *x.shape[axis + 1 :]))
