"""Real elementwise functions: a few ulp from NumPy everywhere, and what IREE does without help."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from legalize_support import Program, legalized, ulps

import nabla_mlir as nm

COUNT = 20_000
# Operation, NumPy function, largest error in ulp.
UNARY = {
    "stablehlo.sine": (np.sin, 2),
    "stablehlo.cosine": (np.cos, 2),
    "stablehlo.tan": (np.tan, 3),
    "stablehlo.tanh": (np.tanh, 4),
    "stablehlo.exponential": (np.exp, 2),
    "stablehlo.log": (np.log, 2),
    "stablehlo.exponential_minus_one": (np.expm1, 2),
    "stablehlo.log_plus_one": (np.log1p, 2),
    "stablehlo.logistic": (lambda x: 1 / (1 + np.exp(-x)), 3),
    "stablehlo.cbrt": (np.cbrt, 2),
    "chlo.sinh": (np.sinh, 3),
    "chlo.cosh": (np.cosh, 2),
    "chlo.asinh": (np.arcsinh, 3),
    "chlo.acosh": (np.arccosh, 3),
    "chlo.atanh": (np.arctanh, 3),
    "chlo.atan": (np.arctan, 2),
    "chlo.asin": (np.arcsin, 3),
    "chlo.acos": (np.arccos, 4),
}
BINARY = {"stablehlo.power": (np.power, 1), "stablehlo.atan2": (np.arctan2, 3), "stablehlo.remainder": (np.fmod, 0)}
DTYPES = {"f32": np.float32, "f64": np.float64}


def function(name: str, op: str, types: list[str], result: str) -> str:
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    names = ", ".join(f"%{i}" for i in range(len(types)))
    return f"""func.func @{name}({arguments}) -> {result} {{
      %r = "{op}"({names}) : ({", ".join(types)}) -> {result}
      return %r : {result}
    }}\n"""


def module(ops: list[tuple[str, int]], dtypes: list[str], count: int = COUNT) -> str:
    text = ""
    for dtype in dtypes:
        type = f"tensor<{count}x{dtype}>"
        text += "".join(function(f"{op.split('.')[1]}_{dtype}", op, [type] * arity, type) for op, arity in ops)
    return text


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(legalized(module([(op, 1) for op in UNARY] + [(op, 2) for op in BINARY], ["f32", "f64"])))


def values(dtype: type, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random numbers on many scales, and all pairs of special ones."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    top = int(np.log10(info.max)) - 1
    special = [0.0, 1.0, 0.5, 2.0, 3.0, 1 / 3, 1e-30, 1e-5, 5e5, np.inf, np.pi / 4, np.pi, 22.0, info.max, info.tiny]
    special = np.array([np.nan, *special, *(-s for s in special)], dtype)
    # The numbers next to a multiple of pi/2.
    hard = dtype(16367173 * 2.0**72) if dtype is np.float32 else dtype(6381956970095103 * 2.0**797)
    special = np.array([*special, np.nextafter(dtype(1), dtype(0)), np.nextafter(dtype(1), dtype(2)), hard], dtype)
    n = (COUNT - len(special) ** 2) // 6

    def wide(low: float, high: float) -> np.ndarray:
        return 10 ** rng.uniform(low, high, n) * rng.choice([-1, 1], n)

    def numbers() -> np.ndarray:
        parts = [rng.normal(size=n), rng.uniform(-1, 1, n), rng.normal(size=n) * 50, wide(-top, top), wide(-8, 8)]
        random = np.concatenate([*parts, 1 + rng.normal(size=n) * 1e-3]).astype(dtype)
        return rng.permutation(random)

    x = np.concatenate([np.repeat(special, len(special)), numbers()])
    y = np.concatenate([np.tile(special, len(special)), numbers()])
    return np.resize(x, COUNT), np.resize(y, COUNT)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_error_in_ulp(program: Program, op: str, dtype: str) -> None:
    x, y = values(DTYPES[dtype], 0)
    if op == "stablehlo.remainder":  # next to the smallest normal number the halves of the divisor are flushed
        y = np.where(np.abs(y) < np.finfo(y.dtype).tiny / np.finfo(y.dtype).eps, y.dtype.type(1.5), y)
    arguments = (x,) if op in UNARY else (x, y)
    reference, most = (UNARY | BINARY)[op]
    with np.errstate(all="ignore"):
        want = reference(*(a.astype(np.longdouble) for a in arguments))
        domain = reference(*(a.astype(np.float64) for a in arguments))
    want = np.where(np.isnan(domain), np.nan, want)
    got = program(f"{op.split('.')[1]}_{dtype}", *arguments)
    with np.errstate(all="ignore"):
        error = ulps(got, want)
        zeros = (got == 0) & (want.astype(got.dtype) == 0)
    worst = int(np.argmax(error))
    assert error[worst] <= most, [a[worst] for a in arguments]
    assert np.array_equal(np.signbit(got[zeros]), np.signbit(want[zeros])), "sign of zero"


# Operation, exact function (SciPy's lose digits too), where it is defined, largest error in ulp.
SPECIAL = {
    "chlo.erf": (mpmath.erf, (-6, 6), 6),
    "chlo.erfc": (mpmath.erfc, (-5, 9), 10),
    "chlo.lgamma": (mpmath.loggamma, (1e-8, 40), 7),
    "chlo.digamma": (mpmath.digamma, (1e-8, 40), 24),
}
HARD = (1, 2, 1 + 1e-3, 2 - 1e-3, 1.4616321, 0.5, 3, 1 - 1e-3, 2 + 1e-3)


def special_error(run: Callable[..., np.ndarray], op: str, dtype: str) -> tuple[float, float]:
    """The largest error in ulp of a special function, and where it is."""
    reference, (low, high), _ = SPECIAL[op]
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(low, high, 800), rng.uniform(max(low, 0.5), 3, 1200 - len(HARD)), HARD])
    x = x.astype(DTYPES[dtype])
    with mpmath.workdps(24):
        want = [np.longdouble(mpmath.nstr(reference(mpmath.mpf(float(v))), 21)) for v in x]
    error = ulps(run(f"{op.split('.')[1]}_{dtype}", x), np.array(want))
    worst = int(np.argmax(error))
    return float(error[worst]), float(x[worst])


@pytest.mark.slow
def test_special_functions() -> None:
    program = Program(legalized(module([(op, 1) for op in SPECIAL], ["f32", "f64"], 2000)))
    found = {(op, dtype): special_error(program, op, dtype) for op in SPECIAL for dtype in DTYPES}
    assert not {key: value for key, value in found.items() if value[0] > SPECIAL[key[0]][2]}


def test_error_functions_at_their_ends() -> None:
    """erf of numbers whose multiples are below the smallest normal number; erf_inv where its argument is almost 1."""
    import ml_dtypes

    program = Program(legalized(module([("chlo.erf", 1), ("chlo.erf_inv", 1)], ["bf16", "f32", "f64"], 100)))
    small = np.geomspace(1.2e-38, 1e-28, 100).astype("f4")
    for name, dtype in (("f32", np.dtype("f4")), ("bf16", np.dtype(ml_dtypes.bfloat16))):
        x = small.astype(dtype)
        np.testing.assert_allclose(
            program(f"erf_{name}", x).astype("f8"), x.astype("f8") * 2 / np.sqrt(np.pi), rtol=2 * float(ml_dtypes.finfo(dtype).eps)
        )
    x = np.concatenate([1 - np.geomspace(1.2e-16, 0.4, 50), np.geomspace(0.4, 1, 50) - 1])
    with mpmath.workdps(40):
        want = [np.longdouble(mpmath.nstr(mpmath.erfinv(mpmath.mpf(v)), 21)) for v in x.tolist() if v > -1]
    assert ulps(program("erf_inv_f64", x)[x > -1], np.array(want)).max() < 4


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_functions_of_constants_are_constants(dtype: str) -> None:
    """Else IREE compiles the whole formula once more, to run it while it compiles."""
    for op, (reference, _) in UNARY.items():
        argument = 1.25 if op == "chlo.acosh" else 0.75
        text = legalized(f"""func.func @f() -> tensor<3x{dtype}> {{
          %c = stablehlo.constant dense<{argument}> : tensor<3x{dtype}>
          %r = "{op}"(%c) : (tensor<3x{dtype}>) -> tensor<3x{dtype}>
          return %r : tensor<3x{dtype}>
        }}""")
        (found,) = {float(v) for v in re.findall(r"dense<(.*?)>", text)} - {argument}
        assert found == pytest.approx(float(reference(argument)), rel=1e-3 if dtype == "f16" else 1e-6), op
        assert set(re.findall(r"(?:stablehlo|chlo)\.\w+", text)) == {"stablehlo.constant"}, op


def test_narrow_floats_go_by_float32() -> None:
    import ml_dtypes

    text = module([("stablehlo.power", 2), ("stablehlo.sine", 1)], ["f16", "bf16"], 8)
    program = Program(legalized(text))
    for name, dtype in (("f16", np.dtype(np.float16)), ("bf16", np.dtype(ml_dtypes.bfloat16))):
        x = np.array([-2, 0, 3, 30000, -1, 5, 7, np.inf], dtype)
        y = np.array([3, 0, -1, 0.5, 4, 1.5, 2, -1], dtype)
        wide = x.astype(np.float32), y.astype(np.float32)
        with np.errstate(all="ignore"):
            for got, want in ((program(f"power_{name}", x, y), np.power(*wide)), (program(f"sine_{name}", x), np.sin(wide[0]))):
                np.testing.assert_array_equal(got.astype(np.float32), want.astype(dtype).astype(np.float32))


CONVERSIONS = [
    ("f32", np.float32, "i32", np.int32),
    ("f64", np.float64, "i64", np.int64),
    ("f64", np.float64, "ui8", np.uint8),
    ("f32", np.float32, "ui64", np.uint64),
]


def test_float_to_integer_saturates() -> None:
    text = "".join(function(f"{s}_{d}", "stablehlo.convert", [f"tensor<8x{s}>"], f"tensor<8x{d}>") for s, _, d, _ in CONVERSIONS)
    program = Program(legalized(text))
    for source, source_dtype, dest, dest_dtype in CONVERSIONS:
        x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3.7, -3.7, 200], source_dtype)
        info = np.iinfo(dest_dtype)
        want = [0, info.max, info.min, info.max, info.min, 3, max(-3, info.min), 200]
        np.testing.assert_array_equal(program(f"{source}_{dest}", x), np.array(want, dest_dtype))


def test_boolean_addition_is_or() -> None:
    program = Program(legalized(function("f", "stablehlo.add", ["tensor<4xi1>"] * 2, "tensor<4xi1>")))
    got = program("f", np.array([True, True, False, False]), np.array([True, False, True, False]))
    assert got.tolist() == [True, True, True, False]


CONSTANT_POWER = """func.func @f(%x: tensor<6xf64>) -> tensor<6xf64> {{
  %n = stablehlo.constant dense<{n}> : tensor<6xf64>
  %r = stablehlo.power %x, %n : tensor<6xf64>
  return %r : tensor<6xf64>
}}"""


def test_constant_power_is_lean() -> None:
    assert legalized(CONSTANT_POWER.format(n="3.0")).count("stablehlo.multiply") == 2
    assert "stablehlo.divide" in legalized(CONSTANT_POWER.format(n="-1.0"))
    text = "".join(CONSTANT_POWER.format(n=f"{n:.1f}").replace("@f", f"@f{i}") for i, n in enumerate((0, 0.5, -0.5, -3, 5, 7.5)))
    program = Program(legalized(text))
    x = np.array([-0.0, 2.0, -3.0, np.inf, -np.inf, np.nan])
    for i, n in enumerate((0, 0.5, -0.5, -3, 5, 7.5)):
        with np.errstate(all="ignore"):
            want = np.power(x, np.full_like(x, n))  # np.power(x, 0.5) is np.sqrt(x)
        np.testing.assert_allclose(program(f"f{i}", x), want, rtol=1e-15)


RIGHT_ALREADY = """func.func @f(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0 = stablehlo.exponential %x : tensor<4xf32>
  %1 = stablehlo.log %0 : tensor<4xf32>
  %2 = stablehlo.tanh %1 : tensor<4xf32>
  %3 = stablehlo.add %2, %x : tensor<4xf32>
  %cst = stablehlo.constant dense<63> : tensor<4xi32>
  %5 = stablehlo.power %i, %cst : tensor<4xi32>
  %6 = stablehlo.remainder %5, %i : tensor<4xi32>
  return %3, %6 : tensor<4xf32>, tensor<4xi32>
}"""


def test_leaves_alone_what_is_right() -> None:
    from nabla_mlir.dialects.context import parse_module

    assert legalized(RIGHT_ALREADY) == str(parse_module(RIGHT_ALREADY))


def test_dynamic_shapes() -> None:
    text = function("f", "stablehlo.sine", ["tensor<?xf64>"], "tensor<?xf64>")
    x = np.linspace(-30, 30, 11)
    np.testing.assert_allclose(Program(legalized(text))("f", x), np.sin(x), rtol=1e-15, atol=1e-16)


@pytest.fixture(scope="module")
def original() -> Program:
    """The operations as IREE does them, where f64 links."""
    ops = [("stablehlo.sine", 1), ("stablehlo.power", 2), ("stablehlo.atan2", 2), ("stablehlo.cbrt", 1)]
    text = module(ops, ["f32"], 2) + module([("stablehlo.exponential_minus_one", 1), ("stablehlo.log_plus_one", 1)], ["f64"], 2)
    text += function("convert", "stablehlo.convert", ["tensor<2xf32>"], "tensor<2xi32>")
    return Program(text + function("add", "stablehlo.add", ["tensor<2xi1>"] * 2, "tensor<2xi1>"))


WRONG = {
    "sine_f32": ((np.float32([1e5, 1e20]),), lambda x: np.sin(x.astype(np.float64))),
    "power_f32": ((np.float32([-8, 0]), np.float32([3, 0])), np.power),
    "atan2_f32": ((np.float32([0, 0]), np.float32([-0.0, 0])), np.arctan2),
    "cbrt_f32": ((np.float32([np.inf, 1]),), np.cbrt),
    "exponential_minus_one_f64": ((np.array([1e-12, 1e-20]),), np.expm1),
    "log_plus_one_f64": ((np.array([1e-12, 1e-20]),), np.log1p),
    "add": ((np.array([True, False]), np.array([True, False])), np.logical_or),
    "convert": ((np.float32([np.nan, 1e20]),), lambda x: np.array([0, 2**31 - 1])),
}


@pytest.mark.parametrize("name", WRONG)
def test_iree_still_needs_it(original: Program, name: str) -> None:
    arguments, reference = WRONG[name]
    got = original(name, *arguments)
    assert not np.allclose(got, reference(*arguments), rtol=1e-6, atol=0), "IREE is right: drop the pattern"


@pytest.mark.parametrize("op", ["stablehlo.sine", "stablehlo.tanh", "stablehlo.atan2", "stablehlo.cbrt"])
def test_iree_still_cannot_link(op: str) -> None:
    import iree.compiler

    with pytest.raises(iree.compiler.CompilerToolError):
        Program(module([(op, 2 if op.endswith("2") else 1)], ["f64"], 2))


# ---------------------------------------------------------------- bounds that docs/explain/accuracy.md states


def _units(found: Sequence[float], true: Sequence[mpmath.mpf], unit: np.ndarray) -> np.ndarray:
    """Errors in those of a unit."""
    errors = [abs(mpmath.mpf(float(v)) - w) for v, w in zip(found, true, strict=True)]
    return np.array(errors, float) / unit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_where_terms_cancel(dtype: type[np.floating]) -> None:
    """Of scaled Bessel functions, whose series lose none, and near roots, where the terms and not the result have a unit."""
    numbers = np.random.default_rng(0)
    z = np.concatenate([numbers.uniform(-20, 20, 300), numbers.uniform(7.5, 8.5, 100), [8.0], 10.0 ** -numbers.uniform(0, 4, 400)])
    z = z.astype(dtype)
    high = -(10.0 ** numbers.uniform(-6, -0.2, 300))
    x, y = high.astype(dtype), np.log(-np.expm1(high)).astype(dtype)
    roots = np.array([-2.7476826467, -2.4570247382, -3.1435808883, -3.9552942848, -4.0393618397, -9.9999997244])
    r = (roots[:, None] * (1 + 10.0 ** -numbers.uniform(2, 7, 40))).astype(dtype).ravel()
    q = np.concatenate([numbers.uniform(-2.999, -0.001, 400).astype(dtype), r[:80]])
    special = nm.jax.scipy.special

    def program(z: Any, x: Any, y: Any, r: Any, q: Any) -> list[Any]:
        return [special.i1e(z), special.i0e(z), nm.numpy.logaddexp(x, y), special.gammaln(r), special.gammaln(q)]

    compiled = nm.jit(program)(z, x, y, r, q)
    with mpmath.workdps(50):
        a, b = (list(map(mpmath.mpf, v.tolist())) for v in (x, y))
        true = [
            [mpmath.besseli(1, v) * mpmath.exp(-abs(v)) for v in map(mpmath.mpf, z.tolist())],
            [mpmath.besseli(0, v) * mpmath.exp(-abs(v)) for v in map(mpmath.mpf, z.tolist())],
            [max(v, w) + mpmath.log1p(mpmath.exp(-abs(v - w))) for v, w in zip(a, b, strict=True)],
            *([mpmath.log(abs(mpmath.gamma(v))) for v in map(mpmath.mpf, points.tolist())] for points in (r, q)),
        ]
        results = [np.array(v, np.float64).astype(dtype) for v in true]
        reflected = scipy.special.gammaln(1 - r.astype(np.float64)).astype(dtype)
        units = [results[0], results[1], np.maximum(abs(x), abs(y)), reflected, results[4]]
        for found in (compiled, program(z, x, y, r, q)):
            for values, wanted, unit, most in zip(found, true, units, (4, 4, 10, 20, 10), strict=True):
                assert _units(np.asarray(values), wanted, np.spacing(abs(unit))).max() < most
        by_x = np.spacing(abs(r)) * np.array([abs(mpmath.digamma(v)) for v in map(mpmath.mpf, r.tolist())], float)
        errors = [_units(np.asarray(compiled[3]), true[3], unit) for unit in (by_x, np.spacing(abs(results[3])))]
        assert np.all((errors[0] < 0.2) | (errors[1] < 3) | (r < -10))
