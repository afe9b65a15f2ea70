"""Sums over shards on the workers of a Dask cluster: residuals stay on the worker of their data, and lost ones are recomputed.

A *piece* is a shard with its residuals at a point (see `prepared/pieces.py`). There are four kinds of tasks: one loads the arrays
of a shard, one computes its residuals at a point, one multiplies them by a matrix, and one adds results, as a tree. All tasks are
pure functions of data that the scheduler knows. So if a worker dies, Dask recomputes everything that it stored, beginning with the
shard.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import pickle
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, LifoQueue
from types import MappingProxyType
from typing import Any

import numpy as np

from nabla_mlir.base.errors import BatchError, DataChangedError, DeployError, ShapeError, TraceError, TreeError
from nabla_mlir.interop.dask_messages import answers, key_of
from nabla_mlir.interop.dask_waiting import first_done, gathered
from nabla_mlir.prepared.batches import as_arguments, on_one_thread
from nabla_mlir.prepared.pieces import Part, Piece, Work
from nabla_mlir.prepared.progress import bar
from nabla_mlir.prepared.shapes import shapes_of
from nabla_mlir.prepared.sums import tree_sum
from nabla_mlir.runtime import load

_GROUP = 8  # the number of sums that one task adds up
_SMALL = 1 << 20  # the largest size in bytes of arrays that are sent with tasks, through the scheduler
_SHARE = 0.2  # the largest share of a worker's memory for the shards of one task
_QUICK = 1.0  # in seconds: faster products use messages, slower ones use tasks, which Dask shows and watches
_FULL = 0.6  # the share of a worker's memory from which on Dask moves data to disk


class DaskEngine:
    """Computes a sum over shards on the workers of a cluster.

    Each task multiplies a group of consecutive shards. The number of groups is the number of threads of the cluster when the
    operator is made. It is larger if the shards of a group would not fit into a worker's memory, because a task loads them all at
    once. The order of sums, and so the bits of results, does not change if workers die or join.

    Args:
      work: the computation for each shard.
      source: the source from the user; a bundle, or an archive of several targets, is sent whole, and each worker loads its part.
      shards: for each shard, the future of its arguments.
      client: the client of the cluster.
      residual_bytes: the largest size of the residuals of all shards; None means the memory of the workers without the data.
      patience: the largest number of seconds without a running task while the client waits for results.
      progress: True shows the number of finished tasks on a terminal.
    """

    window = 4
    work: Work
    shards: list[Any]
    client: Any
    stored_batches: int

    def __init__(
        self,
        work: Work,
        source: Any,
        shards: Sequence[Any],
        client: Any,
        residual_bytes: int | None = None,
        patience: float = 60.0,
        progress: bool = False,
    ):
        """Reads the memory of the workers, from which the groups of shards and the number of stored residuals follow."""
        self.work, self.shards, self.client, self._patience, self._progress = work, list(shards), client, patience, progress
        self._content = client.submit(_identity, pickle.dumps((_portable(source, work), work.mean, work.mask)), pure=False)
        threads = client.nthreads()
        limits = {worker: limit for worker, limit in client.run(_memory_limit, on_error="ignore").items() if limit}
        if residual_bytes is None and limits:
            total = sum(limits.values())
            residual_bytes = int(max(_FULL * total - len(shards) * work.data_bytes, _SHARE * total))
        size = math.inf if work.state_bytes is None else 2 * work.state_bytes
        self.stored_batches = len(shards) if residual_bytes is None or not size else min(len(shards), int(residual_bytes // size))
        bytes_of_thread = _SHARE * min((limit / threads.get(worker, 1) for worker, limit in limits.items()), default=math.inf)
        count = max(sum(threads.values()), math.ceil(len(shards) * (work.data_bytes + (work.state_bytes or 0)) / bytes_of_thread))
        count = min(count, len(shards))
        ends = [i * len(shards) // count for i in range(count + 1)]
        self._groups = [range(start, end) for start, end in itertools.pairwise(ends)]
        self._sources: list[Any] = []  # for each shard: the future of its stored residuals, or the recipe to compute them
        self._recipes: list[Any] = []  # for each shard: the recipe to compute its residuals
        self._digests: tuple[str, ...] = ()
        self._last_product: list[Any] = []  # the futures of the last product
        self._name, self._is_quick = "", False  # the name of the pieces at this point; True if the last product was quick

    def update(self, x: np.ndarray, check: bool) -> Part:
        """Moves all shards to the point `x`, and returns the sum of their parts: values and gradients.

        With `check`, the data of the shards are checked. After an error, the engine stays at the previous point.
        """
        self._check_client()
        point = self._as_argument(x)
        count = len(self.shards)
        digests = self._digests or ("",) * count
        recipes = [(self._content, i, point, shard, check, digests[i]) for i, shard in enumerate(self.shards)]
        self._sources = self._recipes  # frees the old residuals; if the update fails, products recompute them
        # The shards with stored residuals are spread evenly over the workers.
        numbers = [i for i in range(count) if (i + 1) * self.stored_batches // count > i * self.stored_batches // count]
        name = f"_piece-{uuid.uuid4().hex}"
        futures = _submit_rows(self.client, _piece, [recipes[i] for i in numbers], key=[key_of(name, i) for i in numbers])
        pieces = dict(zip(numbers, futures, strict=True))
        sources = [pieces.get(i, recipe) for i, recipe in enumerate(recipes)]
        part = self._result("update", self._submitted(_part, sources), pieces)
        self._sources, self._recipes, self._digests, self._name = sources, recipes, part.digests, name
        return part

    def product(self, matrix: np.ndarray) -> np.ndarray:
        """The sum of the shards' products with a matrix, by messages if it is quick and all residuals are stored."""
        self._check_client()
        if self._is_quick and self.stored_batches == len(self.shards) and self._is_small(matrix):
            rows = answers(self.client, self._name, self._groups, matrix, self._patience)
            wanted = [tuple(self._digests[i] for i in group if self._digests) for group in self._groups]
            if rows is not None and [digests for _, digests in rows] == wanted:
                return np.asarray(tree_sum(total for total, _ in rows))
        start = time.perf_counter()
        result = self.finish(self.start(matrix))
        self._is_quick = time.perf_counter() - start < _QUICK
        return result

    def start(self, matrix: np.ndarray) -> list[Any]:
        """Futures whose results add up to the product with a matrix."""
        self._check_client()
        return self._submitted(_product, self._sources, self._as_argument(matrix))

    def first(self, products: Sequence[list[Any]]) -> int:
        """The index of the product that ends first."""
        return first_done(self.client, products, self._patience)

    def finish(self, product: list[Any]) -> np.ndarray:
        """Waits for a product that `start` began: the sum over the shards of their matrices times the argument."""
        result: np.ndarray = self._result("product", product)
        self._last_product = product
        return result

    def _as_argument(self, array: np.ndarray) -> Any:
        """An array as an argument of tasks: a small array is sent with each task, a large one only once, from worker to worker."""
        return array if self._is_small(array) else self.client.submit(_identity, array, pure=False)

    def _is_small(self, array: np.ndarray) -> bool:
        return array.nbytes * len(self._groups) <= _SMALL

    def _submitted(self, function: Any, sources: list[Any], *columns: Any) -> list[Any]:
        """At most `_GROUP` futures, whose results add up to the sum of `function` over all sources.

        `sources` has a piece or the recipe of one for each shard; `columns` has one argument for each group of shards.
        """
        digests = self._digests
        rows = [([sources[i] for i in group], [digests[i] for i in group if digests], *columns) for group in self._groups]
        parts = _submit_rows(self.client, function, rows)
        while len(parts) > _GROUP:
            parts = _submit_rows(self.client, tree_sum, [(parts[i : i + _GROUP],) for i in range(0, len(parts), _GROUP)])
        self._last_product = []  # freed only now: after the result, the message to free it would delay the next one by 10 ms
        return parts

    def _result(self, title: str, parts: list[Any], pieces: Mapping[int, Any] = MappingProxyType({})) -> Any:
        """The sum of the results of the futures `parts`; an error names its shard. `pieces` has the futures of stored pieces by
        shard.
        """
        try:
            futures = [*pieces.values(), *parts]
            with bar(title, len(futures), self._progress) as watch:
                return tree_sum(gathered(self.client, parts, self._patience, lambda: watch(sum(f.done() for f in futures))))
        except (BatchError, DeployError):
            raise
        except Exception as error:
            self._check_client()
            raise_numbered(error, dict(enumerate(self.shards)), pieces)
            raise

    def _check_client(self) -> None:
        """Raises DeployError if the client has no running scheduler."""
        if self.client.status != "running":
            raise DeployError(
                f"a sum over shards requires its scheduler, got a client that is {self.client.status}.",
                help="start a cluster and make the operator again.",
            )


