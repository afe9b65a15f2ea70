"""The kernels into which IREE compiles a module, each with its operations and its cost."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nabla_mlir.base.errors import CompileError, DtypeError, NablaError
from nabla_mlir.compiling.internals import flow
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import dtype_in_mlir
from nabla_mlir.explorer.recording import Recorder
from nabla_mlir.runtime.manifest import EntryPoint
from nabla_mlir.runtime.profile import Dispatch, Machine, dispatches_of
from nabla_mlir.staging.compiled import Compiled
from nabla_mlir.table.traits import runs_regions
from nabla_mlir.targets import Target
from nabla_mlir.targets.base import merge_flags
from nabla_mlir.targets.toolchain import run_compiler

_TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+(?:<\w+>)?)>")


def dispatches_in(recorder: Recorder, target: Target) -> list[dict[str, Any]]:
    """The JSON of the kernels of the recorder's current module, in the order of their calls.

    Raises:
      CompileError: IREE refuses the module.
    """
    text = recorder.module.operation.get_asm(enable_debug_info=True)
    result = run_compiler(["-", *merge_flags(target.flags(), flow.FLAGS)], text.encode(), timeout=600.0)
    if result.returncode:
        raise CompileError(f"explain requires a module that IREE compiles, got: {result.stderr.splitlines()[:1]}")
    return read_kernels(result.stdout.decode(), recorder)


def read_kernels(text: str, recorder: Recorder) -> list[dict[str, Any]]:
    """A list of JSON objects, one for each kernel of a module: its name, operations, calls, bytes and FLOPs.

    `text` is the module after IREE's flow phase, and `recorder` has the operations before IREE.
    """
    state = recorder.states[-1]
    counted = _whole(recorder)  # without the parts of other operations, such as the combiner of a reduction
    kernels: dict[tuple[str, str], dict[str, Any]] = {}
    for call in flow.calls(text):
        numbers = sorted({n for n in map(recorder.position_of, call.sources) if n >= 0})
        numbers = [n for n in numbers if n in counted]
        kernel = kernels.setdefault(
            (call.caller, call.name),
            {
                "name": call.name,
                "entry": call.caller,
                "operations": numbers,
                "calls": 0,
                "bytes": 0,
                "flops": sum(state.operations[n].flops for n in numbers),
                "seconds": None,
                "workgroups": [],
            },
        )
        kernel["calls"] += 1
        kernel["bytes"] += _bytes(call.types)
    return list(kernels.values())


def _whole(recorder: Recorder) -> set[int]:
    """The numbers of the operations in the recorder's last state that run by themselves.

    Parts of another operation, such as the combiner of a reduction, are left out; operations inside control flow are included.
    """
    inside: set[int] = set()
    for op in nested(recorder.module.operation):
        if op.name != "func.func" and not runs_regions(op):
            inside.update(recorder.number_of(part) for part in nested(op))
    functions = {i for i, op in enumerate(recorder.states[-1].operations) if op.name.startswith("func.")}
    return set(range(len(recorder.states[-1].operations))) - inside - functions


def _bytes(types: str) -> int:
    """The size in bytes of all arrays in the text of a signature; arrays of unknown lengths are left out."""
    total = 0
    for lengths, element in _TENSOR.findall(types):
        try:
            size = dtype_in_mlir(element).itemsize
        except DtypeError:
            continue
        total += math.prod(map(int, lengths.split("x")[:-1])) * size
    return total


def measure(kernels: Sequence[dict[str, Any]], compiled: Compiled) -> dict[str, Any] | None:
    """The measured bandwidth and peak of this machine by name; the measured seconds of each kernel are added to `kernels`.

    None, and nothing is added, if the target does not run on this machine, or if an entry point needs a state. `compiled` is the
    compiled module.
    """
    try:
        entries: Mapping[str, EntryPoint] = compiled.loaded.entry_points
    except NablaError:
        return None
    times: dict[tuple[str, str], Dispatch] = {}
    for name, entry in entries.items():
        times.update(((name, d.name), d) for d in dispatches_of(compiled.vmfb, entry, calls=10))
    for kernel in kernels:
        dispatch = times.get((kernel["entry"], kernel["name"]))
        if dispatch is not None:
            kernel["seconds"], kernel["workgroups"] = dispatch.seconds, list(dispatch.workgroups)
            kernel["calls"] = dispatch.count
    machine = Machine.measured()
    fastest = max((k["flops"] / k["seconds"] for k in kernels if k["seconds"]), default=0.0)
    # On a busy machine a kernel may be faster than the product that measures the peak, so the peak is the larger value.
    return {"bandwidth": machine.bandwidth, "peak": max(machine.peak, fastest)}
