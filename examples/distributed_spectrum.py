"""The spectrum of a network's Hessian over shards, by stochastic Lanczos quadrature: on this machine, or on processes of Dask.

``python examples/distributed_spectrum.py`` runs in threads of this process; with `--processes 1 2` also on one process of Dask, and
then on two; with `--plot spectrum.png` it draws the density. The memory held and the time are printed.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from problems import network_data, network_loss
from processes import compared, report

import nabla_mlir as nm


def shards(count: int = 8, rows: int = 200) -> list[tuple[np.ndarray, np.ndarray]]:
    """Data of the network's task, each shard with a seed of its own."""
    return [shard(number, rows) for number in range(count)]


def shard(number: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """One of them, which a worker makes where it is."""
    data = np.random.default_rng([7, number]).normal(size=(rows, 3))
    return data, np.sin(data @ np.array([1.0, -1.0, 0.5]))


def operator(parts: list[Any], client: Any = None, **options: Any) -> Any:
    """The Hessian of the mean loss over all shards, at the network's first parameters."""
    params = network_data()[0]
    if client is None:
        return nm.SumOperator(network_loss, params, parts, reduction="mean", **options)
    return nm.distributed.HessianOperator(network_loss, params, parts, client=client, reduction="mean", **options)


def spectrum(H: Any, steps: int = 20, probes: int = 16) -> Any:
    """The last of the running estimates of the spectrum."""
    *_, last = nm.stochastic_lanczos(H, steps=steps, probes=probes)
    return last


def timed_spectrum(title: str, H: Any, client: Any = None) -> tuple[Any, float]:
    """The spectrum and its time; prints that, the memory held, the largest eigenvalue and the trace."""
    spectrum(H, steps=2, probes=2)
    result, seconds = report(title, lambda: spectrum(H), client)
    trace = result.trace(lambda x: x)
    print(f"  largest eigenvalue {result.nodes.max():.4f}, trace {trace.value:.3f} ± {trace.error:.3f}")
    return result, seconds


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200, help="of each of eight shards; 100000 take 40 ms a product")
    parser.add_argument("--processes", type=int, nargs="*", default=[], help="of Dask, such as 1 2")
    parser.add_argument("--plot", help="a file for the density, such as spectrum.png")
    options = parser.parse_args()
    result, _ = timed_spectrum("threads of this process", operator(shards(rows=options.rows)))

    def run(client: Any, count: int) -> tuple[Any, float]:
        import dask

        parts = [dask.delayed(shard)(number, options.rows) for number in range(8)]
        return timed_spectrum(f"{count} of Dask", operator(parts, client), client)

    others = compared(options.processes, run)
    if options.plot:
        axes = [result, *others][-1].plot()
        axes.figure.savefig(options.plot)


if __name__ == "__main__":
    main()
