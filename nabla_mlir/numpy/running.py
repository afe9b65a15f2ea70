"""Running sums, products, extrema and log-sum-exps."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.numpy.axes import axis_of, padded
from nabla_mlir.numpy.complex_order import further
from nabla_mlir.numpy.extrema import end
from nabla_mlir.numpy.operands import convert, inexact, tensor
from nabla_mlir.numpy.reductions import sum_dtype
from nabla_mlir.numpy.ufuncs import logaddexp
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.recurrences import Combination, doubled, running_product


def _running(
    name: str, combine: Combination, neutral: int, x: Any, axis: int | None, dtype: Any, include_initial: bool, reverse: bool
) -> Tensor:
    """The running sum or product of `x` by `combine`, in its dtype; `include_initial` adds the neutral number at the start.

    `name` is the called function, and `neutral` is 0 or 1.
    """
    x = tensor(x)
    x = convert(x, sum_dtype(x.dtype) if dtype is None else as_dtype(dtype))
    out = _along(name, combine, x, axis, reverse)
    return padded(out, axis_of(name, axis or 0, out.ndim), 1, 0, neutral) if include_initial else out


def _along(name: str, combine: Combination, x: Tensor, axis: int | None, reverse: bool) -> Tensor:
    """The running combination of `x` along an axis, or of the flattened array, from the last element if `reverse`.

    `combine` gets the array, the axis and the direction, 1 or -1. `name` is the called function, for errors.
    """
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    return combine(x, axis_of(name, axis, x.ndim), -1 if reverse else 1)


@library
def cumsum(
    a: ArrayLike,
    axis: Static[int | None] = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    *,
    reverse: bool = False,
) -> Tensor:
    """The running sum along `axis`, or of the flattened array. `include_initial` adds a 0 as the first element.

    `reverse` sums from the end. The code has log2(n) additions of whole arrays.
    """
    return _running("cumsum", doubled(ew.add, 0), 0, a, axis, dtype, include_initial, reverse)


@library
def cumprod(
    a: ArrayLike,
    axis: Static[int | None] = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    *,
    reverse: bool = False,
) -> Tensor:
    """The running product along `axis`, or of the flattened array. `include_initial` adds a 1 as the first; see `cumsum`."""
    return _running("cumprod", running_product, 1, a, axis, dtype, include_initial, reverse)


@library
def cummax(a: ArrayLike, axis: Static[int | None] = None, *, reverse: bool = False) -> Tensor:
    """The largest element so far along `axis`, or of the flattened array; ties share the derivative.

    Example:
      >>> import numpy as np
      >>> cummax(np.array([1.0, 3.0, 2.0])).tolist()
      [1.0, 3.0, 3.0]
    """
    return _running_extremum("cummax", "max", a, axis, reverse)


@library
def cummin(a: ArrayLike, axis: Static[int | None] = None, *, reverse: bool = False) -> Tensor:
    """The smallest element so far along `axis`, or of the flattened array; ties share the derivative."""
    return _running_extremum("cummin", "min", a, axis, reverse)


def _running_extremum(name: str, combiner: str, a: Any, axis: int | None, reverse: bool) -> Tensor:
    """The running maximum or minimum, as `combiner` says."""
    x = tensor(a)
    return _along(name, doubled(lambda x, y: further(x, y, combiner), end(combiner, x.dtype)), x, axis, reverse)


@library
def cumlogsumexp(a: ArrayLike, axis: Static[int | None] = None, *, reverse: bool = False) -> Tensor:
    """The logarithm of the running sum of exp(a) along `axis`, or of the flattened array, without overflow."""
    return _along("cumlogsumexp", doubled(logaddexp, -np.inf), inexact(a), axis, reverse)


def _of_vectors(name: str, x: Any, axis: int | None) -> int | None:
    """The axis of a running sum of the array API standard, None for a vector; raises ShapeError if another array leaves it out.

    `name` is the called function, for errors.
    """
    if not np.ndim(x) or (axis is None and np.ndim(x) > 1):
        raise ShapeError(f"{name} requires a vector, or an array and its axis, got shape {np.shape(x)}.", where=user_frame())
    return axis


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The running sum of a vector, or along `axis`; `include_initial` adds a 0 as the first element.

    Raises:
      ShapeError: `x` is a scalar, or has several axes and `axis` is None.

    Example:
      >>> cumulative_sum(np.array([1, 2, 3]), include_initial=True).tolist()
      [0, 1, 3, 6]
    """
    return cumsum(x, _of_vectors("cumulative_sum", x, axis), dtype, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The running product of a vector, or along `axis`; `include_initial` adds a 1. Errors as for `cumulative_sum`.

    Example:
      >>> cumulative_prod(np.array([1, 2, 3])).tolist()
      [1, 2, 6]
    """
    return cumprod(x, _of_vectors("cumulative_prod", x, axis), dtype, include_initial)
