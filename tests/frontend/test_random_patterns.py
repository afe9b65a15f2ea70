"""Random programs of nested control flow: the pattern has every entry of the derivatives that JAX finds."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_random_programs as programs

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

N = 6
CONSTANTS = np.random.default_rng(4).normal(size=(8, N))
PLACES = [np.random.default_rng(k).permutation(N) for k in range(4)]


def sparse_leaf(rng: random.Random) -> programs.Program:
    kind, positions = rng.randrange(8), PLACES[rng.randrange(4)]

    def make(_: Any, __: Any, xp: Any) -> Any:
        return [
            lambda x, y: xp.roll(x, 1) * y,
            lambda x, y: xp.where(y > 1.0, x, xp.flip(x)),
            lambda x, y: xp.concatenate([x[1:] * y[:-1], y[:1]]),
            lambda x, y: xp.tanh(x[positions] * y),
            lambda x, y: x * np.array([1.0, 0.0] * 3) + (y + 0.0 * x).at[positions[:2]].set(x[:2]),
            lambda x, y: xp.sin(x) - 0.5 * y,
            lambda x, y: xp.sort(x) + y * x,
            lambda x, y: xp.cumsum(x) * y[positions[0]],
        ][kind]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_patterns_of_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "leaf", sparse_leaf)
    monkeypatch.setattr(programs, "N", N)
    monkeypatch.setattr(programs, "CONSTANTS", CONSTANTS)
    rng = random.Random(seed)
    program = programs.program(rng, rng.randint(1, 3))
    ours, theirs = program(nm, nm, nnp), program(jax, jax.lax, jnp)
    y = np.random.default_rng(seed).normal(size=N)
    jacobian = nm.sparse.jacobian_pattern(lambda x: ours(x, nnp.roll(x, 1) + y), nm.spec(N, "f64")).to_dense()
    hessian = nm.sparse.hessian_pattern(lambda x: ours(x, y).sum(), nm.spec(N, "f64")).to_dense()
    for x in np.random.default_rng(seed + 1).normal(size=(3, N)):
        first = jax.jacfwd(lambda x: theirs(x, jnp.roll(x, 1) + y))(x)
        assert not ((np.asarray(first) != 0) & ~jacobian).any()
        second = jax.jacfwd(jax.jacfwd(lambda x: theirs(x, jnp.asarray(y)).sum()))(x)
        assert not ((np.asarray(second) != 0) & ~hessian).any()
