"""Reverse mode of loops under a bound on memory: the same numbers, tapes that fit, and how much is computed again."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_custom_rules import check, traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors
from nabla_mlir.rules.loop_checkpoints import Plan, schedule

rng = np.random.default_rng(3)
W, H = rng.normal(size=(3, 3)) / 2, rng.normal(size=3)
STATE = 8 * 3 + 4  # the vector and the counter


def rnn(lib: Any, xp: Any, steps: int, **options: Any) -> Any:
    def f(w: Any, h: Any) -> Any:
        def step(h: Any, t: Any) -> Any:
            return xp.tanh(h @ w + t * 0.01), None

        return (lib.scan(step, h, np.arange(float(steps)), **options)[0] ** 2).sum()

    return f


def reversed_pieces(plan: Plan) -> list[int]:
    """Runs the steps of a plan on iterations; returns the pieces in the order they are pulled back."""
    slots, pulled = {0: 0}, []
    for source, first, stop, target, end in schedule(plan):
        assert slots[source] == first
        assert 0 <= target < plan.slots + 2
        slots[target] = stop
        pulled += reversed(range(stop, end))
    return pulled


@pytest.mark.parametrize("trips", [1, 2, 7, 20, 61])
@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("slots", [0, 1, 2, 5, 100])
def test_a_plan_pulls_back_every_iteration_once_from_the_end(trips: int, length: int, slots: int) -> None:
    pieces = -(-trips // length)
    plan = Plan(trips, length, min(slots, pieces - 1))
    assert reversed_pieces(plan) == list(reversed(range(trips)))
    # No piece is run over more often than the plan says.
    runs = np.zeros(trips, int)
    for _, first, stop, _, _ in schedule(plan):
        runs[first:stop] += 1
    assert runs.max() <= plan.repetitions


def test_repetitions_are_binomial() -> None:
    assert Plan(100, 1, 99).repetitions == 1  # periodic
    assert Plan(1001, 1, 4).repetitions == 10  # C(4 + 10, 4) = 1001
    assert Plan(1002, 1, 4).repetitions == 11


@pytest.mark.slow
@pytest.mark.parametrize("bound", [160, 300, 600, 10**6])
def test_derivatives(bound: int) -> None:
    ours, theirs = rnn(nm, nnp, 23, max_residual_bytes=bound), rnn(jax.lax, jnp, 23)
    check(nm.grad(ours, (0, 1)), oracle.grad(theirs, (0, 1))(W, H), W, H)
    check(nm.hessian(ours, 1), oracle.hessian(theirs, 1)(W, H), W, H)
    many = np.stack([H, -H])
    check(nm.vmap(nm.grad(ours), (None, 0)), oracle.vmap(oracle.grad(theirs), (None, 0))(W, many), W, many)


def test_on_iree() -> None:
    got = nm.jit(nm.grad(rnn(nm, nnp, 40, max_residual_bytes=160), (0, 1)))(W, H)
    for a, b in zip(got, oracle.grad(rnn(jax.lax, jnp, 40), (0, 1))(W, H), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_reverse_over_reverse() -> None:
    ours, theirs = rnn(nm, nnp, 9, max_residual_bytes=160), rnn(jax.lax, jnp, 9)
    check(nm.hessian(ours, 1, mode="rev_rev"), oracle.hessian(theirs, 1)(W, H), W, H)


def stored(text: str) -> int:
    """The bytes of the arrays of rows that loops carry, tapes and states; not those of the gradient, which is 3x3."""
    shapes = re.findall(r"dense<0(?:\.0*e\+00)?> : tensor<(\d+)((?:x3)?)x?(f64|i32)>", text)
    return sum(int(n) * (3 if inner else 1) * (8 if kind == "f64" else 4) for n, inner, kind in set(shapes) if n != "3")


def test_what_is_stored_fits() -> None:
    sizes = {}
    for bound in (200, 1000, 10_000, None):
        f = nm.grad(rnn(nm, nnp, 2000, max_residual_bytes=bound))
        sizes[bound] = stored(str(nm.trace(f, nm.spec((3, 3), "f64"), nm.spec(3, "f64")).lower()))
    assert all(size <= bound for bound, size in sizes.items() if bound is not None)
    assert sizes[None] >= 2000 * 24


def test_loops_of_unknown_length() -> None:
    def loop(lib: Any, **options: Any) -> Any:
        body = lambda c: (c[0] + 1.0, c[1] * 0.99 + c[1] ** 2 * 0.01)  # noqa: E731
        return lambda x: lib.while_loop(lambda c: c[0] < 100.0, body, (0.0 * x, x), **options)[1]

    x = np.float64(0.7)
    expected = oracle.jvp(loop(jax.lax), (x,), (1.0,))[1]
    check(nm.grad(loop(nm, max_residual_bytes=160)), expected, x)
    text = str(nm.trace(nm.grad(loop(nm, max_residual_bytes=160)), nm.spec((), "f64")).lower())
    assert "tensor<20xf64>" in text
    assert "tensor<512xf64>" not in text


def test_what_is_kept_without_a_bound() -> None:
    """Iterations of large arrays, and of loops in loops, are kept within a gibibyte, or within more if the user says so."""

    def halved(f: Any, **options: Any) -> Any:
        body = lambda c: (c[0] * 0.5, nnp.sin(f(c[1])))  # noqa: E731
        return lambda x: nm.while_loop(lambda c: c[0] > 0.1, body, (nnp.abs(x).max(), x), **options)[1]

    def largest(f: Any, size: int) -> int:
        text = str(nm.trace(nm.grad(lambda x: f(x).sum()), nm.spec(size, "f64")).lower())
        return max(8 * math.prod(map(int, shape.split("x"))) for shape in re.findall(r"tensor<((?:\d+x)*\d+)xf64>", text))

    one = halved(lambda x: x)
    assert largest(one, 1000) == 512 * 8 * 1000
    assert 2**29 < largest(one, 1_000_000) <= 2**30
    assert largest(halved(lambda x: x, max_residual_bytes=2**33), 1_000_000) == 512 * 8 * 1_000_000
    assert largest(halved(halved(one)), 10_000) <= 2**30


def test_for_every_loop_of_a_gradient() -> None:
    f = rnn(nm, nnp, 50)
    text = str(nm.trace(nm.grad(f, max_residual_bytes=300), nm.spec((3, 3), "f64"), nm.spec(3, "f64")).lower())
    assert stored(text) <= 300
    check(nm.grad(f, max_residual_bytes=300), oracle.grad(rnn(jax.lax, jnp, 50))(W, H), W, H)


def test_a_bound_that_is_too_small() -> None:
    f = nm.grad(rnn(nm, nnp, 50, max_residual_bytes=30))
    with pytest.raises(errors.ShapeError, match=r"requires max_residual_bytes of at least \d+ .*, got 30"):
        traced(f, nm.spec((3, 3), "f64"), nm.spec(3, "f64"))
