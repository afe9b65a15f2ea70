"""Incomplete gamma and beta functions by series and continued fractions, each in the range where it converges fast.

A loop ends when the last term changes nothing. The derivative by the argument is a formula. The derivatives by the parameters
are computed by forward mode through the loops; reverse mode only multiplies by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.jax.scipy.gamma_densities import (
    beta_density,
    beta_exponent,
    beta_term,
    distance_from_mean,
    gamma_density,
    gamma_term,
)
from nabla_mlir.jax.scipy.gamma_ratios import SHIFT, gamma_step, of_format, over_square, stirling_series
from nabla_mlir.jax.scipy.slopes import with_slopes
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexact, inexacts, require_real
from nabla_mlir.numpy.reductions import any
from nabla_mlir.numpy.special_values import signbit
from nabla_mlir.numpy.ufuncs import absolute, exp, floor, log, sqrt
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.guards import product
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.custom import custom_jvp

_MOST = 2000  # the largest number of iterations; large parameters need some hundreds


def until_still(step: Callable[[Any, Any], Any], start: tuple[Tensor, ...], slack: float = 1.0) -> tuple[Tensor, ...]:
    """The state after ``step(k, state)`` for k = 1, 2, ..., until its last value changes by at most `slack` roundings.

    `start` is the first state. A few more iterations follow, because derivatives converge later than values.
    """
    eps = slack * float(np.finfo(start[-1].dtype).eps)

    def goes_on(carry: Any) -> Any:
        """True while the value changes, and for twelve more iterations."""
        k, still, *_ = carry
        return (still < 12.0) & (k < float(_MOST))

    def body(carry: Any) -> Any:
        """One step; counts the steps in a row in which the last value has not changed by more than the rounding error."""
        k, still, *state = carry
        new = step(k, tuple(state))
        change = any(absolute(stop_gradient(new[-1] - state[-1])) > eps * absolute(stop_gradient(new[-1])))
        return (k + 1.0, where(change, 0.0, still + 1.0), *new)

    one = absolute(full_like(start[-1], 0)).sum() + 1.0
    return tuple(while_loop(goes_on, body, (one, one - 1.0, *start))[2:])


def ratio(numerator: Callable[[Any], Any], denominator: Callable[[Any], Any], first: Tensor) -> Tensor:
    """The continued fraction first + n(1) / (d(1) + n(2) / (d(2) + ...)) of `numerator` n and `denominator` d, by Lentz's
    algorithm.
    """
    tiny = float(np.finfo(first.dtype).tiny) * 1e10
    nonzero = lambda v: where(absolute(v) < tiny, tiny, v)  # noqa: E731

    def step(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """One step of Lentz's method: c and 1 / d are the ratios of successive numerators and denominators of the fraction."""
        c, d, value = state
        n, m = numerator(k), denominator(k)  # m is d(k) of the formula
        d = 1.0 / nonzero(m + n * d)
        c = nonzero(m + n / c)
        return c, d, value * c * d

    start = nonzero(first)
    return until_still(step, (start, full_like(first, 0), start), 4.0)[-1]  # factors near 1 are rounded three times


# ---------------------------------------------------------------- gamma
@library
def gammasgn(x: Any) -> Tensor:
    """The sign of the gamma function: the sign of x at 0.0 and -0.0, and NaN at negative whole numbers and NaN."""
    x = inexact(x)
    whole = floor(stop_gradient(x))
    odd = whole - 2.0 * floor(whole * 0.5) != 0.0
    one = full_like(x, 1)
    below = where((whole == x) | (x != x), np.nan, where(odd, -one, one))
    return where(x > 0.0, one, where(x == 0.0, where(signbit(stop_gradient(x)), -one, one), below))


