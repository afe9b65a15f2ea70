"""Sums that are made together, against NumPy: over all axes, with odd sizes, and what a call holds in memory."""

from itertools import combinations

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.passes.iree.kernels.fuse_sums import FuseSumsPass

rng = np.random.default_rng(3)
AXES = [axes for n in (1, 2, 3) for axes in combinations(range(3), n)]


def sums_of(np_, terms, positions=AXES):
    return tuple(np_.sum(terms, axis=axes) for axes in positions)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_over_each_choice_of_axes(dtype):
    """The last axis is no multiple of a vector; the first one none of the workgroups."""
    a, b, c = (rng.normal(size=n).astype(dtype) for n in (41, 59, 123))

    def f(np_, a, b, c):
        return sums_of(np_, np_.tanh(a[:, None, None] + b[:, None] * c))

    compiled = nm.trace(lambda *args: f(nnp, *args), a, b, c, name="f").lower().compile()
    assert compiled.memory["f"].allocated < 41 * 59 * 123 * a.itemsize
    for ours, theirs in zip(compiled(a, b, c), f(np, *(x.astype("f8") for x in (a, b, c))), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4 if dtype == "f4" else 1e-11, atol=1e-3 if dtype == "f4" else 1e-9)


@pytest.mark.slow
def test_points_of_three_coordinates():
    """The short last axis is written out, in what is summed and in what is summed of it inside."""
    x, y = rng.normal(size=(389, 3)).astype("f4"), rng.normal(size=(701, 3)).astype("f4")

    def f(np_, x, y):
        d = x[:, None] - y[None]
        weights = 1 / (np_.sum(d * d, axis=2) + 1)
        return (*sums_of(np_, d * weights[:, :, None], [a for a in AXES if a != (2,)]), np_.sum(weights, axis=0))

    compiled = nm.trace(lambda *args: f(nnp, *args), x, y, name="f").lower().compile()
    assert compiled.memory["f"].allocated < 389 * 701 * 4
    for ours, theirs in zip(compiled(x, y), f(np, x.astype("f8"), y.astype("f8")), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-2)


def bodies(x, m):
    d = x[:, None] - x[None]
    return (m[:, None] * m / nnp.sqrt((d * d).sum(axis=2) + 1e-2)).sum()


@pytest.mark.slow
def test_one_sum_of_sums_over_a_short_axis():
    x, m = rng.normal(size=(601, 3)).astype("f8"), rng.normal(size=601)
    compiled = nm.trace(bodies, x, m, name="f").lower().compile()
    d = x[:, None] - x[None]
    assert compiled.memory["f"].allocated < 601 * 601
    np.testing.assert_allclose(compiled(x, m), (m[:, None] * m / np.sqrt((d * d).sum(axis=2) + 1e-2)).sum(), rtol=1e-12)


@pytest.mark.slow
def test_derivatives_hold_nothing_of_all_pairs(monkeypatch):
    x, v, m = (rng.normal(size=s).astype("f4") for s in ((600, 3), (600, 3), 600))
    lowered = nm.trace(nm.hvp(bodies), x, v, m, name="f").lower()
    fused = lowered.compile(cache=False)
    assert fused.memory["f"].allocated < 600 * 600
    monkeypatch.setattr(FuseSumsPass, "run", lambda self, module: None)
    stored = lowered.compile(cache=False)
    np.testing.assert_allclose(fused(x, v, m), stored(x, v, m), rtol=1e-3, atol=0.3)