def _submit_rows(client: Any, function: Any, rows: Sequence[tuple[Any, ...]], key: list[str] | None = None) -> list[Any]:
    """Futures of a function for each row of arguments, sent as one message, because each further message takes 10 ms."""
    return list(client.map(function, *zip(*rows, strict=True), pure=False, key=key)) if rows else []


def raise_numbered(error: Exception, *futures: Mapping[int, Any]) -> None:
    """Raises BatchError with the number of the shard if one of the futures failed; each dict maps numbers of shards to futures."""
    for row in futures:
        for number, future in row.items():
            if future.status == "error":
                message = f"shard {number} requires tasks that end well, got {type(error).__name__}: {error}."
                raise BatchError(message, number=number, help="the cluster goes on; see the logs of its workers.") from error


# ---------------------------------------------------------------- functions that workers run


def _memory_limit(dask_worker: Any) -> int | None:
    return dask_worker.memory_manager.memory_limit


def _identity(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=16)
def _opened(content: bytes) -> Work:
    """The computation for a shard, loaded from its pickled form `content` at the first call in this process."""
    artifact, mean, mask = pickle.loads(content)
    if isinstance(artifact, bytes):  # an archive, with code for several machines
        artifact = load(artifact)
    module = artifact.here.loaded if hasattr(artifact, "here") else artifact
    return Work(on_one_thread(module), mean, mask)


