"""SciPy's optimisers on our derivatives: the steps and the counts are those of derivatives written by hand."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import SR1, Bounds, LinearConstraint, NonlinearConstraint, rosen, rosen_der, rosen_hess, rosen_hess_prod
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.interop.scipy import METHODS, Objective
from nabla_mlir.interop.scipy.minimization import minimize

START = np.array([1.3, 0.7, 0.8, 1.9])


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def convex(x: Any) -> Any:
    """For dogleg, which needs a positive definite Hessian, and for methods whose steps repeat rounding errors many times."""
    return (nnp.exp(x) - x).sum() + 0.5 * (x[1:] * x[:-1]).sum() + (x * x).sum()


def convex_in_numpy(x: np.ndarray) -> float:
    return float((np.exp(x) - x).sum() + 0.5 * (x[1:] * x[:-1]).sum() + (x * x).sum())


def convex_gradient(x: np.ndarray) -> np.ndarray:
    return np.exp(x) - 1 + 2 * x + 0.5 * (np.r_[x[1:], 0.0] + np.r_[0.0, x[:-1]])


def convex_hessian(x: np.ndarray) -> np.ndarray:
    return np.diag(np.exp(x) + 2) + 0.5 * (np.eye(x.size, k=1) + np.eye(x.size, k=-1))


BY_HAND = {
    "products": {"hessp": rosen_hess_prod},
    "operator": {"hess": lambda x: LinearOperator((4, 4), lambda v: rosen_hess_prod(x, v.reshape(-1)), dtype=np.float64)},
    "sparse": {"hess": lambda x: csr_matrix(rosen_hess(x))},
    "dense": {"hess": rosen_hess},
}


def by_hand(method: str, form: str) -> dict[str, Any]:
    return BY_HAND[form] if form in BY_HAND else {"hess": SR1()} if form == "update" else {}


CASES = [(method, form) for method, traits in METHODS.items() for form in traits.hessians or ("none",)]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "form"), CASES)
def test_steps_and_counts_are_those_of_derivatives_by_hand(method: str, form: str) -> None:
    is_convex = method in ("dogleg", "cg", "tnc")
    f, value, gradient = (convex, convex_in_numpy, convex_gradient) if is_convex else (rosenbrock, rosen, rosen_der)
    given = by_hand(method, form) if method != "dogleg" else {"hess": convex_hessian}
    if METHODS[method].gradient:
        given = {"jac": gradient, **given}
    options = {"maxfun" if method == "tnc" else "maxiter": 100 if METHODS[method].gradient else 60}
    theirs = scipy.optimize.minimize(value, START, method=method, options=options, **given)
    ours = nm.minimize(
        f, START, method=method, options=options, hess=SR1() if form == "update" else form if form in BY_HAND else "auto"
    )
    for name in ("nit", "nfev", "njev", "nhev", "status", "cg_niter"):
        if name in theirs:
            assert ours[name] == theirs[name], name
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ours.fun, theirs.fun, rtol=1e-5, atol=1e-12)
    if "nit" in ours and method != "cobyqa":
        assert abs(len(ours.history) - ours.nit) <= 1


@pytest.mark.parametrize("method", [m for m, traits in METHODS.items() if traits.hessians])
def test_forms_outside_the_table_are_not_taken(method: str) -> None:
    """By SciPy either; so the table is not too short."""
    for form in {*BY_HAND, "update"} - set(METHODS[method].hessians):
        with pytest.raises(nm.errors.TraceError, match=f"requires a Hessian that {method} accepts"):
            nm.minimize(rosenbrock, START, method=method, hess=SR1() if form == "update" else form)
        with pytest.raises((TypeError, ValueError, AttributeError, np.linalg.LinAlgError)):
            scipy.optimize.minimize(rosen, START, method=method, jac=rosen_der, **by_hand(method, form))


def test_the_best_form_is_chosen() -> None:
    long = np.full(50, 1.1)
    assert Objective(rosenbrock, long).form == "sparse"
    assert Objective(lambda x: rosenbrock(x) + x.sum() ** 2, long).form == "products"
    assert nm.minimize(rosenbrock, long, method="trust-constr").nhev > 0


@pytest.mark.parametrize("method", ["BFGS", "trust-ncg", "trust-exact", "Newton-CG"])
def test_what_is_shared_at_a_point_is_computed_once(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at each point, also where trials are rejected."""
    looks: list[bytes] = []
    update, load = nm.HessianOperator.update, Objective.__module__
    monkeypatch.setattr(
        nm.HessianOperator, "update", lambda self, x, *rest, **more: (looks.append(flat(x)), update(self, x, *rest, **more))[1]
    )
    first = sys.modules[load]._FirstOrder
    look = first._at
    monkeypatch.setattr(first, "_at", lambda self, x: (looks.append(flat(x)) if self.find(x) is None else None, look(self, x))[1])
    found = nm.minimize(rosenbrock, np.array([-3.0, 4.0, 2.0, 1.0]), method=method, hess="auto")
    assert found.success
    assert len(looks) == len(set(looks)) == found.nfev


