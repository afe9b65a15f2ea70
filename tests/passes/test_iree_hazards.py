"""The hazards of IREE 3.13 that are no matter of one operation: hangs, crashes, what it cannot run, and other targets.

Those of which there is a reproducer with an answer are in nabla_mlir/passes/iree/faults/table.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from legalize_support import legalized

from nabla_mlir.base.errors import CompileError, ImportIRError, RuleMissingError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.interop.stablehlo import from_stablehlo
from nabla_mlir.runtime import Executable
from nabla_mlir.targets import CPU, CUDA


def function(name: str, arguments: str, result: str, body: str) -> str:
    return f"func.func @{name}({arguments}) -> {result} {{\n{body}\n}}\n"


def test_iree_still_never_ends_with_recursion() -> None:
    text = """func.func @f(%x: tensor<f32>) -> tensor<f32> {
      %0 = func.call @g(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @g(%x: tensor<f32>) -> tensor<f32> {
      %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    with pytest.raises(CompileError, match="requires that the compiler ends within 3 s"):
        compile_module(text, CPU(), cache=False, timeout=3)
    with pytest.raises(RuleMissingError, match="without recursion"):
        legalized(text)


def test_iree_still_crashes_without_optimisation() -> None:
    """A product over nothing, at its default level; it is right at ours."""
    text = function(
        "f",
        "%x: tensor<3x0xf32>, %y: tensor<0x4xf32>",
        "tensor<3x4xf32>",
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]"
        " : (tensor<3x0xf32>, tensor<0x4xf32>) -> tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>",
    )
    with pytest.raises(CompileError, match="a crash of the compiler"):
        compile_module(text, CPU(), flags=["--iree-opt-level=O0"], cache=False)
    executable = Executable.load(compile_module(legalized(text), CPU(), flags=["--iree-opt-level=O0"], cache=False))
    empty = np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)
    assert not np.asarray(executable.function("f")(empty)[0]).any()


@pytest.mark.parametrize("attributes", ["{iree.abi.consume}", "{iree.abi.output = 0 : index}"])
def test_iree_still_copies_what_is_given_away(attributes: str) -> None:
    """An argument that the caller gives up is not updated in its place, so there is no donation; results in memory of
    the caller's are what there is.
    """
    x = "tensor<65536xf32>"
    text = function(
        "f",
        f"%x: {x} {attributes}, %u: tensor<4xf32>, %i: tensor<i32>",
        x,
        f"%0 = stablehlo.dynamic_update_slice %x, %u, %i : ({x}, tensor<4xf32>, tensor<i32>) -> {x}\nreturn %0 : {x}",
    )
    streams = compile_module(text, CPU(), flags=["--compile-to=stream"], cache=False).decode()
    assert "stream.tensor.import" in streams
    assert "stream.cmd.copy" in streams, "IREE updates it in place: arguments can be donated"


PHILOX = """func.func @f(%s: tensor<3xui64>) -> tensor<4xui32> {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)
  return %1 : tensor<4xui32> }"""


def test_a_generator_that_iree_has_otherwise_is_an_error() -> None:
    with pytest.raises(RuleMissingError, match=r"PHILOX requires a state of 2 words, got 3"):
        legalized(PHILOX)
    assert legalized(PHILOX.replace("3xui64", "2xui64")) == str(parse_module(PHILOX.replace("3xui64", "2xui64")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = stablehlo.create_token : !stablehlo.token\nreturn %x : tensor<4xf32>", "stablehlo.create_token"),
        ('%0 = "stablehlo.after_all"() : () -> !stablehlo.token\nreturn %x : tensor<4xf32>', "stablehlo.after_all"),
        ("%0 = stablehlo.custom_call @mystery(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>", "mystery"),
        (
            "%0 = stablehlo.tanh %x : tensor<4xf32>\n%1 = tensor.cast %0 : tensor<4xf32> to tensor<*xf32>\n"
            "return %x : tensor<4xf32>",
            "tensor.cast",
        ),
    ],
)
def test_what_cannot_run_is_refused_by_name(body: str, message: str) -> None:
    text = f"func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\n}}"
    with pytest.raises((ImportIRError, RuleMissingError), match=message):
        from_stablehlo(text, "f")(np.zeros(4, np.float32))


# What IREE refuses and other tests have right: `test_legalize_structured.py`, `_indexing`, `_lapack` and `_vulkan`.
REFUSED_ELSEWHERE = {
    "float8 on CUDA": (
        CUDA("sm_80"),
        """func.func @f(%x: tensor<3xf32>) -> tensor<3xf8E5M2> {
      %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xf8E5M2>
      return %0 : tensor<3xf8E5M2> }""",
    )
}


@pytest.mark.parametrize("name", REFUSED_ELSEWHERE)
def test_iree_still_refuses_what_others_have_right(name: str) -> None:
    target, text = REFUSED_ELSEWHERE[name]
    with pytest.raises(CompileError):
        compile_module(text, target, cache=False)
