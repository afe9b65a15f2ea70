"""Compares programs of realistic size with jax.jit in one run: time, memory, growth over calls and compile time.

usage: make bench ARGS=--large, or python bench/large.py [--others] [--only NAME ...] [--quick] [--threads N] [--out FOLDER]
Writes large.json and large.png (with `--threads 1` large-1.json, with `--others` large-others.json). Each side of each function
has a separate process; both are called alternately. Compile times are measured without caches, from the Python function to
code. The peak is the additional memory during a call, including its results. The growth is the additional memory for each later
call, while some results are live.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from measuring import HERE, console, draw, geometric_mean, relative_error, save
from rich.progress import Progress
from rich.table import Table
from side import Side
from workload import Workload
from workloads_large import LARGE
from workloads_large_others import OTHERS

FUNCTIONS = ("value", "gradient", "hvp")
GROWN = 0.25e6  # the limit of the growth in bytes for each call; smaller changes come from pages of the allocator


@dataclass
class Result:
    """The measurements of one function of one workload: seconds and bytes by side, or the reason for a failure."""

    workload: str
    title: str
    function: str
    times: dict[str, float] = field(default_factory=dict)
    compile: dict[str, float] = field(default_factory=dict)
    peak: dict[str, float] = field(default_factory=dict)
    growth: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    driver: str = ""
    barriers: int = 0
    dispatches: float = 0
    failure: str = ""

    def ratio(self, measure: str) -> float | None:
        """The value of nabla_mlir divided by that of JAX; None if one is missing."""
        sides = getattr(self, measure)
        return sides["nabla"] / max(sides["jax"], 1e-9) if {"nabla", "jax"} <= set(sides) else None

    def wrong(self) -> str:
        """The error of the result of nabla_mlir in words; "" if it is correct."""
        if self.failure:
            return self.failure
        ours, theirs = self.errors.get("nabla", 0.0), self.errors.get("jax", 0.0)
        return "" if ours <= max(1e-3, 10 * theirs) else f"differs from f64 by {ours:.1e}, JAX's by {theirs:.1e}"


def main() -> int:
    """Runs the workloads; returns 1 if a result is wrong."""
    known = {w.name: w for w in (*LARGE, *OTHERS)}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--large", action="store_true", help="this set")
    parser.add_argument("--others", action="store_true", help="a second set of programs, instead of the first")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"some of {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="Hessian-vector products alone, and fewer calls")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="both sides on so many cores; without it on all")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    if unknown := set(options.only or ()) - set(known):
        parser.error(f"--only requires names among {', '.join(known)}, got {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [known[name] for name in options.only] if options.only else list(OTHERS if options.others else LARGE)
    functions = FUNCTIONS[-1:] if options.quick else FUNCTIONS
    name = ("large-others" if options.others else "large") + (f"-{options.threads}" if options.threads else "")
    results = run_all(chosen, functions, options.quick, options.threads)
    report(results)
    content = {"threads": options.threads, "geometric_means": means(results), "results": [asdict(r) for r in results]}
    save(options.out / f"{name}.json", content)
    titles = [w.title for w in chosen]
    ratios = {f: [_find(results, w.name, f).ratio("times") for w in chosen] for f in functions}
    draw(titles, ratios, "time / time of jax.jit (less is better)", options.out / f"{name}.png")
    wrong = [r for r in results if r.wrong()]
    for r in wrong:
        console.print(f"[bold red]WRONG[/bold red] {r.title}, {r.function}: {r.wrong()}", markup=True)
    return int(bool(wrong))


def run_all(chosen: Sequence[Workload], functions: Sequence[str], quick: bool, threads: int) -> list[Result]:
    """Measures the functions of the workloads one after another, and prints a line after each."""
    results: list[Result] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(chosen) * len(functions))
        for workload in chosen:
            for function in functions:
                progress.update(task, description=f"{workload.title}, {function}")
                results.append(measure(workload, function, quick, threads))
                progress.advance(task)
                if console.is_terminal:
                    console.print(_line(results[-1]))
    return results


def measure(workload: Workload, function: str, quick: bool = False, threads: int = 0, check: bool = True) -> Result:
    """Builds both sides, measures their memory and alternating calls, and compares the results with JAX in f64."""
    result = Result(workload.name, workload.title, function)
    sides: dict[str, Side] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            for side in ("nabla", "jax"):
                sides[side] = Side.start(side, workload.name, function, folder, threads)
                result.compile[side] = sum(sides[side].built["seconds"].values())
            _look(result, sides, quick)
            if check:
                found = {side: np.load(process.ask("save")) for side, process in sides.items()}
                sides["truth"] = Side.start("truth", workload.name, function, folder)
                truth = np.load(sides["truth"].ask("save"))
                result.errors = {side: relative_error(numbers, truth) for side, numbers in found.items()}
        except RuntimeError as error:
            result.failure = str(error)
        finally:
            for process in sides.values():
                process.close()
    return result


def _look(result: Result, sides: dict[str, Side], quick: bool) -> None:
    """Measures memory, then the best time of each side; rounds alternate, so that a disturbance affects both sides."""
    ours = sides["nabla"].built
    result.driver, result.barriers, result.dispatches = ours["driver"], ours["barriers"], ours["dispatches"]
    for side, process in sides.items():
        memory = process.ask("memory", 4 if quick else 12)
        result.peak[side], result.growth[side] = memory["peak"], memory["growth"]
    first = {side: min(process.ask("time", 2)) for side, process in sides.items()}
    rounds = 3 if quick else 8
    calls = {side: max(1, min(50, int(0.3 / seconds))) for side, seconds in first.items()}
    for _ in range(rounds):
        for side, process in sides.items():
            first[side] = min(first[side], *process.ask("time", calls[side]))
    result.times = first


# ---------------------------------------------------------------- reports


def means(results: Iterable[Result]) -> dict[str, dict[str, float]]:
    """The geometric means of the ratios to JAX, by function and by measure."""
    found: dict[str, dict[str, float]] = {}
    for r in results:
        found.setdefault(r.function, {})
    for function in found:
        for measure in ("times", "peak", "compile"):
            ratios = [x for r in results if r.function == function and (x := r.ratio(measure))]
            if ratios:
                found[function][measure] = geometric_mean([max(x, 1e-3) for x in ratios])
    return found


def report(results: Sequence[Result]) -> None:
    """Prints a table for each function: times, memory, compile times, and the operations that run."""
    for function in dict.fromkeys(r.function for r in results):
        rows = [r for r in results if r.function == function]
        table = Table(title=f"{function}: ours and JAX's, and their ratio (less is better)", title_justify="left")
        columns = (
            "",
            "ms",
            "JAX",
            "",
            "peak MB",
            "JAX",
            "",
            "MB a call",
            "JAX",
            "compile s",
            "JAX",
            "",
            "dispatches",
            "barriers",
            "driver",
            "error",
            "JAX",
        )
        for column in columns:
            table.add_column(column, justify="right" if table.columns else "left")
        for r in rows:
            table.add_row(r.title, *(["[red]failed[/red]"] if r.failure else _cells(r)))
        found = means(rows)[function]
        mean = {measure: f"{found[measure]:.2f}" if measure in found else "" for measure in ("times", "peak", "compile")}
        table.add_row("[bold]geometric mean[/bold]", "", "", mean["times"], "", "", mean["peak"], "", "", "", "", mean["compile"])
        console.print(table)
        for r in rows:
            if r.failure:
                console.print(_line(r))


def _cells(r: Result) -> list[str]:
    grows = [f"{r.growth[side] / 1e6:.1f}" if r.growth[side] > GROWN else "0" for side in ("nabla", "jax")]
    errors = [f"{r.errors[side]:.0e}" if r.errors else "" for side in ("nabla", "jax")]
    return [
        *_pair(r, "times", 1e3, ".1f"),
        *_pair(r, "peak", 1e-6, ".0f"),
        *grows,
        *_pair(r, "compile", 1, ".1f"),
        f"{r.dispatches:,.0f}",
        f"{r.barriers}",
        r.driver.removeprefix("local-"),
        *errors,
    ]


def _pair(r: Result, measure: str, unit: float, form: str) -> list[str]:
    sides, ratio = getattr(r, measure), r.ratio(measure) or 0.0
    color = "red" if ratio > 1 else "green"
    return [f"{sides['nabla'] * unit:,{form}}", f"{sides['jax'] * unit:,{form}}", f"[{color}]{ratio:.2f}[/{color}]"]


def _line(r: Result) -> str:
    if r.failure:
        return f"{r.title}, {r.function}: [red]{r.failure.splitlines()[0][:150]}[/red]"
    ours, theirs = (
        f"{r.times[side] * 1e3:,.1f} ms, {r.peak[side] / 1e6:,.0f} MB, {r.compile[side]:.1f} s" for side in ("nabla", "jax")
    )
    return f"{r.title}, {r.function}: {ours} ({r.driver}); JAX {theirs}; ratio {r.ratio('times') or 0:.2f}"


def _find(results: Sequence[Result], workload: str, function: str) -> Result:
    return next(r for r in results if (r.workload, r.function) == (workload, function))


if __name__ == "__main__":
    sys.exit(main())
