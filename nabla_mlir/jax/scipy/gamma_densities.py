"""Densities of the gamma and the beta distribution: the derivatives of the incomplete functions by their argument."""

from __future__ import annotations

import math

import numpy as np

from nabla_mlir.jax.scipy.gamma_ratios import LARGE, deviance, log_beta, stirling_rest, stirling_series
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.ufuncs import absolute, exp, log, power, sqrt
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import gamma
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.table.tensor import Tensor


def gamma_term(a: Tensor, x: Tensor) -> Tensor:
    """The term x^a exp(-x) / gamma(a + 1) for finite x > 0; for large `a` by the deviance, because the powers would cancel."""
    large = a >= LARGE
    high, low = where(large, a, LARGE), where(large, 1.0, a)
    position = where(large, x, LARGE)
    near = exp(-high * deviance((position - high) / high, position / high) - stirling_series(high)) / sqrt(high * (2 * math.pi))
    return where(large, near, exp(low * log(x) - x - gamma.lgamma(low + 1.0)))


def gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of the regularised lower incomplete gamma function P(a, x) by x: the density of the gamma distribution."""
    inside = (x > 0.0) & (x < np.inf)
    y = where(inside, x, 1.0)
    large = (a >= LARGE) & (y > 0.01)
    bell = gamma_term(where(large, a, LARGE), where(large, y, 1.0)) * (where(large, a, LARGE) / where(large, y, 1.0))
    # Not a quotient by x: x^a / x underflows for small x, and the terms of its derivative cancel for a = 1.
    order, argument = where(large, 1.0, a), where(large, 1.0, y)
    value = where(large, bell, exp((order - 1.0) * log(argument) - argument - gamma.lgamma(order)))
    at_end = exp(-gamma.lgamma(a)) * power(x, a - 1.0) * exp(-x)  # a power has derivatives at 0, but its logarithm does not
    return where(inside, value, where(x == 0.0, at_end, where(x == np.inf, 0.0, np.nan)))


def _exact_product(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded product of x and y, and its rounding error (Dekker 1971), from upper and lower halves of x and y."""
    factor = 4097.0 if x.dtype.itemsize <= 4 else 134217729.0
    (x1, x2), (y1, y2) = ((high, v - high) for v in (x, y) for high in [v * factor - (v * factor - v)])
    product = x * y
    return product, ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2


def _exact_sum(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum of x and y, and its rounding error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def distance_from_mean(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The number x b - (1 - x) a, computed without loss of digits although large numbers cancel.

    Divided by a + b, it is the distance of x from the mean of the beta distribution.
    """
    plain = x * b - (1.0 - x) * a
    a, b, x = (stop_gradient(v) for v in (a, b, x))
    (first, e1), (second, e2) = _exact_product(x, a), _exact_product(x, b)
    part, e3 = _exact_sum(first, -a)
    total, e4 = _exact_sum(part, second)
    correction = ((total - stop_gradient(plain)) + e4) + ((e1 + e2) + e3)
    return plain + where(absolute(correction) < np.inf, correction, 0.0)


def beta_term(a: Tensor, b: Tensor, x: Tensor, y: Tensor, d: Tensor) -> Tensor:
    """The term x^a y^b / beta(a, b) for y = 1 - x and d = x b - y a, by deviances, which avoid the cancellation of powers."""
    exponent = beta_exponent(a, b, x, y, d)
    return exp(exponent + stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)) * sqrt(a / (a + b) * b * (0.5 / math.pi))


def beta_exponent(a: Tensor, b: Tensor, x: Tensor, y: Tensor, d: Tensor) -> Tensor:
    """The logarithm of x^a y^b minus its largest value, for d = x b - y a."""
    share = a / (a + b)
    return -(a * deviance(d / a, x / share) + b * deviance(-d / b, y / (b / (a + b))))


def beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The derivative of the regularised incomplete beta function I_x(a, b) by x: the density of the beta distribution."""
    inside = (x > 0.0) & (x < 1.0)
    y = where(inside, x, 0.5)
    wide = (a >= LARGE) & (b >= LARGE)
    p, q, z = (where(wide, v, other) for v, other in ((a, LARGE), (b, LARGE), (y, 0.5)))
    bell = beta_term(p, q, z, 1.0 - z, distance_from_mean(p, q, z)) / (z * (1.0 - z))
    # Not a quotient by y: the terms of its derivative cancel for a = 1.
    p, q, z = (where(wide, other, v) for v, other in ((a, 1.0), (b, 1.0), (y, 0.5)))
    value = where(wide, bell, exp((p - 1.0) * log(z) + (q - 1.0) * ew.log_plus_one(-z) - log_beta(p, q)))
    size = gamma.lgamma(a + b) - gamma.lgamma(a) - gamma.lgamma(b)
    at_end = exp(size) * power(x, a - 1.0) * power(1.0 - x, b - 1.0)  # a power has derivatives at 0, but its logarithm does not
    at_end = where((x == 0.0) | (x == 1.0), at_end, np.nan)
    return where(inside, value, at_end)
