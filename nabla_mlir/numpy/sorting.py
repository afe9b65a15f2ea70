"""Sorting and searching."""

from __future__ import annotations

from typing import Any

from nabla_mlir.errors import ShapeError, user_frame
from nabla_mlir.numpy.axes import axis_of, sliced
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.operands import meet, require_real, tensor
from nabla_mlir.numpy.reductions import any, count_nonzero
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops import sorting as so
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor


def _along(name: str, x: Any, axis: int | None) -> tuple[Tensor, int]:
    x = require_real(name, tensor(x))
    if axis is None:
        return reshaped(x, (x.size,)), 0
    return x, axis_of(name, axis, x.ndim)


@library
def sort(a: Any, axis: Static[int | None] = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along `axis` (of the flattened array if None); NaN last, or first if descending."""
    x, axis = _along("sort", a, axis)
    if x.shape[axis] < 2:
        return x
    return so.sort(x, dimension=axis, is_stable=stable, comparator="GT" if descending else "LT")[0]


@library
def argsort(a: Any, axis: Static[int | None] = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The places from which `sort` takes its elements."""
    x, axis = _along("argsort", a, axis)
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
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """True where an element is one of `test_elements`; with `invert` where it is none of them.

    Compares every pair, whether or not they are `assume_unique`.

    Example:
      >>> import numpy as np
      >>> isin(np.array([1, 2, 3]), np.array([3, 1])).tolist()
      [True, False, True]
    """
    x, elements = tensor(element), tensor(test_elements)
    x, elements = meet("isin", reshaped(x, (*x.shape, 1)), reshaped(elements, (elements.size,)))
    out = any(lg.compare(x, elements, comparison_direction="EQ"), -1)
    return lg.logical_not(out) if invert else out
