"""Elementary functions of float32 and float64 values in terms of arithmetic on them and on their bits.

None branches, so all of them vectorise and also work in the body of a reduction. They rely on IEEE arithmetic
and stay right if a product and a sum are contracted into one rounding. Vulkan drivers also reassociate (Mesa turns
(a + b) - b into a): what must be rounded as written goes through `_rounded` there. Coefficients are
near-minimax (Chebyshev) fits made with mpmath to less than 1/20 ulp.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nabla_mlir.dialects.builder import (
    Val,
    binary,
    bitcast,
    convert,
    eq,
    floor,
    maximum,
    minimum,
    ne,
    reduce_any,
    select,
    splat,
    sqrt,
    while_loop,
)

LN2 = 0.6931471805599453
# 1216 bits of 2/pi after the binary point, enough for the largest float64.
_TWO_OVER_PI = (
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424D"
    "D2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639"
    "835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F46"
    "3F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB"
)

# The cube root from 2^-1.5 to 2^1.5, to 1 %.
_CBRT = (0.5068079255708303, 0.6576729089262948, -0.19248042619989061, 0.02603992540852949)


@dataclass(frozen=True)
class Format:
    """A float format: its bits, and the coefficients that are accurate enough for it."""

    dtype: np.dtype
    bits: np.dtype  # unsigned integers of the same width
    signed: np.dtype
    mantissa: int  # explicit bits
    bias: int
    half: int  # mask that leaves half of the mantissa, so that products of two halves are exact
    smallest: float  # normal
    log_max: float  # exp overflows above
    log_min: float  # exp is zero below
    ln2_high: float  # k * ln2_high is exact for every exponent k
    sin: tuple[float, ...]  # (sin r - r) / r^3 in r^2, |r| <= pi/4
    cos: tuple[float, ...]  # (cos r - 1 + r^2/2) / r^4 in r^2
    atan: tuple[float, ...]  # (atan t - t) / t^3 in t^2, |t| <= tan(pi/8)
    exp: tuple[float, ...]  # (e^r - 1 - r - r^2/2) / r^3 in r, |r| <= ln(2)/2
    log: tuple[float, ...]  # (2 atanh s - 2 s) / s^3 in s^2, s <= 0.172
    log5: tuple[float, ...]  # (atanh s - s - s^3/3) / s^5 in s^2

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (8 * self.dtype.itemsize - 1)

    def round(self, x: float) -> float:
        """The number of this format next to `x`."""
        return self.dtype.type(x).item()

    @property
    def half_pi_low(self) -> float:
        """pi/2 less the number of this format next to it."""
        return math.pi / 2 - self.round(math.pi / 2) if self is F32 else 6.123233995736766e-17

    @property
    def ln2_low(self) -> float:
        """Ln 2 - ln2_high, from 80 bits of ln 2."""
        return float((0xB17217F7D1CF79ABC9E3 - int(self.ln2_high * 2.0**60) * 2**20) * 2.0**-80)

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, which then stands in the low bits."""
        return 1.5 * 2.0**self.mantissa


