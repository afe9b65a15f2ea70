"""Compares sparse derivatives with asdex in one run: patterns, colorings and evaluations; also a complete stiff solve.

usage: python bench/sparse.py [--only WORD ...] [--quick] [--out FOLDER]
Writes sparse.json and sparse.png. A pattern is found from the Python function; a coloring of the pattern is shown with its lower
bound; an evaluation is a jitted call on an f64 array of the device. asdex, if installed, uses its compressed derivatives under
jax.jit. The solve is the Brusselator by Radau of SciPy, with the Jacobian of nabla_mlir and with finite differences of the same
pattern.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measuring import console, interleaved, parse_words, save
from peers import is_installed
from rich.table import Table
from scipy.integrate import solve_ivp

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

SIDE = 32  # the side of the grid of the Brusselator
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A function of a vector of n numbers in a namespace; `asked` is "jacobian" or "hessian"."""

    title: str
    n: int
    asked: str
    function: Callable[[Any], Function]
    in_asdex: bool = True  # False if asdex takes too long


@dataclass
class Result:
    """The measurements of a case: seconds by side."""

    title: str
    nnz: int
    colors: dict[str, int]
    bound: int
    pattern: dict[str, float]
    coloring: dict[str, float]
    evaluation: dict[str, float]
    error: float = 0.0
    matrix: Any = field(default=None, repr=False)


def brusselator(xp: Any) -> Function:
    """The reaction and diffusion of two substances on a periodic grid."""

    def spread(a: Any) -> Any:
        return xp.roll(a, 1, 0) + xp.roll(a, -1, 0) + xp.roll(a, 1, 1) + xp.roll(a, -1, 1) - 4 * a

    def change(w: Any) -> Any:
        u, v = w.reshape(2, SIDE, SIDE)
        field = xp.stack([1 + u * u * v - 4.4 * u + 10 * spread(u), 3.4 * u - u * u * v + 10 * spread(v)])
        return field.reshape(-1)

    return change


def heat(xp: Any) -> Function:
    """A rod with a source, cold at both ends."""

    def change(u: Any) -> Any:
        wide = xp.pad(u, 1)
        return wide[2:] - 2 * u + wide[:-2] + 0.1 * u**3

    return change


def rosenbrock(_: Any) -> Function:
    """The chained Rosenbrock function."""
    return lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def control(xp: Any) -> Function:
    """The constraints of optimal control by the trapezoidal rule; the vector has the states, then the controls."""

    def constraints(z: Any) -> Any:
        x, u = z.reshape(2, -1)
        slope = 0.5 * x * (1 - x * x) + u
        return x[1:] - x[:-1] - 0.005 * (slope[1:] + slope[:-1])

    return constraints


def sines(xp: Any) -> Function:
    """A sum over windows of six neighbours."""
    return lambda x: xp.sin(sum(x[k : x.size - 5 + k] for k in range(6))).sum()


CASES = (
    Case("Brusselator, 32 x 32", 2 * SIDE * SIDE, "jacobian", brusselator),
    Case("heat, 200", 200, "jacobian", heat),
    Case("Rosenbrock, 200", 200, "hessian", rosenbrock),
    Case("Rosenbrock, 10,000", 10_000, "hessian", rosenbrock),
    Case("sines of sums, 5,000", 5_000, "hessian", sines),
    Case("control, 100,000", 100_000, "jacobian", control, in_asdex=False),
    Case("Rosenbrock, 1,000,000", 1_000_000, "hessian", rosenbrock, in_asdex=False),
)


def main() -> int:
    """Measures the cases; returns 1 if a matrix is wrong."""
    options, chosen = parse_words(__doc__.partition("\n")[0], "cases", "without the largest, and fewer repetitions", CASES)
    peer = importlib.import_module("asdex") if is_installed("asdex") else None
    jax.config.update("jax_enable_x64", True)
    results = []
    for case in chosen:
        if options.quick and case.n > 10_000:
            continue
        with console.status(f"{case.title} ..."):
            results.append(measure(case, peer, options.quick))
    report(results, peer is not None)
    solves = {} if options.only else {"jac": solve(True), "jac_sparsity": solve(False)}
    for title, (evaluations, jacobians, seconds, error) in solves.items():
        console.print(f"Radau with {title}: {evaluations} evaluations, {jacobians} Jacobians, {seconds:.2f} s, error {error:.1e}")
    content = [{k: v for k, v in asdict(r).items() if k != "matrix"} for r in results]
    save(options.out / "sparse.json", {"cases": content, "solves": solves})
    if results:
        draw(results, options.out / "sparse.png")
    wrong = [r for r in results if r.error > 1e-9]
    for r in wrong:
        console.print(f"[bold red]FAILED[/bold red] {r.title}: an error of {r.error:.1e}")
    return int(bool(wrong))


def best(call: Callable[[], Any], quick: bool) -> tuple[float, Any]:
    """The least time of a few calls, and a result."""
    times = []
    for _ in range(2 if quick else 5):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
        if sum(times) > 5:
            break
    return min(times), result


