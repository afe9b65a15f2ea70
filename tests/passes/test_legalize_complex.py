"""Complex functions against NumPy in extended precision."""

from __future__ import annotations

import numpy as np
import pytest
from legalize_support import Program, legalized

COUNT = 2000
UNARY = {
    "stablehlo.abs": np.abs, "stablehlo.cbrt": lambda z: np.exp(np.log(z) / 3), "stablehlo.cosine": np.cos,
    "stablehlo.exponential": np.exp, "stablehlo.exponential_minus_one": np.expm1, "stablehlo.log": np.log,
    "stablehlo.log_plus_one": np.log1p, "stablehlo.logistic": lambda z: 1 / (1 + np.exp(-z)),
    "stablehlo.rsqrt": lambda z: 1 / np.sqrt(z), "stablehlo.sign": lambda z: z / np.abs(z),
    "stablehlo.sine": np.sin, "stablehlo.sqrt": np.sqrt, "stablehlo.tan": np.tan, "stablehlo.tanh": np.tanh,
    "chlo.acosh": np.arccosh, "chlo.acos": np.arccos, "chlo.asin": np.arcsin, "chlo.asinh": np.arcsinh,
    "chlo.atan": np.arctan, "chlo.atanh": np.arctanh, "chlo.cosh": np.cosh, "chlo.sinh": np.sinh,
}  # fmt: skip
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
