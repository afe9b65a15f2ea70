"""Artifacts with sparse derivatives: entries in the order of each format, and where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

import nabla_mlir as nm
from nabla_mlir.errors import PatternError

FORMS = {
    "csr": lambda values, places, shape: csr_matrix((values, places[1], places[0]), shape),
    "csc": lambda values, places, shape: csc_matrix((values, places[1], places[0]), shape),
    "coo": lambda values, places, shape: coo_matrix((values, places), shape),
}  # fmt: skip


def lagrangian(x: Any, sigma: Any, weights: Any) -> Any:
    return sigma * ((x[1:] - x[:-1] ** 2) ** 2).sum() + (weights * x[:-1] * x[1:]).sum()


def test_hessians(tmp_path: Path) -> None:
    x, weights = np.random.default_rng(0).uniform(0.5, 1.5, (2, 6))
    args = (x, 2.0, weights[:5])
    specs = (nm.spec(6, "f64"), nm.spec((), "f64"), nm.spec(5, "f64"))
    dense = np.asarray(nm.hessian(lagrangian)(*args))
    stage = nm.sparse_hessian_module(lagrangian, *specs)
    stage.lower().compile().save(tmp_path / "hessian.vmfb")
    module = nm.load(tmp_path / "hessian.vmfb")
    np.testing.assert_allclose(module.value(*args), lagrangian(*args), rtol=1e-12)
    np.testing.assert_allclose(module.gradient(*args), nm.grad(lagrangian)(*args), rtol=1e-12)
    starts, indices = map(np.asarray, module.structure())
    found = csc_matrix((np.asarray(module.hessian(*args)), indices, starts), shape=(6, 6))
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-10, atol=1e-12)
    lower = nm.sparse_hessian_module(lagrangian, *specs, format="lower", kind="acyclic").lower().compile()
    places = [np.asarray(p) for p in lower.structure()]
    found = coo_matrix((np.asarray(lower.hessian(*args)), places), shape=(6, 6)).toarray()
    np.testing.assert_allclose(found, np.tril(dense), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("format", FORMS)
def test_jacobians(format: str) -> None:
    def f(x: Any) -> Any:
        return x[2:] * x[:-2] + x[1:-1]

    x = np.random.default_rng(0).uniform(0.5, 1.5, 6)
    module = nm.sparse_jacobian_module(f, nm.spec(6, "f64"), format=format).lower().compile()
    places = tuple(np.asarray(p) for p in module.structure())
    found = FORMS[format](np.asarray(module.jacobian(x)), places, (4, 6)).toarray()
    np.testing.assert_allclose(found, nm.jacfwd(f)(x), rtol=1e-12)
    np.testing.assert_allclose(module.value(x), f(x), rtol=1e-12)


def test_errors() -> None:
    with pytest.raises(PatternError, match="a sparse module requires a format among csr, csc, coo, lower, got 'ell'"):
        nm.sparse_hessian_module(lambda x: (x * x).sum(), nm.spec(3), format="ell")
    with pytest.raises(PatternError, match=r"format 'lower' requires a square matrix, got Pattern\(2x3"):
        nm.sparse_jacobian_module(lambda x: x[1:] * x[:-1], nm.spec(3), format="lower")
