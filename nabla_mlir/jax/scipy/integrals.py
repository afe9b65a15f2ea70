"""Exponential, sine and cosine integrals, and the Spence function, by series near 0 and continued fractions or series elsewhere.

Derivatives are formulas of the functions themselves, so that they have derivatives of any order.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from nabla_mlir.jax.scipy.incomplete import ratio, until_still
from nabla_mlir.numpy.bessel import of_real
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import asarray
from nabla_mlir.numpy.special_values import sine_over
from nabla_mlir.numpy.ufuncs import absolute, cos, exp, floor, imag, log, real, sign, sin
from nabla_mlir.ops import gamma
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.custom import custom_jvp

_FAR = 40.0  # from this number on, the asymptotic series of expi has all digits
_NEAR = 4.0  # up to this number, the series of si and ci lose few digits


def series(term: Any, start: Tensor, total: Tensor) -> Tensor:
    """The sum of `total` and the summands of ``term(k, part) -> (part, summand)`` for k = 1, 2, ..., until
    they do not change it.
    """

    def step(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The part of term k, from which the next term follows, and the sum with term k."""
        part, summand = term(k, state[0])
        return part, state[1] + summand

    return until_still(step, (start, total))[-1]


# ---------------------------------------------------------------- exponential
@custom_jvp
def _expn(n: Tensor, x: Tensor) -> Tensor:
    """The exponential integral of order n: a series for small x, and a continued fraction for large x."""
    inside = (x > 0.0) & (x < np.inf)
    low = x <= 1.0
    near, far = where(low & inside, x, 0.5), where(low | ~inside, 2.0, x)
    order = where(n > 0.0, n, 1.0)

    def term(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """The factor (-near)^k / k! from the last one, and the summand of term k; 0 for the term that the logarithm replaces."""
        part = part * -near / k
        distance = k + 1.0 - order
        return part, where(distance == 0.0, 0.0, -part / where(distance == 0.0, 1.0, distance))

    first = where(order == 1.0, 0.0, -1.0 / where(order == 1.0, 1.0, 1.0 - order))
    odd = order - 1.0 - 2.0 * floor((order - 1.0) * 0.5) != 0.0
    power = exp((order - 1.0) * log(near) - gamma.lgamma(order))
    lower = where(odd, -power, power) * (gamma.digamma(order) - log(near)) + series(term, full_like(x, 1), first)
    upper = exp(-far) / ratio(lambda k: -k * (order - 1.0 + k), lambda k: far + order + 2.0 * k, far + order)
    value = where(n == 0.0, exp(-x) / x, where(low, lower, upper))
    value = where(inside, value, where(x == np.inf, 0.0, where(n > 1.0, first, np.inf)))
    return where((n >= 0.0) & (n == floor(n)) & (x >= 0.0), value, np.nan)


@_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of the exponential integral E_n(x) by x, whose derivative is minus the integral of order n - 1."""
    n, x = primals
    down = _expn(where(n > 0.0, n - 1.0, 0.0), x)
    return _expn(n, x), -tangents[1] * where(n > 0.0, down, exp(-x) * (1.0 + x) / (x * x))


@library
def expn(n: Any, x: Any) -> Tensor:
    """The exponential integral of order n: the integral of exp(-x t) / t**n from 1 to infinity.

    Args:
      n: whole numbers >= 0, without derivatives; others give NaN.
      x: numbers >= 0; others give NaN.

    Example:
      >>> round(float(expn(2, 1.0)), 6)
      0.148496
    """
    return of_real("expn", lambda n, x: _expn(stop_gradient(n), x), n, x)


@library
def exp1(x: Any) -> Tensor:
    """The exponential integral of order 1, the integral of exp(-t) / t from x to infinity; NaN for negative numbers."""
    return of_real("exp1", lambda x: _expn(full_like(x, 1), x), x)


@custom_jvp
def _expi(x: Tensor) -> Tensor:
    """The exponential integral Ei: a series for small x, and the asymptotic series for large x.

    It is Euler's constant + log(x) + the sum over k >= 1 of x^k / (k! k), and exp(x) / x times the sum over k of k! / x^k. For x <
    0 it is -E1(-x).
    """
    near = where((x > 0.0) & (x < _FAR), x, 1.0)
    far = where(x >= _FAR, x, _FAR)

    def term(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the series: x^k / k! for the next term, and this divided by k as the summand."""
        part = part * near / k
        return part, part / k

    def asymptotic(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the asymptotic series, k! / x^k, twice, as the next term and as the summand."""
        part = where(k > far, 0.0, part * k / far)  # the terms grow for k > far
        return part, part

    one = full_like(x, 1)
    lower = np.euler_gamma + log(near) + series(term, one, one * 0.0)
    upper = where(far == np.inf, np.inf, exp(far) / far * series(asymptotic, one, one))
    below = -_expn(one, where(x < 0.0, -x, 1.0))
    return where(x < 0.0, below, where(x == 0.0, -np.inf, where(x < _FAR, lower, where(x >= _FAR, upper, np.nan))))


@_expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of the exponential integral Ei, whose derivative is exp(x) / x."""
    (x,), (t,) = primals, tangents
    return _expi(x), t * exp(x) / x


@library
def expi(x: Any) -> Tensor:
    """The exponential integral Ei: the integral of exp(t) / t from minus infinity to x, as a principal value for x > 0.

    Example:
      >>> round(float(expi(1.0)), 6)
      1.895118
    """
    return of_real("expi", _expi, x)


# ---------------------------------------------------------------- sine and cosine
@custom_jvp
def _sici(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sine and cosine integrals: series for small x, and a continued fraction for large x.

    For large x, Si = pi / 2 + Im E1(i x) and Ci = -Re E1(i x).
    """
    size = absolute(x)
    near, far = where(size <= _NEAR, size, 1.0), where((size > _NEAR) & (size < np.inf), size, _NEAR)

    def sine(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the series of Si: (-1)^k x^(2 k + 1) / (2 k + 1)! for the next term, and this divided by 2 k + 1 as the
        summand.
        """
        part = -part * near * near / (2.0 * k * (2.0 * k + 1.0))
        return part, part / (2.0 * k + 1.0)

    def cosine(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the series of Ci: (-1)^k x^(2 k) / (2 k)! for the next term, and this divided by 2 k as the summand."""
        part = -part * near * near / ((2.0 * k - 1.0) * 2.0 * k)
        return part, part / (2.0 * k)

    si, ci = series(sine, near, near), np.euler_gamma + log(near) + series(cosine, full_like(x, 1), full_like(x, 0))
    z = far * 1j
    around = (cos(far) - sin(far) * 1j) / ratio(lambda k: -k * k, lambda k: z + 2.0 * k + 1.0, z + 1.0)  # E1(z)
    low = size <= _NEAR
    si = where(low, si, where(size == np.inf, 0.5 * math.pi, 0.5 * math.pi + imag(around)))
    ci = where(low, where(size == 0.0, -np.inf, ci), where(size == np.inf, 0.0, -real(around)))
    return where(x != x, np.nan, sign(x) * si), where(x != x, np.nan, ci)


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    """The values and the tangents of the sine and cosine integrals of x, whose derivatives are sin(x) / x and cos(x) / x."""
    (x,), (t,) = primals, tangents
    near = absolute(x) < 0.5  # a series is used here, because its derivatives exist at 0
    small, large = where(near, x, 0.0), where(near, 1.0, x)
    return _sici(x), (t * where(near, sine_over(small), sin(large) / large), t * cos(x) / x)


@library
def sici(x: Any) -> tuple[Tensor, Tensor]:
    """The integral of sin(t) / t from 0 to x, and the integral of cos(t) / t from infinity to abs(x).

    Example:
      >>> [round(float(y), 6) for y in sici(1.0)]
      [0.946083, 0.337404]
    """
    return of_real("sici", _sici, x)


# ---------------------------------------------------------------- Bernoulli's numbers and Spence's function
def _bernoulli(n: int) -> list[Fraction]:
    """The Bernoulli numbers from B(0) to B(n), with B(1) = -1/2."""
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        numbers.append(-sum((math.comb(m + 1, k) * b for k, b in enumerate(numbers)), Fraction(0)) / (m + 1))
    return numbers


@library
def bernoulli(n: Static[int]) -> Tensor:
    """Bernoulli's numbers B(0), ..., B(n).

    Example:
      >>> [round(float(b), 4) for b in bernoulli(2)]
      [1.0, -0.5, 0.1667]
    """
    return asarray([float(b) for b in _bernoulli(n)])


_SPENCE = [float(b / math.factorial(k + 1)) for k, b in enumerate(_bernoulli(22))]


@custom_jvp
def _spence(z: Tensor) -> Tensor:
    """The Spence function, the integral of log(t) / (1 - t) from 1 to z, by a series after a reflection formula.

    Li(z) + Li(1 - z) = pi² / 6 - log(z) log(1 - z) serves z < 1/2, and Li(z) + Li(1 / z) = -log(z)² / 2 serves z > 2, where Li(z)
    is the function. The series is in powers of u = -log of the number that is left.
    """
    inside = (z > 0.0) & (z < np.inf)
    x = where(inside, z, 1.0)
    low, high = x < 0.5, x > 2.0
    small = where(high, 1.0 / x, x)
    is_reflected = low | high  # the value follows from that of 1 - small
    u = -log(where(is_reflected, 1.0 - small, small))
    value = full_like(z, 0)
    for coefficient in reversed(_SPENCE):
        value = (value + coefficient) * u
    value = where(is_reflected, math.pi**2 / 6 + log(small) * u - value, value)
    value = where(high, -0.5 * log(x) ** 2 - value, value)
    value = where(z == 0.0, math.pi**2 / 6, where(z == np.inf, -np.inf, value))
    return where(z >= 0.0, value, np.nan)


@_spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of the Spence function, whose derivative is log(z) / (1 - z), or a series near 1."""
    (z,), (t,) = primals, tangents
    is_far = absolute(z - 1.0) > 0.1
    distance, near = where(is_far, 1.0 - z, 1.0), where(is_far, 0.0, 1.0 - z)
    slope = full_like(z, 0)
    for k in range(16, 0, -1):  # -log(1 - y) / y as a series, whose derivatives exist at 0
        slope = slope * near + 1.0 / k
    return _spence(z), t * where(is_far, log(where(is_far, z, 1.0)) / distance, -slope)


@library
def spence(x: Any) -> Tensor:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x; NaN for negative numbers.

    Example:
      >>> round(float(spence(0.0)), 6)
      1.644934
    """
    return of_real("spence", _spence, x)
