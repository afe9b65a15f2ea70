"""Reductions and running sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype, is_complex, is_differentiable, is_narrow
from nabla_mlir.numpy.axes import Axis, Shape, axes_of
from nabla_mlir.numpy.logic import isclose
from nabla_mlir.numpy.operands import convert, inexact, inexact_dtype, meet, strong, tensor
from nabla_mlir.numpy.special_values import root
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.guards import product
from nabla_mlir.ops.reduction import identity_of, reduce
from nabla_mlir.ops.shape import reshaped, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_to
from nabla_mlir.table.tensor import Tensor, full, full_like


# ---------------------------------------------------------------- helpers
def fold(x: Tensor, axes: Shape, combiner: str, keepdims: bool = False) -> Tensor:
    """Combines the elements along `axes`; returns `x` if `axes` is empty."""
    if not axes:
        return strong(x)
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
    return x if where is None else lg.select(mask_of(where, x.shape), x, full_like(x, neutral))


def mask_of(where: Any, shape: Shape) -> Tensor:
    """The argument `where` of a reduction of elements of a shape. Raises DtypeError if it is not boolean."""
    mask = tensor(where)
    if mask.dtype.kind != "b":
        raise DtypeError(f"a reduction requires truth values as `where`, got {mask.dtype}.", where=user_frame())
    return broadcast_to(mask, shape)


def check_initial(name: str, initial: Any) -> None:
    """Raises ShapeError if the initial value of a reduction is not a scalar."""
    if initial is not None and np.ndim(initial):
        raise ShapeError(f"{name} requires a scalar as `initial`, got shape {np.shape(initial)}.", where=user_frame())


# ---------------------------------------------------------------- sums and products
@library
def sum(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Tensor:
    """The sum over `axis` (an int, several, or None for all).

    Args:
      a: an array.
      axis: the axes that are summed; negative ones count from the end.
      dtype: the dtype of the sum; by default, narrow integers are summed in the default integer dtype.
      keepdims: True leaves the reduced axes with size 1.
      initial: a number added to the sum.
      where: truth values; elements where they are False are left out.
      promote_integers: False sums narrow integers in their own dtype.

    Raises:
      ShapeError: `initial` is not a scalar; DtypeError: `where` is not boolean.

    Example:
      >>> import numpy as np
      >>> sum(np.ones((2, 3), np.float32), axis=1).tolist()
      [3.0, 3.0]
    """
    check_initial("sum", initial)
    x = masked(_in_sum_dtype(a, dtype, promote_integers), where, 0)
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
    promote_integers: bool = True,
) -> Tensor:
    """The product over `axis`; arguments as for `sum`."""
    check_initial("prod", initial)
    x = masked(_in_sum_dtype(a, dtype, promote_integers), where, 1)
    out = fold(x, axes_of("prod", axis, x.ndim), "mul", keepdims)
    return out if initial is None else out * initial


def _in_sum_dtype(a: ArrayLike, dtype: DTypeLike | None, promote_integers: bool) -> Tensor:
    """The operand `a` of a sum or product in `dtype`; None means NumPy's dtype of sums, or its own without `promote_integers`."""
    x = tensor(a)
    default = sum_dtype(x.dtype) if promote_integers or x.dtype.kind == "b" else x.dtype
    return convert(x, default if dtype is None else dtype)


@library
def mean(
    a: ArrayLike, axis: Static[Axis] = None, dtype: DTypeLike | None = None, keepdims: bool = False, where: ArrayLike | None = None
) -> Tensor:
    """The mean over `axis`; integers give the default float dtype, and narrow floats are summed in float32."""
    x = tensor(a)
    x = convert(x, inexact_dtype(x.dtype) if dtype is None else dtype)
    return convert(wide_mean(x, axes_of("mean", axis, x.ndim), keepdims, where), x.dtype)


def wide_mean(x: Tensor, axes: Shape, keepdims: bool = False, where: ArrayLike | None = None) -> Tensor:
    """The mean of `x` over `axes` in the dtype of its sum, which is float32 for narrower floats; `where` is a mask, or None."""
    x = widened(x)
    total = fold(masked(x, where, 0), axes, "add", keepdims)
    if where is None:
        return total / count(x.shape, axes)
    return total / fold(convert(mask_of(where, x.shape), x.dtype), axes, "add", keepdims)


