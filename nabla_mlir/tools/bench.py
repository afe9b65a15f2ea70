"""nabla-mlir bench: what a call of each entry point costs here, dispatch by dispatch, against what the machine could do."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nabla_mlir.errors import DeployError, NablaError
from nabla_mlir.runtime import Executable, Module, load
from nabla_mlir.runtime.array import Array, dtype_named
from nabla_mlir.runtime.manifest import EntryPoint, Leaf
from nabla_mlir.runtime.storage import Artifact
from nabla_mlir.runtime.timing import durations, median
from nabla_mlir.tools.terminal import print_table

_SECONDS = 0.2  # that an entry point is called for
_PROFILED = 30  # calls whose dispatches are looked at,
_PROFILED_SECONDS = 1.0  # or as many as take so long
_COPY = 1 << 26  # bytes that are copied to measure the bandwidth
_MATRIX = 512


@dataclass(frozen=True)
class Machine:
    """What this machine does at best, measured: bytes (read and written) and operations (f32) a second."""

    bandwidth: float
    peak: float

    @staticmethod
    def measured() -> Machine:
        """Copies a large array and multiplies two matrices, as NumPy and as we do it, whichever is faster."""
        source, target = np.ones(_COPY, np.uint8), np.empty(_COPY, np.uint8)
        copying = min(durations(lambda: np.copyto(target, source), least=5))
        a = np.ones((_MATRIX, _MATRIX), np.float32)
        multiplying = min(min(durations(product, least=5)) for product in (lambda: a @ a, *_compiled_product(a)))
        return Machine(2 * _COPY / copying, 2 * _MATRIX**3 / multiplying)

    def bound(self, bytes: int, flops: int) -> float:
        """The seconds below which nothing that moves and computes so much can come."""
        return max(bytes / self.bandwidth, flops / self.peak)


def _compiled_product(a: np.ndarray) -> list[Callable[[], Any]]:
    """The product of a matrix with itself on a pool of threads, where the compiler is installed."""
    try:
        import nabla_mlir as nm

        compiled = nm.trace(lambda x: x @ x, a, name="product").lower().compile(nm.CPU("host"))
    except (ImportError, NablaError):
        return []
    product = Executable.load(compiled.vmfb, "local-task").function("product")
    on_device = Array.from_numpy(a, product.device)
    return [lambda: product([on_device])]


@dataclass(frozen=True)
class Dispatch:
    """A kernel of a call: its name, how often a call runs it, on how many workgroups, and seconds in one call."""

    name: str
    count: float
    workgroups: tuple[int, ...]
    seconds: float

    @property
    def is_copy(self) -> bool:
        """True if it only moves bytes."""
        return self.name.endswith("memcpy")


@dataclass(frozen=True)
class Timing:
    """An entry point: seconds of a call, its dispatches, bytes of arguments and results, operations if they are known."""

    name: str
    seconds: float
    dispatches: tuple[Dispatch, ...]
    bytes: int
    flops: int | None

    @property
    def kernels(self) -> float:
        """How many dispatches a call has."""
        return sum(d.count for d in self.dispatches)

    @property
    def copies(self) -> float:
        """How many of them only move bytes."""
        return sum(d.count for d in self.dispatches if d.is_copy)

    def to_json(self, machine: Machine) -> dict[str, Any]:
        """The numbers as JSON values."""
        kernels = [{"name": d.name, "count": d.count, "workgroups": d.workgroups, "seconds": d.seconds}
                   for d in self.dispatches]  # fmt: skip
        return {"name": self.name, "seconds": self.seconds, "bound": machine.bound(self.bytes, self.flops or 0),
                "bytes": self.bytes, "flops": self.flops, "dispatches": kernels}  # fmt: skip


def run(file: str, entry: str | None, driver: str | None, as_json: bool) -> int:
    """Measures an artifact and prints the tables, or JSON."""
    artifact = Artifact(file)
    module = load(file, driver)
    names = [entry] if entry else list(module.entry_points)
    machine = Machine.measured()
    flops = _flops(module)
    timings = [timing_of(module, artifact, name, flops.get(name)) for name in names]
    if as_json:
        content = {"driver": module.driver, "bandwidth": machine.bandwidth, "peak": machine.peak,
                   "entry_points": [t.to_json(machine) for t in timings]}  # fmt: skip
        print(json.dumps(content, indent=1))
        return 0
    _print(file, module.driver, machine, timings)
    return 0


def _print(file: str, driver: str, machine: Machine, timings: Sequence[Timing]) -> None:
    rows = [
        [t.name, _micro(t.seconds), _micro(machine.bound(t.bytes, t.flops or 0)), f"{t.kernels:g}", f"{t.copies:g}",
         f"{t.bytes:,}", "?" if t.flops is None else f"{t.flops:,}"]
        for t in timings
    ]  # fmt: skip
    title = f"{file} on {driver} (bound: {machine.bandwidth / 1e9:.0f} GB/s, {machine.peak / 1e9:.0f} GFLOP/s)"
    columns = ["entry point", "µs", "bound µs", "dispatches", "copies", "bytes in and out", "operations"]
    print_table(title, columns, rows)
    for t in timings:
        total = sum(d.seconds for d in t.dispatches) or 1.0
        rows = [
            [_micro(d.seconds), f"{d.seconds / total:.0%}", f"{d.count:g}", "x".join(map(str, d.workgroups)), d.name]
            for d in t.dispatches
        ]
        print_table(f"\n{t.name}: dispatches on one core", ["µs", "share", "times", "workgroups", "dispatch"], rows)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}"


def arguments_of(entry: EntryPoint, device: Any) -> list[Any]:
    """Arrays of ones for the arguments of an entry point, in their trees."""
    arguments = []
    for argument in entry.arguments:
        leaves = [Array.from_numpy(np.ones(leaf.shape, dtype_named(leaf.dtype)), device) for leaf in argument.leaves]
        arguments.append(argument.tree.unflatten(leaves))
    return arguments


def timing_of(module: Module, artifact: Artifact, name: str, flops: int | None = None) -> Timing:
    """Measures an entry point of a loaded artifact.

    Args:
      module: the artifact, loaded.
      artifact: its files.
      name: the entry point.
      flops: the operations of a call, if they are known.

    Raises:
      DeployError: there is no such entry point, or IREE's tools are missing.
    """
    if name not in module.entry_points:
        raise DeployError(f"bench requires an entry point among {', '.join(module.entry_points)}, got {name!r}.")
    entry = module.entry_points[name]
    arguments = arguments_of(entry, module.executable.device)

    def call() -> None:
        module[name](*arguments)
        module.executable.wait()

    seconds = median(call, _SECONDS)
    leaves = [leaf for argument in entry.arguments for leaf in argument.leaves]
    size = sum(leaf.nbytes for leaf in (*leaves, *entry.result_leaves))
    calls = max(1, min(_PROFILED, int(_PROFILED_SECONDS / seconds)))
    return Timing(name, seconds, dispatches_of(artifact.vmfb(module.code), entry, calls), size, flops)


def _flops(module: Module) -> dict[str, int]:
    """The operations of each entry point, where the StableHLO and the compiler are at hand."""
    try:
        return {name: cost.flops for name, cost in module.lower().cost().items()}
    except (DeployError, ImportError):
        return {}


def dispatches_of(vmfb: bytes, entry: EntryPoint, calls: int = 1) -> tuple[Dispatch, ...]:
    """What IREE's own profile of so many calls on one core says; nothing for an entry point that needs state.

    Calls are of arrays of ones. Each dispatch is timed wherever it runs, so that those in a loop count each time.

    Args:
      vmfb: the code.
      entry: the entry point.
      calls: over how many calls to take the mean.
    """
    leaves = [leaf for argument in entry.arguments for leaf in argument.leaves]
    with tempfile.TemporaryDirectory() as folder:
        code, profile = Path(folder, "module.vmfb"), Path(folder, "calls.ireeprof")
        code.write_bytes(vmfb)
        command = [
            _tool("iree-benchmark-module"), f"--module={code}", "--device=local-sync", "--device_allocator=caching",
            f"--function={entry.function or entry.name}", *map(_input, leaves), f"--benchmark_min_time={calls}x",
            "--device_profiling_mode=host-execution", f"--device_profiling_output={profile}",
            "--device_profiling_flush_interval_ms=1",  # what is not written in time is dropped, some 4000 events later
        ]  # fmt: skip
        if subprocess.run(command, capture_output=True).returncode or not profile.exists():
            return ()
        command = [_tool("iree-profile"), "dispatch", "--dispatch_events", "--format=jsonl", str(profile)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    events: dict[str, list[dict[str, Any]]] = {}
    for event in map(json.loads, lines):
        if event["type"] == "host_dispatch_event":
            events.setdefault(event["key"], []).append(event)
    dispatches = [
        Dispatch(name, len(group) / calls, tuple(group[0]["workgroup_count"]), sum(e["duration_ns"] for e in group) / calls / 1e9)
        for name, group in events.items()
    ]  # fmt: skip
    return tuple(sorted(dispatches, key=lambda d: -d.seconds))


_WORDS = {"bool": "i8", "float": "f", "int": "i", "uint": "ui", "bfloat": "bf", "complex": "complex"}


def _input(leaf: Leaf) -> str:
    """An argument of ones in the words of IREE's tools."""
    letters = leaf.dtype.rstrip("0123456789")
    if letters == "complex":
        element = f"complex<f{int(leaf.dtype[len(letters) :]) // 2}>"
    else:
        element = "i8" if letters == "bool" else _WORDS[letters] + leaf.dtype[len(letters) :]
    return f"--input={''.join(f'{n}x' for n in leaf.shape)}{element}=1"


def _tool(name: str) -> str:
    spec = importlib.util.find_spec("iree._runtime_libs")
    for folder in spec.submodule_search_locations or () if spec else ():
        if (path := Path(folder, name)).exists():
            return str(path)
    raise DeployError(f"bench requires IREE's {name}, got a runtime without it.", help="pip install iree-base-runtime")