def flat(x: Any) -> bytes:
    return np.asarray(x, np.float64).tobytes()


def test_pytrees_data_and_lists() -> None:
    def loss(p: Any, rows: Any, targets: Any) -> Any:
        return nnp.mean((nnp.tanh(rows @ p["w"]) + p["b"] - targets) ** 2)

    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(30, 3)), rng.normal(size=30)
    start = {"w": np.zeros((3,)), "b": 0}
    copies = rows.copy(), targets.copy()
    for array in (rows, targets, start["w"]):
        array.setflags(write=False)  # nothing of the caller's is written
    found = nm.minimize(loss, start, rows, targets, method="trust-ncg")
    assert found.success
    assert found.x["w"].shape == (3,)
    assert found.x["b"].shape == ()
    assert found.jac["w"].shape == (3,)
    flat = lambda z: float(np.mean((np.tanh(copies[0] @ z[:3]) + z[3] - copies[1]) ** 2))  # noqa: E731
    truth = scipy.optimize.minimize(flat, np.zeros(4), options={"gtol": 1e-8})
    np.testing.assert_allclose(found.fun, truth.fun, rtol=1e-6)
    np.testing.assert_array_equal(start["w"], 0)
    plain = nm.minimize(rosenbrock, [1.3, 0.7, 0.8, 1.9])
    assert isinstance(plain.x, np.ndarray)
    narrow = nm.minimize(lambda x: ((x - 2.0) ** 2).sum(), np.zeros(3, np.float32), method="Newton-CG")
    assert narrow.x.dtype == np.float32
    np.testing.assert_allclose(narrow.x, 2.0, rtol=1e-5)


def test_bounds_of_all_forms() -> None:
    lower, upper = np.array([0.9, -np.inf, 0.5, 1.2]), np.array([np.inf, 0.6, 0.6, 1.5])
    truth = scipy.optimize.minimize(rosen, START, jac=rosen_der, bounds=Bounds(lower, upper))
    pairs = [(0.9, None), (None, 0.6), (0.5, 0.6), (1.2, 1.5)]
    for bounds in (Bounds(lower, upper), pairs, np.stack([lower, upper], axis=1), (lower, upper)):
        found = nm.minimize(rosenbrock, START, bounds=bounds)
        np.testing.assert_allclose(found.x, truth.x, rtol=1e-10)
        assert (found.nfev, found.njev, found.nit) == (truth.nfev, truth.njev, truth.nit)
    tree = nm.minimize(
        lambda p: rosenbrock(nnp.concatenate([p["a"], p["b"]])),
        {"a": START[:2], "b": START[2:]},
        bounds=({"a": lower[:2], "b": lower[2:]}, {"a": [None, 0.6][1] * np.array([np.inf, 1]), "b": upper[2:]}),
    )
    np.testing.assert_allclose(np.r_[tree.x["a"], tree.x["b"]], truth.x, rtol=1e-10)
    box = scipy.optimize.minimize(rosen, START, jac=rosen_der, bounds=[(0, 0.5)] * 4, method="TNC")
    np.testing.assert_allclose(nm.minimize(rosenbrock, START, bounds=(0, 0.5), method="TNC").x, box.x, rtol=1e-6)


