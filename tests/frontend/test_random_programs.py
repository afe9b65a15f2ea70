"""Random programs of nested control flow against JAX: value, gradient in reverse mode, Hessian, and maps of them.

JAX has no reverse rule for loops of unknown length, so the expected derivatives are forward over forward.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_custom_rules import check

import nabla_mlir as nm

N = 3
CONSTANTS = np.random.default_rng(4).normal(size=(8, N))
MATRIX = np.random.default_rng(5).normal(size=(N, N)) / 2
Program = Callable[[Any, Any, Any], Callable[[Any, Any], Any]]  # (transforms, control flow, numpy) -> f(x, y)


def program(rng: random.Random, depth: int) -> Program:
    """A function of two vectors to one, built of others of smaller depth; all of them are bounded and smooth."""
    if depth == 0:
        return leaf(rng)
    make = rng.choice([composed, scanned, chosen, switched, repeated, mapped, counted])
    return make(rng, program(rng, depth - 1), program(rng, rng.randrange(depth)))


def leaf(rng: random.Random) -> Program:
    kind, row = rng.randrange(4), CONSTANTS[rng.randrange(8)]

    def make(_: Any, __: Any, xp: Any) -> Any:
        return [
            lambda x, y: xp.tanh(x * row + y),
            lambda x, y: xp.sin(x @ MATRIX) - 0.5 * y,
            lambda x, y: x * y / (1.0 + x * x),
            lambda x, y: xp.exp(-x * x) + y * row,
        ][kind]

    return make


def composed(rng: random.Random, a: Program, b: Program) -> Program:
    def make(*libs: Any) -> Any:
        f, g = a(*libs), b(*libs)
        return lambda x, y: f(g(x, y), y) + 0.5 * g(y, x)

    return make


def scanned(rng: random.Random, a: Program, b: Program) -> Program:
    """A carry of two vectors that may be swapped, rows that are read, and results that are used."""
    steps, swap, reverse = rng.randint(0, 4), rng.random() < 0.5, rng.random() < 0.5

    def make(*libs: Any) -> Any:
        f, g, lib = a(*libs), b(*libs), libs[1]

        def step(c: Any, row: Any) -> Any:
            u, v = c
            new = f(u, v + row)
            return ((v, new) if swap else (new, v)), g(row, u)

        def run(x: Any, y: Any) -> Any:
            (u, v), ys = lib.scan(step, (x, y), CONSTANTS[:steps], reverse=reverse)
            return u + 0.3 * v + ys.sum(0)

        return run

    return make


def chosen(rng: random.Random, a: Program, b: Program) -> Program:
    def make(*libs: Any) -> Any:
        f, g, lib = a(*libs), b(*libs), libs[1]
        return lambda x, y: lib.cond(x.sum() > 0.1, f, lambda u, v: g(v, u), x, y)

    return make


def switched(rng: random.Random, a: Program, b: Program) -> Program:
    def make(*libs: Any) -> Any:
        f, g, (_, lib, xp) = a(*libs), b(*libs), libs
        return lambda x, y: lib.switch(xp.sum(x > 0.0), [f, g, lambda u, v: u * v], x, y)

    return make


def repeated(rng: random.Random, a: Program, b: Program) -> Program:
    """A loop whose number of iterations depends on the values."""

    def make(*libs: Any) -> Any:
        f, g, (_, lib, xp) = a(*libs), b(*libs), libs

        def run(x: Any, y: Any) -> Any:
            limit = 2.0 + xp.abs(x[0])
            body = lambda c: (c[0] + 1.0, f(c[1], y))  # noqa: E731
            return g(lib.while_loop(lambda c: c[0] < limit, body, (0.0 * x[0], x))[1], y)

        return run

    return make


def counted(rng: random.Random, a: Program, b: Program) -> Program:
    low, high = rng.randint(-1, 1), rng.randint(0, 4)

    def make(*libs: Any) -> Any:
        f, g, lib = a(*libs), b(*libs), libs[1]
        return lambda x, y: lib.fori_loop(low, high, lambda i, c: f(c, y + y * i), g(x, y))

    return make


def mapped(rng: random.Random, a: Program, b: Program) -> Program:
    """One argument varies over the map and the other does not."""

    def make(*libs: Any) -> Any:
        f, g, transforms = a(*libs), b(*libs), libs[0]
        return lambda x, y: transforms.vmap(f, (0, None))(CONSTANTS[:2] * x, g(x, y)).sum(0)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    made = program(rng, 2 + seed % 2)
    f, g = made(nm, nm, nm.numpy), made(jax, jax.lax, jnp)
    ours, theirs = (lambda h: lambda x, y: (h(x, y) ** 2).sum())(f), (lambda h: lambda x, y: (h(x, y) ** 2).sum())(g)
    points = np.random.default_rng(seed)
    x, y = points.normal(size=N), points.normal(size=N)
    many = points.normal(size=(2, N))
    slope = jax.jacfwd(theirs, (0, 1))
    check(lambda x, y: [ours(x, y), nm.grad(ours, (0, 1))(x, y)], [theirs(x, y), slope(x, y)], x, y)
    check(nm.hessian(ours), jax.jacfwd(jax.jacfwd(theirs))(x, y), x, y)
    check(nm.vmap(nm.grad(ours), (0, None)), jax.vmap(jax.jacfwd(theirs), (0, None))(many, y), many, y)
    batched = lambda many, y: nm.vmap(ours, (0, None))(many, y).sum()  # noqa: E731
    expected = jax.jacfwd(lambda many, y: jax.vmap(theirs, (0, None))(many, y).sum(), (0, 1))(many, y)
    check(nm.grad(batched, (0, 1)), expected, many, y)