F32 = Format(
    np.dtype(np.float32), np.dtype(np.uint32), np.dtype(np.int32), 23, 127, 0xFFFFF000, 2.0**-126, 88.8, -104.0,
    0.693145751953125,
    (-0.1666666666385529, 0.008333331874710208, -0.00019840086735384846, 2.724992580305979e-06),
    (0.04166666465950221, -0.0013888303035894866, 2.4547942085071572e-05),
    (-0.3333333176116852, 0.19999540483648964, -0.1426395559798464, 0.10743731490791084, -0.06451928208121749),
    (0.16666666666666666, 0.04166655421298415, 0.008333320842276708, 0.0013926250831497611, 0.00019882773016255759),
    (0.6666666655445165, 0.40000121876972, 0.2855081659971155, 0.23330581938241893),
    (0.20000007527877692, 0.14281118049218647, 0.11524119050805677),
)  # fmt: skip
F64 = Format(
    np.dtype(np.float64), np.dtype(np.uint64), np.dtype(np.int64), 52, 1023, 0xFFFFFFFFF8000000, 2.0**-1022, 709.9,
    -745.5, float.fromhex("0x1.62e42fee00000p-1"),
    (-0.16666666666666666, 0.008333333333333331, -0.00019841269841265065, 2.7557319219339167e-06,
     -2.5052106232447578e-08, 1.6058531618986147e-10, -7.586697117706918e-13),
    (0.041666666666666664, -0.0013888888888887398, 2.480158729876569e-05, -2.7557317271729793e-07,
     2.08761462684032e-09, -1.1382632425521717e-11),
    (-0.3333333333333333, 0.19999999999999804, -0.14285714285659828, 0.11111111105155447, -0.09090908753500877,
     0.07692296375032143, -0.06666424885738255, 0.05878928997834775, -0.05230454270650244, 0.04551593220626549,
     -0.034570561981427744, 0.016285756855221028),
    (0.16666666666666669, 0.041666666666666664, 0.008333333333330039, 0.0013888888888886537, 0.00019841269863171557,
     2.4801587317228724e-05, 2.7557268276905696e-06, 2.7557282838800484e-07, 2.5100472505694996e-08,
     2.09112987659402e-09),
    (0.6666666666666666, 0.4000000000000088, 0.2857142857080323, 0.2222222239180047, 0.18181795630884753,
     0.15386240205813478, 0.13268759668560612, 0.13086767009948175),
    (0.20000000000000012, 0.14285714285669254, 0.1111111113555117, 0.09090904123772271, 0.07692787398231016,
     0.06642978717596676, 0.06456808836091125),
)  # fmt: skip


_reassociates = contextvars.ContextVar("reassociates", default=False)


@contextlib.contextmanager
def for_target(target: str) -> Iterator[None]:
    """Within it formulas are written for a kind of target."""
    token = _reassociates.set(target == "vulkan")
    try:
        yield
    finally:
        _reassociates.reset(token)


def _rounded(x: Val) -> Val:
    """`x`, out of sight of the algebra of the compiler."""
    return maximum(x, -float(np.finfo(x.dtype).max)) if _reassociates.get() else x


def format_of(x: Val) -> Format:
    """The format of a float32 or float64 value."""
    return F64 if x.dtype == F64.dtype else F32


def has_format(x: Val) -> bool:
    """True if `x` is float32 or float64."""
    return x.dtype in (F32.dtype, F64.dtype)


def horner(x: Val, coefficients: Sequence[float]) -> Val:
    """c[0] + x (c[1] + x (...))."""
    result: Val | None = None
    for c in reversed(coefficients):
        result = splat(c, x) if result is None else result * x + c
    assert result is not None
    return result


def sign_of(x: Val) -> Val:
    """The sign bit of `x`, all other bits zero."""
    form = format_of(x)
    return bitcast(x, form.bits) & form.sign


def with_sign(magnitude: Val, sign: Val) -> Val:
    """A magnitude (sign bit clear) with a sign made by `sign_of`."""
    return bitcast(bitcast(magnitude, sign.dtype) | sign, magnitude.dtype)


def flip_sign(x: Val, sign: Val) -> Val:
    """`x` negated where the sign bit of `sign` is set."""
    return bitcast(bitcast(x, sign.dtype) ^ sign, x.dtype)


def upper_half(x: Val) -> Val:
    """`x` cut to half of its mantissa."""
    form = format_of(x)
    return bitcast(bitcast(x, form.bits) & form.half, x.dtype)


def is_nan(x: Val) -> Val:
    """True where `x` is NaN."""
    return ne(x, x)


def scale_by_power(x: Val, k: Val) -> Val:
    """X * 2^k for an integer k from -2 bias to 2 bias, rounding once; k has the width of x."""
    form = format_of(x)
    half = sar(k, 1)
    first, second = half + form.bias, k - half + form.bias
    mantissa = form.mantissa
    return x * bitcast(first << mantissa, x.dtype) * bitcast(second << mantissa, x.dtype)


