"""The cost of prepared products: operations, bytes, the part that depends on the vector, and the form of a block."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import jax
import numpy as np
import pytest
import xla
from splitting import needless_in

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir import nn
from nabla_mlir.dialects.regions import functions_of, made_by, nested
from nabla_mlir.rules.cost import cost_of

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(2)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def test_costs_are_known_beforehand() -> None:
    """Exactly, for a loss of which every figure can be counted by hand: the products of a matrix with a vector."""
    stage = nm.hvp_module(
        lambda x, a: nnp.sum(nnp.exp(a @ x)), nm.spec(8, "f64"), nm.spec((100, 8), "f64"), entry_points=("apply", "apply_block")
    )
    cost = stage.cost()
    assert cost["apply"].flops == 2 * (2 * 100 * 8) + 100  # A v, exp(A x) times that, Aᵀ times that
    assert cost["apply_block"].flops == 16 * cost["apply"].flops
    assert cost["apply"].state_bytes == 8 * (100 * 8 + 100)  # A and exp(A x)
    assert cost["apply"].peak_bytes >= cost["apply"].state_bytes + 8 * (8 + 100)


def grown(x: Any) -> Any:
    """Its state is small against what a product writes: a block of them takes one after the other."""
    return nnp.sum(nnp.tanh(x[:, None] * x[None, :]) ** 3)


def block_of(function: Any, block: int) -> tuple[Any, list[Any]]:
    stage = nm.hvp_module(function, nm.spec(70, "f64"), block=block, entry_points=("update", "apply", "apply_block"))
    return stage, list(nested(functions_of(stage.module.operation)["apply_block"]))


def columns_are_products(stage: Any, block: int) -> None:
    module, vs = stage.compile(), normal(block, 70)
    module.entry("update")(normal(70))
    wanted = np.stack([np.asarray(module.entry("apply")(v)) for v in vs])
    np.testing.assert_allclose(np.asarray(module.entry("apply_block")(vs)), wanted, rtol=1e-9, atol=1e-9)


def test_the_columns_of_a_block_wait_for_each_other() -> None:
    """Otherwise a pool of threads runs them at the same time, and what each of them writes leaves the cache."""
    stage, ops = block_of(grown, 4)
    barriers = [op for op in ops if op.name == "stablehlo.optimization_barrier"]
    assert len(barriers) == 3
    for one, following in itertools.pairwise(barriers):
        assert any(one in operands_behind(x) for x in following.operands)
    columns_are_products(stage, 4)


def operands_behind(value: Any) -> set[Any]:
    """The operations that a value is computed from."""
    found, waiting = set(), [value]
    while waiting:
        made = made_by(waiting.pop())
        if made is not None and made not in found:
            found.add(made)
            waiting += made.operands
    return found


def test_a_wide_block_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Column by column where the state is small; with more columns there are more steps and not more operations."""
    monkeypatch.setattr("nabla_mlir.base.thresholds.WRITTEN_OUT", 60)
    sizes = {}
    for block in (2, 64, 128):
        stage, ops = block_of(grown, block)
        sizes[block] = len(ops), sum(op.name == "stablehlo.while" for op in ops)
    assert sizes[2][1] == 0
    assert sizes[128] == sizes[64]
    assert sizes[64][1] == 1
    columns_are_products(stage, 128)


def flops_of_products(stage: Any, name: str) -> int:
    function = functions_of(stage.module.operation)[name]
    return sum(cost_of(op).flops for op in nested(function) if op.name == "stablehlo.dot_general")


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_dense_network_needs_two_thirds_of_the_products(depth: int) -> None:
    """For L layers, the value and the gradient take 3L - 1 products of matrices, and a whole product 6L - 4 more, which remain."""

    def f(weights: Any, x: Any, y: Any) -> Any:
        for w in weights[:-1]:
            x = nnp.tanh(x @ w)
        return nnp.mean((x @ weights[-1] - y) ** 2)

    n = 8
    like = [nm.spec((n, n))] * depth, nm.spec((n, n)), nm.spec((n, n))
    stage = nm.hvp_module(f, *like, entry_points=("update", "apply", "value_grad_hvp"))
    update, apply, whole = (flops_of_products(stage, e) for e in ("update", "apply", "value_grad_hvp"))
    one = 2 * n**3
    assert (update, apply) == ((3 * depth - 1) * one, (6 * depth - 4) * one)
    assert apply <= 2 / 3 * whole
    assert update + apply == whole, "nothing is computed twice"


