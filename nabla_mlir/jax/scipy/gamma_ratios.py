"""Ratios of gamma functions by the Stirling series and differences of its terms, so that large numbers do not cancel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.ufuncs import log
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import gamma
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.linear import jvp

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
LARGE = 10.0  # from this number on, the Stirling series has all digits of f64


def of_format(x: Tensor, single: int, double: int) -> int:
    """The number of terms for the dtype of x: `single` up to 32 bits, else `double`."""
    return single if x.dtype.itemsize <= 4 else double


def over_square(u: Tensor) -> Tensor:
    """The function (u - log1p(u)) / u^2 for u from -1/2 to 1, by the series of atanh(u / (2 + u)), without cancellation."""
    v = u / (u + 2.0)
    series = full_like(u, 0)
    for j in reversed(range(of_format(u, 8, 17))):
        series = series * (v * v) + 1.0 / (2 * j + 3)
    return (1.0 - 2.0 * v * series / (u + 2.0)) / (u + 2.0)


@custom_jvp
def deviance(u: Tensor, quotient: Tensor) -> Tensor:
    """The function u - log(1 + u) for 1 + u = quotient: the exponent of densities near their maximum (Loader 2000).

    Its derivative by u is u / quotient, so derivatives do not contain the series.
    """
    near = _is_near(u)
    low = where(near, u, 0.0)
    return where(near, low * low * over_square(low), u - log(where(near, 1.0, quotient)))


def _is_near(u: Tensor) -> Tensor:
    """True for numbers for which `over_square` is accurate."""
    return (u >= -0.5) & (u <= 1.0)


@deviance.defjvp
def _deviance_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of `deviance(u, quotient)` for a tangent of u: the derivative by u is u / quotient, with quotient =
    1 + u.
    """
    u, quotient = primals
    # Far from 1 the derivative of u / quotient would cancel.
    return deviance(u, quotient), tangents[0] * where(_is_near(u), u / quotient, 1.0 - 1.0 / quotient)


def stirling_rest(a: Tensor) -> Tensor:
    """The error of Stirling's formula, lgamma(a) - ((a - 1/2) log(a) - a + log(2 pi) / 2), for a > 0.

    It is computed by its series for a >= 10, and by lgamma below.
    """
    large = a >= LARGE
    low = where(large, 1.0, a)
    below = gamma.lgamma(low) - ((low - 0.5) * log(low) - low + 0.5 * math.log(2 * math.pi))
    return where(large, stirling_series(where(large, a, LARGE)), below)


def stirling_series(a: Tensor) -> Tensor:
    """The error of Stirling's formula for a >= 10, by its series; see `stirling_rest`."""
    inverse = 1.0 / a
    series = full_like(a, 0)
    for c in reversed(_STIRLING):
        series = series * (inverse * inverse) + c
    return series * inverse


SHIFT = 10  # the number that `gamma_step` adds to its argument, so that the Stirling series applies


def gamma_step(q: Tensor, p: Tensor) -> Tensor:
    """The difference lgamma(q + p) - lgamma(q) - p log(q + 10 + p) for 0 < p < 1, with all digits also for small p.

    The formula uses lgamma(q) = lgamma(q + 10) - log(q (q + 1) ... (q + 9)) and differences of terms of the Stirling series.
    """
    m = q + float(SHIFT)
    u, v, w = p / m, 1.0 / (m + p), 1.0 / m
    slope, powers, power_of_w = full_like(q, 0), full_like(q, 1), full_like(q, 1)
    for j, c in enumerate(_STIRLING):
        for _ in range(2 if j else 0):
            power_of_w = power_of_w * w
            powers = powers * v + power_of_w  # (v^k - w^k) / (v - w)
        slope = slope + powers * c
    steps = np.arange(SHIFT, dtype=q.dtype)
    order, more = (reshaped(x, (*x.shape, 1)) for x in (q, p))
    logs = ew.log_plus_one(more / (order + steps)).sum(-1)
    return -(m * u * u * over_square(u)) - 0.5 * ew.log_plus_one(u) - p * v * w * slope - logs


def _with_slopes_of(plain: Callable[..., Tensor]) -> Callable[[Callable[..., Tensor]], Any]:
    """A decorator: the function gets the derivatives of the shorter formula `plain`, which is accurate enough for derivatives."""

    def decorate(f: Callable[..., Tensor]) -> Any:
        """The function `f` with the derivatives of `plain`."""
        with_rule = custom_jvp(f)
        with_rule.defjvp(lambda primals, tangents: (with_rule(*primals), jvp(plain, tuple(primals), tuple(tangents))[1]))
        return with_rule

    return decorate


def _plain_log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of abs(beta(a, b)) as a sum of three lgamma, which cancel for large numbers."""
    return gamma.lgamma(a) + gamma.lgamma(b) - gamma.lgamma(a + b)


@_with_slopes_of(_plain_log_beta)
def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of abs(beta(a, b)).

    If both numbers are positive and finite and one is large, Stirling's formula is used, whose largest terms cancel in closed form.
    """
    is_large = (a > 0.0) & (b > 0.0) & (a < np.inf) & (b < np.inf) & (a + b >= LARGE)
    p, q = where(is_large, a, LARGE), where(is_large, b, LARGE)
    rests = stirling_rest(p) + stirling_rest(q) - stirling_rest(p + q)
    powers = p * ew.log_plus_one(q / p) + q * ew.log_plus_one(p / q)
    value = rests - powers - 0.5 * (log(p) + log(q / (p + q)) - math.log(2 * math.pi))
    return where(is_large, value, _plain_log_beta(a, b))


def _plain_log_binomial(n: Tensor, k: Tensor) -> Tensor:
    """The logarithm of the binomial coefficient as a sum of three lgamma, which cancel for large numbers."""
    return gamma.lgamma(n + 1.0) - gamma.lgamma(k + 1.0) - gamma.lgamma(n - k + 1.0)


@_with_slopes_of(_plain_log_binomial)
def log_binomial(n: Tensor, k: Tensor) -> Tensor:
    """The logarithm of abs(n! / (k! (n - k)!)), by the beta function for large n."""
    large = n >= LARGE
    large_n = where(large, n, LARGE)
    part = where(large, k, 1.0)
    return where(large, -log_beta(large_n - part + 1.0, part + 1.0) - ew.log_plus_one(large_n), _plain_log_binomial(n, k))


def _plain_log_rising(z: Tensor, m: Tensor) -> Tensor:
    """The difference lgamma(z + m) - lgamma(z), which cancels for large z."""
    return gamma.lgamma(z + m) - gamma.lgamma(z)


@_with_slopes_of(_plain_log_rising)
def log_rising(z: Tensor, m: Tensor) -> Tensor:
    """The logarithm of abs(gamma(z + m) / gamma(z)). If z and z + m are large, Stirling's formula avoids cancellation."""
    large = (z >= LARGE) & (z + m >= LARGE) & (z < np.inf) & (m < np.inf)
    base, step = where(large, z, LARGE), where(large, m, 1.0)
    total = base + step
    u = step / base
    rests = stirling_series(total) - stirling_series(base)
    value = step * log(total) - base * deviance(u, total / base) - 0.5 * log(total / base) + rests
    return where(large, value, _plain_log_rising(z, m))
