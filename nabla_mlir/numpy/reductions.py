"""Reductions and running sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.dialects.types import as_dtype, is_complex, is_differentiable, is_float
from nabla_mlir.errors import ShapeError, user_frame
from nabla_mlir.numpy.axes import Axis, Shape, axes_of, axis_of, padded
from nabla_mlir.numpy.logic import isclose
from nabla_mlir.numpy.operands import convert, inexact, inexact_dtype, meet, require_real, tensor
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.reduction import identity_of, reduce
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_to
from nabla_mlir.table.tensor import Tensor, full, full_like


# ---------------------------------------------------------------- words
def fold(x: Tensor, axes: Shape, combiner: str, keepdims: bool = False) -> Tensor:
    """The elements along `axes` combined; `x` itself if there are none to combine."""
    if not axes:
        return x
    start = full((), identity_of(combiner, x.dtype), x.dtype)
    out = reduce(x, start, dimensions=tuple(sorted(axes)), body=combiner)
    return keep(out, x.shape, axes) if keepdims else out


def keep(out: Tensor, shape: Shape, axes: Shape) -> Tensor:
    """The result of a reduction with the reduced axes as axes of size 1."""
    return reshaped(out, tuple(1 if d in axes else n for d, n in enumerate(shape)))


def spread(out: Tensor, shape: Shape, axes: Shape) -> Tensor:
    """The result of a reduction repeated along the reduced axes."""
    return sh.expand(out, shape, axes) if axes else out


def count(shape: Shape, axes: Shape) -> int:
    """The number of elements that a reduction combines into one."""
    return math.prod(shape[d] for d in axes)


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of a sum: integers narrower than the default one take its width."""
    if dtype.kind in "bi":
        return np.promote_types(dtype, Defaults.int)
    return np.promote_types(dtype, f"u{Defaults.int.itemsize}") if dtype.kind == "u" else dtype


def _masked(x: Tensor, where: Any, neutral: Any) -> Tensor:
    if where is None:
        return x
    mask = broadcast_to(convert(tensor(where), bool), x.shape)
    return lg.select(mask, x, full_like(x, neutral))


