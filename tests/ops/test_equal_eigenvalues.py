"""Derivatives of eigenvectors and of functions of matrices at equal and almost equal eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from test_singular_derivatives import hessians

import nabla_mlir as nm
from nabla_mlir import numpy as nnp

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("f", [nnp.exp, nnp.log, lambda w: w - 1.0], ids=["exp", "log", "difference"])
def test_vectors_of_equal_eigenvalues_have_no_derivative(f: Callable[[Any], Any]) -> None:
    def by_vectors(a: Any) -> Any:
        w, v = nnp.linalg.eigh(a)
        return (v * f(w)) @ v.T

    couples = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.isnan(nm.jvp(by_vectors, (np.eye(2),), (couples,))[1]).any()
    assert not np.isfinite(nm.grad(lambda a: by_vectors(a).sum())(np.eye(2))).all()
    right = nm.grad(lambda a: nnp.linalg.matrix_function(f, a).sum())(np.eye(2))
    np.testing.assert_allclose(right, np.full((2, 2), np.e if f is nnp.exp else 1.0), rtol=1e-12)


def test_a_vector_of_a_single_eigenvalue_moves_beside_equal_ones() -> None:
    a, e = np.diag([1.0, 1.0, 3.0]), np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    moved = nm.jvp(lambda a: nnp.linalg.eigh(a)[1][:, 2], (a,), (e,))[1]
    np.testing.assert_allclose(np.abs(moved), [0.5, 1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("matrix", ["equal", "close", "separate"])
def test_functions_of_hermitian_matrices(matrix: str) -> None:
    rng = np.random.default_rng(5)
    q = np.linalg.qr(rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)))[0]
    w = {"equal": [1, 1, 2], "close": [1, 1 + 1e-9, 2], "separate": [1, 2, 3]}[matrix]
    a, e = q @ np.diag(w) @ q.conj().T, rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    e, weights = e + e.conj().T, rng.normal(size=(3, 3))

    def f(t: Any) -> Any:
        return (nnp.linalg.matrix_function(nnp.log, a + t * e).real * weights).sum()

    with mp.workdps(60):

        def reference(t: Any) -> Any:
            return sum(mp.re(x) * y for x, y in zip(mp.logm(mp.matrix(a + 0) + t * mp.matrix(e)), weights.ravel(), strict=True))

        first, second = (float(mp.diff(reference, 0, n)) for n in (1, 2))
    for mode in (nm.grad, nm.jacfwd):
        np.testing.assert_allclose(mode(f)(np.float64(0)), first, rtol=1e-9)
        for outer in (nm.grad, nm.jacfwd):
            np.testing.assert_allclose(outer(mode(f))(np.float64(0)), second, rtol=1e-7)


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-8, 1e-11, 1e-14])
def test_derivatives_of_vectors_have_the_digits_of_the_gap(gap: float) -> None:
    """The error is eps / gap, and is not hidden; a smooth function of the matrix has all digits, however small the gap is."""
    q = np.linalg.qr(np.array([[1.0, 2, 3], [0, 1, -2], [4, 1, 1]]))[0]
    w, b = np.array([1.0, 1.0 + gap, 3.0]), np.array([[0.3, 0.5, -0.2], [0.5, -0.4, 0.6], [-0.2, 0.6, 0.25]])
    a = (q * w) @ q.T
    a, inner = (a + a.T) / 2, q.T @ b @ q
    moved = np.asarray(nm.jvp(lambda a: nnp.linalg.eigh(a)[1], (a,), (b,))[1])
    vectors = np.asarray(nnp.linalg.eigh(a)[1])
    signs = np.sign((vectors * q).sum(0)) if gap > 1e-13 else 1
    true = q[:, 1] * inner[1, 0] / (w[0] - w[1]) + q[:, 2] * inner[2, 0] / (w[0] - w[2])
    error = np.abs(moved[:, 0] * (signs[0] if gap > 1e-13 else 1) - true).max() / np.abs(true).max()
    assert error < 100 * np.finfo(float).eps / gap
    smooth = nm.jvp(lambda a: nnp.linalg.matrix_function(nnp.exp, a), (a,), (b,))[1]
    e = np.exp(w)
    quotient = np.array([[e[i] * np.expm1(w[j] - w[i]) / (w[j] - w[i]) if i != j else e[i] for j in range(3)] for i in range(3)])
    np.testing.assert_allclose(smooth, q @ (quotient * inner) @ q.T, rtol=1e-9, atol=1e-9)


CLUSTERS = {"noise": (-1e-17, 1e-16, 14.0), "close": (1e-9, -1e-9, 14.0), "separate": (1e-6, 2e-6, 1.0), "small": (1e-5, 3e-5, 1.0)}


SMOOTH_AT_ZERO = [(name, f) for name in CLUSTERS for f in ("exp", "cube")]
NOT_SMOOTH_AT_ZERO = [(name, f) for name in ("separate", "small") for f in ("log", "maximum")]


@pytest.mark.parametrize(("name", "f"), SMOOTH_AT_ZERO + NOT_SMOOTH_AT_ZERO)
def test_functions_of_matrices_whose_eigenvalues_are_equal_but_for_rounding(name: str, f: str) -> None:
    """The second derivative divides twice by the distance of two eigenvalues; the trace of it is known."""
    w = np.array(CLUSTERS[name])
    function = {"exp": nnp.exp, "cube": lambda w: w**3, "log": nnp.log, "maximum": lambda w: nnp.maximum(w, 1.5e-5)}[f]
    v = np.linalg.qr(np.array([[1.0, 2, 3], [0, 1, -2], [4, 1, 1]]))[0]
    a, b = (v * w) @ v.T, np.array([[0.3, 0.5, -0.2], [0.5, -0.4, 0.6], [-0.2, 0.6, 0.25]])
    inner, (first, second) = (
        v.T @ b @ v,
        {
            "exp": (np.exp, np.exp),
            "cube": (lambda w: 3 * w**2, lambda w: 6 * w),
            "log": (lambda w: 1 / w, lambda w: -1 / w**2),
            "maximum": (lambda w: (w > 1.5e-5) * 1.0, lambda w: w * 0),
        }[f],
    )
    gap = w[:, None] - w[None]
    quotients = np.where(
        np.abs(gap) < 1e-8, second(w)[:, None] + 0 * gap, (first(w)[:, None] - first(w)[None]) / (gap + (gap == 0))
    )
    wanted = (quotients * inner**2).sum()
    found = hessians(lambda t: nnp.trace(nnp.linalg.matrix_function(function, a + t * b)), 0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_second_derivatives_of_vectors_of_matrices_of_any_size(dtype: Any, is_compiled: bool) -> None:
    a, b = np.array([[2.0, 1], [1, 3]], dtype), np.array([[0.3, -0.7], [0.5, 0.4]], dtype)

    def every(scale: Any) -> Any:
        return [
            outer(inner(lambda t, f=factors: f((a + t * b) * scale)[0, 0] ** 2))(np.zeros((), dtype))
            for factors in (lambda x: nnp.linalg.svd(x)[0], lambda x: nnp.linalg.eigh(x)[1])
            for inner, outer in ((nm.grad, nm.jacfwd), (nm.grad, nm.grad), (nm.jacfwd, nm.jacfwd), (nm.jacfwd, nm.grad))
        ]

    run = nm.jit(every) if is_compiled else every
    true = [float(v) for v in every(dtype(1))]
    for scale in (1e-200, 1e200) if dtype == np.float64 else (1e-25, 1e25):
        np.testing.assert_allclose([float(v) for v in run(dtype(scale))], true, rtol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    "matrix",
    [[[1, 1], [0, 1]], [[0, 1], [0, 0]], [[3, 1], [-1, 1]], [[0, 0, 1], [0, 0, 1], [0, 0, 0]], [[2, 1, 0], [0, 2, 1], [0, 0, 2]]],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_eigenvalues_of_defective_matrices_have_no_derivative(matrix: list[list[int]], dtype: Any) -> None:
    f = lambda a: (nnp.linalg.eigvals(a) ** 2).sum().real  # noqa: E731
    a = np.array(matrix, dtype)
    for slope in (nm.grad(f)(a), nm.jvp(f, (a,), (np.arange(a.size, dtype=dtype).reshape(a.shape) + 1,))[1]):
        assert np.isnan(slope).any()
    vectors = lambda a: (lambda v: (v * v.conj()).real[0].sum())(nnp.linalg.eig(a)[1])  # noqa: E731
    assert np.isnan(nm.grad(vectors)(a)).any()
    for found in hessians(lambda t: f(a + t * np.ones_like(a)), np.zeros((), dtype)):
        assert np.isnan(found)


def test_eigenvalues_of_matrices_that_are_not_defective_have_their_derivative() -> None:
    f = lambda a: (nnp.linalg.eigvals(a) ** 2).sum().real  # noqa: E731
    for matrix in (
        [[1.0, 1e10], [0.0, 2.0]],
        [[2.0, 0.0], [0.0, 2.0]],
        [[1.0, 1e-3], [0.0, 1.0 + 1e-5]],
        [[0.0, 1.0], [-1.0, 0.0]],
    ):
        a = np.array(matrix)
        np.testing.assert_allclose(nm.grad(f)(a), 2 * a.T, rtol=1e-6, atol=1e-5)
    many = np.random.default_rng(47).normal(size=(300, 4, 4))
    for dtype, rtol in ((np.float64, 1e-8), (np.float32, 2e-2)):
        np.testing.assert_allclose(nm.grad(lambda a: f(a))(many.astype(dtype)), 2 * many.swapaxes(1, 2), rtol=rtol, atol=rtol)
