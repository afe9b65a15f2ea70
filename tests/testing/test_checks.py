"""The checks for tests of records and passes find what is wrong with them, and nothing with what is right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from iree.compiler import ir

from nabla_mlir import numpy as nnp
from nabla_mlir.dialects.regions import nested
from nabla_mlir.interpreter import interpreted
from nabla_mlir.ops.elementwise import cosine, sine
from nabla_mlir.ops.shape import reverse
from nabla_mlir.passes.base import PASSES, Pass
from nabla_mlir.staging.stages import trace
from nabla_mlir.table.kinds import elementwise, general
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.samples import Case, reals
from nabla_mlir.testing import LawError, check_pass, check_record, random_module

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def added() -> Iterator[Callable[..., OpDef]]:
    """Registers twins of the sine with other facts, for one test."""

    def add(**facts: Any) -> OpDef:
        given = {"partials": sine.partials, "numpy": np.sin, "sample": (reals(-1, 1),)} | facts
        return elementwise("test.sine", doc="A sine.", result=lambda x: [(x.shape, x.dtype)], **given)

    yield add
    REGISTRY.pop("test.sine", None)


def test_a_right_record(added: Callable[..., OpDef]) -> None:
    costs = check_record(added())
    assert [c.name for c in costs] == ["test_sine_0", "test_sine_1", "test_sine_2"]
    assert 0 < costs[0].value < costs[0].jvp <= 4 * costs[0].value


@pytest.mark.parametrize(
    ("facts", "law"),
    [
        ({"numpy": np.cos}, "test_sine_0 requires the jvp that differences give, got "),
        ({"partials": [lambda t, y, x: t * y]}, "test_sine_0 requires the jvp that differences give, got "),
        ({"sample": []}, "requires a record with samples, got test.sine with none"),
    ],
)
def test_wrong_records(added: Callable[..., OpDef], facts: dict[str, Any], law: str) -> None:
    with pytest.raises(LawError, match=law):
        check_record(added(**facts))


def test_a_wrong_batch_rule() -> None:
    record = general(
        "test.turned",
        doc="The array itself.",
        result=lambda x: [(x.shape, x.dtype)],
        numpy=lambda x: x,
        linear=(0,),
        jvp=lambda outs, xs, ts: [record(ts[0])],
        transpose=lambda cts, i, xs: record(cts[0]),
        batch=lambda xs, mapped, size: [record(reverse(xs[0], dimensions=(0,)))],
        sample=[Case(((3,),))],
    )
    try:
        with pytest.raises(LawError, match=r"test_turned_0 requires a map that is the loop \(vmap_0\), got "):
            check_record(record)
    finally:
        del REGISTRY["test.turned"]


def test_what_a_rule_emits_needs_rules(added: Callable[..., OpDef]) -> None:
    """The derivative of the derivative is an operation without a record."""
    inner = added()
    outer = elementwise(
        "test.outer",
        doc="A sine.",
        result=lambda x: [(x.shape, x.dtype)],
        numpy=np.sin,
        sample=(reals(-1, 1),),
        partials=[lambda t, y, x: t * (cosine(x) + inner(x) - sine(x))],
    )
    try:
        check_record(outer)
        inner.sample = None
        with pytest.raises(LawError, match=r"requires rules for all .* got test.sine \(no sample"):
            check_record(outer)
    finally:
        del REGISTRY["test.outer"]


@dataclass(frozen=True)
class Swap(Pass):
    """Another operation in the place of each sine."""

    name: ClassVar[str] = "test-swap"
    by: str = "cosine"

    def run(self, module: ir.Operation) -> None:
        for op in [op for op in nested(module) if op.name == "stablehlo.sine"]:
            with ir.InsertionPoint(op), op.location:
                new = ir.Operation.create(f"stablehlo.{self.by}", operands=list(op.operands), results=[op.results[0].type])
            op.results[0].replace_all_uses_with(new.results[0])


def test_passes() -> None:
    assert check_pass(Swap("sine"), programs=12) > 3  # the old ones stay beside the new ones
    with pytest.raises(LawError, match=r"(?s)requires the same values before and after, got .*of this module:.module \{.*sine"):
        check_pass(Swap(), programs=12)
    sines = trace(lambda x: nnp.sin(x), np.ones(3), name="main").module
    with pytest.raises(LawError, match="the same values"):
        check_pass(Swap(), [sines], programs=0)
    assert "cosine" not in str(sines)


# What runs on any module; the others are for one that IREE gets, or say something in place of it.
PLAIN = [
    "nabla-lower",
    "nabla-expand",
    "nabla-vmap",
    "nabla-jvp",
    "nabla-vjp",
    "nabla-dce",
    "nabla-simplify",
    "nabla-canonicalize-batch",
    "nabla-normalize",
    "nabla-inline-calls",
    "nabla-remove-stop-gradient",
    "nabla-lower,nabla-hoist-products",
    "nabla-lower,nabla-stack-products",
]


@pytest.mark.parametrize("name", PLAIN)
def test_our_passes_change_no_values(name: str) -> None:
    assert all(part in PASSES or part == "nabla-lower" for part in name.split(","))
    check_pass(name, programs=12)


@pytest.mark.parametrize("seed", range(8))
def test_their_order_changes_no_values(seed: int) -> None:
    order = np.random.default_rng(seed).permutation([name for name in PLAIN if name in PASSES])[:5]
    check_pass(",".join(order), [random_module(seed)], programs=0)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_are_valid_and_finite(seed: int) -> None:
    module = random_module(seed)
    arguments = [np.full(a.type.shape, 0.3) for a in module.body.operations[0].operation.regions[0].blocks[0].arguments]
    assert module.operation.verify()
    assert all(np.isfinite(y).all() for y in interpreted(module.operation, "main")(arguments))


def test_random_programs_have_everything() -> None:
    names = {op.name for seed in range(60) for op in nested(random_module(seed).operation)}
    assert {
        "batch.vmap",
        "ad.vjp",
        "ad.jvp",
        "stablehlo.while",
        "stablehlo.if",
        "stablehlo.scatter",
        "stablehlo.sort",
        "stablehlo.dot_general",
        "stablehlo.reduce",
        "stablehlo.gather",
    } - names <= {"stablehlo.scatter", "stablehlo.gather"}


def run_project(folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_a_project_of_others(tmp_path: Path) -> None:
    """The template, copied: its tests pass, and fail if its pass is wrong."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "pass_project", folder, ignore=shutil.ignore_patterns("__pycache__"))
    output = run_project(folder)
    assert "3 passed" in output, output
    source = folder / "my_passes.py"
    source.write_text(source.read_text().replace("inner.operands[0])", "inner.results[0])"))
    output = run_project(folder)
    assert "2 failed, 1 passed" in output, output
    assert "requires the same values before and after" in output
    (folder / "tests" / "lit.cfg.py").unlink()
    assert "requires a lit.cfg.py in a folder above it" in run_project(folder)
