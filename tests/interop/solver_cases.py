"""Problems of others, solved by SciPy's methods with our derivatives and with JAX's: where answers and counts differ, and whether
rounding explains it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.optimize
from scipy.sparse import csr_matrix

import nabla_mlir as nm
from nabla_mlir.interop import scipy as solvers
from nabla_mlir.interop.scipy import METHODS, Objective

EQUATIONS = ("root hybr", "root lm", "least_squares trf", "least_squares dogbox", "least_squares lm")
COUNTS = ("nit", "nfev", "njev", "nhev", "status", "cg_niter")
STEPS = {"tnc": "maxfun", "cobyqa": "maxfev"}  # the options that end a run which finds nothing; of others "maxiter"
ERRORS = (ValueError, TypeError, IndexError, OverflowError, np.linalg.LinAlgError)


def jitted(g: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function of JAX for solvers, which write to what they get, and ask with integers too."""
    compiled = jax.jit(g)
    return lambda *xs: np.array(compiled(*(np.asarray(x, np.float64) for x in xs)))


@dataclass(frozen=True)
class Part:
    """A function of flat vectors, as one of ours and as one of JAX, whose derivatives are compiled at first use."""

    ours: Callable[..., Any]
    jax: Callable[..., Any]

    value = cached_property(lambda self: jitted(self.jax))
    gradient = cached_property(lambda self: jitted(jax.grad(self.jax)))
    hessian = cached_property(lambda self: jitted(jax.hessian(self.jax)))
    jacobian = cached_property(lambda self: jitted(jax.jacfwd(self.jax)))
    product = cached_property(lambda self: jitted(lambda x, v: jax.jvp(jax.grad(self.jax), (x,), (v,))[1]))
    weighed = cached_property(lambda self: jitted(lambda x, v: jax.hessian(lambda y: v @ self.jax(y))(x)))


@dataclass(frozen=True)
class Problem:
    """A problem: a function to minimize from x0, with bounds, and constraints that are zero ("eq") or not negative ("ineq")."""

    x0: np.ndarray
    objective: Part | None
    bounds: scipy.optimize.Bounds | None = None
    constraints: tuple[tuple[str, Part], ...] = ()

    def methods(self) -> list[str]:
        """The methods that accept such a problem; a problem without an objective is a system of equations."""
        if self.objective is None:
            return list(EQUATIONS)
        is_taken = lambda row: (self.bounds is None or row.bounds) and (not self.constraints or row.constraints)  # noqa: E731
        return [name for name, row in METHODS.items() if is_taken(row)]


class Outcome(NamedTuple):
    """Counts of a run, or what was raised, and the value that was found."""

    counts: dict[str, Any]
    value: float


