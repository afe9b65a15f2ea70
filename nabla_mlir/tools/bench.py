"""nabla-mlir bench: the time of a call of each entry point on this machine, by dispatch, and the limits of the machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DeployError, NablaError
from nabla_mlir.runtime import Executable, Module, load
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.runtime.manifest import EntryPoint
from nabla_mlir.runtime.profile import Dispatch, Machine, dispatches_of
from nabla_mlir.runtime.storage import Artifact
from nabla_mlir.runtime.timing import median
from nabla_mlir.tools.terminal import Progress, print_table

_SECONDS = 0.2  # the time for which an entry point is called
_PROFILED = 30  # the largest number of profiled calls
_PROFILED_SECONDS = 1.0  # the time limit for profiled calls


def measured_machine() -> Machine:
    """The best rates of the machine; the matrix product is the faster of those of NumPy and nabla_mlir."""
    return Machine.measured(_compiled_product)


def _compiled_product(a: np.ndarray) -> list[Callable[[], Any]]:
    """A function that multiplies a matrix by itself on a thread pool, in a list; an empty list without the compiler."""
    try:
        import nabla_mlir as nm

        compiled = nm.trace(lambda x: x @ x, a, name="product").lower().compile(nm.CPU("host"))
    except (ImportError, NablaError):
        return []
    product = Executable.load(compiled.vmfb, "local-task").function("product")
    on_device = Array.from_numpy(a, product.device)
    return [lambda: product([on_device])]


@dataclass(frozen=True)
class Timing:
    """The measurements of an entry point: seconds of a call, dispatches, bytes of arguments and results, known operations."""

    name: str
    seconds: float
    dispatches: tuple[Dispatch, ...]
    bytes: int
    flops: int | None

    @property
    def kernels(self) -> float:
        """The number of dispatches of a call."""
        return sum(d.count for d in self.dispatches)

    @property
    def copies(self) -> float:
        """The number of dispatches that only move bytes."""
        return sum(d.count for d in self.dispatches if d.is_copy)

    def to_json(self, machine: Machine) -> dict[str, Any]:
        """The numbers as JSON values. `machine` has the measured bandwidth and peak, from which the bounds follow."""
        kernels = [{"name": d.name, "count": d.count, "workgroups": d.workgroups, "seconds": d.seconds} for d in self.dispatches]
        return {
            "name": self.name,
            "seconds": self.seconds,
            "bound": machine.bound(self.bytes, self.flops or 0),
            "bytes": self.bytes,
            "flops": self.flops,
            "dispatches": kernels,
        }


def run(file: str, entry: str | None, driver: str | None, as_json: bool) -> int:
    """Measures an artifact and prints the tables, or JSON if `as_json`; returns the exit code 0.

    `entry` is the only entry point that is measured, `driver` runs the code; None means all entry points and the default driver.
    """
    artifact = Artifact(file)
    module = load(file, driver)
    names = [entry] if entry else list(module.entry_points)
    progress = Progress()
    with progress.status("measuring what this machine does at best"):
        machine = measured_machine()
    flops, timings = _flops(module), []
    for name in names:
        with progress.status(f"measuring {name}"):
            timings.append(timing_of(module, artifact, name, flops.get(name)))
    if as_json:
        content = {
            "driver": module.driver,
            "bandwidth": machine.bandwidth,
            "peak": machine.peak,
            "entry_points": [t.to_json(machine) for t in timings],
        }
        print(json.dumps(content, indent=1))
        return 0
    _print(file, module.driver, machine, timings)
    return 0


def _print(file: str, driver: str, machine: Machine, timings: Sequence[Timing]) -> None:
    """Prints a table of the entry points with their times and bounds, and a table of the dispatches of each entry point.

    `machine` has the measured bandwidth and peak, and `timings` has one entry for each entry point.
    """
    rows = [
        [
            t.name,
            _micro(t.seconds),
            _micro(machine.bound(t.bytes, t.flops or 0)),
            f"{t.kernels:g}",
            f"{t.copies:g}",
            f"{t.bytes:,}",
            "?" if t.flops is None else f"{t.flops:,}",
        ]
        for t in timings
    ]
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
    """Arrays of ones on a device for the arguments of an entry point, each in the pytree of its argument."""
    arguments = []
    for argument in entry.arguments:
        leaves = [Array.from_numpy(np.ones(leaf.shape, dtype_named(leaf.dtype)), device) for leaf in argument.leaves]
        arguments.append(argument.tree.unflatten(leaves))
    return arguments


def timing_of(module: Module, artifact: Artifact, name: str, flops: int | None = None) -> Timing:
    """The measurements of an entry point of a loaded artifact.

    Args:
      module: the loaded artifact.
      artifact: the files of the artifact.
      name: the name of the entry point.
      flops: the number of operations of a call, if known.

    Raises:
      DeployError: the entry point does not exist, or IREE's tools are missing.
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
    """The number of operations of each entry point by name; empty if the artifact lacks its StableHLO or there is no compiler.

    `module` is the loaded artifact.
    """
    try:
        return {name: cost.flops for name, cost in module.lower().cost().items()}
    except (DeployError, ImportError):
        return {}
