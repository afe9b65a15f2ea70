"""The figures that the recipes of sums over data print for a run: time, memory, and the efficiency on processes of Dask."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def memory() -> tuple[int, int]:
    """Bytes that this process holds, without pages of files, and the most that it had, with them; the latter twice off Linux."""
    most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status")
    lines = [line.split() for line in status.read_text().splitlines()] if status.exists() else []
    return next((1024 * int(line[1]) for line in lines if line[0] == "RssAnon:"), most), most


def report(title: str, run: Callable[[], T], client: Any = None) -> tuple[T, float]:
    """Runs something, and prints its time and the memory held, by this process or by all workers of a client."""
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    workers = [memory()] if client is None else list(client.run(memory).values())
    held, most = (", ".join(f"{worker[i] / 1e6:.0f}" for worker in workers) for i in (0, 1))
    print(f"{title}: {seconds:.2f} s, {held} MB held; {most} MB at most, with pages of files", flush=True)
    return result, seconds


@contextlib.contextmanager
def cluster(count: int) -> Iterator[Any]:
    """The client of so many processes of Dask, with one thread each."""
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as workers, Client(workers) as client:
        yield client


def compared(counts: list[int], run: Callable[[Any, int], tuple[T, float]]) -> list[T]:
    """The results of runs with clients of so many processes; prints the efficiency against the first."""
    results, first = [], 0.0
    for count in counts:
        with cluster(count) as client:
            result, seconds = run(client, count)
        first = first or seconds * count
        print(f"  efficiency on {count} of {counts[0]}: {first / (seconds * count):.0%}", flush=True)
        results.append(result)
    return results