HS071 = (1.0, 4.74299963, 3.82114998, 1.37940829)  # Hock and Schittkowski, problem 71


def test_constraints() -> None:
    cost = lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]  # noqa: E731
    product, squares = (lambda x: x[0] * x[1] * x[2] * x[3]), (lambda x: (x * x).sum())
    dicts = [
        {"type": "ineq", "fun": lambda x, least: product(x) - least, "args": (25.0,)},
        {"type": "eq", "fun": lambda x: squares(x) - 40.0},
    ]
    objects = [NonlinearConstraint(product, 25.0, np.inf), NonlinearConstraint(squares, [40.0], 40.0)]
    start, options = np.array([1.0, 5.0, 5.0, 1.0]), {"maxiter": 200}
    for held in (dicts, objects):
        for method, tolerance in (("SLSQP", 1e-6), ("trust-constr", 1e-4)):
            found = nm.minimize(cost, start, method=method, bounds=(1.0, 5.0), constraints=held, options=options)
            np.testing.assert_allclose(found.fun, 17.0140172891563, rtol=tolerance)
            np.testing.assert_allclose(found.x, HS071, rtol=50 * tolerance)
    both = NonlinearConstraint(lambda x: {"p": product(x), "s": squares(x)}, {"p": 25.0, "s": 40.0}, {"p": np.inf, "s": 40.0})
    for method in ("COBYQA", "SLSQP", "COBYLA"):
        found = nm.minimize(cost, start, method=method, bounds=(1.0, 5.0), constraints=both, options={"maxiter": 1000})
        np.testing.assert_allclose(found.fun, 17.0140172891563, rtol=1e-3)


def test_linear_constraints_and_a_sparse_one() -> None:
    line = LinearConstraint(np.ones((1, 30)), 20.0, 20.0)
    spheres = NonlinearConstraint(lambda x: x[1:] ** 2 + x[:-1] ** 2, 0.0, 1.0)
    found = nm.minimize(rosenbrock, np.full(30, 0.5), method="trust-constr", constraints=[line, spheres], options={"maxiter": 300})
    truth = scipy.optimize.minimize(
        rosen,
        np.full(30, 0.5),
        jac=rosen_der,
        method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 20.0},
            {"type": "ineq", "fun": lambda x: 1.0 - x[1:] ** 2 - x[:-1] ** 2},
        ],
    )
    assert truth.success
    np.testing.assert_allclose(found.fun, truth.fun, rtol=1e-3)
    assert hasattr(found.jac[1], "tocsr")  # sparse Jacobians


def test_multipliers_weigh_the_hessians() -> None:
    f = lambda x, s: {"a": nnp.sin(x["u"]) * s, "b": (x["u"] * x["v"]).sum()}  # noqa: E731
    tree = {"u": np.zeros(3), "v": np.zeros(3)}
    held = nm.interop.scipy.NonlinearConstraint(f, tree, None, {"a": 1.0, "b": np.array(2.0)}, 2.0)
    x, v = np.linspace(0.1, 0.6, 6), np.array([1.0, -2.0, 3.0, 0.5])
    expected = np.zeros((6, 6))
    expected[:3, :3] = np.diag(-2 * v[:3] * np.sin(x[:3]))
    expected[:3, 3:] = expected[3:, :3] = 0.5 * np.eye(3)
    first = held.hess(x, v)
    other = held.hess(x + 1, 2 * v)
    np.testing.assert_allclose(first @ np.eye(6), expected, atol=1e-14)
    assert not np.allclose(other @ np.eye(6), expected)
    np.testing.assert_allclose(held.fun(x), [*2 * np.sin(x[:3]), x[:3] @ x[3:]])
    assert held.ub.tolist() == [1.0, 1.0, 1.0, 2.0]
    jacobian = held.jac(x)
    np.testing.assert_allclose(
        jacobian if isinstance(jacobian, np.ndarray) else jacobian.toarray(),
        np.vstack([np.c_[2 * np.diag(np.cos(x[:3])), np.zeros((3, 3))], [*x[3:], *x[:3]]]),
    )


