"""Conversions, comparisons and selections of the PTX interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gpu.ptx.numbers import DTYPES
from gpu.ptx.support import each, run

RNG = np.random.default_rng(2)
NAN = np.float32(np.nan)


@pytest.mark.parametrize(("mode", "f"), [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)])
def test_floats_to_integers(mode: str, f: np.ufunc) -> None:
    x = np.array([0.5, 1.5, -0.5, -1.5, 2.4, -2.6, 1e20, -1e20, np.inf, -np.inf, 3e9, 200, -129], np.float32)
    for kind in ("s32", "u32", "s64", "u64", "s16", "u8"):
        info = np.iinfo(DTYPES[kind])
        exact = [min(max(int(f(a)), info.min), info.max) if np.isfinite(a) else (info.max if a > 0 else info.min) for a in x]
        to = kind if kind != "u8" else "u16"  # registers of 8 bits are stored as 16
        found = each(f"cvt.{mode}.{kind}.f32 {{}}, {{0}}", to, ("f32", x)).view(DTYPES[to])
        assert found.tolist() == exact, kind


def test_nan_to_integers() -> None:
    x = np.array([np.nan], np.float32)
    assert each("cvt.rzi.s32.f32 {}, {0}", "s32", ("f32", x))[0] == 0
    assert each("cvt.rzi.u64.f32 {}, {0}", "u64", ("f32", x))[0] == 2**63
    assert each("cvt.rzi.s32.f64 {}, {0}", "s32", ("f64", x.astype(np.float64)))[0] == 2**31


def test_integers_to_floats_and_to_each_other() -> None:
    x = RNG.integers(-(2**63), 2**63 - 1, 32, np.int64)
    np.testing.assert_array_equal(each("cvt.rn.f32.s64 {}, {0}", "f32", ("s64", x)).view(np.float32), x.astype(np.float32))
    np.testing.assert_array_equal(
        each("cvt.rn.f64.u64 {}, {0}", "f64", ("u64", x)).view(np.float64), x.view(np.uint64).astype(np.float64)
    )
    np.testing.assert_array_equal(each("cvt.u32.u64 {}, {0}", "u32", ("u64", x)), x.view(np.uint64).astype(np.uint32))
    y = x.astype(np.int32)
    np.testing.assert_array_equal(each("cvt.s64.s32 {}, {0}", "s64", ("s32", y)).view(np.int64), y.astype(np.int64))
    np.testing.assert_array_equal(each("cvt.u64.u32 {}, {0}", "u64", ("u32", y)), y.view(np.uint32).astype(np.uint64))
    np.testing.assert_array_equal(each("cvt.s32.s8 {}, {0}", "s32", ("s32", y)).view(np.int32), y.astype(np.int8))
    np.testing.assert_array_equal(
        each("cvt.sat.s16.s32 {}, {0}", "s16", ("s32", y)).view(np.int16), np.clip(y, -(2**15), 2**15 - 1)
    )


def test_floats_to_narrower_floats() -> None:
    x = np.concatenate([RNG.standard_normal(27), [65519, 65520, np.inf, np.nan, 1e-7]]).astype(np.float32)
    half, brain = (np.dtype(d) for d in (np.float16, ml_dtypes.bfloat16))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(each("cvt.rn.f16.f32 {}, {0}", "f16", ("f32", x)).view(half), x.astype(half))
        for kind, dtype in (("f16x2", half), ("bf16x2", brain)):
            pair = (
                each(f"cvt.rn.{kind}.f32 {{}}, {{0}}, {{1}}", "b32", ("f32", x), ("f32", x[::-1].copy())).view(dtype).reshape(-1, 2)
            )
            np.testing.assert_array_equal(
                pair[:, 1].astype(np.float32), x.astype(dtype).astype(np.float32)
            )  # the first is the upper half
            np.testing.assert_array_equal(pair[:, 0].astype(np.float32), x[::-1].astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(
        each("cvt.rn.f32.f64 {}, {0}", "f32", ("f64", x.astype(np.float64) / 3)).view(np.float32),
        (x.astype(np.float64) / 3).astype(np.float32),
    )
    y = x[:27]
    toward_zero = each("cvt.rz.bf16.f32 {}, {0}", "bf16", ("f32", y)).astype(np.uint32) << 16
    np.testing.assert_array_equal(toward_zero, y.view(np.uint32) & 0xFFFF0000)
    tf32 = each("cvt.rna.tf32.f32 {}, {0}", "b32", ("f32", y))
    np.testing.assert_array_equal(tf32 & 0x1FFF, 0)
    np.testing.assert_allclose(tf32.view(np.float32), y, rtol=2.0**-11)
    z = y.astype(np.float64) / 3
    down = each("cvt.rz.f32.f64 {}, {0}", "f32", ("f64", z)).view(np.float32).astype(np.float64)
    assert (np.abs(down) <= np.abs(z)).all()
    np.testing.assert_allclose(down, z, rtol=2.0**-23)


def test_whole_floats() -> None:
    x = np.array([0.5, 1.5, -0.5, -2.5, 3.7], np.float32)
    for mode, f in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        np.testing.assert_array_equal(each(f"cvt.{mode}.f32.f32 {{}}, {{0}}", "f32", ("f32", x)).view(np.float32), f(x))


def test_comparisons_of_floats_with_nan() -> None:
    x, y = np.array([1, 2, 1, NAN, NAN], np.float32), np.array([1, 1, 2, 1, NAN], np.float32)
    given = ("f32", x), ("f32", y)
    numbers = {"eq": x == y, "ne": (x != y) & ~np.isnan(x), "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    for name, expected in numbers.items():
        assert each(f"setp.{name}.f32 {{}}, {{0}}, {{1}}", "pred", *given).tolist() == expected.tolist(), name
        unordered = expected | np.isnan(x)
        assert each(f"setp.{name}u.f32 {{}}, {{0}}, {{1}}", "pred", *given).tolist() == unordered.tolist(), name
    assert each("setp.nan.f32 {}, {0}, {1}", "pred", *given).tolist() == [0, 0, 0, 1, 1]
    assert each("setp.num.f32 {}, {0}, {1}", "pred", *given).tolist() == [1, 1, 1, 0, 0]


def test_comparisons_of_integers() -> None:
    x, y = np.array([0, 2**31, 5, 5], np.uint32), np.array([2**31, 0, 5, 6], np.uint32)
    given = ("u32", x), ("u32", y)
    assert each("setp.lt.u32 {}, {0}, {1}", "pred", *given).tolist() == [1, 0, 0, 1]
    assert each("setp.lt.s32 {}, {0}, {1}", "pred", *given).tolist() == [0, 1, 0, 1]
    assert each("setp.hi.u32 {}, {0}, {1}", "pred", *given).tolist() == [0, 1, 0, 0]
    text = "setp.lt.u32 %p2, {0}, {1}; setp.eq.and.u32 {}, {0}, {0}, %p2; and.pred {}, {}, %p2; not.pred {}, {}"
    assert each(text, "pred", *given).tolist() == [0, 1, 1, 0]
    assert each("setp.lt.u32 %p2|{}, {0}, {1}", "pred", *given).tolist() == [0, 1, 1, 0]


def test_selections_and_packed_moves() -> None:
    x, y = (RNG.integers(0, 2**32, 32, np.uint64).astype(np.uint32) for _ in range(2))
    found = each("setp.lt.u32 %p2, {0}, {1}; selp.b32 {}, {0}, {1}, %p2", "b32", ("u32", x), ("u32", y))
    np.testing.assert_array_equal(found, np.minimum(x, y))
    found = each("mov.b64 {}, {{{{{0}, {1}}}}}".replace("{{{{", "{{").replace("}}}}", "}}"), "b64", ("u32", x), ("u32", y))
    np.testing.assert_array_equal(found, x.astype(np.uint64) | y.astype(np.uint64) << np.uint64(32))
    found = each("mov.b32 {{%h1, %h2}}, {0}; mov.b32 {}, {{%h2, %h1}}", "b32", ("u32", x))
    np.testing.assert_array_equal(found, x << 16 | x >> 16)


def test_numbers_in_the_text() -> None:
    body = "mov.f32 %f1, 0f3FC00000; st.global.f32 [%d1], %f1; mov.f64 %g1, 0d3FF8000000000000; st.global.f64 [%d1+8], %g1; mov.u32 %r1, -2; st.global.u32 [%d1+4], %r1;"
    (found,), _ = run(body, [np.zeros(4, np.uint32)], threads=1)
    assert found[:1].view(np.float32)[0] == 1.5
    assert found[1] == 2**32 - 2
    assert found[2:].view(np.float64)[0] == 1.5