_UNIFORM = 20.0  # from this `a` on, the uniform expansion has all digits of f64 for x from a / 2 to 2 a
# The coefficients of eta / (lambda - 1) in powers of eta, where eta^2 / 2 = lambda - 1 - log(lambda).
_SLOPES = (
    1.0,
    -1 / 3,
    1 / 12,
    -2 / 135,
    1 / 864,
    1 / 2835,
    -139 / 777600,
    3.9192631785224378e-05,
    -2.1854485106799922e-06,
    -1.85406221071516e-06,
    8.296711340953086e-07,
    -1.7665952736826079e-07,
    6.7078535434014986e-09,
    1.0261809784240308e-08,
    -4.3820360184533532e-09,
    9.1476995822367902e-10,
    -2.551419399494625e-11,
    -5.8307721325504251e-11,
    2.4361948020667416e-11,
    -5.0276692801141756e-12,
    1.1004392031956135e-13,
    3.3717632624009854e-13,
    -1.3923887224181621e-13,
    2.8534893807447043e-14,
    -5.1391118342425726e-16,
    -1.9752288294349443e-15,
    8.0995211567045613e-16,
)


@custom_jvp
def _signed_root(u: Tensor) -> Tensor:
    """The number eta with the sign of u and eta^2 / 2 = u - log(1 + u), for u from -1/2 to 1."""
    return u * sqrt(2.0 * over_square(u))


@_signed_root.defjvp
def _signed_root_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of `_signed_root`, by a formula without division by zero at u = 0."""
    (u,) = primals
    return _signed_root(u), tangents[0] / ((1.0 + u) * sqrt(2.0 * over_square(u)))


def _uniform_expansion(a: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper incomplete gamma function at x = a (1 + u), for a >= 20 and u from -1/2 to 1.

    The expansion is DLMF 8.12; its sum is computed by Temme's recurrence.
    """
    eta = _signed_root(u)
    count, inverse = of_format(a, 12, len(_SLOPES) - 1), 1.0 / a
    above, before, total = full_like(a, 0), full_like(a, 0), full_like(a, 0)
    for m in reversed(range(count)):
        above, before = before, _SLOPES[m + 1] + (m + 2.0) * inverse * above
        total = total * eta + before
    correction = exp(-0.5 * a * eta * eta) / sqrt(a * (2 * math.pi)) * total / (1.0 + above * inverse)
    z = eta * sqrt(0.5 * a)
    return 0.5 * ew.erfc(-z) - correction, 0.5 * ew.erfc(z) + correction