def test_artifacts(tmp_path: Path) -> None:
    module = nm.hvp_module(lambda x, s: s * rosenbrock(x), nm.spec(4, "f64"), nm.spec((), "f64"), entry_points=("update", "apply"))
    module.compile().save(tmp_path / "rosenbrock.vmfb")
    for source in (nm.load(tmp_path / "rosenbrock.vmfb"), tmp_path / "rosenbrock.vmfb", module):
        found = nm.minimize(source, START, np.float64(2.0), method="trust-krylov")
        np.testing.assert_allclose(found.x, 1.0, rtol=1e-4)


# ---------------------------------------------------------------- callbacks, history, progress


def test_callbacks() -> None:
    tree = {"p": START}
    loss = lambda x: rosenbrock(x["p"])  # noqa: E731
    points: list[Any] = []
    found = nm.minimize(loss, tree, callback=lambda x: points.append(x["p"]))
    assert len(points) == found.nit
    np.testing.assert_array_equal(points[-1], found.x["p"])
    results: list[Any] = []

    def stop(intermediate_result: Any) -> None:
        results.append((intermediate_result.x["p"], intermediate_result.fun))
        if len(results) == 3:
            raise StopIteration

    found = nm.minimize(loss, tree, method="L-BFGS-B", callback=stop)
    assert found.nit == len(results) == 3
    states: list[Any] = []
    nm.minimize(
        loss,
        tree,
        method="trust-constr",
        callback=lambda x, state: states.append((x["p"], state.tr_radius)),
        options={"maxiter": 5},
    )
    assert len(states) in (5, 6)


def test_history_and_plot() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = nm.minimize(rosenbrock, START, method="trust-ncg")
    history = found.history
    assert len(history) == found.nit
    assert history.value[-1] == found.fun
    assert history.fun[-1] == found.nfev
    assert np.all(np.diff(history.fun) >= 0)
    assert history.gradient[-1] == pytest.approx(np.abs(found.jac).max())
    axes = history.plot()
    assert len(axes.get_lines()) == 2
    assert history.plot(axes) is axes
    assert "iterations" in repr(history)
    assert np.isnan(nm.minimize(rosenbrock, START, method="Nelder-Mead", options={"maxiter": 3}).history.gradient).all()


@pytest.mark.parametrize("method", ["TNC", "COBYLA", "COBYQA", "Powell"])
def test_methods_that_say_little_have_a_history(method: str) -> None:
    found = nm.minimize(convex, np.ones(3), method=method)
    assert len(found.history)
    assert np.isfinite(found.history.value).all()
    assert found.history.value.min() == pytest.approx(found.fun, rel=1e-3)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    nm.minimize(rosenbrock, START, progress=True)
    assert capsys.readouterr() == ("", "")  # it is piped here
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    found = nm.minimize(rosenbrock, START, progress=True)
    assert f"minimize, BFGS: iteration {found.nit}, value" in terminal.getvalue()


