"""The cost of checks: their time in a cold compilation, divided by the time of lowering and compiling.

usage: checks.py [NAME ...]

Times are processor times of this process and of the compilers that it starts, so that other programs do not change them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gc
import resource
import statistics
import sys
import tempfile

import numpy as np
from frameworks import nabla, nabla_functions
from workloads import WORKLOADS
from workloads_sweep import SWEEP

import nabla_mlir as nm
from nabla_mlir.base import pytree
from nabla_mlir.compiling import checking

NAMES = (
    "rosenbrock-1e3",
    "logistic",
    "digits",
    "mlp",
    "attention",
    "conv",
    "n-body",
    "rnn",
    "mixture",
    "transformer",
    "orbit",
    "bundle",
    "process",
    "small",
    "options",
    "gelu",
    "lstm",
    "springs",
    "transport",
    "kalman",
)


def seconds() -> float:
    """The processor seconds of this process and of the compilers that it started."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts)


def main(names: tuple[str, ...]) -> None:
    """Prints a line for each Hessian-vector product, then the median and the worst."""
    spent = [0.0]
    check = checking._checks_of

    def timed(*args: object, **options: object) -> object:
        start = seconds()
        try:
            return check(*args, **options)
        finally:
            spent[0] += seconds() - start

    checking._checks_of = timed
    shares = []
    for name in names:
        workload = next(w for w in (*WORKLOADS, *SWEEP) if w.name == name)
        x, *rest = workload.inputs()
        traced = nm.trace(nabla_functions(workload, workload.function(nabla()))["hvp"], x, x, *rest, name="hvp")
        leaves = [np.asarray(leaf) for leaf in pytree.flatten((x, x, *rest))[0]]
        gc.collect()
        gc.freeze()  # otherwise the collector visits the objects of earlier programs again
        with tempfile.TemporaryDirectory() as folder:
            os.environ["NABLA_MLIR_CACHE_DIR"] = folder
            spent[0], start = 0.0, seconds()
            _, checks = checking.compile_checked(traced.lower().module, nm.CPU(), examples={"hvp": leaves})
        whole = seconds() - start
        shares.append(spent[0] / (whole - spent[0]))
        print(f"{name:16} {whole:7.2f} s {1e3 * spent[0]:8.1f} ms {shares[-1]:7.1%}  {checks['hvp']}", flush=True)
    print(f"median {statistics.median(shares):.1%}, worst {max(shares):.1%} of {len(shares)}")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or NAMES)
