"""Sorting and searching."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype, is_complex, is_float
from nabla_mlir.numpy import complex_order
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.logic import less
from nabla_mlir.numpy.operands import convert, in_one_dtype, meet, operand, require_real, tensor
from nabla_mlir.numpy.reductions import any, count_nonzero
from nabla_mlir.numpy.special_values import is_nan
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops import sorting as so
from nabla_mlir.ops.gather import along_axis
from nabla_mlir.ops.shape import reshaped, sliced
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor, full, full_like
from nabla_mlir.transforms.custom import custom_jvp


def _along(name: str, x: Any, axis: int | None) -> tuple[Tensor, int]:
    """The array and the axis along which it is sorted; an axis of None flattens the array. `name` is the called function."""
    x = tensor(x)
    if is_float(x.dtype):
        x = _without_sign_of_nan(x)
    if axis is None:
        return reshaped(x, (x.size,)), 0
    return x, axis_of(name, axis, x.ndim)


@custom_jvp
def _without_sign_of_nan(x: Tensor) -> Tensor:
    """Returns x with positive NaN: in the order of bits, a negative NaN, such as 0 / 0, is before all numbers."""
    return lg.select(is_nan(x), full_like(x, np.nan), x)


@_without_sign_of_nan.defjvp
def _without_sign_of_nan_jvp(primals: Any, tangents: Any) -> Any:
    """The derivative is that of the identity."""
    return _without_sign_of_nan(*primals), tangents[0]


@library
def sort(a: ArrayLike, axis: Static[int | None] = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Sorts the elements along `axis` (of the flattened array if None); NaN is last, or first if descending.

    Complex numbers are ordered by their real parts, then by their imaginary parts.

    Example:
      >>> sort(np.array([1 + 2j, 1 - 5j, 0 + 9j])).tolist()
      [9j, (1-5j), (1+2j)]
    """
    x, axis = _along("sort", a, axis)
    if x.shape[axis] < 2:
        return x
    if is_complex(x.dtype):
        return along_axis(x, _order(x, axis, descending), axis)
    return so.sort(x, dimension=axis, is_stable=stable, comparator="GT" if descending else "LT")[0]


@library
def argsort(
    a: ArrayLike, axis: Static[int | None] = -1, *, descending: bool = False, stable: bool = True, dtype: DTypeLike | None = None
) -> Tensor:
    """The indices that sort the array, as `dtype`, by default the integer one; the other arguments as for `sort`."""
    if dtype is not None:
        return convert(argsort(a, axis, descending=descending, stable=stable), require_index_dtype("argsort", dtype))
    x, axis = _along("argsort", a, axis)
    if is_complex(x.dtype):
        return _order(x, axis, descending)
    if is_float(x.dtype):  # -0.0 and 0.0 are equal keys
        zero = full_like(x, 0)
        x = lg.select(lg.compare(x, zero, comparison_direction="EQ"), zero, x)
    positions = sh.iota(shape=x.shape, dtype=Defaults.int, iota_dimension=axis)
    return so.sort(x, positions, dimension=axis, is_stable=stable, comparator="GT" if descending else "LT")[1]


def require_index_dtype(name: str, dtype: DTypeLike) -> np.dtype:
    """The dtype of indices. Raises DtypeError if it is not an integer dtype."""
    index_dtype = as_dtype(dtype)
    if index_dtype.kind not in "iu":
        raise DtypeError(f"{name} requires an integer dtype of indices, got {index_dtype}.", where=user_frame())
    return index_dtype


def _order(x: Tensor, axis: int, descending: bool) -> Tensor:
    """The indices that sort complex numbers: stable sorts by the last key first."""
    *_, last = ranks = complex_order.keys(x)
    order = argsort(last, axis, descending=descending)
    for key in reversed(ranks[:-1]):
        order = along_axis(order, argsort(along_axis(key, order, axis), axis, descending=descending), axis)
    return order


