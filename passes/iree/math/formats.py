"""The formats of real numbers as bits, on which the formulas of the elementary functions are built.

The formulas for float32 and float64 have no branches, so they vectorise and also work in the body of a reduction. They
rely on IEEE arithmetic, and stay right if a product and a sum are contracted into one rounding. Vulkan drivers also
reassociate (Mesa replaces (a + b) - b by a), so expressions that must be rounded as written use `rounded`. Coefficients
are near-minimax (Chebyshev) fits made with mpmath to less than 1/20 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nabla_mlir.dialects.builder import Val, binary, bitcast, maximum, ne, splat
from nabla_mlir.passes.iree.target import machine


@dataclass(frozen=True)
class Format:
    """A float format: its bits, and coefficients that are accurate enough for it."""

    dtype: np.dtype
    bits: np.dtype  # unsigned integers of the same width
    signed: np.dtype
    mantissa: int  # explicit bits
    bias: int
    half: int  # a mask for half of the mantissa, so that products of two halves are exact
    smallest: float  # the smallest normal number
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
        """The number of this format nearest to `x`."""
        return self.dtype.type(x).item()

    @property
    def half_pi_low(self) -> float:
        """pi/2 minus the nearest number of this format."""
        return math.pi / 2 - self.round(math.pi / 2) if self is F32 else 6.123233995736766e-17

    @property
    def ln2_low(self) -> float:
        """The difference ln 2 - ln2_high, from 80 bits of ln 2."""
        return float((0xB17217F7D1CF79ABC9E3 - int(self.ln2_high * 2.0**60) * 2**20) * 2.0**-80)

    @property
    def magic(self) -> float:
        """The number m for which the low bits of x + m are the integer nearest to x."""
        return 1.5 * 2.0**self.mantissa


F32 = Format(
    np.dtype(np.float32),
    np.dtype(np.uint32),
    np.dtype(np.int32),
    23,
    127,
    0xFFFFF000,
    2.0**-126,
    88.8,
    -104.0,
    0.693145751953125,
    (-0.1666666666385529, 0.008333331874710208, -0.00019840086735384846, 2.724992580305979e-06),
    (0.04166666465950221, -0.0013888303035894866, 2.4547942085071572e-05),
    (-0.3333333176116852, 0.19999540483648964, -0.1426395559798464, 0.10743731490791084, -0.06451928208121749),
    (0.16666666666666666, 0.04166655421298415, 0.008333320842276708, 0.0013926250831497611, 0.00019882773016255759),
    (0.6666666655445165, 0.40000121876972, 0.2855081659971155, 0.23330581938241893),
    (0.20000007527877692, 0.14281118049218647, 0.11524119050805677),
)
F64 = Format(
    np.dtype(np.float64),
    np.dtype(np.uint64),
    np.dtype(np.int64),
    52,
    1023,
    0xFFFFFFFFF8000000,
    2.0**-1022,
    709.9,
    -745.5,
    float.fromhex("0x1.62e42fee00000p-1"),
    (
        -0.16666666666666666,
        0.008333333333333331,
        -0.00019841269841265065,
        2.7557319219339167e-06,
        -2.5052106232447578e-08,
        1.6058531618986147e-10,
        -7.586697117706918e-13,
    ),
    (
        0.041666666666666664,
        -0.0013888888888887398,
        2.480158729876569e-05,
        -2.7557317271729793e-07,
        2.08761462684032e-09,
        -1.1382632425521717e-11,
    ),
    (
        -0.3333333333333333,
        0.19999999999999804,
        -0.14285714285659828,
        0.11111111105155447,
        -0.09090908753500877,
        0.07692296375032143,
        -0.06666424885738255,
        0.05878928997834775,
        -0.05230454270650244,
        0.04551593220626549,
        -0.034570561981427744,
        0.016285756855221028,
    ),
    (
        0.16666666666666669,
        0.041666666666666664,
        0.008333333333330039,
        0.0013888888888886537,
        0.00019841269863171557,
        2.4801587317228724e-05,
        2.7557268276905696e-06,
        2.7557282838800484e-07,
        2.5100472505694996e-08,
        2.09112987659402e-09,
    ),
    (
        0.6666666666666666,
        0.4000000000000088,
        0.2857142857080323,
        0.2222222239180047,
        0.18181795630884753,
        0.15386240205813478,
        0.13268759668560612,
        0.13086767009948175,
    ),
    (
        0.20000000000000012,
        0.14285714285669254,
        0.1111111113555117,
        0.09090904123772271,
        0.07692787398231016,
        0.06642978717596676,
        0.06456808836091125,
    ),
)


def rounded(x: Val) -> Val:
    """The value `x` passed through a barrier, so that compilers on Vulkan do not reassociate it."""
    return x if machine().codegen.order else maximum(x, -float(np.finfo(x.dtype).max))


def format_of(x: Val) -> Format:
    """The format of a float32 or float64 value."""
    return F64 if x.dtype == F64.dtype else F32


def has_format(x: Val) -> bool:
    """True if `x` is float32 or float64."""
    return x.dtype in (F32.dtype, F64.dtype)


def horner(x: Val, coefficients: Sequence[float]) -> Val:
    """The polynomial c[0] + x (c[1] + x (...)) of the coefficients c."""
    result: Val | None = None
    for c in reversed(coefficients):
        result = splat(c, x) if result is None else result * x + c
    assert result is not None
    return result


def sign_of(x: Val) -> Val:
    """The bits of `x`, of which all but the sign bit are set to zero."""
    form = format_of(x)
    return bitcast(x, form.bits) & form.sign


def with_sign(magnitude: Val, sign: Val) -> Val:
    """The number `magnitude`, whose sign bit is clear, with the sign bit `sign` from `sign_of`."""
    return bitcast(bitcast(magnitude, sign.dtype) | sign, magnitude.dtype)


def flip_sign(x: Val, sign: Val) -> Val:
    """`x` negated where the sign bit of `sign` is set."""
    return bitcast(bitcast(x, sign.dtype) ^ sign, x.dtype)


def upper_half(x: Val) -> Val:
    """`x` truncated to half of its mantissa."""
    form = format_of(x)
    return bitcast(bitcast(x, form.bits) & form.half, x.dtype)


def is_nan(x: Val) -> Val:
    """True where `x` is NaN."""
    return ne(x, x)


def scale_by_power(x: Val, k: Val) -> Val:
    """The product x * 2^k for an integer k from -2 bias to 2 bias, with one rounding; k has the width of x."""
    form = format_of(x)
    half = sar(k, 1)
    first, second = half + form.bias, k - half + form.bias
    mantissa = form.mantissa
    return x * bitcast(first << mantissa, x.dtype) * bitcast(second << mantissa, x.dtype)


def sar(x: Val, bits: int) -> Val:
    """The integer x, shifted right by `bits` so that the sign is shifted in."""
    return binary("stablehlo.shift_right_arithmetic", x, bits)


def nearest_integer(x: Val) -> tuple[Val, Val]:
    """The integer nearest to `x`, as a float and as a signed integer of the same width, for |x| < 2^(mantissa - 1)."""
    form = format_of(x)
    # Magic is 1.5 * 2^mantissa. Around it, neighbouring floats differ by 1, so the addition rounds x to an integer, and the bits of
    # the sum minus the bits of magic are this integer. A larger |x| would change the exponent of the sum.
    total = rounded(x + form.magic)
    integer = bitcast(total, form.signed) - int(np.asarray(form.magic, form.dtype).view(form.signed))
    return total - form.magic, integer


def sign_is_set(x: Val) -> Val:
    """True where the sign bit is set, also for -0."""
    return bitcast(x, format_of(x).signed) < 0