# ---------------------------------------------------------------- sums and products
@library
def sum(
    x: Any, axis: Static[Axis] = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The sum over `axis` (an int, several, or None for all).

    Args:
      x: an array.
      axis: the axes that are summed; negative ones count from the end.
      dtype: of the sum; integers narrower than the default one are summed in that if not given.
      keepdims: whether the axes stay, with size 1.
      initial: a number added to the sum.
      where: truth values; elements where they are False are left out.

    Example:
      >>> import numpy as np
      >>> sum(np.ones((2, 3), np.float32), axis=1).tolist()
      [3.0, 3.0]
    """
    x = tensor(x)
    x = _masked(convert(x, sum_dtype(x.dtype) if dtype is None else dtype), where, 0)
    out = fold(x, axes_of("sum", axis, x.ndim), "add", keepdims)
    return out if initial is None else out + initial


@library
def prod(
    x: Any, axis: Static[Axis] = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The product over `axis`; arguments as for `sum`."""
    x = tensor(x)
    x = _masked(convert(x, sum_dtype(x.dtype) if dtype is None else dtype), where, 1)
    out = fold(x, axes_of("prod", axis, x.ndim), "mul", keepdims)
    return out if initial is None else out * initial


@library
def mean(x: Any, axis: Static[Axis] = None, dtype: Any = None, keepdims: bool = False, where: Any = None) -> Tensor:
    """The mean over `axis`; of integers in the default float dtype."""
    x = tensor(x)
    x = convert(x, inexact_dtype(x.dtype) if dtype is None else dtype)
    axes = axes_of("mean", axis, x.ndim)
    total = fold(_masked(x, where, 0), axes, "add", keepdims)
    if where is None:
        return total / count(x.shape, axes)
    mask = broadcast_to(convert(tensor(where), bool), x.shape)
    return total / fold(convert(mask, x.dtype), axes, "add", keepdims)


@library
def average(x: Any, axis: Static[Axis] = None, weights: Any = None, keepdims: bool = False) -> Tensor:
    """The mean weighted by `weights`, an array of the shape of x or, along one axis, a vector."""
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    x, weights = inexact(x), inexact(weights)
    axes = axes_of("average", axis, x.ndim)
    if weights.shape != x.shape:
        if weights.ndim != 1 or len(axes) != 1 or weights.shape[0] != x.shape[axes[0]]:
            raise ShapeError(f"average requires weights of shape {x.shape}, got {weights.shape}.", where=user_frame())
        weights = sh.broadcast_in_dim(weights, shape=x.shape, broadcast_dimensions=axes)
    x, weights = meet("average", x, weights)
    return fold(x * weights, axes, "add", keepdims) / fold(weights, axes, "add", keepdims)


@library
def var(
    x: Any, axis: Static[Axis] = None, ddof: Static[float] = 0, keepdims: bool = False, correction: Static[float | None] = None,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The variance over `axis`: the mean of ``abs(x - mean(x))**2``, with n - ddof instead of n."""
    x = inexact(x) if dtype is None else convert(tensor(x), dtype)
    axes = axes_of("var", axis, x.ndim)
    n = count(x.shape, axes)
    centre = x - spread(fold(x, axes, "add") / n, x.shape, axes)
    square = ew.square(centre) if not is_complex(x.dtype) else ew.real(centre * ew.conj(centre))
    return fold(square, axes, "add", keepdims) / max_(n - (ddof if correction is None else correction), 0)


def max_(a: float, b: float) -> float:
    """The larger of two Python numbers (`max` is the reduction here)."""
    return a if a > b else b


@library
def std(
    x: Any, axis: Static[Axis] = None, ddof: Static[float] = 0, keepdims: bool = False, correction: Static[float | None] = None,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The standard deviation over `axis`: the root of the variance."""
    return ew.sqrt(var(x, axis, ddof, keepdims, correction, dtype))


# ---------------------------------------------------------------- extrema
def _extremum(name: str, combiner: str, x: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Tensor:
    x = require_real(name, tensor(x))
    axes = axes_of(name, axis, x.ndim)
    if not count(x.shape, axes) and initial is None:
        raise ShapeError(f"{name} requires at least one element, got shape {x.shape}.", where=user_frame(),
                         help="give `initial`, the result for no elements.")  # fmt: skip
    out = fold(_masked(x, where, identity_of(combiner, x.dtype)), axes, "min" if combiner == "min" else "max", keepdims)
    if initial is None:
        return out
    out, first = meet(name, out, initial)
    return ew.maximum(out, first) if combiner == "max" else ew.minimum(out, first)


@library
def max(x: Any, axis: Static[Axis] = None, keepdims: bool = False, initial: Any = None, where: Any = None) -> Tensor:
    """The largest element over `axis`; NaN if there is one. Ties share the derivative.

    Raises:
      ShapeError: there is no element, and no `initial`.
    """
    return _extremum("max", "max", x, axis, keepdims, initial, where)


@library
def min(x: Any, axis: Static[Axis] = None, keepdims: bool = False, initial: Any = None, where: Any = None) -> Tensor:
    """The smallest element over `axis`; NaN if there is one. Ties share the derivative.

    Raises:
      ShapeError: there is no element, and no `initial`.
    """
    return _extremum("min", "min", x, axis, keepdims, initial, where)


amax, amin = max, min


@library
def ptp(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The largest less the smallest element."""
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def _place(name: str, combiner: str, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = require_real(name, tensor(x))
    shape = x.shape
    if axis is None:
        x, at = reshaped(x, (x.size,)), 0
    else:
        at = axis_of(name, axis, x.ndim)
    if not x.shape[at]:
        raise ShapeError(f"{name} requires at least one element, got shape {shape}.", where=user_frame())
    # The first place that holds the extremum, or a NaN.
    x = convert(x, np.int8) if x.dtype.kind == "b" else stop_gradient(x) if is_differentiable(x.dtype) else x
    hits = lg.compare(x, spread(fold(x, (at,), combiner), x.shape, (at,)), comparison_direction="EQ")
    if is_float(x.dtype):
        hits = lg.logical_or(hits, lg.compare(x, x, comparison_direction="NE"))
    places = sh.iota(shape=x.shape, dtype=Defaults.int, iota_dimension=at)
    out = fold(lg.select(hits, places, full_like(places, x.shape[at])), (at,), "min")
    if not keepdims:
        return out
    return keep(out, shape, (at,) if axis is not None else tuple(range(len(shape))))


@library
def argmax(x: Any, axis: Static[int | None] = None, keepdims: bool = False) -> Tensor:
    """The place of the first largest element (or NaN) along `axis`, or in the flattened array."""
    return _place("argmax", "max", x, axis, keepdims)


@library
def argmin(x: Any, axis: Static[int | None] = None, keepdims: bool = False) -> Tensor:
    """The place of the first smallest element (or NaN) along `axis`, or in the flattened array."""
    return _place("argmin", "min", x, axis, keepdims)


# ---------------------------------------------------------------- truth values
@library
def any(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """True where an element over `axis` is not 0."""
    x = convert(tensor(x), bool)
    return fold(x, axes_of("any", axis, x.ndim), "or", keepdims)


@library
def all(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """True where no element over `axis` is 0."""
    x = convert(tensor(x), bool)
    return fold(x, axes_of("all", axis, x.ndim), "and", keepdims)


@library
def count_nonzero(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The number of elements over `axis` that are not 0."""
    x = convert(convert(tensor(x), bool), Defaults.int)
    return fold(x, axes_of("count_nonzero", axis, x.ndim), "add", keepdims)


@library
def array_equal(x: Any, y: Any) -> Tensor:
    """True if x and y have the same shape and elements."""
    x, y = tensor(x), tensor(y)
    if x.shape != y.shape:
        return full((), False, np.dtype(bool))
    x, y = meet("array_equal", x, y)
    return all(lg.compare(x, y, comparison_direction="EQ"))


@library
def allclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """True if all elements are close; see `isclose`."""
    return all(isclose(x, y, rtol, atol, equal_nan))


# ---------------------------------------------------------------- log-sum-exp
@library
def logsumexp(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over `axis` without overflow: the largest element is taken out first."""
    x = inexact(x)
    axes = axes_of("logsumexp", axis, x.ndim)
    if not count(x.shape, axes):
        return full(tuple(n for d, n in enumerate(x.shape) if d not in axes or keepdims), -np.inf, x.dtype)
    largest = finite_max(x, axes)
    out = ew.log(fold(ew.exponential(x - spread(largest, x.shape, axes)), axes, "add")) + largest
    return keep(out, x.shape, axes) if keepdims else out


def finite_max(x: Tensor, axes: Shape) -> Tensor:
    """The largest (real part of an) element as a constant of differentiation, or 0 where that is infinite."""
    x = stop_gradient(ew.real(x) if is_complex(x.dtype) else x)
    largest = fold(x, axes, "max")
    return lg.select(lg.is_finite(largest), largest, full_like(largest, 0))


# ---------------------------------------------------------------- ignoring NaN
def _numbers(x: Any) -> tuple[Tensor, Tensor | None]:
    x = tensor(x)
    return x, lg.compare(x, x, comparison_direction="EQ") if is_differentiable(x.dtype) else None


@library
def nansum(x: Any, axis: Static[Axis] = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements that are not NaN."""
    x, numbers = _numbers(x)
    return sum(x, axis, dtype, keepdims, where=numbers)


@library
def nanprod(x: Any, axis: Static[Axis] = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product of the elements that are not NaN."""
    x, numbers = _numbers(x)
    return prod(x, axis, dtype, keepdims, where=numbers)


@library
def nanmean(x: Any, axis: Static[Axis] = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the elements that are not NaN; NaN if there is none."""
    x, numbers = _numbers(x)
    return mean(x, axis, dtype, keepdims, where=numbers)


def _nan_extremum(name: str, combiner: str, x: Any, axis: Axis, keepdims: bool) -> Tensor:
    x, numbers = _numbers(x)
    out = _extremum(name, combiner, x, axis, keepdims, None, numbers)
    if numbers is None:
        return out
    return lg.select(any(numbers, axis, keepdims), out, full_like(out, np.nan))


@library
def nanmax(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The largest element that is not NaN; NaN if there is none."""
    return _nan_extremum("nanmax", "max", x, axis, keepdims)


@library
def nanmin(x: Any, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The smallest element that is not NaN; NaN if there is none."""
    return _nan_extremum("nanmin", "min", x, axis, keepdims)


# ---------------------------------------------------------------- running sums
def _running(
    name: str, record: Any, neutral: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    x = tensor(x)
    x = convert(x, sum_dtype(x.dtype) if dtype is None else as_dtype(dtype))
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of(name, axis, x.ndim)
    n, step = x.shape[axis], 1
    # Each round doubles the stretch that an element has gathered: log2(n) operations on whole arrays.
    while step < n and x.size:
        x = record(x, padded(x, axis, step, -step, neutral))
        step *= 2
    return padded(x, axis, 1, 0, neutral) if include_initial else x


@library
def cumsum(x: Any, axis: Static[int | None] = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """The running sum along `axis`, or of the flattened array. With `include_initial` a 0 stands first.

    The code has log2(n) additions of whole arrays.
    """
    return _running("cumsum", ew.add, 0, x, axis, dtype, include_initial)


@library
def cumprod(x: Any, axis: Static[int | None] = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """The running product along `axis`, or of the flattened array. With `include_initial` a 1 stands first."""
    return _running("cumprod", ew.multiply, 1, x, axis, dtype, include_initial)


cumulative_sum, cumulative_prod = cumsum, cumprod
