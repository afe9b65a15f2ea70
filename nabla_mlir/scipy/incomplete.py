"""Incomplete gamma and beta functions: series and continued fractions, each where it converges fast.

Loops end when the last term changes nothing. The derivative by the argument is a formula, those by the parameters are the
loops' own, in forward mode: reverse mode transposes their products alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexact, inexacts, require_real
from nabla_mlir.numpy.reductions import any
from nabla_mlir.numpy.special_values import signbit
from nabla_mlir.numpy.ufuncs import absolute, exp, floor, log, log1p, power
from nabla_mlir.ops import gamma
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.linear import jvp

_MOST = 2000  # iterations; large parameters take some hundreds


def until_still(step: Callable[[Any, Any], Any], start: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Repeats ``step(k, state)`` for k = 1, 2, ... until the last of the state is no longer changed by more than a digit.

    A few more iterations follow, since derivatives settle later than values.
    """
    eps = float(np.finfo(start[-1].dtype).eps)

    def goes_on(carry: Any) -> Any:
        k, still, *_ = carry
        return (still < 12.0) & (k < float(_MOST))

    def body(carry: Any) -> Any:
        k, still, *state = carry
        new = step(k, tuple(state))
        change = any(absolute(stop_gradient(new[-1] - state[-1])) > eps * absolute(stop_gradient(new[-1])))
        return (k + 1.0, where(change, 0.0, still + 1.0), *new)

    one = absolute(full_like(start[-1], 0)).sum() + 1.0
    return tuple(while_loop(goes_on, body, (one, one - 1.0, *start))[2:])


