"""Matrices of a form beside SciPy's, and products of groups of rows beside JAX's, in f64: values, derivatives, maps, refusals."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
import scipy.linalg

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import DtypeError, ShapeError

rng = np.random.default_rng(0)
linalg = nm.jax.scipy.linalg


pytestmark = pytest.mark.usefixtures("interpreted_in_f64")


@pytest.mark.parametrize("n", [1, 2, 5])
def test_constant_matrices(n: int) -> None:
    for name in ("helmert", "invhilbert", "pascal", "invpascal", "dft", "hilbert"):
        np.testing.assert_allclose(getattr(linalg, name)(n), getattr(scipy.linalg, name)(n), rtol=1e-13, atol=1e-14, err_msg=name)
    np.testing.assert_allclose(linalg.helmert(n, full=True), scipy.linalg.helmert(n, full=True), rtol=1e-13)
    for kind in ("symmetric", "lower", "upper"):
        np.testing.assert_array_equal(linalg.pascal(n, kind), scipy.linalg.pascal(n, kind))
        np.testing.assert_array_equal(linalg.invpascal(n, kind), scipy.linalg.invpascal(n, kind))
    for scale in ("n", "sqrtn"):
        np.testing.assert_allclose(linalg.dft(n, scale), scipy.linalg.dft(n, scale), atol=1e-14)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_matrices_of_numbers(n: int) -> None:
    a = rng.normal(size=n)
    np.testing.assert_allclose(linalg.fiedler(a), scipy.linalg.fiedler(a))
    np.testing.assert_allclose(linalg.fiedler_companion(a), scipy.linalg.fiedler_companion(a))
    for name in ("fiedler", "fiedler_companion"):
        ours, theirs = getattr(linalg, name), getattr(jax.scipy.linalg, name)
        total = lambda xp, f: lambda a: xp.sum(xp.sin(f(a)) ** 2)  # noqa: E731
        np.testing.assert_allclose(nm.grad(total(nnp, ours))(a), oracle.grad(total(jnp, theirs))(a), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(nm.vmap(ours)(np.stack([a, 2 * a])), [ours(a), ours(2 * a)])


def test_groups_of_rows() -> None:
    lhs, rhs, sizes = rng.normal(size=(7, 3)), rng.normal(size=(4, 3, 2)), np.array([2, 0, 3, 1])
    wanted = np.concatenate([lhs[:2] @ rhs[0], lhs[2:5] @ rhs[2], lhs[5:6] @ rhs[3], np.zeros((1, 2))])
    np.testing.assert_allclose(nm.jax.lax.ragged_dot(lhs, rhs, sizes), wanted)
    np.testing.assert_allclose(jax.lax.ragged_dot(lhs, rhs, sizes), wanted)
    f = lambda m, xp: lambda a, b: xp.sum(xp.sin(m.lax.ragged_dot(a, b, jnp.asarray(sizes) if m is jax else sizes)))  # noqa: E731
    for ours, theirs in zip(nm.grad(f(nm.jax, nnp), (0, 1))(lhs, rhs), oracle.grad(f(jax, jnp), (0, 1))(lhs, rhs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    ours, theirs = (
        nm.hvp(f(nm.jax, nnp))(lhs, lhs[::-1], rhs),
        oracle.jvp(oracle.grad(lambda a: f(jax, jnp)(a, rhs)), (lhs,), (lhs[::-1],))[1],
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    many = nm.vmap(nm.jax.lax.ragged_dot, (0, None, 0))(np.stack([lhs, -lhs]), rhs, np.stack([sizes, sizes[::-1]]))
    np.testing.assert_allclose(many[0], wanted)
    np.testing.assert_allclose(many[1], nm.jax.lax.ragged_dot(-lhs, rhs, sizes[::-1]))


def test_infinities_of_other_groups_do_not_leak() -> None:
    rhs = np.stack([np.eye(2), np.full((2, 2), np.inf)])
    np.testing.assert_array_equal(nm.jax.lax.ragged_dot(np.eye(2), rhs, np.array([2, 0])), np.eye(2))


def test_what_is_refused() -> None:
    cases: list[tuple[Any, Any, str]] = [
        (lambda: linalg.dft(3, "x"), ShapeError, "dft requires scale None, 'sqrtn' or 'n', got 'x'"),
        (lambda: linalg.pascal(3, "x"), ShapeError, "pascal requires kind symmetric, lower or upper, got 'x'"),
        (lambda: linalg.invpascal(3, "x"), ShapeError, "invpascal requires kind"),
        (lambda: linalg.companion([1.0]), ShapeError, "companion requires at least 2 coefficients, got shape"),
        (lambda: linalg.fiedler_companion([]), ShapeError, "fiedler_companion requires at least 1 coefficients, got shape"),
        (lambda: nm.jax.lax.ragged_dot(np.ones((2, 3)), np.ones((3, 2)), np.array([2])), ShapeError, r"ragged_dot requires shapes"),
        (
            lambda: nm.jax.lax.ragged_dot(np.ones((2, 3)), np.ones((1, 3, 2)), np.array([2.0])),
            DtypeError,
            "ragged_dot requires integers",
        ),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
