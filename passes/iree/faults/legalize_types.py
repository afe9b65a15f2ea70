"""Numbers that IREE converts wrongly or not at all: truth values, unsigned, narrow and random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import BOOL, Val, eq, ne, select
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_float
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.math.formats import has_format
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, attributes_of, on_signed_numbers, operands

PATTERNS = Patterns()

F32 = np.dtype(np.float32)


@PATTERNS.of("stablehlo.add")
def add(op: ir.Operation, target: Target) -> Replacement:
    """A sum of truth values as `or`, which is StableHLO's definition; None for other dtypes. IREE adds them modulo 2."""
    x = Val(op.operands[0])
    if x.dtype != BOOL:
        return None
    y = Val(op.operands[1])
    return x | y


@PATTERNS.of("stablehlo.divide", "stablehlo.remainder")
def divide(op: ir.Operation, target: Target) -> Replacement:
    """A division of 16-bit integers in f32, because LLVM's code generator for CUDA crashes on one by a constant; else None.

    It also narrows wider integers to 16 bits, so these do not help. f32 is exact enough: the distance of the quotient from the next
    integer is larger than its rounding error.
    """
    x, y = operands(op)
    if target.short_divisions or x.dtype.kind not in "iu" or x.dtype.itemsize != 2:
        return None
    is_zero = eq(y, 0)
    divisor = select(is_zero, 1, y)
    exact = b.convert(x, F32) / b.convert(divisor, F32)
    quotient = b.convert(b.op("stablehlo.convert", exact, type=b.like(x, np.int32), final=True), x.dtype)
    if op.name == "stablehlo.divide":
        return select(is_zero, -1 if x.dtype.kind == "i" else 0xFFFF, quotient)
    return select(is_zero, x, x - quotient * divisor)


@PATTERNS.of("stablehlo.convert")
def convert(op: ir.Operation, target: Target) -> Replacement:
    """A saturating conversion from float to integer, or a conversion between floats through f32; None for others.

    IREE does not saturate: NaN and values out of range give arbitrary results. It does not compile conversions between float8 and
    f16 or f64.
    """
    (x,) = operands(op)
    source, dtype = x.dtype, Val(op.results[0]).dtype
    if is_float(source) and dtype.kind in "iu":
        return _saturating(x, dtype)
    if {source.itemsize, dtype.itemsize} in ({1, 2}, {1, 8}) and is_float(source) and is_float(dtype):
        return b.convert(b.convert(x, F32), dtype)
    return None


def _saturating(x: Val, dtype: np.dtype) -> Val:
    """A float as an integer: numbers out of range become the nearest bound, NaN becomes 0."""
    if not has_format(x):
        x = b.convert(x, F32)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    # The largest float in range: high itself, or the float below high + 1, which is a power of two.
    edge = x.dtype.type(high)
    top = edge if int(edge) == high else np.nextafter(edge, x.dtype.type(0))
    inside = b.maximum(b.minimum(x, float(top)), float(low))
    result = b.op("stablehlo.convert", inside, type=b.like(x, dtype), final=True)
    if int(top) != high:
        result = select(x >= float(high), high, result)
    return select(ne(x, x), 0, result)


@PATTERNS.of("stablehlo.count_leading_zeros")
def count_leading_zeros(op: ir.Operation, target: Target) -> Replacement:
    """The number of leading zeros by operations on 32 bits, because on Vulkan IREE compiles no others; None elsewhere."""
    (x,) = operands(op)
    bits = 8 * x.dtype.itemsize
    if target.leading_zeros or bits == 32:
        return None
    unsigned = b.bitcast(x, np.dtype(f"u{x.dtype.itemsize}")) if x.dtype.kind == "i" else x
    count = lambda v: b.unary("stablehlo.count_leading_zeros", b.convert(v, np.uint32))  # noqa: E731
    if bits < 32:
        return b.convert(count(unsigned) - (32 - bits), x.dtype)
    high = count(unsigned >> 32)
    return b.convert(select(eq(high, 32), count(unsigned) + 32, high), x.dtype)


