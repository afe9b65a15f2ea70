"""Functions of ours inside CasADi: derivatives, a nonlinear program and optimal control against CasADi's own. Needs casadi and cc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.errors import DeployError, DtypeError, ShapeError
from nabla_mlir.interop.casadi import external, save_external

ca: Any = pytest.importorskip("casadi")
pytestmark = pytest.mark.slow
QUIET = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.tol": 1e-10}


def matrices(x: Any, A: Any) -> Any:
    return [A @ x[:3], nnp.sin(x).sum() * A[0, 1]]


def program(x: Any) -> Any:
    """A chain of Rosenbrock's, and a circle that each pair of neighbours stays in."""
    return nnp.sum((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2), x[1:] ** 2 + x[:-1] ** 2


def oscillator(x: Any, u: Any) -> Any:
    """Van der Pol's, with a force."""
    return nnp.stack([(1.0 - x[1] ** 2) * x[0] - x[1] + u[0], x[0]])


def numbers(result: Any) -> list[np.ndarray]:
    return [np.array(part) for part in result]


def test_values_and_derivatives_of_matrices(tmp_path: Path) -> None:
    F = external(matrices, 5, (2, 3), name="g", folder=tmp_path)
    assert str(F) == "g:(x[5],A[2x3])->(o0[2],o1) External"
    own = ca.Function("own", [x := ca.MX.sym("x", 5), A := ca.MX.sym("A", 2, 3)], [A @ x[:3], ca.sum1(ca.sin(x)) * A[0, 1]])
    point = np.arange(1.0, 6.0), np.arange(6.0).reshape(2, 3)
    matrices_of = []
    for function in (F, own):
        y = function(x, A)
        total = ca.sumsqr(y[0]) + y[1] ** 2
        matrices_of += [ca.Function("d", [x, A], [
            total, ca.hessian(total, x)[0], ca.jacobian(ca.gradient(total, A), x), ca.jacobian(y[0], x), ca.jacobian(y[0], A),
            ca.jtimes(total, x, ca.DM.ones(5)), ca.jtimes(y[0], A, ca.DM.ones(2), True),
        ])]  # fmt: skip
    for ours, theirs in zip(*(function(*point) for function in matrices_of), strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-13, atol=1e-13)
        assert ours.sparsity().nnz() == theirs.sparsity().nnz()


def test_a_nonlinear_program_takes_the_steps_of_casadis_own() -> None:
    size, x = 8, ca.MX.sym("x", 8)
    f = ca.sumsqr(1 - x[:-1]) + 100 * ca.sumsqr(x[1:] - x[:-1] ** 2)
    problems = {"ours": external(program, size, name="program")(x), "theirs": (f, x[1:] ** 2 + x[:-1] ** 2)}
    solutions, counts = [], []
    for value, circles in problems.values():
        solver = ca.nlpsol("solver", "ipopt", {"x": x, "f": value, "g": circles}, QUIET)
        assert solver.get_function("nlp_hess_l").sparsity_out(0).nnz() <= 3 * size, "sparse"
        solutions.append(solver(x0=np.linspace(-1, 1, size), lbg=0.1, ubg=1.0))
        counts.append({key: n for key, n in solver.stats().items() if key == "iter_count" or key.startswith("n_call_nlp")})
    assert counts[0] == counts[1]
    for key in ("x", "f", "lam_g"):
        np.testing.assert_allclose(*numbers([s[key] for s in solutions]), rtol=1e-7, atol=1e-8)


def test_optimal_control_of_an_oscillator() -> None:
    steps, step = 20, 0.5
    x, u = ca.MX.sym("x", 2), ca.MX.sym("u", 1)
    own = ca.Function("own", [x, u], [ca.vertcat((1 - x[1] ** 2) * x[0] - x[1] + u, x[0])])
    solutions, iterations = [], []
    for rate in (external(oscillator, 2, 1, name="oscillator"), own):
        k1 = rate(x, u)
        k2 = rate(x + step / 2 * k1, u)
        k3 = rate(x + step / 2 * k2, u)
        k4 = rate(x + step * k3, u)
        move = ca.Function("move", [x, u], [x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])
        opti = ca.Opti()
        states, forces = opti.variable(2, steps + 1), opti.variable(1, steps)
        opti.minimize(ca.sumsqr(states) + ca.sumsqr(forces))
        for i in range(steps):
            opti.subject_to(states[:, i + 1] == move(states[:, i], forces[:, i]))
        opti.subject_to(opti.bounded(-1, forces, 1))
        opti.subject_to(states[:, 0] == np.array([0.0, 1.0]))
        opti.solver("ipopt", QUIET)
        solution = opti.solve()
        solutions.append(np.concatenate([solution.value(states).ravel(), solution.value(forces).ravel()]))
        iterations.append(solution.stats()["iter_count"])
    assert iterations[0] == iterations[1]
    np.testing.assert_allclose(*solutions, rtol=1e-7, atol=1e-8)


def test_what_casadi_has_not_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DtypeError, match=r"an external function requires float64, got float32\[3\]"):
        save_external(lambda x: x, nm.spec(3, "f32"), path=tmp_path / "f")
    with pytest.raises(ShapeError, match=r"requires arrays with at most two axes, got float64\[2,3,4\]"):
        save_external(lambda x: x, (2, 3, 4), path=tmp_path / "f")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(DeployError, match="requires a C compiler, got none"):
        external(lambda x: x, 3, folder=tmp_path)
