"""Each collective of the dialect `batch` in IR: its jvp, its vjp and its map over another axis, against the whole array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla import run_module

from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.batch import COLLECTIVES
from nabla_mlir.dialects.context import parse_module

ENTRIES, OUTER = 4, 2
VECTOR, SQUARE, ROW = "tensor<3xf64>", f"tensor<3x{ENTRIES}xf64>", '{axis = "i", dimension = 1 : i64}'
INDEX = """%i = "batch.axis_index"() {axis = "i"} : () -> tensor<i32>
      %j = stablehlo.convert %i : (tensor<i32>) -> tensor<f64>
      %k = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<f64>) -> tensor<3xf64>
      %y = stablehlo.multiply %k, %x : tensor<3xf64>"""


def reduction(name: str, over: Callable[..., Any]) -> tuple[str, str, str, Callable[[Any], Any]]:
    text = f'%y = "batch.{name}"(%x) {{axis = "i"}} : ({VECTOR}) -> {VECTOR}'
    return text, VECTOR, VECTOR, lambda x: jnp.broadcast_to(over(x, axis=0), x.shape)


# The body from %x to %y, the types of both, and the same on the array of all entries.
CASES: dict[str, tuple[str, str, str, Callable[[Any], Any]]] = {
    "batch.psum": reduction("psum", jnp.sum),
    "batch.pmax": reduction("pmax", jnp.max),
    "batch.pmin": reduction("pmin", jnp.min),
    "batch.all_gather": (
        f'%y = "batch.all_gather"(%x) {ROW} : ({VECTOR}) -> {SQUARE}',
        VECTOR,
        SQUARE,
        lambda x: jnp.broadcast_to(x.T, (ENTRIES, 3, ENTRIES)),
    ),
    "batch.psum_scatter": (f'%y = "batch.psum_scatter"(%x) {ROW} : ({SQUARE}) -> {VECTOR}', SQUARE, VECTOR, lambda x: x.sum(0).T),
    "batch.axis_index": (INDEX, VECTOR, VECTOR, lambda x: jnp.arange(ENTRIES)[:, None] * x),
}


def stacked(type: str, *sizes: int) -> str:
    return type.replace("<", "<" + "".join(f"{n}x" for n in sizes))


def program(body: str, x: str, y: str) -> str:
    """The value, the tangent along %t and the cotangent of %c, in each entry of "i" for each of "k"."""
    inside = f"{stacked(x, ENTRIES)}, {stacked(x, ENTRIES)}, {stacked(y, ENTRIES)}"
    types, results = f"{x}, {x}, {y}", f"{y}, {y}, {x}"
    carried = "[array<i64: 0>, array<i64: 0>, array<i64: 0>]"

    def outside(types: str) -> str:
        return ", ".join(stacked(t, OUTER, ENTRIES) for t in types.split(", "))

    def middle(types: str) -> str:
        return ", ".join(stacked(t, ENTRIES) for t in types.split(", "))

    return f"""func.func @main(%xs: {stacked(x, OUTER, ENTRIES)}, %ts: {stacked(x, OUTER, ENTRIES)},
        %cs: {stacked(y, OUTER, ENTRIES)}) -> ({outside(results)}) {{
      %r:3 = "batch.vmap"(%xs, %ts, %cs) ({{
      ^bb0(%xm: {stacked(x, ENTRIES)}, %tm: {stacked(x, ENTRIES)}, %cm: {stacked(y, ENTRIES)}):
        %m:3 = "batch.vmap"(%xm, %tm, %cm) ({{
        ^bb1(%a: {x}, %t: {x}, %c: {y}):
          %p:2 = "ad.jvp"(%a, %t) ({{
          ^bb2(%x: {x}):
            {body}
            stablehlo.return %y : {y}
          }}) {{wrt = array<i64: 0>, of = array<i64: 0>}} : ({x}, {x}) -> ({y}, {y})
          %q:2 = "ad.vjp"(%a, %c) ({{
          ^bb3(%x: {x}):
            {body}
            stablehlo.return %y : {y}
          }}) {{wrt = array<i64: 0>, of = array<i64: 0>}} : ({x}, {y}) -> ({y}, {x})
          stablehlo.return %p#0, %p#1, %q#1 : {results}
        }}) {{axes = ["i"], sizes = array<i64: {ENTRIES}>, in_axes = {carried}, out_axes = {carried}}}
          : ({inside}) -> ({middle(results)})
        stablehlo.return %m#0, %m#1, %m#2 : {middle(results)}
      }}) {{axes = ["k"], sizes = array<i64: {OUTER}>, in_axes = {carried}, out_axes = {carried}}}
        : ({outside(types)}) -> ({outside(results)})
      return %r#0, %r#1, %r#2 : {outside(results)}
    }}"""


def test_all_of_them() -> None:
    assert set(CASES) == set(COLLECTIVES)


@pytest.mark.parametrize("name", CASES)
def test_rules_and_maps(name: str) -> None:
    body, x, y, whole = CASES[name]
    rng = np.random.default_rng(len(name))
    xs, ts, cs = (rng.normal(size=(OUTER, ENTRIES, *map(int, t[7:-4].rstrip("x").split("x")))) for t in (x, x, y))
    module = parse_module(program(body, x, y))
    lower_module(module)
    values, tangents, cotangents = run_module(str(module), [xs, ts, cs])
    for k in range(OUTER):
        want, pushed = jax.jvp(whole, (xs[k],), (ts[k],))
        np.testing.assert_allclose(values[k], want, rtol=1e-12)
        np.testing.assert_allclose(tangents[k], pushed, rtol=1e-12)
        np.testing.assert_allclose(cotangents[k], jax.vjp(whole, xs[k])[1](cs[k])[0], rtol=1e-12)
