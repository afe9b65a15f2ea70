"""Incomplete Cholesky factors: against a dense computation by the definition, shifts, and fewer iterations of conjugate gradients."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import cg

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import NotFiniteError, ShapeError, TraceError

RNG = np.random.default_rng(11)


def by_definition(matrix: np.ndarray) -> np.ndarray:
    """IC(0) with loops over all elements: column by column, with updates inside the pattern alone."""
    n, pattern, lower = len(matrix), (matrix != 0) | np.eye(len(matrix), dtype=bool), np.tril(matrix).astype(float)
    for k in range(n):
        lower[k, k] = np.sqrt(lower[k, k])
        lower[k + 1 :, k] = np.where(pattern[k + 1 :, k], lower[k + 1 :, k] / lower[k, k], 0.0)
        for j in range(k + 1, n):
            for i in range(j, n):
                if pattern[i, j]:
                    lower[i, j] -= lower[i, k] * lower[j, k]
    return lower


def random_matrix(n: int, density: float, seed: int, dominance: float) -> np.ndarray:
    part = sp.random(n, n, density, random_state=seed, data_rvs=np.random.default_rng(seed).standard_normal).toarray()
    matrix = part + part.T
    return matrix - np.diag(np.diag(matrix)) + np.diag(dominance * np.abs(matrix).sum(1) + 0.1)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia", "lil"])
@pytest.mark.parametrize(("n", "density"), [(1, 0.0), (2, 1.0), (7, 0.4), (20, 0.15), (25, 0.5), (12, 1.0)])
def test_the_factor_is_that_of_the_definition(n: int, density: float, form: str) -> None:
    matrix = random_matrix(n, density, n, 1.05)
    M = nm.IncompleteCholeskyPreconditioner(sp.csr_matrix(matrix).asformat(form))
    wanted = by_definition(matrix)
    assert M.shift == 0
    np.testing.assert_allclose(M.factor.toarray(), wanted, rtol=1e-12, atol=1e-13 * np.abs(matrix).max() ** 0.5)
    inverse = np.linalg.inv(wanted @ wanted.T)
    np.testing.assert_allclose(M @ np.eye(n), inverse, rtol=1e-10, atol=1e-12 * np.abs(inverse).max())
    np.testing.assert_allclose(M.T @ np.ones(n), M @ np.ones(n))
    product = (M.factor @ M.factor.T).toarray()
    np.testing.assert_allclose(product[matrix != 0], matrix[matrix != 0], rtol=1e-11)  # it has the entries in the pattern


def test_without_fill_it_is_the_cholesky_factor() -> None:
    chain = nm.sparse.hessian(lambda x: nnp.sum((x[1:] - x[:-1]) ** 4) + nnp.sum(nnp.exp(x)))(np.linspace(0.0, 1.0, 40))
    M, dense = nm.IncompleteCholeskyPreconditioner(chain), chain.to_scipy().toarray()
    np.testing.assert_allclose(M.factor.toarray(), np.linalg.cholesky(dense), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(M @ (dense @ np.arange(40.0)), np.arange(40.0), atol=1e-11)
    full = random_matrix(9, 1.0, 3, 1.1)
    np.testing.assert_allclose(nm.IncompleteCholeskyPreconditioner(sp.csr_matrix(full)).factor.toarray(), np.linalg.cholesky(full))


def membrane(u: Any) -> Any:
    u = nnp.reshape(u, (30, 30))
    return nnp.sum((u[1:] - u[:-1]) ** 2) + nnp.sum((u[:, 1:] - u[:, :-1]) ** 2) + 1e-3 * nnp.sum(u**2 + u**4)


def iterations(matrix: Any, b: np.ndarray, M: Any) -> int:
    calls: list[np.ndarray] = []
    x, info = cg(matrix, b, M=M, rtol=1e-8, callback=calls.append)
    assert info == 0
    assert np.linalg.norm(matrix @ x - b) < 1e-6 * np.linalg.norm(b)
    return len(calls)


def test_conjugate_gradients_need_fewer_iterations() -> None:
    hessian, b = nm.sparse.hessian(membrane)(np.ones(900)).to_scipy(), RNG.normal(size=900)
    plain, diagonal = (
        iterations(hessian, b, None),
        iterations(hessian, b, nm.DiagonalPreconditioner(sp.linalg.aslinearoperator(hessian))),
    )
    assert 2 * iterations(hessian, b, nm.IncompleteCholeskyPreconditioner(hessian)) < min(plain, diagonal)


def test_an_operator_with_its_matrix() -> None:
    module = nm.sparse_hessian_module(membrane, nm.spec(900, "f64"), entry_points=("update", "apply", "matrix"))
    H = nm.HessianOperator(module, np.ones(900), target=nm.Interpreter())
    M = nm.IncompleteCholeskyPreconditioner(H)
    np.testing.assert_allclose(M.factor.toarray(), nm.IncompleteCholeskyPreconditioner(H.matrix()).factor.toarray())
    assert iterations(H, RNG.normal(size=900), M) < 60


@pytest.mark.parametrize(
    ("matrix", "least"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], 1.0),
        ([[-1.0, 0.0], [0.0, -2.0]], 1.0),
        ([[1.0, 2.0], [2.0, 1.0]], 0.1),
        ([[0.0, 0.0], [0.0, 0.0]], 1e-3),
        (
            [[3.0, -2.0, 0.0, 2.0], [-2.0, 3.0, -2.0, 0.0], [0.0, -2.0, 3.0, -2.0], [2.0, 0.0, -2.0, 3.0]],
            1e-3,
        ),  # Kershaw's: positive definite
    ],
)
def test_a_breakdown_shifts_the_diagonal(matrix: list[list[float]], least: float) -> None:
    given = np.array(matrix)
    M = nm.IncompleteCholeskyPreconditioner(sp.csr_matrix(given))
    assert least <= M.shift <= 4 * len(given)
    lengths = np.linalg.norm(given, axis=0)
    shifted = given + M.shift * np.diag(np.where(lengths > 0, lengths, 1.0))
    np.testing.assert_allclose(M.factor.toarray(), by_definition(shifted), rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(M @ np.eye(len(given))).min() > 0
    if given.shape == (4, 4):
        assert np.linalg.eigvalsh(given).min() > 0


@pytest.mark.parametrize("seed", range(20))
def test_it_is_positive_definite_for_any_symmetric_matrix(seed: int) -> None:
    matrix = random_matrix(15, 0.3, seed, 0.0) * 10.0 ** RNG.integers(-3, 4)
    M = nm.IncompleteCholeskyPreconditioner(sp.csr_matrix(matrix)) @ np.eye(15)
    np.testing.assert_allclose(M, M.T, rtol=1e-9, atol=1e-12 * np.abs(M).max())
    assert np.linalg.eigvalsh((M + M.T) / 2).min() > 0


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_large_and_small_entries(scale: float) -> None:
    matrix = random_matrix(6, 0.5, 2, 1.1)
    M = nm.IncompleteCholeskyPreconditioner(sp.csr_matrix(matrix * scale))
    assert M.shift == 0
    np.testing.assert_allclose(M.factor.toarray() / np.sqrt(scale), by_definition(matrix), rtol=1e-12, atol=1e-14)


def test_entries_of_other_kinds_and_the_upper_triangle() -> None:
    matrix = random_matrix(8, 0.4, 5, 1.1)
    lower = nm.IncompleteCholeskyPreconditioner(sp.csr_matrix(np.tril(matrix))).factor
    np.testing.assert_allclose(lower.toarray(), by_definition(matrix))  # the upper triangle is not read
    narrow = nm.IncompleteCholeskyPreconditioner(sp.csr_matrix(matrix.astype(np.float32))).factor
    np.testing.assert_allclose(narrow.toarray(), by_definition(matrix), rtol=1e-5, atol=1e-6)
    integers = nm.IncompleteCholeskyPreconditioner(sp.csr_array(np.array([[4, 2], [2, 5]]))).factor
    np.testing.assert_allclose(integers.toarray(), [[2, 0], [1, 2]])


def test_arrows_and_long_chains_take_little_time() -> None:
    n = 20_000
    arrow = sp.diags([np.arange(1.0, n + 1) + n], [0]).tolil()
    arrow[0, :], arrow[:, 0] = 1.0, 1.0
    arrow[0, 0] = 2.0 * n
    start = time.perf_counter()
    for matrix in (arrow.tocsr(), arrow.tocsr()[::-1, ::-1]):
        assert nm.IncompleteCholeskyPreconditioner(matrix).shift == 0
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (3, TraceError, "requires a sparse matrix, got int"),
        (np.eye(3), TraceError, "requires a sparse matrix, got ndarray"),
        (nm.HessianOperator(lambda x: nnp.sum(x**2), np.ones(3)), TraceError, "requires a sparse matrix, got HessianOperator"),
        (sp.csr_matrix((2, 3)), ShapeError, r"requires a square matrix, got shape \(2, 3\)"),
        (sp.csr_matrix([[np.nan]]), NotFiniteError, "requires finite entries"),
        (sp.csr_matrix([[np.inf]]), NotFiniteError, "requires finite entries"),
    ],
)
def test_what_is_no_matrix_is_refused(matrix: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"IncompleteCholeskyPreconditioner {message}") as caught:
        nm.IncompleteCholeskyPreconditioner(matrix)
    assert "test_incomplete_cholesky.py" in str(caught.value)
