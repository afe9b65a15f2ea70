"""Equal consecutive blocks of operations: the source of each value that they read, and the results that others read.

A block is one iteration of a loop that Python has unrolled. A run (`periods.py`) is a stretch of equal blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import made_by, within
from nabla_mlir.dialects.stablehlo import SLICES, constant_splat
from nabla_mlir.ops.shape import slice_
from nabla_mlir.passes.roll.items import SLICE, Items
from nabla_mlir.passes.roll.periods import Run
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import CONSTANT, bytes_of, is_free

Position = tuple[int, int]  # of a result: the index of its operation in the block, and its index among the results


@dataclass(frozen=True)
class Own:
    """A value that the same block computes."""

    position: Position


@dataclass(frozen=True)
class Carried:
    """A value that an earlier block computes.

    Args:
      position: the position of the value in its block.
      first: the values that the first blocks read instead, because no block computes them. There is one for each iteration
        between the computation and the reader; None for one that nothing reads.
    """

    position: Position
    first: tuple[ir.Value | None, ...]

    def next(self) -> Carried | Own:
        """The source of this value in the next iteration."""
        return Carried(self.position, self.first[1:]) if len(self.first) > 1 else Own(self.position)


@dataclass(frozen=True)
class Outer:
    """A value from outside that all blocks read."""

    value: ir.Value


@dataclass(frozen=True)
class Constants:
    """Constants of one type, with other elements in each block."""

    ops: tuple[ir.Operation, ...]


Source = Own | Carried | Outer | Constants


@dataclass
class Blocks:
    """`count` blocks of `period` operations from `start` on, that can be iterations of a loop.

    Attributes:
      sources: for each operation of a block and each value that it reads, the source of this value.
      starts: for the slices whose start differs between blocks, the start along each axis in each block.
      carried: the values that a block passes to later ones.
      rows: for each result that is read outside the blocks, the numbers of the blocks from which it is read.
      cycle: the number of blocks after which the values from outside repeat, if they differ between blocks; else 0.
    """

    items: Items
    start: int
    period: int
    count: int
    sources: list[list[Source]] = field(default_factory=list)
    starts: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    carried: dict[Carried, None] = field(default_factory=dict)
    rows: dict[Position, list[int]] = field(default_factory=dict)
    cycle: int = 0

    @property
    def length(self) -> int:
        """The number of operations in all blocks."""
        return self.period * self.count

    def iterations(self, k: int) -> list[ir.Operation]:
        """The operation with index `k` of each block."""
        return self.items.ops[self.start + k : self.start + self.length : self.period]

    def saves(self, operations: int) -> bool:
        """True if a loop has at least `operations` fewer operations than the blocks; for large values, a multiple of that.

        Views, slices and broadcasts do not count. Rolling writes slices, so blocks of slices alone would be rolled forever.
        """
        block = self.items.ops[self.start : self.start + self.period]
        work = [op for op in block if not is_free(op) and op.name not in SLICES]
        is_large = any(bytes_of(r) > thresholds.ROLLED_LARGE for op in work for r in op.results)
        return (self.count - 1) * len(work) >= operations * (thresholds.ROLLED_LARGE_FACTOR if is_large else 1)

    def result(self, position: Position, iteration: int) -> ir.Value:
        """The result at `position` (the index of the operation and of its result) in block number `iteration`."""
        return self.items.ops[self.start + iteration * self.period + position[0]].results[position[1]]

    def readers_outside(self, value: ir.Value) -> list[ir.Operation]:
        """The operations outside the blocks that read a value of a block, or whose regions read it."""
        return [op for op in readers_of(value) if not len(op.results) or self._block_of(op.results[0]) is None]

    def read(self) -> bool:
        """True after all sources are found; False if the blocks cannot be iterations of one loop."""
        for k in range(self.period):
            reads = [reads_of(op) for op in self.iterations(k)]
            sources = [self._source(values) for values in zip(*reads, strict=True)]
            if not all(self._add_carried(source) for source in sources) or not self._read_starts(k):
                return False
            self.sources.append([source for source in sources if source is not None])
        self._read_rows()
        return all(self._is_small(position, rows) for position, rows in self.rows.items())

    def _source(self, values: Sequence[ir.Value]) -> Source | None:
        """The source of one operand, from its value in each block; None if a loop cannot read these values."""
        last = self._block_of(values[-1])
        if last is None:
            return self._outer_source(values)
        block, position = last
        # Block i reads a result of block i - lag; the first blocks, which have no such block before them, read other values.
        lag = self.count - 1 - block
        if lag > thresholds.ROLLED_LAG or any(self._block_of(v) is not None for v in values[:lag]):
            return None
        if any(value != self.result(position, i) for i, value in enumerate(values[lag:])):
            return None
        return Carried(position, tuple(values[:lag])) if lag else Own(position)

    def _block_of(self, value: ir.Value) -> tuple[int, Position] | None:
        """The number of the block that computes a value, and the position of the value in the block; None for other values."""
        index, result = self.items.positions.get(value, (-1, 0))
        if not self.start <= index < self.start + self.length:
            return None
        block, k = divmod(index - self.start, self.period)
        return block, (k, result)

    def _outer_source(self, values: Sequence[ir.Value]) -> Source | None:
        """The source of values that no block computes: one value for all blocks, or a constant for each; None for others.

        `values` has the value that each block reads. For others, the function sets `cycle`.
        """
        if all(v == values[0] for v in values):
            return Outer(values[0])
        makers = [made_by(v) for v in values]
        constants = tuple(op for op in makers if op is not None and op.name == CONSTANT and _is_stored(op))
        if len(constants) < len(values) or any(v.type != values[0].type for v in values):
            self.cycle = _cycle(values)
            return None
        is_small = all(constant_splat(op) is not None for op in constants) or self.count * bytes_of(values[0]) <= thresholds.STACKED
        return Constants(constants) if is_small else None

    def _add_carried(self, source: Source | None) -> bool:
        """Adds a carried value, and the same value of each later iteration in between; False without a source."""
        while isinstance(source, Carried):
            self.carried[source] = None
            source = source.next()
        return source is not None

    def _read_starts(self, k: int) -> bool:
        """Records the starts of operation `k`, if it is a slice; False if the starts differ and the slice has strides."""
        ops = self.iterations(k)
        if ops[0].name != SLICE:
            return True
        params = [slice_.read(op) for op in ops]
        starts = list(zip(*(p["start_indices"] for p in params), strict=True))
        if all(len(set(axis)) == 1 for axis in starts):
            return True
        self.starts[k] = starts
        return set(params[0]["strides"]) == {1}

    def _read_rows(self) -> None:
        """Records which results of which blocks are read outside (`rows`).

        A result that only the last block must provide is carried instead.
        """
        rows = defaultdict(list)
        for k in range(self.period):
            for iteration, op in enumerate(self.iterations(k)):
                for j, result in enumerate(op.results):
                    if self.readers_outside(result):
                        rows[k, j].append(iteration)
        for position, iterations in rows.items():
            # A carried value of age n is the result of the block n before the end, so the loop returns it already.
            ages = {len(c.first) for c in self.carried if c.position == position}
            older = [i for i in iterations if self.count - i not in ages]
            if older == [self.count - 1]:  # the value of the last block is a result of the loop
                self._add_carried(Carried(position, (None,)))
            elif older:
                self.rows[position] = older

    def _is_small(self, position: Position, rows: Sequence[int]) -> bool:
        """True if storing a result of all blocks takes little more memory than storing it only for the blocks `rows`."""
        return 2 * len(rows) >= self.count or self.count * bytes_of(self.result(position, 0)) <= thresholds.STACKED


def blocks_of(items: Items, run: Run, repetitions: int, operations: int) -> Blocks | None:
    """The blocks of a run, with boundaries at which the fewest bytes pass to the next block; None if no loop can run them.

    Args:
      items: the operations.
      run: the stretch of equal blocks.
      repetitions: the smallest number of blocks.
      operations: the smallest number of operations by which a loop must be shorter.
    """
    if not items.is_whole(run.start, run.length):
        return None
    first, cycle = _narrowest(items, run), 0
    # The first block may read other values than the others, for example values that it computes for all.
    for start in range(first, first + 3 * run.period, run.period):
        blocks = Blocks(items, start, run.period, (run.start + run.length - start) // run.period)
        if blocks.count < repetitions or not blocks.saves(operations):
            break
        if blocks.read():
            return blocks
        cycle = blocks.cycle
    # Blocks that read a few values in a cycle, such as batches of data: `cycle` of them are one larger block.
    whole = replace(run, period=run.period * cycle)
    return blocks_of(items, whole, repetitions, operations) if 1 < cycle <= run.length // (repetitions * run.period) else None


def _narrowest(items: Items, run: Run) -> int:
    """The index of an operation in the first block of a run: a cut before it passes the fewest bytes to later operations."""
    end = run.start + 3 * run.period
    last: dict[ir.Value, int] = {}
    for i in range(run.start, end):
        for value in reads_of(items.ops[i]):
            last[value] = i
    # Differences of the live bytes: a value adds its bytes after its operation, and they end after its last reader.
    changes = [0] * (3 * run.period + 1)
    for value, reader in last.items():
        index = items.positions.get(value, (-1, 0))[0]
        if run.start <= index:
            changes[index + 1 - run.start] += _cost(value)
            changes[reader + 1 - run.start] -= _cost(value)
    # Cuts in the second block, which has blocks on both sides; the index of the best cut is then that of the first block.
    live = [sum(changes[: run.period + 1])]
    for change in changes[run.period + 1 : 2 * run.period]:
        live.append(live[-1] + change)
    return run.start + live.index(min(live))


def _cycle(values: Sequence[ir.Value]) -> int:
    """The number of values after which a sequence repeats itself: 2 for a, b, a, b, a."""
    return next(i for i in range(1, len(values) + 1) if all(a == b for a, b in zip(values, values[i:], strict=False)))


def _cost(value: ir.Value) -> int:
    """The cost of carrying a value to the next iteration, in bytes."""
    return bytes_of(value) + 64  # the time of a carry counts like 64 bytes


def readers_of(value: ir.Value) -> list[ir.Operation]:
    """The operations in the block of a value that read the value, or whose regions read it."""
    maker = made_by(value)
    assert maker is not None
    return [within(maker.block, use.owner.operation) for use in value.uses]


def _is_stored(op: ir.Operation) -> bool:
    """True if the elements of a constant are in the IR, and not in a resource of a file."""
    return not isinstance(op.attributes["value"], ir.DenseResourceElementsAttr)
