"""Compares Hessian-vector products of nabla_mlir with jax.jit of the same functions, on this machine and in this run.

usage: make bench, or python bench/run.py [--only NAME ...] [--quick] [--out FOLDER]
Writes results.json, results.png, bounds.png and, for each workload, the StableHLO of both sides. PyTorch and CasADi are measured
too, if they are installed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bounds import RooflinePoint, roofline_point
from bounds import draw as draw_bounds
from bounds import report as report_bounds
from frameworks import FUNCTIONS, build_jax, build_nabla, reference
from measuring import HERE, console, cores, direction, draw, geometric_mean, interleaved, parse, relative_error, save
from peers import Peers, measure_peers, report_peers
from rich.table import Table
from sizes import Size
from workload import Workload

from nabla_mlir.runtime.profile import Machine
from nabla_mlir.tools.bench import measured_machine


@dataclass
class Result:
    """The measurements of one workload; times are in seconds."""

    name: str
    title: str
    times: dict[str, dict[str, float]]
    chosen: dict[str, str]
    errors: dict[str, dict[str, float]]
    sizes: dict[str, Size | None]
    compile: dict[str, dict[str, float]]
    cold: dict[str, float]
    artifact: int
    barriers: int
    point: RooflinePoint
    peers: Peers
    notes: list[str] = field(default_factory=list)

    def ratio(self, name: str) -> float:
        """The time of nabla_mlir with the selected driver, divided by that of JAX."""
        return self.ours(name) / self.times[name]["jax"]

    def ours(self, name: str) -> float:
        """The time of nabla_mlir with the driver that the artifact selects for the function."""
        return self.times[name][self.chosen[name]]


def main() -> int:
    """Runs the workloads; returns 1 if a result is wrong."""
    options, chosen = parse(__doc__.partition("\n")[0], "fewer repetitions, no cold starts")
    results, wrong, machine = [], [], measured_machine()
    for workload in chosen:
        with console.status(f"{workload.title} ..."):
            result = run(workload, options.out, options.quick, machine)
        results.append(result)
        bad = [f"{workload.title}: {note}" for note in result.notes]
        wrong += bad
        console.print(
            f"{workload.title}: hvp {result.ours('hvp') * 1e6:,.0f} µs ({result.chosen['hvp']}), "
            f"JAX {result.times['hvp']['jax'] * 1e6:,.0f} µs, ratio {result.ratio('hvp'):.2f}"
        )
    report(results)
    titles, points = [r.title for r in results], [r.point for r in results]
    seconds = [(r.ours("hvp"), r.times["hvp"]["jax"]) for r in results]
    report_bounds(titles, points, seconds, machine)
    report_peers(titles, [{name: r.ours(name) for name in FUNCTIONS} for r in results], [r.peers for r in results])
    means = {name: geometric_mean([r.ratio(name) for r in results]) for name in FUNCTIONS}
    content = {"geometric_means": means, "results": [asdict(r) for r in results]}
    save(options.out / "results.json", content)
    ratios = {name: [r.ratio(name) for r in results] for name in FUNCTIONS}
    label = f"time / time of jax.jit on {cores()} cores (less is better)"
    draw(titles, ratios, label, options.out / "results.png")
    draw_bounds(titles, points, seconds, options.out / "bounds.png")
    for note in wrong:
        console.print(f"[bold red]WRONG[/bold red] {note}")
    return 1 if wrong else 0


def run(workload: Workload, out: Path, quick: bool, machine: Machine) -> Result:
    """Builds, checks and times both sides."""
    args = workload.inputs()
    v = direction(args[0])
    path = out / f"{workload.name}.vmfb"
    ours = build_nabla(workload, args, v, path)
    theirs = build_jax(workload, args, v, path)
    truth = reference(workload, args, v)
    sides = {"nabla": ours.results, "jax": theirs.results}
    errors = {n: {side: relative_error(found[n], truth[n]) for side, found in sides.items()} for n in FUNCTIONS}
    notes = [
        f"{name} differs from f64 by {e['nabla']:.1e}, JAX's by {e['jax']:.1e}"
        for name, e in errors.items()
        if not e["nabla"] <= max(1e-3, 10 * e["jax"])
    ]
    times = {name: interleaved(ours.calls[name] | theirs.calls[name], quick) for name in FUNCTIONS}
    cold = {} if quick else cold_starts(workload, path, (args[0], v, *args[1:]))
    compile = {"nabla": ours.seconds, "jax": theirs.seconds}
    sizes = {"nabla": ours.size, "jax": theirs.size}
    flops = ours.size.flops if ours.size else 0
    point = roofline_point(path, flops, theirs.xla, machine)
    peers = measure_peers(workload, truth, flops, out, quick)
    return Result(
        workload.name,
        workload.title,
        times,
        ours.chosen,
        errors,
        sizes,
        compile,
        cold,
        path.stat().st_size,
        ours.barriers,
        point,
        peers,
        notes,
    )


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


# ---------------------------------------------------------------- reports


def report(results: list[Result]) -> None:
    """Prints the tables: times, then the costs of compilation."""
    table = Table(title="Times in µs, and the ratio to JAX (less is better)", title_justify="left")
    for column in ("", "value", "", "gradient", "", "hvp", "JAX hvp", "", "driver", "other driver hvp"):
        table.add_column(column, justify="left" if column in ("driver",) or not table.columns else "right")
    for r in results:
        cells = [cell for name in FUNCTIONS for cell in (f"{r.ours(name) * 1e6:,.0f}", f"{r.ratio(name):.2f}")]
        cells.insert(5, f"{r.times['hvp']['jax'] * 1e6:,.0f}")
        other = next(t for driver, t in r.times["hvp"].items() if driver not in (r.chosen["hvp"], "jax"))
        table.add_row(r.title, *cells, r.chosen["hvp"], f"{other * 1e6:,.0f}")
    means = [f"{geometric_mean([r.ratio(name) for r in results]):.2f}" for name in FUNCTIONS]
    table.add_row("[bold]geometric mean[/bold]", "", means[0], "", means[1], "", "", means[2], "", "")
    console.print(table)
    table = Table(title="Cost (s), bytes of the artifact, and barriers that cut the hvp", title_justify="left")
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
        "bytes",
        "barriers",
    ):
        table.add_column(column, justify="right" if table.columns else "left")
    for r in results:
        ours, theirs = r.compile["nabla"], r.compile["jax"]["total"]
        row = [f"{ours[stage]:.3f}" for stage in ("trace", "passes", "compile")]
        row += [f"{(ours['trace'] + ours['passes']) / ours['compile']:.1%}"]
        row += [f"{theirs:.2f}", f"{ours['total'] / theirs:.2f}"]
        row += [f"{r.cold['nabla']:.2f}", f"{r.cold['jax']:.2f}", f"{r.cold['nabla'] / r.cold['jax']:.2f}"] if r.cold else [""] * 3
        table.add_row(r.title, *row, f"{r.artifact:,}", str(r.barriers))
    console.print(table)
    _report_sizes(results)


def _report_sizes(results: list[Result]) -> None:
    table = Table(title="The IR of the hvp, before fusion: ours, JAX's, ratio", title_justify="left")
    measures = ("operations", "elements", "flops", "bytes")
    for column in ("", *(c for measure in measures for c in (measure, "JAX", ""))):
        table.add_column(column, justify="right" if table.columns else "left")
    for r in results:
        row = []
        for measure in measures:
            ours, theirs = (size and getattr(size, measure) for size in (r.sizes["nabla"], r.sizes["jax"]))
            row += [f"{n:,}" if n is not None else "?" for n in (ours, theirs)]
            row.append(f"{ours / theirs:.2f}" if ours and theirs else "")
        table.add_row(r.title, *row)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
