"""LAPACK's routines of the interpreter against those that JAX calls: stacks, all dtypes, no elements, what fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax._src.lax.linalg import geqp3, geqrf
from jax.lax import linalg as lapack

from nabla_mlir.dialects.context import parse_module
from nabla_mlir.interpreter import interpreted

pytestmark = pytest.mark.slow

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.complex128]
SHAPES = [(4, 4), (3, 5), (2, 3, 3, 2), (1, 1), (0, 3, 2), (2, 0, 3)]


def random(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def square(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-1])


def adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def positive(a: np.ndarray) -> np.ndarray:
    return np.asarray(adjoint(a) @ a + np.eye(a.shape[-1], dtype=a.dtype))


def check(f: Callable[..., Any], *arguments: np.ndarray) -> None:
    """The interpreter gives what JAX does, up to 500 units in the last place of the largest entry."""
    before = [x.copy() for x in arguments]
    module = parse_module(jax.jit(f).lower(*arguments).as_text())
    function = interpreted(module.operation, "main")
    got = [function(list(arguments)) for _ in range(2)][1]
    for x, y in zip(before, arguments, strict=True):
        np.testing.assert_array_equal(x, y)
    for a, b in zip(got, jax.tree.leaves(jax.jit(f)(*arguments)), strict=True):
        b = np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        unit = np.finfo(b.dtype).eps if b.dtype.kind in "fc" else 0
        np.testing.assert_allclose(a, b, rtol=500 * unit, atol=500 * unit * np.abs(np.nan_to_num(b)).max(initial=0))


def products(left: Any, values: Any, right: Any) -> Any:
    """The parts of a decomposition that do not depend on the signs of its vectors."""
    k = values.shape[-1]
    return values, (left[..., :k] * values[..., None, :]) @ right[..., :k, :], adjoint(left) @ left, right @ adjoint(right)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_factorisations(shape: tuple[int, ...], dtype: Any) -> None:
    def factors(a: Any, c: Any) -> Any:
        pivoted = jsl.qr(a, pivoting=True, mode="economic") if a.size else ()
        return (
            lapack.lu(a)[:2],
            geqrf(a),
            jnp.linalg.qr(a, mode="complete"),
            jnp.linalg.qr(a),
            pivoted,
            jsl.cholesky(c),
            jsl.cholesky(c, lower=True),
        )

    a = random(shape, dtype)
    check(factors, a, positive(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_systems(shape: tuple[int, ...], dtype: Any) -> None:
    def solutions(a: Any, b: Any) -> Any:
        results = [jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.slogdet(a)]
        for transpose in (0, 1, 2):
            results.append(jsl.solve_triangular(a, b, trans=transpose, lower=True))
            results.append(jsl.solve_triangular(a, b, trans=transpose, lower=False, unit_diagonal=True))
        return [*results, lapack.triangular_solve(a, adjoint(b), left_side=False, lower=True)]

    a = random(square(shape), dtype) + 3 * np.eye(shape[-1], dtype=dtype)
    check(solutions, a, random((*a.shape[:-1], 2), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_systems(dtype: Any) -> None:
    diagonals = [random((2, 5), dtype) for _ in range(3)]
    diagonals[1] *= 0.1  # so that rows are exchanged
    check(lapack.tridiagonal_solve, *diagonals, random((2, 5, 3), dtype))
    check(lapack.tridiagonal_solve, *(x[0, :1] for x in diagonals), random((1, 2), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_vectors(shape: tuple[int, ...], dtype: Any) -> None:
    def decompositions(a: Any, symmetric: Any) -> Any:
        w, v = jnp.linalg.eigh(symmetric)
        return (
            products(v, w, adjoint(v)),
            products(*jnp.linalg.svd(a)),
            products(*jnp.linalg.svd(a, full_matrices=False)),
            jnp.linalg.svd(a, compute_uv=False),
            jnp.linalg.pinv(a),
        )

    a = random(shape, dtype)
    check(decompositions, a, positive(a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_of_general_matrices(dtype: Any) -> None:
    """Each real matrix has conjugate values; the order of values is checked by what makes up the matrix."""

    def products(a: Any) -> Any:
        w, left, right = lapack.eig(a)
        lengths = [jnp.linalg.norm(v, axis=-2) for v in (left, right)]
        largest = [jnp.take_along_axis(v, jnp.argmax(jnp.abs(v), -2, keepdims=True), -2).imag for v in (left, right)]
        return (
            jnp.sort(jnp.abs(w)),
            a @ right - right * w[..., None, :],
            adjoint(left) @ a - w[..., None] * adjoint(left),
            *lengths,
            *largest,
        )

    x = random((2, 4, 4), dtype)
    module = parse_module(jax.jit(products).lower(x).as_text())
    sizes, right, left, *lengths, first, second = interpreted(module.operation, "main")([x])
    unit = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(sizes, np.sort(np.abs(np.linalg.eigvals(x))), rtol=unit)
    for zero in (right, left, first, second):
        np.testing.assert_allclose(zero, np.zeros_like(zero), atol=10 * unit)
    for length in lengths:
        np.testing.assert_allclose(length, 1, rtol=unit)


def test_signs_of_vectors_are_those_of_lapack() -> None:
    """Real eigenvalues, and complex matrices; for conjugate pairs, the sign of the left vectors is our choice."""
    for _ in range(5):
        check(lapack.eig, np.diag([1.0, 2.0, 3.0, 4.0]) + 0.2 * random((4, 4), np.float64))
        check(lapack.eig, np.diag([1.0, 2.0, 3.0]) + 0.2 * random((3, 3), np.complex128))


def test_columns_that_come_first() -> None:
    check(geqp3, random((5, 4), np.complex128), np.array([0, 0, 1, 0], np.int32))
    check(geqp3, random((2, 3, 4), np.float64), np.array([[0, 1, 0, 1], [0, 0, 0, 0]], np.int32))


def test_what_has_no_factor() -> None:
    singular, infinite = np.ones((3, 3)), np.full((3, 3), np.nan)
    check(jnp.linalg.cholesky, np.stack([-np.eye(3), 2 * np.eye(3)]))
    check(lambda a: lapack.lu(a)[:2], singular)
    check(jnp.linalg.inv, np.zeros((2, 2)))
    check(geqrf, np.zeros((3, 2)))
    for f in (jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.eig):
        module = parse_module(jax.jit(f).lower(infinite).as_text())
        assert all(np.isnan(x).all() for x in interpreted(module.operation, "main")([infinite]))