@library
def top_k(x: ArrayLike, k: Static[int], axis: Static[int] = -1) -> tuple[Tensor, Tensor]:
    """The k largest elements along `axis` in descending order, and their indices.

    Raises:
      ShapeError: there are fewer than k elements.
    """
    x, axis = _along("top_k", require_real("top_k", tensor(x)), axis)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"top_k requires 0 <= k <= {x.shape[axis]}, got {k}.", where=user_frame())
    positions = sh.iota(shape=x.shape, dtype=Defaults.int, iota_dimension=axis)
    values, order = so.sort(x, positions, dimension=axis, is_stable=True, comparator="GT")
    return sliced(values, axis, 0, k), sliced(order, axis, 0, k)


_METHODS = ("scan", "scan_unrolled", "sort", "compare_all", "default")


@library
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: Any = None, *, method: str | None = None) -> Tensor:
    """The indices at which elements `v` can be inserted into the sorted vector `a`; NaN is after all numbers.

    A short vector is compared element by element; a long vector is searched by bisection.

    Args:
      a: a vector.
      v: elements; an array of any shape.
      side: "left" is before equal elements, "right" after them.
      sorter: indices such that ``a[sorter]`` is the sorted vector.
      method: "compare_all" compares with every element; "scan", "scan_unrolled" and "sort" use bisection; None decides by the
        length.

    Raises:
      ShapeError: `a` is not a vector, or `side` or `method` is unknown.

    Example:
      >>> import numpy as np
      >>> searchsorted(np.array([1.0, 3.0, np.nan]), np.array([3.0, np.nan])).tolist()
      [1, 2]
    """
    (a,), v = meet("searchsorted", a), operand(v)
    if a.ndim != 1 or side not in ("left", "right"):
        raise ShapeError(
            f"searchsorted requires a vector and side 'left' or 'right', got {a.shape} and {side!r}.", where=user_frame()
        )
    if method not in (None, *_METHODS):
        raise ShapeError(f"searchsorted requires one of {', '.join(_METHODS)} as method, got {method!r}.", where=user_frame())
    a = a if sorter is None else take(a, sorter, mode="promise_in_bounds")
    a, v = in_one_dtype(a, v)
    if method == "compare_all" or (method is None and a.size <= thresholds.COMPARED_PAIRWISE):
        a, v = meet("searchsorted", a, reshaped(v, (*v.shape, 1)))
        return count_nonzero(_stands_before(a, v, side), -1)
    low, high = (full(v.shape, n, Defaults.int) for n in (0, a.size))
    for _ in range(a.size.bit_length()):
        middle = (low + high) // 2
        is_before = lg.logical_and(less(middle, high), _stands_before(take(a, middle, mode="clip"), v, side))
        low, high = lg.select(is_before, middle + 1, low), lg.select(is_before, high, middle)
    return low


def _stands_before(a: Tensor, v: Tensor, side: str) -> Tensor:
    """True where an element of a sorted vector is before v: a < v for "left", a <= v for "right"; NaN is last."""
    direction = "LT" if side == "left" else "LE"
    if is_complex(a.dtype):
        return complex_order.lexicographic(complex_order.keys(a), complex_order.keys(v), direction)
    out = lg.compare(a, v, comparison_direction=direction)
    if not is_float(a.dtype):
        return out
    return lg.logical_or(out, is_nan(v) if side == "right" else lg.logical_and(is_nan(v), lg.logical_not(is_nan(a))))


@library
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, method: str = "auto") -> Tensor:
    """True where an element is in `test_elements`; `invert` negates the result.

    All pairs are compared; `assume_unique` and `method` have no effect.

    Example:
      >>> import numpy as np
      >>> isin(np.array([1, 2, 3]), np.array([3, 1])).tolist()
      [True, False, True]
    """
    x, elements = in_one_dtype(element, test_elements)
    x, elements = meet("isin", reshaped(x, (*x.shape, 1)), reshaped(elements, (elements.size,)))
    out = any(lg.compare(x, elements, comparison_direction="EQ"), -1)
    return lg.logical_not(out) if invert else out
