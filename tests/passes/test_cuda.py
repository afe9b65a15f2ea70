"""What is written for CUDA alone: a GPU is not needed, the CPU runs the IR; and code for CUDA is made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.interpreter import interpreted
from nabla_mlir.jax.environment import enable_x64
from nabla_mlir.runtime import Executable
from nabla_mlir.targets import CPU, CUDA

rng = np.random.default_rng(3)
GPU = CUDA("sm_90", triton=False)  # IREE alone: a CPU runs the legalised module


def normal(*shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def scattered(x: Any, i: Any, u: Any) -> Any:
    return x.at[i].add(u, mode="drop")


def rows(shape: tuple[int, ...], count: int) -> tuple[np.ndarray, ...]:
    """An array, indices of which some are out of range, and updates."""
    return normal(*shape), rng.integers(-3, shape[0] + 3, count), normal(count, *shape[1:])


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "sum of a square": (lambda x: nnp.sum(x * x), (normal(256, 256),)),
    "sums of columns": (lambda x: nnp.sum(x, 0), (normal(20_003, 50),)),
    "sums over three axes": (lambda x: nnp.sum(x, (0, 1, 3)), (normal(40, 50, 3, 30),)),
    "vector times matrix": (lambda x, v: v @ x, (normal(20_003, 50), normal(20_003))),
    "batches of products": (lambda x, y: y @ x, (normal(3, 5000, 4), normal(3, 7, 5000))),
    "small product": (lambda x, y: x @ y, (normal(64, 1040), normal(1040, 96))),
    "contraction of two axes": (lambda x, y: nnp.tensordot(x, y, 2), (normal(8, 30, 90), normal(30, 90, 5))),
    "rows": (scattered, rows((50, 3), 5000)),
    "numbers": (scattered, rows((50,), 5000)),
    "matrices": (scattered, rows((20, 2, 5), 3000)),
    "many rows": (scattered, rows((3000, 64), 2000)),
    "two scatters by the same indices": (lambda x, i, u: scattered(x, i, u) * scattered(x, i, 2 * u), rows((50, 3), 5000)),
}


@pytest.mark.parametrize("wide", [True, False], ids=["f64", "f32"])
def test_what_is_summed_in_another_way_is_the_same(wide: bool) -> None:
    """All cases in one module; that of the CPU and that for CUDA; what is to be split is, and no scatter is left."""
    dtype = np.float64 if wide else np.float32
    with enable_x64():
        inputs = {name: [a.astype(dtype) if a.dtype.kind == "f" else a for a in args] for name, (_, args) in CASES.items()}
        traced = {f"f{k}": nm.trace(f, *inputs[name], name=f"f{k}") for k, (name, (f, _)) in enumerate(CASES.items())}
        lowered = nm.module(**traced).lower()
    text = str(legalize(lowered.module, GPU))
    assert '"stablehlo.scatter"' not in text
    code = Executable.load(compile_module(text, CPU()))
    for k, name in enumerate(CASES):
        (want,) = interpreted(lowered.module.operation, f"f{k}")(inputs[name])
        for _ in range(2):
            (got,) = code.function(f"f{k}")(inputs[name])
            scale = np.abs(want).max()
            np.testing.assert_allclose(got, want, rtol=0, atol=(1e-12 if wide else 1e-5) * scale, err_msg=name)
    assert compile_module(text, GPU)
    # Neither of two scatters writes which updates it asks for: 5000 by 50 rows by 3 numbers.
    dispatches = compile_module(text, GPU, flags=["--compile-to=flow"]).decode()
    assert "flow.dispatch" in dispatches
    assert "tensor<5000x50x3x" not in dispatches


def test_narrow_and_unsigned_numbers_are_summed() -> None:
    """Of f16 no part is rounded; unsigned numbers, for which IREE has no sums, and arrays without elements compile."""
    half, product = [(normal(*shape) * 0.1).astype(np.float16) for shape in ((64, 1040), (1040, 96))], "product"
    whole = rng.integers(0, 2**32, 20_000).astype(np.uint32)
    positions = rng.integers(0, 50, 5000)
    cases: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
        product: (lambda x, y: x @ y, half),
        "rows": (scattered, [np.zeros((50, 3), np.float16), positions, np.full((5000, 3), 0.01, np.float16)]),
        "unsigned": (lambda x: nnp.sum(x, dtype=np.uint32), [whole]),
        "unsigned rows": (scattered, [np.zeros(50, np.uint32), positions, whole[:5000]]),
        "nothing": (lambda x, y: x @ y, [np.zeros((0, 2048), np.float32), np.zeros((2048, 3), np.float32)]),
    }
    lowered = nm.module(**{f"f{k}": nm.trace(f, *xs, name=f"f{k}") for k, (f, xs) in enumerate(cases.values())}).lower()
    text = str(legalize(lowered.module, GPU))
    code = Executable.load(compile_module(text, CPU()))
    got = {name: np.asarray(code.function(f"f{k}")(xs)[0]) for k, (name, (_, xs)) in enumerate(cases.items())}
    exact = half[0].astype(np.float64) @ half[1].astype(np.float64)
    assert np.abs(got[product] - exact).max() <= np.spacing(np.abs(exact).max().astype(np.float16))
    sums = np.bincount(positions, minlength=50)[:, None] * float(np.float16(0.01)) * np.ones(3)
    np.testing.assert_allclose(got["rows"], sums, rtol=1e-3)
    assert got["unsigned"] == whole.sum(dtype=np.uint32)
    wanted = np.zeros(50, np.uint32)
    np.add.at(wanted, positions, whole[:5000])
    np.testing.assert_array_equal(got["unsigned rows"], wanted)
    assert got["nothing"].shape == (0, 3)
    assert compile_module(text, GPU)


CONSTANT = """func.func @f(%x: tensor<65536xi16>) -> tensor<65536xi16> {
  %c = stablehlo.constant dense<7> : tensor<65536xi16>
  %0 = stablehlo.divide %x, %c : tensor<65536xi16>
  return %0 : tensor<65536xi16> }"""


@pytest.mark.parametrize("kind", ["i16", "ui16"])
def test_numbers_of_16_bits_are_divided(kind: str) -> None:
    """By constants too, for which the compiler crashes; zero, -1 and the least number among them."""
    dtype = np.dtype("int16" if kind == "i16" else "uint16")
    ends = np.iinfo(dtype)
    x, y = (rng.integers(ends.min, ends.max + 1, 65_536).astype(dtype) for _ in range(2))
    x[:100], y[:50], y[50:100] = ends.min, 0, dtype.type(ends.max if kind == "ui16" else -1)
    y[100:5000] = rng.integers(0, 9, 4900)
    type = f"tensor<65536x{kind}>"
    text = f"""func.func @f(%x: {type}, %y: {type}) -> ({type}, {type}, {type}, {type}) {{
      %c = stablehlo.constant dense<7> : {type}
      %0 = stablehlo.divide %x, %y : {type}
      %1 = stablehlo.remainder %x, %y : {type}
      %2 = stablehlo.divide %x, %c : {type}
      %3 = stablehlo.remainder %x, %c : {type}
      return %0, %1, %2, %3 : {type}, {type}, {type}, {type} }}"""
    module = parse_module(text)
    legal = str(legalize(module, GPU))
    got = Executable.load(compile_module(legal, CPU())).function("f")([x, y])
    for a, b in zip(got, interpreted(module.operation, "f")([x, y]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert compile_module(legal, GPU)
    with pytest.raises(CompileError, match="crash"):
        compile_module(CONSTANT, GPU, cache=False)


@pytest.mark.parametrize("target", [CPU(), GPU], ids=["cpu", "cuda"])
def test_a_sum_of_many_arguments(target: Any) -> None:
    """More of them than one kernel may bind: 32 buffers on a CPU, 16 on CUDA."""
    xs = [np.full(5, i, np.float32) for i in range(60)]
    lowered = nm.trace(lambda *xs: sum(x * x for x in xs), *xs, name="f").lower()
    text = str(legalize(lowered.module, target))
    if target.name == "cpu":
        assert text.count("compute_barrier") == 2
    else:  # dispatches of a chain, whose pieces read at most 12 values
        reads = [line.partition(" ins(")[2].partition(" : ")[0].count("%") for line in text.splitlines() if " ins(" in line]
        assert text.count("flow.dispatch.workgroups") == len(reads) == 10
        assert max(reads) <= 12
    compiled = lowered.compile(target)
    if target.name == "cpu":
        np.testing.assert_allclose(compiled(*xs), sum(x * x for x in xs))
