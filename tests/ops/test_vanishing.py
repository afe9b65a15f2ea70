"""The proof that a value is zero outside of a mask: what it proves holds for all numbers, infinite ones too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from iree.compiler import ir

from nabla_mlir.dialects.context import parse_module
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.interpreter.blocks import interpreted
from nabla_mlir.rules.vanishing import vanishes
from nabla_mlir.table.tensor import wrap

V, M, T, TM = "tensor<3xf64>", "tensor<3xi1>", "tensor<2x3xf64>", "tensor<2x3xi1>"
ARGUMENTS = f"%m: {M}, %n: {M}, %x: {V}, %y: {V}, %t: {T}, %i: tensor<i32>"
BEFORE = f"""
  %zero = stablehlo.constant dense<0.0> : {V}
  %zeros = stablehlo.constant dense<0.0> : {T}
  %start = stablehlo.constant dense<0> : tensor<i32>
  %inside = stablehlo.select %m, %x, %zero : {M}, {V}
  %both = stablehlo.and %m, %n : {M}
  %either = stablehlo.or %m, %n : {M}
  %rows = stablehlo.broadcast_in_dim %m, dims = [1] : ({M}) -> {TM}
  %tape = stablehlo.select %rows, %t, %zeros : {TM}, {T}
"""


def choice(first: str, second: str) -> str:
    """A choice between two values by whether %i is 0."""
    return f"""
  %p = stablehlo.compare EQ, %i, %start : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%p) ({{
    %a = stablehlo.add {first}, {first} : {V}
    "stablehlo.return"(%a) : ({V}) -> ()
  }}, {{
    "stablehlo.return"({second}) : ({V}) -> ()
  }}) : (tensor<i1>) -> {V}"""


def row_of(tape: str) -> str:
    """Row %i of a tape, as a vector."""
    return f"""
  %s = stablehlo.dynamic_slice {tape}, %i, %start, sizes = [1, 3] : ({T}, tensor<i32>, tensor<i32>) -> tensor<1x3xf64>
  %r = stablehlo.reshape %s : (tensor<1x3xf64>) -> {V}"""


def written(row: str) -> str:
    """The tape with a new row %i."""
    return f"""
  %s = stablehlo.reshape {row} : ({V}) -> tensor<1x3xf64>
  %r = stablehlo.dynamic_update_slice %tape, %s, %i, %start : ({T}, tensor<1x3xf64>, tensor<i32>, tensor<i32>) -> {T}"""


PROVEN = {  # the code of %r, and the mask
    "a selection": (f"%r = stablehlo.add %inside, %zero : {V}", "%m"),
    "a constant zero": (f"%r = stablehlo.negate %zero : {V}", "%m"),
    "a smaller mask": (f"%r = stablehlo.select %both, %x, %zero : {M}, {V}", "%m"),
    "inside of a union": (f"%r = stablehlo.select %n, %x, %zero : {M}, {V}", "%either"),
    "a sum": (f"%b = stablehlo.select %m, %y, %zero : {M}, {V}\n  %r = stablehlo.subtract %inside, %b : {V}", "%m"),
    "any choice of such values": (f"%r = stablehlo.select %n, %inside, %zero : {M}, {V}", "%m"),
    "views": (
        f"%a = stablehlo.reshape %inside : ({V}) -> tensor<3x1xf64>\n  %r = stablehlo.reshape %a : (tensor<3x1xf64>) -> {V}",
        "%m",
    ),
    "the results of branches": (choice("%inside", "%zero"), "%m"),
    "a row of a tape": (row_of("%tape"), "%m"),
    "a tape with a new row": (written("%inside"), "%rows"),
}
UNPROVEN = {
    "a value": (f"%r = stablehlo.add %x, %zero : {V}", "%m"),
    "another mask": (f"%r = stablehlo.select %n, %x, %zero : {M}, {V}", "%m"),
    "a larger mask": (f"%r = stablehlo.select %either, %x, %zero : {M}, {V}", "%m"),
    "outside of the mask": (f"%r = stablehlo.select %m, %zero, %x : {M}, {V}", "%m"),
    "a sum with another value": (f"%r = stablehlo.add %inside, %y : {V}", "%m"),
    "a product with infinity": (f"%r = stablehlo.multiply %inside, %y : {V}", "%m"),
    "another order": (f"%r = stablehlo.reverse %inside, dims = [0] : {V}", "%m"),
    "one of the branches": (choice("%inside", "%x"), "%m"),
    "a row of another tape": (row_of("%t"), "%m"),
    "a tape with another row": (written("%x"), "%rows"),
}
CASES = PROVEN | UNPROVEN


def module_of(name: str) -> ir.Module:
    """The function that returns the value and the mask."""
    code, mask = CASES[name]
    value_type, mask_type = (T, TM) if mask == "%rows" else (V, M)
    return parse_module(f"""func.func @f({ARGUMENTS}) -> ({value_type}, {mask_type}) {{{BEFORE}  {code}
  return %r, {mask} : {value_type}, {mask_type}
}}""")


@pytest.mark.parametrize("name", CASES)
def test_a_proof_exists_where_it_should(name: str) -> None:
    module = module_of(name)
    value, mask = list(functions_of(module.operation)["f"].regions[0].blocks[0].operations)[-1].operands
    assert vanishes(wrap(value), wrap(mask)) == (name in PROVEN)


@pytest.mark.parametrize("name", CASES)
def test_values_with_a_proof_are_zero_outside_and_the_others_need_not_be(name: str) -> None:
    f = interpreted(module_of(name).operation, "f")
    numbers = np.array([1.0, np.inf, np.nan])
    nonzero = []
    for m, n, i in itertools.product(([1, 0, 0], [0, 1, 0]), ([0, 1, 1], [1, 0, 0]), (0, 1)):
        masks = [np.array(v, bool) for v in (m, n)]
        value, mask = f([*masks, numbers, numbers[::-1].copy(), np.stack([numbers, -numbers]), np.int32(i)])
        with np.errstate(invalid="ignore"):
            nonzero.append(bool(np.any(np.asarray(value)[~np.asarray(mask)] != 0)))
    assert any(nonzero) == (name not in PROVEN)


def test_a_carry_that_is_zero_outside_before_an_iteration_is_zero_outside_after_it() -> None:
    """Induction: x + where(m, y, 0) is zero outside of m if x is."""
    code = f"%b = stablehlo.select %m, %y, %zero : {M}, {V}\n  %r = stablehlo.add %x, %b : {V}"
    module = parse_module(f"func.func @f({ARGUMENTS}) -> {V} {{{BEFORE}  {code}\n  return %r : {V}\n}}")
    block = functions_of(module.operation)["f"].regions[0].blocks[0]
    mask, carry, value = block.arguments[0], block.arguments[2], list(block.operations)[-1].operands[0]
    assert vanishes(wrap(value), wrap(mask), [carry])
    assert not vanishes(wrap(value), wrap(mask))