def run(solve: Callable[[], Any]) -> Outcome:
    """The value in SciPy's result; for equations `cost`, or the sum of squares."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = solve()
        except ERRORS as error:
            return Outcome({"raised": f"{type(error).__name__}: {error}"[:200]}, np.nan)
    value = found.get("cost", found.fun)
    return Outcome(
        {k: int(found[k]) for k in COUNTS if found.get(k) is not None}, float(np.sum(np.square(value)) if np.ndim(value) else value)
    )


def solved_by_ours(problem: Problem, method: str, steps: int) -> Any:
    """By our interface, which makes the derivatives."""
    x0, bounds = problem.x0, problem.bounds
    if problem.objective is None:
        who, how = method.split()
        f = problem.constraints[0][1].ours
        if who == "root":
            return solvers.root(f, x0, method=how)
        return solvers.least_squares(f, x0, method=how, jac="dense", bounds=None if how == "lm" else bounds)
    held = [scipy.optimize.NonlinearConstraint(g.ours, 0.0, _upper(kind)) for kind, g in problem.constraints]
    return nm.minimize(problem.objective.ours, x0, method=method, bounds=bounds, constraints=held, options=_options(method, steps))


def solved_by_jax(problem: Problem, method: str, steps: int, noise: Callable[[Any], Any] = lambda y: y) -> Any:
    """By SciPy's own interface with JAX's derivatives, in the form that ours have; noise is added to all that is computed."""
    with_noise = lambda g: lambda *xs: noise(g(*xs))  # noqa: E731
    x0, bounds, f = problem.x0, problem.bounds, problem.objective
    if f is None:
        who, how = method.split()
        g = problem.constraints[0][1]
        options = {} if who == "root" or how == "lm" or bounds is None else {"bounds": bounds}
        return getattr(scipy.optimize, who)(with_noise(g.value), x0, jac=with_noise(g.jacobian), method=how, **options)
    row = METHODS[method]
    given: dict[str, Any] = {"jac": with_noise(f.gradient)} if row.gradient else {}
    form = row.hessians[0] if row.hessians else "none"
    form = Objective(f.ours, x0).form if form == "sparse" else form
    if form == "products":
        given["hessp"] = with_noise(f.product)
    elif form != "none":
        given["hess"] = (lambda x: csr_matrix(noise(f.hessian(x)))) if form == "sparse" else with_noise(f.hessian)
    held = []
    for kind, g in problem.constraints:
        exact = {"hess": with_noise(g.weighed)} if method == "trust-constr" else {}
        held.append(scipy.optimize.NonlinearConstraint(with_noise(g.value), 0.0, _upper(kind), jac=with_noise(g.jacobian), **exact))
    value = lambda x: float(noise(f.value(x)))  # noqa: E731
    return scipy.optimize.minimize(
        value, x0, method=method, bounds=bounds, constraints=held, options=_options(method, steps), **given
    )


def _upper(kind: str) -> float:
    return 0.0 if kind == "eq" else np.inf


def _options(method: str, steps: int) -> dict[str, int]:
    return {STEPS.get(method, "maxiter"): steps}


def rounding(seed: int) -> Callable[[Any], Any]:
    """Adds errors of one unit in the last place, such as another order of the same operations makes."""
    rng = np.random.default_rng(seed)
    return lambda y: y * (1 + 2.0**-52 * rng.integers(-1, 2, size=np.shape(y)))


def compared(problem: Problem, method: str, steps: int = 200, seeds: int = 5) -> tuple[str, list[Outcome]]:
    """How our run compares with JAX's, and the runs.

    "equal": all counts, and the value to 1e-6. "refused": SciPy refuses the problem on both sides. "rounding": JAX's own runs differ from
    each other when its results have rounding errors, and ours is no further from them than they are wide. "other": anything else.
    """
    ours, theirs = (run(lambda s=s: s(problem, method, steps)) for s in (solved_by_ours, solved_by_jax))
    if "raised" in ours.counts and "raised" in theirs.counts:
        return "refused", [ours, theirs]
    if "raised" in ours.counts or "raised" in theirs.counts:
        return "other", [ours, theirs]
    if _is_equal(ours, theirs):
        return "equal", [ours, theirs]
    runs = [theirs, *(run(lambda seed=seed: solved_by_jax(problem, method, steps, rounding(seed))) for seed in range(seeds))]
    spread = [r for r in runs if "raised" not in r.counts]
    calls, values = [r.counts["nfev"] for r in spread], [r.value for r in spread]
    most = 2 * max(values) - min(values)
    is_among = min(calls) / 1.5 <= ours.counts["nfev"] <= 1.5 * max(calls) and (ours.value <= most or _is_near(ours.value, most))
    varies = any(not _is_equal(r, theirs) for r in spread)
    return "rounding" if varies and is_among else "other", [ours, *runs]


def _is_equal(a: Outcome, b: Outcome) -> bool:
    return all(a.counts[k] == b.counts[k] for k in b.counts.keys() & a.counts.keys()) and _is_near(a.value, b.value)


def _is_near(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True))
