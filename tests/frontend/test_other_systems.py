"""Cases that a public system computes wrongly or lacks (cases.md, section 1): right in every mode, alone and under maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as xp
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir.base.errors import ShapeError

DUPLICATES, WEIGHTS = np.array([0, 0, 2, 1, 0]), np.array([1.0, -2.0, 0.5, 3.0, 0.25])
TIES = np.array([0.5, -0.8, 0.8, 0.8])
Function = Callable[[Any], Any]


def looped(x: Any) -> Any:
    """Three steps of a loop that ends by itself."""
    return nm.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1]) * s[1]), (0, x))[1].sum()


def unrolled(x: Any) -> Any:
    for _ in range(3):
        x = xp.sin(x) * x
    return x.sum()


def pooled(x: Any) -> Any:
    y = (x * x).reshape(1, 4, 1)
    return jax.lax.reduce_window(y, -xp.inf, jax.lax.max, (1, 2, 1), (1, 2, 1), "VALID")


# Functions of a vector of four numbers: ours, and the same in JAX.
CASES: dict[str, tuple[Function, Function]] = {
    **{
        name: (lambda x, f=f: f(jnp, x), lambda x, f=f: f(xp, x))
        for name, f in {
            "gather_of_duplicates": lambda lib, x: (WEIGHTS * x[DUPLICATES] ** 2).sum(),
            "embedding": lambda lib, x: (lib.take(x.reshape(2, 2), lib.array([1, 1, 0]), axis=0) ** 3).sum(),
            "at_add_to_duplicates": lambda lib, x: (x.at[DUPLICATES].add(WEIGHTS * x[1] ** 2) ** 2).sum(),
            "whole_powers": lambda lib, x: (x**2 + x**3 + x**-1 + x**-2 + x**-3).sum(),
            "cumsum_reversed": lambda lib, x: (lib.flip(lib.cumsum(lib.flip(x**2))) * x).sum(),
            "largest": lambda lib, x: lib.max(x * x) ** 2 + lib.min(x) ** 3,
            "triangles": lambda lib, x: ((lib.triu(lib.outer(x, x)) + lib.tril(lib.outer(x, lib.sin(x)), -1)) ** 2).sum(),
            "masks": lambda lib, x: (x**2 * (x >= 0) + x**3 * (x <= 0.6) + lib.sin(x) * (x != 0.5)).sum(),
            "mask_captured": lambda lib, x: lib.where(WEIGHTS[:4] > 0, x**2, 0).sum(),
            "squeezed": lambda lib, x: (lib.squeeze(x[None, :, None]) ** 3).sum(),
            "part_set": lambda lib, x: (x.at[1:3].set(x[:2] ** 2) ** 2 * WEIGHTS[:4]).sum(),
        }.items()
    },
    "cumsum_exclusive": (
        lambda x: (jnp.cumsum(x**2, include_initial=True)[:-1] * x).sum(),
        lambda x: ((xp.cumsum(x**2) - x**2) * x).sum(),
    ),
    "cumsum_reversed_in_jax": (
        lambda x: (nm.from_jax(lambda x: jax.lax.cumsum(x, reverse=True), TIES)(x**2) * x).sum(),
        lambda x: (jax.lax.cumsum(x**2, reverse=True) * x).sum(),
    ),
    "pool": (lambda x: (nm.nn.max_pool((x * x).reshape(1, 4, 1), 2) ** 2).sum(), lambda x: (pooled(x) ** 2).sum()),
    "gelu_of_tanh": (lambda x: nm.nn.gelu(x, approximate=True).sum(), lambda x: jax.nn.gelu(x, approximate=True).sum()),
    "gelu": (lambda x: nm.nn.gelu(x, approximate=False).sum(), lambda x: jax.nn.gelu(x, approximate=False).sum()),
    "cond": (
        lambda x: nm.cond(x.sum() > 0, lambda x: (x**3).sum(), lambda x: jnp.sin(x).sum(), x),
        lambda x: jax.lax.cond(x.sum() > 0, lambda x: (x**3).sum(), lambda x: xp.sin(x).sum(), x),
    ),
    "while": (looped, unrolled),
    "collective": (lambda x: nm.vmap(lambda e: nm.psum(e**2, "i") * e, axis_name="i")(x).sum(), lambda x: (x**2).sum() * x.sum()),
}


def everything(f: Function, grad: Any, jvp: Any, x: Any, v: Any) -> tuple[Any, ...]:
    """The value, both derivatives, and second derivatives along v, forward over reverse and reverse over reverse."""
    gradient = grad(f)
    return (
        f(x),
        gradient(x),
        jvp(f, (x,), (v,))[1],
        jvp(gradient, (x,), (v,))[1],
        grad(lambda x: (gradient(x) * v).sum())(x),
        grad(lambda x: jvp(f, (x,), (v,))[1])(x),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_in_every_mode_alone_and_mapped(name: str) -> None:
    ours, theirs = CASES[name]
    rng = np.random.default_rng(0)
    xs, vs = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
    xs[0, 0] = TIES

    def run(xs: Any, vs: Any) -> Any:
        def one(x: Any, v: Any) -> Any:
            return everything(ours, nm.grad, nm.jvp, x, v)

        return one(xs[0, 0], vs[0, 0]), nm.vmap(nm.vmap(one), 1)(xs, vs)

    alone, mapped = run_traced(run, [xs, vs])
    want = jax.jit(jax.vmap(jax.vmap(lambda x, v: everything(theirs, jax.grad, jax.jvp, x, v))))(xs, vs)
    for a, m, w in zip(alone, mapped, want, strict=True):
        np.testing.assert_allclose(a, w[0, 0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(m, w.swapaxes(0, 1), rtol=1e-9, atol=1e-9)


def test_closed_forms() -> None:
    x = np.array([-2.0, 3.0, 0.5, 1.0])
    mask = WEIGHTS[:4] > 0
    functions = {name: CASES[name][0] for name in ("gather_of_duplicates", "cumsum_exclusive", "mask_captured")}
    got = run_traced(lambda x: {name: nm.vmap(nm.grad(f))(x[None])[0] for name, f in functions.items()}, [x])
    counts = np.array([WEIGHTS[[0, 1, 4]].sum(), WEIGHTS[3], WEIGHTS[2], 0])
    np.testing.assert_allclose(got["gather_of_duplicates"], 2 * x * counts)
    behind = np.array([x[i + 1 :].sum() for i in range(4)])
    np.testing.assert_allclose(got["cumsum_exclusive"], np.cumsum(x**2) - x**2 + 2 * x * behind)
    np.testing.assert_allclose(got["mask_captured"], 2 * x * mask)


def test_an_update_with_more_axes_than_its_target() -> None:
    x, u = np.arange(4.0), np.array([[7.0, 8.0], [9.0, 1.0], [2.0, 5.0]])
    positions = np.array([0, 2, 1])

    def run(j: Any, lib: Any, x: Any, u: Any) -> Any:
        x, u = lib.asarray(x), lib.asarray(u)
        by_update = j.vmap(lambda u: x.at[1:3].set(u))(u)
        by_target = j.vmap(lambda x: x.at[1:3].set(u[0]))(lib.stack([x, 2 * x]))
        by_place = j.vmap(lambda i: x.at[i].set(u[0, 0]))(lib.asarray(positions))
        gradient = j.grad(lambda x: (j.vmap(lambda u: x.at[1:3].add(u))(u) ** 2).sum())(x)
        return by_update, by_target, by_place, gradient

    for got, want in zip(run_traced(lambda x, u: run(nm, jnp, x, u), [x, u]), run(jax, xp, x, u), strict=True):
        np.testing.assert_allclose(got, want)


def test_a_gradient_of_what_is_no_scalar() -> None:
    with pytest.raises(ShapeError, match=r"grad requires a scalar result, got shape \(4,\)"):
        nm.grad(lambda x: x * x)(np.ones(4))
