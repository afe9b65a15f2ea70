"""Shifts, fields and counts of bits of the PTX interpreter against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from gpu.ptx.numbers import DTYPES
from gpu.ptx.support import each

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_beyond_the_size_leave_zeros_or_signs(bits: int) -> None:
    signed, unsigned = DTYPES[f"s{bits}"], DTYPES[f"u{bits}"]
    x = (
        RNG.integers(0, 1 << bits, 64, np.uint64, endpoint=False).astype(unsigned)
        if bits < 64
        else RNG.integers(0, 2**63, 64).astype(unsigned) * unsigned(2)
    )
    n = RNG.integers(0, bits + 4, 64).astype(np.uint32)
    n[:3] = 0, bits, 2**31
    mask = (1 << bits) - 1
    given = (f"u{bits}", x), ("u32", n)
    pairs = list(zip(x.tolist(), n.tolist(), strict=True))
    assert each(f"shl.b{bits} {{}}, {{0}}, {{1}}", f"u{bits}", *given).tolist() == [a << min(c, 99) & mask for a, c in pairs]
    assert each(f"shr.u{bits} {{}}, {{0}}, {{1}}", f"u{bits}", *given).tolist() == [a >> min(c, 99) for a, c in pairs]
    found = each(f"shr.s{bits} {{}}, {{0}}, {{1}}", f"s{bits}", *given).view(signed)
    assert found.tolist() == [a >> min(c, 99) for a, c in zip(x.view(signed).tolist(), n.tolist(), strict=True)]


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(mode: str) -> None:
    low, high = (RNG.integers(0, 2**32, 64, np.uint64).astype(np.uint32) for _ in range(2))
    n = RNG.integers(0, 40, 64).astype(np.uint32)
    count = [c & 31 if mode == "wrap" else min(c, 32) for c in n.tolist()]
    both = [b << 32 | a for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    given = ("b32", low), ("b32", high), ("b32", n)
    found = each(f"shf.l.{mode}.b32 {{}}, {{0}}, {{1}}, {{2}}", "b32", *given)
    assert found.tolist() == [x << c >> 32 & 0xFFFFFFFF for x, c in zip(both, count, strict=True)]
    found = each(f"shf.r.{mode}.b32 {{}}, {{0}}, {{1}}, {{2}}", "b32", *given)
    assert found.tolist() == [x >> c & 0xFFFFFFFF for x, c in zip(both, count, strict=True)]


@pytest.mark.parametrize("bits", [32, 64])
def test_fields(bits: int) -> None:
    x, y = (RNG.integers(0, 2**63, 96).astype(np.uint64).astype(DTYPES[f"u{bits}"]) * DTYPES[f"u{bits}"](3) for _ in range(2))
    start, length = (RNG.integers(0, bits + 1, 96).astype(np.uint32) for _ in range(2))
    fields = list(zip(x.tolist(), y.tolist(), start.tolist(), length.tolist(), strict=True))
    given = (f"u{bits}", x), ("u32", start), ("u32", length)
    found = each(f"bfe.u{bits} {{}}, {{0}}, {{1}}, {{2}}", f"u{bits}", *given)
    assert found.tolist() == [a >> p & ((1 << n) - 1) for a, _, p, n in fields]
    found = each(f"bfe.s{bits} {{}}, {{0}}, {{1}}, {{2}}", f"s{bits}", *given).view(DTYPES[f"s{bits}"])
    assert found.tolist() == [_signed(a, p, n, bits) for a, _, p, n in fields]
    found = each(f"bfi.b{bits} {{}}, {{0}}, {{1}}, {{2}}, {{3}}", f"u{bits}", (f"u{bits}", x), (f"u{bits}", y), *given[1:])
    whole = (1 << bits) - 1
    assert found.tolist() == [(b & ~(((1 << n) - 1) << p) | (a & ((1 << n) - 1)) << p) & whole for a, b, p, n in fields]


def _signed(x: int, start: int, length: int, bits: int) -> int:
    """The field with its sign, as the PTX ISA states it bit by bit."""
    sign = 0 if length == 0 else x >> min(start + length - 1, bits - 1) & 1
    digits = [x >> (start + i) & 1 if i < length and start + i < bits else sign for i in range(bits)]
    value = sum(d << i for i, d in enumerate(digits))
    return value - (1 << bits) if digits[-1] else value


def test_bytes_and_tables() -> None:
    x, y = (RNG.integers(0, 2**32, 64, np.uint64).astype(np.uint32) for _ in range(2))
    z = RNG.integers(0, 2**16, 64).astype(np.uint32)
    found = each("prmt.b32 {}, {0}, {1}, {2}", "b32", ("b32", x), ("b32", y), ("b32", z))
    for a, b, s, r in zip(x.tolist(), y.tolist(), z.tolist(), found.tolist(), strict=True):
        given = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
        picked = [(s >> 4 * i) & 15 for i in range(4)]
        assert list(r.to_bytes(4, "little")) == [(255 * (given[p & 7] >> 7)) if p & 8 else given[p & 7] for p in picked]
    given = ("b32", x), ("b32", y), ("b32", z)
    for table, f in {0x96: x ^ y ^ z, 0xE8: x & y | x & z | y & z, 0xCA: x & y | ~x & z}.items():
        np.testing.assert_array_equal(each(f"lop3.b32 {{}}, {{0}}, {{1}}, {{2}}, {table}", "b32", *given), f)


@pytest.mark.parametrize("bits", [32, 64])
def test_counts_of_bits(bits: int) -> None:
    x = np.array([0, 1, 2**31, 2**32 - 1, 12345, 77, 2**20] + [2**63, 2**40 + 5] * (bits == 64), DTYPES[f"u{bits}"])
    given = (f"u{bits}", x)
    assert each(f"popc.b{bits} {{}}, {{0}}", "u32", given).tolist() == [a.bit_count() for a in x.tolist()]
    assert each(f"clz.b{bits} {{}}, {{0}}", "u32", given).tolist() == [bits - a.bit_length() for a in x.tolist()]
    assert each(f"bfind.u{bits} {{}}, {{0}}", "s32", given).view(np.int32).tolist() == [a.bit_length() - 1 for a in x.tolist()]
    assert each(f"brev.b{bits} {{}}, {{0}}", f"u{bits}", given).tolist() == [int(f"{a:0{bits}b}"[::-1], 2) for a in x.tolist()]
