"""nabla-opt on numbers, with passes and operations from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.base import PASSES
from nabla_mlir.tools import opt
from nabla_mlir.tools.inputs import InputError
from nabla_mlir.tools.values import check_equal, inputs_of

MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
PASS = '''
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class SwapPass(Pass):
    """Replace {old} by {new}."""

    name: ClassVar[str] = "{name}"

    def run(self, module: ir.Operation) -> None:
        for op in [op for op in nested(module) if op.name == "{old}"]:
            with ir.InsertionPoint(op), op.location:
                swapped = ir.Operation.create("{new}", operands=list(op.operands), results=[op.results[0].type])
            op.results[0].replace_all_uses_with(swapped.results[0])
            op.erase()
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name, old, new in (("wrong", "sine", "cosine"), ("right", "multiply", "multiply")):
        text = PASS.format(name=f"swap-{name}", old=f"stablehlo.{old}", new=f"stablehlo.{new}")
        (tmp_path / f"{name}.py").write_text(text)
    path = tmp_path / "module.mlir"
    path.write_text(MODULE)
    yield path
    for name in ("swap-wrong", "swap-right"):
        PASSES.pop(name, None)


def test_a_pass_from_outside_that_changes_values(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main([str(module), "--load", "wrong.py", "--swap-wrong"]) == 0
    assert "stablehlo.cosine" in capsys.readouterr().out
    assert opt.main([str(module), "--swap-wrong", "--check-values"]) == 1
    error = capsys.readouterr().err
    assert "swap-wrong) requires the same values before and after, got " in error
    assert "at [0] of result 0" in error


def test_a_pass_from_outside_that_does_not(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = "[0, 1, 2, 3]"
    assert opt.main([str(module), "--load", "right.py", "--swap-right", "--check-values", "--run", "--input", values]) == 0
    line = capsys.readouterr().out
    assert line.startswith("main 0: float32[4] = [0.0, 0.708073")
    np.save("x.npy", np.arange(4, dtype=np.float32))
    assert opt.main([str(module), "--run", "--input=x.npy"]) == 0
    assert capsys.readouterr().out == line


WRONG = """
import gc
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir
from iree.compiler.dialects import tensor

from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.base import Pass, register


def erase(op):
    op.erase()


def detach(op):
    op.detach_from_parent()


def argument(op):
    op.block.erase_argument(0)


def replace(op, new):
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def nowhere(op):
    replace(op, ir.Operation.create(op.name, results=[op.results[0].type], operands=list(op.operands)))


def clone(op):
    replace(op, op.clone(ip=False))


def view(op):
    replace(op, tensor.CastOp(op.results[0].type, op.operands[0]))


def fail(op):
    raise ValueError("oh no")


def reorder(op):
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create("stablehlo.cosine", results=[op.results[0].type], operands=list(op.operands))
    op.detach_from_parent()
    new.block.append(op)
    op.move_before(new)
    replace(op, new)


def of(action):
    @register
    @dataclass(frozen=True)
    class Wrong(Pass):
        name: ClassVar[str] = f"wrong-{action.__name__}"

        def run(self, module):
            for op in [op for op in nested(module) if op.name == "stablehlo.sine"]:
                action(op)
            gc.collect()


for action in (erase, detach, argument, nowhere, clone, view, fail, reorder):
    of(action)
"""


def test_mistakes_in_a_pass_from_outside_are_errors_that_name_it(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The module would read freed memory after all but the last two, and the process would end."""
    Path("mistakes.py").write_text(WRONG)
    unread = "requires that nothing reads what it erases, got {}, which a stablehlo.{} reads."
    lost = "requires that each operation stands in a block, got a {} in none, which a stablehlo.multiply reads."
    messages = {
        "erase": unread.format("a stablehlo.sine", "multiply"),
        "argument": unread.format("argument 0 of a block", "sine"),
        "detach": lost.format("stablehlo.sine"),
        "nowhere": lost.format("stablehlo.sine"),
        "clone": lost.format("stablehlo.sine"),
        "view": lost.format("tensor.cast"),
        "fail": "requires a run without errors, got ValueError: oh no",
    }
    load = ["--load", "mistakes.py"]
    try:
        for name, message in messages.items():
            for verify in ("true", "false"):
                assert opt.main([str(module), *load, f"--wrong-{name}", f"--verify-each={verify}"]) == 1
                assert f"wrong-{name} {message}" in (error := capsys.readouterr().err)
                assert ("Traceback" in error) == ("in fail" in error) == (name == "fail")
                load = []
        assert opt.main([str(module), "--wrong-reorder"]) == 0
        assert "stablehlo.cosine" in capsys.readouterr().out
    finally:
        for name in (*messages, "reorder"):
            PASSES.pop(f"wrong-{name}", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--run and --check-values require a public function with a body, got none in case.mlir."),
        ("func.func private @g() -> tensor<f32>", "require a public function with a body, got none in case.mlir."),
        (
            "func.func @f() -> tensor<f32> { %0 = func.call @g() : () -> tensor<f32> return %0 : tensor<f32> }"
            "func.func @g() -> tensor<f32> { %0 = func.call @f() : () -> tensor<f32> return %0 : tensor<f32> }",
            "requires functions that do not call themselves, got @f.",
        ),
    ],
)
def test_modules_without_functions_to_run(module: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    Path("case.mlir").write_text(text)
    for flag in ("--run", "--check-values"):
        assert opt.main(["case.mlir", flag]) == 1
        assert message in capsys.readouterr().err


def test_files_that_cannot_be_loaded(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.py").write_text("1 / 0")
    Path("unnamed.py").write_text(PASS.format(name="swap", old="a", new="b"))
    errors = {
        "broken.py": "ZeroDivisionError",
        "missing.py": "FileNotFoundError",
        "unnamed.py": "PassError: a pass requires a new name",
    }
    for file, reason in errors.items():
        assert opt.main([str(module), "--load", file]) == 1
        assert f"cannot load '{file}': {reason}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ([np.float64(1), np.float64(2)], "the same results before and after, got 1 and 2"),
        ([np.float32(1)], r"the same types before and after, got float64\[\] and float32\[\] for result 0"),
        ([np.float64(1 + 1e-8)], r"the same values before and after, got 1.0 and 1.00000001 at \[\] of result 0"),
        ([np.float64(np.nan)], "the same values before and after, got 1.0 and nan"),
    ],
)
def test_differences_are_named(after: list[np.ndarray], message: str) -> None:
    with pytest.raises(PassError, match=message):
        check_equal([np.asarray(np.float64(1))], [np.asarray(x) for x in after], "a pass")


def test_arguments_that_no_memory_holds_are_not_made_up() -> None:
    """NumPy's own error spoke of arrays in general; found by the fuzzer of damaged modules."""
    for size in (4294967296, 4611686018427387904):
        module = parse_module(f"func.func @main(%x: tensor<{size}xi8>) -> tensor<{size}xi8> {{ return %x : tensor<{size}xi8> }}")
        with pytest.raises(InputError, match=rf"values require arguments of at most 134217728 elements, got int8\[{size}\]"):
            inputs_of(module, "main", ())


def test_equal_up_to_rounding() -> None:
    x = np.array([1.0, np.nan, np.inf, 0.0])
    check_equal([x, np.arange(3)], [x * (1 + 1e-13), np.arange(3)], "a pass")
