"""Elementwise operations for which NumPy has no equal function: integers, booleans, signed zeros, total order."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.interpreter.evaluations import evaluation

_COMPARISONS = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}


@evaluation("stablehlo.divide")
def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quotient x / y; for integers truncated, and with all bits set if y is 0."""
    if x.dtype.kind == "c":
        return _complex_quotient(x, y)
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    is_minus = y == -1 if x.dtype.kind == "i" else np.zeros_like(y, bool)  # the least integer has no quotient by -1
    safe = np.where((y == 0) | is_minus, y.dtype.type(1), y)
    quotient = np.where(is_minus, np.negative(x), (x - np.fmod(x, safe)) // safe)
    return np.where(y == 0, ~np.zeros_like(x), quotient)


def _complex_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quotient x / y of complex numbers; where NumPy gives NaN, the value of annex G of C99.

    There, finite / infinite is 0, and infinite / finite is infinite.
    """
    quotient = np.asarray(np.divide(x, y))
    is_infinite_by_finite = (np.isinf(x.real) | np.isinf(x.imag)) & np.isfinite(y)
    is_finite_by_infinite = (np.isinf(y.real) | np.isinf(y.imag)) & np.isfinite(x)
    is_by_zero = y == 0
    has_infinity = is_infinite_by_finite | is_finite_by_infinite
    is_corrected = is_by_zero | (has_infinity & np.isnan(quotient.real) & np.isnan(quotient.imag))
    if not is_corrected.any():
        return quotient
    (p, q), (r, s) = _parts_for_annex_g(x, is_infinite_by_finite), _parts_for_annex_g(y, is_finite_by_infinite)
    factor = np.where(is_infinite_by_finite, np.inf, 0.0).astype(p.dtype)
    infinity = np.copysign(np.inf, y.real).astype(p.dtype)
    re = np.where(is_by_zero, infinity * x.real, factor * (p * r + q * s))
    im = np.where(is_by_zero, infinity * x.imag, factor * (q * r - p * s))
    return np.where(is_corrected, complex_(re, im), quotient)


def _parts_for_annex_g(z: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The real and imaginary parts; at `where`, infinite parts become 1 and finite ones 0, with their signs."""
    re, im = (np.where(where, np.copysign(np.isinf(part), part), part).astype(part.dtype) for part in (z.real, z.imag))
    return re, im


@evaluation("stablehlo.remainder")
def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The remainder x - trunc(x / y) y, with the sign of x; for integers x itself if y is 0."""
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    safe = np.where((y == 0) | (y == -1 if x.dtype.kind == "i" else False), y.dtype.type(1), y)
    return np.where(y == 0, x, np.fmod(x, safe))


@evaluation("stablehlo.power")
def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The power x ** y; for integers with a negative exponent 0, except if x is 1 or -1."""
    if x.dtype.kind != "i":
        return np.power(x, y)
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2, -1, 1), 0))
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


@evaluation("stablehlo.negate")
def negate(x: np.ndarray) -> np.ndarray:
    """-x; of unsigned numbers modulo their range."""
    return np.negative(x)


@evaluation("stablehlo.sign")
def sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; signed zeros and NaN stay as they are."""
    return np.where(x == 0, x, np.sign(x))


@evaluation("stablehlo.exponential")
def exponential(x: np.ndarray) -> np.ndarray:
    """e to the power x. NumPy's float32 function is off by up to 2.5 units in the last place, so float32 is computed in float64."""
    return np.exp(x.astype(np.float64)).astype(np.float32) if x.dtype == np.float32 else np.exp(x)


@evaluation("stablehlo.logistic")
def logistic(x: np.ndarray) -> np.ndarray:
    """The function 1 / (1 + exp(-x)), computed without overflow if x is very negative."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small / (1 + small), 1 / (1 + small))


@evaluation("stablehlo.rsqrt")
def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    return x.dtype.type(1) / np.sqrt(x)


@evaluation("stablehlo.round_nearest_afz")
def round_nearest_afz(x: np.ndarray) -> np.ndarray:
    """The nearest integer, ties away from zero."""
    truncated = np.trunc(x)
    return np.where(np.abs(x - truncated) >= 0.5, truncated + np.copysign(1, x), truncated)


def _bits(x: np.ndarray) -> int:
    return 8 * x.dtype.itemsize


@evaluation("stablehlo.shift_left")
def shift_left(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x << y; 0 if all bits are shifted out."""
    is_empty = (y < 0) | (y >= _bits(x))
    return np.where(is_empty, 0, np.left_shift(x, np.where(is_empty, 0, y)))


