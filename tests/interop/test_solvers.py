"""Least squares, roots, curves and differential equations of SciPy with our Jacobians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from scipy.sparse.linalg import LinearOperator

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.interop import scipy as solvers
from nabla_mlir.interop.scipy.differential import IVP_METHODS

TIMES = np.linspace(0.0, 3.0, 40)
START = np.array([1.0, 1.0, 0.0])


def decay(p: Any, t: Any, y: Any) -> Any:
    return p[0] * nnp.exp(-p[1] * t) + p[2] - y


def decay_slopes(p: np.ndarray, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    e = np.exp(-p[1] * t)
    return np.stack([e, -p[0] * t * e, np.ones_like(t)], axis=1)


def data() -> np.ndarray:
    rng = np.random.default_rng(0)
    return 3.0 * np.exp(-1.7 * TIMES) + 0.5 + 0.05 * rng.normal(size=40)


def in_numpy(p: np.ndarray, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    return p[0] * np.exp(-p[1] * t) + p[2] - y


# ---------------------------------------------------------------- least squares


@pytest.mark.parametrize(
    ("method", "options"),
    [("trf", {}), ("trf", {"loss": "huber", "f_scale": 0.1}), ("dogbox", {"bounds": ([0, 0, 0], [2, 9, 9])}), ("lm", {})],
)
def test_steps_and_counts_of_least_squares(method: str, options: Any) -> None:
    y = data()
    theirs = scipy.optimize.least_squares(in_numpy, START, jac=decay_slopes, args=(TIMES, y), method=method, **options)
    if "bounds" in options:
        options = {"bounds": tuple(np.array(side) for side in options["bounds"])}
    ours = solvers.least_squares(decay, START, TIMES, y, method=method, **options)
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-7)
    assert ours.nfev == theirs.nfev
    assert theirs.njev in (ours.njev, None)
    np.testing.assert_allclose(ours.fun, theirs.fun, atol=1e-8)


@pytest.mark.parametrize("form", ["dense", "sparse", "operator", "auto"])
def test_forms_of_a_jacobian(form: str) -> None:
    """A chain of unknowns as a pytree: SciPy gets the form that was asked for, and finds the same."""
    kinds: list[type] = []
    chain = (  # noqa: E731
        lambda p: {"ends": p["a"][:1] - 1.0, "steps": 3.0 * (p["a"][1:] - 0.3 * p["a"][:-1] ** 2 - 0.7), "b": p["b"] * 2.0 - 1.0}
    )
    original = scipy.optimize.least_squares

    def watched(fun: Any, x0: Any, jac: Any, **options: Any) -> Any:
        return original(fun, x0, jac=lambda x: (kinds.append(type(jac(x))), jac(x))[1], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scipy.optimize, "least_squares", watched)
        found = solvers.least_squares(chain, {"a": np.full(30, 0.8), "b": np.zeros(2)}, jac=form)
    assert found.success
    np.testing.assert_allclose(found.x["a"], 1.0, atol=1e-6)
    np.testing.assert_allclose(found.x["b"], 0.5)
    assert found.fun["steps"].shape == (29,)
    assert found.grad["a"].shape == (30,)
    (kind,) = set(kinds)
    assert {"dense": kind is np.ndarray, "operator": issubclass(kind, LinearOperator)}.get(form, hasattr(kind, "tocsr"))


def test_operators_of_jacobians_are_problems() -> None:
    """`fun` and `jac` of the operator itself, and the sum of squares for optimisers."""
    y = data()
    J = nm.JacobianOperator(lambda p: decay(p, TIMES, y), START)
    theirs = scipy.optimize.least_squares(in_numpy, START, jac=decay_slopes, args=(TIMES, y))
    ours = scipy.optimize.least_squares(J.fun, START, jac=J.jac)
    assert (ours.nfev, ours.njev) == (theirs.nfev, theirs.njev)
    operators = scipy.optimize.least_squares(J.fun, START, jac=J.at)
    np.testing.assert_allclose(operators.x, theirs.x, rtol=1e-4)
    smooth = scipy.optimize.minimize(J.objective, START, jac=True, hessp=J.hessp, method="trust-ncg")
    np.testing.assert_allclose(smooth.x, theirs.x, rtol=1e-4)
    np.testing.assert_allclose(J.hessp(START, np.ones(3)), (slopes := decay_slopes(START, TIMES, y)).T @ (slopes @ np.ones(3)))


def test_operators_of_hessians_are_problems() -> None:
    H = nm.HessianOperator(lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum() + ((x - 1.0) ** 4 + x * x).sum(), np.ones(3))
    dense = scipy.optimize.minimize(H.fun, np.ones(3), jac=H.jac, hess=H.hess, method="trust-exact")
    stored = scipy.optimize.minimize(H.fun, np.ones(3), jac=H.jac, hess=H.at, method="trust-constr")
    np.testing.assert_allclose(dense.x, stored.x, rtol=1e-4)
    at = H.at(np.ones(3))
    expected = at @ np.ones(3)
    H.update(np.zeros(3))
    np.testing.assert_allclose(at @ np.ones(3), expected)
    np.testing.assert_allclose(at.rmatvec(np.ones(3)), expected)
    np.testing.assert_allclose(at @ np.eye(3), H.hess(np.ones(3)))
    with pytest.raises(nm.errors.ShapeError, match=r"requires a point of shape \(3,\), got \(2,\)"):
        H.fun(np.ones(2))
    gradient = H.jac(np.ones(3))
    gradient[:] = 0.0
    assert np.any(H.jac(np.ones(3)))


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lower"])
def test_sparse_modules_as_operators(format: str) -> None:
    f = lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum()  # noqa: E731
    module = nm.sparse_hessian_module(f, nm.spec(6, "f64"), format=format, entry_points=("update", "apply", "matrix"))
    H = nm.HessianOperator(module, np.linspace(0, 1, 6))
    if format == "lower":
        with pytest.raises(nm.errors.PatternError, match="requires entries in the order of csr, csc, coo, got those of lower"):
            H.matrix()
        return
    for H.damping in (0.0, 0.5):
        matrix = H.hess(np.linspace(1, 2, 6))
        assert matrix.format == format
        np.testing.assert_allclose(matrix.toarray(), H @ np.eye(6), rtol=1e-13)


# ---------------------------------------------------------------- roots and curves


def powell(p: Any) -> Any:
    return {"product": 1e4 * p["a"] * p["b"] - 1.0, "sum": nnp.exp(-p["a"]) + nnp.exp(-p["b"]) - 1.0001}


def test_roots() -> None:
    for method in ("hybr", "lm"):
        theirs = scipy.optimize.root(
            lambda x: [1e4 * x[0] * x[1] - 1, np.exp(-x[0]) + np.exp(-x[1]) - 1.0001],
            [0.0, 1.0],
            method=method,
            jac=lambda x: [[1e4 * x[1], 1e4 * x[0]], [-np.exp(-x[0]), -np.exp(-x[1])]],
            options={"maxfev" if method == "hybr" else "maxiter": 1000},
        )
        ours = solvers.root(powell, {"a": 0.0, "b": 1}, method=method, options={"maxfev" if method == "hybr" else "maxiter": 1000})
        assert ours.success
        assert ours.nfev == theirs.nfev
        assert ours.get("njev") == theirs.get("njev")
        np.testing.assert_allclose([ours.x["a"], ours.x["b"]], theirs.x, rtol=1e-6)
        assert abs(ours.fun["sum"]) < 1e-8


@pytest.mark.parametrize("method", ["broyden1", "anderson", "krylov", "df-sane"])
def test_roots_without_jacobians(method: str) -> None:
    points: list[Any] = []
    found = solvers.root(
        lambda x: x + 0.1 * nnp.sin(x) - 1.0, np.zeros((2, 2)), method=method, callback=lambda x, f: points.append((x, f))
    )
    assert found.success
    assert points[-1][0].shape == points[-1][1].shape == found.x.shape == (2, 2)
    np.testing.assert_allclose(found.x + 0.1 * np.sin(found.x), 1.0, atol=1e-4)


def test_curves() -> None:
    y = data()
    model = lambda t, a, b, c: a * nnp.exp(-b * t) + c  # noqa: E731
    in_scipy = lambda t, a, b, c: a * np.exp(-b * t) + c  # noqa: E731
    for options in (
        {},
        {"p0": [2.0, 1.0, 0.0], "sigma": np.linspace(1, 2, 40)},
        {"bounds": (0, [5, 5, 5])},
        {"method": "trf", "p0": (1, 1, 1)},
    ):
        theirs = scipy.optimize.curve_fit(
            in_scipy, TIMES, y, jac=lambda t, *p: decay_slopes(np.array(p), t, y), full_output=True, **options
        )
        ours = solvers.curve_fit(model, TIMES, y, full_output=True, **options)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)
        assert ours[2]["nfev"] == theirs[2]["nfev"]


# ---------------------------------------------------------------- differential equations


def robertson(t: Any, y: Any, rate: Any) -> Any:
    a, b, c = y["a"], y["b"], y["c"]
    return {"a": -0.04 * a + rate * b * c, "b": 0.04 * a - rate * b * c - 3e7 * b * b, "c": 3e7 * b * b}


def robertson_slopes(t: float, y: np.ndarray) -> np.ndarray:
    return np.array([[-0.04, 1e4 * y[2], 1e4 * y[1]], [0.04, -1e4 * y[2] - 6e7 * y[1], -1e4 * y[1]], [0, 6e7 * y[1], 0]])


@pytest.mark.parametrize("method", IVP_METHODS)
def test_initial_values(method: str) -> None:
    end, rate = (1e2 if IVP_METHODS[method] else 1e-2), np.float64(1e4)
    flow = lambda t, y: np.stack(list(robertson(t, dict(zip("abc", y, strict=True)), 1e4).values()))  # noqa: E731
    given = {"jac": robertson_slopes} if IVP_METHODS[method] else {}
    theirs = scipy.integrate.solve_ivp(flow, (0, end), [1.0, 0.0, 0.0], method=method, rtol=1e-6, atol=1e-9, **given)
    for form in ("auto", *IVP_METHODS[method]):
        ours = solvers.solve_ivp(
            robertson, (0, end), {"a": 1.0, "b": 0.0, "c": 0}, rate, method=method, rtol=1e-6, atol=1e-9, jac=form
        )
        assert ours.success
        if form != "sparse":  # whose factorisation rounds otherwise
            assert (ours.nfev, ours.njev) == (theirs.nfev, theirs.njev)
        np.testing.assert_allclose([ours.y[name][-1] for name in "abc"], theirs.y[:, -1], rtol=1e-4)


def test_events_and_continuous_solutions() -> None:
    falling = lambda t, y: y["height"]  # noqa: E731
    falling.terminal, falling.direction = True, -1  # type: ignore[attr-defined]
    flow = lambda t, y, g: {"height": y["speed"], "speed": -g}  # noqa: E731
    start = {"height": 10.0, "speed": 3.0}
    found = solvers.solve_ivp(
        flow, (0, 9), start, np.float64(9.81), events=falling, dense_output=True, atol={"height": 1e-9, "speed": None}
    )
    hit = (3 + np.sqrt(9 + 2 * 9.81 * 10)) / 9.81
    np.testing.assert_allclose(found.t_events[0][0], hit, rtol=1e-9)
    assert abs(found.y_events[0][0]["height"]) < 1e-9
    np.testing.assert_allclose(found.sol(0.5)["height"], 10 + 1.5 - 0.5 * 9.81 * 0.25)
    assert found.sol(np.linspace(0, 1, 7))["speed"].shape == (7,)
    two = solvers.solve_ivp(flow, (0, 9), start, np.float64(9.81), events=[falling, falling], t_eval=[0.0, 1.0])
    assert len(two.t_events) == 2
    np.testing.assert_allclose(two.t, [0.0, 1.0])


@pytest.mark.parametrize("has_parameter", [False, True])
def test_boundary_values(has_parameter: bool) -> None:
    """Bratu's problem, and the eigenvalue of a string, as in SciPy's documentation, with Jacobians by hand beside."""
    x, guess = np.linspace(0, 1, 5), np.zeros((2, 5))
    if not has_parameter:
        flow, ends = (lambda x, y: nnp.stack([y[1], -nnp.exp(y[0])])), (lambda a, b: nnp.stack([a[0], b[0]]))

        def slopes(x: Any, y: Any) -> Any:
            rows = np.zeros((2, 2, x.size))
            rows[0, 1], rows[1, 0] = 1.0, -np.exp(y[0])
            return rows

        theirs = scipy.integrate.solve_bvp(
            lambda x, y: np.stack([y[1], -np.exp(y[0])]),
            lambda a, b: np.array([a[0], b[0]]),
            x,
            guess,
            fun_jac=slopes,
            bc_jac=lambda a, b: (np.array([[1.0, 0], [0, 0]]), np.array([[0, 0], [1.0, 0]])),
        )
        ours = solvers.solve_bvp(flow, ends, x, guess)
    else:
        guess[0, 1], guess[0, 3] = 1.0, -1.0
        theirs = scipy.integrate.solve_bvp(
            lambda x, y, p: np.vstack((y[1], -(p[0] ** 2) * y[0])),
            lambda a, b, p: np.array([a[0], b[0], a[1] - p[0]]),
            x,
            guess,
            p=[6],
        )
        ours = solvers.solve_bvp(
            lambda x, y, p: nnp.stack([y[1], -(p[0] ** 2) * y[0]]),
            lambda a, b, p: nnp.stack([a[0], b[0], a[1] - p[0]]),
            x,
            guess,
            [6],
        )
        np.testing.assert_allclose(ours.p, 2 * np.pi, rtol=1e-3)
        np.testing.assert_allclose(ours.p, theirs.p, rtol=1e-6)
    assert (ours.status, ours.niter) == (theirs.status, theirs.niter)
    np.testing.assert_allclose(ours.sol(0.3), theirs.sol(0.3), rtol=1e-6)


def test_lists_of_rows() -> None:
    """As in the examples of SciPy's documentation."""
    swing = solvers.solve_ivp(lambda t, y: [y[1], -y[0]], (0, 1), [1.0, 0.0], method="LSODA", rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(swing.y[:, -1], [np.cos(1), -np.sin(1)], rtol=1e-6)
    np.testing.assert_allclose(solvers.solve_ivp(lambda t, y: -y, (0, 1), 1, rtol=1e-8).y[-1], np.exp(-1), rtol=1e-6)
    line = solvers.solve_bvp(lambda x, y: [y[1], 0.0], lambda a, b: [a[0] - 1.0, b[0] - 3], np.linspace(0, 1, 4), np.zeros((2, 4)))
    np.testing.assert_allclose(line.sol(0.5), [2.0, 2.0])
    np.testing.assert_allclose(solvers.root(lambda x: [x[0] + x[1] - 3, x[0] * x[1] - 2], [0.0, 5]).x, [1, 2])
    np.testing.assert_allclose(solvers.least_squares(lambda x: [x[0] - 1, 10 * (x[1] - x[0] ** 2)], [3, 2]).x, [1, 1])


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            "least_squares requires a Jacobian that lm accepts, got 'sparse'",
            lambda: solvers.least_squares(decay, START, TIMES, TIMES, method="lm", jac="sparse"),
        ),
        (
            "least_squares requires a Jacobian that trf accepts, got '3-point'",
            lambda: solvers.least_squares(decay, START, TIMES, TIMES, jac="3-point"),
        ),
        ("least_squares requires options without args", lambda: solvers.least_squares(decay, START, args=(TIMES, TIMES))),
        (
            "root requires a method among hybr, .*, got 'newton'",
            lambda: solvers.root(powell, {"a": 0.0, "b": 1.0}, method="newton"),
        ),
        ("root requires as many equations as unknowns, got 40 for 3", lambda: solvers.root(decay, START, TIMES, TIMES)),
        ("curve_fit requires options without jac", lambda: solvers.curve_fit(lambda t, a: a * t, TIMES, TIMES, jac="2-point")),
        (
            "solve_ivp requires a method among RK45, .*, got 'Euler'",
            lambda: solvers.solve_ivp(robertson, (0, 1), [1.0], method="Euler"),
        ),
        (
            "solve_ivp requires a Jacobian that LSODA accepts .dense., got 'sparse'",
            lambda: solvers.solve_ivp(robertson, (0, 1), [1.0], method="LSODA", jac="sparse"),
        ),
        (
            "solve_ivp requires options without jac_sparsity",
            lambda: solvers.solve_ivp(robertson, (0, 1), [1.0], jac_sparsity=np.eye(1)),
        ),
        ("solve_ivp requires a function with a result like y", lambda: solvers.solve_ivp(lambda t, y: y[:1], (0, 1), [1.0, 2.0])),
        ("solve_bvp requires options without fun_jac", lambda: solvers.solve_bvp(abs, abs, TIMES, TIMES, fun_jac=abs)),
    ],
)
def test_errors(message: str, call: Any) -> None:
    with pytest.raises(nm.errors.NablaError, match=f"(?s){message}"):
        call()
