"""Axes have identity: nested maps with closures, with sizes equal, different and 1, against JAX.

Most are what a system that only counts its batch axes gets wrong (cases.md, section 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp

# Each is one program ``(transforms, numpy, x, y) -> results`` with x of shape (n, m, 3) and y of shape (m, 3).
CASES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "all_pairs": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda u: xp.sin(r[0] * u).sum())(y))(x),
    "captured_inside": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda a, c: a * c)(r, y))(x),
    "captured_vector": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda a, c: a * c)(r[:, 0], y[:, 0]))(x),
    "captured_in_between": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda u: u * xp.cos(r).sum())(y))(x),
    "three_levels": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda u: j.vmap(lambda e: e * u.sum() + r[0, 0])(u))(y))(x),
    "outer_axis_used_last": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda u: u)(y) * r)(x),
    "independent_result": lambda j, xp, x, y: j.vmap(lambda r: xp.ones(3))(x),
    "independent_of_the_inner_axis": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda u: r[0])(y))(x),
    "independent_of_the_outer_axis": lambda j, xp, x, y: j.vmap(lambda r: j.vmap(lambda u: u * 2)(y))(x),
    "captured_mask": lambda j, xp, x, y: j.vmap(j.grad(lambda r: xp.where(y > 0, r**2, 0).sum()))(x),
    "captured_weights": lambda j, xp, x, y: j.vmap(lambda r: j.grad(lambda w: (xp.tanh(r * w) ** 2).sum())(y))(x),
    "inner_axes_moved": lambda j, xp, x, y: j.vmap(
        lambda r: j.vmap(lambda a, c: a * c, in_axes=(1, None), out_axes=1)(r, y[:, 0]), in_axes=0, out_axes=2
    )(x),
    "hessian_per_pair": lambda j, xp, x, y: j.vmap(
        lambda r: j.vmap(lambda u: j.hessian(lambda a: xp.exp(-((a - u) ** 2).sum()))(r[0]))(y)
    )(x),
    "pullback_in_a_map": lambda j, xp, x, y: j.vmap(
        lambda r: j.vmap(j.vjp(lambda a: xp.sin(a) * r, y)[1])(xp.stack([r, 2 * r]))[0]
    )(x),
    "gradient_of_a_map": lambda j, xp, x, y: j.grad(
        lambda y: j.vmap(lambda r: j.vmap(lambda u: xp.tanh(r[0] * u).sum())(y))(x).sum()
    )(y),
}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 4), (3, 3), (3, 1), (1, 2), (1, 1)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_against_jax(name: str, sizes: tuple[int, int]) -> None:
    n, m = sizes
    rng = np.random.default_rng(n + 10 * m)
    x, y = rng.normal(size=(n, m, 3)), rng.normal(size=(m, 3))
    got = run_traced(lambda x, y: CASES[name](nm, jnp, x, y), [x, y])
    want = jax.jit(lambda x, y: CASES[name](jax, jax.numpy, x, y))(x, y)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6 if other.dtype == np.float32 else 1e-11, atol=1e-12)
