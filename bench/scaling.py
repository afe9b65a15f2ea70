"""Measures and simulates the cost of a product of a sum over shards on processes of Dask and on ranks of MPI.

``python bench/scaling.py 1 2 4`` measures with 1, 2 and 4 processes. It alternates with the plain parts: the same products of the
same shards in the same processes, without tasks or messages. The constants of the model in docs/scaling.md come from shards
without work on one worker. The simulated time is printed next to the measured time, and for 10, 100 and 1000 workers. `--rows`
sets the size of a shard, and `--lean` switches off the background work of Dask. The machine must be idle.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.runtime.threads import cores

SHARDS, WIDTH = 8, 64


@dataclass(frozen=True)
class Costs:
    """The constants of the model, in seconds and bytes per second.

    Attributes:
      shard: the product of one shard.
      latency: a product without work on one worker, from the call to its result.
      task: the processor time of client and scheduler for each task of a product.
      worker: the processor time of a worker for its task, without the shards.
      background: the fraction of a core that each idle process of Dask uses.
      bandwidth: the bandwidth of arrays between processes.
      exchange: the time of an exchange between two ranks of MPI.
    """

    shard: float
    latency: float = 0.0
    task: float = 0.0
    worker: float = 0.0
    background: float = 0.0
    bandwidth: float = 1e9
    exchange: float = 5e-6


def simulated(costs: Costs, workers: int, shards: int, size: int, cores: float = math.inf) -> float:
    """Simulates the seconds of a product on Dask: messages or tasks are sent one by one and run in parallel.

    Args:
      costs: the constants of the model.
      workers: the number of workers.
      shards: the number of shards; the numbers of two workers differ by at most one.
      size: the bytes of a vector; small vectors are sent with messages, others from worker to worker for tasks.
      cores: the cores that all processes share, including client and scheduler; each running process has an equal part of
        them, at most one core.
    """
    groups = min(workers, shards)
    copy = size / costs.bandwidth
    is_small = size * groups <= 1 << 20
    counts = [(i + 1) * shards // groups - i * shards // groups for i in range(groups)]
    work = [count * costs.shard + costs.worker for count in counts]
    ends = on_cores(costs.task + is_small * copy, work, cores - costs.background * (workers + 1))
    wait = 0.0 if is_small else costs.latency + copy * np.log2(2 * groups)  # for the vector
    while len(ends) > 8 and not is_small:
        rows = [ends[i : i + 8] for i in range(0, len(ends), 8)]
        ends = [max(row) + costs.latency / 2 + (len(row) - 1) * copy + i * costs.task for i, row in enumerate(rows)]
    return wait + max(ends) + len(ends) * copy + max(costs.latency - costs.task - costs.worker, 0.0)


def on_cores(task: float, work: list[float], cores: float) -> list[float]:
    """The finishing times of workers; each starts after its task was sent, which takes `task` seconds for each worker."""
    ends, now, sent, left = [0.0] * len(work), 0.0, 0, task
    running: dict[int, float] = {}
    while sent < len(work) or running:
        active = len(running) + (sent < len(work))
        rate = min(1.0, cores / active)
        step = min([*running.values(), *([left] if sent < len(work) else [])])
        now += step / rate
        running = {i: seconds - step for i, seconds in running.items()}
        for i in [i for i, seconds in running.items() if seconds <= 0]:
            del running[i]
            ends[i] = now
        left -= step
        if sent < len(work) and left <= 0:
            running[sent] = work[sent]
            sent, left = sent + 1, task
    return ends


def simulated_ranks(costs: Costs, ranks: int, shards: int, size: int, cores: float = math.inf) -> float:
    """Simulates the seconds of a product on MPI: all ranks compute, then exchange sums by halving and doubling."""
    work = -(-shards // ranks) * costs.shard * max(1.0, ranks / cores)
    return work + 2 * costs.exchange * np.log2(ranks) + 2 * size / costs.bandwidth * (1 - 1 / ranks)


def loss(w: Any, rows: Any, signs: Any) -> Any:
    """The loss of a logistic regression with a few layers, so that a shard has work."""
    for _ in range(4):
        rows = nnp.tanh(rows @ (nnp.eye(WIDTH, dtype=np.float32) + 0.01 * nnp.outer(w, w)))
    return nnp.sum(nnp.log1p(nnp.exp(-signs * (rows @ w))))


def data(rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shards of `rows` rows."""
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(rows, WIDTH)), np.sign(rng.normal(size=rows))) for _ in range(SHARDS)]
    return [(a.astype(np.float32), b.astype(np.float32)) for a, b in parts]


def timed(function: Any) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Measured:
    """The seconds of a product: medians over rounds.

    Attributes:
      product: the time on processes of Dask or MPI.
      parts: the time of the slowest process, if all compute only the products of their shards at the same time.
      task, worker: the processor time for a task of client and scheduler, and of a worker including shards.
      background: the fraction of a core that each idle process of Dask uses.
    """

    product: float
    parts: float
    task: float = 0.0
    worker: float = 0.0
    background: float = 0.0


