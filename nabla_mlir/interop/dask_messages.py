"""Products of what workers of Dask hold, asked for by one message to all of them: a task passes four stations, a message two."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from nabla_mlir.prepared.pieces import Piece
from nabla_mlir.prepared.sums import tree_sum


def answers(client: Any, name: str, groups: Sequence[range], matrix: Any, patience: float) -> list[Any] | None:
    """The sums of each group's products with a matrix, with the digests of its data.

    Args:
      client: of the cluster.
      name: under which, with the number of the shard, workers hold pieces: `key_of`.
      groups: numbers of shards.
      matrix: small enough to travel to every worker.
      patience: how many seconds they may take.

    Returns:
      A pair for each group; None unless workers hold all of each group, and answer: then tasks find out why.
    """

    async def result() -> Any:
        return await asyncio.wait_for(client.run(_held, name, groups, matrix, on_error="return"), patience)

    try:
        replies = client.sync(result)
    except OSError:  # a time-out, or a connection that was closed
        return None
    sums: dict[int, Any] = {}
    for reply in replies.values():
        if not isinstance(reply, dict):  # what it raised
            return None
        sums |= reply
    return [sums[group] for group in range(len(groups))] if len(sums) == len(groups) else None


def key_of(name: str, number: int) -> str:
    """The key of the piece of a shard."""
    return f"{name}-{number}"


async def _held(name: str, groups: Sequence[range], matrix: Any, dask_worker: Any) -> dict[int, Any]:
    """On a worker: what it computes, in the threads of its tasks, of the groups that it holds whole."""
    loop, threads, data = asyncio.get_running_loop(), dask_worker.executors["default"], dask_worker.data
    keys = {i: [key_of(name, number) for number in group] for i, group in enumerate(groups)}
    whole = {i: [data[key] for key in group] for i, group in keys.items() if all(key in data for key in group)}
    sums = await asyncio.gather(*(loop.run_in_executor(threads, _sum, pieces, matrix) for pieces in whole.values()))
    return dict(zip(whole, sums, strict=True))


def _sum(pieces: Sequence[Piece], matrix: Any) -> tuple[Any, tuple[str, ...]]:
    return tree_sum(piece.product(matrix) for piece in pieces), tuple(piece.part.digests[0] for piece in pieces)
