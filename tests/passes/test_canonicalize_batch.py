"""The canonical form of maps: reached in one sweep, never dearer, and quick for large modules."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from cost import cost
from iree.compiler import ir

from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.canonicalize_batch import CanonicalizeBatchPass
from nabla_mlir.passes.pipeline import Pipeline

ROOT = Path(__file__).parent.parent
EXPAND = "builtin.module(nabla-expand,nabla-simplify)"
FILES = ("canonicalize_batch", "vmap", "vmap_collectives", "explain_batch")


def functions() -> dict[str, str]:
    """Every function with a map of the FileCheck tests, by name."""
    found = {}
    for stem in FILES:
        text = (ROOT / "filecheck" / "passes" / f"{stem}.mlir").read_text()
        for match in re.finditer(r"^func\.func @(\w+).*?^}$", text, re.M | re.S):
            found[f"{stem}.{match[1]}"] = match[0]
    return found


FUNCTIONS = functions()


def canonical(text: str) -> ir.Module:
    module = parse_module(text)
    Pipeline((CanonicalizeBatchPass(),)).run(module.operation)
    return module


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_sweep_reaches_the_fixed_point(name: str) -> None:
    once = str(canonical(FUNCTIONS[name]))
    assert str(canonical(once)) == once


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_cost_never_rises(name: str) -> None:
    plain, better = parse_module(FUNCTIONS[name]), canonical(FUNCTIONS[name])
    for module in (plain, better):
        Pipeline.parse(EXPAND).run(module.operation)
    assert cost(better) <= cost(plain)


def large(count: int) -> str:
    """Two nested maps with `count` operations, a third of which vary with neither axis, a third with the outer one."""
    lines = []
    for i in range(0, count, 3):
        last = i - 3
        a, b, c = (f"%a{last}", f"%b{last}", f"%c{last}") if i else ("%w", "%x", "%y")
        lines += [
            f"%a{i} = stablehlo.sine {a} : tensor<4xf32>",
            f"%b{i} = stablehlo.add {b}, %a{i} : tensor<4xf32>",
            f"%c{i} = stablehlo.multiply {c}, %b{i} : tensor<4xf32>",
        ]
    body = "\n".join(lines)
    kind = "(tensor<4x2xf32>) -> tensor<2x4xf32>"
    return f"""func.func @f(%w: tensor<4xf32>, %xs: tensor<4x3xf32>, %ys: tensor<4x2xf32>) -> tensor<2x3x4xf32> {{
      %z = "batch.vmap"(%xs) ({{
      ^bb0(%x: tensor<4xf32>):
        %r = "batch.vmap"(%ys) ({{
        ^bb1(%y: tensor<4xf32>):
          {body}
          stablehlo.return %c{(count - 1) // 3 * 3} : tensor<4xf32>
        }}) {{axes = ["j"], sizes = array<i64: 2>, in_axes = [array<i64: 1>], out_axes = [array<i64: 0>]}} : {kind}
        stablehlo.return %r : tensor<2x4xf32>
      }}) {{axes = ["i"], sizes = array<i64: 3>, in_axes = [array<i64: 1>], out_axes = [array<i64: 1>]}}
        : (tensor<4x3xf32>) -> tensor<2x3x4xf32>
      return %z : tensor<2x3x4xf32>
    }}"""


def seconds(count: int) -> tuple[float, float]:
    """What the canonical form takes, and what the whole way to plain StableHLO takes."""
    module = parse_module(large(count))
    start = time.process_time()
    Pipeline((CanonicalizeBatchPass(),)).run(module.operation)
    canonicalized = time.process_time()
    once = str(module)
    assert str(canonical(once)) == once
    # What varies with neither axis stands before the maps, what varies with one inside that one alone.
    outside = once[: once.index("batch.vmap")]
    assert outside.count("stablehlo.sine") == len(range(0, count, 3))
    assert once.count("stablehlo.add") == len(range(0, count, 3))
    again = time.process_time()
    Pipeline.parse(EXPAND).run(module.operation)
    return canonicalized - start, time.process_time() - again


def test_ten_thousand_operations() -> None:
    for small, big in zip(seconds(1000), seconds(10000), strict=True):
        assert big < 20 * small + 0.2  # linear, with room for noise