def branched(x: Any, data: Any) -> Any:
    y = nm.cond(nnp.sum(x) > 0, lambda z: nnp.sin(z) * z, lambda z: nnp.exp(-z * z), x)
    return nnp.sum(nm.fori_loop(0, 3, lambda i, h: nnp.tanh(h @ data) * y, x))


def convolved(x: Any, data: Any) -> Any:
    image = nnp.reshape(x, (1, 4, 4, 1))
    return nnp.sum(nn.softplus(nn.conv(image, nnp.reshape(data, (4, 4, 1, 1)))) ** 2)


def attended(x: Any, data: Any) -> Any:
    return nnp.sum((nn.softmax((x @ data) @ (x @ x).T, axis=-1) @ x - data) ** 2)


def classified(x: Any, data: Any) -> Any:
    return nnp.sum(nn.relu(data @ x) ** 2) + nnp.sum(nn.log_softmax(x @ data) * data) + nn.logsumexp(x * x)


@pytest.mark.parametrize("f", [branched, convolved, attended, classified], ids=lambda f: f.__name__)
def test_products_compute_only_what_depends_on_the_vector(f: Any) -> None:
    names = ("apply", "quadratic")  # a block may multiply two known factors once instead of each column twice
    stage = nm.hvp_module(f, nm.spec((4, 4), "f64"), nm.spec((4, 4), "f64"), entry_points=("update", *names))
    for name in names:
        assert not needless_in(functions_of(stage.module.operation)[name]), name


def test_costs_are_those_of_xla() -> None:
    """Operations to a few percent; bytes are an upper bound, since XLA fuses."""
    n = 64

    def f(p: Any, x: Any, t: Any) -> Any:
        hidden = nnp.tanh(x @ p["w"] + p["b"])
        return nnp.mean((nn.log_softmax(hidden @ p["w"]) - t) ** 2)

    like = {"w": nm.spec((n, n)), "b": nm.spec(n)}
    lowered = nm.trace(nm.hvp(f), like, like, nm.spec((n, n)), nm.spec((n, n)), name="main").lower()
    ours = lowered.cost()["main"]
    flops, moved = xla.cost_of(lowered.mlir())
    assert 0.9 < ours.flops / flops < 1.1
    assert 1.0 <= ours.bytes / moved < 4.0


def test_the_memory_is_as_foretold() -> None:
    """The memory in the pool of a running module, compared with the live bytes that its cost states."""
    f = lambda w, x: nnp.sum(nnp.tanh(nnp.tanh(x @ w) @ w.T) ** 2)  # noqa: E731
    stage = nm.hvp_module(f, nm.spec((100, 120)), nm.spec((300, 100)), entry_points=("update", "apply"))
    cost = stage.cost()
    executable = nm.runtime.Executable.load(stage.compile().vmfb, nm.runtime.pooled("local-sync"))
    update, apply = executable.function("update"), executable.function("apply")
    w, x = normal(100, 120).astype("f4"), normal(300, 100).astype("f4")
    gc.collect()
    statistics = lambda: executable.device.hal.allocator.statistics  # noqa: E731
    held = lambda: statistics()["device_bytes_allocated"] - statistics()["device_bytes_freed"]  # noqa: E731
    before = held()
    for _ in range(3):
        update([w, x])
        apply([w])
    foretold = cost["update"].peak_bytes + cost["apply"].peak_bytes - cost["apply"].state_bytes
    assert 0.6 < (held() - before) / foretold < 1.4, (held() - before, cost)
