"""The LAPACK calls of JAX: what does not depend on signs is compared, the rest is multiplied together again."""

from __future__ import annotations

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax
from jax._src.lax.linalg import geqp3
from legalize_support import check_against_jax, legalized

from nabla_mlir.base.errors import RuleMissingError

rng = np.random.default_rng(0)


def _random(*shape: int, dtype: type = np.float64) -> np.ndarray:
    return (rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype().dtype.kind == "c" else 0)).astype(dtype)


def _adjoint(a):
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _hermitian(a):
    return a + np.conj(np.swapaxes(a, -1, -2))


@pytest.mark.slow
def test_lu_and_solves() -> None:
    check_against_jax(
        {
            "lu": (jsl.lu_factor, (_random(70, 70),)),
            "complex": (lambda a: lax.linalg.lu(a)[1], (_random(2, 37, 37, dtype=np.complex64),)),
            "tall": (lambda a: lax.linalg.lu(a)[:2], (_random(40, 7),)),
            "wide": (lambda a: lax.linalg.lu(a)[:2], (_random(7, 40),)),
            "solve": (jnp.linalg.solve, (_random(40, 40), _random(40, 3))),
            "det": (jnp.linalg.det, (_random(2, 6, 6),)),
            "singular": (lambda a: lax.linalg.lu(a)[:2], (np.ones((3, 3)),)),
            "cholesky": (jnp.linalg.cholesky, (_hermitian(_random(40, 40)) + 40 * np.eye(40),)),
            "not_positive": (jnp.linalg.cholesky, (-np.eye(3),)),
            "triangular": (
                lambda a, b: jsl.solve_triangular(a, b, lower=True, trans=1),
                (_random(6, 6) + 6 * np.eye(6), _random(6, 2)),
            ),
        },
        1e-3,
    )


@pytest.mark.slow
def test_qr() -> None:
    check_against_jax(
        {
            "tall": (jnp.linalg.qr, (_random(7, 4),)),
            "wide": (jnp.linalg.qr, (_random(4, 7),)),
            "complete": (lambda a: jnp.linalg.qr(a, mode="complete"), (_random(7, 4),)),
            "complex": (jnp.linalg.qr, (_random(2, 5, 5, dtype=np.complex128),)),
            "zero": (jnp.linalg.qr, (np.zeros((3, 2)),)),
            "pivoted": (lambda a: jsl.qr(a, pivoting=True, mode="economic"), (_random(2, 3, 5),)),
            "first": (geqp3, (_random(5, 4, dtype=np.complex128), np.array([0, 0, 1, 0], np.int32))),
        },
        1e-5,
    )


@pytest.mark.slow
def test_eigh() -> None:
    def again(a):
        w, v = jnp.linalg.eigh(a)
        return w, (v * w[..., None, :]) @ _adjoint(v), _adjoint(v) @ v

    check_against_jax(
        {
            "single": (again, (_hermitian(_random(10, 10, dtype=np.float32)),)),
            "complex": (again, (_hermitian(_random(2, 9, 9, dtype=np.complex128)),)),
            "one": (again, (np.ones((1, 1)),)),
            "zero": (again, (np.zeros((4, 4)),)),
            "equal": (again, (np.ones((6, 6)) + 2 * np.eye(6),)),
        },
        2e-5,
    )


@pytest.mark.slow
def test_svd() -> None:
    def again(full: bool):
        def function(a):
            u, s, vt = jnp.linalg.svd(a, full_matrices=full)
            k = s.shape[-1]
            return s, (u[..., :k] * s[..., None, :]) @ vt[..., :k, :], _adjoint(u) @ u, vt @ _adjoint(vt)

        return function

    check_against_jax(
        {
            "tall": (again(False), (_random(7, 5),)),
            "wide": (again(False), (_random(2, 4, 9, dtype=np.complex128),)),
            "full": (again(True), (_random(7, 4, dtype=np.complex64),)),
            "rank": (again(True), (_random(8, 2) @ _random(2, 6),)),
            "zero": (again(False), (np.zeros((3, 3)),)),
            "column": (again(False), (_random(3, 1),)),
            "values": (lambda a: jnp.linalg.svd(a, compute_uv=False), (_random(2, 5, 7),)),
            "pseudo_inverse": (jnp.linalg.pinv, (_random(5, 5),)),
        },
        2e-5,
    )