def test_methods_of_the_user() -> None:
    def newton(fun: Any, x0: Any, args: Any, jac: Any, hess: Any, steps: int, **others: Any) -> Any:
        x = x0
        for _ in range(steps):
            x = x - np.linalg.solve(hess(x) @ np.eye(4), jac(x))
        return scipy.optimize.OptimizeResult(x=x, fun=fun(x), success=True, nit=steps)

    found = nm.minimize(rosenbrock, START, method=newton, options={"steps": 12})
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-10)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("requires a method among nelder-mead, .* got 'newton'", lambda: minimize(rosenbrock, START, method="newton")),
        ("requires a Hessian that BFGS accepts .none., got dense", lambda: minimize(rosenbrock, START, hess="dense")),
        (
            "requires a Hessian that Newton-CG accepts .*, got a function",
            lambda: minimize(rosenbrock, START, method="Newton-CG", hess=rosen_hess),
        ),
        ("requires a method that accepts bounds, got CG", lambda: minimize(rosenbrock, START, method="CG", bounds=(0, 1))),
        (
            "requires a method that accepts constraints, got TNC",
            lambda: minimize(rosenbrock, START, method="TNC", constraints={"type": "eq", "fun": nnp.sum}),
        ),
        ("requires one scalar of floating point as its result, got float64.3.", lambda: minimize(lambda x: x[1:], START)),
        (r"requires x0\['a'\] of real numbers, got complex128", lambda: minimize(lambda p: p["a"].real, {"a": np.array(1j)})),
        (r"requires x0.* of real numbers, got bool", lambda: minimize(rosenbrock, np.array([True, False]))),
        ("requires x0 with numbers, got none", lambda: minimize(rosenbrock, np.zeros(0))),
        (
            "requires bounds for the 4 elements of x, got 3",
            lambda: minimize(rosenbrock, START, bounds=Bounds(np.zeros(3), np.ones(3))),
        ),
        (
            r"requires bounds of shape \(4,\) or one number, got \(2,\)",
            lambda: minimize(rosenbrock, START, bounds=(np.zeros(2), 1)),
        ),
        (
            "requires bounds that are scipy.optimize.Bounds, 4 pairs .*, got list of 3",
            lambda: minimize(rosenbrock, START, bounds=[(0, 1)] * 3),
        ),
        ("requires a list of pairs, got an iterator", lambda: minimize(rosenbrock, START, bounds=zip(START, START, strict=True))),
        ("requires constraints that are dicts, .* got float", lambda: minimize(rosenbrock, START, constraints=[1.0])),
        (
            "requires a constraint with type 'eq' or 'ineq', fun and args, .*leave jac out",
            lambda: minimize(rosenbrock, START, constraints={"type": "eq", "fun": nnp.sum, "jac": nnp.ones_like}),
        ),
        (
            "requires a NonlinearConstraint without derivatives of its own",
            lambda: minimize(rosenbrock, START, constraints=NonlinearConstraint(nnp.sum, 0, 1, jac=np.ones_like)),
        ),
        (
            "requires a LinearConstraint of 4 columns, got .1, 3.",
            lambda: minimize(rosenbrock, START, constraints=LinearConstraint(np.ones((1, 3)), 0, 1)),
        ),
        ("requires an objective of order 1 or 2, got one of order 0", lambda: Objective(rosenbrock, START, order=0).jac(START)),
    ],
)
def test_errors(message: str, call: Any) -> None:
    with pytest.raises(nm.errors.NablaError, match=f"(?s){message}"):
        call()


def test_unknown_options_and_arguments_are_refused() -> None:
    """SciPy warns of an option, and goes on without it."""
    with pytest.raises(TypeError, match="minimize requires options that BFGS has, got steps"):
        nm.minimize(rosenbrock, START, options={"steps": 3})
    with pytest.raises(TypeError, match="requires arguments among its own, got jac"):
        nm.minimize(rosenbrock, START, jac=rosen_der)


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "solvers.md").read_text()
    lines = {tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in page.splitlines()}
    word = {True: "yes", False: ""}
    for name, row in METHODS.items():
        assert (name, word[row.gradient], ", ".join(row.hessians), word[row.bounds], word[row.constraints]) in lines


# ---------------------------------------------------------------- problems of others

