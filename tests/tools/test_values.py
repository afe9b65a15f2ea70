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