@evaluation("stablehlo.shift_right_logical")
def shift_right_logical(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns x shifted right by y bits; zeros come in from the left."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    is_empty = (y < 0) | (y >= _bits(x))
    moved_by = np.where(is_empty, 0, y).astype(unsigned)
    return np.where(is_empty, 0, np.right_shift(x.view(unsigned), moved_by)).astype(unsigned).view(x.dtype)


@evaluation("stablehlo.shift_right_arithmetic")
def shift_right_arithmetic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns x shifted right by y bits; copies of the sign come in from the left."""
    signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    is_empty = (y < 0) | (y >= _bits(x))
    return np.right_shift(signed, np.where(is_empty, _bits(x) - 1, y).astype(signed.dtype)).view(x.dtype)


@evaluation("stablehlo.compare")
def compare(x: np.ndarray, y: np.ndarray, comparison_direction: str, compare_type: str | None) -> np.ndarray:
    """The comparison of x with y as booleans.

    In total order, floats are compared as -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
    """
    if compare_type == "TOTALORDER":
        x, y = total_order(x), total_order(y)
    return _COMPARISONS[comparison_direction](x, y)


def total_order(x: np.ndarray) -> np.ndarray:
    """Integers in the total order of the floats x; for complex numbers their rank by real part, then by imaginary part."""
    if x.dtype.kind == "c":
        return np.unique(x, return_inverse=True)[1].reshape(x.shape)
    if x.dtype.kind in "iub":
        return x
    bits = np.ascontiguousarray(x).view(np.dtype(f"i{x.dtype.itemsize}")).reshape(x.shape)
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


@evaluation("stablehlo.select")
def select(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where the condition holds, y where not."""
    return np.where(condition, x, y)


@evaluation("stablehlo.clamp")
def clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    """x within bounds; the upper bound if they cross."""
    return np.minimum(np.maximum(x, low), high)


@evaluation("stablehlo.convert")
def convert(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array in another dtype.

    Complex numbers lose the imaginary part, booleans are x != 0, and floats are truncated into the range of integers.
    """
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b":
        return x != 0
    if dtype.kind in "iu" and x.dtype.kind not in "iub":
        return _clipped_integers(x, dtype)
    return x.astype(dtype)


def _clipped_integers(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats as integers, truncated and clipped to the range of the dtype; NaN becomes 0."""
    limits = np.iinfo(dtype)
    wide = x.astype(np.float64)
    inside = (wide > limits.min - 1.0) & (wide < limits.max + 1.0)
    integers = np.where(inside, wide, 0).astype(dtype)
    return np.where(inside | np.isnan(wide), integers, np.where(wide < 0, limits.min, limits.max).astype(dtype))


@evaluation("stablehlo.complex")
def complex_(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + i y."""
    out = np.empty(x.shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    out.real, out.imag = x, y
    return out


@evaluation("stablehlo.real")
def real(x: np.ndarray) -> np.ndarray:
    """The real part."""
    return np.real(x)


@evaluation("stablehlo.imag")
def imag(x: np.ndarray) -> np.ndarray:
    """The imaginary part; 0 of real numbers."""
    return np.imag(x)


@evaluation("chlo.conj")
def conj(x: np.ndarray) -> np.ndarray:
    """The complex conjugate."""
    return np.conj(x)


@evaluation("stablehlo.reduce_precision")
def reduce_precision(x: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """The values x rounded to floats with so many bits: to nearest even, infinite above the range of these floats, 0 below it."""
    info = limits_of(x.dtype)
    bits = np.ascontiguousarray(x).view(np.dtype(f"u{x.dtype.itemsize}")).reshape(x.shape)
    cut = info.nmant - mantissa_bits
    if cut > 0:
        unit = bits.dtype.type(1 << cut)
        # Half of the new last digit, plus the digit itself, rounds ties to an even digit.
        half = bits.dtype.type((1 << (cut - 1)) - 1)
        bits = (bits + half + (bits >> bits.dtype.type(cut) & bits.dtype.type(1))) & ~(unit - bits.dtype.type(1))
    y = bits.view(x.dtype)
    bias = (1 << (exponent_bits - 1)) - 1
    if bias < info.maxexp - 1:
        y = np.where(np.abs(y) >= x.dtype.type(2) ** (bias + 1), np.copysign(x.dtype.type(np.inf), x), y)
        y = np.where(np.abs(y) < x.dtype.type(2) ** (1 - bias), np.copysign(x.dtype.type(0), x), y)
    return np.where(np.isnan(x), x, y)


@evaluation("chlo.next_after")
def next_after(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The next number in the dtype of the operands; in a wider dtype it would be rounded back."""
    return np.nextafter(x, y)


@evaluation("stablehlo.optimization_barrier")
def optimization_barrier(*xs: np.ndarray) -> Any:
    """The operands themselves."""
    return list(xs)


@evaluation("ad.name", "ad.stop_gradient")
def itself(x: np.ndarray, **_: Any) -> np.ndarray:
    """The operand itself."""
    return x


@evaluation("chlo.constant_like")
def constant_like(x: np.ndarray, value: Any) -> np.ndarray:
    """A constant of the operand's shape and type."""
    return np.full(x.shape, value, x.dtype)


@evaluation("chlo.mulhi")
def mulhi(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper half of the bits of a product of integers."""
    wide = x.astype(object) * y.astype(object)
    return np.asarray(wide // (1 << _bits(x))).astype(x.dtype)