@PATTERNS.of("stablehlo.reverse")
def reversed_unsigned(op: ir.Operation, target: Target) -> Replacement:
    """A reversal of unsigned integers on signed integers with the same bits, because IREE does not compile it."""
    return on_signed_numbers(op)


@PATTERNS.of("stablehlo.rng")
def uniform(op: ir.Operation, target: Target) -> Replacement:
    """Uniform numbers with the lower bound instead of the upper one, which is excluded: IREE may round numbers to it.

    This is frequent in narrow formats.
    """
    low, high, _ = operands(op)
    result = Val(op.results[0])
    distribution = hlo.enum("rng_distribution").decode(op.attributes["rng_distribution"])
    if distribution != "UNIFORM" or not (is_float(low.dtype) and result.static):
        return None
    draws = Val(b.make(op.name, operands(op), [result.type], attributes_of(op), final=True).results[0])
    low, high = (b.broadcast(v, result.shape, []) for v in (low, high))
    return b.select(draws < high, draws, low)


@PATTERNS.of("stablehlo.convert")
def counter_to_float(op: ir.Operation, target: Target) -> Replacement:
    """A conversion of an integer scalar to a float after a barrier, so that the device computes it; None for others.

    IREE moves scalar arithmetic on loop counters to the host, whose VM converts integers only to f32.
    """
    (x,) = operands(op)
    owner = made_by(x.value)
    name = owner.name if owner is not None else ""
    opaque = name in (hlo.OPTIMIZATION_BARRIER, "stablehlo.constant")
    dtype = Val(op.results[0]).dtype
    if x.rank or x.dtype.kind not in "iu" or not is_float(dtype) or dtype == F32 or opaque:
        return None
    return b.convert(b.held(x), dtype)


@PATTERNS.of("stablehlo.convert")
def counter_to_unsigned(op: ir.Operation, target: Target) -> Replacement:
    """A conversion of an integer scalar to unsigned as a bitcast of a signed one; None for other conversions.

    For a loop counter, IREE would else use unsigned arithmetic on the host, which its VM does not have.
    """
    (x,) = operands(op)
    dtype = Val(op.results[0]).dtype
    if x.rank or x.dtype.kind not in "iu" or dtype.kind != "u":
        return None
    width = np.dtype(f"i{dtype.itemsize}")
    signed = x if x.dtype == width else b.convert(x, width)
    return Val(b.make("stablehlo.bitcast_convert", [signed], [op.results[0].type], {}).results[0])


@PATTERNS.of("stablehlo.convert")
def truth_to_float(op: ir.Operation, target: Target) -> Replacement:
    """A conversion from boolean to float as a selection of 1 or 0; None for other conversions.

    IREE folds the conversion into a product of i1, which it refuses, and SPIR-V has no such conversion.
    """
    (x,) = operands(op)
    result = Val(op.results[0])
    if x.dtype != np.bool_ or not (is_float(result.dtype) and x.static):
        return None
    return b.select(x, b.splat(1, result), b.splat(0, result))


@PATTERNS.of("stablehlo.reverse")
def reverse(op: ir.Operation, target: Target) -> Replacement:
    """A reversal in a separate dispatch, because on Vulkan IREE cannot fuse it into a reader that uses it twice."""
    if target.reversed_operands:
        return None
    result = Val(b.make(op.name, operands(op), [op.results[0].type], attributes_of(op), final=True).results[0])
    return b.stored(result)


@register
@dataclass(frozen=True)
class LegalizeTypesPass(PatternPass):
    """Rewrite the operations that IREE computes wrongly, or not at all, for some types of numbers.

    These are sums of truth values, conversions that should saturate, unsigned counters, reversed unsigned numbers, and uniform
    numbers.

    Example: tests/filecheck/passes/legalize_types.mlir
    """

    name: ClassVar[str] = "nabla-legalize-types"
    patterns: ClassVar[Patterns] = PATTERNS
