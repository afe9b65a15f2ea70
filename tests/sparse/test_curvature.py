"""Gauss-Newton matrices and Hessians of Lagrangians, beside dense ones; products of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import PatternError, ShapeError

sparse = nm.sparse
X, TARGETS, WEIGHTS = np.random.default_rng(0).uniform(0.5, 1.5, (3, 9))


def residuals(x: Any, targets: Any) -> Any:
    return {"edges": nnp.sin(x[1:] * x[:-1] ** 2), "all": x - targets}


def huber(out: Any, targets: Any) -> Any:
    """Its Hessian is tridiagonal in the edges and diagonal in the rest."""
    return nnp.log(nnp.cosh(out["edges"])).sum() + (out["edges"][1:] * out["edges"][:-1]).sum() + (targets * out["all"] ** 3).sum()


def dense_gauss_newton(x: Any, targets: Any) -> Any:
    flat = lambda out: nnp.concatenate([out["all"], out["edges"]])  # noqa: E731
    tree = lambda o: {"all": o[:9], "edges": o[9:]}  # noqa: E731
    j = nm.jacfwd(lambda x: flat(residuals(x, targets)))(x)
    h = nm.hessian(lambda o: huber(tree(o), targets))(flat(residuals(x, targets)))
    return j.T @ h @ j, j.T @ j


def objective(x: Any) -> Any:
    return ((x[1:] - x[:-1] ** 2) ** 2).sum()


def constraints(x: Any) -> Any:
    return {"products": x[2:] * x[1:-1] * x[:-2], "norm": (x * x).sum()}


def test_matrices_of_second_order_are_the_dense_ones() -> None:
    def both(x: Any, targets: Any, sigma: Any, products: Any, norm: Any) -> Any:
        weights = {"products": products, "norm": norm}
        names = sparse.lagrangian_hessian(objective, constraints)(x, sigma, weights)
        zeros = sparse.lagrangian_hessian(objective, constraints, kind="acyclic")(x, 0.0 * sigma, weights)
        ours = (sparse.gauss_newton(residuals, huber)(x, targets), sparse.gauss_newton(residuals)(x, targets), names, zeros)
        dense = nm.hessian(lambda x: sigma * objective(x))(x)
        bent = nm.hessian(lambda x: (products * constraints(x)["products"]).sum() + norm * (x * x).sum())(x)
        return ours, (*dense_gauss_newton(x, targets), dense + bent, bent)

    ours, truth = run_traced(both, [X, TARGETS, np.float64(2.0), WEIGHTS[:7], np.float64(0.3)])
    for matrix, dense, widest in zip(ours, truth, (5, 3, 5, 5), strict=True):
        found = matrix.to_scipy().toarray()
        np.testing.assert_allclose(found, dense, rtol=1e-12, atol=1e-12)
        assert matrix.pattern.rows.lengths().max() == widest
        assert matrix.pattern.is_symmetric
    assert ours[2].pattern == ours[3].pattern


def test_products_of_sparse_matrices() -> None:
    rng = np.random.default_rng(3)
    a, b = (np.where(rng.random(shape) < 0.3, rng.normal(size=shape), 0.0) for shape in ((7, 9), (9, 5)))
    matrices = [sparse.SparseMatrix(m[m != 0], sparse.Pattern.of(m)) for m in (a, b)]
    product = matrices[0] @ matrices[1]
    np.testing.assert_allclose(product.to_scipy().toarray(), a @ b, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(product.pattern.to_dense(), (a != 0).astype(int) @ (b != 0) > 0)
    with pytest.raises(ShapeError, match=r"@ of sparse matrices requires 5 rows, got shape \(7, 9\)"):
        matrices[1] @ matrices[0]


def test_products_with_too_many_terms() -> None:
    row = sparse.Pattern.of((np.zeros(20_000, int), np.arange(20_000), (1, 20_000)))
    matrix = sparse.SparseMatrix(np.ones(20_000), row)
    with pytest.raises(PatternError, match=r"@ of sparse matrices requires at most [0-9]+ terms, got 400000000 for Sparse"):
        matrix.T @ matrix


def test_multipliers_of_another_shape() -> None:
    with pytest.raises(ShapeError, match=r"a Lagrangian requires multipliers of shape \(7,\), got \(9,\) at result\['products'\]"):
        sparse.lagrangian_hessian(objective, constraints)(X, 1.0, {"products": WEIGHTS, "norm": 0.3})
