"""Hessian-vector products of this package against jax.jit of the same functions, on this machine, in this run.

usage: make bench, or python bench/run.py [--only NAME ...] [--quick] [--out FOLDER]
Writes results.json, results.png and, for each workload, the StableHLO of both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from frameworks import FUNCTIONS, build_jax, build_nabla, reference
from rich.console import Console
from rich.table import Table
from workload import Workload
from workloads import WORKLOADS
from workloads_sweep import SWEEP

HERE = Path(__file__).parent
console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)


@dataclass
class Result:
    """What was measured of one workload; times in seconds."""

    name: str
    title: str
    times: dict[str, dict[str, float]]
    chosen: str
    errors: dict[str, dict[str, float]]
    operations: dict[str, int]
    compile: dict[str, dict[str, float]]
    cold: dict[str, float]
    artifact: int
    notes: list[str] = field(default_factory=list)

    def ratio(self, name: str) -> float:
        """Our time with the chosen driver, over JAX's."""
        return self.times[name][self.chosen] / self.times[name]["jax"]


def main() -> int:
    """Runs the workloads; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"some of {', '.join(w.name for w in (*WORKLOADS, *SWEEP))}")
    parser.add_argument("--sweep", action="store_true", help="the second set of workloads instead")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, no cold starts")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.only:
        chosen = [w for w in (*WORKLOADS, *SWEEP) if w.name in options.only]
    else:
        chosen = [w for w in (SWEEP if options.sweep else WORKLOADS) if w.quick or not options.quick]
    if not chosen:
        parser.error(f"--only requires names of workloads, got {options.only}")
    results, wrong = [], []
    for workload in chosen:
        with console.status(f"{workload.title} ..."):
            result = run(workload, options.out, options.quick)
        results.append(result)
        bad = [f"{workload.title}: {note}" for note in result.notes]
        wrong += bad
        console.print(f"{workload.title}: hvp {result.times['hvp'][result.chosen] * 1e6:,.0f} µs ({result.chosen}), "
                      f"JAX {result.times['hvp']['jax'] * 1e6:,.0f} µs, ratio {result.ratio('hvp'):.2f}")  # fmt: skip
    report(results)
    save(results, options.out)
    for note in wrong:
        console.print(f"[bold red]WRONG[/bold red] {note}")
    return 1 if wrong else 0


def run(workload: Workload, out: Path, quick: bool) -> Result:
    """Builds both sides, checks and times them."""
    args = workload.inputs()
    v = _direction(args[0])
    path = out / f"{workload.name}.vmfb"
    ours = build_nabla(workload, args, v, path)
    theirs = build_jax(workload, args, v, path)
    truth = reference(workload, args, v)
    errors = {name: {"nabla": _error(ours.results[name], truth[name]), "jax": _error(theirs.results[name], truth[name])}
              for name in FUNCTIONS}  # fmt: skip
    notes = [f"{name} differs from f64 by {e['nabla']:.1e}, JAX's by {e['jax']:.1e}"
             for name, e in errors.items() if not e["nabla"] <= max(1e-3, 10 * e["jax"])]  # fmt: skip
    rounds, length = (5, 0.01) if quick else (25, 0.02)
    times = {name: interleaved(ours.calls[name] | theirs.calls[name], rounds, length) for name in FUNCTIONS}
    cold = {} if quick else cold_starts(workload, path, (args[0], v, *args[1:]))
    compile = {"nabla": ours.seconds, "jax": theirs.seconds}
    operations = {"nabla": ours.operations, "jax": theirs.operations}
    return Result(workload.name, workload.title, times, ours.chosen, errors, operations, compile, cold,
                  path.stat().st_size, notes)  # fmt: skip


def _direction(tree: Any) -> Any:
    import jax

    rng = np.random.default_rng(7)
    return jax.tree.map(lambda a: rng.normal(size=a.shape).astype(a.dtype), tree)


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int, length: float) -> dict[str, float]:
    """The median time of each call in its best round; rounds take turns, so that a disturbance meets all calls."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            times, end = [], time.perf_counter() + length
            while (start := time.perf_counter()) < end or len(times) < 3:
                call()
                times.append(time.perf_counter() - start)
            best[name] = min(best[name], float(np.median(times)))
    return best