def sar(x: Val, bits: int) -> Val:
    """The arithmetic right shift."""
    return binary("stablehlo.shift_right_arithmetic", x, bits)


def nearest_integer(x: Val) -> tuple[Val, Val]:
    """`x` rounded to an integer, as a float and as a signed integer of the same width. |x| < 2^(mantissa - 1)."""
    form = format_of(x)
    shifted = _rounded(x + form.magic)
    integer = bitcast(shifted, form.signed) - int(np.asarray(form.magic, form.dtype).view(form.signed))
    return shifted - form.magic, integer


def _exp_parts(x: Val, low: Val | None = None) -> tuple[Val, Val]:
    """(e^r - 1, k) where x + low = k ln 2 + r; for x in the range of exp."""
    form = format_of(x)
    k_float, k = nearest_integer(x * (1 / LN2))
    high = x - k_float * form.ln2_high
    tail = k_float * form.ln2_low if low is None else k_float * form.ln2_low - low
    r = _rounded(high - tail)
    lost = (high - r) - tail
    p = r + (r * r * (0.5 + r * horner(r, form.exp)) + lost)
    return p, k


def exp(x: Val) -> Val:
    """e^x."""
    form = format_of(x)
    p, k = _exp_parts(minimum(maximum(x, form.log_min), form.log_max))
    return scale_by_power(1.0 + p, k)


def expm1(x: Val) -> Val:
    """e^x - 1, accurate near 0."""
    form = format_of(x)
    p, k = _exp_parts(minimum(maximum(x, -0.75 * form.mantissa), form.log_max))
    # Half of the power, so that the largest one is finite: 2 ((2^(k-1) p) + (2^(k-1) - 1/2)).
    power = bitcast((k + (form.bias - 1)) << form.mantissa, x.dtype)
    result = (power * p + (power - 0.5)) * 2.0
    return select(abs(x) < form.smallest * 2.0**form.mantissa, x, result)


def _split_log(x: Val) -> tuple[Val, Val]:
    """(k, f) with x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); k is a float. For normal positive x."""
    form = format_of(x)
    bits = bitcast(x, form.signed)
    k = sar(bits - int(np.asarray(0.5**0.5, form.dtype).view(form.signed)), form.mantissa)
    f = bitcast(bits - (k << form.mantissa), x.dtype) - 1.0
    return convert(convert(k, np.int32), x.dtype), f


def _normal(x: Val) -> tuple[Val, Val]:
    """`x` scaled to a normal number, and what the scaling adds to its exponent."""
    form = format_of(x)
    tiny = x < form.smallest
    scale = form.mantissa + 2
    return select(tiny, x * 2.0**scale, x), select(tiny, splat(-float(scale), x), 0.0)


def _log_normal(x: Val, extra: Val | float, correction: Val | None) -> Val:
    form = format_of(x)
    k, f = _split_log(x)
    k = k + extra if isinstance(extra, Val) else k
    s = f / (2.0 + f)
    z = s * s
    half_square = f * f * 0.5
    tail = k * form.ln2_low
    if correction is not None:
        tail = tail + correction
    return k * form.ln2_high + (f - (half_square - (s * (half_square + z * horner(z, form.log)) + tail)))


def _log_specials(result: Val, x: Val) -> Val:
    result = select(eq(x, 0.0), -math.inf, result)
    result = select(x < math.inf, result, x)  # inf and NaN
    return select(x < 0.0, math.nan, result)


def log(x: Val) -> Val:
    """The natural logarithm."""
    normal, extra = _normal(x)
    return _log_specials(_log_normal(normal, extra, None), x)


def log1p(x: Val) -> Val:
    """log(1 + x), accurate near 0."""
    u = _rounded(1.0 + x)
    lost = select(x > 1.0, 1.0 - (u - x), x - (u - 1.0)) / u
    result = _log_specials(_log_normal(u, 0.0, lost), u)
    return select(eq(u, 1.0), x, result)


