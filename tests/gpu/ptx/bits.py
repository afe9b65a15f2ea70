"""Shifts, fields of bits and bytes, tables, counts of bits."""

from __future__ import annotations

import numpy as np

from gpu.ptx.numbers import BITS, DTYPES, UNSIGNED, Array
from gpu.ptx.parser import Instruction, Number
from gpu.ptx.threads import Threads


def shift(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A shift; of as many bits as the number has, or of more, it leaves zeros, or the sign."""
    kind = i.kind
    x, n = t.get(i.operands[1], kind), t.get(i.operands[2], "u32")
    last = BITS[kind] - 1
    count = np.minimum(n, last).astype(x.dtype)
    result = x << count if i.name == "shl" else x >> count
    sign = x >> x.dtype.type(last) if x.dtype.kind == "i" and i.name == "shr" else np.zeros_like(x)
    t.put(i.operands[0], np.where(n > last, sign, result), mask)


def funnel_shift(t: Threads, i: Instruction, mask: Array | None) -> None:
    """32 of the 64 bits of two registers, shifted together."""
    low, high, n = (t.get(a, "u32").astype(np.uint64) for a in i.operands[1:])
    n = n & np.uint64(31) if i.has("wrap") else np.minimum(n, np.uint64(32))
    both = high << np.uint64(32) | low
    result = (both << n) >> np.uint64(32) if i.has("l") else both >> n
    t.put(i.operands[0], result.astype(np.uint32), mask)


def extract(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A field of bits; of a signed type, its first bit is the sign, or the number's if the field goes beyond it."""
    kind = i.kind
    bits = BITS[kind]
    x = t.get(i.operands[1], f"u{bits}")
    start, length = (np.minimum(t.get(a, "u32") & np.uint32(255), bits).astype(np.uint64) for a in i.operands[2:])
    wide = np.where(start < bits, x.astype(np.uint64) >> np.minimum(start, np.uint64(bits - 1)), 0)
    field = wide & _ones(length)
    if kind[0] == "s":
        last = np.minimum(start + length - np.uint64(1), np.uint64(bits - 1)).astype(np.uint64)
        sign = (x.astype(np.uint64) >> last) & np.uint64(1)
        field = np.where(
            (sign == 1) & (length > 0), field | ~_ones(np.minimum(length, np.maximum(np.uint64(bits) - start, 0))), field
        )
    t.put(i.operands[0], field.astype(UNSIGNED[bits]), mask)


def insert(t: Threads, i: Instruction, mask: Array | None) -> None:
    """The second operand, of which a field of bits is the first."""
    bits = BITS[i.kind]
    x, y = (t.get(a, f"u{bits}").astype(np.uint64) for a in i.operands[1:3])
    start, length = (np.minimum(t.get(a, "u32") & np.uint32(255), bits).astype(np.uint64) for a in i.operands[3:])
    field = np.where(start < 64, _ones(length) << np.minimum(start, np.uint64(63)), 0).astype(np.uint64)
    shifted = x << np.minimum(start, np.uint64(63))
    t.put(i.operands[0], ((y & ~field) | (shifted & field)).astype(UNSIGNED[bits]), mask)


def _ones(length: Array) -> Array:
    """Numbers of 64 bits of which the lowest `length` are set."""
    length = length.astype(np.uint64)
    return np.where(length >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(length, np.uint64(63))) - np.uint64(1))


def permute(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Four of the eight bytes of two registers; a selector above 7 gives the sign of the byte."""
    if i.words != ("b32",):
        raise i.unsupported()
    x, y, selectors = (t.get(a, "u32").astype(np.uint64) for a in i.operands[1:4])
    both, result = y << np.uint64(32) | x, np.zeros(t.count, np.uint64)
    for k in range(4):
        selector = (selectors >> np.uint64(4 * k)) & np.uint64(15)
        byte = (both >> ((selector & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
        byte = np.where(selector & np.uint64(8), np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0)), byte)
        result |= byte << np.uint64(8 * k)
    t.put(i.operands[0], result.astype(np.uint32), mask)


def lookup(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Any function of three bits, by its table of eight."""
    x, y, z = (t.get(a, "u32") for a in i.operands[1:4])
    table = i.operands[4]
    if not isinstance(table, Number) or i.words != ("b32",):
        raise i.unsupported()
    result = np.zeros(t.count, np.uint32)
    for k in range(8):
        if table.value >> k & 1:
            result |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
    t.put(i.operands[0], result, mask)


def count(t: Threads, i: Instruction, mask: Array | None) -> None:
    """The number of bits that are set, or of leading zeros; the bits in reverse order; the number of the highest bit that is set."""
    kind = i.kind
    bits = BITS[kind]
    x = t.get(i.operands[1], kind)
    x = (np.where(x < 0, ~x, x) if i.name == "bfind" and x.dtype.kind == "i" else x).view(UNSIGNED[bits])
    each = (x[:, None] >> np.arange(bits).astype(x.dtype)) & x.dtype.type(1)
    if i.name == "brev":
        weights = x.dtype.type(1) << np.arange(bits - 1, -1, -1).astype(x.dtype)
        t.put(i.operands[0], np.bitwise_or.reduce(each * weights, axis=1).astype(DTYPES[f"u{bits}"]), mask)
        return
    highest = np.where(each.any(1), bits - 1 - each[:, ::-1].argmax(1), -1)
    result = {"popc": each.sum(1), "clz": bits - 1 - highest, "bfind": highest}[i.name]
    t.put(i.operands[0], result.astype(np.int64).astype(np.uint32), mask)
