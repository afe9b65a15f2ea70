"""Exponentials, logarithms, hyperbolic functions and powers of float32 and float64 values."""

from __future__ import annotations

import math

import numpy as np

from nabla_mlir.dialects.builder import Val, bitcast, convert, eq, maximum, minimum, select, splat, sqrt
from nabla_mlir.passes.iree.math.formats import (
    format_of,
    horner,
    nearest_integer,
    rounded,
    sar,
    scale_by_power,
    sign_of,
    upper_half,
    with_sign,
)

LN2 = 0.6931471805599453
# The cube root from 2^-1.5 to 2^1.5, to 1 %.
_CBRT = (0.5068079255708303, 0.6576729089262948, -0.19248042619989061, 0.02603992540852949)


def exp_parts(x: Val, low: Val | None = None) -> tuple[Val, Val]:
    """The pair (e^r - 1, k) with e^(x + low) = 2^k e^r and |r| <= ln(2) / 2, for x in the range of exp.

    `low` has digits of the argument that x cannot represent; None for 0.
    """
    form = format_of(x)
    k_float, k = nearest_integer(x * (1 / LN2))
    high = x - k_float * form.ln2_high
    tail = k_float * form.ln2_low if low is None else k_float * form.ln2_low - low
    r = rounded(high - tail)
    error = (high - r) - tail
    p = r + (r * r * (0.5 + r * horner(r, form.exp)) + error)
    return p, k


def exp(x: Val) -> Val:
    """The exponential e^x = 2^k (1 + p); see `exp_parts`."""
    form = format_of(x)
    p, k = exp_parts(minimum(maximum(x, form.log_min), form.log_max))
    return scale_by_power(1.0 + p, k)


def expm1(x: Val) -> Val:
    """e^x - 1 = 2^k p + (2^k - 1), accurate near 0; see `exp_parts`."""
    form = format_of(x)
    p, k = exp_parts(minimum(maximum(x, -0.75 * form.mantissa), form.log_max))
    # Half of the power, so that the largest power is finite: 2 ((2^(k-1) p) + (2^(k-1) - 1/2)).
    power = bitcast((k + (form.bias - 1)) << form.mantissa, x.dtype)
    result = (power * p + (power - 0.5)) * 2.0
    return select(abs(x) < form.smallest * 2.0**form.mantissa, x, result)


def split_log(x: Val) -> tuple[Val, Val]:
    """The pair (k, f) with x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for normal positive x; k is a float."""
    form = format_of(x)
    bits = bitcast(x, form.signed)
    k = sar(bits - int(np.asarray(0.5**0.5, form.dtype).view(form.signed)), form.mantissa)
    f = bitcast(bits - (k << form.mantissa), x.dtype) - 1.0
    return convert(convert(k, np.int32), x.dtype), f


def normal_part(x: Val) -> tuple[Val, Val]:
    """A positive number x as a normal number n and a float c, with x = n 2^c; c is 0 if x is normal."""
    form = format_of(x)
    tiny = x < form.smallest
    scale = form.mantissa + 2
    return select(tiny, x * 2.0**scale, x), select(tiny, splat(-float(scale), x), 0.0)


def _log_normal(x: Val, extra: Val | float, correction: Val | None) -> Val:
    """The logarithm of a normal number 2^k (1 + f) as k log 2 + log(1 + f), by the method of fdlibm.

    Args:
      x: the number.
      extra: a number that is added to k.
      correction: a small number that is added to the result; None for 0.
    """
    form = format_of(x)
    k, f = split_log(x)
    k = k + extra if isinstance(extra, Val) else k
    s = f / (2.0 + f)
    z = s * s
    half_square = f * f * 0.5
    tail = k * form.ln2_low
    if correction is not None:
        tail = tail + correction
    return k * form.ln2_high + (f - (half_square - (s * (half_square + z * horner(z, form.log)) + tail)))


def _log_specials(result: Val, x: Val) -> Val:
    """The logarithm `result`, replaced by the special values of log x: -inf at 0, NaN for negative x, and x for inf and NaN."""
    result = select(eq(x, 0.0), -math.inf, result)
    result = select(x < math.inf, result, x)  # inf and NaN
    return select(x < 0.0, math.nan, result)


