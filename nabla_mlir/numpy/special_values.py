"""Elementwise functions that depend on NaN, infinities and the sign of zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex, is_float
from nabla_mlir.numpy.operands import convert, inexact, inexacts, require_real, tensor
from nabla_mlir.ops import chlo, guards
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import library
from nabla_mlir.table.promotion import broadcast_to, is_inexact
from nabla_mlir.table.tensor import Tensor, full, full_like
from nabla_mlir.transforms.custom import custom_jvp


def described(name: str, doc: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: sets the name and documentation of a function that is made from a record."""

    def apply(f: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself, with the name and the documentation."""
        f.__name__ = f.__qualname__ = name
        f.__doc__ = doc
        return f

    return apply


def is_nan(x: Tensor) -> Tensor:
    """True where x is NaN."""
    return lg.compare(x, x, comparison_direction="NE")


def is_infinite(x: Tensor) -> Tensor:
    """True where x is infinite."""
    return lg.compare(ew.absolute(x), full_like(x, np.inf), comparison_direction="EQ")


def nan_where(y: Tensor, x: Tensor) -> Tensor:
    """x, but NaN where y is NaN. Its derivative is that of x; a factor of the result has the derivative NaN there."""
    return x + lg.select(is_nan(y), full_like(x, np.nan), full_like(x, 0))


def nan_at_infinity(x: Tensor) -> Tensor:
    """x, and NaN where x has overflowed. Its derivative is that of x."""
    return x + stop_gradient(x - x)


def times_log(x: Tensor, y: Tensor) -> Tensor:
    """x * log(y), and 0 where x is 0, even if y is NaN; for sums in which another term is NaN in that case."""
    return guards.product(x, ew.log(y))


def times_log1p(x: Tensor, y: Tensor) -> Tensor:
    """x * log(1 + y), and 0 where x is 0, as `times_log`."""
    return guards.product(x, ew.log_plus_one(y))


def root(x: Tensor, p: float = 2) -> Tensor:
    """The p-th root; its derivative at 0 is defined as 0."""
    return guards.root(x, degree=float(p))


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of ``coefficients[k] * x**k`` by the Horner rule; derivatives are those of the truncated series."""
    total = full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


_SINE_OVER = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8))


def sine_over(w: Tensor) -> Tensor:
    """sin(w) / w for abs(w) <= 1/2, by a series in w * w, which has derivatives at 0."""
    return polynomial(w * w, _SINE_OVER)


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    """The real and the imaginary part; a real number is its only part."""
    return (ew.real(x), ew.imag(x)) if is_complex(x.dtype) else (x,)


def _special(name: str, test: Any, combine: Any, otherwise: bool, doc: str) -> Callable[..., Any]:
    """A function such as isnan. `test` is for real numbers, `combine` joins both parts, integers give `otherwise`."""

    @described(name, doc)
    def f(x: Any) -> Tensor:
        """A mask of the elements for which the test holds; for complex numbers, the results for both parts are combined."""
        x = tensor(x)
        if not is_inexact(x.dtype):
            return full(x.shape, otherwise, np.dtype(bool))
        first, *rest = (test(part) for part in _parts(x))
        return combine(first, rest[0]) if rest else first

    return library(f)


isnan: Callable[..., Any] = _special("isnan", is_nan, lg.logical_or, False, "True where x is NaN.")
isfinite: Callable[..., Any] = _special("isfinite", lg.is_finite, lg.logical_and, True, "True where x is neither infinite nor NaN.")
isinf: Callable[..., Any] = _special("isinf", is_infinite, lg.logical_or, False, "True where x is infinite.")


@library
def isposinf(x: ArrayLike) -> Tensor:
    """True where x is +inf."""
    x = require_real("isposinf", inexact(x))
    return lg.compare(x, full_like(x, np.inf), comparison_direction="EQ")


@library
def isneginf(x: ArrayLike) -> Tensor:
    """True where x is -inf."""
    x = require_real("isneginf", inexact(x))
    return lg.compare(x, full_like(x, -np.inf), comparison_direction="EQ")


