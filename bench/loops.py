"""Compares loops of small steps under `jit` with `jax.jit`: samplers, solvers, filters and searches.

usage: python bench/loops.py [--only WORD ...] [--quick] [--out FOLDER]
Writes loops.json and loops.png. The arguments are f32 arrays of the device; compiling is the time of the first call.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import jax
import numpy as np
from beside_jax import measure, report
from loop_programs import PROGRAMS, Program
from measuring import console, flat, parse_words, relative_error

import nabla_mlir.jax


def _prepared(fw: Any, program: Program) -> Any:
    """A call of the program, compiled by a framework."""
    arguments = [fw.random.PRNGKey(x) if isinstance(x, int) else fw.numpy.asarray(x) for x in program.arguments]
    function = fw.jit(lambda *xs: program.function(fw, *xs))
    return lambda: fw.block_until_ready(function(*arguments))


def main() -> int:
    """Measures the programs; returns 1 if results differ from those of JAX."""
    options, chosen = parse_words(__doc__.partition("\n")[0], "programs", "fewer repetitions", PROGRAMS)
    results = []
    with tempfile.TemporaryDirectory() as folder:  # the first call compiles
        os.environ["NABLA_MLIR_CACHE_DIR"] = folder
        for program in chosen:
            calls = {"ours": _prepared(nabla_mlir.jax, program), "jax": _prepared(jax, program)}
            with console.status(f"{program.title} ..."):
                results.append(
                    measure(program.title, calls, lambda out: flat(jax.tree.map(np.asarray, out)), relative_error, options.quick)
                )
    # Accepted steps depend on rounding, and with them the steps after.
    return report("loops", results, 1e-2, "µs", options.out)


if __name__ == "__main__":
    sys.exit(main())
