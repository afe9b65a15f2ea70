"""Measures further peers that are installed: eager and compiled PyTorch, CasADi, and Enzyme-JAX.

Each runs in a separate process, which can be ended, because torch.compile may take minutes for an unrolled loop.
usage: python bench/peers.py PEER WORKLOAD TRUTH.npz [--quick]
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from casadi_peer import casadi_calls
from enzyme_peer import enzyme_calls
from measuring import HERE, KNOWN, console, direction, flat, geometric_mean, interleaved, relative_error
from rich.table import Table
from torch_peer import compiled_calls, torch_calls
from workload import Workload

LONGEST = 120  # the time limit in seconds for the three functions of a workload
CASADI_FLOPS = 1e7  # the largest number of operations of an hvp for which the CasADi graph of scalars is built
Calls = dict[str, Callable[[], Any]]


@dataclass
class Peers:
    """The measurements of one workload: seconds by function and peer, errors against f64, and failures."""

    times: dict[str, dict[str, float]] = field(default_factory=dict)
    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Peer:
    """A peer: the required package, the function that makes its calls, and the largest workload."""

    package: str
    calls: Callable[[Workload, tuple[Any, ...], Any], Calls]
    flops: float = float("inf")


PEERS = {
    "torch": Peer("torch", torch_calls),
    "torch.compile": Peer("torch", compiled_calls),
    "casadi": Peer("casadi", casadi_calls, CASADI_FLOPS),
    "enzyme": Peer("enzyme_ad", enzyme_calls),
}


def is_installed(package: str) -> bool:
    """True if a package can be imported."""
    return importlib.util.find_spec(package) is not None


def measure_peers(workload: Workload, truth: dict[str, np.ndarray], flops: int, out: Path, quick: bool) -> Peers:
    """Times the installed peers on workloads that are small enough, and compares the results with those in f64."""
    found, path = Peers(), out / f"{workload.name}.truth.npz"
    np.savez(path, **truth)
    for name, peer in PEERS.items():
        if not is_installed(peer.package) or flops > peer.flops:
            continue
        command = [sys.executable, HERE / "peers.py", name, workload.name, path, *(["--quick"] if quick else [])]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LONGEST)
            said, fault = done.stdout, done.stderr.decode().strip().splitlines()[-1:] if done.returncode else []
        except subprocess.TimeoutExpired as error:
            said, fault = error.stdout or b"", [f"longer than {LONGEST} s"]
        for line in said.decode().splitlines():
            function, seconds, difference = json.loads(line)
            found.times.setdefault(function, {})[name] = seconds
            found.errors.setdefault(function, {})[name] = difference
            if not difference < 1e-3:
                fault.append(f"{function} differs from f64 by {difference:.1e}")
        found.notes += [f"{name}: {text}" for text in fault]
    return found


def main(name: str, workload: Workload, truth: Any, quick: bool) -> None:
    """Prints the time and the error of each function as soon as they are measured."""
    args, function = workload.inputs(), "all"
    try:
        for function, call in PEERS[name].calls(workload, args, direction(args[0])).items():
            result = flat(jax.tree.map(np.asarray, call()))  # the first call compiles
            seconds = interleaved({name: call}, quick)[name]
            print(json.dumps([function, seconds, relative_error(result, truth[function])]), flush=True)
    except Exception as error:  # a peer may raise any error
        sys.exit(f"{function}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


def report_peers(titles: list[str], ours: list[dict[str, float]], found: list[Peers]) -> None:
    """Prints the table: for each function the time of the peer, and the ratio of nabla_mlir to it; then the failures."""
    missing = sorted({peer.package for peer in PEERS.values() if not is_installed(peer.package)})
    if missing:
        console.print(f"[dim]Peers that are not installed: {', '.join(missing)} (pip install 'nabla-mlir\\[bench-peers]')[/dim]")
    present = [name for name in PEERS if any(name in of for peers in found for of in peers.times.values())]
    if not present:
        return
    table = Table(title="Further peers: their time in µs, and ours over it (less is better)", title_justify="left")
    columns = [(name, function) for name in present for function in ours[0]]
    for column in ("", *(f"{name}\n{function}" for name, function in columns)):
        table.add_column(column, justify="right" if table.columns else "left")
    ratios: dict[tuple[str, str], list[float]] = {column: [] for column in columns}
    for title, mine, peers in zip(titles, ours, found, strict=True):
        cells = []
        for name, function in columns:
            seconds = peers.times.get(function, {}).get(name)
            if seconds is not None:
                ratios[name, function].append(mine[function] / seconds)
            cells.append("" if seconds is None else f"{seconds * 1e6:,.1f} {mine[function] / seconds:6.2f}")
        table.add_row(title, *cells)
    table.add_row("[bold]geometric mean[/bold]", *(f"{geometric_mean(of):.2f}" if of else "" for of in ratios.values()))
    console.print(table)
    for title, peers in zip(titles, found, strict=True):
        for note in peers.notes:
            console.print(f"{title}: {note}", style="dim", markup=False)


if __name__ == "__main__":
    main(sys.argv[1], KNOWN[sys.argv[2]], np.load(sys.argv[3]), "--quick" in sys.argv)
