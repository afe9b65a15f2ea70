"""Powers of float32 and float64 values."""

from __future__ import annotations

import math

import numpy as np

from nabla_mlir.dialects.builder import Val, bitcast, convert, eq, floor, maximum, minimum, ne, select, splat
from nabla_mlir.passes.iree.math.exponential import LN2, exp_parts, normal_part, split_log
from nabla_mlir.passes.iree.math.formats import (
    F32,
    F64,
    flip_sign,
    format_of,
    horner,
    is_nan,
    nearest_integer,
    scale_by_power,
    sign_of,
    upper_half,
)
from nabla_mlir.passes.iree.target import machine

# (2 atanh s - 2 s) / s^3 in s^2 for s <= 0.172, and (e^r - 1 - r) / r^2 in r for |r| <= ln(2)/2: exact to 1e-11.
_LOG = (2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11, 2 / 13, 2 / 15)
_EXP = tuple(1 / math.factorial(n) for n in range(2, 11))

_MOST = 2.0**40  # a larger exponent has the same power: 0, 1 or infinity


def power(x: Val, y: Val) -> Val:
    """The power x^y with the special values of C: the power of |x|, with the sign of x if y is odd."""
    form = format_of(x)
    ax = abs(x)
    result = _in_doubles(ax, y) if form is F32 and machine().codegen.doubles else _in_halves(ax, y)
    is_end = eq(ax, 0.0) | eq(ax, math.inf)
    vanishes = eq(ax < 1.0, y > 0.0)
    result = select(is_end, select(vanishes, splat(0.0, x), math.inf), result)
    is_integer = eq(floor(y), y)
    half = y * 0.5
    is_odd = is_integer & ne(floor(half), half)
    result = flip_sign(result, select(is_odd, sign_of(x), splat(0, x, form.bits)))
    result = select((x < 0.0) & ~is_integer & (x > -math.inf), math.nan, result)
    result = select(is_nan(x) | is_nan(y), math.nan, result)
    return select(eq(y, 0.0) | eq(x, 1.0), 1.0, result)


def _in_doubles(x: Val, y: Val) -> Val:
    """The power x^y of positive f32 values as exp(y log x) in f64, with a third of the operations of `_in_halves`."""
    bits = bitcast(convert(x, np.float64), np.uint64)
    one, root = (int(np.float64(value).view(np.uint64)) for value in (1.0, 0.5**0.5))
    # x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2). The shift is logical, and k becomes a float by the bits of 2^52 + k:
    # many processors have no other instruction for that.
    exponent = (bits + (one - root)) >> F64.mantissa
    k = bitcast(exponent | int(np.float64(2.0**52).view(np.uint64)), np.float64) - (2.0**52 + F64.bias)
    f = bitcast(bits - (exponent << F64.mantissa) + one, np.float64) - 1.0
    s = f / (2.0 + f)
    square = s * s
    log = k * LN2 + (s + s + s * square * horner(square, _LOG))
    # Beyond these limits, f32 overflows or underflows. With an infinite exponent, 1^y would be NaN.
    exponent = minimum(maximum(convert(y, np.float64), -_MOST), _MOST)
    total = minimum(maximum(exponent * log, 1.1 * F32.log_min), 1.1 * F32.log_max)
    n, whole = nearest_integer(total * (1 / LN2))
    r = total - n * LN2
    scale = bitcast((whole + F64.bias) << F64.mantissa, np.float64)
    return convert(scale * (1.0 + r + r * r * horner(r, _EXP)), np.float32)


def _in_halves(ax: Val, y: Val) -> Val:
    """The power of positive `ax` and `y` as exp(y log ax), with log and exp in 1.5 times the digits of the format.

    The logarithm is t1 + t2, where t1 has half of the mantissa, so that its product with the upper half of y is exact.
    """
    form = format_of(ax)
    normal, extra = normal_part(ax)
    k, f = split_log(normal)
    k = k + extra
    # s = f / (2 + f) = s_high + s_low, and log(1 + f) = 2/3 s (3 + s^2 + tail).
    d = 2.0 + f
    s = f / d
    s_high, d_high = upper_half(s), upper_half(d)
    s_low = ((f - s_high * d_high) - s_high * (f - (d_high - 2.0))) / d
    square = s * s
    tail = square * square * (3.0 * horner(square, form.log5)) + s_low * (s_high + s)
    square = s_high * s_high
    t_high = upper_half(3.0 + square + tail)
    t_low = tail - ((t_high - 3.0) - square)
    u, v = s_high * t_high, s_low * t_high + t_low * s
    p_high = upper_half(u + v)
    p_low = v - (p_high - u)
    c_bits = form.mantissa // 2  # 2/3 = c_high + c_low, where c_high has this many bits
    c_high, c_low = (2**c_bits * 2 // 3) / 2**c_bits, (1 if c_bits % 2 else 2) / (3 * 2**c_bits)
    z_high, z_low = p_high * c_high, p_high * c_low + p_low * (2 / 3) + k * form.ln2_low
    k_high = k * form.ln2_high
    t1 = upper_half((z_high + z_low) + k_high)
    t2 = z_low - ((t1 - k_high) - z_high)
    # Beyond this |y|, x^y overflows or underflows for every x except 1.
    largest = 2.0 ** (form.mantissa + 12)
    exponent = minimum(maximum(y, -largest), largest)
    y_high = upper_half(exponent)
    low, high = (exponent - y_high) * t1 + exponent * t2, y_high * t1
    limit = -1.2 * form.log_min
    total = high + low
    inside = abs(total) < limit
    p, n = exp_parts(select(inside, high, minimum(maximum(total, -limit), limit)), select(inside, low, 0.0))
    return scale_by_power(1.0 + p, n)
