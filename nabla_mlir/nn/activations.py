"""Activations, elementwise and over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import Axis, axes_of, axis_of
from nabla_mlir.numpy.operands import convert, inexact, require_real, tensor
from nabla_mlir.numpy.reductions import constant_max, count, fold, spread, widened
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.guards import hypot
from nabla_mlir.ops.shape import sliced
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor, full, full_like
from nabla_mlir.transforms.custom import custom_jvp


def not_above(x: Tensor, bound: Any) -> Tensor:
    """True where x <= bound, and False where x is NaN; `bound` is a number or an array that broadcasts."""
    return x <= bound


@library
def relu(x: ArrayLike) -> Tensor:
    """max(x, 0), with derivative 0 at 0.

    Example:
      >>> import numpy as np
      >>> relu(np.array([-1.0, 2.0])).tolist()
      [0.0, 2.0]
    """
    x = require_real("relu", tensor(x))
    # Not maximum, whose ties share the derivative. NaN is not <= 0 and stays.
    return lg.select(not_above(x, 0), full_like(x, 0), x)


@library
def relu6(x: ArrayLike) -> Tensor:
    """min(max(x, 0), 6), with derivative 0 at both bends."""
    return _clamped(inexact(x), 0.0, 6.0)


def _clamped(x: Tensor, low: float, high: float) -> Tensor:
    """`x` limited to [low, high]."""
    return lg.clamp(full((), low, x.dtype), x, full((), high, x.dtype))


@library
def hard_tanh(x: ArrayLike) -> Tensor:
    """min(max(x, -1), 1)."""
    return _clamped(inexact(x), -1.0, 1.0)


@library
def hard_sigmoid(x: ArrayLike) -> Tensor:
    """relu6(x + 3) / 6."""
    return _clamped(inexact(x) + 3.0, 0.0, 6.0) * (1 / 6)


@library
def hard_silu(x: ArrayLike) -> Tensor:
    """x * hard_sigmoid(x)."""
    x = inexact(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@library
def sigmoid(x: ArrayLike) -> Tensor:
    """1 / (1 + exp(-x))."""
    return ew.logistic(inexact(x))


@library
def tanh(x: ArrayLike) -> Tensor:
    """The hyperbolic tangent."""
    return ew.tanh(inexact(x))


@library
def silu(x: ArrayLike) -> Tensor:
    """x * sigmoid(x)."""
    x = inexact(x)
    return x * ew.logistic(x)


swish = silu


@library
def softplus(x: ArrayLike) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return softplus_of(inexact(x))


def softplus_of(x: Tensor) -> Tensor:
    """The softplus log(1 + exp(x)) of a floating-point tensor."""
    # Branches of the same smooth function, so that derivatives of every order are right at 0 too.
    zero = full_like(x, 0)
    positive = lg.compare(x, zero, comparison_direction="GT")
    return lg.select(positive, x, zero) + ew.log_plus_one(ew.exponential(lg.select(positive, -x, x)))


@library
def log_sigmoid(x: ArrayLike) -> Tensor:
    """log(sigmoid(x)), without underflow."""
    return -softplus_of(-inexact(x))


@library
def gelu(x: ArrayLike, approximate: bool = True) -> Tensor:
    """x times the normal distribution function of x, exactly or by the usual approximation with tanh."""
    x = inexact(x)
    if approximate and x.dtype == np.float16:  # the cube of 41 overflows
        return convert(gelu(convert(x, np.float32)), x.dtype)
    if approximate:
        low = _clamped(x, -30.0, 30.0)  # tanh is -1 or 1 beyond, and the slope of the cube would overflow
        inner = (low + low * ew.square(low) * 0.044715) * math.sqrt(2 / math.pi)
        return x * ((ew.tanh(inner) + 1.0) * 0.5)
    return x * (ew.erfc(x * -math.sqrt(0.5)) * 0.5)


def _negative_part(x: Tensor) -> tuple[Tensor, Tensor]:
    """True where x <= 0; and x there, but 0 elsewhere, so that its exponential cannot overflow."""
    negative = not_above(x, 0)
    return negative, lg.select(negative, x, full_like(x, 0))


@library
def elu(x: ArrayLike, alpha: float = 1.0) -> Tensor:
    """x for x > 0, else alpha * (exp(x) - 1)."""
    x = inexact(x)
    negative, low = _negative_part(x)
    low = ew.exponential_minus_one(low) * alpha
    return lg.select(negative, low, convert(x, low.dtype))


@library
def celu(x: ArrayLike, alpha: float = 1.0) -> Tensor:
    """x for x > 0, else alpha * (exp(x / alpha) - 1)."""
    x = inexact(x)
    negative, low = _negative_part(x)
    low = ew.exponential_minus_one(low / alpha) * alpha
    return lg.select(negative, low, convert(x, low.dtype))


@library
def selu(x: ArrayLike) -> Tensor:
    """Elu, scaled so that mean 0 and variance 1 are preserved."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


@library
def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Tensor:
    """x for x > 0, else negative_slope * x."""
    x = inexact(x)
    low = x * negative_slope
    return lg.select(lg.compare(x, full_like(x, 0), comparison_direction="GE"), convert(x, low.dtype), low)


