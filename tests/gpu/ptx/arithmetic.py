"""Arithmetic, the same in each thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu.ptx.numbers import BITS, DTYPES, PAIRS, WIDE, Array, f32_to_half, flushed, fused, half_to_f32
from gpu.ptx.parser import Instruction, Operand
from gpu.ptx.threads import Threads


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    # Integers are divided toward zero; PTX leaves open what a division by zero gives: here all bits are set.
    quotient = np.floor_divide(x, np.where(y == 0, 1, y).astype(x.dtype))
    if x.dtype.kind == "i":
        quotient = quotient + ((quotient * y != x) & ((x < 0) != (y < 0)))
    return np.where(y == 0, ~np.zeros_like(x), quotient).astype(x.dtype)


def _remainder(x: Array, y: Array) -> Array:
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y).astype(x.dtype))).astype(x.dtype)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "neg": np.negative,
    "abs": np.abs,
    "min": np.fmin,
    "max": np.fmax,
    "div": _divide,
    "rem": _remainder,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "copysign": lambda x, y: np.copysign(y, x),
    "fma": fused,
}


def elementwise(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A function of operands of one type: a number, or a pair of halves or of 16-bit integers."""
    kind = i.kind
    function = FUNCTIONS[i.name]
    if i.has("NaN"):
        function = {"min": np.minimum, "max": np.maximum}[i.name]
    if i.has("rz", "rna") or (i.has("sat") and kind not in ("f16", "f32", "f64")):
        raise i.unsupported()
    if kind in PAIRS:
        halves = [_of_kind(t, i, function, PAIRS[kind], shift) for shift in (0, 16)]
        low, high = (x.view(np.uint16).astype(np.uint32) for x in halves)
        t.put(i.operands[0], low | high << np.uint32(16), mask)
    else:
        t.put(i.operands[0], _of_kind(t, i, function, kind), mask)


def _of_kind(t: Threads, i: Instruction, function: Callable[..., Array], kind: str, shift: int | None = None) -> Array:
    """The bits of the function of operands of a type, or of the half of each that is shifted by so many bits."""

    def given(operand: Operand) -> Array:
        if shift is None:
            bits = t.get(operand, kind)
        else:
            bits = (t.get(operand, "b32") >> np.uint32(shift)).astype(np.uint16).view(DTYPES[kind])
        return half_to_f32(kind, bits) if kind in ("bf16", "f16") else bits

    operands = [given(x) for x in i.operands[1:]]
    ftz = i.has("ftz") and operands[0].dtype == np.float32
    result = function(*map(flushed, operands)) if ftz else function(*operands)
    result = flushed(result) if ftz else result
    if i.has("sat"):
        result = np.where(np.isnan(result), 0, np.clip(result, 0, 1)).astype(result.dtype)
    return f32_to_half(kind, result) if kind in ("bf16", "f16") else result


def mul(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A product; of integers the lower half, the upper half, or both."""
    kind = i.kind
    if i.has("wide"):
        x, y = (t.get(a, kind).astype(DTYPES[WIDE[kind]]) for a in i.operands[1:])
        t.put(i.operands[0], x * y, mask)
    elif i.has("hi"):
        x, y = (t.get(a, kind) for a in i.operands[1:])
        t.put(i.operands[0], _upper(x, y, BITS[kind]), mask)
    else:
        elementwise(t, i, mask)


def _upper(x: Array, y: Array, bits: int) -> Array:
    """The upper half of the products of integers."""
    if bits < 64:
        wide: Any = np.int64 if x.dtype.kind == "i" else np.uint64
        return ((x.astype(wide) * y.astype(wide)) >> wide(bits)).astype(x.dtype)
    # Python's integers have as many bits as a product needs.
    return ((x.astype(object) * y.astype(object)) >> bits).astype(x.dtype)


def mad(t: Threads, i: Instruction, mask: Array | None) -> None:
    """x y + z of integers, of the lower half of the product or of all of it; of f32 as fma."""
    kind = i.kind
    if kind in ("f32", "f64"):
        fma(t, i, mask)
        return
    to = WIDE[kind] if i.has("wide") else kind
    x, y = (t.get(a, kind).astype(DTYPES[to]) for a in i.operands[1:3])
    t.put(i.operands[0], x * y + t.get(i.operands[3], to), mask)


def fma(t: Threads, i: Instruction, mask: Array | None) -> None:
    """x y + z, rounded once."""
    kind = i.kind
    if i.has("rz", "rna"):
        raise i.unsupported()
    if kind in PAIRS:
        low, high = (_of_kind(t, i, fused, PAIRS[kind], shift).view(np.uint16).astype(np.uint32) for shift in (0, 16))
        t.put(i.operands[0], low | high << np.uint32(16), mask)
    else:
        t.put(i.operands[0], _of_kind(t, i, fused, kind), mask)
