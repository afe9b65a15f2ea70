"""Samplers and steps with acceptance in f64: compiled code against the interpreter, alone and mapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir import random
from nabla_mlir.jax import lax

KEYS = random.split(random.key(1), 2)


def log_density(q: Any) -> Any:
    return -0.5 * nnp.sum(q**2 * nnp.arange(1.0, 4.0, dtype="f64"))


def slice_step(q: Any, key: Any) -> tuple[Any, Any]:
    """Slice sampling along a random direction, with an interval that grows and shrinks."""
    first, second = random.split(key)
    height = log_density(q) + nnp.log(random.uniform(first, dtype="f64"))
    d = random.normal(second, q.shape, "f64")
    high = lax.while_loop(lambda t: log_density(q + t * d) > height, lambda t: t + 0.5, np.float64(0.5))
    low = lax.while_loop(lambda t: log_density(q + t * d) > height, lambda t: t - 0.5, np.float64(-0.5))

    def shrink(state: Any) -> Any:
        low, high, t, key = state
        key, draw = random.split(key)
        low, high = nnp.where(t < 0, t, low), nnp.where(t < 0, high, t)
        return low, high, random.uniform(draw, dtype="f64", minval=low, maxval=high), key

    t = lax.while_loop(lambda s: log_density(q + s[2] * d) < height, shrink, (low, high, high, key))[2]
    return q + t * d, q


def slices(key: Any) -> Any:
    return lax.scan(slice_step, nnp.zeros(3, "f64"), random.split(key, 4))[1]


def adaptive_steps(key: Any) -> Any:
    """Heun's method for the oscillator of van der Pol; a step with a large error is repeated."""
    f = lambda y: nnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])  # noqa: E731

    def step(state: Any) -> Any:
        t, y, h, n = state
        first = f(y)
        second = f(y + h * first)
        error = nnp.max(nnp.abs(0.5 * h * (second - first)))
        t, y = lax.cond(error < 1e-3, lambda: (t + h, y + 0.5 * h * (first + second)), lambda: (t, y))
        return t, y, h * nnp.clip(0.9 * nnp.sqrt(1e-3 / (error + 1e-12)), 0.2, 5.0), n + 1

    start = np.float64(0.0), random.normal(key, (2,), "f64"), np.float64(0.1), 0
    return lax.while_loop(lambda s: (s[0] < 2.0) & (s[3] < 500), step, start)[1]


@pytest.mark.slow
@pytest.mark.parametrize("f", [slices, adaptive_steps])
def test_steps_with_acceptance_compile_in_f64(f: Callable[[Any], Any]) -> None:
    before = nm.set_execution("interpret")
    try:
        wanted = [np.asarray(nm.jit(f)(key)) for key in KEYS]
    finally:
        nm.set_execution(before)
    assert wanted[0].dtype == np.float64
    np.testing.assert_allclose(nm.jit(f)(KEYS[0]), wanted[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(nm.jit(nm.vmap(f))(KEYS), wanted, rtol=1e-8, atol=1e-8)
    mapped = nm.vmap(nm.jit(f))
    for _ in range(2):  # the second call once raised where the first was interpreted
        np.testing.assert_allclose(mapped(KEYS), wanted, rtol=1e-8, atol=1e-8)
