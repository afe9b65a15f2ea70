"""CUTEst problems of sif2jax as problems of ours; as a program it solves all small ones by every method and counts the outcomes.

python tests/interop/cutest.py --size 8
"""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.util
import inspect
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from solver_cases import Part, Problem, compared

import nabla_mlir as nm

FAMILIES = {
    "unconstrained": "_unconstrained_minimisation",
    "bounded": "_bounded_minimisation",
    "constrained": "_constrained_minimisation",
    "equations": "_nonlinear_equations",
}
_SPEC = importlib.util.find_spec("sif2jax")
ROOT = Path(_SPEC.submodule_search_locations[0]) if _SPEC and _SPEC.submodule_search_locations else None


def source(family: str, name: str) -> Any:
    """A problem of sif2jax by the name of its file; None if the file has none.

    The packages around it are not run: they make all of the 849 problems, which takes a minute.
    """
    for package in ("sif2jax", "sif2jax.cutest", f"sif2jax.cutest.{FAMILIES[family]}"):
        if package not in sys.modules:
            stub = sys.modules[package] = types.ModuleType(package)
            stub.__path__ = [str(ROOT.joinpath(*package.split(".")[1:]))]
    module = importlib.import_module(f"sif2jax.cutest.{FAMILIES[family]}.{name}")
    classes = [
        c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__ and c.__name__.lower() == name
    ]
    return classes[0]() if classes else None


def problem_of(p: Any) -> Problem:
    """Over flat vectors; our functions are JAX's, imported."""
    x0, tree = ravel_pytree(p.y0)
    x0 = np.asarray(x0, np.float64)
    part = lambda g: Part(nm.from_jax(g, nm.spec(x0.shape, "float64")), g)  # noqa: E731
    bounds = getattr(p, "bounds", None)
    if bounds is not None:
        bounds = scipy.optimize.Bounds(*(np.asarray(ravel_pytree(side)[0], np.float64) for side in bounds))
    held = []
    for i, kind in enumerate(("eq", "ineq") if hasattr(p, "constraint") else ()):
        if p.constraint(p.y0)[i] is not None:
            held.append((kind, part(lambda x, i=i: ravel_pytree(p.constraint(tree(x))[i])[0])))
    is_equations = any("NonlinearEquations" in c.__name__ for c in type(p).__mro__)
    objective = None if is_equations else part(lambda x: jnp.asarray(p.objective(tree(x), p.args), jnp.float64).reshape(()))
    return Problem(x0, objective, bounds, tuple(held))


def small(family: str, size: int) -> Iterator[tuple[str, Problem | None, str]]:
    """The problems with at most so many unknowns: the name, and the problem or the reason why it is missing."""
    for name in sorted(path.stem for path in (ROOT / "cutest" / FAMILIES[family]).glob("[a-z]*.py")):
        try:
            p = source(family, name)
            if p is None or jax.eval_shape(lambda p=p: ravel_pytree(p.y0)[0]).size > size:
                continue
            yield name, problem_of(p), ""
        except Exception as error:  # what its package lacks, or what we do not import
            yield name, None, f"{type(error).__name__}: {error}"[:300]


def main() -> None:
    """One line of JSON for each method of each problem, and the counts by method at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=8, help="the most unknowns")
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for family in options.families:
        for name, problem, reason in small(family, options.size):
            for method in problem.methods() if problem else [""]:
                verdict, runs = compared(problem, method) if problem else ("not imported", [reason])
                table[method][verdict] += 1
                details = runs if verdict in ("other", "not imported") else []
                print(
                    json.dumps({"family": family, "problem": name, "method": method, "verdict": verdict, "runs": details}),
                    flush=True,
                )
    for method, counts in table.items():
        print(method, dict(counts))


if __name__ == "__main__":
    main()
