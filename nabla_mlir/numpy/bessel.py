"""Modified Bessel functions of the first kind of order 0 and 1.

For x <= 8 the result is the power series, whose terms are all positive, times exp(-x). For x > 8 it is a Chebyshev series of
sqrt(x) exp(-x) I(x) in 16 / x - 1; its coefficients were computed from the functions with 40 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy.operands import convert, inexacts
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.gamma import lgamma
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full, full_like
from nabla_mlir.transforms.control import fori_loop, while_loop
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.scans import scan

_I0_HIGH = (
    0.8044904110141088,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
)
_I1_HIGH = (
    0.7785762350182801,
    -0.009761097491361469,
    -0.00011058893876262371,
    -3.882564808877691e-06,
    -2.512236237870209e-07,
    -2.6314688468895196e-08,
    -3.835380385964237e-09,
    -5.589743462196584e-10,
    -1.8974958123505413e-11,
    3.2526035830154884e-11,
    1.4125807436613782e-11,
    2.0356285441470896e-12,
    -7.198551776245908e-13,
    -4.0835511110921974e-13,
    -2.1015418427726643e-14,
    4.272440016711951e-14,
    1.0420276984128802e-14,
    -3.8144030724370075e-15,
    -1.8803547755107825e-15,
    3.3082023109209285e-16,
    2.96262899764595e-16,
    -3.209525921993424e-17,
    -4.6503053684893586e-17,
)


def _series(coefficients: Sequence[float], y: Tensor) -> Tensor:
    """The Chebyshev series with these coefficients at y in [-1, 1], by the Clenshaw recurrence; half of the first coefficient is
    used.

    The recurrence is a loop, so that the code of second derivatives stays small.
    """

    def step(carry: tuple[Tensor, Tensor], c: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        """One step of the Clenshaw recurrence with the coefficient c: the new term, and the term before it."""
        high, low = carry
        return (y * 2.0 * high - low + c, high), None

    zero = full_like(y, 0)
    (high, low), _ = scan(step, (zero, zero), np.array(coefficients[:0:-1], y.dtype))
    return y * high - low + coefficients[0] / 2


def _power_series(order: int, x: Tensor) -> Tensor:
    """exp(-x) I(x) / x^order at x in [0, 8]; the first omitted term is below 1/500 of a unit in the last place."""
    terms = range(16 if x.dtype.itemsize == 4 else 24)
    coefficients = [0.5**order / (math.factorial(k) * math.factorial(k + order)) for k in terms]
    half = x * 0.5
    square = half * half

    def step(total: Tensor, c: Tensor) -> tuple[Tensor, None]:
        """One step of Horner's method with the coefficient c."""
        return total * square + c, None

    total, _ = scan(step, full_like(x, 0), np.array(coefficients[::-1], x.dtype))
    return total * ew.exponential(-x)


