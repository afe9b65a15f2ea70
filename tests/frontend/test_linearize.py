"""Outside a trace `linearize` and `vjp` run the function once; each later call runs only what depends on its seed."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from xla import run_module

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, ShapeError, TreeError
from nabla_mlir.staging import execution

X = {"w": np.linspace(-1, 1, 12).reshape(3, 4), "b": np.linspace(0, 1, 4)}
ROWS = np.cos(np.arange(15.0)).reshape(5, 3)
T = {"w": np.sin(np.arange(12.0)).reshape(3, 4), "b": np.arange(4.0)}


def model(xp: Any, params: Any) -> Any:
    hidden = xp.tanh(ROWS @ params["w"] + params["b"])
    return {"y": xp.exp(hidden), "s": xp.sum(hidden)}


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that are compiled, as they are: by XLA here."""
    made: list[str] = []

    def executable(code: execution.Code, jitted: bool = False, first: Any = None) -> Any:
        code.lower()
        made.append(str(code.module))
        return lambda inputs, *_: run_module(str(code.module), inputs)

    monkeypatch.setattr(execution, "function_of", executable)
    return made


def assert_trees_close(got: Any, want: Any) -> None:
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)


def test_linearize(modules: list[str]) -> None:
    out, push = nm.linearize(lambda p: model(nnp, p), X)
    want, jax_push = jax.linearize(lambda p: model(jnp, p), X)
    assert_trees_close(out, want)
    for scale in (1.0, -2.0):
        t = jax.tree.map(lambda x, s=scale: x * s, T)
        assert_trees_close(push(t), jax_push(t))
    first, second = modules[0], modules[1]
    assert len(set(modules)) == 2
    assert "tanh" in first
    assert "tanh" not in second
    assert "exponential" not in second


def test_vjp(modules: list[str]) -> None:
    out, pull = nm.vjp(lambda p: model(nnp, p), X)
    want, jax_pull = jax.vjp(lambda p: model(jnp, p), X)
    assert_trees_close(out, want)
    for scale in (1.0, 3.0):
        ct = jax.tree.map(lambda y, s=scale: np.asarray(y) * s, want)
        assert_trees_close(pull(ct), jax_pull(ct))
    assert "tanh" not in modules[1]


def test_a_missing_seed_is_zero(modules: list[str]) -> None:
    _, push = nm.linearize(lambda x, y, n: (x * y, nnp.sin(y), n + 1), 2.0, 3.0, np.arange(2))
    xy, sin, n = push(1.0, None, None)
    assert (float(xy), float(sin), n) == (3.0, 0.0, None)
    _, pull = nm.vjp(lambda x, y: (x * y, x + y), 2.0, 3.0)
    assert [float(c) for c in pull((None, 1.0))] == [1.0, 1.0]


def test_a_constant_has_a_zero_tangent(modules: list[str]) -> None:
    _, push = nm.linearize(lambda x: nnp.ones(3, np.float64), np.ones(2))
    assert push(np.ones(2)).tolist() == [0.0, 0.0, 0.0]


def test_aux_and_captured_arrays(modules: list[str]) -> None:
    big = np.arange(40.0)
    out, pull, aux = nm.vjp(lambda x: (nnp.sum(big * x * x), x + big), np.ones(40), has_aux=True)
    assert float(out) == big.sum()
    assert_trees_close(aux, big + 1)
    assert_trees_close(pull(np.float64(1.0)), (2 * big,))


def test_the_linear_function_inside_a_trace(modules: list[str]) -> None:
    """It becomes part of the trace: it can be compiled, mapped and differentiated with what is around it."""
    f = lambda xp, x: xp.sin(x) * xp.sum(x)  # noqa: E731
    x, ts = np.linspace(0, 1, 20), np.cos(np.arange(60.0)).reshape(3, 20)
    _, push = nm.linearize(functools.partial(f, nnp), x)
    _, jax_push = jax.linearize(functools.partial(f, jnp), x)
    assert_trees_close(nm.jit(lambda t: push(nnp.exp(t)))(ts[0]), jax_push(jnp.exp(ts[0])))
    assert_trees_close(nm.vmap(push)(ts), oracle.vmap(jax_push)(ts))
    loss = lambda xp, p, t: xp.sum(p(t * t) ** 2)  # noqa: E731
    assert_trees_close(nm.grad(lambda t: loss(nnp, push, t))(ts[0]), oracle.grad(lambda t: loss(jnp, jax_push, t))(ts[0]))


def test_two_calls_in_one_trace_compute_the_primal_once() -> None:
    def f(x: Any, t: Any, u: Any) -> Any:
        y, push = nm.linearize(lambda z: nnp.tanh(nnp.tanh(z)), x)
        return y, push(t), push(u)

    text = str(nm.trace(f, nm.spec(3), nm.spec(3), nm.spec(3)).lower())
    assert text.count("stablehlo.tanh") == 2


def test_errors(modules: list[str]) -> None:
    _, push = nm.linearize(nnp.sin, np.ones(3))
    with pytest.raises(ShapeError, match=r"a tangent requires the shape of its primal, got \(2,\) for \(3,\)"):
        push(np.ones(2))
    with pytest.raises(DtypeError, match="a tangent requires the dtype of its primal, got float32 for float64"):
        push(np.ones(3, np.float32))
    with pytest.raises(TreeError, match="tangents requires the structure of the primals"):
        push(np.ones(3), np.ones(3))
    _, pull = nm.vjp(lambda x: (x, x), np.ones(3))
    with pytest.raises(TreeError, match="a cotangent requires the structure of the result"):
        pull(np.ones(3))
