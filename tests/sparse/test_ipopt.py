"""Problems for Ipopt: their functions against JAX, and, where cyipopt is installed, solutions."""

from __future__ import annotations

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.interop import ipopt

has_ipopt = pytest.mark.skipif(importlib.util.find_spec("cyipopt") is None, reason="cyipopt is not installed")
STEPS = 5000
WIDTH = 10.0 / STEPS


def hock_schittkowski(x: Any) -> Any:
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def held(x: Any) -> Any:
    return {"product": x[0] * x[1] * x[2] * x[3], "squares": (x * x).sum()}


def cost(z: Any, weight: Any) -> Any:
    return WIDTH * (z["state"] ** 2 + weight * z["control"] ** 2).sum()


def flow(z: Any, weight: Any) -> Any:
    """Euler's method for an unstable equation that a control holds."""
    x, u = z["state"], z["control"]
    return x[1:] - x[:-1] - WIDTH * (0.5 * x[:-1] * (1 - x[:-1] ** 2) + u[:-1])


@pytest.fixture(scope="module")
def problem() -> ipopt.Problem:
    return ipopt.Problem(hock_schittkowski, nm.spec(4, "f64"), constraints=held)


def test_the_functions_of_a_problem(problem: ipopt.Problem) -> None:
    with jax.enable_x64(True):
        x, weights = np.array([1.0, 4.7, 3.8, 1.4]), np.array([0.3, -0.7])
        stacked = lambda x: jnp.stack([held(x)["product"], held(x)["squares"]])  # noqa: E731
        whole = lambda x: 2.0 * hock_schittkowski(x) + weights @ stacked(x)  # noqa: E731
        for _ in range(2):  # nothing of a call stays
            np.testing.assert_allclose(problem.objective(x), hock_schittkowski(x))
            np.testing.assert_allclose(problem.gradient(x), jax.grad(hock_schittkowski)(x))
            np.testing.assert_allclose(problem.constraints(x), stacked(x))
            jacobian = np.zeros((2, 4))
            jacobian[problem.jacobianstructure()] = problem.jacobian(x)
            np.testing.assert_allclose(jacobian, jax.jacobian(stacked)(x))
            hessian = np.zeros((4, 4))
            hessian[problem.hessianstructure()] = problem.hessian(x, weights, 2.0)
            np.testing.assert_allclose(hessian, np.tril(jax.hessian(whole)(x)), rtol=1e-12)
        np.testing.assert_array_equal(x, [1.0, 4.7, 3.8, 1.4])


@has_ipopt
def test_hs071(problem: ipopt.Problem) -> None:
    """Hock and Schittkowski, problem 71, as in Ipopt's tutorial."""
    start = np.array([1.0, 5.0, 5.0, 1.0])
    limits = {"product": 25.0, "squares": 40.0}, {"product": None, "squares": 40.0}
    for _ in range(2):
        found = problem.solve(start, bounds=(1.0, 5.0), constraint_bounds=limits)
        assert found.status == 0
        np.testing.assert_allclose(found.value, 17.0140172891563, rtol=1e-8)
        np.testing.assert_allclose(found.x, [1.0, 4.74299963, 3.82114998, 1.37940829], rtol=1e-7)
        np.testing.assert_allclose(found.multipliers["product"], -0.55229366, rtol=1e-6)
        assert found.iterations == found.calls["hessian"] == 8
    np.testing.assert_array_equal(start, [1.0, 5.0, 5.0, 1.0])


@has_ipopt
def test_without_constraints() -> None:
    found = ipopt.Problem(lambda x: ((x - 3.0) ** 4).sum(), np.zeros(3)).solve(np.zeros(3), bounds=(None, [1.0, 5.0, 5.0]))
    np.testing.assert_allclose(found.x, [1.0, 3.0, 3.0], atol=1e-2)
    assert found.constraints is None
    assert found.upper_multipliers[0] == pytest.approx(32.0, rel=1e-3)


@has_ipopt
def test_optimal_control_of_ten_thousand_unknowns() -> None:
    """The conditions of Karush, Kuhn and Tucker hold, by JAX's derivatives."""
    like = {"state": nm.spec(STEPS, "f64"), "control": nm.spec(STEPS, "f64")}
    problem = ipopt.Problem(cost, like, np.float64(0.1), constraints=flow)
    assert (problem.n, problem.m, problem.jacobian_pattern.nnz) == (2 * STEPS, STEPS - 1, 3 * (STEPS - 1))
    start = {"state": np.full(STEPS, 1.5), "control": np.zeros(STEPS)}
    lower, upper = (
        {"state": np.r_[1.5, np.full(STEPS - 1, free)], "control": np.copysign(1.0, free)} for free in (-np.inf, np.inf)
    )
    found = problem.solve(start, bounds=(lower, upper), options={"tol": 1e-10})
    assert found.status == 0
    assert np.abs(found.constraints).max() < 1e-9
    assert found.x["state"][0] == pytest.approx(1.5)
    assert abs(found.x["state"][-1]) < 0.5
    with jax.enable_x64(True):
        gradient = jax.grad(cost)(found.x, 0.1)
        (pulled,) = jax.vjp(lambda z: flow(z, 0.1), found.x)[1](jnp.asarray(found.multipliers))
        for name in found.x:
            rest = gradient[name] + pulled[name] - found.lower_multipliers[name] + found.upper_multipliers[name]
            assert np.abs(np.asarray(rest)[1:]).max() < 1e-8


def test_errors(problem: ipopt.Problem) -> None:
    with pytest.raises(nm.errors.DtypeError, match=r"requires x of float64, got float32\[3\]"):
        ipopt.Problem(lambda x: (x * x).sum(), np.zeros(3, np.float32))
    with pytest.raises(nm.errors.DtypeError, match="requires the constraints of float64, got int64"):
        ipopt.Problem(lambda x: (x * x).sum(), np.zeros(3), constraints=lambda x: x.astype("int64"))
    if importlib.util.find_spec("cyipopt") is None:
        with pytest.raises(nm.errors.DeployError, match="requires cyipopt"):
            problem.solve(np.ones(4))
        return
    with pytest.raises(nm.errors.ShapeError, match=r"requires x0 of shape \(4,\) or one number, got \(3,\)"):
        problem.solve(np.ones(3))
    with pytest.raises(nm.errors.ShapeError, match=r"requires constraint_bounds\['squares'\] of shape \(\)"):
        problem.solve(np.ones(4), constraint_bounds=({"product": 0.0, "squares": np.zeros(2)}, None))
    with pytest.raises(nm.errors.TreeError, match="constraint_bounds requires the structure"):
        problem.solve(np.ones(4), constraint_bounds=([0.0], 0.0))


def test_sums_of_parts_have_no_dense_pattern() -> None:
    edges = lambda x: nnp.sin(x[1:]) * x[:-1]  # noqa: E731
    sparse = ipopt.Problem(lambda x: (x**4).sum(), nm.spec(1000, "f64"), constraints=edges)
    assert len(sparse.hessianstructure()[0]) == 1999