def measure(case: Case, peer: ModuleType | None, quick: bool) -> Result:
    """Measures one case on both sides; the product of the matrix with a vector is compared with the derivative of JAX."""
    f, spec = case.function(nnp), nm.spec(case.n, "f64")
    finder = getattr(nm.sparse, f"{case.asked}_pattern")
    kind = "column" if case.asked == "jacobian" else "star"
    pattern_time, pattern = best(lambda: finder(f, spec), quick)
    color_time, coloring = best(lambda: nm.sparse.color(pattern, kind), quick)
    derivative = nm.jit(getattr(nm.sparse, case.asked)(f, coloring=coloring))
    x = np.random.default_rng(0).uniform(0.5, 1.5, case.n)
    put, v = nnp.asarray(x), np.random.default_rng(1).normal(size=case.n)
    calls: dict[str, Callable[[], Any]] = {"nabla": lambda: derivative(put)}
    matrix = derivative(put)
    g = case.function(jnp)
    wanted = jax.jvp(g if case.asked == "jacobian" else jax.grad(g), (jnp.asarray(x),), (jnp.asarray(v),))[1]
    error = float(np.linalg.norm(matrix.to_scipy() @ v - wanted) / np.linalg.norm(wanted))
    result = Result(
        case.title,
        pattern.nnz,
        {"nabla": coloring.num_colors},
        nm.sparse.lower_bound(pattern, kind),
        {"nabla": pattern_time},
        {"nabla": color_time},
        {},
        error,
        pattern,
    )
    if peer is not None and case.in_asdex:
        at = jnp.asarray(x)
        result.pattern["asdex"], known = best(lambda: getattr(peer, f"{case.asked}_sparsity")(g, at), quick)
        painter = getattr(peer, f"{case.asked}_coloring_from_sparsity")
        result.coloring["asdex"], painted = best(lambda: painter(known), quick)
        result.colors["asdex"] = painted.num_colors
        entries = getattr(peer, f"compressed_{case.asked}_from_coloring")(g, painted)
        jitted = jax.jit(lambda x: jax.tree.leaves(entries(x)))
        jax.block_until_ready(jitted(at))
        calls["asdex"] = lambda: jax.block_until_ready(jitted(at))
    result.evaluation = interleaved(calls, quick)
    return result


def solve(ours: bool) -> tuple[int, int, float, float]:
    """Solves the Brusselator by Radau; returns the numbers of evaluations and Jacobians, the seconds, and the final error."""
    f = nm.jit(brusselator(nnp))
    x = np.random.default_rng(0).uniform(0.5, 1.5, 2 * SIDE * SIDE)
    derivative, pattern = nm.jit(nm.sparse.jacobian(brusselator(nnp))), nm.sparse.jacobian_pattern(brusselator(nnp), x)
    calls = 0

    def flow(_: float, w: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return np.asarray(f(w))

    how: dict[str, Any] = {"jac": lambda _, w: derivative(w).to_scipy("csc")} if ours else {"jac_sparsity": pattern.to_scipy()}
    f(x), derivative(x)
    start = time.perf_counter()
    found = solve_ivp(flow, (0, 1), x, method="Radau", rtol=1e-6, atol=1e-8, **how)
    seconds = time.perf_counter() - start
    evaluations = calls
    exact = solve_ivp(flow, (0, 1), x, method="Radau", rtol=1e-9, atol=1e-11, jac=lambda _, w: derivative(w).to_scipy("csc"))
    error = np.linalg.norm(found.y[:, -1] - exact.y[:, -1]) / np.linalg.norm(exact.y[:, -1])
    return evaluations, int(found.njev), seconds, float(error)


def report(results: list[Result], has_peer: bool) -> None:
    """Prints a row for each case: nabla_mlir, and asdex if it was measured."""
    if not results:
        return
    title = "milliseconds for pattern and coloring, microseconds for an evaluation: ours / asdex's"
    table = Table("", "entries", "colors", "bound", "pattern", "coloring", "evaluation", "error", title=title, title_justify="left")
    for r in results:
        shown = [
            " / ".join(f"{values[s] * unit:,.4g}" for s in ("nabla", "asdex") if s in values)
            for values, unit in ((r.pattern, 1e3), (r.coloring, 1e3), (r.evaluation, 1e6))
        ]
        colors = " / ".join(str(r.colors[s]) for s in ("nabla", "asdex") if s in r.colors)
        table.add_row(r.title, f"{r.nnz:,}", colors, str(r.bound), *shown, f"{r.error:.0e}")
    console.print(table)
    if not has_peer:
        console.print("[dim]asdex is not installed (pip install asdex)[/dim]")


def draw(results: list[Result], path: Path) -> None:
    """Draws the times of both sides on logarithmic axes, and the patterns of the small cases."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    small = [r for r in results if r.matrix.shape[1] <= 10_000]
    figure, rows = pyplot.subplots(2, max(3, len(small)), figsize=(3.2 * max(3, len(small)), 7), layout="constrained")
    positions = np.arange(len(results))
    measures = (("pattern", 1e3, "ms"), ("coloring", 1e3, "ms"), ("evaluation", 1e6, "µs"))
    for axis, (name, unit, word) in zip(rows[0], measures, strict=False):
        for shift, side, label in ((-0.2, "nabla", "ours"), (0.2, "asdex", "asdex")):
            values = [getattr(r, name).get(side, np.nan) * unit for r in results]
            axis.barh(positions + shift, values, height=0.38, label=label)
        axis.set(xscale="log", title=f"{name}, {word}", yticks=positions, yticklabels=[r.title for r in results])
        axis.invert_yaxis()
        axis.legend(fontsize=7)
    for axis, r in zip(rows[1], small, strict=False):
        axis.spy(r.matrix.to_scipy(), markersize=0.3)
        axis.set(title=f"{r.title}\n{r.nnz:,} entries, {r.colors['nabla']} colors", xticks=[], yticks=[])
    for axis in (*rows[0][len(measures) :], *rows[1][len(small) :]):
        axis.remove()
    figure.savefig(path, dpi=120)
    console.print(f"Written: {path}")


if __name__ == "__main__":
    sys.exit(main())
