"""The interpreter: against XLA for every record and its derivatives, and where NumPy means something else than StableHLO."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xla

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.interpreter import interpreted

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
from nabla_mlir.testing.cases import LawCase, law_cases
from nabla_mlir.testing.laws import Laws

CASES = law_cases()


def run(text: str, *arguments: Any) -> list[np.ndarray]:
    return interpreted(parse_module(text).operation, "main")([np.asarray(x) for x in arguments])


def binary(name: str, type: str, attributes: str = "") -> str:
    return f"func.func @main(%x: {type}, %y: {type}) -> {type} {{ %0 = {name} %x, %y {attributes}: {type}\n return %0 : {type} }}"


@pytest.mark.slow
@pytest.mark.parametrize("law", [case for case in CASES if case.case.shapes], ids=lambda case: case.name)
def test_records_and_their_derivatives_are_those_of_xla(law: LawCase) -> None:
    """Values of all samples; derivatives and maps of the first of what is not elementwise: those have no parameters."""
    laws = Laws(law)
    is_whole = law.number == 0 and not law.record.elementwise
    inputs = laws.inputs() if is_whole else laws.xs
    traced = nm.trace(lambda *xs: laws.trace(*xs) if is_whole else law.apply(xs), *inputs, name="main").lower()
    before = [np.array(x) for x in inputs]
    function = interpreted(traced.module.operation, "main")
    got = [function([np.asarray(x) for x in inputs]) for _ in range(2)][1]
    assert all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(before, inputs, strict=True))
    for a, b in zip(got, xla.by_xla(str(traced.module))(inputs), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = max(1.0, float(np.abs(np.nan_to_num(b)).max(initial=0.0)) if b.dtype.kind in "fc" else 1.0)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * scale)


LEAST = -(2**31)


@pytest.mark.parametrize(
    ("name", "x", "y", "expected"),
    [
        ("divide", [7, -7, 7, -7, 5], [2, 2, -2, -2, 0], [3, -3, -3, 3, -1]),
        ("divide", [LEAST, LEAST, LEAST], [-1, 2, 3], [LEAST, -(2**30), -715827882]),
        ("remainder", [7, -7, 7, -7, 5, LEAST], [2, 2, -2, -2, 0, -1], [1, -1, 1, -1, 5, 0]),
        ("power", [2, 2, -1, -1, 1, 0], [10, -1, -3, -2, -5, 0], [1024, 0, -1, 1, 1, 1]),
        ("shift_left", [1, 1, 1, -1], [4, 32, -1, 31], [16, 0, 0, LEAST]),
        ("shift_right_arithmetic", [-8, -8, 8], [1, 40, 40], [-4, -1, 0]),
        ("shift_right_logical", [-1, -1, 8], [28, 32, 2], [15, 0, 2]),
    ],
)
def test_integers(name: str, x: list[int], y: list[int], expected: list[int]) -> None:
    text = binary(f"stablehlo.{name}", f"tensor<{len(x)}xi32>")
    (got,) = run(text, np.array(x, np.int32), np.array(y, np.int32))
    assert got.tolist() == expected
    assert got.dtype == np.int32


def test_unsigned_numbers_are_divided_as_such() -> None:
    big = np.array([2**32 - 1, 7, 7], np.uint32)
    (got,) = run(binary("stablehlo.divide", "tensor<3xui32>"), big, np.array([2, 2, 0], np.uint32))
    assert got.tolist() == [2**31 - 1, 3, 2**32 - 1]


def test_floats_become_integers_within_their_range() -> None:
    text = """func.func @main(%x: tensor<5xf32>) -> tensor<5xi8> {
      %0 = stablehlo.convert %x : (tensor<5xf32>) -> tensor<5xi8>
      return %0 : tensor<5xi8> }"""
    (got,) = run(text, np.array([1.9, -1.9, 300, -300, np.nan], np.float32))
    assert got.tolist() == [1, -1, 127, -128, 0]


def test_exponentials_of_floats_are_rounded_once() -> None:
    x = np.linspace(-80, 80, 4001, dtype=np.float32)
    text = "func.func @main(%x: tensor<4001xf32>) -> tensor<4001xf32> { %0 = stablehlo.exponential %x : tensor<4001xf32> "
    (got,) = run(text + "return %0 : tensor<4001xf32> }", x)
    np.testing.assert_array_equal(got, np.exp(x.astype(np.float64)).astype(np.float32))


def test_total_order() -> None:
    numbers = np.array([np.nan, 1, 0.0, -0.0, -np.inf, np.copysign(np.nan, -1)])
    text = """func.func @main(%x: tensor<6xf64>) -> tensor<6xf64> {
      %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%a: tensor<f64>, %b: tensor<f64>):
        %c = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }) : (tensor<6xf64>) -> tensor<6xf64>
      return %0 : tensor<6xf64> }"""
    (got,) = run(text, numbers)
    assert np.signbit(got).tolist() == [True, True, True, False, False, False]
    np.testing.assert_array_equal(got, [np.nan, -np.inf, -0.0, 0.0, 1, np.nan])


def test_a_body_with_a_loop_takes_one_element_at_a_time() -> None:
    """The sum of a and b by counting upwards: what such a body does cannot be done to arrays."""
    text = """func.func @main(%x: tensor<3x2xi32>, %z: tensor<i32>) -> tensor<2xi32> {
      %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 0>}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %one = stablehlo.constant dense<1> : tensor<i32>
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %s:2 = stablehlo.while(%n = %b, %y = %a) : tensor<i32>, tensor<i32>
          cond { %c = stablehlo.compare GT, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 stablehlo.return %c : tensor<i1> }
          do { %m = stablehlo.subtract %n, %one : tensor<i32>
               %w = stablehlo.add %y, %one : tensor<i32>
               stablehlo.return %m, %w : tensor<i32>, tensor<i32> }
        stablehlo.return %s#1 : tensor<i32>
      }) : (tensor<3x2xi32>, tensor<i32>) -> tensor<2xi32>
      return %0 : tensor<2xi32> }"""
    (got,) = run(text, np.arange(6, dtype=np.int32).reshape(3, 2), np.int32(10))
    assert got.tolist() == [16, 19]


def test_loops_branches_and_calls() -> None:
    def f(x: Any, n: Any) -> Any:
        looped = nm.fori_loop(0, n, lambda i, c: nm.cond(i % 2 == 0, lambda c: c * x, lambda c: c + x, c), x)
        return nm.scan(lambda c, y: (c + y, c * y), 0.0, nnp.stack([looped, x, x]))

    stage = nm.trace(f, 2.0, 5, name="main").lower()
    got = interpreted(stage.module.operation, "main")([np.float32(2), np.int32(5)])
    # 2 -> 4 -> 6 -> 12 -> 14 -> 28
    assert [np.asarray(y).tolist() for y in got] == [32.0, [0.0, 56.0, 60.0]]
    text = """func.func private @square(%x: tensor<f64>) -> tensor<f64> {%0 = stablehlo.multiply %x, %x : tensor<f64>
        return %0 : tensor<f64>}
      func.func @main(%x: tensor<f64>) -> tensor<f64> {%0 = func.call @square(%x) : (tensor<f64>) -> tensor<f64>
        %1 = func.call @square(%0) : (tensor<f64>) -> tensor<f64>
        return %1 : tensor<f64>}"""
    assert run(text, 3.0)[0] == 81.0


def test_an_index_of_a_choice_out_of_range_is_the_last() -> None:
    def f(i: Any) -> Any:
        return nm.switch(i, [lambda: 1.0, lambda: 2.0, lambda: 3.0])

    operation = nm.trace(f, 0, name="main").lower().module.operation
    (choice,) = [op for op in nested(operation) if op.name == "stablehlo.case"]
    assert made_by(choice.operands[0]) is not None, "the front end keeps the index in range"
    text = """func.func @main(%i: tensor<i32>) -> tensor<i32> {
      %0 = "stablehlo.case"(%i) ({ %a = stablehlo.constant dense<1> : tensor<i32>
        stablehlo.return %a : tensor<i32> }, { %b = stablehlo.constant dense<2> : tensor<i32>
        stablehlo.return %b : tensor<i32> }) : (tensor<i32>) -> tensor<i32>
      return %0 : tensor<i32> }"""
    module = parse_module(text)
    got = [interpreted(module.operation, "main")([np.int32(i)])[0].tolist() for i in (0, 1, 2, -1)]
    assert got == [1, 2, 2, 2]


def test_arguments_are_not_written() -> None:
    x, y = np.zeros(4), np.ones(4)

    def f(x: Any, y: Any) -> Any:
        return x.at[1].set(5.0), y.at[np.array([0, 2])].add(3.0), nnp.flip(x)

    function = interpreted(nm.trace(f, x, y, name="main").lower().module.operation, "main")
    for _ in range(2):
        first, second, _ = function([x, y])
        assert first.tolist() == [0, 5, 0, 0]
        assert second.tolist() == [4, 1, 4, 1]
        assert (x.tolist(), y.tolist()) == ([0] * 4, [1] * 4)


def test_what_has_no_evaluation_is_refused_at_the_users_line() -> None:
    text = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %0 = stablehlo.custom_call @other(%x) : (tensor<f64>) -> tensor<f64>
      return %0 : tensor<f64> }"""
    with pytest.raises(RuleMissingError, match=r"requires an evaluation for every operation, got 'stablehlo.custom_call'"):
        run(text, 1.0)
