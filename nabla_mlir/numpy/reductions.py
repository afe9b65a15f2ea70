"""Reductions and running sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import is_complex, is_differentiable, is_narrow
from nabla_mlir.numpy.axes import Axis, Shape, axes_of
from nabla_mlir.numpy.logic import isclose
from nabla_mlir.numpy.operands import convert, inexact, inexact_dtype, meet, tensor
from nabla_mlir.numpy.special_values import root
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.guards import product
from nabla_mlir.ops.reduction import identity_of, reduce
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_to
from nabla_mlir.table.tensor import Tensor, full, full_like


# ---------------------------------------------------------------- helpers
def fold(x: Tensor, axes: Shape, combiner: str, keepdims: bool = False) -> Tensor:
    """Combines the elements along `axes`; returns `x` unchanged if `axes` is empty."""
    if not axes:
        return x
    start = full((), identity_of(combiner, x.dtype), x.dtype)
    out = reduce(x, start, dimensions=tuple(sorted(axes)), body=combiner)
    return keep(out, x.shape, axes) if keepdims else out


def keep(out: Tensor, shape: Shape, axes: Shape) -> Tensor:
    """Adds the reduced axes to the result of a reduction, with size 1."""
    return reshaped(out, tuple(1 if d in axes else n for d, n in enumerate(shape)))


def spread(out: Tensor, shape: Shape, axes: Shape) -> Tensor:
    """Repeats the result of a reduction along the reduced axes."""
    return sh.expand(out, shape, axes) if axes else out


def count(shape: Shape, axes: Shape) -> int:
    """The number of elements that a reduction combines into one."""
    return math.prod(shape[d] for d in axes)


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of a sum: integers narrower than the default integer dtype get its width."""
    if dtype.kind in "bi":
        return np.promote_types(dtype, Defaults.int)
    return np.promote_types(dtype, f"u{Defaults.int.itemsize}") if dtype.kind == "u" else dtype


def wide_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of a sum that is divided or whose root is computed: float32 for narrow floats."""
    return np.dtype(np.float32) if is_narrow(dtype) else dtype


def widened(x: Tensor) -> Tensor:
    """Converts `x` to `wide_dtype`, because a sum of 16-bit numbers can overflow or lose digits although the mean does not."""
    return convert(x, wide_dtype(x.dtype))


def masked(x: Tensor, where: Any, neutral: Any) -> Tensor:
    """Replaces the elements where a mask is False by a neutral number; None means no mask."""
    if where is None:
        return x
    mask = broadcast_to(convert(tensor(where), bool), x.shape)
    return lg.select(mask, x, full_like(x, neutral))


# ---------------------------------------------------------------- sums and products
@library
def sum(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The sum over `axis` (an int, several, or None for all).

    Args:
      a: an array.
      axis: the axes that are summed; negative ones count from the end.
      dtype: the dtype of the sum; by default, narrow integers are summed in the default integer dtype.
      keepdims: True leaves the reduced axes with size 1.
      initial: a number added to the sum.
      where: truth values; elements where they are False are left out.

    Example:
      >>> import numpy as np
      >>> sum(np.ones((2, 3), np.float32), axis=1).tolist()
      [3.0, 3.0]
    """
    x = tensor(a)
    x = masked(convert(x, sum_dtype(x.dtype) if dtype is None else dtype), where, 0)
    out = fold(x, axes_of("sum", axis, x.ndim), "add", keepdims)
    return out if initial is None else out + initial


