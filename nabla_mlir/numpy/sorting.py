"""Sorting and searching, and order statistics."""

from __future__ import annotations

import math
from typing import Any

from nabla_mlir.errors import ShapeError, user_frame
from nabla_mlir.numpy.axes import Axis, axes_of, axis_of, sliced
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.operands import inexact, meet, require_real, tensor
from nabla_mlir.numpy.reductions import any, count, count_nonzero, keep
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops import sorting as so
from nabla_mlir.ops.shape import reshaped, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor


def _along(name: str, x: Any, axis: int | None) -> tuple[Tensor, int]:
    x = require_real(name, tensor(x))
    if axis is None:
        return reshaped(x, (x.size,)), 0
    return x, axis_of(name, axis, x.ndim)


@library
def sort(x: Any, axis: Static[int | None] = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along `axis` (of the flattened array if None); NaN last, or first if descending."""
    x, axis = _along("sort", x, axis)
    if x.shape[axis] < 2:
        return x
    return so.sort(x, dimension=axis, is_stable=stable, comparator="GT" if descending else "LT")[0]


@library
def argsort(x: Any, axis: Static[int | None] = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The places from which `sort` takes its elements."""
    x, axis = _along("argsort", x, axis)
    places = sh.iota(shape=x.shape, dtype=Defaults.int, iota_dimension=axis)
    return so.sort(x, places, dimension=axis, is_stable=stable, comparator="GT" if descending else "LT")[1]


@library
def top_k(x: Any, k: Static[int], axis: Static[int] = -1) -> tuple[Tensor, Tensor]:
    """The k largest elements along `axis`, the largest first, and their places.

    Raises:
      ShapeError: there are fewer than k elements.
    """
    x, axis = _along("top_k", x, axis)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"top_k requires 0 <= k <= {x.shape[axis]}, got {k}.", where=user_frame())
    places = sh.iota(shape=x.shape, dtype=Defaults.int, iota_dimension=axis)
    values, order = so.sort(x, places, dimension=axis, is_stable=True, comparator="GT")
    return sliced(values, axis, 0, k), sliced(order, axis, 0, k)


@library
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """The places in the sorted vector `a` at which elements `v` can enter and keep the order.

    Compares every pair: for vectors `a` that are not long. With a `sorter`, ``a[sorter]`` is the sorted vector.
    """
    a, v = tensor(a), tensor(v)
    if a.ndim != 1 or side not in ("left", "right"):
        raise ShapeError(
            f"searchsorted requires a vector and side 'left' or 'right', got {a.shape} and {side!r}.",
            where=user_frame(),
        )
    a, v = meet("searchsorted", a if sorter is None else take(a, sorter), reshaped(v, (*v.shape, 1)))
    return count_nonzero(lg.compare(a, v, comparison_direction="LT" if side == "left" else "LE"), -1)


@library
def isin(x: Any, elements: Any, /, *, invert: bool = False) -> Tensor:
    """True where an element of `x` is one of `elements`; with `invert` where it is none of them. Compares every pair.

    Example:
      >>> import numpy as np
      >>> isin(np.array([1, 2, 3]), np.array([3, 1])).tolist()
      [True, False, True]
    """
    x, elements = tensor(x), tensor(elements)
    x, elements = meet("isin", reshaped(x, (*x.shape, 1)), reshaped(elements, (elements.size,)))
    out = any(lg.compare(x, elements, comparison_direction="EQ"), -1)
    return lg.logical_not(out) if invert else out


# ---------------------------------------------------------------- order statistics
@library
def quantile(x: Any, q: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The q-quantile over `axis`, between neighbours by linear interpolation; NaN if an element is.

    Args:
      x: an array.
      q: a Python number in [0, 1].
      axis: the axes over which it is taken.
      keepdims: whether the axes stay, with size 1.
    """
    x = require_real("quantile", inexact(x))
    axes = axes_of("quantile", axis, x.ndim)
    rest = tuple(d for d in range(x.ndim) if d not in axes)
    n = count(x.shape, axes)
    if not n or not 0 <= q <= 1:
        raise ShapeError(
            f"quantile requires elements and 0 <= q <= 1, got shape {x.shape} and q = {q}.", where=user_frame()
        )
    flat = reshaped(transposed(x, (*rest, *axes)), (*(x.shape[d] for d in rest), n))
    rows = sort(flat)
    low = math.floor(q * (n - 1))
    part = q * (n - 1) - low
    out = _at(rows, low) * (1 - part) + _at(rows, low + 1) * part if part else _at(rows, low)
    # NaN are the last in order.
    last = _at(rows, n - 1)
    out = lg.select(lg.compare(last, last, comparison_direction="NE"), last, out)
    return keep(out, x.shape, axes) if keepdims else out


def _at(x: Tensor, place: int) -> Tensor:
    return reshaped(sliced(x, x.ndim - 1, place, place + 1), x.shape[:-1])


@library
def median(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The middle element over `axis`, or the mean of the two in the middle."""
    return quantile(x, 0.5, axis, keepdims)
