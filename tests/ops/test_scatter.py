"""Scatter with bodies that have no name, several operands, repeated places and batching axes."""

from __future__ import annotations

import numpy as np
import pytest
from programs import check_program

RNG = np.random.default_rng(1)
_BODY = """^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %s = stablehlo.sine %a : tensor<f64>
      %m = stablehlo.multiply %s, %b : tensor<f64>
      %r = stablehlo.add %m, %b : tensor<f64>
      stablehlo.return %r : tensor<f64>"""


def _body(old: float, update: float) -> float:
    return np.sin(old) * update + update


@pytest.mark.parametrize(("positions", "unique"), [((2, 0), True), ((1, 1), False), ((3, 9), False), ((-1, 2), True)])
def test_a_body_without_a_name(positions: tuple[int, int], unique: bool) -> None:
    x, u = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 2))
    text = f"""func.func @f(%x: tensor<4x2xf64>, %i: tensor<2x1xi32>, %u: tensor<2x2xf64>) -> tensor<4x2xf64> {{
    %0 = "stablehlo.scatter"(%x, %i, %u) ({{ {_BODY} }}) {{unique_indices = {str(unique).lower()},
      scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
      : (tensor<4x2xf64>, tensor<2x1xi32>, tensor<2x2xf64>) -> tensor<4x2xf64>
    return %0 : tensor<4x2xf64> }}"""
    (got,) = check_program(text, [x, np.array(positions, np.int32)[:, None], u])
    wanted = x.copy()
    for place, row in zip(positions, u, strict=True):
        if 0 <= place < 4:
            wanted[place] = _body(wanted[place], row)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("positions", [(0, 2), (1, 1)])
def test_several_operands(positions: tuple[int, int]) -> None:
    x, y, u, v = RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=2), RNG.normal(size=2)
    t = "tensor<f64>"
    text = f"""func.func @f(%x: tensor<3xf64>, %y: tensor<3xf64>, %i: tensor<2x1xi32>, %u: tensor<2xf64>,
                 %v: tensor<2xf64>) -> (tensor<3xf64>, tensor<3xf64>) {{
    %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) ({{ ^bb0(%a: {t}, %b: {t}, %c: {t}, %d: {t}):
      %p = stablehlo.multiply %a, %d : {t}
      %q = stablehlo.add %b, %c : {t}
      %r = stablehlo.multiply %q, %a : {t}
      stablehlo.return %p, %r : {t}, {t} }}) {{
      scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
      : (tensor<3xf64>, tensor<3xf64>, tensor<2x1xi32>, tensor<2xf64>, tensor<2xf64>) -> (tensor<3xf64>, tensor<3xf64>)
    return %0#0, %0#1 : tensor<3xf64>, tensor<3xf64> }}"""
    got = check_program(text, [x, y, np.array(positions, np.int32)[:, None], u, v])
    a, b = x.copy(), y.copy()
    for place, c, d in zip(positions, u, v, strict=True):
        a[place], b[place] = a[place] * d, (b[place] + c) * a[place]
    np.testing.assert_allclose(got[0], a, rtol=1e-12)
    np.testing.assert_allclose(got[1], b, rtol=1e-12)


def test_batching_axes_and_windows() -> None:
    x, u = RNG.normal(size=(2, 5)), RNG.normal(size=(2, 3, 2))
    positions = np.array([[0, 1, 3], [2, 2, 4]], np.int32)[..., None]
    text = f"""func.func @f(%x: tensor<2x5xf64>, %i: tensor<2x3x1xi32>, %u: tensor<2x3x2xf64>) -> tensor<2x5xf64> {{
    %0 = "stablehlo.scatter"(%x, %i, %u) ({{ {_BODY} }}) {{
      scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], input_batching_dims = [0],
      scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}}
      : (tensor<2x5xf64>, tensor<2x3x1xi32>, tensor<2x3x2xf64>) -> tensor<2x5xf64>
    return %0 : tensor<2x5xf64> }}"""
    (got,) = check_program(text, [x, positions, u])
    wanted = x.copy()
    for row in range(2):
        for k in range(3):
            at = positions[row, k, 0]
            if at <= 3:
                wanted[row, at : at + 2] = _body(wanted[row, at : at + 2], u[row, k])
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
