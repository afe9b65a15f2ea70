"""Hypergeometric functions of Kummer and Gauss.

The Kummer function is computed by its series, by the Kummer transformation for negative arguments, and by the asymptotic series
for large arguments. The Gauss function is computed by its series up to 1/2. From there, Taylor series of its differential
equation continue it; each step halves the distance to 1.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nabla_mlir.jax.scipy.incomplete import gammasgn, until_still
from nabla_mlir.jax.scipy.integrals import series
from nabla_mlir.jax.scipy.slopes import with_slopes
from nabla_mlir.numpy.bessel import of_real
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.reductions import any
from nabla_mlir.numpy.ufuncs import absolute, exp, exp2, floor, log, maximum, minimum
from nabla_mlir.ops import gamma
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.control import while_loop


def _pole(x: Tensor) -> Tensor:
    """True where the gamma function has a pole: at 0, -1, -2, ..."""
    fixed = stop_gradient(x)
    return (fixed <= 0.0) & (fixed == floor(fixed))


def _kummer(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The Kummer function M(a, b, x) by its series, or by the asymptotic series for large arguments."""
    below = x < 0.0  # M(a, b, x) = exp(x) M(b - a, b, -x)
    c, size = where(below, b - a, a), absolute(x)
    ends = _pole(a) | _pole(b - a)
    c = where(_pole(a), a, where(_pole(b - a), b - a, c))
    y = where(_pole(a), x, where(_pole(b - a), -x, size))  # the series of a polynomial is summed without the transformation
    kummer = where(_pole(a), False, where(_pole(b - a), True, below))
    far = ~ends & (size > 100.0 + c * c + b * b)
    near = where(far, 1.0, y)
    distant = where(far, size, 1e4)
    d, e = where(far, b - c, 0.5), where(far, 1.0 - c, 0.5)

    def term(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the series: (c)_k near^k / ((b)_k k!), twice, as the next term and as the summand."""
        part = part * (c + k - 1.0) / (b + k - 1.0) * near / k
        return part, part

    def asymptotic(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the asymptotic series from the last term `part`, as the next `part` and as the summand; 0 once terms grow."""
        ratio = (d + k - 1.0) * (e + k - 1.0) / k / distant
        part = where(absolute(ratio) < 1.0, part * ratio, 0.0)
        return part, part

    one = full_like(x, 1)
    plain = series(term, one, one) * exp(where(far | ~kummer, 0.0, x))
    size_of = gamma.lgamma(b) - gamma.lgamma(where(far, c, 1.0)) + (c - b) * log(distant) + where(kummer, 0.0, distant)
    far_value = gammasgn(b) * gammasgn(where(far, c, 1.0)) * exp(where(far, size_of, 0.0)) * series(asymptotic, one, one)
    return where(_pole(b), np.nan, where(far, far_value, plain))


_hyp1f1: Any = with_slopes(_kummer, lambda a, b, x: a / b * _hyp1f1(a + 1.0, b + 1.0, x), has_constants=False)


@library
def hyp1f1(a: Any, b: Any, x: Any) -> Tensor:
    """The Kummer function: the sum of (a)_k / (b)_k x**k / k! over k = 0, 1, ...; NaN where b is 0, -1, ...

    Digits are lost where large terms cancel: for large negative `a` with positive x, and for a > b with negative x.

    Example:
      >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 6)
      1.718282
    """
    return of_real("hyp1f1", _hyp1f1, a, b, x)


# ---------------------------------------------------------------- Gauss
def _start(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the Gauss series F(a, b; c; x), and its derivative by x."""

    def step(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Adds term k of the power series to the value, and its derivative to the slope: for the term q x / k it is q."""
        part, value, slope = state
        below = c + k - 1.0
        ratio = part * (a + k - 1.0) * (b + k - 1.0) / where(below == 0.0, 1.0, below)  # 0 only after the last term of a polynomial
        part = ratio * x / k
        return part, value + part, slope + ratio

    one = full_like(x, 1)
    _, value, slope = until_still(step, (one, one, full_like(x, 0)))
    return value, slope


def _nearer(a: Tensor, b: Tensor, c: Tensor, s: Tensor, r: Tensor, value: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The Gauss function and its derivative after one step of the continuation, from 1 - s to 1 - s (1 - r).

    The derivative is multiplied by the distance from 1.

    The coefficients f of Taylor's series obey ``(n + 1) (n + 2) z s f[n + 2] = (n + a) (n + b) f[n] - (n + 1) (n (s - z) + c -
    (a + b + 1) z) f[n + 1]`` at z = 1 - s; the terms here are ``f[n] s**n r**(n - 1)``.
    """
    z, middle = 1.0 - s, c - a - b - 1.0 + (a + b + 1.0) * s
    second = (a * b * s * value - middle * slope) / (2.0 * z) * r

    def step(n: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The last two terms, and the value and the slope with one more term."""
        last, part, value, slope = state
        above = (n + a) * (n + b) * s * r * r * last - (n + 1.0) * (n * (2.0 * s - 1.0) + middle) * r * part
        return part, above / ((n + 1.0) * (n + 2.0) * z), value + part * r, slope + (n + 1.0) * part

    _, _, value, slope = until_still(step, (slope, second, value + slope * r, slope))
    return value, slope * (1.0 - r)


def _continued(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    """The Gauss function for x < 1, continued from its series.

    For x < 0 it is ``s**h F(h, c - l, c, 1 - s)`` with s = 1 / (1 - x), h = max(a, b) and l = min(a, b), because most terms of that
    series are positive.
    """
    below, lower = x < 0.0, a < b
    low, high = where(lower, a, b), where(lower, b, a)
    end = where(below, 1.0 / (1.0 - x), 1.0 - x)
    near = where(below, x / (x - 1.0), x)
    # The function grows as a power of the distance from 1. Near the range of the dtype, it is computed scaled by a power of 2.
    range_of = np.finfo(x.dtype).maxexp
    growth = stop_gradient(where(below, minimum(low, 0.0), minimum(c - a - b, 0.0)) * log(end)) / np.log(2)
    shift = floor(minimum(maximum(growth - 0.5 * range_of, 0.0), 0.7 * range_of))
    a, b, power = where(below, high, a), where(below, c - low, b), where(below, high, 0.0)
    far = near > 0.5
    s = where(far, 0.5, end)
    value, slope = _start(a, b, c, where(far, 0.5, near))
    size = exp(power * log(s)) * exp2(-shift)

    def goes_on(state: Any) -> Any:
        """True while some element has not reached its end point."""
        return any(stop_gradient(state[0]) > stop_gradient(end))

    def body(state: Any) -> Any:
        """The state (s, value, slope) after one step of the continuation towards the end point; unchanged once it is reached."""
        s, value, slope = state
        moves = s > end
        r = where(moves, minimum(0.5, 1.0 - end / where(moves, s, 1.0)), 0.0)
        ahead = _nearer(a, b, c, where(moves, s, 0.5), r, value, slope)
        size = exp(power * log(1.0 - r))  # one factor for each step, because the product of all could underflow or overflow
        value, slope = (where(moves, new * size, old) for new, old in zip(ahead, (value, slope), strict=True))
        return where(moves, maximum(s * 0.5, end), s), value, slope

    return while_loop(goes_on, body, (s, value * size, slope * s * size))[1] * exp2(shift)


def _at_one(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The Gauss function at x = 1 by Gauss' formula, gamma(c) gamma(c - a - b) / (gamma(c - a) gamma(c - b)), for c > a + b."""
    d = c - a - b
    absent = _pole(c - a) | _pole(c - b) | (d <= 0.0)
    d, p, q = (where(absent, 1.0, v) for v in (d, c - a, c - b))
    size = exp(gamma.lgamma(c) + gamma.lgamma(d) - gamma.lgamma(p) - gamma.lgamma(q))
    return where(absent, 0.0, size * gammasgn(c) * gammasgn(p) * gammasgn(q))


def _gauss(terms: bool, a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    """The Gauss function F(a, b; c; x); without `terms`, polynomials are no special case, so that derivatives by a and b are
    right.
    """
    # The series ends if a or b is 0, -1, -2, ...; the larger one of such parameters ends it first.
    last = maximum(where(_pole(a), a, -np.inf), where(_pole(b), b, -np.inf))
    known = stop_gradient(last) > -np.inf  # the series is a polynomial
    infinite = _pole(c) & ~(known & (stop_gradient(last) > stop_gradient(c)))  # the polynomial does not end before the pole
    plain = known & (_pole(c) | (x >= 1.0) | terms)  # computed as a polynomial
    inside = ~plain & ~infinite & (x < 1.0) & (x > -np.inf)
    polynomial = _start(where(plain, a, 0.0), b, where(infinite, 1.0, c), where(plain, x, 0.0))[0]
    lower = _continued(a, b, where(_pole(c), 1.0, c), where(inside, x, 0.0))
    one = where(c - a - b > 0.0, _at_one(a, b, where(_pole(c), 1.0, c)), np.inf)
    value = where(inside, lower, where(x == 1.0, one, where(x > 1.0, np.inf, np.nan)))
    return where(x == 0.0, 1.0, where(infinite, np.inf, where(plain, polynomial, value)))


_hyp2f1: Any = with_slopes(
    functools.partial(_gauss, True),
    lambda a, b, c, x: a * b / c * _hyp2f1(a + 1.0, b + 1.0, c + 1.0, x),
    functools.partial(_gauss, False),
    has_constants=False,
)


@library
def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Tensor:
    """The Gauss function: the sum of (a)_k (b)_k / (c)_k x**k / k! over k = 0, 1, ..., continued analytically below -1.

    The result is infinite where c is 0, -1, ... and the series does not end before that term. It is infinite for x > 1 if the
    series does not end. Digits are lost where large terms cancel: for parameters far below 0, or far above c with c - a and
    c - b of different signs. A result beyond the range of the dtype is infinite; far beyond it, from about its 1.5th power, it
    may be NaN.

    Example:
      >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
      1.3863
    """
    return of_real("hyp2f1", _hyp2f1, a, b, c, x)
