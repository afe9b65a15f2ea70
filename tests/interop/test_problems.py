"""SciPy's optimisation test functions and problems of CUTEst by every method: answers and counts are those of JAX's derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cutest import ROOT, problem_of, source
from solver_cases import EQUATIONS, Part, Problem, compared

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.scipy import METHODS

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "solvers.md").read_text()
ATOMS = np.array([[0.0, 0.0, 0.0], [1.2, 0.1, 0.0], [0.5, 1.0, 0.2], [0.6, 0.3, 1.1]])


def lennard_jones(x: Any, xp: Any) -> Any:
    atoms = x.reshape(4, 3)
    squares = xp.stack([((atoms[i] - atoms[j]) ** 2).sum() for i, j in combinations(range(4), 2)])
    return (4 * (squares**-6 - squares**-3)).sum()


def ackley(x: Any, xp: Any) -> Any:
    bowl, waves = -20 * xp.exp(-0.2 * xp.sqrt(0.5 * (x * x).sum())), -xp.exp(0.5 * xp.cos(2 * np.pi * x).sum())
    return bowl + waves + 20 + np.e


def levi(x: Any, xp: Any) -> Any:
    s = xp.sin(np.pi * x) ** 2
    return (
        xp.sin(3 * np.pi * x[0]) ** 2
        + (x[0] - 1) ** 2 * (1 + xp.sin(3 * np.pi * x[1]) ** 2)
        + (x[1] - 1) ** 2 * (1 + 4 * s[1] * (1 - s[1]))
    )


def egg_holder(x: Any, xp: Any) -> Any:
    y = x[1] + 47
    return -y * xp.sin(xp.sqrt(xp.abs(y + x[0] / 2))) - x[0] * xp.sin(xp.sqrt(xp.abs(x[0] - y)))


# The smooth and the wavy functions that SciPy's benchmarks minimize: of x and a namespace of arrays, and where to begin.
FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "simple quadratic": (lambda x, xp: (x * x).sum(), [0.0, 1.0, -2.0]),
    "asymmetric quadratic": (lambda x, xp: (x * x).sum() + x[0], [1.0, 1.0, -2.0]),
    "Rosenbrock": (lambda x, xp: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), [0.8, 1.2, 0.7]),
    "Booth": (lambda x, xp: (x[0] + 2 * x[1] - 7) ** 2 + (2 * x[0] + x[1] - 5) ** 2, [0.0, 5.0]),
    "Beale": (lambda x, xp: ((np.array([1.5, 2.25, 2.625]) - x[0] * (1 - x[1] ** np.arange(1.0, 4.0))) ** 2).sum(), [2.0, 0.2]),
    "Lennard-Jones": (lennard_jones, ATOMS.ravel()),
    "Ackley": (ackley, [0.3, -0.2]),
    "Levi": (levi, [1.2, 1.1]),
    "egg holder": (egg_holder, [500.0, 400.0]),
    "Schaffer 2": (lambda x, xp: 0.5 + (xp.sin(x[0] ** 2 - x[1] ** 2) ** 2 - 0.5) / (1 + 0.001 * (x * x).sum()) ** 2, [0.5, 0.3]),
    "Schaffer 4": (
        lambda x, xp: 0.5 + (xp.cos(xp.sin(xp.abs(x[0] ** 2 - x[1] ** 2))) ** 2 - 0.5) / (1 + 0.001 * (x * x).sum()) ** 2,
        [0.3, 1.1],
    ),
}
# Of each kind a few, by the names of their files.
CUTEST = {
    "unconstrained": ("akiva", "allinitu", "bard", "brownden"),
    "bounded": ("hs1", "hs2", "hs4", "hs5", "hs45", "camel6"),
    "constrained": ("hs6", "hs26", "hs35"),
    "equations": ("aircrfta", "bardne", "gottfr", "powellbs"),
}


@pytest.fixture(autouse=True)
def _of_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def check(problem: Problem, least: float) -> None:
    """No method differs in a way that rounding does not explain; at least so large a part of them takes the same steps."""
    verdicts = {method: compared(problem, method) for method in problem.methods()}
    assert {method: runs for method, (verdict, runs) in verdicts.items() if verdict == "other"} == {}
    count = sum(verdict == "equal" for verdict, _ in verdicts.values())
    assert count >= least * sum(verdict != "refused" for verdict, _ in verdicts.values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_scipy(name: str) -> None:
    f, start = FUNCTIONS[name]
    check(Problem(np.array(start), Part(lambda x: f(x, nnp), lambda x: f(x, jnp))), least=0.5)


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in CUTEST.items() for name in names])
@pytest.mark.skipif(ROOT is None, reason="needs sif2jax")
@pytest.mark.filterwarnings("ignore")
def test_problems_of_cutest(family: str, name: str) -> None:
    problem = problem_of(source(family, name))
    assert (problem.objective is None, problem.bounds is not None or family != "bounded") == (family == "equations", True)
    check(problem, least=0.3)


def test_the_page_counts_every_method() -> None:
    rows = {line.split("|")[1].strip() for line in PAGE.splitlines() if line.count("|") == 7}
    assert {*METHODS, *EQUATIONS} <= rows
