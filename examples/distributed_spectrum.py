"""The spectrum of a network's Hessian over shards, by stochastic Lanczos quadrature: on this machine, or on processes of Dask.

``python examples/distributed_spectrum.py`` runs in threads of this process; with `1 2` behind it on one process of Dask, and then
on two; with `--plot spectrum.png` it draws the density.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from problems import network_data, network_loss

import nabla_mlir as nm


def shards(count: int = 8, rows: int = 200) -> list[tuple[np.ndarray, np.ndarray]]:
    """Data of the network's task, each shard with a seed of its own."""
    parts = []
    for number in range(count):
        data = np.random.default_rng([7, number]).normal(size=(rows, 3))
        parts.append((data, np.sin(data @ np.array([1.0, -1.0, 0.5]))))
    return parts


def operator(parts: list[Any], client: Any = None, **options: Any) -> Any:
    """The Hessian of the mean loss over all shards, at the network's first parameters."""
    params = network_data()[0]
    if client is None:
        return nm.SumOperator(network_loss, params, parts, reduction="mean", **options)
    return nm.distributed.HessianOperator(network_loss, params, parts, client=client, reduction="mean", **options)


def spectrum(H: Any, steps: int = 20, probes: int = 16) -> Any:
    """What the last of the running estimates says."""
    *_, last = nm.stochastic_lanczos(H, steps=steps, probes=probes)
    return last


def plot(result: Any, path: str) -> None:
    """The density of eigenvalues, as a picture."""
    import matplotlib.pyplot as plt

    low, high = result.nodes.min(), result.nodes.max()
    at = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 500)
    plt.semilogy(at, result.density(at, 0.01 * (high - low)))
    plt.xlabel("eigenvalue")
    plt.ylabel("density")
    plt.savefig(path)


def report(title: str, H: Any) -> tuple[Any, float]:
    """Prints the largest eigenvalues and the time of a run."""
    spectrum(H, steps=2, probes=2)
    start = time.perf_counter()
    result = spectrum(H)
    seconds = time.perf_counter() - start
    trace = result.trace(lambda x: x)
    print(f"{title}: {seconds:.2f} s, largest {result.nodes.max():.4f}, trace {trace.value:.3f} ± {trace.error:.3f}")
    return result, seconds


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:] if text.isdigit()]
    parts = shards(rows=100_000 if numbers else 200)
    last, one = report("threads of this process", operator(parts))
    if numbers:
        from dask.distributed import Client, LocalCluster
    first = one
    for count in numbers:
        with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            last, seconds = report(f"{count} process(es)", operator(parts, client))
            first = seconds if count == numbers[0] else first
            print(f"  efficiency against {numbers[0]}: {first * numbers[0] / (seconds * count):.0%}")
    if "--plot" in sys.argv:
        plot(last, sys.argv[sys.argv.index("--plot") + 1])