# Of Moré, Garbow and Hillstrom (1981), sums of squares: residuals, the start, and the least value.
PROBLEMS = {
    "Freudenstein and Roth": (
        lambda x, xp: [-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1], -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]],
        [0.5, -2.0],
        48.9842,
    ),
    "Beale": (lambda x, xp: [y - x[0] * (1 - x[1] ** (i + 1)) for i, y in enumerate((1.5, 2.25, 2.625))], [1.0, 1.0], 0.0),
    "helical valley": (
        lambda x, xp: [10 * (x[2] - 10 * xp.arctan2(x[1], x[0]) / (2 * np.pi)), 10 * (xp.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]],
        [-1.0, 0.1, 0.0],
        0.0,
    ),
    "Powell's singular function": (
        lambda x, xp: [x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10**0.5 * (x[0] - x[3]) ** 2],
        [3.0, -1.0, 0.0, 1.0],
        0.0,
    ),
    "Wood": (
        lambda x, xp: [
            10 * (x[1] - x[0] ** 2),
            1 - x[0],
            90**0.5 * (x[3] - x[2] ** 2),
            1 - x[2],
            10**0.5 * (x[1] + x[3] - 2),
            10**-0.5 * (x[1] - x[3]),
        ],
        [-3.0, -1.0, -3.0, -1.0],
        0.0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PROBLEMS)[::2])
def test_problems_of_more_garbow_and_hillstrom(name: str) -> None:
    """Each method finds what it finds with JAX's derivatives, which mostly is the least value."""
    residuals, start, least = PROBLEMS[name]
    with jax.enable_x64(True):
        theirs = jax.jit(lambda x: sum(r * r for r in residuals(x, jnp)))
        derivatives = {"jac": jax.jit(jax.grad(theirs)), "hess": jax.jit(jax.hessian(theirs))}
        successes = 0
        for method, traits in METHODS.items():
            if not traits.gradient or method == "dogleg":
                continue
            options = {"gtol": 1e-8, "maxiter": 3000} if "trust" in method else {}
            hess = {"hess": "dense"} if traits.hessians else {}
            ours = nm.minimize(
                lambda x: sum(r * r for r in residuals(x, nnp)), start, method=method, tol=1e-10, options=options, **hess
            )
            given = {k: lambda x, d=derivatives[k]: np.array(d(x)) for k in ("jac", *hess)}
            other = scipy.optimize.minimize(lambda x: float(theirs(x)), start, method=method, tol=1e-10, options=options, **given)
            if other.success:  # Newton-CG wanders about on Wood's function until its iterations are used up; TNC stops early
                assert ours.fun == pytest.approx(other.fun, rel=1e-3, abs=1e-3), method
            successes += abs(ours.fun - least) < 1e-4
    assert successes >= 7


@pytest.mark.parametrize("name", PROBLEMS)
def test_least_squares_of_more_garbow_and_hillstrom(name: str) -> None:
    residuals, start, least = PROBLEMS[name]
    for method in ("trf", "lm"):
        found = nm.interop.scipy.least_squares(lambda x: residuals(x, nnp), start, method=method, xtol=1e-12, gtol=1e-12)
        assert 2 * found.cost == pytest.approx(least, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("method", [name for name, traits in METHODS.items() if traits.bounds])
def test_bounds_may_fix_variables(method: str) -> None:
    """SciPy leaves these out of some methods' points, and of what it calls after an iteration."""
    seen: list[Any] = []
    f = lambda x: ((x - nnp.asarray([1.0, 2.0, 3.0])) ** 2).sum()  # noqa: E731
    bounds = Bounds([-5, 0.5, -5], [5, 0.5, 5])
    result = nm.minimize(f, np.array([0.0, 0.5, 0.0]), method=method, bounds=bounds, callback=lambda x: seen.append(np.array(x)))
    np.testing.assert_allclose(result.x, [1, 0.5, 3], atol=2e-3)
    assert {x.shape for x in seen} == {(3,)}
    assert seen[-1][1] == pytest.approx(0.5, abs=1e-3)
