"""Functions of ours inside CasADi: derivatives, a nonlinear program and optimal control against CasADi's own. Needs casadi and cc."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError, DtypeError, ShapeError
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
        matrices_of += [
            ca.Function(
                "d",
                [x, A],
                [
                    total,
                    ca.hessian(total, x)[0],
                    ca.jacobian(ca.gradient(total, A), x),
                    ca.jacobian(y[0], x),
                    ca.jacobian(y[0], A),
                    ca.jtimes(total, x, ca.DM.ones(5)),
                    ca.jtimes(y[0], A, ca.DM.ones(2), True),
                ],
            )
        ]
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


# The members of acados' `external_function_casadi`, with its types; of acados itself where ACADOS_INSTALL_DIR says where it is.
ACADOS = r"""
#include <stdio.h>
#include <stdlib.h>
int step(const double **, double **, int *, double *, void *), step_work(int *, int *, int *, int *);
const int *step_sparsity_in(int), *step_sparsity_out(int);
int step_n_in(void), step_n_out(void);
#ifdef WITH_ACADOS
#include "acados/utils/external_function_generic.h"
static void evaluate(double *x, double *u, double *y, double *J) {
  external_function_opts opts;
  external_function_opts_set_to_default(&opts);
  external_function_casadi f = {.casadi_fun = step, .casadi_work = step_work, .casadi_sparsity_in = step_sparsity_in,
    .casadi_sparsity_out = step_sparsity_out, .casadi_n_in = step_n_in, .casadi_n_out = step_n_out};
  external_function_casadi_assign(&f, calloc(1, external_function_casadi_calculate_size(&f, &opts)));
  ext_fun_arg_t kinds[] = {COLMAJ, COLMAJ};
  void *in[] = {x, u}, *out[] = {y, J};
  f.evaluate(&f, kinds, in, kinds, out);
}
#else
static void evaluate(double *x, double *u, double *y, double *J) {
  const double *in[] = {x, u};
  double *out[] = {y, J};
  step(in, out, 0, 0, 0);
}
#endif
int main(void) {
  double x[2] = {0.3, -0.2}, u[1] = {0.7}, y[2], J[6];
  evaluate(x, u, y, J);
  for (int i = 0; i < 2; i++) printf("%.17g ", y[i]);
  for (int i = 0; i < 6; i++) printf("%.17g ", J[i]);
  printf("%d %d %d %d", step_sparsity_in(0)[0], step_sparsity_in(1)[0], step_sparsity_out(1)[0], step_sparsity_out(1)[1]);
}
"""


def test_the_symbols_are_those_that_acados_takes(tmp_path: Path) -> None:
    """A step of discrete dynamics and the transpose of its Jacobian by (u, x), as its `disc_dyn_fun_jac` wants them."""

    def step(x: Any, u: Any) -> Any:
        after = lambda x, u: x + 0.1 * oscillator(x, u)  # noqa: E731
        by_x, by_u = nm.jacfwd(after, (0, 1))(x, u)
        return after(x, u), nnp.concatenate([by_u, by_x], axis=1).T

    cc = shutil.which(os.environ.get("CC", "cc"))
    if cc is None:
        pytest.skip("needs a C compiler")
    save_external(step, 2, 1, path=tmp_path / "step")
    (tmp_path / "main.c").write_text(ACADOS)
    sources = [tmp_path / name for name in ("main.c", "step.c", "step_casadi.c", "step.o")]
    flags, place = [], os.environ.get("ACADOS_INSTALL_DIR")
    if place is not None:
        flags = ["-DWITH_ACADOS", f"-I{place}/include", f"-I{place}/include/blasfeo/include", f"-I{place}/include/hpipm/include"]
        flags += [f"-L{place}/lib", "-lacados", "-lhpipm", "-lblasfeo", f"-Wl,-rpath,{place}/lib,--disable-new-dtags"]
    subprocess.run([cc, "-Dcasadi_int=int", *sources, *flags, "-lm", "-o", tmp_path / "main"], check=True)
    out = np.array(subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout.split(), float)
    values, slopes = step(np.array([0.3, -0.2]), np.array([0.7]))
    np.testing.assert_allclose(out[:2], values, rtol=1e-15)
    np.testing.assert_allclose(out[2:8], np.ravel(slopes, order="F"), rtol=1e-15)
    assert out[8:].tolist() == [2, 1, 3, 2]


def test_what_casadi_has_not_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DtypeError, match=r"an external function requires float64, got float32\[3\]"):
        save_external(lambda x: x, nm.spec(3, "f32"), path=tmp_path / "f")
    with pytest.raises(ShapeError, match=r"requires arrays with at most two axes, got float64\[2,3,4\]"):
        save_external(lambda x: x, (2, 3, 4), path=tmp_path / "f")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(DeployError, match="requires a C compiler, got none"):
        external(lambda x: x, 3, folder=tmp_path)
