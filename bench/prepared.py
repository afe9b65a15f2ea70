"""Compares prepared Hessian-vector products with JAX and PyTorch in one run: from scratch, linearised, and in blocks.

usage: python bench/prepared.py [--only NAME ...] [--quick] [--out FOLDER]
Writes prepared.json and prepared.png. Calls use arrays on the device; the time of a block is given for each column. In JAX,
`update` and `apply` are a jitted jax.linearize of the gradient, a block is jax.vmap of it, and `hvp` is a jitted jvp of the
gradient. The functions of PyTorch are those of torch.func, if PyTorch is installed.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from frameworks import jax_framework, jax_functions, nabla
from measuring import HERE, console, direction, draw, flat, geometric_mean, interleaved, parse, relative_error, save
from peers import is_installed
from rich.table import Table
from torch_peer import linearized_call, torch_calls
from workload import Workload

BLOCKS = (4, 16, 64)
ROWS = ("value", "gradient", "hvp", "update", "apply", *(f"block {n}" for n in BLOCKS))
LARGEST = 1 << 18  # the largest number of elements of x for which blocks are timed
Calls = dict[str, Callable[[], Any]]


@dataclass
class Result:
    """The measurements of one workload: times in seconds, by row and side."""

    title: str
    times: dict[str, dict[str, float]]
    errors: dict[str, float]
    compile: dict[str, float]
    state_bytes: int
    jax_residual_bytes: int
    peak_bytes: int
    artifact: int
    first: float

    def ours(self, row: str) -> float:
        """The time of nabla_mlir with the driver that the artifact selects."""
        return self.times[row]["nabla"]

    def ratio(self, row: str, peer: str = "jax") -> float | None:
        """The time of nabla_mlir divided by that of a peer; None if one was not measured."""
        sides = self.times.get(row, {})
        return sides["nabla"] / sides[peer] if {"nabla", peer} <= set(sides) else None


def measure(workload: Workload, quick: bool, out: Path) -> Result:
    """Builds all sides, compares their products, and times them alternately."""
    args = workload.inputs()
    v = direction(args[0])
    blocks = BLOCKS if flat(args[0]).size <= LARGEST else ()
    columns = {n: jax.tree.map(lambda a, n=n: np.stack([a * (i + 1) for i in range(n)]), v) for n in blocks}
    path = out / f"{workload.name}.prepared.vmfb"
    ours, cost, seconds = _ours(workload, args, v, columns, path)
    theirs, linear, jax_seconds = _jax(workload, args, v, columns)
    sides = {"nabla": ours, "jax": theirs}
    if is_installed("torch"):
        sides["torch"] = {**torch_calls(workload, args, v), "apply": linearized_call(workload, args, v)}
    wanted = flat(theirs["hvp"]())
    errors = {s: relative_error(flat(jax.tree.map(np.asarray, calls["apply"]())), wanted) for s, calls in sides.items()}
    times = {}
    for row in ROWS:
        calls = {side: made[row] for side, made in sides.items() if row in made}
        count = int(row.split()[1]) if row.startswith("block") else 1
        if calls:
            times[row] = {side: t / count for side, t in interleaved(calls, quick).items()}
    first = min(
        float(subprocess.run([sys.executable, HERE / "first.py", path], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    )
    stored = sum(a.nbytes for a in jax.tree.leaves(linear))
    return Result(
        workload.title,
        times,
        errors,
        {"nabla": seconds, "jax": jax_seconds},
        cost["apply"].state_bytes,
        stored,
        cost["update"].peak_bytes,
        path.stat().st_size,
        first,
    )


def _ours(workload: Workload, args: tuple[Any, ...], v: Any, columns: dict[int, Any], path: Path) -> tuple[Calls, Any, float]:
    """Builds one artifact for each size of a block; the other entry points are those of the first artifact."""
    import nabla_mlir as nm
    from nabla_mlir import runtime

    calls: Calls = {}
    function = workload.function(nabla())
    put = lambda tree: jax.tree.map(lambda a: runtime.Array.from_numpy(a, device), tree)  # noqa: E731
    for n in columns or (1,):
        start = time.perf_counter()
        entries = ["update", "apply", *(["apply_block"] if columns else [])]
        entries += [] if calls else ["value", "gradient", "apply_at"]
        stage = nm.hvp_module(function, *args, block=n, entry_points=entries)
        compiled = stage.compile(nm.CPU("host"), cache=False)
        seconds_of_block = time.perf_counter() - start
        file = path.with_suffix(f".{n}.vmfb") if calls else path
        compiled.save(file)
        module = runtime.load(file)  # as in deployment: a file and only the runtime
        device = module.executable.device
        at, t, entry = put(args), put(v), module.__getitem__
        entry("update")(*at)
        if not calls:
            seconds, cost = seconds_of_block, stage.cost()
            given = {"value": at, "gradient": at, "apply_at": (at[0], t, *at[1:]), "update": at, "apply": (t,)}
            for name, inputs in given.items():
                row = "hvp" if name == "apply_at" else name
                calls[row] = functools.partial(entry(name), *inputs)
        if columns:
            calls[f"block {n}"] = functools.partial(entry("apply_block"), put(columns[n]))
    return calls, cost, seconds


def _jax(workload: Workload, args: tuple[Any, ...], v: Any, columns: dict[int, Any]) -> tuple[Calls, Any, float]:
    """Builds the same calls with JAX; also returns its linearisation, and the compile time of it and its product."""

    def ready(call: Callable[..., Any], *inputs: Any) -> Any:
        return jax.block_until_ready(call(*inputs))

    function = workload.function(jax_framework())
    x, t, rest = (jax.tree.map(jax.device_put, tree) for tree in (args[0], v, args[1:]))
    start = time.perf_counter()
    linearize = jax.jit(lambda x, *rest: jax.linearize(jax.value_and_grad(lambda y: function(y, *rest)), x))
    _, linear = ready(linearize, x, *rest)
    push = jax.jit(lambda linear, t: linear(t)[1])
    ready(push, linear, t)
    seconds = time.perf_counter() - start
    partial = functools.partial
    calls: Calls = {"update": partial(ready, linearize, x, *rest), "apply": partial(ready, push, linear, t)}
    for name, f in jax_functions(workload).items():
        inputs = (x, t, *rest) if name == "hvp" else (x, *rest)
        calls[name] = partial(ready, jax.jit(f), *inputs)
    mapped = jax.jit(lambda linear, ts: jax.vmap(lambda t: linear(t)[1])(ts))
    for n, trees in columns.items():
        calls[f"block {n}"] = partial(ready, mapped, linear, jax.tree.map(jax.device_put, trees))
    return calls, linear, seconds


# ---------------------------------------------------------------- reports


def report(results: list[Result]) -> None:
    """Prints the tables: times of nabla_mlir, ratios to JAX and PyTorch, and the costs of compilation."""
    _ratios(results, "jax", "Time in µs (blocks: per column), and ratio to JAX (less is better)")
    if any("torch" in sides for r in results for sides in r.times.values()):
        _ratios(results, "torch", "Time in µs, and ratio to torch.func on the CPU (less is better)")
    else:
        console.print("[dim]torch.func: skipped, PyTorch is not installed (pip install 'nabla-mlir[bench-peers]')[/dim]")
    table = Table(title="Cost: bytes, and seconds to compile and from a file to the first product", title_justify="left")
    for column in ("", "state", "JAX's residuals", "peak", "artifact", "compile", "JAX compile", "first"):
        table.add_column(column, justify="right" if table.columns else "left")
    for r in results:
        sizes = [f"{n:,}" for n in (r.state_bytes, r.jax_residual_bytes, r.peak_bytes, r.artifact)]
        table.add_row(r.title, *sizes, f"{r.compile['nabla']:.1f}", f"{r.compile['jax']:.1f}", f"{r.first:.3f}")
    console.print(table)


def _ratios(results: list[Result], peer: str, title: str) -> None:
    table = Table(title=title, title_justify="left")
    rows = [row for row in ROWS if any(r.ratio(row, peer) is not None for r in results)]
    for column in ("", *(c for row in rows for c in (row, ""))):
        table.add_column(column, justify="right" if table.columns else "left")
    for r in results:
        cells = []
        for row in rows:
            ratio = r.ratio(row, peer)
            cells += ["", ""] if ratio is None else [f"{r.ours(row) * 1e6:,.1f}", f"{ratio:.2f}"]
        table.add_row(r.title, *cells)
    found = [[x for r in results if (x := r.ratio(row, peer)) is not None] for row in rows]
    table.add_row("[bold]geometric mean[/bold]", *(c for ratios in found for c in ("", f"{geometric_mean(ratios):.2f}")))
    console.print(table)


def main() -> int:
    """Runs the workloads; returns 1 if a product is wrong."""
    options, chosen = parse(__doc__.partition("\n")[0], "fewer repetitions")
    results = []
    for workload in (w for w in chosen if not w.mapped):  # a map of small Hessians is not one product
        with console.status(f"{workload.title} ..."), jax.enable_x64(workload.is_wide()):
            results.append(measure(workload, options.quick, options.out))
        r = results[-1]
        console.print(
            f"{r.title}: apply {r.ours('apply') * 1e6:,.1f} µs, ratio {r.ratio('apply'):.2f}, error {r.errors['nabla']:.1e}"
        )
    report(results)
    save(options.out / "prepared.json", {"results": [asdict(r) for r in results]})
    ratios = {row: [r.ratio(row) for r in results] for row in ROWS if row not in ("value", "gradient")}
    draw([r.title for r in results], ratios, "time / JAX's (less is better)", options.out / "prepared.png")
    wrong = [(r, side, e) for r in results for side, e in r.errors.items() if not e < 1e-3]
    for r, side, e in wrong:
        console.print(f"[bold red]WRONG[/bold red] {r.title}: the product of {side} differs from JAX's by {e:.1e}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
