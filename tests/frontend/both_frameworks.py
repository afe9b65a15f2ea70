"""Two frameworks behind one set of names, so that a case is written once and run in both."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

# The names are those of nabla_mlir; `np` is the array namespace.
NABLA = SimpleNamespace(
    np=nnp,
    jit=nm.jit,
    grad=nm.grad,
    value_and_grad=nm.value_and_grad,
    jvp=nm.jvp,
    vjp=nm.vjp,
    linearize=nm.linearize,
    vmap=nm.vmap,
    jacfwd=nm.jacfwd,
    jacrev=nm.jacrev,
    hessian=nm.hessian,
    hvp=nm.hvp,
    stop_gradient=nm.stop_gradient,
)


def _hvp(f, argnums=0, has_aux=False):
    def hvp(x, v, *rest):
        def gradient(x):
            out = jax.grad(f, argnums, has_aux)(*rest[:argnums], x, *rest[argnums:])
            return out[0] if has_aux else out

        return jax.jvp(gradient, (x,), (v,))[1]

    return hvp


def _hessian(f, argnums=0, mode="fwd_rev"):
    outer, inner = ({"fwd": jax.jacfwd, "rev": jax.jacrev}[m] for m in mode.split("_"))
    return outer(inner(f, argnums), argnums)


JAX = SimpleNamespace(
    np=jnp,
    jit=jax.jit,
    grad=jax.grad,
    value_and_grad=jax.value_and_grad,
    jvp=jax.jvp,
    vjp=jax.vjp,
    linearize=jax.linearize,
    vmap=jax.vmap,
    jacfwd=jax.jacfwd,
    jacrev=jax.jacrev,
    hessian=_hessian,
    hvp=_hvp,
    stop_gradient=jax.lax.stop_gradient,
)


def assert_same(found, wanted, rtol=1e-10):
    """Equal trees of equal shapes and dtypes; errors are relative to the largest number of an array."""
    found_leaves, found_tree = jax.tree.flatten(jax.tree.map(np.asarray, found, is_leaf=_is_array))
    wanted_leaves, wanted_tree = jax.tree.flatten(jax.tree.map(np.asarray, wanted))
    assert found_tree == wanted_tree
    for a, b in zip(found_leaves, wanted_leaves, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)


def _is_array(x):
    return isinstance(x, nm.Array)


@pytest.fixture(scope="session")
def x64():
    """JAX with 64-bit numbers."""
    with jax.enable_x64(True):
        yield