def on_dask(workers: int, source: Any, shards: list[Any], rounds: int = 15, is_quick: bool = True) -> Measured:
    """Measures a product over shards on processes of Dask: by messages, or by tasks like a long product."""
    from dask.distributed import Client, LocalCluster

    import nabla_mlir.interop.dask as engine

    engine._QUICK = 1.0 if is_quick else 0.0
    w = np.full(WIDTH, 0.1, np.float32)
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        H = nm.distributed.HessianOperator(source, w, shards, client=client)
        keys = [piece.key for piece in H.engine._sources]

        def parts() -> float:
            return max(client.run(parts_of, keys, w[:, None]).values())

        H @ w
        both = np.median([(timed(lambda: H @ w), parts()) for _ in range(rounds)], axis=0)

        def processors(function: Any) -> np.ndarray:
            before = np.array([time.process_time(), sum(client.run(time.process_time).values())])
            function()
            return np.array([time.process_time(), sum(client.run(time.process_time).values())]) - before

        here, remote = processors(lambda: [H @ w for _ in range(rounds)]) / rounds / workers
        idle = processors(lambda: time.sleep(2)).sum() / 2 / (workers + 1)
    return Measured(*both, here, remote, idle)


def ms(seconds: float) -> str:
    """Formats seconds as milliseconds."""
    return f"{1e3 * seconds:.1f} ms"


def parts_of(keys: list[str], matrix: np.ndarray, dask_worker: Any) -> float:
    """The seconds of the products of the shards of a worker."""
    pieces = [dask_worker.data[key] for key in keys if key in dask_worker.data]
    return timed(lambda: [piece.product(matrix) for piece in pieces])


def on_ranks(count: int, rows: int) -> Measured:
    """Measures a product over shards on ranks of MPI; NaN without MPI."""
    command = ["mpiexec", "-n", str(count), "--oversubscribe", "--allow-run-as-root", sys.executable, __file__, "--rank", str(rows)]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return Measured(math.nan, math.nan)
    return Measured(*map(float, text.split()))


def rank(rows: int, rounds: int = 15) -> None:
    """Runs one rank."""
    from mpi4py import MPI

    comm, w = MPI.COMM_WORLD, np.full(WIDTH, 0.1, np.float32)
    shards = data(rows)[comm.rank :: comm.size]
    H = nm.distributed.HessianOperator(loss, w, shards, comm=comm)
    local = nm.SumOperator(loss, w, shards, threads=1)
    seconds = []
    for _ in range(rounds):
        for function in (lambda: H @ w, lambda: local @ w):
            comm.Barrier()
            seconds.append(comm.allreduce(timed(function), MPI.MAX))
    if comm.rank == 0:
        print(*np.median(np.reshape(seconds, (rounds, 2)), axis=0))


def main(counts: list[int], rows: int) -> None:
    """Measures, and prints measured and simulated times."""
    w, shards = np.full(WIDTH, 0.1, np.float32), data(rows)
    entries = ("update", "apply", "apply_block")
    compiled = lambda parts: nm.hvp_module(loss, w, *parts[0], entry_points=entries).compile(nm.CPU(threads=1))  # noqa: E731
    source, small = compiled(shards), data(8)
    one = nm.SumOperator(source, w, shards, threads=1, max_residual_bytes=1 << 34)
    found = [on_dask(1, compiled(small), small, rounds=50, is_quick=is_quick) for is_quick in (True, False)]
    messages, tasks = (Costs(0.0, empty.product, empty.task, empty.worker, empty.background) for empty in found)
    for name, each in (("messages", messages), ("tasks", tasks)):
        print(
            f"a product without work on one worker, by {name}: {ms(each.latency)}, of which client and scheduler compute "
            f"{ms(each.task)} and the worker {ms(each.worker)}; each process takes {each.background:.1%} of a core"
        )
    for count in counts:
        share = min(count, cores())
        single = float(np.median([timed(lambda: one @ w) for _ in range(9)]))
        for name, here, simulation in (
            ("Dask", on_dask(count, source, shards), simulated),
            ("MPI", on_ranks(count, rows), simulated_ranks),
        ):
            costs = replace(messages, shard=here.parts * share / SHARDS)
            print(
                f"{count} of {name}: {ms(here.product)}, simulated {ms(simulation(costs, count, SHARDS, 4 * WIDTH, cores()))}; "
                f"the parts {ms(here.parts)}, over them {here.product / here.parts - 1:.1%}; one process {ms(single)}, "
                f"efficiency {single / here.product / share:.0%}"
            )
    messages, tasks = (replace(each, shard=single / SHARDS) for each in (messages, tasks))
    for workers in (10, 100, 1000):
        for size in (1 << 10, 1 << 20, 1 << 26):
            n = 8 * workers
            costs = messages if size * workers <= 1 << 20 else tasks
            times = simulated(costs, workers, n, size), simulated_ranks(costs, workers, n, size)
            dask, mpi = (f"{1e3 * t:.0f} ms ({n * costs.shard / workers / t:.0%})" for t in times)
            print(f"{workers} workers, {n} shards, vectors of {size >> 10} KiB: Dask {dask}, MPI {mpi}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(int(sys.argv[2]))
    else:
        parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
        parser.add_argument("processes", nargs="*", type=int, default=[1, 2])
        parser.add_argument("--rows", type=int, default=18000, help="of a shard: 18000 take about 50 ms")
        parser.add_argument("--lean", action="store_true", help="without Dask's profiler, and with fewer ticks of its clocks")
        options = parser.parse_args()
        if options.lean:
            import dask

            dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"})
        main(options.processes, options.rows)