@library
def prod(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The product over `axis`; arguments as for `sum`."""
    x = tensor(a)
    x = masked(convert(x, sum_dtype(x.dtype) if dtype is None else dtype), where, 1)
    out = fold(x, axes_of("prod", axis, x.ndim), "mul", keepdims)
    return out if initial is None else out * initial


@library
def mean(
    a: ArrayLike, axis: Static[Axis] = None, dtype: DTypeLike | None = None, keepdims: bool = False, where: ArrayLike | None = None
) -> Tensor:
    """The mean over `axis`; integers give the default float dtype, and narrow floats are summed in float32."""
    x = tensor(a)
    x = convert(x, inexact_dtype(x.dtype) if dtype is None else dtype)
    return convert(wide_mean(x, axes_of("mean", axis, x.ndim), keepdims, where), x.dtype)


def wide_mean(x: Tensor, axes: Shape, keepdims: bool = False, where: ArrayLike | None = None) -> Tensor:
    """The mean over `axes` in the dtype of its sum."""
    x = widened(x)
    total = fold(masked(x, where, 0), axes, "add", keepdims)
    if where is None:
        return total / count(x.shape, axes)
    mask = broadcast_to(convert(tensor(where), bool), x.shape)
    return total / fold(convert(mask, x.dtype), axes, "add", keepdims)


@library
def average(
    a: ArrayLike, axis: Static[Axis] = None, weights: ArrayLike | None = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The mean weighted by `weights`, an array of the shape of a or, along one axis, a vector.

    `returned` gives a pair of the mean and the sum of the weights.
    """
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        x = tensor(a)
        return (out, full_like(out, count(x.shape, axes_of("average", axis, x.ndim)))) if returned else out
    x, weights = inexact(a), inexact(weights)
    axes = axes_of("average", axis, x.ndim)
    if weights.shape != x.shape:
        if weights.ndim != 1 or len(axes) != 1 or weights.shape[0] != x.shape[axes[0]]:
            raise ShapeError(f"average requires weights of shape {x.shape}, got {weights.shape}.", where=user_frame())
        weights = sh.broadcast_in_dim(weights, shape=x.shape, broadcast_dimensions=axes)
    x, weights = meet("average", x, weights)
    dtype, x, weights = x.dtype, widened(x), widened(weights)
    total = fold(weights, axes, "add", keepdims)
    out = convert(fold(x * weights, axes, "add", keepdims) / total, dtype)
    return (out, convert(total, dtype)) if returned else out


@library
def var(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    ddof: Static[float] = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    *,
    correction: Static[float | None] = None,
) -> Tensor:
    """The variance over `axis`: the mean of ``abs(a - mean(a))**2``, with n - ddof instead of n (or n - `correction`).

    Args:
      a: an array.
      axis: the axes that are reduced.
      dtype: the dtype of the computation.
      ddof: the number that is subtracted from the number of elements.
      keepdims: True leaves the reduced axes with size 1.
      where: truth values; elements where they are False are left out.
      correction: the same as `ddof`, under the name of the array API standard.
    """
    x = inexact(a) if dtype is None else convert(tensor(a), dtype)
    less = ddof if correction is None else correction
    return convert(_wide_variance(x, axes_of("var", axis, x.ndim), less, keepdims, where), real_kind(x.dtype))


def _wide_variance(x: Tensor, axes: Shape, less: float, keepdims: bool, where: Any) -> Tensor:
    """The variance over `axes` in the dtype of its sums."""
    x = widened(x)
    mask = None if where is None else broadcast_to(convert(tensor(where), bool), x.shape)
    n: Any = count(x.shape, axes) if mask is None else fold(convert(mask, real_kind(x.dtype)), axes, "add")
    centre = x - spread(fold(masked(x, mask, 0), axes, "add") / n, x.shape, axes)
    square = ew.square(centre) if not is_complex(x.dtype) else ew.real(centre * ew.conj(centre))
    total = fold(masked(square, mask, 0), axes, "add", keepdims)
    if mask is None:
        return total / max_(count(x.shape, axes) - less, 0)
    rest = keep(n, x.shape, axes) if keepdims else n
    return total / ew.maximum(rest - less, full_like(rest, 0))


def real_kind(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype; a real dtype is returned unchanged."""
    return np.zeros((), dtype).real.dtype if is_complex(dtype) else dtype


def max_(a: float, b: float) -> float:
    """The larger of two Python numbers (in this module, `max` is a reduction)."""
    return a if a > b else b


@library
def std(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    ddof: Static[float] = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    *,
    correction: Static[float | None] = None,
) -> Tensor:
    """The standard deviation over `axis`: the root of the variance; its derivative is 0 if all elements are equal."""
    x = inexact(a) if dtype is None else convert(tensor(a), dtype)
    less = ddof if correction is None else correction
    return convert(root(_wide_variance(x, axes_of("std", axis, x.ndim), less, keepdims, where)), real_kind(x.dtype))


# ---------------------------------------------------------------- truth values
@library
def any(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Tensor:
    """True where an element over `axis` is not 0."""
    x = masked(convert(tensor(a), bool), where, False)
    return fold(x, axes_of("any", axis, x.ndim), "or", keepdims)


@library
def all(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Tensor:
    """True where no element over `axis` is 0."""
    x = masked(convert(tensor(a), bool), where, True)
    return fold(x, axes_of("all", axis, x.ndim), "and", keepdims)


@library
def count_nonzero(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The number of elements over `axis` that are not 0."""
    x = convert(convert(tensor(a), bool), Defaults.int)
    return fold(x, axes_of("count_nonzero", axis, x.ndim), "add", keepdims)


@library
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Tensor:
    """True if a1 and a2 have the same shape and elements; NaN are equal to each other if `equal_nan`."""
    x, y = tensor(a1), tensor(a2)
    if x.shape != y.shape:
        return full((), False, np.dtype(bool))
    x, y = meet("array_equal", x, y)
    same = lg.compare(x, y, comparison_direction="EQ")
    if equal_nan and is_differentiable(x.dtype):
        same = lg.logical_or(same, lg.logical_and(*(lg.compare(v, v, comparison_direction="NE") for v in (x, y))))
    return all(same)


@library
def allclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """True if all elements are close; see `isclose`."""
    return all(isclose(a, b, rtol, atol, equal_nan))


# ---------------------------------------------------------------- log-sum-exp
@library
def logsumexp(
    a: ArrayLike,
    axis: Static[Axis] = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b * exp(a))) over `axis` without overflow, because the largest element is factored out.

    Args:
      a: an array.
      axis: the axes over which it is summed.
      b: factors of the exponentials; 1 if not given.
      keepdims: True leaves the reduced axes with size 1.
      return_sign: True returns the logarithm of the absolute value, and the sign (for complex numbers the phase) of the sum.
      where: truth values; elements where they are False are left out.
    """
    x = inexact(a)
    if b is not None:
        x, factors = meet("logsumexp", x, b)
    axes = axes_of("logsumexp", axis, x.ndim)
    x = masked(x, where, -np.inf)
    if not count(x.shape, axes):
        out = full(tuple(1 if d in axes else n for d, n in enumerate(x.shape) if d not in axes or keepdims), -np.inf, x.dtype)
        return (out, full_like(out, 0)) if return_sign else out
    counts = None if b is None else lg.compare(factors, full_like(factors, 0), comparison_direction="NE")
    largest = finite_max(masked(x, counts, -np.inf), axes)
    terms = ew.exponential(x - spread(largest, x.shape, axes))
    total = fold(widened(terms if b is None else product(factors, terms)), axes, "add")
    sign = total / convert(ew.absolute(total), total.dtype) if is_complex(x.dtype) and return_sign else ew.sign(total)
    out = convert(ew.log(ew.absolute(total) if return_sign else total), x.dtype) + largest
    sign = convert(sign, x.dtype)
    if keepdims:
        out, sign = keep(out, x.shape, axes), keep(sign, x.shape, axes)
    return (out, sign) if return_sign else out


@library
def logmeanexp(x: ArrayLike, axis: Static[Axis] = None, where: ArrayLike | None = None, keepdims: bool = False) -> Tensor:
    """log(mean(exp(x))) over `axis` without overflow."""
    x = inexact(x)
    axes = axes_of("logmeanexp", axis, x.ndim)
    mask = None if where is None else broadcast_to(convert(tensor(where), bool), x.shape)
    n: Any = count(x.shape, axes) if mask is None else fold(convert(mask, real_kind(x.dtype)), axes, "add", keepdims)
    return logsumexp(x, axis, keepdims=keepdims, where=where) - (math.log(n) if mask is None else ew.log(n))


def finite_max(x: Tensor, axes: Shape) -> Tensor:
    """The largest element (or real part) as a constant of differentiation; 0 where it is infinite."""
    largest = constant_max(x, axes)
    return lg.select(lg.is_finite(largest), largest, full_like(largest, 0))


def constant_max(x: Tensor, axes: Shape) -> Tensor:
    """The largest element (or real part) as a constant of differentiation."""
    return fold(stop_gradient(ew.real(x) if is_complex(x.dtype) else x), axes, "max")
