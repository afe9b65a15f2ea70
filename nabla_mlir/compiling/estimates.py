"""Rough estimates of the time of a lowered function on a CPU, to choose between one thread and a thread pool."""

from __future__ import annotations

import math
from collections.abc import Iterable

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.convolution import positions
from nabla_mlir.passes.iree.scheduling.split_convolutions import is_split
from nabla_mlir.passes.roll.roll_loops import repeated_operations
from nabla_mlir.rules.cost import cost_of
from nabla_mlir.rules.loops import find_counter, most_trips
from nabla_mlir.runtime.manifest import Estimate
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.traits import FUNCTION, ONE_BY_ONE, OWN_LOOP, flops_of, is_part, size_of

# The time of an operation that nabla-roll-loops makes an iteration of a loop, as a part of that of another. Half of it is tracing
# and lowering; the rest is for the check of the loop, which would not take place without it.
_REPEATED = 0.3
Cost = tuple[float, float, float]  # nanoseconds that threads can share, other nanoseconds, and dispatches


def estimate(function: ir.Operation) -> Estimate:
    """The estimated time of one call of a function of plain StableHLO, for `Manifest.best_driver`."""
    shared, serial, dispatches = _total(_body(function.regions[0]))
    loops = [op for op in nested(function) if op.name == "stablehlo.while"]
    return Estimate(round(shared / 1e3, 1), round(serial / 1e3, 1), round(dispatches), all(map(_surely_ends, loops)))


def _surely_ends(loop: ir.Operation) -> bool:
    """True if a loop surely ends soon: by its counter, or by a counter among other tests whose limit is short enough."""
    if find_counter(loop) is not None:
        return True
    trips = most_trips(loop)
    if trips is None:
        return False
    shared, serial, dispatches = _total(_body(loop.regions[1]))
    # Each iteration has two more dispatches: it moves its carries and tests its condition. The factor converts µs to ns.
    return trips * (shared + serial + 1e3 * thresholds.POOL_DISPATCH * (2 + dispatches)) < thresholds.CAPPED_LOOP


def compilation_of(functions: Iterable[ir.Operation]) -> float:
    """A lower bound, in microseconds, of the time to compile the functions of a module, from their size."""
    operations = sum(len(nested(function)) - (1 - _REPEATED) * repeated_operations(function) for function in functions)
    return thresholds.COMPILED_MODULE + thresholds.COMPILED_OPERATION * operations


def _total(ops: Iterable[ir.Operation]) -> Cost:
    """The sum of the costs of operations, with their regions: nanoseconds of shared work, nanoseconds of other work, dispatches."""
    shared = serial = dispatches = 0.0
    for op in ops:
        cost = _cost(op)
        shared, serial, dispatches = shared + cost[0], serial + cost[1], dispatches + cost[2]
    return shared, serial, dispatches


def _cost(op: ir.Operation) -> Cost:
    """The cost of one operation with its regions: nanoseconds of work that threads can share, other nanoseconds, dispatches.

    A loop costs its body times the number of iterations, and a branch the most expensive of its regions.
    """
    name = op.name  # read once, because a first call waits for this walk
    record = REGISTRY.get(name)
    if name == "stablehlo.while":
        counter = find_counter(op)
        trips = counter.trips if counter else thresholds.UNKNOWN_TRIPS
        shared, serial, dispatches = _total(_body(op.regions[1]))
        # Each iteration also moves its carries and tests its condition.
        return trips * shared, trips * serial, trips * (2 + dispatches)
    if record is None or record.free or name == "stablehlo.slice":
        return 0.0, 0.0, 0.0
    if record.runs == "choice":
        shared, serial, dispatches = max((_total(_body(region)) for region in op.regions), key=lambda c: c[0] + c[1])
        return shared, serial, 1 + dispatches
    work, dispatches = _work(op, name, record)
    is_shared = work > thresholds.SHARED_WORK and not record.sequential
    return (work, 0.0, dispatches) if is_shared else (0.0, work, dispatches)


def _body(region: ir.Region) -> list[ir.Operation]:
    """The operations of a region without its terminator."""
    return [op.operation for op in region.blocks[0].operations][:-1]


def _work(op: ir.Operation, name: str, record: OpDef) -> tuple[float, float]:
    """The nanoseconds on one core and the number of dispatches of an operation whose regions do not run.

    `name` is its name, and `record` what the registry knows of such operations. An elementwise operation has no dispatch of its
    own.
    """
    if record.kind == "contraction":
        cost = cost_of(op)
        work = thresholds.FLOP * cost.flops + thresholds.BYTE * cost.bytes
        return work, _convolution_dispatches(op) if "convolution" in name else 1.0
    # The result of an elementwise operation is as large as its largest operand.
    elements = max(map(size_of, op.results if record.elementwise else _moved_arrays(op)), default=0)
    if record.elementwise or record.instructions < OWN_LOOP:
        return (thresholds.FUNCTION_ELEMENT if record.instructions >= FUNCTION else thresholds.ELEMENT) * elements, 0.0
    if record.instructions >= ONE_BY_ONE:
        return thresholds.SCATTERED_ELEMENT * elements, 1.0
    if record.sequential:
        return thresholds.FLOP * flops_of(op) + thresholds.BYTE * elements, 1.0
    return thresholds.MOVED_ELEMENT * elements, 1.0


def _moved_arrays(op: ir.Operation) -> list[ir.Value]:
    """The arrays that an operation reads or writes completely; for a slice or an update of a part, the array of that part."""
    if is_part(op):
        return list(op.results)
    return [op.operands[1]] if op.name == "stablehlo.dynamic_update_slice" else [*op.operands, *op.results]


def _convolution_dispatches(op: ir.Operation) -> float:
    """The number of dispatches of a convolution: two for each position of the result, if it becomes products of slices."""
    _, (_, _, *window), (_, _, *spatial) = positions(REGISTRY[op.name].read(op)["dimension_numbers"])
    kernel, result = (shape_and_dtype(v.type)[0] for v in (op.operands[1], op.results[0]))
    count = math.prod(result[d] for d in spatial)
    return 2.0 * count if is_split(count, math.prod(kernel[d] for d in window)) else 1.0
