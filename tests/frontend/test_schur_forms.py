"""Schur's form, the steps to it and what is computed from it, beside SciPy and JAX in f64: values, derivatives to second order, maps."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import scipy.linalg
from function_laws import agree, check_derivatives, check_maps

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import RuleMissingError, ShapeError
from nabla_mlir.jax.scipy import linalg

pytestmark = pytest.mark.usefixtures("interpreted_in_f64")

rng = np.random.default_rng(0)
A = rng.normal(size=(4, 4)) + 4 * np.eye(4)
B = rng.normal(size=(3, 3)) + 3 * np.eye(3)
C = rng.normal(size=(4, 3))
COMPLEX = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
MATRICES = {
    "random": rng.normal(size=(6, 6)),
    "rotation": np.roll(np.eye(4), 1, 0),
    "defective": np.eye(3) + np.eye(3, k=1),
    "zero": np.zeros((3, 3)),
    "pair": np.array([[1.0, 2.0], [-3.0, 1.0]]),
    "one": np.array([[2.5]]),
    "blocks": scipy.linalg.block_diag(rng.normal(size=(3, 3)), rng.normal(size=(3, 3))),
    "cluster": np.diag([1.0, 1.0001, 1.0002, 5.0, 1.0]) + 1e-3 * rng.normal(size=(5, 5)),
    "large": 1e180 * rng.normal(size=(4, 4)),
    "complex": COMPLEX,
    "stack": rng.normal(size=(2, 5, 5)),
}


@pytest.mark.parametrize("output", ["real", "complex"])
@pytest.mark.parametrize("name", MATRICES)
def test_factors_of_schur(name: str, output: str) -> None:
    a = MATRICES[name]
    t, z = map(np.asarray, linalg.schur(a, output))
    adjoint = lambda x: x.conj().swapaxes(-1, -2)  # noqa: E731
    np.testing.assert_allclose(z @ t @ adjoint(z), a, atol=2e-14 * max(abs(a).max(), 1))
    np.testing.assert_allclose(adjoint(z) @ z, np.broadcast_to(np.eye(a.shape[-1]), a.shape), atol=1e-14)
    assert t.dtype == z.dtype == (np.complex128 if output == "complex" else a.dtype)
    below = np.diagonal(t, -1, axis1=-2, axis2=-1)
    assert not np.tril(t, -2).any()
    if t.dtype.kind == "c":
        assert not below.any()
        return
    above, on = np.diagonal(t, 1, axis1=-2, axis2=-1), np.diagonal(t, axis1=-2, axis2=-1)
    assert not (below[..., 1:] * below[..., :-1]).any()
    assert (below * above <= 0)[below != 0].all()  # each block is of a pair of conjugate eigenvalues
    assert (on[..., 1:] == on[..., :-1])[below != 0].all()


def test_the_complex_form_of_a_real_one() -> None:
    for a in (MATRICES["random"], MATRICES["rotation"], MATRICES["defective"]):
        t, z = scipy.linalg.schur(a)
        agree(linalg.rsf2csf(t, z), scipy.linalg.rsf2csf(t, z), 1e-13)


def test_hessenberg() -> None:
    for a in (A, COMPLEX, B[:2, :2]):
        agree(linalg.hessenberg(a, calc_q=True), scipy.linalg.hessenberg(a, calc_q=True), 1e-13)
        agree(linalg.hessenberg(a), scipy.linalg.hessenberg(a), 1e-13)


def test_reductions_are_packed_as_by_lapack() -> None:
    for a in (A + A.T, COMPLEX + COMPLEX.conj().T):
        agree(nm.jax.lax.linalg.hessenberg(a), jax.lax.linalg.hessenberg(a), 1e-13)
        for lower in (True, False):
            agree(nm.jax.lax.linalg.tridiagonal(a, lower=lower), jax.lax.linalg.tridiagonal(a, lower=lower), 1e-13)
        packed, taus = scipy.linalg.qr(a, mode="raw")[0]
        for left, transpose in ((True, False), (False, True)):
            arguments: dict[str, Any] = {"left": left, "transpose": transpose}
            agree(nm.jax.lax.linalg.ormqr(packed, taus, a, **arguments), jax.lax.linalg.ormqr(packed, taus, a, **arguments), 1e-13)
    t = nm.jax.lax.linalg.schur(A, compute_schur_vectors=False)
    agree(np.sort_complex(np.linalg.eigvals(t)), np.sort_complex(np.linalg.eigvals(A)), 1e-12)


@pytest.mark.parametrize(("mode", "pivoting"), [("right", False), ("left", True)])
def test_products_with_the_factor_of_a_qr(mode: str, pivoting: bool) -> None:
    a, c = C, (rng.normal(size=(2, 4)) if mode == "right" else rng.normal(size=(3, 2)))
    for other in (c, c[0] if mode == "right" else c[:, 0]):
        options: dict[str, Any] = {"mode": mode, "pivoting": pivoting}
        agree(linalg.qr_multiply(a, other, **options), jax.scipy.linalg.qr_multiply(a, other, **options), 1e-12)
    check_derivatives(lambda a, c: linalg.qr_multiply(a, c, mode)[0], (a, c))
    with pytest.raises(ShapeError, match="qr_multiply requires"):
        linalg.qr_multiply(a, c, "middle")


def test_equations_of_sylvester() -> None:
    agree(linalg.solve_sylvester(A, B, C), scipy.linalg.solve_sylvester(A, B, C), 1e-12)
    x = np.asarray(linalg.solve_sylvester(COMPLEX, B, C[:3]))  # SciPy's is wrong where real and complex matrices meet
    agree(COMPLEX @ x + x @ B, C[:3].astype(complex), 1e-12)
    assert np.isnan(linalg.solve_sylvester(B, -B, C[:3])).all()
    check_derivatives(linalg.solve_sylvester, (A, B, C))
    check_maps(linalg.solve_sylvester, (A, B, C))
    stack = np.stack([A, A.T])
    agree(linalg.solve_sylvester(stack, B, C), np.stack([scipy.linalg.solve_sylvester(a, B, C) for a in stack]), 1e-12)
    agree(
        nm.vmap(linalg.solve_sylvester, (None, None, 0))(A, B, np.stack([C, 2 * C]))[1], 2 * scipy.linalg.solve_sylvester(A, B, C)
    )


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_the_schur_form_of_a_matrix_that_is_not_finite_is_nan(dtype: type) -> None:
    stack = np.stack([MATRICES["random"][:3, :3]] * 3).astype(dtype)
    stack[0, 0, 0], stack[1, 2, 1] = np.nan, np.inf
    for factor in linalg.schur(stack):
        x = np.asarray(factor)
        assert np.isnan(x[:2]).all()
        assert np.isfinite(x[2]).all()


@pytest.mark.parametrize("name", ["random", "pair", "complex"])
def test_roots_of_matrices(name: str) -> None:
    a = MATRICES[name]
    agree(linalg.sqrtm(a), scipy.linalg.sqrtm(a).astype(complex), 1e-10)


def test_roots_of_singular_matrices() -> None:
    agree(linalg.sqrtm(np.diag([4.0, 0.0, 0.0])), np.diag([2.0 + 0j, 0, 0]))
    assert not np.isfinite(linalg.sqrtm(np.eye(2, k=1))).all()  # there is none


def test_derivatives_of_roots_and_functions() -> None:
    parts = lambda x: (nnp.real(x), nnp.imag(x))  # noqa: E731
    functions = (linalg.sqrtm, lambda a: linalg.funm(a, nnp.exp))
    for f in functions:
        check_derivatives(lambda a, f=f: parts(f(a)), (MATRICES["random"][:3, :3],))
        check_maps(f, (A,))
    derivative = nm.jvp(lambda a: linalg.funm(a, nnp.exp), (A,), (B[:1, :1] + np.tri(4),))[1]
    agree(derivative.real, scipy.linalg.expm_frechet(A, B[:1, :1] + np.tri(4), compute_expm=False), 1e-10)


def test_functions_of_matrices() -> None:
    agree(linalg.funm(A, nnp.sin), scipy.linalg.funm(A, np.sin).astype(complex), 1e-12)
    value, error = linalg.funm(A, lambda x: x * x, disp=False)
    agree(value.real, A @ A, 1e-12)
    np.testing.assert_allclose(error, scipy.linalg.funm(A, np.square, disp=False)[1], rtol=1e-6)


def test_what_has_no_derivative_or_does_not_fit_is_refused() -> None:
    for f, name in ((linalg.schur, "gees"), (linalg.hessenberg, "gehrd"), (nm.jax.lax.linalg.tridiagonal, "sytrd")):
        with pytest.raises(RuleMissingError, match=f"lapack_d{name}_ffi"):
            nm.jvp(f, (A,), (A,))
    for call in (
        lambda: linalg.schur(C),
        lambda: linalg.schur(A, "other"),
        lambda: linalg.hessenberg(C),
        lambda: linalg.rsf2csf(C, C),
        lambda: linalg.solve_sylvester(A, B, A),
        lambda: linalg.solve_sylvester(A, B, C, method="other"),
        lambda: linalg.sqrtm(C),
        lambda: linalg.funm(C, nnp.exp),
        lambda: nm.jax.lax.linalg.schur(A, sort_eig_vals=True),
    ):
        with pytest.raises(ShapeError, match="requires"):
            call()


def _polar_by_svd(x: Any) -> Any:
    u, s, vh = jax.numpy.linalg.svd(x, full_matrices=False)
    return u @ vh, (vh.T * s) @ vh


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (1, 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_the_polar_decomposition_by_iterations(shape: Any, dtype: str) -> None:
    x = (
        (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
        if dtype == "c16"
        else rng.normal(size=shape).astype(dtype)
    )
    for options in ({}, {"max_iterations": 2}, {"eps": 0.1}):
        theirs = jax.lax.linalg.qdwh(x, **options)
        for got, wanted in zip(nm.jax.lax.linalg.qdwh(x, **options), theirs, strict=True):
            np.testing.assert_allclose(got, wanted, atol=2e-6 if dtype == "f4" else 1e-14)
            assert got.dtype == wanted.dtype


@pytest.mark.slow
def test_derivatives_of_the_polar_decomposition() -> None:
    x, along = C, rng.normal(size=C.shape)
    ours, by_svd = lambda x: nm.jax.lax.linalg.qdwh(x)[:2], _polar_by_svd
    loss = lambda lib, f: lambda x: sum((lib.numpy.sin(y) * np.arange(1.0, 1 + y.size).reshape(y.shape)).sum() for y in f(x))  # noqa: E731
    slope, wanted = nm.grad(loss(nm, ours)), jax.grad(loss(jax, by_svd))
    agree(nm.jvp(ours, (x,), (along,))[1], jax.jvp(by_svd, (x,), (along,))[1], 1e-12)
    agree(slope(x), wanted(x), 1e-12)
    agree(nm.jvp(slope, (x,), (along,))[1], jax.jvp(wanted, (x,), (along,))[1], 1e-11)
    agree(nm.grad(lambda x: (slope(x) * along).sum())(x), jax.jvp(wanted, (x,), (along,))[1], 1e-11)
    agree(nm.vmap(slope)(np.stack([x, 2 * x])), np.stack([wanted(x), wanted(2 * x)]), 1e-12)
    with pytest.raises(ShapeError, match="qdwh requires a matrix with at least as many rows as columns"):
        nm.jax.lax.linalg.qdwh(x.T)


@pytest.mark.slow
def test_functions_of_matrices_compiled() -> None:
    f = lambda a: linalg.funm(a, nnp.exp)  # noqa: E731
    both = lambda a, t: (f(a), nm.jvp(f, (a,), (t,))[1])  # noqa: E731
    along = np.tri(4)
    value, slope = nm.trace(both, A, along, name="f").lower().compile("cpu")(A, along)
    agree(value, scipy.linalg.expm(A).astype(complex), 1e-11)
    agree(slope, scipy.linalg.expm_frechet(A, along)[1].astype(complex), 1e-10)