def _lower_and_upper(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper incomplete gamma function.

    Near x = a both come from the uniform expansion; elsewhere one of them comes from a series or a continued fraction.
    """
    even = (a >= _UNIFORM) & (a < np.inf) & (x >= 0.5 * a) & (x <= 2.0 * a)
    large = where(even, a, _UNIFORM)
    uniform = _uniform_expansion(large, where(even, x - large, 0.0) / large)
    order = where(a < np.inf, a, 1.0)
    small = order < 1.0
    low = x < where(small, 1.0, order + 1.0)
    inside = (x > 0.0) & (x < np.inf) & ~even
    near = where(low & inside, x, 0.25 * order)
    far = where(~low & inside, x, 2.0 * order + 2.0)
    a1, x1 = where(small & (order > 0.0), order, 0.5), where(low & inside & small, x, 0.5)

    def term(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Adds term k to the series of the lower function and to that of the upper one."""
        part, plain, gap, gaps, total = state
        part = part * near / (order + k)
        gap = (gap - plain / k) * x1 / (a1 + k)  # (part - x^k / k!) / a
        return part, plain * x1 / k, gap, gaps + gap, total + part

    one, zero = full_like(a, 1), full_like(a, 0)
    *_, gaps, series = until_still(term, (one, one, zero, zero, one))
    density = gamma_term(order, where(low, near, far))
    lower = density * series
    # For a small order, the upper function is 1 - exp(this number), which is small.
    exponent = a1 * log(x1 / (a1 + (SHIFT + 1.0))) - gamma_step(one, a1) + ew.log_plus_one(a1 * exp(-x1) * gaps)
    rest = where(small, -ew.exponential_minus_one(exponent), 1.0 - lower)
    fraction = ratio(lambda k: k * (order - k), lambda k: far + 2.0 * k + 1.0 - order, far + 1.0 - order)
    upper = density * order / fraction
    return (where(even, uniform[0], where(low, lower, 1.0 - upper)), where(even, uniform[1], where(low, rest, upper)))


def _kink(parameter: Tensor) -> Tensor:
    """0 where a parameter is 0; its derivative is NaN, because that of the function is not the one of its limit."""
    return product(parameter, exp(parameter * np.nan))


def _at_ends(a: Tensor, x: Tensor, value: Tensor, at_zero: float) -> Tensor:
    """The value with the limits of the function where a or x is 0 or infinite; NaN outside of the domain."""
    value = where(
        (x == 0.0) | (a == np.inf), at_zero, where(x == np.inf, 1.0 - at_zero, where(a == 0.0, 1.0 - at_zero + _kink(a), value))
    )
    is_open = (a == x) & ((x == 0.0) | (x == np.inf))
    return where((a >= 0.0) & (x >= 0.0) & ~is_open, value, np.nan)


@library
def gammainc(a: Any, x: Any) -> Tensor:
    """The lower incomplete gamma function, 1 / gamma(a) times the integral of t**(a-1) exp(-t) from 0 to x.

    Args:
      a: positive numbers.
      x: numbers that are not negative.

    Example:
      >>> round(float(gammainc(1.0, 2.0)), 6)
      0.864665
    """
    return _gammainc(*(require_real("gammainc", v) for v in inexacts("gammainc", a, x)))


def _lower(a: Tensor, x: Tensor) -> Tensor:
    return _at_ends(a, x, _lower_and_upper(a, x)[0], 0.0)


def _upper(a: Tensor, x: Tensor) -> Tensor:
    return _at_ends(a, x, _lower_and_upper(a, x)[1], 1.0)


_gammainc = with_slopes(_lower, gamma_density)
_gammaincc = with_slopes(_upper, lambda a, x: -gamma_density(a, x))


@library
def gammaincc(a: Any, x: Any) -> Tensor:
    """The upper incomplete gamma function, 1 - gammainc(a, x), accurate where it is small."""
    return _gammaincc(*(require_real("gammaincc", v) for v in inexacts("gammaincc", a, x)))


# ---------------------------------------------------------------- beta
@library
def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The incomplete beta function: the integral of t**(a-1) (1-t)**(b-1) from 0 to x, divided by the integral from 0 to 1.

    Args:
      a, b: positive numbers.
      x: numbers in [0, 1].

    Example:
      >>> round(float(betainc(2.0, 1.0, 0.5)), 6)
      0.25
    """
    return _betainc(*(require_real("betainc", v) for v in inexacts("betainc", a, b, x)))


_WIDE = 1000.0  # for larger parameters the density is bell-shaped, and a quadrature is accurate
_NODES = np.polynomial.legendre.leggauss(40)


def _left_tail(a: Tensor, b: Tensor, x: Tensor, y: Tensor, d: Tensor) -> Tensor:
    """The integral of the beta density from 0 to x = 1 - y, for large a and b and x below the mean; `d` is x b - y a, exactly.

    Gauss-Legendre quadrature covers the interval in which the density falls to e^-40 of its value at x.
    """
    n = a + b
    width = sqrt(a / n * (b / n) / n)
    distance = -d / n / width
    length = stop_gradient(width * (sqrt(distance * distance + 80.0) - distance))
    length = where(length < x, length, stop_gradient(x))
    nodes, weights = (np.asarray(v, x.dtype) for v in (0.5 * (_NODES[0] + 1.0), 0.5 * _NODES[1]))
    order, other, t, complement, shift, scale = (reshaped(v, (*v.shape, 1)) for v in (a, b, x, y, d, length))
    step = scale * nodes
    t, complement, shift = t - step, complement + step, shift - (order + other) * step  # complement is 1 - t, without rounding
    total = (exp(beta_exponent(order, other, t, complement, shift)) / (t * complement) * weights).sum(-1)
    size = exp(stirling_series(n) - stirling_series(a) - stirling_series(b)) * sqrt(a / n * b * (0.5 / math.pi))
    return total * length * size


def _log_of_small(p: Tensor, q: Tensor, z: Tensor) -> Tensor:
    """The logarithm of betainc(p, q, z) for p < 1 and z up to the mean, without loss of digits for small p.

    The formula is log(z^p gamma(p + q) / (gamma(p + 1) gamma(q)) (1 + p S)) with the series S of DLMF 8.17.7.
    """

    def term(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The product of the factors up to term k of S, and the sum with that term."""
        part, total = state
        part = part * ((k - q) / k * z)
        return part, total + part / (p + k)

    one = full_like(p, 1)
    series = until_still(term, (one, full_like(p, 0)))[-1]
    scale = z * ((q + p + float(SHIFT)) / (p + (SHIFT + 1.0)))
    return p * log(scale) + gamma_step(q, p) - gamma_step(one, p) + ew.log_plus_one(p * series)


def _beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The regularised incomplete beta function I_x(a, b): a continued fraction, a quadrature or a series, by the parameters."""
    # order, other: the parameters a and b where they are finite; I_x(a, b) = 1 - I_(1 - x)(b, a) is used above the middle (`swap`).
    finite = (a > 0.0) & (b > 0.0) & (a < np.inf) & (b < np.inf)
    order, other = where(finite, a, 1.0), where(finite, b, 1.0)
    wide = (order >= _WIDE) & (other >= _WIDE)
    middle = where(wide, order / (order + other), (order + 1.0) / (order + other + 2.0))
    swap = x > middle
    inside = (x > 0.0) & (x < 1.0)
    low = where(inside, x, 0.5)
    high = 1.0 - low
    p, q, z, w = where(swap, other, order), where(swap, order, other), where(swap, high, low), where(swap, low, high)
    p1, q1, z1, w1 = (where(wide, 1.0, p), where(wide, 1.0, q), where(wide, 0.25, z), where(wide, 0.75, w))

    d = distance_from_mean(order, other, low)
    d = where(swap, -d, d)
    d1, d2 = where(wide, 0.25 * q1 - 0.75 * p1, d), where(wide & inside, d, 0.0)
    gap = 1.0 - d1

    def numerator(k: Any) -> Any:
        """Numerator k of the continued fraction."""
        scale = z1 / (p1 + 2.0 * k - 1.0)
        last = k - 1.0  # p1 + k would lose a small p1
        return where(last == 0.0, 1.0, p1 + last) * (k * (q1 - k) * scale) * ((p1 + q1 + last) * scale)

    def denominator(k: Any) -> Any:
        """Denominator k of the continued fraction."""
        return k + k * (q1 - k) * z1 / (p1 + 2.0 * k - 1.0) + (p1 + k) / (p1 + 2.0 * k + 1.0) * (gap + k * (1.0 + w1))

    # The even part of the fraction of DLMF 8.17.22; it uses 1 - x if that is small (Didonato and Morris 1992).
    narrow = beta_term(p1, q1, z1, w1, d1) / p1 / ratio(numerator, denominator, gap / (p1 + 1.0))
    p2, q2 = where(wide, p, _WIDE), where(wide, q, _WIDE)
    bell = wide & inside
    value = where(wide, _left_tail(p2, q2, where(bell, z, 0.5), where(bell, w, 0.5), d2), narrow)
    small = p < 1.0
    exponent = _log_of_small(*(where(small, v, other) for v, other in ((p, 0.5), (q, 0.5), (z, 0.25))))
    value = where(small, exp(exponent), value)
    value = where(swap, where(small, -ew.exponential_minus_one(exponent), 1.0 - value), value)
    # A parameter of 0 or infinity concentrates the distribution at one end.
    value = where(b == np.inf, 1.0, where(a == np.inf, 0.0, where(b == 0.0, _kink(b), where(a == 0.0, 1.0 + _kink(a), value))))
    value = where(x <= 0.0, 0.0, where(x >= 1.0, 1.0, value))
    is_open = ((a == 0.0) & (b == 0.0)) | ((a == np.inf) & (b == np.inf))
    return where((a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0) & ~is_open, value, np.nan)


_betainc = with_slopes(_beta, beta_density)