@pytest.mark.slow
def test_tridiagonal_systems() -> None:
    d = _random(3, 2, 5)
    d[1] *= 0.1  # so that rows are exchanged
    z = [_random(4, dtype=np.complex64) for _ in range(3)]
    check_against_jax(
        {
            "stack": (lax.linalg.tridiagonal_solve, (*d, _random(2, 5, 3))),
            "complex": (lax.linalg.tridiagonal_solve, (*z, _random(4, 1, dtype=np.complex64))),
            "one": (lax.linalg.tridiagonal_solve, (*_random(3, 1), _random(1, 2))),
            "singular": (lax.linalg.tridiagonal_solve, (*np.zeros((3, 3)), np.ones((3, 1)))),
        },
        2e-5,
    )


@pytest.mark.slow
def test_eig() -> None:
    """Of a random matrix, a rotation, a defective matrix and a symmetric one: what does not depend on their order."""

    def again(a):
        w, left, right = lax.linalg.eig(a)
        stored = right * w[..., None, :], _adjoint(left) * w[..., None]
        lengths = jnp.sum(jnp.abs(left) ** 2, axis=-2), jnp.sum(jnp.abs(right) ** 2, axis=-2)
        largest = jnp.take_along_axis(right, jnp.argmax(jnp.abs(right), axis=-2)[..., None, :], axis=-2)
        moments = [jnp.sum(w**k, axis=-1) for k in (1, 2, 3)]
        return a + a @ right - stored[0], a + _adjoint(left) @ a - stored[1], *lengths, 1 + largest.imag[::3], *moments

    # The largest entry of a vector is real; those of the two in the middle have several.
    a = np.stack([_random(3, 3), np.roll(np.eye(3), 1, 0), np.eye(3) + np.eye(3, k=1), _hermitian(_random(3, 3))])
    check_against_jax({"eig": (again, (a,))}, 1e-4)


@pytest.mark.slow
def test_schur_forms() -> None:
    """Of random matrices, a rotation, a defective matrix, zeros and a symmetric one: what does not depend on their order."""

    def again(output, a):
        t, z = jsl.schur(a, output=output)
        lower = jnp.abs(jnp.tril(t, -1)) if output == "complex" else jnp.abs(jnp.tril(t, -2))
        blocks = jnp.sum(jnp.abs(jnp.diagonal(t, -1, axis1=-2, axis2=-1)) > 1e-3, axis=-1)
        return a + z @ t @ _adjoint(z), _adjoint(z) @ z, lower, blocks, jnp.trace(t @ t, axis1=-2, axis2=-1)

    real = [_random(4, 4), np.roll(np.eye(4), 1, 0), np.eye(4) + np.eye(4, k=1), np.zeros((4, 4)), _hermitian(_random(4, 4))]
    check_against_jax(
        {
            "real": (lambda a: again("real", a), (np.stack(real),)),
            "complex": (lambda a: again("complex", a), (_random(2, 3, 3, dtype=np.complex128),)),
            "hessenberg": (lambda a: jsl.hessenberg(a, calc_q=True), (_random(2, 4, 4),)),
            "tridiagonal": (lambda a: lax.linalg.tridiagonal(a), (_hermitian(_random(4, 4, dtype=np.complex128)),)),
            "upper": (lambda a: lax.linalg.tridiagonal(a, lower=False), (_hermitian(_random(4, 4)),)),
        },
        1e-4,
    )


def test_other_routines_are_an_error() -> None:
    text = """
    func.func @f(%x: tensor<3x3xf64>) -> tensor<3x3xf64> {
      %0 = stablehlo.custom_call @lapack_dgebal_ffi(%x) : (tensor<3x3xf64>) -> tensor<3x3xf64>
      return %0 : tensor<3x3xf64>
    }
    """
    with pytest.raises(RuleMissingError, match="a known LAPACK routine, got lapack_dgebal_ffi"):
        legalized(text)
