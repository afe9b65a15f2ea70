"""What a product of a sum over shards costs on processes of Dask and on ranks of MPI: measured here, and simulated for more.

``python bench/scaling.py 1 2`` measures with so many processes, fits the constants of the model in docs/scaling.md to the first,
and prints what the simulation says of all of them, and of 10, 100 and 1000 workers. Where processes share cores, with each other or
with other jobs, work slows down: by how much is measured in turn with the products, and is what the simulation is told.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

SHARDS, WIDTH = 8, 64


@dataclass(frozen=True)
class Costs:
    """The constants of the model, in seconds and bytes per second.

    Attributes:
      shard: the product of one shard.
      latency: a product without work on one worker, from the call to its result.
      hop: a task that does nothing, from the call to its result.
      task: each of many tasks, in the client and the scheduler.
      bandwidth: of arrays between processes.
      exchange: of two ranks of MPI.
    """

    shard: float
    latency: float = 0.0
    hop: float = 0.0
    task: float = 0.0
    bandwidth: float = 1e9
    exchange: float = 5e-6


def simulated(costs: Costs, workers: int, shards: int, size: int, slowness: float = 1.0) -> float:
    """Seconds of a product on Dask: tasks leave one by one, run side by side, and their sums are added up in groups of eight.

    Args:
      costs: of the parts.
      workers: how many there are.
      shards: how many; each worker has as many as the others, or one less.
      size: bytes of a vector; small ones travel with the tasks, others from worker to worker.
      slowness: how much longer the same work takes where all workers do it at once, since they share cores.
    """
    groups = min(workers, shards)
    copy = size / costs.bandwidth
    is_small = size * groups <= 1 << 20
    ends = []
    for i in range(groups):
        count = (i + 1) * shards // groups - i * shards // groups
        start = costs.latency / 2 + i * (costs.task + is_small * copy) + (0 if is_small else costs.hop + copy * np.log2(2 * groups))
        ends.append(start + count * costs.shard * slowness)
    while len(ends) > 8:
        rows = [ends[i : i + 8] for i in range(0, len(ends), 8)]
        ends = [max(row) + costs.hop / 2 + (len(row) - 1) * copy + i * costs.task for i, row in enumerate(rows)]
    return max(ends) + len(ends) * copy + costs.latency / 2


def simulated_ranks(costs: Costs, ranks: int, shards: int, size: int) -> float:
    """Seconds of a product on MPI: all compute, and then exchange their sums by halves and doubles."""
    return -(-shards // ranks) * costs.shard + 2 * costs.exchange * np.log2(ranks) + 2 * size / costs.bandwidth * (1 - 1 / ranks)


def loss(w: Any, rows: Any, signs: Any) -> Any:
    """Of logistic regression, in a few layers, so that a shard has work to do."""
    for _ in range(4):
        rows = nnp.tanh(rows @ (nnp.eye(WIDTH, dtype=np.float32) + 0.01 * nnp.outer(w, w)))
    return nnp.sum(nnp.log1p(nnp.exp(-signs * (rows @ w))))


def data(rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shards of so many rows."""
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(rows, WIDTH)), np.sign(rng.normal(size=rows))) for _ in range(SHARDS)]
    return [(a.astype(np.float32), b.astype(np.float32)) for a, b in parts]


def spin() -> float:
    """Seconds of work that needs a core and nothing else."""
    array, start = np.full(1 << 17, 0.1, np.float32), time.perf_counter()
    for _ in range(1000):
        np.tanh(array, out=array)
    return time.perf_counter() - start


