"""Complex functions against NumPy in extended precision."""

from __future__ import annotations

import numpy as np
import pytest
from legalize_support import Program, legalized

from nabla_mlir.interpreter.elementwise import divide

COUNT = 2000
UNARY = {
    "stablehlo.abs": np.abs,
    "stablehlo.cbrt": lambda z: np.exp(np.log(z) / 3),
    "stablehlo.cosine": np.cos,
    "stablehlo.exponential": np.exp,
    "stablehlo.exponential_minus_one": np.expm1,
    "stablehlo.log": np.log,
    "stablehlo.log_plus_one": np.log1p,
    "stablehlo.logistic": lambda z: 1 / (1 + np.exp(-z)),
    "stablehlo.rsqrt": lambda z: 1 / np.sqrt(z),
    "stablehlo.sign": lambda z: z / np.abs(z),
    "stablehlo.sine": np.sin,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.tan": np.tan,
    "stablehlo.tanh": np.tanh,
    "chlo.acosh": np.arccosh,
    "chlo.acos": np.arccos,
    "chlo.asin": np.arcsin,
    "chlo.asinh": np.arcsinh,
    "chlo.atan": np.arctan,
    "chlo.atanh": np.arctanh,
    "chlo.cosh": np.cosh,
    "chlo.sinh": np.sinh,
}
BINARY = {"stablehlo.power": np.power, "stablehlo.divide": np.divide, "stablehlo.multiply": np.multiply}
DTYPES = {"f32": np.complex64, "f64": np.complex128}


