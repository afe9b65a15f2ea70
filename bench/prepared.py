"""Prepared Hessian-vector products against a jitted jax.linearize of the gradient, and jax.vmap of it, in one run.

usage: python bench/prepared.py [--only NAME ...] [--quick] [--out FOLDER]
Writes prepared.json and prepared.png. Times are those of arrays on the device; a block is timed per column.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from frameworks import flat, jax_framework, nabla
from rich.table import Table
from run import HERE, _direction, _error, console, geometric_mean, interleaved
from workloads import WORKLOADS, Workload

BLOCKS = (4, 16, 64)
ROWS = ("update", "apply", *(f"block {n}" for n in BLOCKS))
LARGEST = 1 << 18  # elements of x up to which blocks are timed


@dataclass
class Result:
    """What was measured of one workload; times in seconds, by row and side."""

    title: str
    times: dict[str, dict[str, float]]
    error: float
    state_bytes: int
    jax_residual_bytes: int
    compile: dict[str, float]
    artifact: int

    def ours(self, row: str) -> float:
        """Our time with the driver that the artifact chooses."""
        return self.times[row]["nabla"]

    def ratio(self, row: str) -> float:
        """Our time over JAX's."""
        return self.times[row]["nabla"] / self.times[row]["jax"]


def measure(workload: Workload, quick: bool) -> Result:
    """Builds both sides, compares one product, and times them in turns."""
    import jax

    import nabla_mlir as nm
    from nabla_mlir import runtime

    args = workload.inputs()
    v = _direction(args[0])
    blocks = BLOCKS if flat(args[0]).size <= LARGEST else ()
    columns = {n: jax.tree.map(lambda a, n=n: np.stack([a * (i + 1) for i in range(n)]), v) for n in blocks}

    start = time.perf_counter()
    calls: dict[str, dict[str, Callable[[], Any]]] = {row: {} for row in ("update", "apply", *(f"block {n}" for n in blocks))}
    function = workload.function(nabla())
    put = lambda tree: jax.tree.map(lambda a: runtime.Array.from_numpy(a, device), tree)  # noqa: E731
    for n in blocks or (1,):
        entries = ("update", "apply", "apply_block") if blocks else ("update", "apply")
        stage = nm.hvp_module(function, *args, block=n, entry_points=entries)
        compiled = stage.compile(nm.CPU("host"), cache=False)
        device = runtime.device(compiled.driver)
        at, direction = put(args), put(v)
        update, apply = compiled.entry("update"), compiled.entry("apply")
        update(*at)
        if n == (blocks or (1,))[0]:
            seconds = {"nabla": time.perf_counter() - start}
            calls["update"]["nabla"] = lambda update=update, at=at: update(*at)
            calls["apply"]["nabla"] = lambda apply=apply, t=direction: apply(t)
            cost, size = stage.cost()["apply"], len(compiled.vmfb)
        if blocks:
            block, many = compiled.entry("apply_block"), put(columns[n])
            calls[f"block {n}"]["nabla"] = lambda block=block, many=many: block(many)
    product = flat(calls["apply"]["nabla"]())

    start = time.perf_counter()
    theirs = workload.function(jax_framework())
    x, direction, rest = (jax.tree.map(jax.device_put, tree) for tree in (args[0], v, args[1:]))
    linearize = jax.jit(lambda x, *rest: jax.linearize(jax.value_and_grad(lambda y: theirs(y, *rest)), x))
    _, linear = jax.block_until_ready(linearize(x, *rest))
    push = jax.jit(lambda linear, t: linear(t)[1])
    jax.block_until_ready(push(linear, direction))
    seconds["jax"] = time.perf_counter() - start
    calls["update"]["jax"] = lambda: jax.block_until_ready(linearize(x, *rest))
    calls["apply"]["jax"] = lambda: jax.block_until_ready(push(linear, direction))
    mapped = jax.jit(lambda linear, ts: jax.vmap(lambda t: linear(t)[1])(ts))
    for n in blocks:
        many = jax.tree.map(jax.device_put, columns[n])
        calls[f"block {n}"]["jax"] = lambda many=many: jax.block_until_ready(mapped(linear, many))
    error = _error(product, flat(push(linear, direction)))
    rounds, length = (5, 0.01) if quick else (25, 0.02)
    times = {row: interleaved(sides, rounds, length) for row, sides in calls.items()}
    for n in blocks:
        times[f"block {n}"] = {side: t / n for side, t in times[f"block {n}"].items()}
    kept = sum(a.nbytes for a in jax.tree.leaves(linear))
    return Result(workload.title, times, error, cost.state_bytes, kept, seconds, size)


def report(results: list[Result]) -> None:
    """The table: our time and its ratio to JAX for each row."""
    table = Table(title="Prepared HVP: time in µs (blocks: per column), ratio to JAX (less is better)", title_justify="left")
    for column in ("", *(c for row in ROWS for c in (row, "")), "state", "JAX's", "compile s", "JAX's", "bytes"):
        table.add_column(column, justify="right" if table.columns else "left")
    for r in results:
        cells = [c for row in ROWS for c in ((f"{r.ours(row) * 1e6:,.1f}", f"{r.ratio(row):.2f}") if row in r.times else ("", ""))]
        table.add_row(r.title, *cells, f"{r.state_bytes:,}", f"{r.jax_residual_bytes:,}", f"{r.compile['nabla']:.1f}",
                      f"{r.compile['jax']:.1f}", f"{r.artifact:,}")  # fmt: skip
    means = [c for row in ROWS for c in ("", f"{geometric_mean([r.ratio(row) for r in results if row in r.times]):.2f}")]
    table.add_row("[bold]geometric mean[/bold]", *means)
    console.print(table)


def draw(results: list[Result], path: Path) -> None:
    """Ratios to JAX, one group of bars for each workload."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.8 * len(results) + 1.6), layout="constrained")
    places = np.arange(len(results))
    for i, row in enumerate(ROWS):
        bars = axes.barh(places + (i - 2) * 0.17, [r.ratio(row) if row in r.times else np.nan for r in results], 0.16, label=row)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(yticks=places, yticklabels=[r.title for r in results], xscale="log",
             xlabel="time / time of jax.jit of jax.linearize (less is better)")  # fmt: skip
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> int:
    """Runs the workloads; 1 if a product is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"some of {', '.join(w.name for w in WORKLOADS)}")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [w for w in WORKLOADS if not options.only or w.name in options.only]
    if not chosen:
        parser.error(f"--only requires names among {', '.join(w.name for w in WORKLOADS)}, got {options.only}")
    results = []
    for workload in chosen:
        if workload.name == "conv" and nabla().conv is None:
            console.print(f"[dim]{workload.title}: skipped, nabla_mlir has no convolution yet[/dim]")
            continue
        with console.status(f"{workload.title} ..."):
            results.append(measure(workload, options.quick))
        r = results[-1]
        console.print(f"{r.title}: apply {r.ours('apply') * 1e6:,.1f} µs, ratio {r.ratio('apply'):.2f}, error {r.error:.1e}")
    report(results)
    (options.out / "prepared.json").write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    draw(results, options.out / "prepared.png")
    wrong = [r for r in results if not r.error < 1e-3]
    for r in wrong:
        console.print(f"[bold red]WRONG[/bold red] {r.title}: the product differs from JAX's by {r.error:.1e}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
