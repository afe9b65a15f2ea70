"""Elementwise functions against NumPy: values, shapes and dtypes."""

import mpmath
import numpy as np
import pytest
from support import Group

import nabla_mlir as nm
from nabla_mlir import numpy as nnp

rng = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 3.5, np.inf, -np.inf, np.nan, 1e-3, -0.5, 7.25])
INPUTS = {
    "f32": rng.normal(size=(3, 4)).astype(np.float32),
    "f64": rng.normal(size=(3, 4)),
    "row": rng.normal(size=4),
    "column": rng.normal(size=(3, 1)),
    "i32": rng.integers(-9, 9, (3, 4)).astype(np.int32),
    "i64": rng.integers(1, 9, (3, 4)),
    "negative": -rng.integers(1, 9, (3, 4)),
    "u8": rng.integers(1, 9, 4).astype(np.uint8),
    "b": rng.integers(0, 2, (3, 4)).astype(bool),
    "b2": rng.integers(0, 2, 4).astype(bool),
    "c": (rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))).astype(np.complex64),
    "unit": rng.uniform(-0.9, 0.9, (3, 4)),
    "positive": rng.uniform(0.5, 3, (3, 4)),
    "above": rng.uniform(1.1, 3, (3, 4)),
    "special": SPECIAL,
    "specials": np.roll(SPECIAL, 5),
    "none": np.zeros((0, 4)),
    "scalar": np.array(0.7),
}

CASES = {}
for domain, names in {
    "f64": "sin cos tan sinh cosh tanh arctan arcsinh exp exp2 expm1 cbrt deg2rad rad2deg negative absolute sign "
    "square floor ceil rint trunc isfinite isnan isinf signbit fabs sinc positive",
    "unit": "arcsin arccos arctanh",
    "positive": "log log2 log10 log1p sqrt reciprocal",
    "above": "arccosh",
    "special": "floor ceil rint trunc isfinite isnan isinf signbit nan_to_num sign absolute isposinf isneginf square",
    "i32": "negative absolute sign square floor isnan invert sin exp bitwise_count",
    "b": "logical_not invert absolute isfinite square",
    "c": "exp absolute real imag conj angle negative square isnan sin",
    "none": "sin absolute floor",
    "scalar": "sin exp",
}.items():
    for name in names.split():
        CASES[f"{name}({domain})"] = lambda xp, a, n=name, d=domain: getattr(xp, n)(getattr(a, d))

for pair, names in {
    ("f64", "row"): "add subtract multiply divide maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2 "
    "copysign fmod remainder floor_divide divmod equal less greater_equal logical_and heaviside",
    ("column", "row"): "add power_ maximum less",
    ("special", "specials"): "maximum minimum fmax fmin logaddexp hypot copysign equal less not_equal heaviside",
    ("i32", "i64"): "add subtract multiply divide floor_divide remainder fmod divmod maximum power left_shift "
    "right_shift bitwise_and bitwise_or bitwise_xor greater",
    ("i32", "negative"): "floor_divide remainder fmod",
    ("f32", "i32"): "add divide maximum less",
    ("f32", "f64"): "add multiply",
    ("c", "f32"): "add multiply divide equal",
    ("b", "b2"): "add multiply logical_and logical_or logical_xor bitwise_and bitwise_xor equal maximum divide less",
    ("b", "i32"): "add multiply",
    ("u8", "u8"): "add floor_divide remainder bitwise_and left_shift right_shift",
    ("u8", "i32"): "add subtract",
    ("positive", "f64"): "power float_power",
    ("none", "row"): "add",
    ("scalar", "f32"): "add multiply",
}.items():
    for name in names.split():
        if name == "power_":
            CASES["power of positive"] = lambda xp, a: xp.power(xp.absolute(a.column), a.row)
            continue
        case = lambda xp, a, n=name, p=pair: getattr(xp, n)(getattr(a, p[0]), getattr(a, p[1]))  # noqa: E731
        CASES[f"{name}({', '.join(pair)})"] = case

