"""nabla-transform on a module gives what the functions of nabla_mlir give, and refuses what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xla import run_module, run_traced

import nabla_mlir as nm
from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.pipeline import Pipeline

RNG = np.random.default_rng(2)
X, W, V, U = (RNG.normal(size=3) for _ in range(4))
ROWS = RNG.normal(size=(3, 2))
LOSS = """func.func @main(%x: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<f64> {
  %s = stablehlo.sine %x : tensor<3xf64>
  %p = stablehlo.multiply %s, %w : tensor<3xf64>
  %q = stablehlo.multiply %p, %w : tensor<3xf64>
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %r = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  return %r : tensor<f64> }"""
VECTOR = """func.func @main(%x: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<2xf64> {
  %s = stablehlo.sine %x : tensor<3xf64>
  %p = stablehlo.multiply %s, %w : tensor<3xf64>
  %r = stablehlo.slice %p [1:3] : (tensor<3xf64>) -> tensor<2xf64>
  return %r : tensor<2xf64> }"""
both = (0, 1)


def transformed(text: str, *options: str) -> str:
    module = parse_module(text)
    passes = [f"nabla-transform{{{o}}}" for o in options]
    Pipeline.parse(f"builtin.module({','.join(passes)},nabla-expand,nabla-simplify,nabla-verify-lowered)").run(module)
    return str(module)


@pytest.mark.parametrize(
    ("text", "options", "inputs", "function"),
    [
        (LOSS, ["apply=jvp wrt=0,1"], [X, W, V, U], lambda f: lambda x, w, v, u: nm.jvp(f, (x, w), (v, u))),
        (VECTOR, ["apply=vjp wrt=1"], [X, W, V[:2]], lambda f: lambda x, w, ct: (f(x, w), nm.vjp(lambda w: f(x, w), w)[1](ct)[0])),
        (LOSS, ["apply=grad wrt=0,1"], [X, W], lambda f: nm.grad(f, both)),
        (LOSS, ["apply=value_and_grad"], [X, W], nm.value_and_grad),
        (LOSS, ["apply=hvp wrt=1"], [X, W, V], lambda f: lambda x, w, v: nm.hvp(f, 1)(w, v, x)),
        (VECTOR, ["apply=jacfwd wrt=0,1"], [X, W], lambda f: nm.jacfwd(f, both)),
        (VECTOR, ["apply=jacrev wrt=0,1"], [X, W], lambda f: nm.jacrev(f, both)),
        (LOSS, ["apply=hessian wrt=0,1"], [X, W], lambda f: nm.hessian(f, both)),
        (LOSS, ["apply=grad", "apply=vmap size=2 in-axes=1,-1"], [ROWS, W], lambda f: nm.vmap(nm.grad(f), (1, None))),
        (LOSS, ["apply=jacrev", "apply=jacfwd wrt=1"], [X, W], lambda f: nm.jacfwd(nm.jacrev(f), 1)),
    ],
)
def test_numbers(text: str, options: list[str], inputs: list[np.ndarray], function: Callable[..., Any]) -> None:
    got = run_module(transformed(text, *options), inputs)
    want = _leaves(run_traced(lambda *xs: function(nm.from_stablehlo(text))(*xs), inputs))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def _leaves(tree: Any) -> list[Any]:
    return [leaf for item in tree for leaf in _leaves(item)] if isinstance(tree, (tuple, list)) else [tree]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (LOSS, "apply=gradient", "one of jvp, vjp, grad, .* got 'gradient'"),
        (LOSS, "entry=loss", r"one entry point, got 'loss' among \['main'\]"),
        (LOSS, "wrt=2", "indices below 2 in wrt, got 2"),
        (VECTOR, "apply=grad", "one real scalar result, got tensor<2xf64>"),
        (LOSS, "apply=vmap", "the size of the mapped axis, got 0"),
        (LOSS, "apply=vmap size=2 in-axes=0", r"a position for each of 2 arguments, got \[0\]"),
        (LOSS, "apply=vmap size=2 in-axes=0,2", "positions from -1 to 1 for tensor<3xf64>, got 2"),
        (
            "func.func @main(%i: tensor<2xi32>) -> tensor<2xi32> { return %i : tensor<2xi32> }",
            "apply=jvp",
            "a floating-point argument at each index of wrt, got tensor<2xi32>",
        ),
    ],
)
def test_errors(text: str, options: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        transformed(text, options)
