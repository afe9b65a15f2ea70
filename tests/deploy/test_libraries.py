"""Long modules whose kernels are several libraries: the same kernels, results and messages as with one."""

from __future__ import annotations

import numpy as np
import pytest
from iree.compiler import ir

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling import compiler
from nabla_mlir.compiling.internals.libraries import divide
from nabla_mlir.compiling.internals.phases import may_divide
from nabla_mlir.compiling.lowering import compile_program
from nabla_mlir.compiling.strategies import Program
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.runtime.profile import dispatches_of
from nabla_mlir.targets import CPU, Vulkan
from nabla_mlir.targets.toolchain import run_compiler

CHAIN = (
    """
func.func @chain(%x: tensor<64xf32>) -> tensor<64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
"""
    + "".join(
        f"""
  %s{n} = stablehlo.reduce(%x{n - 1 or ""} init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
  %w{n} = stablehlo.broadcast_in_dim %s{n}, dims = [] : (tensor<f32>) -> tensor<64xf32>
  %x{n} = stablehlo.cosine %w{n} : tensor<64xf32>"""
        for n in range(1, 6)
    )
    + "\n  return %x5 : tensor<64xf32>\n}"
)


def libraries(vmfb: bytes) -> int:
    """How many of them an artifact holds: each is an ELF file."""
    return vmfb.count(b"\x7fELF")


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every module counts as a long one of many kernels."""
    monkeypatch.setattr(thresholds, "VERIFIED_ONCE", 0)
    monkeypatch.setattr(thresholds, "DIVIDED_KERNELS", 0)
    return monkeypatch


def sources(text: str = CHAIN) -> ir.Module:
    """A module as it is divided."""
    made = run_compiler([*CPU("generic").flags(), "--compile-to=executable-sources", "-", "-o", "-"], text.encode())
    assert made.returncode == 0, made.stderr
    return parse_module(made.stdout)


def halves(module: ir.Module) -> bool:
    with context():
        return divide(module)


def executables(module: ir.Module) -> list[ir.Operation]:
    return [op.operation for op in module.body.operations if op.operation.name == "hal.executable"]


@pytest.fixture(scope="module")
def network() -> nm.Lowered:
    def loss(w, x):
        for _ in range(3):
            x = nnp.tanh(x @ w)
            x = x - nnp.mean(x, axis=1, keepdims=True)
        return nnp.sum(x * x)

    return nm.trace(nm.hvp(loss), *[nm.spec((20, 20))] * 3, name="hvp").lower()


def test_two_libraries_compute_the_same(divided: pytest.MonkeyPatch, network: nm.Lowered) -> None:
    several = network.compile(cache=False)
    divided.undo()
    divided.setattr(thresholds, "DIVIDED_KERNELS", 10**9)
    one = network.compile(cache=False)
    assert (libraries(several.vmfb), libraries(one.vmfb)) == (thresholds.LIBRARIES, 1)
    args = [np.random.default_rng(seed).normal(size=(20, 20)).astype(np.float32) for seed in range(3)]
    assert np.asarray(several(*args)).tobytes() == np.asarray(one(*args)).tobytes()
    kernels = [{(d.name, d.count) for d in dispatches_of(each.vmfb, each.loaded.entry_points["hvp"])} for each in (several, one)]
    assert kernels[0] == kernels[1]
    assert len(kernels[0]) > 2


def test_kernels_are_shared_by_the_work_of_the_compiler(divided: pytest.MonkeyPatch) -> None:
    module = sources()
    names = {ir.StringAttr(op.attributes["sym_name"]).value for op in executables(module)}
    sizes = [str(op).count("\n") for op in executables(module)]
    assert len(names) > 2
    assert halves(module)
    with context():
        assert module.operation.verify()
    first, second = executables(module)
    assert abs(str(first).count("\n") - str(second).count("\n")) <= max(sizes)
    for executable in (first, second):
        exports = [
            op.operation
            for op in executable.regions[0].blocks[0].operations[0].regions[0].blocks[0].operations
            if op.operation.name == "hal.executable.export"
        ]
        assert [ir.IntegerAttr(op.attributes["ordinal"]).value for op in exports] == list(range(len(exports)))


@pytest.mark.parametrize(("name", "value"), [("DIVIDED_KERNELS", 10_000), ("LIBRARIES", 100)])
def test_few_kernels_stay_as_they_are(divided: pytest.MonkeyPatch, name: str, value: int) -> None:
    module = sources()
    divided.setattr(thresholds, name, value)
    before = str(module)
    assert not halves(module)
    assert str(module) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda code, variant: code.attributes.__setitem__("sym_name", ir.StringAttr.get("other")),
        lambda code, variant: variant.attributes.__setitem__("sym_name", ir.StringAttr.get("other")),
        lambda code, variant: code.regions[0].blocks[0].operations[0].operation.clone(ir.InsertionPoint(code.regions[0].blocks[0])),
        lambda code, variant: variant.clone(ir.InsertionPoint(variant)),
        lambda code, variant: code.clone(ir.InsertionPoint(code)),
    ],
)
def test_executables_of_another_kind_stay_as_they_are(divided: pytest.MonkeyPatch, change) -> None:
    module = sources()
    with context(), ir.Location.unknown():
        variant = executables(module)[1].regions[0].blocks[0].operations[0].operation
        code = next(op.operation for op in variant.regions[0].blocks[0].operations if op.operation.name == "builtin.module")
        change(code, variant)
    before = str(module)
    assert not halves(module)
    assert str(module) == before


@pytest.mark.parametrize(
    ("target", "flags", "may"),
    [
        (CPU(), [], True),
        (CPU(link_embedded=False), [], False),
        (Vulkan("nvidia"), [], False),
        (CPU(), ["--iree-hal-link-executables=true"], False),
        (CPU(), ["--iree-llvmcpu-static-library-output-path=x.o"], False),
    ],
)
def test_who_needs_one_library_gets_it(target: nm.Target, flags: list[str], may: bool) -> None:
    assert may_divide([*target.flags(), *flags]) == may


def test_what_is_refused_in_several_libraries_is_compiled_in_one(divided: pytest.MonkeyPatch) -> None:
    runs = []

    def run(arguments, stdin, **options):
        runs.append(arguments)
        is_divided = "--iree-hal-link-executables=false" in arguments
        return compiler.Finished(1, b"", "error: refused") if is_divided else run_compiler(arguments, stdin, **options)

    divided.setattr(compiler, "run_compiler", run)
    assert libraries(compile_program(Program(CHAIN), CPU(), cache=False)) == 1
    assert ["--iree-hal-link-executables=false" in arguments for arguments in runs] == [False, True, False]


def test_a_module_that_cannot_be_read_behind_a_step_says_why(divided: pytest.MonkeyPatch) -> None:
    def run(arguments, stdin, **options):
        is_first = "--compile-to=executable-sources" in arguments
        return compiler.Finished(0, b"nonsense", "") if is_first else run_compiler(arguments, stdin, **options)

    divided.setattr(compiler, "run_compiler", run)
    with pytest.raises(CompileError, match=r"got [1-9] error"):
        compile_program(Program(CHAIN), CPU(), cache=False)
