"""Loops as IREE gets them, counted upwards: the same numbers, on XLA and on IREE."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from xla import run_module

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.iree.pipeline import LegalizeForIreePipeline
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.staging.tracing import Spec, trace_function

W = np.random.default_rng(6).normal(size=(3, 3)) / 2
H = np.array([0.1, -0.4, 0.8])


def legalized(text: str) -> str:
    """As XLA can run it."""
    module = parse_module(text)
    Pipeline(LegalizeForIreePipeline().passes()).run(module.operation)
    return str(module)


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


@pytest.mark.parametrize("reverse", [False, True])
def test_counters_rise(reverse: bool) -> None:
    text = lowered(scanned(17, reverse))
    legal = legalized(text)
    for a, b in zip(run_module(text, [H]), run_module(legal, [H]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert not re.search(r"compare\s+GE", legal)


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