def log(x: Val) -> Val:
    """The natural logarithm."""
    normal, extra = normal_part(x)
    return _log_specials(_log_normal(normal, extra, None), x)


def log1p(x: Val) -> Val:
    """log(1 + x), accurate near 0: log(u) + error for the rounded sum u, where error is (1 + x - u) / u."""
    u = rounded(1.0 + x)
    error = select(x > 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    result = _log_specials(_log_normal(u, 0.0, error), u)
    return select(eq(u, 1.0), x, result)


def tanh(x: Val) -> Val:
    """The hyperbolic tangent."""
    e = expm1(abs(x) * -2.0)
    return with_sign(-e / (e + 2.0), sign_of(x))


def sinh(x: Val) -> Val:
    """The hyperbolic sine: (e + e / (e + 1)) / 2 with e = expm1(|x|), and the sign of x; for large |x|, half of (e^(|x| / 2))²."""
    form = format_of(x)
    ax = abs(x)
    e = expm1(ax)
    large = ax > form.log_max - 2.0
    root = exp(ax * 0.5)
    return with_sign(select(large, 0.5 * root * root, 0.5 * (e + e / (e + 1.0))), sign_of(x))


def cosh(x: Val) -> Val:
    """The hyperbolic cosine: (e + 1 / e) / 2 with e = e^|x|; for large |x|, where e overflows, half of (e^(|x| / 2))²."""
    form = format_of(x)
    ax = abs(x)
    root = exp(ax * 0.5)
    e = exp(ax)
    return select(ax > form.log_max - 2.0, 0.5 * root * root, 0.5 * e + 0.5 / e)


def asinh(x: Val) -> Val:
    """The inverse hyperbolic sine: log1p(|x| + x² / (1 + sqrt(1 + x²))), with the sign of x; for large |x|, log(2 |x|)."""
    form = format_of(x)
    ax = abs(x)
    large = ax > 2.0 ** (form.mantissa // 2 + 2)
    square = ax * ax
    near = ax + square / (1.0 + sqrt(1.0 + square))
    result = log1p(select(large, ax - 1.0, near)) + select(large, splat(LN2, x), 0.0)
    return with_sign(result, sign_of(x))


def acosh(x: Val) -> Val:
    """The inverse hyperbolic cosine: log1p(t + sqrt(t (t + 2))) with t = x - 1; for large x, log(2 x). NaN for x < 1."""
    form = format_of(x)
    large = x > 2.0 ** (form.mantissa // 2 + 2)
    t = x - 1.0
    result = log1p(select(large, t, t + sqrt(t * (t + 2.0)))) + select(large, splat(LN2, x), 0.0)
    return select(x < 1.0, math.nan, result)


def atanh(x: Val) -> Val:
    """The inverse hyperbolic tangent."""
    ax = abs(x)
    return with_sign(0.5 * log1p(2.0 * ax / (1.0 - ax)), sign_of(x))


def cbrt(x: Val) -> Val:
    """The cube root: a polynomial, then steps of Halley's method, which triple the number of digits.

    With |x| = m 2^(3 k): y approximates the cube root of m, a step adds y (m - y³) / (2 y³ + m), and the root is y 2^k.
    """
    form = format_of(x)
    ax = abs(x)
    normal, extra = normal_part(ax)
    _, k = nearest_integer(split_log(normal)[0] * (1 / 3))
    m = scale_by_power(normal, k * -3)
    y = horner(m, _CBRT)
    for last in (False, True):
        y = upper_half(y) if last else y  # then its square is exact
        cube = y * y * y
        y = y + y * ((m - cube) / (cube + cube + m))
    # A subnormal number was multiplied by 2^(mantissa + 2).
    root = scale_by_power(y, k) * select(extra < 0.0, splat(2.0 ** (-(form.mantissa + 2) / 3), x), 1.0)
    root = select((ax > 0.0) & (ax < math.inf), root, ax)
    return with_sign(root, sign_of(x))


def logistic(x: Val) -> Val:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + exp(-x))
