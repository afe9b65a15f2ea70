"""Preconditioners: their matrices against closed forms, and fewer iterations of the conjugate gradient method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, TraceError

RNG = np.random.default_rng(5)
A = RNG.normal(size=(12, 12))
A = A @ A.T + np.diag(np.logspace(0, 4, 12))


def operator(dtype: str = "f8", target: Any = None) -> Any:
    matrix = A.astype(dtype)
    return nm.HessianOperator(lambda x: x @ (matrix @ x) / 2, np.ones(12, dtype), target=target)


@pytest.mark.parametrize("form", ["ours", "csc_array", "coo_matrix"])
def test_sparse_matrices_are_read_without_products(form: str) -> None:
    matrix = nm.sparse.hessian(lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum() + (x[:1] ** 4).sum())(np.linspace(1, 2, 6))
    whole = np.asarray(matrix.toarray())
    np.testing.assert_array_equal(np.asarray(matrix.diagonal()), np.diag(whole))
    given = matrix if form == "ours" else getattr(scipy.sparse, form)(matrix.to_scipy())
    for probes in (None, 1):
        np.testing.assert_array_equal(nm.operator_diagonal(given, probes), np.diag(whole))
    np.testing.assert_allclose(dense(nm.DiagonalPreconditioner(given)), np.diag(1 / np.abs(np.diag(whole))))
    blocks = nm.BlockPreconditioner(given, [2, 4])
    np.testing.assert_allclose(dense(blocks), dense(nm.BlockPreconditioner(aslinearoperator(whole), [2, 4])), rtol=1e-12)


def test_the_diagonal_of_a_sparse_matrix_is_an_array_of_the_program() -> None:
    x = np.array([1.0, 2.0, 3.0])
    diagonal = lambda x: nm.sparse.jacobian(lambda x: x[1:] * x[:-1] ** 2)(x).diagonal()  # noqa: E731
    assert np.asarray(nm.jit(diagonal)(x)).tolist() == [4.0, 12.0]
    assert np.asarray(nm.grad(lambda x: diagonal(x).sum())(x)).tolist() == [4.0, 8.0, 4.0]


def dense(M: LinearOperator) -> np.ndarray:
    return M @ np.eye(M.shape[0])


@pytest.mark.parametrize("block", [None, 1, 5, 100])
@pytest.mark.parametrize(("dtype", "target"), [("f8", None), ("f8", "cpu"), ("f4", None)])
def test_the_exact_diagonal(dtype: str, target: Any, block: int | None) -> None:
    got = nm.operator_diagonal(operator(dtype, target), block=block)
    np.testing.assert_allclose(got, np.diag(A), rtol=1e-12 if dtype == "f8" else 1e-5)


def test_the_estimated_diagonal_is_unbiased_with_a_known_variance() -> None:
    matrix = RNG.normal(size=(6, 6))
    matrix = matrix + matrix.T
    draws = np.array([nm.operator_diagonal(aslinearoperator(matrix), 4, seed=seed) for seed in range(2000)])
    variance = ((matrix**2).sum(1) - np.diag(matrix) ** 2) / 4
    np.testing.assert_allclose(draws.mean(0), np.diag(matrix), atol=5 * np.sqrt(variance.max() / 2000))
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.2)
    assert np.array_equal(nm.operator_diagonal(aslinearoperator(np.diag([1.0, -2.0])), 1), [1.0, -2.0])


def test_a_diagonal_preconditioner_is_the_inverse_of_the_absolute_diagonal() -> None:
    M = nm.DiagonalPreconditioner(aslinearoperator(np.diag([2.0, -4.0, 0.0])), floor=0.01)
    np.testing.assert_allclose(dense(M), np.diag([0.5, 0.25, 1 / 0.04]))
    np.testing.assert_allclose(M.T @ np.ones(3), M @ np.ones(3))
    assert dense(nm.DiagonalPreconditioner(aslinearoperator(np.zeros((2, 2))))).tolist() == np.eye(2).tolist()


def test_blocks_are_the_leaves_of_the_point() -> None:
    def f(p: Any) -> Any:
        return nnp.sum(p["a"]) ** 2 + nnp.sum(p["a"] ** 2) - nnp.sum(p["b"] ** 2) * 2.0 + p["a"][0] * p["b"][0]

    H = nm.HessianOperator(f, {"b": np.ones(2), "a": np.ones(3)})
    assert H.leaf_sizes == (3, 2)
    a = 2 * np.ones((3, 3)) + 2 * np.eye(3)
    wanted = np.zeros((5, 5))
    wanted[:3, :3], wanted[3:, 3:] = np.linalg.inv(a), np.eye(2) / 4  # |-4| in the second block
    np.testing.assert_allclose(dense(nm.BlockPreconditioner(H)), wanted, atol=1e-12)
    pieces = nm.BlockPreconditioner(H, largest=2)
    wanted[:3, :3] = 0
    wanted[:2, :2], wanted[2, 2] = np.linalg.inv(a[:2, :2]), 1 / a[2, 2]
    np.testing.assert_allclose(dense(pieces), wanted, atol=1e-12)
    whole = nm.BlockPreconditioner(aslinearoperator(A), [12])
    np.testing.assert_allclose(dense(whole) @ A, np.eye(12), atol=1e-9)


def test_pairs_of_lbfgs_invert_on_their_span() -> None:
    M = nm.LBFGSPreconditioner(12, memory=12)
    assert dense(M).tolist() == np.eye(12).tolist()
    for s in np.linalg.eigh(A)[1].T:  # conjugate directions: all of them give the inverse
        assert M.add(s, A @ s)
    np.testing.assert_allclose(dense(M), np.linalg.inv(A), rtol=1e-6, atol=1e-9)
    assert not M.add(np.ones(12), -np.ones(12))
    assert not M.add(np.zeros(12), np.zeros(12))
    short = nm.LBFGSPreconditioner(12, memory=1)
    for s in np.eye(12)[:3]:
        short.add(s, A @ s)
    np.testing.assert_allclose(short @ (A @ np.eye(12)[2]), np.eye(12)[2], atol=1e-12)  # the secant equation of the last pair


@pytest.mark.parametrize("make", [nm.DiagonalPreconditioner, nm.BlockPreconditioner, lambda H: nm.DiagonalPreconditioner(H, 30)])
def test_the_conjugate_gradient_method_needs_fewer_iterations(make: Any) -> None:
    counts = []
    H, b = operator(), RNG.normal(size=12)
    for M in (None, make(H)):
        steps: list[Any] = []
        x, status = cg(H, b, M=M, rtol=1e-10, callback=steps.append, maxiter=500)
        assert status == 0
        np.testing.assert_allclose(A @ x, b, rtol=1e-6, atol=1e-7)
        counts.append(len(steps))
    assert counts[1] < counts[0]


def test_what_is_refused() -> None:
    with pytest.raises(TraceError, match="a preconditioner requires a linear operator, got function"):
        nm.DiagonalPreconditioner(nnp.sum)
    with pytest.raises(ShapeError, match=r"requires a square operator, got one of shape \(2, 3\)"):
        nm.operator_diagonal(aslinearoperator(np.ones((2, 3))))
    with pytest.raises(ShapeError, match="requires at least one probe, got 0"):
        nm.operator_diagonal(operator(), 0)
    with pytest.raises(ShapeError, match="requires positive sizes with the sum 12, got"):
        nm.BlockPreconditioner(operator(), [5, 5])
    with pytest.raises(ShapeError, match="requires two vectors of 3 numbers"):
        nm.LBFGSPreconditioner(3).add(np.ones(3), np.ones(2))
