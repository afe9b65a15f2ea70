"""Packages of linear algebra take our operators as they are: eigenvalues, solutions and minima against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg as sla

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

SIZE = 40
POINT = np.linspace(-1.0, 1.0, SIZE)


def energy(x: Any) -> Any:
    """A chain of springs that stiffen."""
    return (nnp.cosh(x[1:] - x[:-1])).sum() + (x**4).sum() / 12 + 0.5 * (x * x).sum()


def residuals(x: Any) -> Any:
    return nnp.concatenate([nnp.sin(x) * 3.0, x[1:] * x[:-1] + x[1:]])


@pytest.fixture(scope="module")
def hessian() -> nm.HessianOperator:
    return nm.HessianOperator(energy, POINT)


@pytest.fixture(scope="module")
def jacobian() -> nm.JacobianOperator:
    return nm.JacobianOperator(residuals, POINT)


@pytest.fixture(scope="module")
def spectrum(hessian: nm.HessianOperator) -> np.ndarray:
    return np.linalg.eigvalsh(hessian.to_dense())


def test_eigenvalues(hessian: nm.HessianOperator, spectrum: np.ndarray) -> None:
    np.testing.assert_allclose(np.sort(sla.eigsh(hessian, k=3)[0]), spectrum[-3:], rtol=1e-8)
    np.testing.assert_allclose(np.sort(sla.eigsh(hessian, k=2, which="SA")[0]), spectrum[:2], rtol=1e-8)
    start = np.random.default_rng(0).normal(size=(SIZE, 4))
    largest = sla.lobpcg(hessian, start, largest=True, maxiter=200, tol=1e-8)[0]
    np.testing.assert_allclose(np.sort(largest)[-2:], spectrum[-2:], rtol=1e-6)


def test_singular_values(jacobian: nm.JacobianOperator) -> None:
    truth = np.linalg.svd(jacobian.to_dense(), compute_uv=False)
    np.testing.assert_allclose(np.sort(sla.svds(jacobian, k=2)[1]), truth[1::-1], rtol=1e-8)


@pytest.mark.parametrize("solver", ["cg", "minres", "gmres", "bicgstab"])
def test_systems(solver: str, hessian: nm.HessianOperator) -> None:
    b = np.cos(POINT)
    x, info = getattr(sla, solver)(hessian, b, rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(x, np.linalg.solve(hessian.to_dense(), b), rtol=1e-6)


@pytest.mark.parametrize("solver", ["lsmr", "lsqr"])
def test_least_squares(solver: str, jacobian: nm.JacobianOperator) -> None:
    b = np.sin(np.arange(jacobian.shape[0]))
    found = getattr(sla, solver)(jacobian, b, atol=1e-12, btol=1e-12)[0]
    np.testing.assert_allclose(found, np.linalg.lstsq(jacobian.to_dense(), b)[0], rtol=1e-6, atol=1e-9)


def test_operators_are_composed(hessian: nm.HessianOperator, jacobian: nm.JacobianOperator) -> None:
    both = jacobian.T @ jacobian + 0.5 * hessian + sla.aslinearoperator(np.eye(SIZE))
    dense = jacobian.to_dense().T @ jacobian.to_dense() + 0.5 * hessian.to_dense() + np.eye(SIZE)
    np.testing.assert_allclose(both @ POINT, dense @ POINT, rtol=1e-10)
    np.testing.assert_allclose(
        sla.expm_multiply(hessian, POINT, traceA=0.0), scipy.linalg.expm(hessian.to_dense()) @ POINT, rtol=1e-6
    )


def test_primme(hessian: nm.HessianOperator, jacobian: nm.JacobianOperator, spectrum: np.ndarray) -> None:
    primme = pytest.importorskip("primme")
    np.testing.assert_allclose(np.sort(primme.eigsh(hessian, k=3, tol=1e-10)[0]), spectrum[-3:], rtol=1e-8)
    np.testing.assert_allclose(np.sort(primme.eigsh(hessian, k=2, tol=1e-10, which="SA")[0]), spectrum[:2], rtol=1e-8)
    truth = np.linalg.svd(jacobian.to_dense(), compute_uv=False)
    np.testing.assert_allclose(
        np.sort(primme.svds(jacobian, k=2, tol=1e-10, return_singular_vectors=False)), truth[1::-1], rtol=1e-8
    )


def test_pylops(jacobian: nm.JacobianOperator) -> None:
    """A linearised inversion with a penalty for roughness: regularised and by fast thresholding."""
    pylops = pytest.importorskip("pylops")
    operator = pylops.aslinearoperator(jacobian)
    pylops.utils.dottest(operator, *operator.shape, rtol=1e-10)
    truth = np.sin(3 * POINT)
    b, roughness = jacobian @ truth, pylops.SecondDerivative(SIZE, dtype=np.float64)
    found = pylops.optimization.leastsquares.regularized_inversion(
        operator, b, [roughness], epsRs=[1e-3], iter_lim=400, atol=0, btol=0
    )[0]
    stack = np.vstack([jacobian.to_dense(), 1e-3 * roughness.todense()])
    np.testing.assert_allclose(found, np.linalg.lstsq(stack, np.r_[b, np.zeros(SIZE)])[0], atol=1e-5)
    blocks = pylops.VStack([operator, 2 * operator])
    np.testing.assert_allclose(blocks @ truth, np.r_[b, 2 * b], rtol=1e-12)


def test_pyamg(hessian: nm.HessianOperator) -> None:
    """Its Krylov methods take the operator; its multigrid takes the sparse matrix, and preconditions with it."""
    pyamg = pytest.importorskip("pyamg")
    b = np.cos(POINT)
    truth = np.linalg.solve(hessian.to_dense(), b)
    x, info = pyamg.krylov.cg(hessian, b, tol=1e-10)
    assert info == 0
    np.testing.assert_allclose(x, truth, rtol=1e-6)
    names = ("update", "apply", "matrix")
    module = nm.sparse_hessian_module(energy, nm.spec(SIZE, "f64"), format="csr", entry_points=names)
    sparse = nm.HessianOperator(module, POINT)
    multigrid = pyamg.smoothed_aggregation_solver(sparse.matrix(), max_coarse=5)
    np.testing.assert_allclose(multigrid.solve(b, tol=1e-12), truth, rtol=1e-8)
    x, info = sla.cg(sparse, b, rtol=1e-12, M=multigrid.aspreconditioner())
    assert info == 0
    np.testing.assert_allclose(x, truth, rtol=1e-8)


def test_pymanopt() -> None:
    """The smallest Rayleigh quotient on a sphere, by trust regions with our gradient and products."""
    pymanopt = pytest.importorskip("pymanopt")
    dense = nm.HessianOperator(energy, POINT).to_dense()
    objective = nm.interop.scipy.Objective(lambda x, A: x @ (A @ x), np.ones(SIZE), dense)
    sphere = pymanopt.manifolds.Sphere(SIZE)
    wrap = pymanopt.function.numpy(sphere)
    problem = pymanopt.Problem(
        sphere, wrap(objective.fun), euclidean_gradient=wrap(objective.jac), euclidean_hessian=wrap(objective.hessp)
    )
    solver = pymanopt.optimizers.TrustRegions(verbosity=0, min_gradient_norm=1e-9)
    found = solver.run(problem, initial_point=np.ones(SIZE) / np.sqrt(SIZE))
    np.testing.assert_allclose(found.cost, np.linalg.eigvalsh(dense)[0], rtol=1e-8)
