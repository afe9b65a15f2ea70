"""Predicts the work of a Hessian-vector product on CPUs, NVIDIA GPUs and Vulkan, without a device.

usage: python bench/devices.py [--only NAME ...] [--quick] [--out FOLDER]
Writes devices.json. Kernels are programs of a device, dispatches are the commands of the host that run them, and copies and fills
need no kernel; a command in a loop counts once. Traffic is an upper bound of the bytes that the dispatches read and write, and
memory is the peak allocation of a call. The floating-point operations are those of the IR, equal for all targets.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from frameworks import nabla, nabla_functions
from measuring import HERE, KNOWN, console, direction, save
from rich.table import Table
from workload import Workload
from workloads_large import LARGE

import nabla_mlir as nm
from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.internals.memory import allocated_at_once
from nabla_mlir.compiling.lowering import compile_lowered, legalize
from nabla_mlir.rules.cost import cost_of_function
from nabla_mlir.targets import Target
from nabla_mlir.targets.toolchain import disassembled

TARGETS: Sequence[Target] = (nm.CPU(), nm.CUDA("sm_90"), nm.Vulkan())
QUICK = ("gpt", "convolutions", "lstm-large")
_DISPATCH = re.compile(r"flow\.dispatch @[^:]+::\S+(?:\[[^\]]*\])?\(.*?\) : \((.*?)\) -> (.*)")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([a-z]+)(\d+)(?:>|,)")


@dataclass
class Result:
    """A workload on a target; `refusal` is the reason why it has no code."""

    title: str
    target: str
    kernels: int = 0
    dispatches: int = 0
    copies: int = 0
    submissions: int = 0
    traffic: int = 0
    memory: int = 0
    flops: int = 0
    compile: float = 0.0
    refusal: str = ""


def main() -> int:
    """Compiles the workloads, prints the table and writes devices.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(KNOWN), help="workloads of bench/")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)} alone")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.only or (QUICK if options.quick else [w.name for w in LARGE])
    results = [look(KNOWN[name], target) for name in names for target in TARGETS]
    show(results)
    save(options.out / "devices.json", {"results": [asdict(r) for r in results]})
    return 0


def look(workload: Workload, target: Target) -> Result:
    """Compiles the Hessian-vector product of a workload for a target."""
    function = nabla_functions(workload, workload.function(nabla()))["hvp"]
    x, *rest = workload.inputs()
    lowered = nm.trace(function, x, direction(x), *rest, name="hvp").lower()
    cost = cost_of_function(lowered.module.body.operations[0].operation)
    result = Result(workload.title, target.name, flops=cost.flops)
    with tempfile.TemporaryDirectory() as folder, console.status(f"{workload.title} for {target.name}"):
        file = Path(folder) / "statistics.json"
        flags = ("--iree-scheduling-dump-statistics-format=json", f"--iree-scheduling-dump-statistics-file={file}")
        start = time.perf_counter()
        try:
            vmfb = compile_lowered(lowered.module, target, flags=flags, cache=False)
        except CompileError as error:
            result.refusal = error.message.splitlines()[0]
            return result
        result.compile = time.perf_counter() - start
        counts, _ = json.JSONDecoder().raw_decode(file.read_text())
    execution = counts["stream-aggregate"]["execution"]
    result.kernels = counts["stream-aggregate"]["executable"]["executable-count"]
    result.dispatches = execution["dispatch-count"]
    result.copies = execution["fill-count"] + execution["copy-count"]
    result.submissions = execution["submission-count"]
    flow = compile_module(str(legalize(lowered.module, target)), target, flags=("--compile-to=flow",)).decode()
    result.traffic = sum(map(_bytes, _DISPATCH.findall(flow)))
    result.memory = allocated_at_once(disassembled(vmfb)).get("hvp", 0)
    return result


def _bytes(types: tuple[str, str]) -> int:
    """The bytes of the operands and results of a dispatch."""
    return sum(
        math.prod(map(int, filter(None, shape.split("x")))) * max(int(bits) // 8, 1) * (2 if letters == "complex" else 1)
        for shape, letters, bits in _TENSOR.findall(" ".join(types))
    )


def show(results: Sequence[Result]) -> None:
    """Prints a row for each workload and target."""
    table = Table(title="Hessian-vector products as compiled; loops count once", title_justify="left")
    for column in (
        "",
        "for",
        "kernels",
        "dispatches",
        "copies",
        "submissions",
        "MB read and written",
        "MB allocated",
        "Gflop",
        "compile s",
    ):
        table.add_column(column, justify="left" if column in ("", "for") else "right")
    for r in results:
        if r.refusal:
            table.add_row(r.title, r.target, r.refusal)
            continue
        amounts = (r.traffic / 1e6, r.memory / 1e6, r.flops / 1e9)
        table.add_row(
            r.title,
            r.target,
            str(r.kernels),
            f"{r.dispatches:,}",
            str(r.copies),
            str(r.submissions),
            *(f"{amount:,.3g}" for amount in amounts),
            f"{r.compile:.1f}",
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
