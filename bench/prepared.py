"""Prepared Hessian-vector products against a jitted jax.linearize of the gradient, and jax.vmap of it, in one run.

usage: python bench/prepared.py [--only NAME ...] [--quick] [--out FOLDER]
Writes prepared.json and prepared.png. Times are those of arrays on the device; a block is timed per column.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np
from frameworks import jax_framework, nabla
from measuring import console, direction, draw, flat, geometric_mean, interleaved, parse, relative_error, save
from rich.table import Table
from workload import Workload

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
    v = direction(args[0])
    blocks = BLOCKS if flat(args[0]).size <= LARGEST else ()
    columns = {n: jax.tree.map(lambda a, n=n: np.stack([a * (i + 1) for i in range(n)]), v) for n in blocks}

    start = time.perf_counter()
    calls: dict[str, dict[str, Callable[[], Any]]] = {
        row: {} for row in ("update", "apply", *(f"block {n}" for n in blocks))
    }
    function = workload.function(nabla())
    put = lambda tree: jax.tree.map(lambda a: runtime.Array.from_numpy(a, device), tree)  # noqa: E731
    for n in blocks or (1,):
        entries = ("update", "apply", "apply_block") if blocks else ("update", "apply")
        stage = nm.hvp_module(function, *args, block=n, entry_points=entries)
        compiled = stage.compile(nm.CPU("host"), cache=False)
        device = runtime.device(compiled.driver)
        at, t = put(args), put(v)
        update, apply = compiled.entry("update"), compiled.entry("apply")
        update(*at)
        if n == (blocks or (1,))[0]:
            seconds = {"nabla": time.perf_counter() - start}
            calls["update"]["nabla"] = lambda update=update, at=at: update(*at)
            calls["apply"]["nabla"] = lambda apply=apply, t=t: apply(t)
            cost, size = stage.cost()["apply"], len(compiled.vmfb)
        if blocks:
            block, many = compiled.entry("apply_block"), put(columns[n])
            calls[f"block {n}"]["nabla"] = lambda block=block, many=many: block(many)
    product = flat(calls["apply"]["nabla"]())

    start = time.perf_counter()
    theirs = workload.function(jax_framework())
    x, tangent, rest = (jax.tree.map(jax.device_put, tree) for tree in (args[0], v, args[1:]))
    linearize = jax.jit(lambda x, *rest: jax.linearize(jax.value_and_grad(lambda y: theirs(y, *rest)), x))
    _, linear = jax.block_until_ready(linearize(x, *rest))
    push = jax.jit(lambda linear, t: linear(t)[1])
    jax.block_until_ready(push(linear, tangent))
    seconds["jax"] = time.perf_counter() - start
    calls["update"]["jax"] = lambda: jax.block_until_ready(linearize(x, *rest))
    calls["apply"]["jax"] = lambda: jax.block_until_ready(push(linear, tangent))
    mapped = jax.jit(lambda linear, ts: jax.vmap(lambda t: linear(t)[1])(ts))
    for n in blocks:
        many = jax.tree.map(jax.device_put, columns[n])
        calls[f"block {n}"]["jax"] = lambda many=many: jax.block_until_ready(mapped(linear, many))
    error = relative_error(product, flat(push(linear, tangent)))
    times = {row: interleaved(sides, quick) for row, sides in calls.items()}
    for n in blocks:
        times[f"block {n}"] = {side: t / n for side, t in times[f"block {n}"].items()}
    kept = sum(a.nbytes for a in jax.tree.leaves(linear))
    return Result(workload.title, times, error, cost.state_bytes, kept, seconds, size)


def report(results: list[Result]) -> None:
    """The table: our time and its ratio to JAX for each row."""
    table = Table(
        title="Prepared HVP: time in µs (blocks: per column), ratio to JAX (less is better)", title_justify="left"
    )
    for column in ("", *(c for row in ROWS for c in (row, "")), "state", "JAX's", "compile s", "JAX's", "bytes"):
        table.add_column(column, justify="right" if table.columns else "left")
    for r in results:
        cells = [
            c
            for row in ROWS
            for c in ((f"{r.ours(row) * 1e6:,.1f}", f"{r.ratio(row):.2f}") if row in r.times else ("", ""))
        ]
        table.add_row(r.title, *cells, f"{r.state_bytes:,}", f"{r.jax_residual_bytes:,}", f"{r.compile['nabla']:.1f}",
                      f"{r.compile['jax']:.1f}", f"{r.artifact:,}")  # fmt: skip
    means = [
        c for row in ROWS for c in ("", f"{geometric_mean([r.ratio(row) for r in results if row in r.times]):.2f}")
    ]
    table.add_row("[bold]geometric mean[/bold]", *means)
    console.print(table)


def main() -> int:
    """Runs the workloads; 1 if a product is wrong."""
    options, chosen = parse(__doc__.partition("\n")[0], "fewer repetitions")
    results = []
    for workload in (w for w in chosen if not w.mapped):  # a map of small Hessians is not one product
        with console.status(f"{workload.title} ..."), jax.enable_x64(workload.is_wide()):
            results.append(measure(workload, options.quick))
        r = results[-1]
        console.print(
            f"{r.title}: apply {r.ours('apply') * 1e6:,.1f} µs, ratio {r.ratio('apply'):.2f}, error {r.error:.1e}"
        )
    report(results)
    save(options.out / "prepared.json", {"results": [asdict(r) for r in results]})
    ratios = {row: [r.ratio(row) if row in r.times else None for r in results] for row in ROWS}
    label = "time / time of jax.jit of jax.linearize (less is better)"
    draw([r.title for r in results], ratios, label, options.out / "prepared.png")
    wrong = [r for r in results if not r.error < 1e-3]
    for r in wrong:
        console.print(f"[bold red]WRONG[/bold red] {r.title}: the product differs from JAX's by {r.error:.1e}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