def ratio(numerator: Callable[[Any], Any], denominator: Callable[[Any], Any], first: Tensor) -> Tensor:
    """The continued fraction first + n(1) / (d(1) + n(2) / (d(2) + ...)), by Lentz's algorithm, changed by Thompson and Barnett."""
    tiny = float(np.finfo(first.dtype).tiny) * 1e10
    away = lambda v: where(absolute(v) < tiny, tiny, v)  # noqa: E731

    def step(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        c, d, value = state
        n, m = numerator(k), denominator(k)
        d = 1.0 / away(m + n * d)
        c = away(m + n / c)
        return c, d, value * c * d

    start = away(first)
    return until_still(step, (start, full_like(first, 0), start))[-1]


# ---------------------------------------------------------------- gamma
@library
def gammasgn(x: Any) -> Tensor:
    """The sign of the gamma function: at a zero that of the zero, NaN at the negative whole numbers."""
    x = inexact(x)
    whole = floor(stop_gradient(x))
    odd = whole - 2.0 * floor(whole * 0.5) != 0.0
    one = full_like(x, 1)
    below = where(whole == x, np.nan, where(odd, -one, one))
    return where(x > 0.0, one, where(x == 0.0, where(signbit(stop_gradient(x)), -one, one), below))


def _parts(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whether the series is the better way, and both: the lower function by it, the upper one by the fraction."""
    low = x < a + 1.0
    inside = (x > 0.0) & (x < np.inf)
    near = where(low & inside, x, 0.5 * (a + 1.0))
    far = where(low | ~inside, a + 2.0, x)

    def term(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        part, total = state
        part = part * near / (a + k)
        return part, total + part

    series = until_still(term, (full_like(a, 1), full_like(a, 1)))[-1]
    lower = exp(a * log(near) - near - gamma.lgamma(a + 1.0)) * series
    fraction = ratio(lambda k: k * (a - k), lambda k: far + 2.0 * k + 1.0 - a, far + 1.0 - a)
    upper = exp(a * log(far) - far - gamma.lgamma(a)) / fraction
    return low, lower, upper


def _at_ends(a: Tensor, x: Tensor, value: Tensor, at_zero: float) -> Tensor:
    value = where((x == 0.0) | (a == np.inf), at_zero, where((x == np.inf) | (a == 0.0), 1.0 - at_zero, value))
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
    low, lower, upper = _parts(a, x)
    return _at_ends(a, x, where(low, lower, 1.0 - upper), 0.0)


def _upper(a: Tensor, x: Tensor) -> Tensor:
    low, lower, upper = _parts(a, x)
    return _at_ends(a, x, where(low, 1.0 - lower, upper), 1.0)


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    inside = (x > 0.0) & (x < np.inf)
    y = where(inside, x, 1.0)
    at_end = exp(-gamma.lgamma(a)) * power(x, a - 1.0) * exp(-x)  # a power has the slopes that its logarithm has not
    return where(inside, exp((a - 1.0) * log(y) - y - gamma.lgamma(a)), where(x == 0.0, at_end, 0.0))


def with_slopes(f: Callable[..., Tensor], density: Callable[..., Tensor], loops: Callable[..., Tensor] | None = None) -> Any:
    """The function of parameters and an argument, the last one, with derivatives: by that `density`, by the others those of the
    loops of `loops`, or `f`.
    """
    whole, inner = custom_jvp(f), loops or f

    @whole.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        *parameters, x = primals
        total = tangents[-1] * density(*primals)
        for k, t in enumerate(tangents[:-1]):
            along = lambda p, k=k: inner(*parameters[:k], p, *parameters[k + 1 :], x)  # noqa: E731
            total = total + t * jvp(along, (parameters[k],), (full_like(x, 1),))[1]
        return whole(*primals), total

    return whole


_gammainc = with_slopes(_lower, _gamma_density)
_gammaincc = with_slopes(_upper, lambda a, x: -_gamma_density(a, x))


@library
def gammaincc(a: Any, x: Any) -> Tensor:
    """The upper incomplete gamma function, 1 - gammainc(a, x), accurate where it is small."""
    return _gammaincc(*(require_real("gammaincc", v) for v in inexacts("gammaincc", a, x)))


# ---------------------------------------------------------------- beta
@library
def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The incomplete beta function: the integral of t**(a-1) (1-t)**(b-1) from 0 to x over that from 0 to 1.

    Args:
      a, b: positive numbers.
      x: numbers in [0, 1].

    Example:
      >>> round(float(betainc(2.0, 1.0, 0.5)), 6)
      0.25
    """
    return _betainc(*(require_real("betainc", v) for v in inexacts("betainc", a, b, x)))


def _beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    swap = x > (a + 1.0) / (a + b + 2.0)
    inside = (x > 0.0) & (x < 1.0)
    y = where(inside, x, 0.5)
    p, q, z = where(swap, b, a), where(swap, a, b), where(swap, 1.0 - y, y)

    def numerator(k: Any) -> Any:
        """Even and odd ones: m = k // 2."""
        m = ((k - 1.0) * 0.5).astype(np.int32).astype(x.dtype)
        odd = -(p + m) * (p + q + m) * z / ((p + 2.0 * m) * (p + 2.0 * m + 1.0))
        n = m + 1.0
        even = n * (q - n) * z / ((p + 2.0 * n - 1.0) * (p + 2.0 * n))
        return where(k - 2.0 * m == 1.0, odd, even)

    fraction = ratio(numerator, lambda k: 1.0, full_like(p, 1))
    size = gamma.lgamma(p + q) - gamma.lgamma(p) - gamma.lgamma(q)
    value = exp(p * log(z) + q * log1p(-z) + size) / (p * fraction)
    value = where(swap, 1.0 - value, value)
    value = where(x <= 0.0, 0.0, where(x >= 1.0, 1.0, value))
    return where((a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0), value, np.nan)


def _beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    inside = (x > 0.0) & (x < 1.0)
    y = where(inside, x, 0.5)
    size = gamma.lgamma(a + b) - gamma.lgamma(a) - gamma.lgamma(b)
    at_end = exp(size) * power(x, a - 1.0) * power(1.0 - x, b - 1.0)  # a power has the slopes that its logarithm has not
    at_end = where((x == 0.0) | (x == 1.0), at_end, 0.0)
    return where(inside, exp((a - 1.0) * log(y) + (b - 1.0) * log1p(-y) + size), at_end)


_betainc = with_slopes(_beta, _beta_density)
