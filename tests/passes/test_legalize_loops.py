"""Loops as IREE gets them: counted upwards and with tapes in blocks; the same numbers, on XLA and on IREE."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from legalize_support import legalized
from xla import run_module

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.passes.legalize.loops import MIN_TRIPS, extents
from nabla_mlir.tracing import Spec, trace_function

W = np.random.default_rng(6).normal(size=(3, 3)) / 2
H = np.array([0.1, -0.4, 0.8])


@pytest.mark.parametrize("trips", [16, 17, 53, 97, 255, 256, 257, 1000, 4999])
def test_extents(trips: int) -> None:
    nest = extents(trips)
    assert len(nest) == (3 if trips >= 256 else 2)
    assert 0 < math.prod(nest) <= trips
    assert sum(nest) + trips - math.prod(nest) <= 6 * trips ** (1 / len(nest)) + 10


def scanned(steps: int, reverse: bool) -> Any:
    """A scan with a carry, rows that are read and rows that are stacked; and its gradient."""

    def f(h: Any) -> Any:
        step = lambda h, t: (nnp.sin(h @ W) + t, h)  # noqa: E731
        return nm.scan(step, h, nnp.arange(steps, dtype="float64") / steps, reverse=reverse)

    def loss(h: Any) -> Any:
        last, rows = f(h)
        return (rows**2).sum() + last.sum()

    return lambda h: [*f(h), nm.grad(loss)(h)]


def lowered(function: Any) -> str:
    module, captured = trace_function(function, [Spec((3,), np.dtype(np.float64))], "main")
    assert not captured
    lower_module(module)
    return str(module)


@pytest.mark.parametrize("steps", [5, 16, 17, 53, 300])
@pytest.mark.parametrize("reverse", [False, True])
def test_tapes_in_blocks(steps: int, reverse: bool) -> None:
    text = lowered(scanned(steps, reverse))
    legal = legalized(text)
    for a, b in zip(run_module(text, [H]), run_module(legal, [H]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert not re.search(r"compare\s+GE", legal)
    # Rows are written to blocks, and blocks to the tape: no row goes to the tape itself.
    updates = [line for line in legal.splitlines() if "dynamic_update_slice" in line]
    whole = [u for u in updates if f"tensor<{steps}x3xf64>, tensor<1x3xf64>" in u]
    assert bool(whole) == (steps < MIN_TRIPS)


def test_a_counter_of_any_kind_rises() -> None:
    def f(x: Any) -> Any:
        body = lambda c: (c[0] - 3, c[1] * 0.9 + c[0])  # noqa: E731
        return [nm.while_loop(lambda c: c[0] >= -4, body, (np.int64(9), x))[1]]

    text = lowered(f)
    legal = legalized(text)
    assert re.search(r"compare\s+GE", text)
    assert not re.search(r"compare\s+GE", legal)
    assert re.search(r"compare\s+LT", legal)
    np.testing.assert_allclose(run_module(legal, [H])[0], run_module(text, [H])[0], rtol=1e-12)


@pytest.mark.parametrize("steps", [17, 300])
def test_on_iree(steps: int) -> None:
    f = scanned(steps, False)
    for a, b in zip(nm.jit(f)(H), run_module(lowered(f), [H]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
