"""The order of passes on the way to IREE: one run of each is enough, and scheduling leaves legal what was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.pipeline import LegalizeForIreePipeline
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.targets import TARGETS, Vulkan
from nabla_mlir.tools.coverage import MEASURED, measurable, programs

TESTS = Path(__file__).parents[1]
FILES = [*sorted((TESTS / "passes/faults").glob("*.mlir")), *sorted((TESTS / "filecheck/passes").glob("legalize_*.mlir"))]
FOUND = json.loads((TESTS.parent / MEASURED).read_text())
# The dtypes that each operation runs with on a CPU; with others it is an error.
SAMPLES = [
    (name, dtype)
    for name in measurable()
    for dtype in ("f16", "f32", "c64", "ui32")
    if FOUND[name].get("cpu", {}).get(dtype) == "yes"
]


def require_fixed_point(text: str, target: str) -> None:
    """Fails if a second run of the patterns changes what the first has made."""
    passes = LegalizeForIreePipeline(target).passes()
    patterns = Pipeline(tuple(p for p in passes if isinstance(p, PatternPass)))
    module = parse_module(text)
    patterns.run(module.operation)
    once = str(module)
    patterns.run(module.operation)
    assert str(module) == once


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_pattern_has_anything_left_to_do(path: Path, target: str) -> None:
    require_fixed_point(path.read_text(), target)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize(("name", "dtype"), SAMPLES)
def test_nor_in_the_samples_of_an_operation(name: str, dtype: str) -> None:
    for program in programs(name, (TESTS / "coverage.mlir").read_text(), dtype):
        text = str(program.traced.lower())
        for target in ("cpu", "vulkan"):
            require_fixed_point(text, target)


def test_no_mark_is_left() -> None:
    text = (TESTS / "filecheck/passes/legalize_sorts.mlir").read_text()
    assert "nabla.final" not in str(legalize(parse_module(text), Vulkan("lavapipe")))