def sin_cos_parts(x: Val) -> tuple[Val, Val, Val]:
    """(sin r, cos r, q) with |x| = q pi/2 + r, |r| <= pi/4; q modulo 4 as an unsigned integer."""
    r, q = _reduce(abs(x))
    form = format_of(x)
    z = r * r
    sin = r + r * z * horner(z, form.sin)
    half = 0.5 * z
    cos = _rounded(1.0 - half)
    cos = cos + (((1.0 - cos) - half) + z * z * horner(z, form.cos))
    return sin, cos, q


def sin(x: Val) -> Val:
    """The sine, accurate for every x."""
    s, c, q = sin_cos_parts(x)
    form = format_of(x)
    shift = 8 * x.dtype.itemsize - 2
    result = select(eq(q & 1, 0), s, c)
    return flip_sign(result, sign_of(x) ^ (((q & 2) << shift) & form.sign))


def cos(x: Val) -> Val:
    """The cosine, accurate for every x."""
    s, c, q = sin_cos_parts(x)
    shift = 8 * x.dtype.itemsize - 2
    result = select(eq(q & 1, 0), c, s)
    return flip_sign(result, ((q + 1) & 2) << shift)


def tan(x: Val) -> Val:
    """The tangent, accurate for every x."""
    s, c, q = sin_cos_parts(x)
    odd = eq(q & 1, 1)
    result = select(odd, c, s) / select(odd, s, c)
    shift = 8 * x.dtype.itemsize - 1
    return flip_sign(result, sign_of(x) ^ ((q & 1) << shift))