CASES |= {
    "x + 1": lambda xp, a: a.f32 + 1,
    "1 - x": lambda xp, a: 1 - a.f32,
    "x * 2.5": lambda xp, a: a.f32 * 2.5,
    "i * 2.5": lambda xp, a: a.i32 * 2.5,
    "i / 2": lambda xp, a: a.i64 / 2,
    "2 / x": lambda xp, a: 2 / a.positive,
    "x // 2": lambda xp, a: a.f64 // 2,
    "7 // i": lambda xp, a: 7 // a.i64,
    "x % 3": lambda xp, a: a.i32 % 3,
    "-7 % i": lambda xp, a: -7 % a.i64,
    "x ** 2": lambda xp, a: a.f32**2,
    "x ** 3": lambda xp, a: a.f64**3,
    "x ** 0": lambda xp, a: a.f64**0,
    "x ** 1": lambda xp, a: a.f64**1,
    "x ** -1": lambda xp, a: a.f64**-1,
    "x ** -2": lambda xp, a: a.f64**-2,
    "x ** 0.5": lambda xp, a: a.positive**0.5,
    "x ** 1.5": lambda xp, a: a.positive**1.5,
    "2 ** x": lambda xp, a: 2**a.f64,
    "i ** 5": lambda xp, a: a.i32**5,
    "c ** 3": lambda xp, a: a.c**3,
    "-x": lambda xp, a: -a.i32,
    "+x": lambda xp, a: +a.f32,
    "abs x": lambda xp, a: abs(a.c),
    "~x": lambda xp, a: ~a.b,
    "x & 3": lambda xp, a: a.i32 & 3,
    "b | b": lambda xp, a: a.b | a.b2,
    "5 ^ x": lambda xp, a: 5 ^ a.i32,
    "x << 2": lambda xp, a: a.i32 << 2,
    "x >> 1": lambda xp, a: a.i32 >> 1,
    "x < 0": lambda xp, a: a.f32 < 0,
    "0 <= x": lambda xp, a: 0 <= a.i32,  # noqa: SIM300
    "x == y": lambda xp, a: a.i32 == a.i64,
    "x != 1": lambda xp, a: a.i32 != 1,
    "c + 1j": lambda xp, a: a.c + 1j,
    "x + 1j": lambda xp, a: a.f32 + 1j,
    "numpy scalar": lambda xp, a: a.f32 + np.float64(1.5),
    "numpy integer": lambda xp, a: a.i32 * np.int64(3),
    "numpy array on the left": lambda xp, a: np.arange(4.0) + a.f32,
    "where": lambda xp, a: xp.where(a.b, a.f32, a.i32),
    "where scalars": lambda xp, a: xp.where(a.f32 > 0, 1.0, 0.0),
    "where scalar condition": lambda xp, a: xp.where(a.scalar > 0, a.f32, a.row),
    "where broadcast": lambda xp, a: xp.where(a.b2, a.f64, 0),
    "clip": lambda xp, a: xp.clip(a.f32, -0.5, 0.5),
    "clip below": lambda xp, a: xp.clip(a.f32, 0.1, None),
    "clip arrays": lambda xp, a: xp.clip(a.f64, -0.3, xp.absolute(a.row)),
    "clip integers": lambda xp, a: xp.clip(a.i32, -3, 5),
    "select": lambda xp, a: xp.select([a.f64 > 1, a.f64 > 0], [a.f64, a.f64 * 2], -1.0),
    "round 2": lambda xp, a: xp.round(a.f64, 2),
    "round": lambda xp, a: xp.round(a.special),
    "isclose": lambda xp, a: xp.isclose(a.special, a.special * (1 + 1e-7)),
    "isclose nan": lambda xp, a: xp.isclose(a.special, a.special, equal_nan=True),
    "allclose": lambda xp, a: xp.allclose(a.f64, a.f64 + 1e-12),
    "array_equal": lambda xp, a: xp.array_equal(a.f64, a.f64.T),
    "nan_to_num values": lambda xp, a: xp.nan_to_num(a.special, nan=1.0, posinf=2.0, neginf=3.0),
}

GROUPS = {}
for _i, _name in enumerate(CASES):
    GROUPS.setdefault(_i // 60, {})[_name] = CASES[_name]
GROUPS = [Group(INPUTS, cases, 1e-9) for cases in GROUPS.values()]


@pytest.mark.parametrize(("group", "name"), [(g, n) for g in GROUPS for n in g], ids=lambda v: v if isinstance(v, str) else "")
def test_against_numpy(group, name):
    group.check(name)


def test_sinc_and_exp2_are_exact_where_products_with_constants_are_not() -> None:
    """Large numbers, whose multiples of pi have no digits behind the point, or overflow; powers of two."""
    x = np.array([0.25, 1.5, 7.0, 1e5 + 0.25, 2.0**51 + 0.5, 1e300, -3.3, 1e-9, 1.7e308])
    with mpmath.workdps(60):
        true = np.array([float(mpmath.sincpi(mpmath.mpf(v))) for v in x.tolist()])
    np.testing.assert_allclose(np.asarray(nnp.sinc(x)), true, rtol=1e-15, atol=0)
    slope = nm.grad(lambda x: nnp.sinc(x).sum())(x[:4])
    with mpmath.workdps(60):
        true = np.array([float(mpmath.diff(mpmath.sincpi, mpmath.mpf(v))) for v in x[:4].tolist()])
    np.testing.assert_allclose(np.asarray(slope), true, rtol=1e-13)
    whole = np.arange(-1020.0, 1020.0)
    np.testing.assert_array_equal(np.asarray(nnp.exp2(whole)), np.exp2(whole))
    assert nnp.exp2(np.array([3], np.int32)).tolist() == [8.0]
    np.testing.assert_allclose(np.asarray(nnp.exp2(np.array([1 + 1j]))), [2 * np.exp(1j * np.log(2))])
