"""Compares loops of small steps under `jit` with `jax.jit`: samplers, solvers, filters and searches.

usage: python bench/loops.py [--only WORD ...] [--quick] [--out FOLDER]
Writes loops.json and loops.png. The arguments are f32 arrays of the device; compiling is the time of the first call.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np
from loop_programs import PROGRAMS, Program
from measuring import console, cores, draw, flat, geometric_mean, interleaved, parse_words, relative_error, save
from rich.table import Table

import nabla_mlir.jax


@dataclass(frozen=True)
class Result:
    """The seconds of a call and of the first call for nabla_mlir and JAX, and the relative difference of their results."""

    title: str
    ours: float
    jax: float
    our_first: float
    jax_first: float
    difference: float


def _prepared(fw: Any, program: Program) -> Any:
    """A call of the program, compiled by a framework."""
    arguments = [fw.random.PRNGKey(x) if isinstance(x, int) else fw.numpy.asarray(x) for x in program.arguments]
    function = fw.jit(lambda *xs: program.function(fw, *xs))
    return lambda: fw.block_until_ready(function(*arguments))


def measure(program: Program, quick: bool) -> Result:
    """Measures one program on both sides."""
    calls = {"ours": _prepared(nabla_mlir.jax, program), "jax": _prepared(jax, program)}
    first, results = {}, {}
    for name, call in calls.items():
        start = time.perf_counter()
        results[name] = flat(jax.tree.map(np.asarray, call()))
        first[name] = time.perf_counter() - start
    seconds = interleaved(calls, quick)
    difference = relative_error(results["ours"], results["jax"])
    return Result(program.title, seconds["ours"], seconds["jax"], first["ours"], first["jax"], difference)


def main() -> int:
    """Measures the programs; returns 1 if results differ from those of JAX."""
    options, chosen = parse_words(__doc__.partition("\n")[0], "programs", "fewer repetitions", PROGRAMS)
    results = []
    with tempfile.TemporaryDirectory() as folder:  # the first call compiles
        os.environ["NABLA_MLIR_CACHE_DIR"] = folder
        for program in chosen:
            with console.status(f"{program.title} ..."):
                results.append(measure(program, options.quick))
    table = Table("", "µs", "ratio", "first call, s", "difference", title=f"Ours / JAX's on {cores()} cores", title_justify="left")
    for r in results:
        times, first = f"{r.ours * 1e6:.3g} / {r.jax * 1e6:.3g}", f"{r.our_first:.2f} / {r.jax_first:.2f}"
        table.add_row(r.title, times, f"{r.ours / r.jax:.2f}", first, f"{r.difference:.0e}")
    console.print(table)
    console.print(f"Geometric mean of the ratios: {geometric_mean([r.ours / r.jax for r in results]):.2f}")
    save(options.out / "loops.json", {"loops": [asdict(r) for r in results]})
    draw([r.title for r in results], {"our time": [r.ours / r.jax for r in results]}, "times JAX's", options.out / "loops.png")
    # Accepted steps depend on rounding, and with them the steps after.
    wrong = [r for r in results if not r.difference < 1e-2]
    for r in wrong:
        console.print(f"[bold red]FAILED[/bold red] {r.title}: a difference of {r.difference:.1e}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