def _window(start: Val, words: int, most: int) -> list[Val]:
    """`words` words of 64 bits of the string 0^64 (2/pi), from bit `start` (at most `most`) on."""
    stream = f"{0:016x}{_TWO_OVER_PI}"
    table = [splat(int(stream[16 * i : 16 * i + 16], 16), start) for i in range(most // 64 + words + 1)]
    index, shift = start >> 6, start & 63
    step = 1 << (most // 64).bit_length() - 1
    while step:
        chosen = ne(index & step, 0)
        later = table[step:]
        table = [select(chosen, later[i], word) if i < len(later) else word
                 for i, word in enumerate(table[: words + step])]  # fmt: skip
        step //= 2
    back = splat(64, start) - shift  # may be 64: shifts by the width give zero
    return [(table[i] << shift) | (table[i + 1] >> back) for i in range(words)]


def _multiply(m: Val, window: Sequence[Val]) -> tuple[Val, Val]:
    """The upper two of the three words of m * window modulo 2^192; m has 53 bits. In 32-bit digits."""
    digit = 0xFFFFFFFF
    m0, m1 = m & digit, m >> 32
    digits = [d for word in reversed(window) for d in (word & digit, word >> 32)]
    lows = [m0 * d for d in digits[1:]]  # the lowest one changes only the last bit
    carry = ((lows[0] & digit) + m1 * digits[0]) >> 32
    sums = []
    for i in range(1, 5):
        total = (lows[i] & digit) + (lows[i - 1] >> 32) + m1 * digits[i] + carry
        carry = total >> 32
        sums.append(total)
    return (sums[3] << 32) | (sums[2] & digit), (sums[1] << 32) | (sums[0] & digit)


def _reduce(ax: Val) -> tuple[Val, Val]:
    """(r, q): ax = q pi/2 + r with |r| <= pi/4, by multiplying with the bits of 2/pi that matter (Payne, Hanek).

    The mantissa times the window of 2/pi that starts at the bit of weight 2 is the quotient modulo 4 in fixed
    point, with 62 (126) bits of fraction. NaN for infinities and NaN.
    """
    form = format_of(ax)
    u64, i64 = np.dtype(np.uint64), np.dtype(np.int64)
    bits = convert(bitcast(ax, form.bits), u64)
    m = (bits & ((1 << form.mantissa) - 1)) | (1 << form.mantissa)
    first = form.bias + form.mantissa + 1 - 63
    start, most = (bits >> form.mantissa) - first, 2 * form.bias - first
    if form is F32:
        high, low = _window(start, 2, most)
        high = m * high + (m * (low >> 32) >> 32)
    else:
        high, low = _multiply(m, _window(start, 3, most))
    q = (high + (1 << 61)) >> 62
    fraction = high - (q << 62)
    sign = fraction & F64.sign
    flip = sar(bitcast(fraction, i64), 63)
    size = bitcast(fraction, i64) ^ flip
    # Both parts are positive and the upper one is exact, so that nothing cancels next to a multiple of pi/2.
    if form is F32:
        upper = convert(convert(bitcast(bitcast(size, u64) >> 38, i64), np.int32), ax.dtype)
        lower = convert(convert(bitcast(bitcast(size, u64) >> 7, i64) & 0x7FFFFFFF, np.int32), ax.dtype)
        upper, lower = upper * 2.0**38, lower * 2.0**7
    else:
        upper = convert(size & ~0x7FF, ax.dtype)
        lower = (
            convert(size & 0x7FF, ax.dtype)
            + convert(bitcast((low ^ bitcast(flip, u64)) >> 11, i64), ax.dtype) * 2.0**-53
        )
    pi_high, pi_low = form.round(math.pi / 2), form.half_pi_low
    r = upper * (pi_high * 2.0**-62) + (lower * (pi_high * 2.0**-62) + upper * (pi_low * 2.0**-62))
    r = flip_sign(r, convert(sign >> (64 - 8 * ax.dtype.itemsize), form.bits))
    small = ax < math.pi / 4
    r = select(ax < math.inf, select(small, ax, r), math.nan)
    return r, convert(select(small, splat(0, q), q), form.bits)


def atan2(y: Val, x: Val) -> Val:
    """The angle of (x, y), with the values that C gives at zeros and infinities."""
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


def sign_is_set(x: Val) -> Val:
    """True where the sign bit is set, as it is in -0."""
    return bitcast(x, format_of(x).signed) < 0


def _atan_unit(q: Val) -> Val:
    """Atan of 0 <= q <= 1: reduced by pi/4 above tan(pi/8)."""
    form = format_of(q)
    above = q > math.sqrt(2) - 1
    t = select(above, (q - 1.0) / (q + 1.0), q)
    z = t * t
    rest = t * z * horner(z, form.atan)
    return select(above, math.pi / 4 + (t + (rest + 0.5 * form.half_pi_low)), t + rest)


def atan(x: Val) -> Val:
    """The arc tangent."""
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


def tanh(x: Val) -> Val:
    """The hyperbolic tangent."""
    e = expm1(abs(x) * -2.0)
    return with_sign(-e / (e + 2.0), sign_of(x))


def sinh(x: Val) -> Val:
    """The hyperbolic sine."""
    form = format_of(x)
    ax = abs(x)
    e = expm1(ax)
    large = ax > form.log_max - 2.0
    root = exp(ax * 0.5)
    return with_sign(select(large, 0.5 * root * root, 0.5 * (e + e / (e + 1.0))), sign_of(x))


def cosh(x: Val) -> Val:
    """The hyperbolic cosine."""
    form = format_of(x)
    ax = abs(x)
    root = exp(ax * 0.5)
    e = exp(ax)
    return select(ax > form.log_max - 2.0, 0.5 * root * root, 0.5 * e + 0.5 / e)


def asinh(x: Val) -> Val:
    """The inverse hyperbolic sine."""
    form = format_of(x)
    ax = abs(x)
    large = ax > 2.0 ** (form.mantissa // 2 + 2)
    square = ax * ax
    near = ax + square / (1.0 + sqrt(1.0 + square))
    result = log1p(select(large, ax - 1.0, near)) + select(large, splat(LN2, x), 0.0)
    return with_sign(result, sign_of(x))


def acosh(x: Val) -> Val:
    """The inverse hyperbolic cosine."""
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
    """The cube root: a polynomial, and steps of Halley's method, which treble the digits."""
    form = format_of(x)
    ax = abs(x)
    normal, extra = _normal(ax)
    _, k = nearest_integer(_split_log(normal)[0] * (1 / 3))
    m = scale_by_power(normal, k * -3)
    y = horner(m, _CBRT)
    for last in (False, True):
        y = upper_half(y) if last else y  # then its square is exact
        cube = y * y * y
        y = y + y * ((m - cube) / (cube + cube + m))
    # A denormal number was multiplied by 2^(mantissa + 2).
    root = scale_by_power(y, k) * select(extra < 0.0, splat(2.0 ** (-(form.mantissa + 2) / 3), x), 1.0)
    root = select((ax > 0.0) & (ax < math.inf), root, ax)
    return with_sign(root, sign_of(x))


def power(x: Val, y: Val) -> Val:
    """x^y with the values that C gives: log and exp carry half as many digits again as the format.

    The logarithm is (t1 + t2) with t1 of half the mantissa, so that its product with half of y is exact.
    """
    form = format_of(x)
    ax = abs(x)
    normal, extra = _normal(ax)
    k, f = _split_log(normal)
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
    # Beyond this |y|, x^y overflows or vanishes for every x but 1.
    most = 2.0 ** (form.mantissa + 12)
    bounded = minimum(maximum(y, -most), most)
    y_high = upper_half(bounded)
    low, high = (bounded - y_high) * t1 + bounded * t2, y_high * t1
    limit = -1.2 * form.log_min
    total = high + low
    inside = abs(total) < limit
    p, n = _exp_parts(select(inside, high, minimum(maximum(total, -limit), limit)), select(inside, low, 0.0))
    result = scale_by_power(1.0 + p, n)
    edge = eq(ax, 0.0) | eq(ax, math.inf)
    vanishes = eq(ax < 1.0, y > 0.0)
    result = select(edge, select(vanishes, splat(0.0, x), math.inf), result)
    whole = eq(floor(y), y)
    half = y * 0.5
    odd = whole & ne(floor(half), half)
    result = flip_sign(result, select(odd, sign_of(x), splat(0, x, form.bits)))
    result = select((x < 0.0) & ~whole & (x > -math.inf), math.nan, result)
    result = select(is_nan(x) | is_nan(y), math.nan, result)
    return select(eq(y, 0.0) | eq(x, 1.0), 1.0, result)


def logistic(x: Val) -> Val:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + exp(-x))


def remainder(x: Val, y: Val, loop: bool) -> Val:
    """The remainder of x / y with the sign of x: exact. Without a `loop`, for quotients up to 2^(2 mantissa)."""
    ax, ay = abs(x), abs(y)
    valid = (ax < math.inf) & (ay > 0.0)
    rest, divisor = select(valid, ax, 0.0), select(valid & (ay < math.inf), ay, 1.0)
    if loop:
        rest = _remainder_step(_remainder_step(rest, divisor), divisor)
        # Hardly ever entered; it takes one step for each half mantissa of the quotient.
        (rest,) = while_loop(
            [rest],
            lambda r: reduce_any(r >= divisor, range(r.rank)),
            lambda r: [_remainder_step(r, divisor)],
        )
    else:
        for _ in range(4):
            rest = _remainder_step(rest, divisor)
    rest = select(eq(ay, math.inf), ax, rest)
    return with_sign(select(valid, rest, math.nan), sign_of(x))


def _remainder_step(rest: Val, divisor: Val) -> Val:
    """`rest` less the part of its quotient by `divisor` that fits in half a mantissa."""
    form = format_of(rest)
    bits = bitcast(divisor, form.signed)
    ahead = sar(bitcast(rest, form.signed), form.mantissa) - sar(bits, form.mantissa)
    scale = maximum(ahead - (form.mantissa // 2 - 2), 0)
    multiple = bitcast(bits + (scale << form.mantissa), rest.dtype)
    high = upper_half(multiple)
    q = floor(rest / multiple)
    # Both products are exact, and so are the differences, as they are small multiples of the last digit.
    rest = (rest - q * high) - q * (multiple - high)
    rest = select(rest < 0.0, rest + multiple, rest)
    return select(rest >= multiple, rest - multiple, rest)