def _piece(content: bytes, number: int, x: np.ndarray, data: tuple[Any, ...], check: bool, digest: str) -> Piece:
    """The piece of shard `number` with the arrays `data` at the point x, on the worker that stores it.

    `content` is the pickled computation. Raises DataChangedError if the data no longer has the digest `digest`.
    """
    piece = Piece(_opened(content), travels=True)
    piece.move(number, x, data, check)
    _compare(piece, digest)
    return piece


def _part(sources: Sequence[Any], digests: Sequence[str]) -> Part:
    return tree_sum(_result_of_piece(source, "", lambda piece: piece.part) for source in sources)


def _product(sources: Sequence[Any], digests: Sequence[str], matrix: np.ndarray) -> np.ndarray:
    return tree_sum(_result_of_piece(*pair, lambda piece: piece.product(matrix)) for pair in zip(sources, digests, strict=True))


def _result_of_piece(source: Any, digest: str, function: Callable[[Piece], Any]) -> Any:
    """The result of a function for the piece of a shard.

    `source` is the stored piece, or the recipe from which a temporary piece is computed: (content, number, x, data, check, digest).
    """
    if isinstance(source, Piece):
        _compare(source, digest)
        return function(source)
    content, number, x, data, check, known = source
    spare = _spare(content)  # pieces of earlier calls, whose memory is used again
    try:
        piece = spare.get_nowait()
    except Empty:
        piece = Piece(_opened(content))
    try:
        piece.move(number, x, data, check)
        _compare(piece, digest or known)
        return function(piece)
    finally:
        spare.put(piece)


@functools.lru_cache(maxsize=4)
def _spare(content: bytes) -> LifoQueue[Piece]:
    """The queue of pieces whose residuals are no longer used; the next temporary piece reuses their memory."""
    return LifoQueue()


