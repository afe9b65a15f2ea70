"""The cost of a call on this machine: the dispatches of IREE's profile, and the limits of the machine."""

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

from nabla_mlir.base.errors import DeployError
from nabla_mlir.runtime.manifest import EntryPoint, Leaf
from nabla_mlir.runtime.timing import durations

_COPY = 1 << 26  # the number of bytes that are copied to measure the bandwidth
_MATRIX = 512


@dataclass(frozen=True)
class Machine:
    """Measured limits of this machine: bytes (read and written) and f32 operations per second."""

    bandwidth: float
    peak: float

    @staticmethod
    def measured(products: Callable[[np.ndarray], Sequence[Callable[[], Any]]] = lambda a: ()) -> Machine:
        """Times the copy of a large array, and the fastest product of a matrix with itself.

        Args:
          products: returns other functions that compute this product, in addition to NumPy's.
        """
        source, target = np.ones(_COPY, np.uint8), np.empty(_COPY, np.uint8)
        copying = min(durations(lambda: np.copyto(target, source), least=5))
        a = np.ones((_MATRIX, _MATRIX), np.float32)
        multiplying = min(min(durations(product, least=5)) for product in (lambda: a @ a, *products(a)))
        return Machine(2 * _COPY / copying, 2 * _MATRIX**3 / multiplying)

    def bound(self, bytes: int, flops: int) -> float:
        """A lower bound on the seconds of a computation that moves this many bytes and computes this many operations."""
        return max(bytes / self.bandwidth, flops / self.peak)


@dataclass(frozen=True)
class Dispatch:
    """A kernel of a call: its name, the number of runs in one call, its workgroups, and its seconds in one call."""

    name: str
    count: float
    workgroups: tuple[int, ...]
    seconds: float

    @property
    def is_copy(self) -> bool:
        """True if it only moves bytes."""
        return self.name.endswith("memcpy")


_ATTEMPTS = 3  # profiles that are made before one can be read: on a busy machine, iree-profile refused one once


def dispatches_of(vmfb: bytes, entry: EntryPoint, calls: int = 1) -> tuple[Dispatch, ...]:
    """The dispatches of a call of an entry point, the slowest first; empty if it needs state or the profile fails.

    They are those in IREE's profile of `calls` calls on one core, on arrays of ones. Each run of a dispatch is timed, also those in
    loops.

    Args:
      vmfb: the code.
      entry: the entry point.
      calls: the number of calls over which means are taken.
    """
    leaves = [leaf for argument in entry.arguments for leaf in argument.leaves]
    with tempfile.TemporaryDirectory() as folder:
        code, profile = Path(folder, "module.vmfb"), Path(folder, "calls.ireeprof")
        code.write_bytes(vmfb)
        command = [
            # A pool of one thread, because local-sync records no events.
            _tool("iree-benchmark-module"),
            f"--module={code}",
            "--device=local-task",
            "--task_topology_group_count=1",
            "--device_allocator=caching",
            f"--function={entry.function or entry.name}",
            *map(_input, leaves),
            f"--benchmark_min_time={calls}x",
            "--device_profiling_mode=host-execution",
            f"--device_profiling_output={profile}",
            "--device_profiling_flush_interval_ms=1",  # events that are not flushed are dropped after about 4000 others
        ]
        lines = _profiled(command, profile)
    events: dict[str, list[dict[str, Any]]] = {}
    for event in map(json.loads, lines):
        if event["type"] == "host_dispatch_event":
            events.setdefault(event["key"], []).append(event)
    dispatches = [
        Dispatch(name, len(group) / calls, tuple(group[0]["workgroup_count"]), sum(e["duration_ns"] for e in group) / calls / 1e9)
        for name, group in events.items()
    ]
    return tuple(sorted(dispatches, key=lambda d: -d.seconds))


def _profiled(command: list[str], profile: Path) -> list[str]:
    """The events of a profile as lines of JSON; none if the command fails that writes the profile, or if it cannot be read."""
    reading = [_tool("iree-profile"), "dispatch", "--dispatch_events", "--format=jsonl", str(profile)]
    for _ in range(_ATTEMPTS):
        if subprocess.run(command, capture_output=True).returncode or not profile.exists():
            return []
        read = subprocess.run(reading, capture_output=True, text=True)
        if read.returncode == 0:
            return read.stdout.splitlines()
    return []


_WORDS = {"bool": "i8", "float": "f", "int": "i", "uint": "ui", "bfloat": "bf", "complex": "complex"}


def _input(leaf: Leaf) -> str:
    """The option that gives IREE's tools an argument of ones: ``--input=2x3xf32=1`` for a leaf of type float32[2,3]."""
    letters = leaf.dtype.rstrip("0123456789")
    if letters == "complex":
        element = f"complex<f{int(leaf.dtype[len(letters) :]) // 2}>"
    else:
        element = "i8" if letters == "bool" else _WORDS[letters] + leaf.dtype[len(letters) :]
    return f"--input={''.join(f'{n}x' for n in leaf.shape)}{element}=1"


def _tool(name: str) -> str:
    """The path of a command-line tool of IREE's runtime; raises DeployError if the runtime does not have it."""
    spec = importlib.util.find_spec("iree._runtime_libs")
    for folder in spec.submodule_search_locations or () if spec else ():
        if (path := Path(folder, name)).exists():
            return str(path)
    raise DeployError(f"bench requires IREE's {name}, got a runtime without it.", help="pip install iree-base-runtime")
