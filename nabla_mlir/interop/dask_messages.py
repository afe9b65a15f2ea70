"""Products that workers of Dask compute from stored residuals after one message to all of them, which is faster than tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from nabla_mlir.prepared.pieces import Piece
from nabla_mlir.prepared.sums import tree_sum


def answers(client: Any, name: str, groups: Sequence[range], matrix: Any, patience: float) -> list[Any] | None:
    """The sum of the products of each group of shards with a matrix, with the digests of the group's data; None if a worker fails.

    Args:
      client: the client of the cluster.
      name: the name of the pieces on the workers; `key_of` adds the number of the shard.
      groups: the numbers of the shards of each group.
      matrix: the matrix, which is sent to every worker.
      patience: the largest number of seconds to wait for.

    Returns:
      A pair for each group; None if a worker fails to answer, or if no single worker stores all pieces of some group.
    """

    async def result() -> Any:
        return await asyncio.wait_for(client.run(_sums_of_complete_groups, name, groups, matrix, on_error="return"), patience)

    try:
        replies = client.sync(result)
    except OSError:  # a time-out, or a closed connection
        return None
    sums: dict[int, Any] = {}
    for reply in replies.values():
        if not isinstance(reply, dict):  # the error of the worker
            return None
        sums |= reply
    return [sums[group] for group in range(len(groups))] if len(sums) == len(groups) else None


def key_of(name: str, number: int) -> str:
    """The key of the piece of a shard."""
    return f"{name}-{number}"


async def _sums_of_complete_groups(name: str, groups: Sequence[range], matrix: Any, dask_worker: Any) -> dict[int, Any]:
    """The sums of the products with `matrix` for those groups whose pieces are all on this worker, by the group's index.

    `name` is the name of the pieces at the current point, and `groups` are ranges of shards.
    """
    loop, threads, data = asyncio.get_running_loop(), dask_worker.executors["default"], dask_worker.data
    keys = {i: [key_of(name, number) for number in group] for i, group in enumerate(groups)}
    complete = {i: [data[key] for key in group] for i, group in keys.items() if all(key in data for key in group)}
    sums = await asyncio.gather(*(loop.run_in_executor(threads, _sum, pieces, matrix) for pieces in complete.values()))
    return dict(zip(complete, sums, strict=True))


def _sum(pieces: Sequence[Piece], matrix: Any) -> tuple[Any, tuple[str, ...]]:
    return tree_sum(piece.product(matrix) for piece in pieces), tuple(piece.part.digests[0] for piece in pieces)
