"""The types of PTX as types of NumPy, and the conversions that NumPy does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BITS = {
    "pred": 1,
    "b8": 8,
    "u8": 8,
    "s8": 8,
    "b16": 16,
    "u16": 16,
    "s16": 16,
    "f16": 16,
    "bf16": 16,
    "b32": 32,
    "u32": 32,
    "s32": 32,
    "f32": 32,
    "b64": 64,
    "u64": 64,
    "s64": 64,
    "f64": 64,
    "f16x2": 32,
    "bf16x2": 32,
    "s16x2": 32,
    "u16x2": 32,
    "tf32": 32,
}
UNSIGNED: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED: dict[int, Any] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
# bf16, tf32 and pairs have no type in NumPy: their bits are unsigned.
DTYPES: dict[str, Any] = {
    kind: _SIGNED[bits] if kind[0] == "s" and kind in ("s8", "s16", "s32", "s64") else UNSIGNED[bits] for kind, bits in BITS.items()
} | _FLOATS
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "s16x2": "s16", "u16x2": "u16"}


def bf16_to_f32(bits: Array) -> Array:
    """The f32 numbers of bits of bf16."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(x: Array, mode: str = "rn") -> Array:
    """The bits of bf16 of f32 numbers: to nearest, ties to even ("rn"), or toward zero ("rz"). NaN becomes 0x7FFF, as on GPUs."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    if mode == "rn":
        bits = bits.astype(np.uint64) + np.uint64(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(x), np.uint16(0x7FFF), (bits >> 16).astype(np.uint16))


def round_to_tf32(x: Array) -> Array:
    """The bits of f32 numbers of which tf32 has the upper 19: to nearest, ties away from zero (cvt.rna)."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + np.uint64(0x1000)) & np.uint64(0xFFFFE000)).astype(np.uint32)
    return np.where(np.isfinite(x), rounded, bits)


def tf32_to_f32(bits: Array) -> Array:
    """The f32 numbers that a tensor core reads from the bits of tf32: it ignores the lowest 13."""
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def half_to_f32(kind: str, bits: Array) -> Array:
    """The f32 numbers of bits of f16 or bf16."""
    return bf16_to_f32(bits) if kind == "bf16" else bits.view(np.float16).astype(np.float32)


def f32_to_half(kind: str, x: Array, mode: str = "rn") -> Array:
    """The bits of f16 or bf16 of f32 numbers."""
    return f32_to_bf16(x, mode) if kind == "bf16" else x.astype(np.float16).view(np.uint16)


def flushed(x: Array) -> Array:
    """The numbers with zeros of the same sign instead of subnormal ones (.ftz)."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def fused(x: Array, y: Array, z: Array) -> Array:
    """The numbers x y + z, rounded once; of f64 twice, where the sum of the product's two parts is inexact."""
    if x.dtype != np.float64:
        return (x.astype(np.float64) * y + z).astype(x.dtype)
    product = x * y
    half = np.float64(2**27 + 1)  # Dekker: the halves of each factor
    xh, yh = x * half - (x * half - x), y * half - (y * half - y)
    xl, yl = x - xh, y - yh
    product_rest = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    total = product + z
    back = total - product
    total_rest = (product - (total - back)) + (z - back)
    rest = product_rest + total_rest
    return np.where(np.isfinite(rest), total + rest, total)


def to_integer(x: Array, to: str, source: str) -> Array:
    """Whole floating-point numbers as integers: the nearest of the type, and for NaN what PTX states."""
    info = np.iinfo(DTYPES[to])
    wide = x.astype(np.float64)
    # float(info.max) may be 1 above the largest number, where the conversion has no defined value.
    inside = (wide >= float(info.min)) & (wide < float(info.max))
    result = np.where(inside, wide, 0).astype(DTYPES[to])
    result = np.where(wide >= float(info.max), info.max, result)
    result = np.where(wide < float(info.min), info.min, result)
    nan = (info.min if info.min else info.max // 2 + 1) if source == "f64" or BITS[to] == 64 else 0
    return np.where(np.isnan(wide), nan, result).astype(DTYPES[to])
