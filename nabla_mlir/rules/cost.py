"""The cost of operations, computed from their IR: floating-point operations, and bytes read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.table.regions import body_of, reads_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import bytes_of, flops_of, is_choice, is_free, runs_regions


@dataclass(frozen=True)
class Cost:
    """The number of floating-point operations, and of bytes that are read and written if no operations are fused."""

    flops: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.flops * times, self.bytes * times)


def cost_of(op: ir.Operation) -> Cost:
    """The cost of one operation.

    A loop costs its body times the number of iterations (once if the number is unknown). A choice costs as much as its
    dearest branch.
    """
    if op.name == "stablehlo.while":
        counter = find_counter(op)
        trips = 1 if counter is None else counter.trips
        return cost_of_all(body_of(op.regions[1])[1]) * trips + cost_of_all(body_of(op.regions[0])[1]) * (trips + 1)
    if is_choice(op):
        branches = [cost_of_all(body_of(region)[1]) for region in op.regions]
        return max(branches, key=lambda cost: (cost.flops, cost.bytes))
    return Cost(flops_of(op), 0 if is_free(op) else sum(map(bytes_of, [*op.operands, *op.results])))


def cost_of_all(ops: Iterable[ir.Operation]) -> Cost:
    """The sum of the costs."""
    return sum((cost_of(op) for op in ops), Cost())


def with_trips(op: ir.Operation, times: int = 1) -> Iterator[tuple[ir.Operation, int]]:
    """The operations inside `op`, each with the number of times that it runs.

    The region of a reduction is part of the reduction, so its operations are not listed.
    """
    counter = find_counter(op) if op.name == "stablehlo.while" else None
    times *= 1 if counter is None else counter.trips
    for inner in (o.operation for region in op.regions for block in region.blocks for o in block.operations):
        yield inner, times
        if runs_regions(inner):
            yield from with_trips(inner, times)


def written_by(ops: Iterable[ir.Operation]) -> tuple[int, int]:
    """The total bytes of the results that `ops` compute, and the number of these results.

    The bytes in the body of a loop count once per iteration; in the number, a loop counts as one.
    """
    size = count = 0
    for op in ops:
        if op.name == "stablehlo.while":
            counter = find_counter(op)
            inner, _ = written_by(body_of(op.regions[1])[1])
            size, count = size + inner * (1 if counter is None else counter.trips), count + 1
        elif op.name in REGISTRY and not is_free(op) and op.name != "stablehlo.dynamic_slice":
            size, count = size + sum(map(bytes_of, op.results)), count + len(op.results)
    return size, count


@dataclass(frozen=True)
class FunctionCost:
    """The cost of one call of a function, computed from its IR without fusion; fusion makes the bytes and the peak smaller.

    Attributes:
      flops: floating-point operations.
      bytes: the sum of the bytes that its operations read and write.
      state_bytes: size of the state that it reads and writes.
      peak_bytes: the largest size of the values that are live at the same time: arguments, intermediate values, results
        and state. State that is replaced counts twice.
    """

    flops: int
    bytes: int
    state_bytes: int
    peak_bytes: int


def cost_of_function(func: ir.Operation) -> FunctionCost:
    """The cost of a `func.func` of plain StableHLO, with or without state in `util.global`."""
    block = func.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    total = cost_of_all(op for op in ops if op.name in REGISTRY)
    state = {op.attributes["global"].value: v for op in ops if op.name in _STATE for v in [*op.operands, *op.results]}
    old_state = sum(_bytes_or_zero(v) for op in ops if op.name == _STATE[1] for v in op.operands)  # replaced state counts twice
    return FunctionCost(total.flops, total.bytes, sum(map(_bytes_or_zero, state.values())), _peak(block) + old_state)


_STATE = ("util.global.load", "util.global.store")


def _bytes_or_zero(value: ir.Value) -> int:
    """The bytes of a tensor; 0 for a value of another type."""
    return bytes_of(value) if isinstance(value.type, ir.RankedTensorType) else 0


def _peak(block: ir.Block) -> int:
    """The largest number of bytes that are live at one time in a block, including regions while their operation runs."""
    ops = [op.operation for op in block.operations]
    last_readers = {value: i for i, op in enumerate(ops) for value in reads_of(op)}
    alive = peak = sum(map(_bytes_or_zero, block.arguments))
    for i, op in enumerate(ops):
        size = 0 if is_free(op) else sum(map(_bytes_or_zero, op.results))
        inner = max((_peak(b) for region in op.regions for b in region.blocks), default=0)
        peak = max(peak, alive + size + inner)
        alive += size
        last_reads = [v for v in dict.fromkeys(reads_of(op)) if last_readers[v] == i]
        alive -= sum(_bytes_or_zero(v) for v in last_reads if _is_counted(v))
    return peak


def _is_counted(value: ir.Value) -> bool:
    """True if `_peak` counts the bytes of a value; it does not count results of free operations, such as views."""
    return not is_free(made_by(value))
