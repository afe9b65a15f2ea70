"""Scatters and sorts beside parts of arrays: slices that they read, larger arrays that their results become a part of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import nabla_mlir as nm

rng = np.random.default_rng(0)
ROWS, PLACES = rng.normal(size=(3000, 3)), rng.permutation(2900)[:1700].astype(np.int32)
UPDATES = rng.normal(size=(1700, 3))


def check(f, *args):
    """The function with JAX and with ours."""
    with jax.enable_x64(True):
        lowered = nm.trace(nm.from_jax(f, *args), *args).lower()
        expected = jax.tree.map(np.asarray, f(*map(jnp.asarray, args)))
    found = lowered.compile(nm.CPU())(*args)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), found, expected)


def test_updates_that_are_moved_last():
    """Gathered, reversed, and of a part of what is gathered: more of them than fit the stack."""
    x, rows = rng.normal(size=6000), rng.normal(size=(6000, 3))
    positions = rng.integers(0, 6000, 6000).astype(np.int32)

    def f(x, rows, i):
        zeros = jnp.zeros_like(x)
        return (
            zeros.at[i].add(x[i]),
            zeros.at[i].add(2 * jnp.sin(x)[i]),
            zeros.at[i].add(jnp.sin(x)[::-1]),
            jnp.zeros_like(rows).at[i].add(rows[i]),
            zeros.at[i].add(rows[i][:, 1]),
            (x * 2).at[i].max(jnp.sin(x)[i]),
        )

    check(f, x, rows, positions)


# More than IREE lets a dispatch have on the stack. What is set, other than added, is set in an array with a spare row.
@pytest.mark.slow
@pytest.mark.parametrize("part", ["slice", "dynamic_slice", "of a product", "of a scatter", "of itself"])
def test_a_scatter_into_a_part(part):
    cut = {
        "slice": lambda x: x[3:],
        "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.int32(x[0, 0] * 0), jnp.int32(0)), (2990, 3)),
        "of a product": lambda x: (x @ jnp.ones((3, 3)))[2:],
        "of a scatter": lambda x: x.at[jnp.arange(500) * 2].add(1.0)[4:],
        "of itself": lambda x: lax.dynamic_update_slice(x, x[:5], (2, 0)),
    }[part]
    check(lambda x, i, u: (cut(x).at[i].add(u), cut(x).at[i].set(u), cut(x).at[i].max(u)), ROWS, PLACES, UPDATES)


def test_a_scatter_as_a_part():
    def f(x, i, u):
        y = x.at[i].add(u)
        return (
            jnp.pad(y, ((1, 2), (0, 0))),
            lax.dynamic_update_slice(jnp.zeros((3010, 4)), y, (2, 1)),
            jnp.concatenate([y, x], 1),
            y.at[i + 3].set(u),
        )

    check(f, ROWS, PLACES, UPDATES)


# One row replaced several times: the derivative first forgets what was there, then adds what is new.
def test_derivatives_of_rows_that_are_replaced():
    def f(x, u):
        return x.at[PLACES].set(u)

    x, u, s, t = ROWS, UPDATES, ROWS[::-1].copy(), UPDATES[::-1].copy()
    with jax.enable_x64(True):
        g = nm.from_jax(f, x, u)
        expected = jax.jvp(f, (x, u), (s, t))[1]
    found = nm.trace(lambda x, u, s, t: nm.jvp(g, (x, u), (s, t))[1], x, u, s, t).lower().compile(nm.CPU())(x, u, s, t)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("stable", [True, False])
def test_a_sort_of_a_part_and_as_a_part(axis, stable):
    def sort(x):
        return lax.sort(x, dimension=axis, is_stable=stable)

    x = rng.normal(size=(300, 60))
    parts = [lambda x: x[3:], lambda x: x[:, 4:], lambda x: jnp.sin(x[2:, 1:]), lambda x: x.T]
    check(lambda x: (*(sort(part(x)) for part in parts), jnp.pad(sort(x), ((1, 2), (0, 3)))), x)


# What a second derivative is sorted by is there twice.
@pytest.mark.slow
@pytest.mark.parametrize("axis", range(4))
def test_a_product_with_the_hessian_of_an_unstable_sort(axis):
    def f(x):
        y = lax.sort(jnp.transpose(x, (2, 0, 3, 1)), dimension=axis, is_stable=False)
        return jnp.sum(y**3 * jnp.cos(jnp.arange(120.0)).reshape(y.shape))

    x, v = (rng.normal(size=(5, 4, 3, 2)) for _ in range(2))
    with jax.enable_x64(True):
        g = nm.from_jax(f, x)
        expected = jax.jvp(jax.grad(f), (x,), (v,))[1]
    found = nm.trace(nm.hvp(g), x, v).lower().compile(nm.CPU())(x, v)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


# Elements that do not lie side by side.
@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 6, 4), (20, 30, 40)])
def test_strided_parts_in_reverse_and_gathered(shape):
    at = np.array([2, 0, 1])
    check(
        lambda x: (
            x[:, :, 1][::-1],
            x[:, :, 1][:, ::-1],
            x[:, :, 1:2][::-1],
            x[:, :, ::2][:, :, ::-1],
            x[:, :, 3:2:-1][::-1],
            jnp.swapaxes(x[:, :, 1:2], 0, 2)[:, ::-1],
            x[:, :, 1][at],
            x[:, 2][:, ::-1],
            x[..., None][:, 2:4, 1:2][:, ::-1],
            lax.dynamic_slice(x, (jnp.int32(x[0, 0, 0] * 0), jnp.int32(0), jnp.int32(1)), (3, 6, 1))[::-1],
        ),
        rng.normal(size=shape),
    )


# The rows of the result are columns of the cotangent, and running maxima are pulled back in reverse.
@pytest.mark.slow
def test_pullbacks_of_running_windows_side_by_side():
    def window(x, start, combine, axis):
        n = x.shape[axis]
        sizes, padding = ([v if d == axis else w for d in range(x.ndim)] for v, w in ((n, 1), ((n - 1, 0), (0, 0))))
        return lax.reduce_window(x, x.dtype.type(start), combine, tuple(sizes), (1,) * x.ndim, tuple(padding))

    kinds = [(0, lax.add), (-np.inf, lax.max), (0, lax.add), (np.inf, lax.min), (0, lax.add), (1, lax.mul), (0, lax.add)]

    def f(windows):
        return lambda x: jnp.concatenate([windows(k, jnp.sin(x + k), k % 2) for k in range(7)], 2)

    x, ct = rng.normal(size=(5, 8, 5, 1)), rng.normal(size=(5, 8, 5, 7))
    scans = [lax.cumsum, lax.cummax, lax.cumsum, lax.cummin, lax.cumsum, lax.cumprod, lax.cumsum]
    with jax.enable_x64(True):
        g = nm.from_jax(f(lambda k, x, axis: window(x, *kinds[k], axis)), x[0])
        expected = jax.vmap(lambda x, ct: jax.vjp(f(lambda k, x, axis: scans[k](x, axis=axis)), x)[1](ct)[0])(x, ct)
    pullback = nm.trace(nm.vmap(lambda x, ct: nm.vjp(g, x)[1](ct)), x, ct).lower().compile(nm.CPU())(x, ct)
    (found,) = jax.tree.leaves(pullback)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
