"""Sums over batches in this process: batches that are read again in each pass, threads, and residuals within a memory budget."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import Empty, LifoQueue
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DataChangedError, TraceError, TreeError
from nabla_mlir.base.locks import new_lock
from nabla_mlir.prepared.pieces import Part, Piece, Work, naming
from nabla_mlir.prepared.progress import bar
from nabla_mlir.prepared.shapes import rows_of, shapes_of
from nabla_mlir.prepared.sums import AtOnce, PairwiseSum, tree_sum
from nabla_mlir.runtime import Module
from nabla_mlir.runtime.executable import Executable
from nabla_mlir.runtime.threads import POOL, cores

_TASKS = 8  # the number of tasks of a product for each thread; a task multiplies several batches if there are many
_SMALL = 1 << 20  # the size in bytes of a vector up to which many results may wait for the sum


class Batches:
    """An iterable of batches that can be read any number of times.

    Args:
      source: a sequence, whose elements are read when they are needed; any other iterable that can be iterated several
        times; or a function without arguments that returns an iterator. A batch is a tuple or list of arrays, or one
        array.

    Raises:
      TraceError: the source can be read only once.
    """

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]]):
        """Stores the source of the batches; raises TraceError for an iterator, which can be read only once."""
        if isinstance(source, Iterator):
            raise TraceError(
                f"a sum over batches requires an iterable that can be read again, got a {type(source).__name__}.",
                help="give a list, a DataLoader, or the function that makes the generator.",
            )
        self.source = source

    @property
    def count(self) -> int | None:
        """The number of batches, if it is known before they are read; else None."""
        try:
            return len(self.source)  # type: ignore[arg-type]
        except TypeError:
            return None

    @property
    def is_sequence(self) -> bool:
        """True if a batch can be skipped without reading it."""
        return isinstance(self.source, Sequence)

    def __iter__(self) -> Iterator[Callable[[], tuple[Any, ...]]]:
        """Yields one function for each batch; when it is called, it returns the batch as a tuple of arrays.

        A batch of a sequence is read only in this call, so that a batch whose function is not called costs nothing.
        """
        if isinstance(self.source, Sequence):
            for i in range(len(self.source)):
                yield lambda i=i: as_arguments(self.source[i])  # type: ignore[misc]
            return
        for batch in self.source() if callable(self.source) else self.source:
            yield lambda batch=batch: as_arguments(batch)  # type: ignore[misc]

    def first(self) -> tuple[Any, ...]:
        """The first batch that has rows, as a tuple of arrays, or the last batch if none has; raises TreeError without batches."""
        batch = None
        for reading in self:
            batch = reading()
            if rows_of(shapes_of(batch)):
                return batch
        if batch is None:
            raise TreeError("a sum over batches requires at least one, got an iterable that is empty.")
        return batch


def as_arguments(batch: Any) -> tuple[Any, ...]:
    """The data arguments of a function from a batch: a tuple or list as a tuple, and a single array as a tuple of one."""
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)


@dataclass
class Limits:
    """The limits of a local engine.

    Args:
      threads: the number of batches that are computed at the same time; None means the number of cores, if there are
        that many batches.
      residual_bytes: the largest size of the residuals that stay in memory between products.
      progress: True shows the progress of each pass on a terminal.
      check_data: True refuses a pass that reads other data than the first pass.
    """

    threads: int | None = None
    residual_bytes: int = 0
    progress: bool = False
    check_data: bool = True


class LocalEngine(AtOnce):
    """Computes a sum over batches in this process.

    Args:
      work: the computation for each batch.
      batches: the data.
      limits: the limits on threads and memory, and the checks.
      work_for: returns the computation for a batch of another shape, compiled for it; None pads the batch.

    Attributes:
      stored_batches: the number of batches with residuals in memory; other residuals are recomputed in each product.
      window: the number of products that may run at the same time: 1, because a product uses all threads.
    """

    work: Work
    batches: Batches
    limits: Limits

    def __init__(self, work: Work, batches: Batches, limits: Limits, work_for: Callable[[tuple[Any, ...]], Work] | None = None):
        """The engine for these batches; it chooses the number of threads.

        `work` is the computation for one batch, and `work_for` returns the computation for the arrays of a batch of another shape;
        None means that `work` pads such a batch.
        """
        self.batches, self.limits, self._work_for = batches, limits, work_for
        count = batches.count
        threads = limits.threads or (cores() if count is None or count >= cores() else 1)
        self.work = replace(work, module=on_one_thread(work.module)) if threads > 1 else work
        self._pool = ThreadPoolExecutor(threads, "nabla_mlir batch") if threads > 1 else None
        self._threads = threads
        self._pieces: dict[int, Piece] = {}
        self._spare: dict[Work, LifoQueue[Piece]] = {}
        self._digests: tuple[str, ...] = ()
        self._bytes, self._x, self._all = 0, np.empty(0), False
        self._lock = new_lock()

    @property
    def stored_batches(self) -> int:
        """The number of batches with residuals in memory."""
        return len(self._pieces)

    # ------------------------------------------------------------ the methods of an engine

    def update(self, x: np.ndarray, check: bool) -> Part:
        """Moves all batches to a point; returns the sum of their values and gradients.

        After an error, products are those at the previous point.
        """
        before, self._x = self._x, x
        try:
            return self._update(check)
        except BaseException:
            self._x, self._all, self._bytes = before, False, 0
            self._pieces.clear()  # some pieces may be at the new point
            raise

    def _update(self, check: bool) -> Part:
        """The sum of the values and gradients of all batches at the current point; raises if the data
        changed since the first pass.
        """
        is_first, total, count = not self._digests, PairwiseSum(), 0

        def moves() -> Iterator[Callable[[], Part]]:
            """Yields one function for each batch; when it is called, it moves the batch and returns its `Part`."""
            for number, reading in enumerate(self._watched("update")):
                yield lambda number=number, reading=reading: self._move_batch(number, reading, check)  # type: ignore[misc]

        for part in self._in_order(moves(), self._x.nbytes):
            if not is_first and self.limits.check_data:
                self._compare(count, part.digests[0])
            count += 1
            total.add(part)
        if not is_first:
            self._check_count(count)
        self._all = len(self._pieces) == count
        result = total.result() or Part(np.zeros(self.work.part_size, self.work.x.dtype), 0)
        self._digests = result.digests
        return result

    def product(self, matrix: np.ndarray) -> np.ndarray:
        """The sum, over all batches, of each batch's matrix times the columns of `matrix`, in an array of the shape of `matrix`."""
        total, count = PairwiseSum(), 0
        for part in self._in_order(self._multiplications(matrix), matrix.nbytes):
            total.add(part)
            count += 1
        if not self._all:
            self._check_count(count)
        result = total.result()
        return np.zeros(matrix.shape, matrix.dtype) if result is None else result

    # ------------------------------------------------------------ one batch

    def _move_batch(self, number: int, reading: Callable[[], tuple[Any, ...]], check: bool) -> Part:
        """The share of one batch in value and gradient at the current point; its residuals are stored if there is memory for them.

        Args:
          number: the index of the batch.
          reading: a function that reads the batch and returns its arrays.
          check: True refuses a value or a gradient that is not finite.
        """
        with naming(number):
            data = reading()
            work = self._work_of(data)
        piece = self._pieces.get(number)
        if piece is None and self._fits(work):
            piece = self._pieces[number] = Piece(work)
        if piece is not None:
            return piece.move(number, self._x, data, check)
        with self._borrowed(work) as piece:
            return piece.move(number, self._x, data, check)

    def _multiplications(self, matrix: np.ndarray) -> Iterator[Callable[[], np.ndarray]]:
        """Yields functions without arguments; each returns the product of one batch with `matrix`.

        If all batches are stored, a function sums the products of a group of batches instead, to save calls.
        """
        if self._all:
            pieces = [piece for _, piece in sorted(self._pieces.items())]
            # A power of two, so that the sum of a group is a full subtree of the sum over all batches.
            size = 1 << max(0, (len(pieces) // (_TASKS * self._threads)).bit_length() - 1)
            for i in range(0, len(pieces), size):
                yield lambda group=pieces[i : i + size]: tree_sum(piece.product(matrix) for piece in group)  # type: ignore[misc]
            return
        for number, reading in enumerate(self._watched("product")):
            piece = self._pieces.get(number)
            if piece is not None:
                yield lambda piece=piece: piece.product(matrix)  # type: ignore[misc]
            else:
                yield lambda number=number, reading=reading: self._product_of_batch(number, reading, matrix)  # type: ignore[misc]

    def _product_of_batch(self, number: int, reading: Callable[[], tuple[Any, ...]], matrix: np.ndarray) -> np.ndarray:
        """The product of a batch with a matrix, after its residuals are computed again in a spare piece.

        `number` is the index of the batch, and `reading` reads it and returns its arrays. Raises DataChangedError if the data are
        not those of the first pass.
        """
        with naming(number):
            data = reading()
            work = self._work_of(data)
        with self._borrowed(work) as piece:
            digest = piece.move(number, self._x, data).digests[0]
            if self.limits.check_data:
                self._compare(number, digest)
            return piece.product(matrix)

    def _compare(self, number: int, digest: str) -> None:
        """Raises DataChangedError unless batch `number` exists in the first pass and had the same digest of its data then."""
        if number >= len(self._digests) or digest != self._digests[number]:
            found = "other data" if number < len(self._digests) else f"more than {len(self._digests)} batches"
            raise DataChangedError(
                f"batch {number} requires the data of the first pass, got {found}.", number=number, help=_CHANGED
            )

    def _check_count(self, count: int) -> None:
        """Raises DataChangedError if a later pass found fewer batches (`count`) than the first; not if `check_data` is off."""
        if self.limits.check_data and count < len(self._digests):
            raise DataChangedError(
                f"a pass over the data requires the {len(self._digests)} batches of the first, got {count}.",
                number=count,
                help=_CHANGED,
            )

    def _work_of(self, data: tuple[Any, ...]) -> Work:
        """The computation for a batch with these arrays: the common one, or the one that is compiled for their shapes."""
        return self.work if self._work_for is None else self._work_for(data)

    def _fits(self, work: Work) -> bool:
        """True if the residuals of one more batch may stay in memory; this memory is then reserved.

        A batch that is padded may have twice as many residuals.
        """
        with self._lock:
            size, limit = work.state_bytes, self.limits.residual_bytes
            if size is None or not limit or self._bytes + 2 * size > limit:
                return False
            self._bytes += size
            return True

    @contextlib.contextmanager
    def _borrowed(self, work: Work) -> Iterator[Piece]:
        """A context with a `Piece`, which has the residuals of an earlier batch, or none; the context may overwrite them.

        It is reused after the context; a new one is made if all others are in use by other threads. `work` is the computation.
        """
        spare = self._spare.setdefault(work, LifoQueue())
        try:
            piece = spare.get_nowait()
        except Empty:
            piece = Piece(work)
        try:
            yield piece
        finally:
            spare.put(piece)

    # ------------------------------------------------------------ passes

    def _in_order(self, calls: Iterable[Callable[[], Any]], size: int) -> Iterator[Any]:
        """Yields the results of `calls`, functions without arguments, in their order; a pool of threads runs several at a time.

        At most 2 calls per thread run ahead of the caller, because each keeps its result (of `size` bytes) and its batch in memory;
        there are `_TASKS` per thread if results are small and batches are stored or read in the call. After an error, calls that
        have not started are cancelled, and those that run are awaited.
        """
        if self._pool is None:
            for call in calls:
                yield call()
            return
        futures: deque[Future[Any]] = deque()
        ahead = _TASKS if size <= _SMALL and (self._all or self.batches.is_sequence) else 2
        try:
            for call in calls:
                futures.append(self._pool.submit(call))
                if len(futures) >= ahead * self._threads:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            for future in futures:
                future.cancel()
            for future in futures:
                if not future.cancelled():
                    future.exception()  # waits, so that no call is running after the error

    def _watched(self, title: str) -> Iterator[Callable[[], tuple[Any, ...]]]:
        """Yields the functions that read the batches, with a progress bar of their number under this title if one is requested."""
        with bar(title, self.batches.count or len(self._digests) or None, self.limits.progress) as watch:
            for count, reading in enumerate(self.batches, 1):
                yield reading
                watch(count)


_CHANGED = "give batches that are the same in each pass: a DataLoader without shuffling, a generator with a seed of its own."


def on_one_thread(module: Module) -> Module:
    """A module that runs on the calling thread, with fresh state, in place of one that runs on its own thread pool.

    Other modules are returned as they are. Threads that each run a batch would only wait for a common pool.
    """
    if not isinstance(module.executable, Executable) or module.driver != POOL:
        return module
    return module.on("local-sync")