@library
def average(
    a: ArrayLike, axis: Static[Axis] = None, weights: ArrayLike | None = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The mean weighted by `weights`, an array of the shape of `a`, or of the lengths of the axes in the order of `axis`.

    `returned` gives a pair of the mean and the sum of the weights.

    Example:
      >>> import numpy as np
      >>> average(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0, weights=np.array([3.0, 1.0])).tolist()
      [1.5, 2.5]
    """
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        x = tensor(a)
        return (out, full_like(out, count(x.shape, axes_of("average", axis, x.ndim)))) if returned else out
    x, weights = inexact(a), inexact(weights)
    axes = axes_of("average", axis, x.ndim)
    if weights.shape != x.shape:
        if axis is None or weights.shape != tuple(x.shape[d] for d in axes):
            raise ShapeError(
                f"average requires weights of shape {x.shape} or of the lengths of the axes, got {weights.shape}.",
                where=user_frame(),
            )
        weights = transposed(weights, tuple(int(d) for d in np.argsort(axes)))
        weights = sh.broadcast_in_dim(weights, shape=x.shape, broadcast_dimensions=tuple(sorted(axes)))
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
    mean: ArrayLike | None = None,
    correction: Static[float | None] = None,
) -> Tensor:
    """The variance over `axis`: the mean of ``abs(a - mean(a))**2``, with n - ddof instead of n (or n - `correction`).

    Args:
      a: an array.
      axis: the axes that are reduced.
      dtype: the dtype of the computation.
      ddof: the number that is subtracted from the number of elements; the variance of no more elements than that is NaN.
      keepdims: True leaves the reduced axes with size 1.
      where: truth values; elements where they are False are left out.
      mean: the mean if it is known, with axes that broadcast to those of `a`.
      correction: the same as `ddof`, under the name of the array API standard.

    Raises:
      DtypeError: `dtype` is real and `a` is complex, or `where` is not boolean.
      ShapeError: both `ddof` and `correction` are given.
    """
    return _deviation("var", a, axis, dtype, _correction("var", ddof, correction), keepdims, where, mean)


def _correction(name: str, ddof: float, correction: float | None) -> float:
    """The number that the divisor of a variance subtracts from n, under either of its names."""
    if correction is not None and ddof:
        raise ShapeError(f"{name} requires either ddof or correction, got {ddof} and {correction}.", where=user_frame())
    return ddof if correction is None else correction


def _deviation(name: str, a: Any, axis: Any, dtype: Any, less: float, keepdims: bool, where: Any, mean: Any) -> Tensor:
    """The variance, or its root for "std", in the dtype of the result.

    Args:
      name: the called function: "var" or "std".
      a, axis, dtype, keepdims, where, mean: the arguments of the user.
      less: the number by which the divisor is less than n.
    """
    x = inexact(a) if dtype is None else tensor(a)
    if dtype is not None:
        if is_complex(x.dtype) and not is_complex(as_dtype(dtype)):
            raise DtypeError(f"{name} requires a complex dtype for complex numbers, got {dtype}.", where=user_frame())
        x = convert(x, dtype)
    out = _wide_variance(x, axes_of(name, axis, x.ndim), less, keepdims, where, mean)
    return convert(root(out) if name == "std" else out, real_kind(x.dtype))


def _wide_variance(x: Tensor, axes: Shape, less: float, keepdims: bool, where: Any, mean: Any = None) -> Tensor:
    """The variance of `x` over `axes` in the dtype of its sums: the sum of squares divided by n - less.

    It is NaN if this divisor is not positive. `where` is a mask, or None, and `mean` is a known mean, or None.
    """
    x = widened(x)
    mask = None if where is None else mask_of(where, x.shape)
    n: Any = count(x.shape, axes) if mask is None else fold(convert(mask, real_kind(x.dtype)), axes, "add")
    if mean is None:
        centre = x - spread(fold(masked(x, mask, 0), axes, "add") / n, x.shape, axes)
    else:
        centre = x - broadcast_to(convert(tensor(mean), x.dtype), x.shape)
    square = ew.square(centre) if not is_complex(x.dtype) else ew.real(centre * ew.conj(centre))
    total = fold(masked(square, mask, 0), axes, "add", keepdims)
    if mask is None:
        return total / (n - less if n > less else math.nan)
    rest = (keep(n, x.shape, axes) if keepdims else n) - less
    return total / lg.select(lg.compare(rest, full_like(rest, 0), comparison_direction="GT"), rest, full_like(rest, math.nan))


def real_kind(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype; a real dtype is returned unchanged."""
    return np.zeros((), dtype).real.dtype if is_complex(dtype) else dtype


@library
def std(
    a: ArrayLike,
    axis: Static[Axis] = None,
    dtype: DTypeLike | None = None,
    ddof: Static[float] = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    *,
    mean: ArrayLike | None = None,
    correction: Static[float | None] = None,
) -> Tensor:
    """The standard deviation over `axis`: the root of the variance; its derivative is 0 if all elements are equal."""
    return _deviation("std", a, axis, dtype, _correction("std", ddof, correction), keepdims, where, mean)


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
    kind = real_kind(x.dtype) if return_sign else x.dtype  # the logarithm of an absolute value is real
    out = convert(ew.log(ew.absolute(total) if return_sign else total), kind) + convert(largest, kind)
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
