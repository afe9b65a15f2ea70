"""Hessian-vector products of long loops: a recurrent network and an ODE, on XLA and IREE, with memory bounded as asked."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_custom_rules import check
from test_residual_bounds import stored

import nabla_mlir as nm
from nabla_mlir import numpy as nnp

pytestmark = pytest.mark.slow

rng = np.random.default_rng(7)


def rnn(lib: Any, xp: Any) -> Any:
    def loss(w: Any, h: Any, xs: Any) -> Any:
        h, _ = lib.scan(lambda h, x: (xp.tanh(h @ w + x), None), h, xs)
        return (h * h).mean()

    return loss


def their_hvp(f: Any, x: Any, v: Any) -> Any:
    return jax.jvp(jax.grad(f), (x,), (v,))[1]


@pytest.mark.parametrize("steps", [50, 5000])
def test_recurrent_network(steps: int) -> None:
    w, v = rng.normal(size=(2, 32, 32)) / 6
    h, xs = rng.normal(size=(16, 32)), rng.normal(size=(steps, 16, 32))
    expected = their_hvp(lambda w: rnn(jax.lax, jnp)(w, h, xs), w, v)
    ours = lambda w, v, h, xs: nm.hvp(lambda w: rnn(nm, nnp)(w, h, xs))(w, v)  # noqa: E731
    check(ours, expected, w, v, h, xs)
    text = str(nm.trace(ours, *(nm.spec(x.shape, "f64") for x in (w, v, h, xs))).lower())
    assert text.count("stablehlo.while") == 2
    assert text.count("stablehlo.dynamic_update_slice") == 4  # states and cotangents, with their tangents
    np.testing.assert_allclose(nm.jit(ours)(w, v, h, xs), expected, rtol=1e-8, atol=1e-12)


def pendulum(lib: Any, xp: Any, steps: int, **options: Any) -> Any:
    """The distance of a damped pendulum from a target after RK4 steps, of its start and its parameters."""

    def slope(state: Any, p: Any) -> Any:
        return xp.stack([state[1], -p[0] * xp.sin(state[0]) - p[1] * state[1]])

    def loss(start: Any, p: Any) -> Any:
        def step(_: Any, y: Any) -> Any:
            dt = p[2]
            a = slope(y, p)
            b = slope(y + a * dt / 2.0, p)
            c = slope(y + b * dt / 2.0, p)
            d = slope(y + c * dt, p)
            return y + (a + 2.0 * b + 2.0 * c + d) * dt / 6.0

        return ((lib.fori_loop(0, steps, step, start, **options) - np.array([0.3, -0.1])) ** 2).sum()

    return loss


@pytest.mark.parametrize("bound", [None, 2000])
def test_ode(bound: int | None) -> None:
    start, p = np.array([1.0, 0.2]), np.array([2.0, 0.1, 0.02])
    options = {} if bound is None else {"max_residual_bytes": bound}
    ours, theirs = pendulum(nm, nnp, 400, **options), pendulum(jax.lax, jnp, 400)
    v = np.array([0.5, -0.7, 0.1])
    expected = their_hvp(lambda p: theirs(start, p), p, v)
    hvp = lambda p, v: nm.hvp(lambda p: ours(start, p))(p, v)  # noqa: E731
    check(hvp, expected, p, v)
    np.testing.assert_allclose(nm.jit(hvp)(p, v), expected, rtol=1e-8)
    gradient = str(nm.trace(nm.grad(lambda p: ours(start, p)), nm.spec(3, "f64")).lower())
    assert bound is None or stored(gradient) <= bound


@pytest.mark.parametrize("sizes", [(4, 4), (1, 16), (2, 8)])
def test_products_of_blocks_with_as_many_elements_as_a_row(sizes: tuple[int, int]) -> None:
    """Only a row of one index becomes a product before the loop: a block of several rows has as many elements."""
    x, w = rng.normal(size=(2, 16, 16))

    def total(lib: Any, xp: Any) -> Any:
        def step(i: Any, c: Any, x: Any, w: Any) -> Any:
            return c + xp.sin(lib.dynamic_slice(x, (i, i * 0), sizes).reshape(16) @ w)

        return lambda x, w: lib.fori_loop(0, 16, lambda i, c: step(i, c, x, w), xp.zeros(16, np.float64)).sum()

    theirs, ours = total(jax.lax, jnp), total(nm.jax.lax, nnp)
    check(ours, theirs(x, w), x, w)
    check(nm.grad(ours, (0, 1)), jax.grad(theirs, (0, 1))(x, w), x, w)
    check(lambda x, w: nm.hvp(ours)(x, x, w), their_hvp(lambda x: theirs(x, w), x, x), x, w)