@library
def signbit(x: Any) -> Tensor:
    """True where x is negative, including -0.0."""
    x = require_real("signbit", tensor(x))
    if x.dtype.kind in "ub":
        return full(x.shape, False, np.dtype(bool))
    if is_float(x.dtype):  # the sign bit, which NaN has too
        x = ew.bitcast_convert(x, shape=x.shape, dtype=np.dtype(f"i{x.dtype.itemsize}"))
    return lg.compare(x, full_like(x, 0), comparison_direction="LT")


@library
def copysign(x: ArrayLike, y: ArrayLike) -> Tensor:
    """The magnitude of x with the sign of y."""
    x, y = inexacts("copysign", x, y)
    magnitude = ew.absolute(require_real("copysign", x))
    return lg.select(signbit(y), -magnitude, magnitude)


@library
def nextafter(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """The next floating-point number after x1 in the direction of x2; its derivative is that of x1.

    Example:
      >>> float(nextafter(np.float64(1.0), np.float64(2.0))) - 1.0 == 2.0**-52
      True
    """
    x, y = inexacts("nextafter", x1, x2)
    return chlo.next_after(require_real("nextafter", x), y)


@custom_jvp
def complex_expm1(z: Tensor) -> Tensor:
    """exp(z) - 1 of complex numbers, with the values of the array API standard at infinities and NaN parts."""
    value, re, im = ew.exponential_minus_one(z), ew.real(z), ew.imag(z)
    infinity, zero, minus_one = (full_like(re, v) for v in (np.inf, 0, -1))
    is_low, is_high = (lg.compare(re, v, comparison_direction="EQ") for v in (-infinity, infinity))
    has_no_angle = lg.logical_not(lg.is_finite(im))  # its cosine and sine are NaN
    is_real = lg.compare(im, zero, comparison_direction="EQ")
    is_zero = lg.logical_and(is_real, lg.compare(re, zero, comparison_direction="EQ"))  # 0.0 or -0.0
    real_part = lg.select(is_real, lg.select(is_zero, zero, ew.exponential_minus_one(re)), ew.real(value))
    real_part = lg.select(has_no_angle, lg.select(is_low, minus_one, lg.select(is_high, infinity, real_part)), real_part)
    imaginary_part = lg.select(has_no_angle, lg.select(is_low, zero, full_like(re, np.nan)), ew.imag(value))
    return ew.make_complex(real_part, lg.select(is_real, im, imaginary_part))


@complex_expm1.defjvp
def _complex_expm1_jvp(primals: Any, tangents: Any) -> Any:
    """The derivative is exp(z)."""
    (z,), (t,) = primals, tangents
    return complex_expm1(z), t * ew.exponential(z)


def complex_tanh(z: Tensor) -> Tensor:
    """The hyperbolic tangent of complex numbers; at an infinite real part it is the sign of the real part plus a signed 0j."""
    value, re, im = ew.tanh(z), ew.real(z), ew.imag(z)
    zero = full_like(im, 0)
    limit = ew.make_complex(ew.sign(re), lg.select(signbit(im), -zero, zero))
    return lg.select(is_infinite(re), limit, value)


@library
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """Replaces NaN by `nan`, and infinities by `posinf` and `neginf`; their defaults are the largest finite numbers.

    `copy` has no effect: the result is always a separate array.
    """
    x = tensor(x)
    if not is_inexact(x.dtype):
        return x
    if is_complex(x.dtype):
        return ew.make_complex(*(nan_to_num(part, copy, nan, posinf, neginf) for part in _parts(x)))
    largest = float(limits_of(x.dtype).max)
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    for number, other in ((nan, None), (high, np.inf), (low, -np.inf)):
        is_replaced = is_nan(x) if other is None else lg.compare(x, full_like(x, other), comparison_direction="EQ")
        is_plain = isinstance(number, (int, float))
        value = full_like(x, number) if is_plain else broadcast_to(convert(tensor(number), x.dtype), x.shape)
        x = lg.select(is_replaced, value, x)
    return x
