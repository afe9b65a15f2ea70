"""The patterns that Vulkan alone needs, or needs differently."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from legalize_support import Program, check_against_jax, legalized, ulps
from test_legalize_elementwise import BINARY, SPECIAL, UNARY, function, module, special_error, values
from vulkan import need_vulkan

pytestmark = pytest.mark.vulkan


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    need_vulkan()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_elementwise(dtype: str) -> None:
    program = Program(legalized(module([(op, 1) for op in UNARY] + [(op, 2) for op in BINARY], [dtype]), "vulkan"), "vulkan")
    x, y = values({"f32": np.float32, "f64": np.float64}[dtype], 1)
    y = np.where(np.abs(y) < np.finfo(y.dtype).tiny / np.finfo(y.dtype).eps, y.dtype.type(1.5), y)
    wrong = []
    for op, (reference, most) in (UNARY | BINARY).items():
        arguments = (x,) if op in UNARY else (x, y)
        with np.errstate(all="ignore"):
            want = reference(*(a.astype(np.longdouble) for a in arguments))
            domain = reference(*(a.astype(np.float64) for a in arguments))
            want = np.where(np.isnan(domain), np.nan, want)
            error = ulps(program(f"{op.split('.')[1]}_{dtype}", *arguments), want)
        i = int(np.argmax(error))
        if error[i] > most + 1:
            wrong.append((op, error[i], [a[i] for a in arguments]))
    assert not wrong


def test_special_functions() -> None:
    program = Program(legalized(module([(op, 1) for op in SPECIAL], ["f32", "f64"], 2000), "vulkan"), "vulkan")
    found = {(op, dtype): special_error(program, op, dtype) for op in SPECIAL for dtype in ("f32", "f64")}
    assert not {key: value for key, value in found.items() if value[0] > SPECIAL[key[0]][2]}


def test_structured() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000).astype(np.float32)
    a = rng.normal(size=(40, 40)).astype(np.float32)
    image, kernel = rng.normal(size=(2, 6, 6, 4)).astype(np.float32), rng.normal(size=(3, 3, 2, 6)).astype(np.float32)

    def grouped(x, k):
        dims = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=dims, feature_group_count=2)

    check_against_jax(
        {
            "sort": (jnp.sort, (x,)),
            # What crashed the compiler, or it refused: a sort by all bits of an odd length, a matrix that is turned round
            # and used twice, and numbers made of a comparison (SIGSEGV, "write affecting operations", "arith.sitofp").
            "odd_sort": (lambda a: jnp.sort(a * a * a), (x[:7],)),
            "turned": (
                lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, transpose_a=True),
                (a[:3, :3] + 2 * np.eye(3, dtype=np.float32), a[:3, :1]),
            ),
            "identity": (lambda a: a @ a + jnp.eye(3, dtype=a.dtype) * a, (a[:3, :3],)),
            # Small: lavapipe takes a minute to compile the shaders of a larger one.
            "cholesky": (lambda a: lax.linalg.cholesky(a @ a.T + 4 * jnp.eye(4, dtype=a.dtype)), (a[:4, :4],)),
            "fft": (jnp.fft.fft, (x[:12].astype(np.complex64),)),
            "grouped": (grouped, (image, kernel)),
            "gather": (lambda a: jnp.take(a, np.array([50, -3, 7]), axis=0, mode="clip"), (a,)),
        },
        2e-5,
        "vulkan",
    )


def test_count_leading_zeros() -> None:
    types = [("i64", np.int64), ("i8", np.int8)]
    text = "".join(function(f"f_{t}", "stablehlo.count_leading_zeros", [f"tensor<4x{t}>"], f"tensor<4x{t}>") for t, _ in types)
    program = Program(legalized(text, "vulkan"), "vulkan")
    for name, dtype in types:
        bits = np.iinfo(dtype).bits
        got = program(f"f_{name}", np.array([0, 1, -1, 2 ** (bits - 3)], dtype))
        assert got.tolist() == [bits, bits - 1, 0, 2]


def test_loops_that_take_no_step() -> None:
    """Their results shared one transient buffer, which was freed twice."""
    loop = """
      %{0}:2 = stablehlo.while(%i = %zero, %v = %one) : tensor<i32>, tensor<3xf32>
      cond {{ %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1> }}
      do {{ %j = stablehlo.add %i, %step : tensor<i32>
        %w = stablehlo.{1} %v, %x : tensor<3xf32>
        stablehlo.return %j, %w : tensor<i32>, tensor<3xf32> }}"""
    text = f"""func.func @f(%x: tensor<3xf32>, %n: tensor<i32>) -> tensor<3xf32> {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %step = stablehlo.constant dense<1> : tensor<i32>
      %one = stablehlo.constant dense<1.0> : tensor<3xf32>
      {loop.format("a", "multiply")}
      {loop.format("b", "add")}
      %r = stablehlo.subtract %a#1, %b#1 : tensor<3xf32>
      return %r : tensor<3xf32> }}"""
    program, x = Program(legalized(text, "vulkan"), "vulkan"), np.array([1, 2, 3], np.float32)
    for n in (0, 2):
        np.testing.assert_array_equal(program("f", x, np.int32(n)), x**n - (1 + n * x))
