"""Trigonometric functions of float32 and float64 values and their inverses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nabla_mlir.dialects.builder import Val, bitcast, convert, eq, ne, select, splat, sqrt
from nabla_mlir.passes.iree.math.formats import (
    F32,
    F64,
    flip_sign,
    format_of,
    horner,
    rounded,
    sar,
    sign_is_set,
    sign_of,
    with_sign,
)

# 1216 bits of 2/pi after the binary point, enough for the largest float64.
_TWO_OVER_PI = (
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424D"
    "D2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639"
    "835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F46"
    "3F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB"
)


def sin_cos_parts(x: Val) -> tuple[Val, Val, Val]:
    """The triple (sin r, cos r, q) with |x| = q pi/2 + r, |r| <= pi/4; q is an unsigned integer modulo 4."""
    r, q = _reduce(abs(x))
    form = format_of(x)
    z = r * r
    sin = r + r * z * horner(z, form.sin)
    half = 0.5 * z
    cos = rounded(1.0 - half)
    cos = cos + (((1.0 - cos) - half) + z * z * horner(z, form.cos))
    return sin, cos, q


def sin(x: Val) -> Val:
    """The sine, accurate for every x: sin r, cos r, -sin r, -cos r for q = 0, 1, 2, 3 (see `sin_cos_parts`), with the sign of x."""
    s, c, q = sin_cos_parts(x)
    form = format_of(x)
    shift = 8 * x.dtype.itemsize - 2
    result = select(eq(q & 1, 0), s, c)
    return flip_sign(result, sign_of(x) ^ (((q & 2) << shift) & form.sign))


def cos(x: Val) -> Val:
    """The cosine, accurate for every x: cos r, -sin r, -cos r or sin r for q = 0, 1, 2, 3 (see `sin_cos_parts`)."""
    s, c, q = sin_cos_parts(x)
    shift = 8 * x.dtype.itemsize - 2
    result = select(eq(q & 1, 0), c, s)
    return flip_sign(result, ((q + 1) & 2) << shift)


def tan(x: Val) -> Val:
    """The tangent, accurate for every x: sin r / cos r for even q, -cos r / sin r for odd q (see `sin_cos_parts`), with the sign of
    x.
    """
    s, c, q = sin_cos_parts(x)
    odd = eq(q & 1, 1)
    result = select(odd, c, s) / select(odd, s, c)
    shift = 8 * x.dtype.itemsize - 1
    return flip_sign(result, sign_of(x) ^ ((q & 1) << shift))


def _window(start: Val, words: int, last_start: int) -> list[Val]:
    """The `words` words of 64 bits of the bit string 0^64 (2/pi) from bit `start` on, which is at most `last_start`."""
    stream = f"{0:016x}{_TWO_OVER_PI}"
    words_from_index = [splat(int(stream[16 * i : 16 * i + 16], 16), start) for i in range(last_start // 64 + words + 1)]
    index, shift = start >> 6, start & 63
    step = 1 << (last_start // 64).bit_length() - 1
    # Chooses table[index ...] bit by bit of the index, from the highest bit on.
    while step:
        is_set = ne(index & step, 0)
        later = words_from_index[step:]
        words_from_index = [
            select(is_set, later[i], word) if i < len(later) else word for i, word in enumerate(words_from_index[: words + step])
        ]
        step //= 2
    back = splat(64, start) - shift  # may be 64: shifts by the width give zero
    return [(words_from_index[i] << shift) | (words_from_index[i + 1] >> back) for i in range(words)]


def _multiply(m: Val, window: Sequence[Val]) -> tuple[Val, Val]:
    """The upper two words of the product of m (53 bits) and a window of three words, modulo 2^192; computed in 32-bit digits."""
    digit = 0xFFFFFFFF
    m0, m1 = m & digit, m >> 32
    digits = [d for word in reversed(window) for d in (word & digit, word >> 32)]
    lows = [m0 * d for d in digits[1:]]  # the lowest digit affects only the last bit
    carry = ((lows[0] & digit) + m1 * digits[0]) >> 32
    sums = []
    for i in range(1, 5):
        total = (lows[i] & digit) + (lows[i - 1] >> 32) + m1 * digits[i] + carry
        carry = total >> 32
        sums.append(total)
    return (sums[3] << 32) | (sums[2] & digit), (sums[1] << 32) | (sums[0] & digit)


def _reduce(ax: Val) -> tuple[Val, Val]:
    """The pair (r, q) with ax = q pi/2 + r and |r| <= pi/4, by a product with the relevant bits of 2/pi (Payne, Hanek).

    The mantissa times the window of 2/pi that starts at the bit of weight 2 is the quotient modulo 4 in fixed
    point, with 62 (126) bits of fraction. NaN for infinities and NaN.
    """
    form = format_of(ax)
    u64, i64 = np.dtype(np.uint64), np.dtype(np.int64)
    bits = convert(bitcast(ax, form.bits), u64)
    m = (bits & ((1 << form.mantissa) - 1)) | (1 << form.mantissa)
    first = form.bias + form.mantissa + 1 - 63
    start, last_start = (bits >> form.mantissa) - first, 2 * form.bias - first
    if form is F32:
        high, low = _window(start, 2, last_start)
        high = m * high + (m * (low >> 32) >> 32)
    else:
        high, low = _multiply(m, _window(start, 3, last_start))
    q = (high + (1 << 61)) >> 62
    fraction = high - (q << 62)
    sign = fraction & F64.sign
    flip = sar(bitcast(fraction, i64), 63)
    size = bitcast(fraction, i64) ^ flip
    # Both parts are positive and the upper one is exact, so nothing cancels near a multiple of pi/2.
    if form is F32:
        upper = convert(convert(bitcast(bitcast(size, u64) >> 38, i64), np.int32), ax.dtype)
        lower = convert(convert(bitcast(bitcast(size, u64) >> 7, i64) & 0x7FFFFFFF, np.int32), ax.dtype)
        upper, lower = upper * 2.0**38, lower * 2.0**7
    else:
        upper = convert(size & ~0x7FF, ax.dtype)
        lower = convert(size & 0x7FF, ax.dtype) + convert(bitcast((low ^ bitcast(flip, u64)) >> 11, i64), ax.dtype) * 2.0**-53
    pi_high, pi_low = form.round(math.pi / 2), form.half_pi_low
    r = upper * (pi_high * 2.0**-62) + (lower * (pi_high * 2.0**-62) + upper * (pi_low * 2.0**-62))
    r = flip_sign(r, convert(sign >> (64 - 8 * ax.dtype.itemsize), form.bits))
    small = ax < math.pi / 4
    r = select(ax < math.inf, select(small, ax, r), math.nan)
    return r, convert(select(small, splat(0, q), q), form.bits)


def atan2(y: Val, x: Val) -> Val:
    """The angle of the point (x, y), with the special values of C at zeros and infinities.

    For the smaller part `low` and the larger part `high`, it is atan(low / high), then reflected at the diagonal and at the y axis.
    """
    form = format_of(x)
    ax, ay = abs(x), abs(y)
    steep = ay > ax
    low, high = select(steep, ax, ay), select(steep, ay, ax)
    # Equal: zeros give 0, infinities 1.
    q = select(eq(low, high), select(high > 0.0, splat(1.0, x), 0.0), low / high)
    angle = _atan_unit(q)
    angle = select(steep, math.pi / 2 - (angle - form.half_pi_low), angle)
    angle = select(sign_is_set(x), math.pi - (angle - 2.0 * form.half_pi_low), angle)
    return with_sign(angle, sign_of(y))


def _atan_unit(q: Val) -> Val:
    """The arc tangent of 0 <= q <= 1: above tan(pi/8) it is pi/4 plus the arc tangent of (q - 1) / (q + 1)."""
    form = format_of(q)
    above = q > math.sqrt(2) - 1
    t = select(above, (q - 1.0) / (q + 1.0), q)
    z = t * t
    higher_terms = t * z * horner(z, form.atan)
    return select(above, math.pi / 4 + (t + (higher_terms + 0.5 * form.half_pi_low)), t + higher_terms)


def atan(x: Val) -> Val:
    """The arc tangent; for |x| > 1 it is pi / 2 minus that of 1 / |x|, with the sign of x."""
    form = format_of(x)
    ax = abs(x)
    steep = ax > 1.0
    angle = _atan_unit(select(steep, 1.0 / ax, ax))
    angle = select(steep, math.pi / 2 - (angle - form.half_pi_low), angle)
    return with_sign(angle, sign_of(x))


def asin(x: Val) -> Val:
    """The arc sine."""
    return atan2(x, sqrt((1.0 - x) * (1.0 + x)))


def acos(x: Val) -> Val:
    """The arc cosine."""
    return 2.0 * atan2(sqrt(1.0 - x), sqrt(1.0 + x))
