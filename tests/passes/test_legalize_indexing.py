"""Broadcasts, gathers and scatters against JAX; out of range indices never leave a buffer."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from legalize_support import Program, check_against_jax, jax_text, legalized

from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.iree.math.fold_numbers import FoldNumbersPass
from nabla_mlir.passes.iree.pipeline import LegalizeForIreePipeline
from nabla_mlir.passes.pipeline import Pipeline

rng = np.random.default_rng(0)
A = rng.normal(size=(8, 9)).astype(np.float32)
OUT = np.array([-3, 0, 7, 8, 20, 2, 2], np.int32)
V = rng.normal(size=(7, 9)).astype(np.float32)
MODES = ("add", "multiply", "max", "min", "set")


def _update(mode: str, index, a, i, v):
    return getattr(a.at[index(i)], mode)(v, mode="drop")


def test_gather() -> None:
    dims = lax.GatherDimensionNumbers((1,), (0,), (1, 0))
    check_against_jax(
        {
            "rows": (lambda a, i: jnp.take(a, i, axis=0, mode="clip"), (A, OUT)),
            "columns": (lambda a, i: jnp.take(a, i, axis=1, mode="fill"), (A, OUT)),
            "points": (lambda a, i, j: a[i, j], (A, OUT, OUT[::-1].copy())),
            "windows": (
                lambda a, i: lax.gather(a, i, dims, (1, 4), mode="clip"),
                (A, np.array([[5, 1], [6, -2], [9, 30]], np.int32)),
            ),
            "batched": (jax.vmap(lambda a, i: a[i]), (V[:3, :5], np.array([[0, 5], [1, -9], [4, 4]], np.int32))),
            "narrow": (lambda a, i: jnp.take(a, i, axis=0, mode="clip"), (A, np.array([-7, 3, 127], np.int8))),
            "unsigned": (lambda a, i: jnp.take(a, i, axis=0, mode="clip"), (A, np.array([7, 200], np.uint8))),
        },
        0,
    )


@pytest.mark.slow
def test_scatter() -> None:
    cases = {}
    for mode in MODES:
        cases |= {
            f"rows_{mode}": (partial(_update, mode, lambda i: i), (A, OUT, V)),
            f"part_{mode}": (partial(_update, mode, lambda i: (i, slice(2, 6))), (A, OUT[:-1], V[:6, :4])),
            f"one_out_{mode}": (partial(_update, mode, lambda i: i), (A, np.int32(9), V[0])),
            f"point_{mode}": (partial(_update, mode, lambda i: (i, i)), (A, np.int32(3), np.float32(2))),
        }
    dims = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    starts = np.array([[5, 1], [6, -2], [6, 7], [2, 2]], np.int32)
    cases["windows"] = (
        lambda a, i, v: lax.scatter_add(a, i, v, dims, mode="drop"),
        (A, starts, rng.normal(size=(4, 2, 2)).astype(np.float32)),
    )
    cases["batched"] = (
        jax.vmap(lambda a, i, v: a.at[i].add(v, mode="drop")),
        (V[:3, :5], np.array([[0, 5], [1, -9], [4, 4]], np.int32), V[:3, :2]),
    )
    cases["integers"] = (lambda a, i, v: a.at[i].max(v, mode="drop"), (np.arange(8), OUT, np.arange(7) * 3 - 9))
    check_against_jax(cases, 1e-6)


SEVERAL = """func.func @f(
    %a: tensor<4xf32>, %b: tensor<4xi32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>, %v: tensor<3xi32>
    ) -> (tensor<4xf32>, tensor<4xi32>) {{
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) ({{
  ^bb0(%x: tensor<f32>, %y: tensor<i32>, %p: tensor<f32>, %q: tensor<i32>):
    {body}
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
       scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
    : (tensor<4xf32>, tensor<4xi32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
}}"""
APART = """%s = stablehlo.add %x, %p : tensor<f32>
    %t = stablehlo.maximum %y, %q : tensor<i32>
    stablehlo.return %s, %t : tensor<f32>, tensor<i32>"""
MIXED = """%c = stablehlo.compare GT, %p, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %s = stablehlo.select %c, %p, %x : tensor<i1>, tensor<f32>
    %t = stablehlo.select %c, %q, %y : tensor<i1>, tensor<i32>
    stablehlo.return %s, %t : tensor<f32>, tensor<i32>"""


def test_scatter_of_several_operands() -> None:
    arguments = (
        np.float32([1, 2, 3, 4]),
        np.int32([1, 2, 3, 4]),
        np.int32([[1], [9], [1]]),
        np.float32([5, 6, 7]),
        np.int32([-5, 6, 7]),
    )
    sums, tops = Program(legalized(SEVERAL.format(body=APART)))("f", *arguments)
    assert (sums.tolist(), tops.tolist()) == ([1, 14, 3, 4], [1, 7, 3, 4])
    best, which = Program(legalized(SEVERAL.format(body=MIXED)))("f", *arguments)
    assert (best.tolist(), which.tolist()) == ([1, 7, 3, 4], [1, 7, 3, 4])


PERMUTED = """func.func @f(%x: tensor<3x3x3xf32>) -> tensor<3x3x3xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [2, 0, 1] : (tensor<3x3x3xf32>) -> tensor<3x3x3xf32>
  return %0 : tensor<3x3x3xf32>
}"""


def test_broadcast_of_permuted_dimensions() -> None:
    x = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    want = np.transpose(x, (1, 2, 0))
    np.testing.assert_array_equal(Program(legalized(PERMUTED))("f", x), want)
    assert not np.array_equal(Program(PERMUTED)("f", x), want), "IREE is right: drop the pattern"


INSIDE = {
    "constant": (lambda a: a[np.array([0, 3, 7])], (A,)),
    "iota": (lambda a: a[jnp.arange(8)], (A,)),
    "modulo": (lambda a, i: a[lax.rem(i, np.uint32(8))], (A, OUT.astype(np.uint32))),
    "scatter": (lambda a, v: a.at[np.array([0, 3, 7])].set(v), (A, V[:3])),
}


def test_indices_in_range_are_left_alone() -> None:
    for case in INSIDE.items():
        text = jax_text(dict([case]))
        module = parse_module(text)
        Pipeline(LegalizeForIreePipeline().passes()).run(module.operation)
        want = parse_module(text)
        Pipeline((FoldNumbersPass(),)).run(want.operation)  # which chooses between known numbers, with no index in mind
        assert str(module) == str(want), case[0]
