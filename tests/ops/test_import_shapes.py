"""Shapes in imported modules that do not fit together: refused at import, with the operation and its line."""

from __future__ import annotations

import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError


def einsum(config: str, *shapes: str) -> tuple[list[str], str, str]:
    *operands, result = [f"tensor<{s}>" for s in shapes]
    name, values = ("einsum", "%0, %1") if len(operands) == 2 else ("unary_einsum", "%0")
    text = f'"stablehlo.{name}"({values}) {{einsum_config = "{config}"}} : ({", ".join(operands)}) -> {result}'
    return operands, text, result


def select(dim: int, batch_dims: int, index: str, result: str) -> tuple[list[str], str, str]:
    operands, result = ["tensor<2x3xf32>", f"tensor<{index}>"], f"tensor<{result}>"
    attributes = f"{{dim = {dim} : i64, batch_dims = {batch_dims} : i64}}"
    return operands, f'"stablehlo.torch_index_select"(%0, %1) {attributes} : ({", ".join(operands)}) -> {result}', result


def plain(text: str, result: str, *operands: str) -> tuple[list[str], str, str]:
    types = [f"tensor<{s}>" for s in operands]
    return types, f"{text} : ({', '.join(types)}) -> tensor<{result}>", f"tensor<{result}>"


def fft(kind: str, length: str, operand: str, result: str) -> tuple[list[str], str, str]:
    return plain(f"stablehlo.fft %0, type = {kind}, length = [{length}]", result, operand)


CASES = {
    "a letter of two sizes": (einsum("ab,bc->ac", "2x3xf32", "4x5xf32", "2x5xf32"), "got 3 and 4 for 'b' in 'ab,bc->ac'"),
    "one is a size, too": (einsum("ab,bc->ac", "2x1xf32", "3x5xf32", "2x5xf32"), "got 1 and 3 for 'b'"),
    "a diagonal": (einsum("aa,bc->ac", "2x3xf32", "3x5xf32", "2x5xf32"), "got 2 and 3 for 'a'"),
    "an ellipsis": (einsum("...b,...b->...", "7x3xf32", "6x3xf32", "7xf32"), "requires one size for each letter, got 7 and 6"),
    "the result": (einsum("ab,bc->ac", "2x3xf32", "3x5xf32", "2x7xf32"), r"requires tensor<2x5xf32> as result 0 of"),
    "too many letters": (einsum("abd,bc->ac", "2x3xf32", "3x5xf32", "2x5xf32"), "requires a letter for each axis, got"),
    "too few letters": (einsum("a,bc->ac", "2x3xf32", "3x5xf32", "2x5xf32"), "requires a letter for each axis, got"),
    "too few terms": (einsum("ab->ba", "2x3xf32", "3x5xf32", "3x2xf32"), "requires terms for 2 operands, got"),
    "no arrow": (einsum("ab,bc", "2x3xf32", "3x5xf32", "2x5xf32"), "requires terms for 2 operands, got"),
    "a letter of nothing": (einsum("ab,bc->ad", "2x3xf32", "3x5xf32", "2x5xf32"), "each letter of the result once, and in an"),
    "a letter twice": (einsum("ab,bc->aa", "2x3xf32", "3x5xf32", "2x2xf32"), "each letter of the result once, and in an"),
    "two dtypes": (einsum("ab,bc->ac", "2x3xf32", "3x5xf64", "2x5xf32"), "operands of one dtype, got float32 and float64"),
    "a unary diagonal": (einsum("aa->a", "2x3xf32", "2xf32"), "got 2 and 3 for 'a'"),
    "a unary result": (einsum("ab->ba", "2x3xf32", "2x3xf32"), r"requires tensor<3x2xf32> as result 0 of"),
    "an axis that is not there": (select(5, 0, "4xi32", "2x4xf32"), r"torch_index_select requires an axis of \(2, 3\)"),
    "an axis in the batch": (select(0, 1, "2x4xi32", "2x4xf32"), "after 1 axes that the index"),
    "another batch": (select(1, 1, "4x3xi32", "2x3xf32"), "after 1 axes that the index"),
    "the selected shape": (select(1, 0, "4xi32", "2x9xf32"), r"requires tensor<2x4xf32> as result 0 of"),
    "a transform of another length": (fft("FFT", "4", "2x3xcomplex<f32>", "2x3xcomplex<f32>"), r"requires last axes of \(4,\)"),
    "a broadcast": (plain("chlo.broadcast_add %0, %1", "4xf32", "3xf32", "4xf32"), r"got \(3,\) and \(4,\)"),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes_that_do_not_fit(name: str) -> None:
    (operands, text, result), message = CASES[name]
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(operands))
    operation = text.split()[0].split("(")[0].strip('"')
    source = f"func.func @f({arguments}) -> {result} {{\n\n  %r = {text}\n  return %r : {result}\n}}"
    with pytest.raises(ImportIRError, match=rf"{operation}(.|\n)*:3:8") as error:
        nm.from_stablehlo(source)
    assert error.match(message)


def test_rewritten_operations_are_named_with_their_line() -> None:
    source = """func.func @f(%x: tensor<5xf32>) -> tensor<8xf32> {
      %a = stablehlo.constant dense<1> : tensor<1xi32>
      %b = stablehlo.constant dense<9> : tensor<1xi32>
      %r = stablehlo.real_dynamic_slice %x, %a, %b, %a
        : (tensor<5xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    with pytest.raises(ImportIRError, match=r"stablehlo.real_dynamic_slice: (.|\n)*limit index 9(.|\n)*:4:12"):
        nm.from_stablehlo(source)
