"""Waiting for results of a Dask cluster: tasks that would wait forever are repaired, and a cluster without work raises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir.base.errors import DeployError

_LOOK = 2.0  # the seconds between two checks of the cluster
_TICK = 0.2  # the seconds between two checks of the local futures


def gathered(client: Any, futures: Sequence[Any], patience: float, watch: Callable[[], None] = lambda: None) -> list[Any]:
    """Waits for futures of Dask, and returns their results.

    Args:
      client: the client of the cluster.
      futures: futures of tasks of any kind.
      patience: the largest number of seconds without a running task.
      watch: a function that is called while the client waits.

    Raises:
      DeployError: no worker has run a task for that time; the message describes the workers.
    """
    return list(_waited(client, lambda: client.gather(futures), patience, watch))


def first_done(client: Any, groups: Sequence[Sequence[Any]], patience: float) -> int:
    """The index of the first group whose futures have all finished or failed.

    Args:
      client: the client of the cluster.
      groups: groups of futures.
      patience: as for `gathered`.

    Raises:
      DeployError: as for `gathered`.
    """
    from dask.distributed import as_completed

    numbers = {future.key: number for number, group in enumerate(groups) for future in group}
    left = [len(group) for group in groups]

    async def first() -> int:
        """The index of the first group of which no future is left."""
        stream = as_completed([future for group in groups for future in group], loop=client.loop)
        while all(left):
            number = numbers[(await anext(stream)).key]
            left[number] -= 1
        return left.index(0)

    return int(_waited(client, first, patience))


def _waited(client: Any, make: Callable[[], Any], patience: float, watch: Callable[[], None] = lambda: None) -> Any:
    """The result of the coroutine that `make` starts; raises DeployError if no worker runs a task for `patience` seconds.

    `watch` is called repeatedly during the wait, to show the progress.
    """

    async def result() -> Any:
        """The result of the coroutine; during the wait, the workers are checked every few seconds."""
        task = asyncio.ensure_future(make())
        since = look = time.monotonic()  # the time at which a task was last seen running, and the time of the last check
        try:
            while not (await asyncio.wait([task], timeout=min(_TICK, patience)))[0]:
                watch()
                if time.monotonic() - look < min(_LOOK, patience):
                    continue
                if client.status != "running":
                    break  # the task raises the error with the reason
                is_active, workers = await client.run_on_scheduler(_scheduler_function())
                look = time.monotonic()
                since = look if is_active else since
                if look - since > patience:
                    message = (
                        f"a sum over shards requires workers that run tasks, got none in {patience:g} s: {_description(workers)}."
                    )
                    raise DeployError(message, help=_HELP)
            return await task
        finally:
            task.cancel()

    return client.sync(result)


def _scheduler_function() -> Any:
    """A function for the scheduler to run. It is nested, so that Dask sends it as code: the scheduler may lack nabla_mlir."""

    def look(dask_scheduler: Any) -> tuple[bool, list[tuple[str, str, int, int]]]:
        """True if a worker runs a task, and the state of each worker; tasks that wait for a worker that no longer exists are
        released.
        """
        # If a task prefers a worker and the cluster has none at all, Dask later gives the task only to that worker, which may never
        # return (`bulk_schedule_unrunnable_after_adding_worker` of 2026.8 does not read `loose_restrictions`).
        known = dask_scheduler.workers
        orphans = [
            ts
            for ts in dask_scheduler.unrunnable
            if ts.loose_restrictions and ts.worker_restrictions and not ts.worker_restrictions & known.keys()
        ]
        for ts in orphans:
            ts.worker_restrictions = None
        dask_scheduler.transitions({ts.key: "processing" for ts in orphans}, stimulus_id="nabla_mlir-orphans")
        is_active = any(ws.executing or (ws.status.name == "running" and ws.processing) for ws in known.values())
        states = [(ws.address, ws.status.name, ws.metrics.get("memory", 0), ws.memory_limit or 0) for ws in known.values()]
        return is_active, states

    return look


def _description(workers: Sequence[tuple[str, str, int, int]]) -> str:
    """The state and the memory of up to three workers, as text."""
    if not workers:
        return "there is no worker"
    texts = [f"{name} is {status} with {memory / 1e6:.0f} of {limit / 1e6:.0f} MB" for name, status, memory, limit in workers[:3]]
    return ", ".join(texts) + (f", and {len(workers) - 3} more" if len(workers) > 3 else "")


_HELP = (
    "Dask pauses a worker at 80 % of its memory: give it more memory or smaller shards, or max_residual_bytes=0, which recomputes "
    "residuals in each product; if workers need longer to return, increase patience=."
)