def best(function: Any, times: int) -> float:
    """The shortest of some calls."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measured(workers: int, rows: int, source: Any, one: Any = None) -> tuple[float, float, float, float, float]:
    """Seconds of a product over shards of so many rows, of a task that does nothing, and of each of many of them.

    Also, where one process makes the same product in turn, the median time of that, and how much slower work is that all workers do
    at once: what the machine takes from them, whatever is done.
    """
    from dask.distributed import Client, LocalCluster

    w = np.full(WIDTH, 0.1, np.float32)
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        H = nm.distributed.HessianOperator(source, w, data(rows), client=client)
        nothing = best(lambda: client.submit(abs, 1, pure=False).result(), 50)
        many = best(lambda: client.gather([client.submit(abs, i, pure=False) for i in range(500)]), 5) / 500
        if one is None:
            return best(lambda: H @ w, 12), nothing, many, 0.0, 1.0
        first = sorted(client.nthreads())[:1]
        rounds = []
        for _ in range(9):
            spins = [max(client.run(spin, workers=names).values()) for names in (None, first)]
            rounds.append((best(lambda: H @ w, 1), best(lambda: one @ w, 1), *spins))
        seconds, plain, together, alone = np.median(rounds, axis=0)
        return seconds, nothing, many, plain, together / alone


def ranks(count: int, rows: int) -> float:
    """Seconds of a product on ranks of MPI, as the first of them sees it; NaN where there is no MPI."""
    command = ["mpiexec", "-n", str(count), "--oversubscribe", "--allow-run-as-root", sys.executable, __file__, "--rank", str(rows)]
    try:
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        return float("nan")


def rank(rows: int) -> None:
    """One of them."""
    from mpi4py import MPI

    comm, w = MPI.COMM_WORLD, np.full(WIDTH, 0.1, np.float32)
    shards = data(rows)
    H = nm.distributed.HessianOperator(loss, w, shards[comm.rank :: comm.size], comm=comm)
    comm.Barrier()
    seconds = best(lambda: H @ w, 12)
    if comm.rank == 0:
        print(seconds)


def main(counts: list[int], rows: int = 7000) -> None:
    """Measures, fits and prints."""
    w, shards = np.full(WIDTH, 0.1, np.float32), data(rows)
    source = nm.hvp_module(loss, w, *shards[0], entry_points=("update", "apply", "apply_block")).compile(nm.CPU(threads=1))
    small = nm.hvp_module(loss, w, *data(8)[0], entry_points=("update", "apply", "apply_block")).compile(nm.CPU(threads=1))
    one = nm.SumOperator(source, w, shards, threads=1, max_residual_bytes=1 << 34)
    costs = Costs(0.0)
    for count in counts:
        seconds, nothing, many, plain, slowness = measured(count, rows, source, one)
        empty, *_ = measured(count, 8, small)
        if not costs.latency:
            costs = Costs(plain / SHARDS, latency=empty, hop=nothing, task=many)
        expected = simulated(replace(costs, shard=plain / SHARDS), count, SHARDS, 4 * WIDTH, slowness)
        print(f"{count} of Dask: {1e3 * seconds:.1f} ms, simulated {1e3 * expected:.1f}; one process {1e3 * plain:.1f}: "
              f"an efficiency of {plain / seconds / count:.0%}; work that all do at once takes {slowness:.2f} times as long, and "
              f"of what is left it is {plain * slowness / seconds / count:.0%}; shards without work {1e3 * empty:.2f} ms; "
              f"a task that does nothing {1e3 * nothing:.2f} ms, of many {1e3 * many:.2f}; "
              f"{count} of MPI: {1e3 * ranks(count, rows):.1f} ms")  # fmt: skip
    print(costs)
    for workers in (10, 100, 1000):
        for size in (1 << 10, 1 << 20, 1 << 26):
            n = 8 * workers
            times = simulated(costs, workers, n, size), simulated_ranks(costs, workers, n, size)
            dask, mpi = (f"{1e3 * t:.0f} ms ({n * costs.shard / workers / t:.0%})" for t in times)
            print(f"{workers} workers, {n} shards, vectors of {size >> 10} KiB: Dask {dask}, MPI {mpi}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(int(sys.argv[2]))
    else:
        main([int(text) for text in sys.argv[1:]] or [1, 2])
