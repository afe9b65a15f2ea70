"""Arithmetic of the PTX interpreter against NumPy and Python's exact numbers."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from gpu.ptx.numbers import DTYPES, bf16_to_f32
from gpu.ptx.parser import Unsupported
from gpu.ptx.support import each

RNG = np.random.default_rng(0)
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
SPECIAL = np.array([0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4e38, 1e-38, 7, 0.1, -0.3], np.float32)


def integers(kind: str, count: int = 64) -> np.ndarray:
    info = np.iinfo(DTYPES[kind])
    ends = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 3, 5], DTYPES[kind])
    return np.concatenate([ends, RNG.integers(info.min, info.max, count - 8, DTYPES[kind], endpoint=True)])


def wrapped(x: int, kind: str) -> int:
    bits = np.dtype(DTYPES[kind]).itemsize * 8
    x &= (1 << bits) - 1
    return x - (1 << bits) if kind[0] == "s" and x >> (bits - 1) else x


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_wrap(kind: str) -> None:
    x, y = integers(kind), integers(kind)[::-1].copy()
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    bits = np.dtype(DTYPES[kind]).itemsize * 8
    for name, f in {
        f"add.{kind}": lambda a, b: a + b,
        f"sub.{kind}": lambda a, b: a - b,
        f"mul.lo.{kind}": lambda a, b: a * b,
        f"mul.hi.{kind}": lambda a, b: a * b >> bits,
        f"min.{kind}": min,
        f"max.{kind}": max,
        f"and.b{bits}": lambda a, b: a & b,
        f"or.b{bits}": lambda a, b: a | b,
        f"xor.b{bits}": lambda a, b: a ^ b,
    }.items():
        found = each(f"{name} {{}}, {{0}}, {{1}}", kind, (kind, x), (kind, y)).view(DTYPES[kind])
        assert found.tolist() == [wrapped(f(a, b), kind) for a, b in pairs], name


@pytest.mark.parametrize("kind", INTEGERS)
def test_division_goes_toward_zero(kind: str) -> None:
    x, y = integers(kind), integers(kind)[::-1].copy()
    y[y == 0] = 7
    y[:20] = 3
    quotients = [wrapped(abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1), kind) for a, b in zip(x, y, strict=True)]
    assert each(f"div.{kind} {{}}, {{0}}, {{1}}", kind, (kind, x), (kind, y)).view(DTYPES[kind]).tolist() == quotients
    rest = [wrapped(int(a) - q * int(b), kind) for a, b, q in zip(x, y, quotients, strict=True)]
    assert each(f"rem.{kind} {{}}, {{0}}, {{1}}", kind, (kind, x), (kind, y)).view(DTYPES[kind]).tolist() == rest


@pytest.mark.parametrize(("kind", "wide"), [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")])
def test_wide_products(kind: str, wide: str) -> None:
    x, y, z = integers(kind), integers(kind)[::-1].copy(), integers(wide)
    found = each(f"mad.wide.{kind} {{}}, {{0}}, {{1}}, {{2}}", wide, (kind, x), (kind, y), (wide, z)).view(DTYPES[wide])
    assert found.tolist() == [wrapped(int(a) * int(b) + int(c), wide) for a, b, c in zip(x, y, z, strict=True)]
    found = each(f"mul.wide.{kind} {{}}, {{0}}, {{1}}", wide, (kind, x), (kind, y)).view(DTYPES[wide])
    assert found.tolist() == [int(a) * int(b) for a, b in zip(x, y, strict=True)]


@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)]
)
def test_floats_round_as_numpy(kind: str, dtype: type) -> None:
    with np.errstate(over="ignore"):
        x = np.concatenate([SPECIAL, RNG.standard_normal(48)]).astype(dtype)
    y = x[::-1].copy()
    bits = f"u{8 * x.dtype.itemsize}"
    with np.errstate(all="ignore"):
        for name, f in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
            found = each(f"{name}.rn.{kind} {{}}, {{0}}, {{1}}", kind, (kind, x), (kind, y)).view(dtype)
            np.testing.assert_array_equal(found.astype(np.float64), f(x, y).astype(np.float64), err_msg=name)
        if kind in ("f32", "f64"):
            for name, f in {"div.rn": np.divide}.items():
                found = each(f"{name}.{kind} {{}}, {{0}}, {{1}}", kind, (kind, x), (kind, y)).view(dtype)
                np.testing.assert_array_equal(found, f(x, y))
            found = each(f"sqrt.rn.{kind} {{}}, {{0}}", kind, (kind, x)).view(dtype)
            np.testing.assert_array_equal(found, np.sqrt(x))
    found = each(f"neg.{kind} {{}}, {{0}}", kind, (kind, x))
    assert (found ^ x.view(DTYPES[bits]) == 1 << (8 * x.dtype.itemsize - 1)).sum() >= len(x) - 1  # but for NaN, all signs


def test_least_and_greatest_of_nan() -> None:
    x, y = np.array([np.nan, 1, np.nan, 2, -np.inf], np.float32), np.array([3, np.nan, np.nan, 5, np.nan], np.float32)
    given = ("f32", x), ("f32", y)
    np.testing.assert_array_equal(each("min.f32 {}, {0}, {1}", "f32", *given).view(np.float32), [3, 1, np.nan, 2, -np.inf])
    np.testing.assert_array_equal(each("max.f32 {}, {0}, {1}", "f32", *given).view(np.float32), [3, 1, np.nan, 5, -np.inf])
    np.testing.assert_array_equal(each("max.NaN.f32 {}, {0}, {1}", "f32", *given).view(np.float32), [np.nan] * 3 + [5, np.nan])


def test_subnormal_numbers_are_flushed_if_the_text_says_so() -> None:
    x, y = np.array([1e-40, -1e-40, 1e-38, 1.5e-38], np.float32), np.array([0, 0, 0.5, 1], np.float32)
    with_ftz = each("mul.ftz.f32 {}, {0}, {1}", "f32", ("f32", x), ("f32", np.full(4, 1, np.float32))).view(np.float32)
    np.testing.assert_array_equal(with_ftz, np.array([0, 0, 0, 1.5e-38], np.float32))
    assert np.signbit(with_ftz).tolist() == [False, True, False, False]
    np.testing.assert_array_equal(each("add.f32 {}, {0}, {1}", "f32", ("f32", x), ("f32", y)).view(np.float32), x + y)


def test_saturation() -> None:
    x = np.array([-1, 0.25, 3, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(
        each("add.sat.f32 {}, {0}, {1}", "f32", ("f32", x), ("f32", 0 * x[:1].repeat(5))).view(np.float32), [0, 0.25, 1, 0, 1]
    )


@pytest.mark.parametrize(("kind", "dtype", "bound"), [("f32", np.float32, 1), ("f64", np.float64, 2)])
def test_fused_multiply_add_rounds_once(kind: str, dtype: type, bound: int) -> None:
    x, y = (RNG.standard_normal(64).astype(dtype) for _ in range(2))
    z = -(x * y)  # what is left is the error of the product
    found = each(f"fma.rn.{kind} {{}}, {{0}}, {{1}}, {{2}}", kind, (kind, x), (kind, y), (kind, z)).view(dtype)
    exact = [float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in zip(x, y, z, strict=True)]
    np.testing.assert_array_equal(found, np.array(exact).astype(dtype))
    assert np.count_nonzero(found) > 32
    z = RNG.standard_normal(64).astype(dtype)
    found = each(f"fma.rn.{kind} {{}}, {{0}}, {{1}}, {{2}}", kind, (kind, x), (kind, y), (kind, z)).view(dtype)
    exact = [float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in zip(x, y, z, strict=True)]
    np.testing.assert_array_max_ulp(found, np.array(exact).astype(dtype), bound)


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2", "s16x2", "u16x2"])
def test_pairs(kind: str) -> None:
    dtype = {"f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16, "s16x2": np.int16, "u16x2": np.uint16}[kind]
    x, y = ((RNG.standard_normal(64) * 100).astype(dtype) for _ in range(2))
    for name, f in {"add": np.add, "min": np.minimum, "max": np.maximum}.items():
        found = each(f"{name}.{kind} {{}}, {{0}}, {{1}}", "b32", ("b32", x.view(np.uint32)), ("b32", y.view(np.uint32)))
        np.testing.assert_array_equal(found.view(dtype).astype(np.float64), f(x, y).astype(np.float64))
    if kind in ("f16x2", "bf16x2"):
        found = each(f"fma.rn.{kind} {{}}, {{0}}, {{1}}, {{1}}", "b32", ("b32", x.view(np.uint32)), ("b32", y.view(np.uint32)))
        exact = (x.astype(np.float64) * y.astype(np.float64) + y.astype(np.float64)).astype(dtype)
        np.testing.assert_allclose(found.view(dtype).astype(np.float64), exact.astype(np.float64), rtol=0.01)


def test_functions() -> None:
    x = np.linspace(0.1, 5, 32, dtype=np.float32)
    for name, f in {
        "ex2.approx": np.exp2,
        "lg2.approx": np.log2,
        "rcp.rn": lambda x: 1 / x,
        "rsqrt.approx": lambda x: x**-0.5,
        "sin.approx": np.sin,
        "cos.approx": np.cos,
        "tanh.approx": np.tanh,
        "abs": np.abs,
    }.items():
        found = each(f"{name}.f32 {{}}, {{0}}", "f32", ("f32", x)).view(np.float32)
        np.testing.assert_allclose(found, f(x.astype(np.float64)), rtol=1e-6, atol=1e-7)
    found = each("copysign.f32 {}, {0}, {1}", "f32", ("f32", -x), ("f32", x)).view(np.float32)
    np.testing.assert_array_equal(found, -x)


@pytest.mark.parametrize(
    "text", ["mul24.lo.u32 {}, {0}, {0}", "add.rz.f32 {}, {0}, {0}", "add.cc.u32 {}, {0}, {0}", "madc.lo.u32 {}, {0}, {0}, {0}"]
)
def test_an_instruction_that_is_not_there_is_named(text: str) -> None:
    with pytest.raises(Unsupported, match=text.split()[0].replace(".", r"\.")):
        each(text, "b32", ("b32", np.zeros(4, np.uint32)))


def test_nan_stays_nan_in_bf16() -> None:
    x = np.array([np.nan, np.inf, 3.4e38, 1e-40], np.float32)
    found = each("cvt.rn.bf16.f32 {}, {0}", "bf16", ("f32", x))
    np.testing.assert_array_equal(bf16_to_f32(found), x.astype(ml_dtypes.bfloat16).astype(np.float32))
