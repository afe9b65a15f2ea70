"""The order of passes on the way to IREE: one run of each is enough, and scheduling leaves legal what was."""

from __future__ import annotations

from pathlib import Path

import pytest

from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.errors import NablaError
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.pipeline import LegalizeForIreePipeline
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.targets import TARGETS, Vulkan
from nabla_mlir.tools.coverage import measurable, programs

TESTS = Path(__file__).parents[1]
FILES = [
    *sorted((TESTS / "passes/faults").glob("*.mlir")),
    *sorted((TESTS / "filecheck/passes").glob("legalize_*.mlir")),
]  # fmt: skip


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
@pytest.mark.parametrize("dtype", ["f16", "f32", "c64", "ui32"])
@pytest.mark.parametrize("name", measurable())
def test_nor_in_the_samples_of_an_operation(name: str, dtype: str) -> None:
    try:
        texts = [str(p.traced.lower()) for p in programs(name, (TESTS / "coverage.mlir").read_text(), dtype)]
    except (NablaError, ValueError, TypeError):
        pytest.skip(f"{name} does not take {dtype}")
    if (name, dtype) == ("chlo.top_k", "c64"):
        pytest.skip("complex numbers have no order")
    for text in texts:
        for target in ("cpu", "vulkan"):
            require_fixed_point(text, target)


def test_no_mark_is_left() -> None:
    text = (TESTS / "filecheck/passes/legalize_sorts.mlir").read_text()
    assert "nabla.final" not in str(legalize(parse_module(text), Vulkan("lavapipe")))
