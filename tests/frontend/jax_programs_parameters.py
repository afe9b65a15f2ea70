"""Parameters that programs of JAX name: what solvers say beside the solution, methods of objects, how places are found. Each takes the module `jax`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jax_programs import data


def solvers_with_aux(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    def newton(f, x):
        x = lax.fori_loop(0, 8, lambda _, x: x - f(x) / jax.grad(f)(x), x)
        return x, {"turns": jnp.full(2, 8.0), "rest": f(x)}

    def root(a):
        return lax.custom_root(lambda x: x**3 - a, 1.5, newton, lambda g, y: y / g(1.0), has_aux=True)

    a = data(3, 3) + 4 * np.eye(3)

    def solved(a, b):
        return lax.custom_linear_solve(
            lambda x: a @ x,
            b,
            lambda _, b: (jnp.linalg.solve(a, b), jnp.abs(b).max()),
            lambda _, b: (jnp.linalg.solve(a.T, b), jnp.abs(b).min()),
            has_aux=True,
        )

    b = data(3, seed=1)
    return (
        root(3.0),
        jax.grad(root, has_aux=True)(3.0),
        jax.grad(jax.grad(lambda a: root(a)[0]))(3.0),
        jax.vmap(root)(jnp.array([2.0, 8.0])),
        solved(a, b),
        jax.grad(lambda a, b: solved(a, b)[0].sum(), (0, 1))(a, b),
        jax.grad(lambda b: solved(a, b)[1])(b),
        jax.vmap(solved, (None, 0))(a, data(2, 3, seed=2)),
    )


def shared_objects(jax: Any) -> Any:
    class Model:
        scale = 3.0

        @partial(jax.vmap, in_axes=(None, 0, None))
        def rows(self, x, settings):
            return getattr(jax.numpy, settings["name"])(x).sum() * self.scale * settings["w"]

    x = data(2, 3)
    return (
        Model().rows(x, {"name": "sin", "w": 2.0}),
        jax.grad(lambda w: Model().rows(x, {"name": "cos", "w": w}).sum())(2.0),
        jax.vmap(lambda f, x: f(x), (None, 0))(jax.numpy.tanh, x),
    )


def methods_of_search(jax: Any) -> Any:
    jnp = jax.numpy
    a, v = np.sort(data(9)), data(2, 4, seed=1)
    names = ("scan", "scan_unrolled", "sort", "compare_all")
    return (
        [jnp.searchsorted(a, v, side="right", method=name) for name in names],
        [jnp.digitize(v, a, method=name) for name in names],
        [jnp.isin(np.arange(5), np.array([1, 3]), method=name) for name in ("auto", "sort", "compare_all", "binary_search")],
    )


def weights_and_pieces(jax: Any) -> Any:
    jnp, x = jax.numpy, data(3, 4)
    return (
        jnp.histogram(x, bins=3, weights=x**2),
        jnp.histogram(x, bins=3, weights=np.ones((3, 4)), density=True),
        jax.scipy.signal.detrend(data(2, 9), bp=[2, 6]),
        [jax.scipy.signal.correlate2d(x, data(*k), mode="same") for k in ((2, 2), (3, 2), (2, 3))],
        jax.scipy.signal.detrend(data(9, 2), axis=0, bp=4),
        [jnp.pad(x, ((1, 2), (0, 3)), mode="linear_ramp", end_values=((1, 2), (3, 4)))],
        [jnp.pad(x, 2, mode=mode, stat_length=2) for mode in ("mean", "maximum", "minimum")],
        jnp.pad(np.arange(4), (2, 1), mode="median"),
        jax.grad(lambda x: (jnp.pad(x, 2, mode="linear_ramp") ** 2).sum())(x),
    )


def kinds_of_values(jax: Any) -> Any:
    jnp = jax.numpy

    def split(tree):
        is_dynamic = lambda x: isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)  # noqa: E731
        return jax.tree.map(lambda x: x if is_dynamic(x) else None, tree), jax.tree.map(
            lambda x: None if is_dynamic(x) else x, tree
        )

    @jax.jit
    def step(tree):
        dynamic, rest = split(tree)
        return jax.grad(lambda d: jnp.sum(d["w"] ** 3) * rest["n"])(dynamic), isinstance(tree["w"], jnp.ndarray)

    tree = {"w": jnp.asarray(data(3)), "n": jnp.arange(2)[1], "name": None}
    mask = jnp.array([True, False])
    return (
        step(tree),
        [isinstance(x, jax.Array) for x in (np.ones(1), jnp.ones(1), 1.0)],
        [jnp.issubdtype(a, b) for a in (jnp.bfloat16, np.floating, "int8") for b in (jnp.floating, jnp.integer, jnp.inexact)],
        jnp.square(mask) + jnp.square(mask),
        jnp.ones(2, jnp.bfloat16) * jnp.arange(2),
        jax.lax.fori_loop(0, 2, lambda _, c: jax.lax.top_k(c[0] + 1.0, 2), [jnp.asarray(data(2)), jnp.zeros(2, jnp.int32)])[1],
    )


PROGRAMS = [kinds_of_values, solvers_with_aux, shared_objects, methods_of_search, weights_and_pieces]
