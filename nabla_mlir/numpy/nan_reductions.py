"""Reductions and running sums that ignore NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.numpy import extrema, running
from nabla_mlir.numpy import reductions as red
from nabla_mlir.numpy.axes import Axis
from nabla_mlir.numpy.operands import tensor
from nabla_mlir.ops import logic as lg
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like


def _numbers(x: Any, where: Any = None) -> tuple[Tensor, Tensor | None]:
    """The array `x`, and the mask of its elements that are not NaN and selected by `where`; None if all count."""
    x = tensor(x)
    mask = None if where is None else red.mask_of(where, x.shape)
    if not is_differentiable(x.dtype):
        return x, mask
    numbers = lg.compare(x, x, comparison_direction="EQ")
    return x, numbers if mask is None else lg.logical_and(numbers, mask)


@library
def nansum(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Tensor:
    """The sum of the elements that are not NaN; arguments as for `sum`."""
    x, numbers = _numbers(a, where)
    return red.sum(x, axis, dtype, keepdims, initial, numbers, promote_integers)


@library
def nanprod(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Tensor:
    """The product of the elements that are not NaN; arguments as for `sum`."""
    x, numbers = _numbers(a, where)
    return red.prod(x, axis, dtype, keepdims, initial, numbers, promote_integers)


@library
def nanmean(
    a: ArrayLike, axis: Static[Axis] = None, dtype: DTypeLike | None = None, keepdims: bool = False, where: ArrayLike | None = None
) -> Tensor:
    """The mean of the elements that are not NaN; NaN if there is none."""
    x, numbers = _numbers(a, where)
    return red.mean(x, axis, dtype, keepdims, where=numbers)


@library
def nanvar(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    ddof: Static[float] = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    *,
    mean: ArrayLike | None = None,
) -> Tensor:
    """The variance of the elements that are not NaN; arguments as for `var`.

    Example:
      >>> float(nanvar(np.array([1.0, np.nan, 3.0])))
      1.0
    """
    x, numbers = _numbers(a, where)
    return red.var(x, axis, dtype, ddof, keepdims, numbers, mean=mean)


@library
def nanstd(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    ddof: Static[float] = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    *,
    mean: ArrayLike | None = None,
) -> Tensor:
    """The standard deviation of the elements that are not NaN; arguments as for `var`."""
    x, numbers = _numbers(a, where)
    return red.std(x, axis, dtype, ddof, keepdims, numbers, mean=mean)


def _extremum(name: str, a: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Tensor:
    """The largest or smallest element that is not NaN, as `name` says ("nanmax" or "nanmin")."""
    x, numbers = _numbers(a, where)
    out = extrema.extremum(name, name[3:], x, axis, keepdims, initial, numbers)
    if numbers is None or initial is not None or not is_differentiable(x.dtype):
        return out
    return lg.select(red.any(numbers, axis, keepdims), out, full_like(out, np.nan))


@library
def nanmax(
    a: ArrayLike,
    axis: Static[Axis] = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The largest element that is not NaN; NaN if there is none."""
    return _extremum("nanmax", a, axis, keepdims, initial, where)


@library
def nanmin(
    a: ArrayLike,
    axis: Static[Axis] = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The smallest element that is not NaN; NaN if there is none."""
    return _extremum("nanmin", a, axis, keepdims, initial, where)


def _position(name: str, find: Callable[..., Tensor], combiner: str, a: Any, axis: int | None, keepdims: bool) -> Tensor:
    """The index of an extremum that is not NaN; -1 if there is none.

    Args:
      name: the called function, for errors.
      find: `argmax` or `argmin`.
      combiner: "max" or "min"; its neutral element replaces NaN.
      a, axis, keepdims: the arguments of the user.
    """
    x, numbers = _numbers(a)
    out = find(red.masked(x, numbers, extrema.end(combiner, x.dtype)) if numbers is not None else x, axis, keepdims)
    if numbers is None:
        return out
    if x.ndim == 0:
        raise ShapeError(f"{name} requires an array with axes, got a scalar.", where=user_frame())
    return lg.select(red.any(numbers, axis, keepdims), out, full_like(out, -1))


@library
def nanargmax(a: ArrayLike, axis: Static[int | None] = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element that is not NaN; -1 if there is none.

    Example:
      >>> int(nanargmax(np.array([np.nan, 1.0, 3.0])))
      2
    """
    return _position("nanargmax", extrema.argmax, "max", a, axis, keepdims)


@library
def nanargmin(a: ArrayLike, axis: Static[int | None] = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element that is not NaN; -1 if there is none."""
    return _position("nanargmin", extrema.argmin, "min", a, axis, keepdims)


@library
def nancumsum(a: ArrayLike, axis: Static[int | None] = None, dtype: DTypeLike | None = None) -> Tensor:
    """The running sum of the elements that are not NaN."""
    x, numbers = _numbers(a)
    return running.cumsum(red.masked(x, numbers, 0), axis, dtype)


@library
def nancumprod(a: ArrayLike, axis: Static[int | None] = None, dtype: DTypeLike | None = None) -> Tensor:
    """The running product of the elements that are not NaN."""
    x, numbers = _numbers(a)
    return running.cumprod(red.masked(x, numbers, 1), axis, dtype)
