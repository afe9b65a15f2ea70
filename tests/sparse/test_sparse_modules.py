"""Artifacts with sparse derivatives: entries in the order of each format, and where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

import nabla_mlir as nm
from nabla_mlir.base.errors import PatternError, TraceError

FORMS = {
    "csr": lambda values, positions, shape: csr_matrix((values, positions[1], positions[0]), shape),
    "csc": lambda values, positions, shape: csc_matrix((values, positions[1], positions[0]), shape),
    "coo": lambda values, positions, shape: coo_matrix((values, positions), shape),
}


def lagrangian(x: Any, sigma: Any, weights: Any) -> Any:
    return sigma * ((x[1:] - x[:-1] ** 2) ** 2).sum() + (weights * x[:-1] * x[1:]).sum()


def test_hessians(tmp_path: Path) -> None:
    x, weights = np.random.default_rng(0).uniform(0.5, 1.5, (2, 6))
    args = (x, 2.0, weights[:5])
    specs = (nm.spec(6, "f64"), nm.spec((), "f64"), nm.spec(5, "f64"))
    dense = np.asarray(nm.hessian(lagrangian)(*args))
    stage = nm.sparse_hessian_module(lagrangian, *specs)
    stage.compile().save(tmp_path / "hessian.vmfb")
    module = nm.load(tmp_path / "hessian.vmfb")
    np.testing.assert_allclose(module.value(*args), lagrangian(*args), rtol=1e-12)
    np.testing.assert_allclose(module.gradient(*args), nm.grad(lagrangian)(*args), rtol=1e-12)
    starts, indices = map(np.asarray, module.structure())
    found = csc_matrix((np.asarray(module.hessian(*args)), indices, starts), shape=(6, 6))
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-10, atol=1e-12)
    form = module.manifest.entry_points[2].sparsity
    assert form == nm.load(tmp_path / "hessian.vmfb").manifest.entry_points[2].sparsity == stage.entries[2].sparsity
    assert (form.format, form.shape) == ("csc", (6, 6))
    assert (form.indices["starts"], form.indices["indices"]) == (tuple(starts), tuple(indices))
    seeds = np.arange(max(form.indices["column_colors"]) + 1)[:, None] == form.indices["column_colors"]
    np.testing.assert_allclose((seeds @ dense).reshape(-1)[list(form.indices["positions"])], module.hessian(*args), rtol=1e-10)
    names = ("hessian", "structure")
    lower = nm.sparse_hessian_module(lagrangian, *specs, format="lower", kind="acyclic", entry_points=names).compile()
    positions = [np.asarray(p) for p in lower.structure()]
    found = coo_matrix((np.asarray(lower.hessian(*args)), positions), shape=(6, 6)).toarray()
    np.testing.assert_allclose(found, np.tril(dense), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("format", FORMS)
def test_jacobians(format: str) -> None:
    def f(x: Any) -> Any:
        return x[2:] * x[:-2] + x[1:-1]

    x = np.random.default_rng(0).uniform(0.5, 1.5, 6)
    module = nm.sparse_jacobian_module(f, nm.spec(6, "f64"), format=format).compile()
    positions = tuple(np.asarray(p) for p in module.structure())
    found = FORMS[format](np.asarray(module.jacobian(x)), positions, (4, 6)).toarray()
    np.testing.assert_allclose(found, nm.jacfwd(f)(x), rtol=1e-12)
    np.testing.assert_allclose(module.value(x), f(x), rtol=1e-12)


def test_the_order_of_arguments() -> None:
    """What is differentiated comes first, as in all prepared products; nothing keeps a state that is not asked for."""
    stage = nm.sparse_jacobian_module(lambda a, x: a * x * x, nm.spec(3, "f64"), nm.spec((), "f64"), argnums=1)
    assert [entry.name for entry in stage.entries] == ["value", "jacobian", "structure"]
    assert stage.entries[1].arguments == ("x", "a")
    assert "util.global" not in stage.mlir()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["star", "acyclic"])
def test_hessians_at_the_last_point(kind: str) -> None:
    x, weights = np.random.default_rng(0).uniform(0.5, 1.5, (2, 6))
    specs = (nm.spec(6, "f64"), nm.spec((), "f64"), nm.spec(5, "f64"))
    names = ("update", "matrix", "apply", "structure")
    stage = nm.sparse_hessian_module(lagrangian, *specs, format="coo", kind=kind, entry_points=names)
    module = stage.compile()
    assert ("positions" in stage.entries[1].sparsity.indices) == (kind != "acyclic")
    for scale in (1.0, 2.0):
        args = (scale * x, 2.0, weights[:5])
        dense = np.asarray(nm.hessian(lagrangian)(*args))
        np.testing.assert_allclose(module.update(*args)["gradient"], nm.grad(lagrangian)(*args), rtol=1e-12)
        found = FORMS["coo"](np.asarray(module.matrix()), tuple(np.asarray(p) for p in module.structure()), (6, 6))
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(module.apply(x), dense @ x, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["row", "bidirectional"])
def test_jacobians_at_the_last_point(kind: str) -> None:
    def f(x: Any, scale: Any) -> Any:
        return {"sum": (x["a"] ** 3).sum() * x["b"].sum(), "each": scale * x["a"] * x["b"]}

    x, scale = {"a": np.arange(1.0, 6.0), "b": np.linspace(0.5, 1.5, 5)}, np.float64(3.0)
    specs = ({"a": nm.spec(5, "f64"), "b": nm.spec(5, "f64")}, nm.spec((), "f64"))
    names = ("update", "matrix", "apply_transposed", "structure")
    module = nm.sparse_jacobian_module(f, *specs, kind=kind, entry_points=names).compile()
    module.update(x, scale)
    blocks = nm.jacfwd(f)(x, scale)
    dense = np.block([[np.asarray(blocks[k][c]).reshape(-1, 5) for c in ("a", "b")] for k in ("each", "sum")])
    found = FORMS["csc"](np.asarray(module.matrix()), tuple(np.asarray(p) for p in module.structure()), dense.shape)
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12)
    u = {"each": np.ones(5), "sum": np.ones(())}
    np.testing.assert_allclose(module.apply_transposed(u)["a"], dense.sum(axis=0)[:5], rtol=1e-12)


@pytest.mark.parametrize("format", ["csc", "lower"])
def test_constraints(format: str) -> None:
    """One artifact with all that an interior-point solver calls."""

    def f(x: Any, scale: Any) -> Any:
        return scale * ((x[1:] - x[:-1] ** 2) ** 2).sum()

    def constraints(x: Any, scale: Any) -> Any:
        return {"edges": x[1:] * x[:-1], "norm": (x * x).sum() - scale}

    args, sigma = (np.linspace(0.5, 1.5, 5), np.float64(2.0)), np.float64(0.5)
    weights = {"edges": np.arange(1.0, 5.0), "norm": np.float64(3.0)}
    specs = nm.spec(5, "f64"), nm.spec((), "f64")
    module = nm.sparse_hessian_module(f, *specs, format=format, constraints=constraints).compile(nm.Interpreter())
    values, dense = constraints(*args), nm.jacfwd(constraints)(*args)
    np.testing.assert_allclose(module.constraints(*args)["edges"], values["edges"], rtol=1e-12)
    positions = tuple(np.asarray(p) for p in module.jacobian_structure())
    found = FORMS["coo" if format == "lower" else format](np.asarray(module.jacobian(*args)), positions, (5, 5)).toarray()
    np.testing.assert_allclose(found, np.vstack([dense["edges"], dense["norm"]]), rtol=1e-12)
    second = np.asarray(nm.sparse.lagrangian_hessian(f, constraints)(args[0], sigma, weights, args[1]).to_dense())
    positions = tuple(np.asarray(p) for p in module.lagrangian_structure())
    entries = np.asarray(module.lagrangian_hessian(args[0], sigma, weights, args[1]))
    found = FORMS["coo" if format == "lower" else format](entries, positions, (5, 5)).toarray()
    np.testing.assert_allclose(found, np.tril(second) if format == "lower" else second, rtol=1e-12)


def test_errors() -> None:
    with pytest.raises(TraceError, match=r"a prepared product requires entry points among value, .*, matrix, got solve"):
        nm.sparse_hessian_module(lambda x: (x * x).sum(), nm.spec(3), entry_points=("value", "solve"))
    with pytest.raises(PatternError, match="a sparse module requires a format among csr, csc, coo, lower, got 'ell'"):
        nm.sparse_hessian_module(lambda x: (x * x).sum(), nm.spec(3), format="ell")
    with pytest.raises(PatternError, match=r"format 'lower' requires a square matrix, got Pattern\(2x3"):
        nm.sparse_jacobian_module(lambda x: x[1:] * x[:-1], nm.spec(3), format="lower")
