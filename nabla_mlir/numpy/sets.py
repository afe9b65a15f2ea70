"""Sets of elements. Their size depends on values; in traces and under jit, pass it as `size`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import dynamic_shape
from nabla_mlir.numpy.creation import full
from nabla_mlir.numpy.data_dependent import nonzero, unique
from nabla_mlir.numpy.extrema import argmax
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.logic import logical_not, where
from nabla_mlir.numpy.operands import asarray
from nabla_mlir.numpy.shapes import ravel
from nabla_mlir.numpy.sorting import isin
from nabla_mlir.table.promotion import promote_dtypes
from nabla_mlir.table.tensor import Tensor


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Any:
    """The sorted unique elements of two arrays; `size` and `fill_value` as for `unique`.

    Example:
      >>> union1d(np.array([3, 1]), np.array([1, 2])).tolist()
      [1, 2, 3]
    """
    return unique(concatenate([ravel(ar1), ravel(ar2)]), size=size, fill_value=fill_value)


def _known(name: str, *arrays: Any) -> list[np.ndarray]:
    """The arrays as arrays of NumPy; raises TraceError if one is traced. `name` is the called function, for errors."""
    if any(isinstance(a, Tensor) for a in arrays):
        dynamic_shape(name, "pass size=, or arrays from outside of the trace.")
    return [np.asarray(a) for a in arrays]


def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """The sorted unique elements of `ar1` that are not in `ar2`.

    Args:
      ar1, ar2: arrays.
      assume_unique: True if the elements of `ar1` are known to be unique; their order then does not change.
      size: the number of elements of the result; required in traces.
      fill_value: the value that fills the result after the last element; the default is 0.

    Example:
      >>> setdiff1d(np.array([3, 1, 2]), np.array([1])).tolist()
      [2, 3]
    """
    if size is None:
        first, second = _known("setdiff1d", ar1, ar2)
        return asarray(np.setdiff1d(first, second, assume_unique))
    flat = ravel(ar1)
    if not flat.size:
        return full((size,), 0 if fill_value is None else fill_value, flat.dtype)
    if not assume_unique:
        flat, counts = unique(flat, return_counts=True, size=flat.size)
        occurs = counts > 0
    else:
        occurs = flat == flat
    return _chosen(flat, occurs & logical_not(isin(flat, ar2)), size, fill_value)


def _chosen(flat: Any, mask: Any, size: int, fill_value: Any) -> Any:
    """The first `size` elements of the vector `flat` where the mask is true; the rest is `fill_value`, or 0 for None."""
    (positions,) = nonzero(mask, size=size, fill_value=-1)
    found = take(flat, where(positions < 0, 0, positions), mode="promise_in_bounds")
    return where(positions < 0, 0 if fill_value is None else fill_value, found)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The sorted unique elements that are in both arrays.

    Args:
      ar1, ar2: arrays.
      assume_unique: True if the elements of each array are known to be unique.
      return_indices: True also returns the first index of each element in both arrays; the lengths of the arrays fill them.
      size: the number of elements of the result; required in traces.
      fill_value: the value that fills the result after the last element; the default is the first element, or 0 for none.

    Example:
      >>> intersect1d(np.array([3, 1, 2]), np.array([1, 3])).tolist()
      [1, 3]
    """
    if size is None:
        first, second = _known("intersect1d", ar1, ar2)
        out: Any = np.intersect1d(first, second, assume_unique, return_indices=return_indices)  # type: ignore[call-overload]
        return tuple(map(asarray, out)) if return_indices else asarray(out)
    flat, other = ravel(ar1), ravel(ar2)
    n = flat.size
    if not n or not other.size:
        nothing = full((size,), 0 if fill_value is None else fill_value, promote_dtypes([flat, other]))
        return (nothing, full((size,), n), full((size,), other.size)) if return_indices else nothing
    values, indices, counts = unique(flat, return_index=True, return_counts=True, size=n)
    (positions,) = nonzero((counts > 0) & isin(values, other), size=size, fill_value=n)
    absent = positions == n
    chosen = where(absent, positions[0] % n, positions)
    found = take(values, chosen, mode="promise_in_bounds").astype(promote_dtypes([flat, other]))
    found = where(positions[0] == n, 0, found).astype(found.dtype)
    out = found if fill_value is None else where(absent, fill_value, found).astype(found.dtype)
    if not return_indices:
        return out
    first = where(absent, n, take(indices, chosen, mode="promise_in_bounds"))
    return out, first, where(absent, other.size, argmax(other == found[:, None], 1))


def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Any:
    """The sorted unique elements that are in exactly one of two arrays; arguments as for `setdiff1d`.

    The first element fills the result by default.
    """
    if size is None:
        first, second = _known("setxor1d", ar1, ar2)
        return asarray(np.setxor1d(first, second, assume_unique))
    flat = concatenate([ravel(ar1), ravel(ar2)])
    flat, counts = unique(flat, return_counts=True, size=flat.size)
    mask = (counts > 0) & (isin(flat, ar1) ^ isin(flat, ar2))
    if fill_value is None and flat.size:
        fill_value = where(mask.any(), take(flat, argmax(mask), mode="promise_in_bounds"), 0)
    return _chosen(flat, mask, size, fill_value)
