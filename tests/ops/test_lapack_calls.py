"""The LAPACK and other calls that JAX writes: derivatives of any order, batches, and those written with other routines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax._src.lax.linalg import cholesky_p, geqrf
from jax.lax import linalg as lapack

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from programs import check_program
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError, RuleMissingError

RNG = np.random.default_rng(1)


def _tridiagonal(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    return lapack.tridiagonal_solve(lower, diagonal, upper, b)


def _general(a: Any) -> Any:
    """Eigenvalues and vectors, both sides."""
    w, left, right = lapack.eig(a)
    return [part(x) for x in (w, left, right) for part in (jnp.real, jnp.imag)]


def _eigenvalues(a: Any) -> Any:
    return jnp.abs(jnp.linalg.eigvals(a))


def _products(a: Any, c: Any) -> Any:
    """Q c and c^T Q^T, of a QR factorisation."""
    packed = geqrf(a)
    return lapack.ormqr(*packed, c), lapack.ormqr(*packed, c.T, left=False, transpose=True)


def _largest(a: Any) -> Any:
    """The largest three of each row, and more than the smallest of each column: as many as an approximation leaves."""
    return jax.lax.approx_max_k(a, 3)[0], jax.lax.approx_min_k(a, 1, reduction_dimension=0, aggregate_to_topk=False)


def _apart(n: int) -> np.ndarray:
    """No eigenvalue and no largest entry of an eigenvector is near to another, whose order could change."""
    return np.diag(np.arange(1.0, n + 1)) + 0.2 * RNG.uniform(-1, 1, (n, n))


PROGRAMS = {
    "tridiagonal": (_tridiagonal, [RNG.normal(size=s) for s in ((2, 4), (2, 4), (2, 4), (2, 4, 2))]),
    "eig": (_general, [_apart(3)]),
    "cholesky": (cholesky_p.bind, [_apart(3)]),  # the triangle that is not read stays in the result
    "eigvals": (_eigenvalues, [RNG.normal(size=(2, 3, 3))]),
    "svd_by_qr": (lambda a: lapack.svd(a, algorithm=lapack.SvdAlgorithm.QR)[1], [RNG.normal(size=(3, 2))]),
    "qr_pivoted": (lambda a: jsl.qr(a, pivoting=True, mode="economic")[:2], [RNG.normal(size=(3, 2))]),
    "approx_top_k": (_largest, [RNG.normal(size=(2, 5))]),
    "products_with_q": (_products, [RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_and_batches(name: str) -> None:
    f, xs = PROGRAMS[name]
    text = jax.jit(f).lower(*xs).as_text()
    for got, wanted in zip(check_program(text, xs), jax.tree.leaves(f(*xs)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def test_a_call_with_a_computation_of_its_own_is_named() -> None:
    text = """
    func.func @main(%x: tensor<5xf64>) -> tensor<5xf64> {
      %0 = stablehlo.custom_call @Fold(%x) {called_computations = [@combine]} : (tensor<5xf64>) -> tensor<5xf64>
      return %0 : tensor<5xf64>
    }
    func.func private @combine(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
      return %x : tensor<f64>
    }
    """
    with pytest.raises(ImportIRError, match=r"stablehlo.custom_call of 'Fold' with .*combine"):
        nm.from_stablehlo(text)


def test_reductions_have_batches_and_no_derivative() -> None:
    a = RNG.normal(size=(2, 3, 3))
    f = nm.from_jax(jsl.hessenberg, a[0])
    np.testing.assert_allclose(run_traced(nm.vmap(f), [a]), jax.vmap(jsl.hessenberg)(a), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("name", "f"), [("gehrd", jsl.hessenberg), ("gees", jsl.schur), ("sytrd", lapack.tridiagonal)])
def test_a_routine_without_a_derivative_is_named(name: str, f: Any) -> None:
    g = nm.from_jax(f, np.ones((3, 3)))
    with pytest.raises(RuleMissingError, match=f"lapack_d{name}_ffi"):
        nm.trace(lambda a: nm.jvp(g, (a,), (a,)), nm.spec((3, 3), "float64")).lower()


def test_a_matrix_without_elements() -> None:
    for f in (lapack.eig, jnp.linalg.qr, jnp.linalg.inv):
        g = nm.from_jax(f, np.ones((0, 0)))
        for x, t in zip(*run_traced(lambda a, g=g: nm.jvp(g, (a,), (a,)), [np.ones((0, 0))]), strict=True):
            assert x.shape == t.shape