def _compare(piece: Piece, digest: str) -> None:
    """Raises DataChangedError if the data of a piece has another digest than in the first pass; an empty digest allows all data."""
    if digest and piece.part.digests[0] != digest:
        raise DataChangedError(
            f"shard {piece.number} requires the data of the first pass, got other data.",
            number=piece.number,
            help="the tasks of a shard must return the same arrays in each run.",
        )


def _portable(source: Any, work: Work) -> Any:
    """The form of a source that is sent to workers: the bytes or the artifact with code for several machines, or the module.

    `source` is a path, an artifact or a module, and `work` is the prepared computation.
    """
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix == ".zip":
        return Path(source).read_bytes()
    return source if hasattr(source, "here") else work.module


# ---------------------------------------------------------------- shards


def placed(shards: Any, client: Any) -> list[Any]:
    """The futures of shards on the workers of a cluster, with consecutive shards on the same worker.

    Args:
      shards: a list of tuples of arrays, of dask's delayed objects or of futures, or of delayed objects or futures that give such
        tuples; or dask arrays, one or a tuple of them, whose chunks along the first axis are the shards.
      client: the client of the cluster.

    Raises:
      DeployError: dask is not installed, or the cluster has no workers.
      ShapeError: chunks of arrays do not match, or other axes than the first are divided.
      TraceError: `client` is not a client of Dask.
    """
    try:
        import dask
    except ImportError:
        raise DeployError("a sum over shards requires dask, got none.", help='pip install "nabla-mlir[dask]"') from None
    if not hasattr(client, "submit"):
        raise TraceError(
            f"a sum over shards requires a client of Dask, got a {type(client).__name__}.",
            help="dask.distributed.Client(...) of a cluster, or of the address of a scheduler.",
        )
    if hasattr(shards, "chunks"):
        shards = (shards,)
    if isinstance(shards, tuple) and shards and all(hasattr(array, "chunks") for array in shards):
        shards = _chunks(shards)
    shards = list(shards)
    workers = sorted(client.nthreads())
    if not workers:
        raise DeployError("a sum over shards requires workers, got a cluster without any.", help="wait: client.wait_for_workers(1)")
    if not shards:
        raise TreeError("a sum over shards requires at least one, got none.")
    give = dask.delayed(_arguments, pure=False)  # a pure function would make Dask compute a digest of every array
    futures = []
    for i, shard in enumerate(shards):
        near = [workers[i * len(workers) // len(shards)]]
        task = give(*shard) if isinstance(shard, (tuple, list)) else give(shard)
        futures.append(client.compute(task, workers=near, allow_other_workers=True))
    return futures


def shapes(shards: Sequence[Any], client: Any, patience: float) -> list[Any]:
    """The shapes of the arrays of each shard.

    Raises BatchError, with the number of the shard, if one cannot be made; DeployError if no worker runs for `patience` seconds.
    `client` is Dask's client.
    """
    tasks = _submit_rows(client, shapes_of, [(shard,) for shard in shards])
    try:
        return gathered(client, tasks, patience)
    except DeployError:
        raise
    except Exception as error:
        raise_numbered(error, dict(enumerate(shards)), dict(enumerate(tasks)))
        raise


def _arguments(*arrays: Any) -> tuple[Any, ...]:
    """The arrays of a shard as a tuple of arguments, also if a task returned them as one tuple."""
    return as_arguments(arrays[0]) if len(arrays) == 1 else arrays


def _chunks(arrays: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The chunks of dask arrays along their first axis, as tuples of delayed arrays; raises ShapeError if the arrays have different
    chunks along it, or several along other axes.
    """
    rows = {array.chunks[0] for array in arrays}
    others = [i for i, array in enumerate(arrays) if any(len(sizes) > 1 for sizes in array.chunks[1:])]
    if len(rows) > 1 or others:
        chunks = " and ".join(str(array.chunks) for array in arrays)
        raise ShapeError(
            f"shards require arrays with the same chunks along the first axis, and others whole, got {chunks}.",
            help="rechunk them: x.rechunk({0: rows, 1: -1})",
        )
    return list(zip(*(array.to_delayed().reshape(-1).tolist() for array in arrays), strict=True))