def _beyond(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """exp(-x) I(x) at x >= 8, from the Chebyshev coefficients for this range."""
    return _series(coefficients, 16.0 / x - 1.0) * ew.rsqrt(x)


def _pieces(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mask abs(x) <= 8, and the arguments of the two series: abs(x), or 8 outside the range of the series."""
    size, eight = ew.absolute(x), full_like(x, 8)
    is_near = lg.compare(size, eight, comparison_direction="LE")
    return is_near, lg.select(is_near, size, eight), lg.select(is_near, eight, size)


@custom_jvp
def _kink(x: Tensor) -> Tensor:
    """The sign of x; its derivative at 0 is NaN, because the derivative of exp(-abs(x)) jumps at 0."""
    return ew.sign(x)


@_kink.defjvp
def _kink_jvp(primals: Any, tangents: Any) -> Any:
    """The value of `_kink` and its tangent, which is 0, or NaN at zero.

    This formula is exact; the terms of the derivative of x / abs(x) are 1 / abs(x), and other terms are lost beside them.
    """
    (x,), (t,) = primals, tangents
    at_zero = lg.compare(x, full_like(x, 0), comparison_direction="EQ")
    return _kink(x), t * lg.select(at_zero, full_like(x, np.nan), full_like(x, 0))


# ---------------------------------------------------------------- with the factor exp(-abs(x))
def _split(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mask abs(x) <= 8; x near 0, or 8; and abs(x) far from 0, or 8.

    Far from 0, derivatives are those of the Chebyshev series: the terms of their formulas cancel, such as I1 - I0.
    """
    is_near, _, far = _pieces(x)
    return is_near, lg.select(is_near, x, full_like(x, 8)), far


def _i0e(x: Tensor) -> Tensor:
    """exp(-abs(x)) I0(x), from the power series near 0 and the Chebyshev series elsewhere."""
    is_near, near, far = _split(x)
    return lg.select(is_near, _near_i0e(near), _beyond(_I0_HIGH, far))


def _i1e(x: Tensor) -> Tensor:
    """exp(-abs(x)) I1(x), from the power series near 0 and the Chebyshev series elsewhere."""
    is_near, near, far = _split(x)
    return lg.select(is_near, _near_i1e(near), _beyond(_I1_HIGH, far) * ew.sign(x))


@custom_jvp
def _near_i0e(x: Tensor) -> Tensor:
    """exp(-abs(x)) I0(x) at abs(x) <= 8."""
    return _power_series(0, ew.absolute(x))


@_near_i0e.defjvp
def _near_i0e_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of exp(-|x|) I0(x) for small x; the derivative of I0 is I1."""
    (x,), (t,) = primals, tangents
    y = _near_i0e(x)
    return y, t * (_near_i1e(x) - _kink(x) * y)


@custom_jvp
def _near_i1e_over_x(x: Tensor) -> Tensor:
    """exp(-abs(x)) I1(x) / x at abs(x) <= 8."""
    return _power_series(1, ew.absolute(x))


@_near_i1e_over_x.defjvp
def _near_i1e_over_x_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of exp(-|x|) I1(x) / x for small x; the derivative of I1(x) / x is I2(x) / x."""
    (x,), (t,) = primals, tangents
    y = _near_i1e_over_x(x)
    second = ew.exponential(-ew.absolute(x)) * x * _reduced(full((), 2, x.dtype), x)  # exp(-abs(x)) I2(x) / x
    return y, t * (second - _kink(x) * y)


@custom_jvp
def _near_i1e(x: Tensor) -> Tensor:
    """exp(-abs(x)) I1(x) at abs(x) <= 8."""
    return _power_series(1, ew.absolute(x)) * x


@_near_i1e.defjvp
def _near_i1e_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of exp(-|x|) I1(x) for small x; the derivative of I1(x) is I0(x) - I1(x) / x."""
    (x,), (t,) = primals, tangents
    y = _near_i1e(x)
    return y, t * (_near_i0e(x) - _near_i1e_over_x(x) - _kink(x) * y)


# ---------------------------------------------------------------- without a factor that has a kink
@custom_jvp
def _reduced(order: Tensor, x: Tensor) -> Tensor:
    """I(x) / x^order for an integer order. It is an even function, and its derivative is x times that of the next order."""
    is_near, near, far = _pieces(x)
    square = near * near * 0.25
    first = full_like(x, 0) + ew.exponential(order * -math.log(2.0) - lgamma(order + 1.0))

    def add(k: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The next term of the series, and the sum with it; `state` is the last term and the sum."""
        n = convert(k, x.dtype) + 1.0
        term = state[0] * square / (n * (order + n))
        return term, state[1] + term

    _, series = fori_loop(0, 24 if x.dtype.itemsize == 4 else 36, add, (first, first))

    def up(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """One step of the upward recurrence I_(n+1) = I_(n-1) - 2 n I_n / x, for I_n / x^n; `state` is (k, order k, order k +
        1).
        """
        k, low, high = state
        return k + 1.0, high, (low - high * ((k + 1.0) * 2.0)) / (far * far)

    start = (full((), 0, x.dtype), _beyond(_I0_HIGH, far), _beyond(_I1_HIGH, far) / far)
    _, value, _ = while_loop(lambda state: state[0] < order, up, start)
    half = ew.exponential(far * 0.5)  # exp(x) can overflow where the value does not
    return lg.select(is_near, series, value * half * half)


@_reduced.defjvp
def _reduced_jvp(primals: Any, tangents: Any) -> Any:
    """The derivative in the direction of x; the order is constant."""
    order, x = primals
    return _reduced(order, x), tangents[1] * (x * _reduced(order + 1.0, x))


@custom_jvp
def _i0(x: Tensor) -> Tensor:
    """I0(x), with derivatives that are not differences of large terms."""
    return _i0e(x) * ew.exponential(ew.absolute(x))


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> Any:
    """The derivative of I0 is I1."""
    (x,), (t,) = primals, tangents
    return _i0(x), t * _i1(x)


@custom_jvp
def _i1(x: Tensor) -> Tensor:
    """I1(x), with derivatives that are not differences of large terms."""
    return _i1e(x) * ew.exponential(ew.absolute(x))


@_i1.defjvp
def _i1_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of I1, whose derivative is I1(x) / x + I2(x).

    `_reduced(n, x)` is In(x) / x**n, which is finite at 0.
    """
    (x,), (t,) = primals, tangents
    one = full((), 1, x.dtype)
    return _i1(x), t * (_reduced(one, x) + x * x * _reduced(one * 2.0, x))


def log_i0e(x: Tensor) -> Tensor:
    """log(I0(x)) - x for x >= 0, with derivatives at 0."""
    is_near, _, _ = _pieces(x)
    near, far = lg.select(is_near, x, full_like(x, 0)), lg.select(is_near, full_like(x, 8), x)
    return lg.select(is_near, ew.log(_i0(near)) - near, ew.log(_i0e(far)))


def of_real(name: str, f: Callable[..., Any], *xs: Any) -> Any:
    """The results of `f`, a function of real numbers, for `xs` in one dtype; 16-bit dtypes are computed in f32.

    `name` is the name of the function, for errors.
    """
    xs = tuple(inexacts(name, *xs))
    dtype = xs[0].dtype
    if is_complex(dtype):
        raise DtypeError(f"{name} requires real numbers, got {dtype}.", where=user_frame())
    if dtype.itemsize >= 4:
        return f(*xs)
    leaves, spec = pytree.flatten(f(*(convert(x, np.float32) for x in xs)))
    return pytree.unflatten(spec, [convert(y, dtype) for y in leaves])


@library
def i0e(x: ArrayLike) -> Tensor:
    """exp(-abs(x)) I0(x)."""
    return of_real("i0e", _i0e, x)


@library
def i1e(x: ArrayLike) -> Tensor:
    """exp(-abs(x)) I1(x)."""
    return of_real("i1e", _i1e, x)


@library
def i0(x: ArrayLike) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Example:
      >>> round(float(i0(1.0)), 5)
      1.26607
    """
    return of_real("i0", _i0, x)


@library
def i1(x: ArrayLike) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return of_real("i1", _i1, x)