@pytest.fixture(scope="module")
def program() -> Program:
    text = ""
    for dtype in DTYPES:
        type = f"tensor<{COUNT}xcomplex<{dtype}>>"
        for op in (*UNARY, *BINARY):
            result = f"tensor<{COUNT}x{dtype}>" if op == "stablehlo.abs" else type
            arity = 1 if op in UNARY else 2
            arguments = ", ".join(f"%{i}: {type}" for i in range(arity))
            text += f"""func.func @{op.split(".")[1]}_{dtype}({arguments}) -> {result} {{
              %r = "{op}"({", ".join(f"%{i}" for i in range(arity))}) : ({", ".join([type] * arity)}) -> {result}
              return %r : {result}
            }}\n"""
    return Program(legalized(text))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_relative_error(program: Program, op: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    z = (rng.normal(size=COUNT) + 1j * rng.normal(size=COUNT)) * 10 ** rng.uniform(-3, 1, COUNT)
    w = rng.normal(size=COUNT) + 1j * rng.normal(size=COUNT)
    arguments = [v.astype(DTYPES[dtype]) for v in ((z,) if op in UNARY else (z, w))]
    want = (UNARY | BINARY)[op](*(v.astype(np.clongdouble) for v in arguments))
    got = program(f"{op.split('.')[1]}_{dtype}", *arguments)
    error = np.abs(got - want) / np.abs(want) / np.finfo(got.dtype).eps
    assert error.max() < (30 if op == "stablehlo.power" else 8)


def test_constants_pads_and_zeros() -> None:
    """A complex128 splat and the padding of complex values do not compile without the pattern."""
    text = """func.func @f(%x: tensor<2xcomplex<f64>>) -> (tensor<4xcomplex<f64>>, tensor<2xcomplex<f64>>) {
      %c = stablehlo.constant dense<(2.0, 1.0)> : tensor<complex<f64>>
      %0 = stablehlo.pad %x, %c, low = [0], high = [2], interior = [0]
        : (tensor<2xcomplex<f64>>, tensor<complex<f64>>) -> tensor<4xcomplex<f64>>
      %1 = stablehlo.sqrt %x : tensor<2xcomplex<f64>>
      return %0, %1 : tensor<4xcomplex<f64>>, tensor<2xcomplex<f64>>
    }"""
    padded, root = Program(legalized(text))("f", np.array([0, -4 + 0j]))
    assert padded.tolist() == [0, -4, 2 + 1j, 2 + 1j]
    assert root.tolist() == [0, 2j]


ENDS = np.array(
    [
        complex(x, y)
        for x in (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan)
        for y in (0.0, -0.0, 2.5, -2.5, np.inf, -np.inf, np.nan)
    ]
)


def _same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal with the signs of zeros, wherever no part of what is wanted is NaN."""
    parts = [
        np.isclose(a, b, rtol=1e-14, atol=0) & (np.signbit(a) == np.signbit(b))
        for a, b in ((got.real, want.real), (got.imag, want.imag))
    ]
    return (parts[0] & parts[1]) | np.isnan(want)


@pytest.fixture(scope="module")
def ends() -> Program:
    text = ""
    type = f"tensor<{len(ENDS)}xcomplex<f64>>"
    for op in AT_ENDS:
        text += f"""func.func @{op.split(".")[1]}(%0: {type}) -> {type} {{
          %r = "{op}"(%0) : ({type}) -> {type}
          return %r : {type}
        }}\n"""
    type = f"tensor<{len(ENDS) ** 2}xcomplex<f64>>"
    text += f"""func.func @divide(%0: {type}, %1: {type}) -> {type} {{
      %r = stablehlo.divide %0, %1 : {type}
      return %r : {type}
    }}\n"""
    return Program(legalized(text))


AT_ENDS = {
    name: UNARY[name]
    for name in (
        "stablehlo.exponential",
        "stablehlo.log",
        "stablehlo.sine",
        "stablehlo.sqrt",
        "stablehlo.tanh",
        "chlo.acosh",
        "chlo.acos",
        "chlo.asin",
        "chlo.asinh",
        "chlo.atan",
        "chlo.atanh",
        "chlo.sinh",
    )
}


@pytest.mark.parametrize("op", AT_ENDS)
def test_infinities_and_both_sides_of_branch_cuts(ends: Program, op: str) -> None:
    """The stock formulas give NaN beside infinities, and take a number below a cut for one above it."""
    with np.errstate(all="ignore"):
        got, want = ends(op.split(".")[1], ENDS), AT_ENDS[op](ENDS)
    wrong = ~_same(got, want)
    if op in ("stablehlo.exponential", "stablehlo.tanh"):  # some zeros have no sign in C99
        wrong &= ~(got == want)
    assert not wrong.any(), list(zip(ENDS[wrong], got[wrong], want[wrong], strict=True))


def test_quotients_of_infinities_and_zeros(ends: Program) -> None:
    """Those of annex G of C99, compiled and interpreted: an infinity is one if a part is, whatever the other is."""
    x, y = np.repeat(ENDS, len(ENDS)), np.tile(ENDS, len(ENDS))
    with np.errstate(all="ignore"):
        got, want = ends("divide", x, y), divide(x, y)
        finite = np.isfinite(x) & np.isfinite(y) & (y != 0)
        np.testing.assert_allclose(want[finite], x[finite] / y[finite], rtol=1e-14)
    infinite = [np.isinf(z.real) | np.isinf(z.imag) for z in (x, y, want)]
    is_said = ~np.isnan(x) & ~np.isnan(y) & ~infinite[0]  # of those only that a quotient is infinite
    np.testing.assert_allclose(got[is_said], want[is_said], rtol=1e-14, atol=1e-16)
    assert np.array_equal(want[infinite[1] & np.isfinite(x)] == 0, np.ones(np.sum(infinite[1] & np.isfinite(x)), bool))
    assert infinite[2][infinite[0] & np.isfinite(y)].all()
    has_infinity = infinite[0] & np.isfinite(y)
    assert (np.isinf(got.real) | np.isinf(got.imag))[has_infinity].all()
    assert infinite[2][(y == 0) & np.isfinite(x) & (x != 0)].all()


def test_numbers_whose_squares_are_none(ends: Program) -> None:
    """The quotient and the root of numbers of any size."""
    z = np.full(len(ENDS), 3e300 - 4e300j)
    np.testing.assert_allclose(ends("sqrt", z), np.sqrt(z), rtol=1e-15)
    tiny = z * 1e-300 * 1e-300
    np.testing.assert_allclose(ends("sqrt", tiny), np.sqrt(tiny), rtol=1e-15)
    z = np.resize(np.array([3e300 - 4e300j, 1e-300 + 2e-300j]), len(ENDS) ** 2)
    np.testing.assert_allclose(ends("divide", z, z * (1 + 1j)), np.full(len(z), 0.5 - 0.5j), rtol=1e-15)