@library
def glu(x: ArrayLike, axis: Static[int] = -1) -> Tensor:
    """The first half of `x` along `axis` times the sigmoid of the second.

    Raises:
      ShapeError: the axis has an odd length.
    """
    x = inexact(x)
    axis = axis_of("glu", axis, x.ndim)
    n = x.shape[axis]
    if n % 2:
        raise ShapeError(f"glu requires an even length along axis {axis}, got shape {x.shape}.", where=user_frame())
    return sliced(x, axis, 0, n // 2) * ew.logistic(sliced(x, axis, n // 2, n))


@library
def identity(x: ArrayLike) -> Tensor:
    """x."""
    return tensor(x)


@library
def soft_sign(x: ArrayLike) -> Tensor:
    """x / (1 + abs(x))."""
    return _soft_sign(inexact(x))


@custom_jvp
def _soft_sign(x: Tensor) -> Tensor:
    """x / (1 + abs(x)) of a floating-point tensor."""
    return x / (ew.absolute(x) + 1.0)


@_soft_sign.defjvp
def _soft_sign_jvp(primals: Any, tangents: Any) -> Any:
    """The value x / (|x| + 1) and its tangent t / (|x| + 1)**2.

    The slope is a square, because the difference of the terms of a quotient would cancel for large x.
    """
    (x,), (t,) = primals, tangents
    root = 1.0 / (ew.absolute(x) + 1.0)
    return x * root, t * root * root


@library
def mish(x: ArrayLike) -> Tensor:
    """x tanh(softplus(x))."""
    x = inexact(x)
    return x * ew.tanh(softplus_of(x))


@library
def squareplus(x: ArrayLike, b: float = 4.0) -> Tensor:
    """(x + sqrt(x**2 + b)) / 2."""
    x = inexact(x)
    zero = full_like(x, 0)
    positive = lg.compare(x, zero, comparison_direction="GE")
    # relu(x) and a small rest: the sum of the formula would cancel for negative x, and its second derivative for large x.
    rest = 0.5 * b / (lg.select(positive, x, -x) + hypot(x, ew.sqrt(zero + b)))
    return lg.select(positive, x, zero) + rest


@library
def sparse_plus(x: ArrayLike) -> Tensor:
    """0 up to -1, x from 1 on, and (x + 1)**2 / 4 between."""
    x = inexact(x)
    between = ew.square(x + 1.0) * 0.25
    return lg.select(not_above(x, -1.0), full_like(x, 0), lg.select(not_above(-x, -1.0), x, between))


@library
def sparse_sigmoid(x: ArrayLike) -> Tensor:
    """0 up to -1, 1 from 1 on, and (x + 1) / 2 between: the derivative of `sparse_plus`."""
    x = inexact(x)
    return lg.clamp(full((), 0, x.dtype), (x + 1.0) * 0.5, full((), 1, x.dtype))


@library
def log1mexp(x: ArrayLike) -> Tensor:
    """log(1 - exp(-x)) for positive x, accurate near 0 and far from it."""
    x = inexact(x)
    is_small = not_above(x, math.log(2))
    one = full_like(x, 1)
    near, far = lg.select(is_small, x, one), lg.select(is_small, one, x)
    return lg.select(is_small, ew.log(-ew.exponential_minus_one(-near)), ew.log_plus_one(-ew.exponential(-far)))


# ---------------------------------------------------------------- over axes
def shifted_by_largest(name: str, x: ArrayLike, axis: Axis) -> tuple[Tensor, tuple[int, ...]]:
    """`x` less its largest element along `axis`, and the axes; that element is a constant of differentiation, as results do not
    depend on it.

    `name` is the name of the function, for errors.
    """
    x = require_real(name, inexact(x))
    axes = axes_of(name, axis, x.ndim)
    if not count(x.shape, axes):
        return x, axes
    largest = constant_max(x, axes)
    is_lowest = lg.compare(largest, full_like(largest, -math.inf), comparison_direction="EQ")
    largest = lg.select(is_lowest, full_like(largest, 0), largest)
    return x - spread(largest, x.shape, axes), axes


@library
def softmax(x: ArrayLike, axis: Static[Axis] = -1, where: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) over `axis`, without overflow; elements where `where` is False are 0 and left out of the sum."""
    mask = _mask(x, where)
    low, axes = shifted_by_largest("softmax", _value_unless(mask, x, -math.inf), axis)
    powers = widened(ew.exponential(_value_unless(mask, low, -math.inf)))
    total = _unless_empty(mask, axes, fold(powers, axes, "add"))
    return convert(powers / spread(total, powers.shape, axes), low.dtype)


def _unless_empty(mask: Tensor | None, axes: tuple[int, ...], total: Tensor) -> Tensor:
    """Replaces the sum by 1 where the mask excludes all elements, such as those of a masked row of attention."""
    return total if mask is None else lg.select(fold(mask, axes, "or"), total, full_like(total, 1))


def _mask(x: Any, where: Any) -> Tensor | None:
    """The argument `where` as truth values of the shape of `x`, or None."""
    return None if where is None else broadcast_to(convert(tensor(where), bool), tensor(x).shape)


def _value_unless(mask: Tensor | None, x: Any, value: float) -> Any:
    """`x` in floating point, where the mask is true, and `value` elsewhere; without a mask, all of `x`."""
    x = inexact(x)
    return x if mask is None else lg.select(mask, x, full_like(x, value))


@library
def log_softmax(x: ArrayLike, axis: Static[Axis] = -1, where: Any = None) -> Tensor:
    """x - logsumexp(x) over `axis`, without overflow; elements where `where` is False are -inf and left out of the sum."""
    mask = _mask(x, where)
    low, axes = shifted_by_largest("log_softmax", _value_unless(mask, x, -math.inf), axis)
    total = ew.log(_unless_empty(mask, axes, fold(widened(ew.exponential(low)), axes, "add")))
    return low - spread(convert(total, low.dtype), low.shape, axes)
