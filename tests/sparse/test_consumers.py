"""What sparse derivatives are for: solvers of SciPy take them as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import NonlinearConstraint, least_squares, minimize
from scipy.sparse.linalg import splu

import nabla_mlir as nm
import nabla_mlir.numpy as nnp


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def test_newton_with_a_sparse_factorisation() -> None:
    gradient, hessian = nm.jit(nm.grad(rosenbrock)), nm.jit(nm.sparse.hessian(rosenbrock))
    x = np.full(500, 1.05)
    for _ in range(20):
        x = x - splu(hessian(x).to_scipy("csc")).solve(np.asarray(gradient(x)))
    np.testing.assert_allclose(x, 1.0, rtol=1e-10)


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_stiff_equations(method: str) -> None:
    def brusselator(w: Any) -> Any:
        u, v = w.reshape(2, 40)
        field = nnp.pad(w.reshape(2, 40), ((0, 0), (1, 1)), mode="edge")
        change = 30.0 * (field[:, 2:] - 2 * field[:, 1:-1] + field[:, :-2])
        return (nnp.stack([1.0 + u * u * v - 4.0 * u, 3.0 * u - u * u * v]) + change).reshape(-1)

    f, jacobian = nm.jit(brusselator), nm.jit(nm.sparse.jacobian(brusselator))
    start = np.concatenate([1 + np.sin(2 * np.pi * np.linspace(0, 1, 40)), np.full(40, 3.0)])

    calls = [0]

    def flow(t: float, w: np.ndarray) -> np.ndarray:
        calls[0] += 1
        return np.asarray(f(w))

    def solved(**options: Any) -> tuple[Any, int]:
        calls[0] = 0
        return solve_ivp(flow, (0, 2), start, method=method, rtol=1e-6, atol=1e-8, **options), calls[0]

    ours, few = solved(jac=lambda t, w: jacobian(w).to_scipy("csc"))
    pattern = nm.sparse.jacobian_pattern(brusselator, nm.spec(80, "f64"))
    differences, many = solved(jac_sparsity=pattern.to_scipy())
    assert ours.success
    assert few < many
    np.testing.assert_allclose(ours.y[:, -1], differences.y[:, -1], rtol=1e-3)


@pytest.mark.slow
def test_constrained_optimisation() -> None:
    """The chained Rosenbrock function on spheres: a sparse Hessian, and a sparse Jacobian of the constraints."""

    def spheres(x: Any) -> Any:
        return x[:-1] ** 2 + x[1:] ** 2

    value, gradient, hessian = nm.jit(rosenbrock), nm.jit(nm.grad(rosenbrock)), nm.jit(nm.sparse.hessian(rosenbrock))
    held, jacobian = nm.jit(spheres), nm.jit(nm.sparse.jacobian(spheres))
    curvature = nm.jit(nm.sparse.hessian(lambda x, weights: (weights * spheres(x)).sum()))
    constraint = NonlinearConstraint(
        lambda x: np.asarray(held(x)),
        0.0,
        1.0,
        jac=lambda x: jacobian(x).to_scipy(),
        hess=lambda x, weights: curvature(x, weights).to_scipy(),
    )
    found = minimize(
        lambda x: float(value(x)),
        np.full(10, 0.5),
        jac=lambda x: np.asarray(gradient(x)),
        hess=lambda x: hessian(x).to_scipy(),
        method="trust-constr",
        constraints=constraint,
    )
    dense = minimize(
        lambda x: float(value(x)),
        np.full(10, 0.5),
        jac=lambda x: np.asarray(gradient(x)),
        method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda x: 1.0 - np.asarray(held(x)),
            "jac": lambda x: -np.asarray(jacobian(x).to_dense()),
        },
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(found.fun, dense.fun, rtol=1e-4)


@pytest.mark.slow
def test_least_squares() -> None:
    rng = np.random.default_rng(0)
    cameras, points = rng.integers(0, 5, 200), np.arange(200) % 30

    def residuals(x: Any) -> Any:
        """A camera that turns and scales sees points of a plane."""
        turn, scale, place = x[:5][cameras], x[5:10][cameras], x[10:].reshape(30, 2)[points]
        a, b = scale * nnp.cos(turn), scale * nnp.sin(turn)
        return nnp.stack([a * place[:, 0] - b * place[:, 1], b * place[:, 0] + a * place[:, 1]], axis=1).reshape(-1) - seen

    truth = np.concatenate([rng.uniform(-1, 1, 5), rng.uniform(1, 2, 5), rng.normal(size=60)])
    seen = np.zeros(400)
    seen = np.asarray(residuals(truth))
    f, jacobian = nm.jit(residuals), nm.jit(nm.sparse.jacobian(residuals))
    assert jacobian(truth).pattern.nnz == 400 * 4
    found = least_squares(
        lambda x: np.asarray(f(x)), truth + 0.05 * rng.normal(size=70), jac=lambda x: jacobian(x).to_scipy(), tr_solver="lsmr"
    )
    assert found.cost < 1e-8