def cold_starts(workload: Workload, path: Path, arguments: tuple[Any, ...]) -> dict[str, float]:
    """The time from the start of a process to its first product, the better of three."""
    import jax

    inputs = path.with_suffix(".npz")
    np.savez(inputs, **{f"{i:03}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(arguments))})
    seconds = {}
    for side in ("nabla", "jax"):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run([sys.executable, HERE / "cold.py", side, workload.name, path, inputs], check=True)
            times.append(time.perf_counter() - start)
        seconds[side] = min(times)
    return seconds


# ---------------------------------------------------------------- what is shown and kept


def report(results: list[Result]) -> None:
    """The tables: times, then what it costs to get there."""
    table = Table(title="Times in µs, and the ratio to JAX (less is better)", title_justify="left")
    for column in ("", "value", "", "gradient", "", "hvp", "JAX hvp", "", "driver", "other driver hvp"):
        table.add_column(column, justify="left" if column in ("driver",) or not table.columns else "right")
    for r in results:
        cells = [
            cell for name in FUNCTIONS for cell in (f"{r.times[name][r.chosen] * 1e6:,.0f}", f"{r.ratio(name):.2f}")
        ]
        cells.insert(5, f"{r.times['hvp']['jax'] * 1e6:,.0f}")
        other = next(t for driver, t in r.times["hvp"].items() if driver not in (r.chosen, "jax"))
        table.add_row(r.title, *cells, r.chosen, f"{other * 1e6:,.0f}")
    means = [f"{geometric_mean([r.ratio(name) for r in results]):.2f}" for name in FUNCTIONS]
    table.add_row("[bold]geometric mean[/bold]", "", means[0], "", means[1], "", "", means[2], "", "")
    console.print(table)
    table = Table(title="Cost (s); ops are those of the hvp", title_justify="left")
    for column in (
        "",
        "trace",
        "passes",
        "IREE",
        "share",
        "JAX compile",
        "ratio",
        "cold",
        "JAX cold",
        "ratio",
        "ops",
        "JAX ops",
        "bytes",
    ):
        table.add_column(column, justify="right" if table.columns else "left")
    for r in results:
        ours, theirs = r.compile["nabla"], r.compile["jax"]["total"]
        row = [f"{ours[stage]:.3f}" for stage in ("trace", "passes", "compile")]
        row += [f"{(ours['trace'] + ours['passes']) / ours['compile']:.1%}"]
        row += [f"{theirs:.2f}", f"{ours['total'] / theirs:.2f}"]
        row += (
            [f"{r.cold['nabla']:.2f}", f"{r.cold['jax']:.2f}", f"{r.cold['nabla'] / r.cold['jax']:.2f}"]
            if r.cold
            else [""] * 3
        )
        table.add_row(r.title, *row, str(r.operations["nabla"]), str(r.operations["jax"]), f"{r.artifact:,}")
    console.print(table)


def geometric_mean(ratios: list[float]) -> float:
    """Of positive numbers."""
    return float(np.exp(np.mean(np.log(ratios))))


def save(results: list[Result], out: Path) -> None:
    """The numbers as JSON and the ratios as a picture."""
    versions = {name: version(name) for name in ("nabla-mlir", "iree-base-compiler", "jax", "numpy")}
    machine = {
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }
    means = {name: geometric_mean([r.ratio(name) for r in results]) for name in FUNCTIONS if results}
    content = {
        "versions": versions,
        "machine": machine,
        "geometric_means": means,
        "results": [asdict(r) for r in results],
    }
    (out / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    draw(results, machine["cores"], out / "results.png")
    console.print(f"Written: {out / 'results.json'}, {out / 'results.png'}")


def draw(results: list[Result], cores: int, path: Path) -> None:
    """Ratios to JAX, one group of bars for each workload."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.55 * len(results) + 1.6), layout="constrained")
    places = np.arange(len(results))
    for i, (name, colour) in enumerate(zip(FUNCTIONS, ("#b8c4d6", "#6d8fc7", "#1f4e9c"), strict=True)):
        bars = axes.barh(places + (i - 1) * 0.27, [r.ratio(name) for r in results], 0.25, label=name, color=colour)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(yticks=places, yticklabels=[r.title for r in results], xscale="log",
             xlabel=f"time / time of jax.jit on {cores} cores (less is better)")  # fmt: skip
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
