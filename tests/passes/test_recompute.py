"""Values that are made again for late readers: numbers, and what a call holds in memory."""

import re

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.nn as nn
import nabla_mlir.numpy as nnp
from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.passes.cuts import cheapest_cut
from nabla_mlir.passes.iree.scheduling.recompute import RecomputePass

N = 512
X, W, V = (np.random.default_rng(seed).normal(size=(N, N)).astype(np.float32) / N**0.5 for seed in range(3))


def network(w, x):
    for _ in range(4):
        x = nn.gelu(x @ w)
    return (x * x).sum()


@pytest.mark.slow
def test_a_second_derivative_holds_less_and_is_the_same(monkeypatch):
    lowered = nm.trace(nm.hvp(network), W, V, X, name="f").lower()
    again = lowered.compile(cache=False)
    monkeypatch.setattr(RecomputePass, "run", lambda self, module: None)
    once = lowered.compile(cache=False)
    assert again.memory["f"].transients <= once.memory["f"].transients - 8 * X.nbytes
    np.testing.assert_allclose(again(W, V, X), once(W, V, X), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_experts_hold_as_little_and_no_constants(monkeypatch):
    """Behind the transposes of a stack of products are barriers, which must not undo what is made again."""

    def experts(w, x):
        for _ in range(3):
            x = nnp.einsum("eth,ehd->td", nn.gelu(nnp.einsum("td,edh->eth", x, w)), w.swapaxes(1, 2))
        return (x * x).sum()

    w, v = (np.random.default_rng(seed).normal(size=(8, 64, 128)).astype(np.float32) / 16 for seed in range(2))
    x = np.random.default_rng(2).normal(size=(512, 64)).astype(np.float32)
    lowered = nm.trace(nm.hvp(experts), w, v, x, name="f").lower()
    again = lowered.compile(cache=False)
    assert not re.search(r"compute_barrier.\w+ %cst", str(legalize(lowered.module, nm.CPU("host"))))
    monkeypatch.setattr(RecomputePass, "run", lambda self, module: None)
    once = lowered.compile(cache=False)
    assert again.memory["f"].transients <= 0.7 * once.memory["f"].transients
    expected = once(w, v, x)
    np.testing.assert_allclose(again(w, v, x), expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_the_cheapest_cut_holds_few_values():
    reads = {"x": (), "y": (), "a": ("x",), "b": ("x", "y"), "c": ("a", "b")}
    costs = {"x": 4, "y": 4, "a": 4, "b": 4, "c": 4}
    assert cheapest_cut(reads, costs, ["c"]) == {"c"}
    assert cheapest_cut(reads, costs, ["a", "b", "c"]) in ({"x", "y"}, {"a", "b"}, {"x", "b"})
    assert cheapest_cut(reads, costs | {"y": 0, "a": 5}, ["a", "b"]) == {"x", "y"}


def test_the_cut_is_near_to_what_is_wanted_and_goes_around_what_is_never_held():
    reads = {"small": (), "rows": ("small",), "x": (), "sum": ("rows", "x")}
    assert cheapest_cut(reads, {"small": 1, "x": 8, "sum": 20}, ["sum"]) == {"small", "x"}
    assert cheapest_cut(reads, {"small": 1, "x": 8, "sum": 9}, ["sum"]) == {"sum"}
    assert cheapest_cut({"x": ()}, {"x": 0}, []) == set()
