"""Real functions of complex numbers beside JAX in f64: gradients, Jacobians, products, maps, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import DtypeError

rng = np.random.default_rng(0)
Z, V = (rng.normal(size=(2, 4)) + 1j * rng.normal(size=(2, 4)) for _ in range(2))
X = rng.normal(size=3)
WEIGHTS = np.arange(1.0, 5.0)


pytestmark = pytest.mark.usefixtures("interpreted_in_f64")


def same(got: Any, wanted: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.asarray(a).dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "abs": lambda xp, z: xp.sum(xp.abs(z)),
    "real part": lambda xp, z: xp.sum(xp.real(z**3)),
    "imaginary part": lambda xp, z: xp.sum(xp.imag(xp.exp(z)) * xp.real(z)),
    "vdot": lambda xp, z: xp.real(xp.vdot(z[0], z[1] * WEIGHTS)),
    "power spectrum": lambda xp, z: xp.sum(WEIGHTS * xp.abs(xp.fft.fft(z)) ** 2),
    "angle": lambda xp, z: xp.sum(xp.angle(z) ** 2),
    "norm": lambda xp, z: xp.linalg.norm(z),
    "quadratic form": lambda xp, z: xp.sum(xp.real(xp.conj(z) @ (xp.exp(1j * np.outer(WEIGHTS, WEIGHTS)) @ z.T))),
    "log of a determinant": lambda xp, z: xp.linalg.slogdet(z @ xp.conj(z.T) + np.eye(2))[1],
    "no dependence": lambda xp, z: xp.sum(xp.real(z)) * 0.0,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_and_products_are_those_of_jax(name: str) -> None:
    ours, theirs = (lambda z: FUNCTIONS[name](nnp, z)), (lambda z: FUNCTIONS[name](jnp, z))
    same(nm.value_and_grad(ours)(Z), oracle.value_and_grad(theirs)(Z))
    same(nm.vjp(ours, Z)[1](1.0), jax.vjp(theirs, Z)[1](1.0))
    same(nm.hvp(ours)(Z, V), oracle.jvp(oracle.grad(theirs), (Z,), (V,))[1])
    stack = np.stack([Z, V])
    same(nm.vmap(nm.grad(ours))(stack), oracle.vmap(oracle.grad(theirs))(stack))


def test_the_gradient_of_a_gradient() -> None:
    def steep(m: Any, xp: Any) -> Any:
        f = lambda z: xp.sum(xp.abs(z) ** 2 * xp.real(z))  # noqa: E731
        return m.grad(lambda z: xp.sum(xp.abs(m.grad(f)(z)) ** 2))

    same(steep(nm, nnp)(Z), steep(jax, jnp)(Z))


def test_trees_of_real_and_complex_leaves() -> None:
    def f(xp: Any) -> Any:
        return lambda t, y: (xp.sum(xp.abs(t["z"] * xp.sum(t["x"])) ** 2) + xp.real(y) * t["s"], t["x"])

    tree, y = {"z": Z, "x": X, "s": 2.0}, np.complex128(1 + 2j)
    for argnums in (0, (0, 1), 1):
        ours, theirs = (m.value_and_grad(f(xp), argnums, has_aux=True)(tree, y) for m, xp in ((nm, nnp), (jax, jnp)))
        same(ours, theirs)
    ours = nm.jit(nm.grad(f(nnp), has_aux=True))(tree, y)
    same(ours, jax.jit(oracle.grad(f(jnp), has_aux=True))(tree, y))


def test_rows_of_jacobians() -> None:
    moduli = lambda xp: lambda z, x: (xp.abs(z[0]) ** 2, xp.real(z[:, 0] * x[0]))  # noqa: E731
    same(nm.jacrev(moduli(nnp), (0, 1))(Z, X), oracle.jacrev(moduli(jnp), (0, 1))(Z, X))


def test_the_axes_of_vectorised_tensors_stay() -> None:
    f = FUNCTIONS["real part"]
    found = nm.grad(lambda z: f(nnp, z))(nm.vectorize(Z, "rows"))
    np.testing.assert_allclose(nm.devectorize(found), 3 * Z**2)


@pytest.mark.parametrize("transform", [nm.hessian, nm.jacfwd, nm.hessian_diagonal, nm.laplacian])
def test_what_one_number_cannot_hold_is_refused(transform: Any) -> None:
    with pytest.raises(DtypeError, match=r"requires real arguments, got complex128 at argument"):
        transform(lambda z: nnp.sum(nnp.abs(z)))(Z)


def test_complex_results_are_refused_as_in_jax() -> None:
    with pytest.raises(TypeError, match="real-valued outputs"):
        oracle.grad(lambda z: jnp.sum(z**2))(Z)
    with pytest.raises(DtypeError, match=r"(?s)grad requires a real result, got complex128.*use vjp") as caught:
        nm.grad(lambda z: nnp.sum(z**2))(Z)
    assert "in test_complex_results_are_refused_as_in_jax" in str(caught.value)
    with pytest.raises(DtypeError, match=r"(?s)requires a complex result, got float64.*leave holomorphic out"):
        nm.grad(lambda z: nnp.sum(nnp.abs(z)), holomorphic=True)(Z)
