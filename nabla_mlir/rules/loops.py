"""Analysis of loops: the carries that do not change, the carry that counts, and the number of iterations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import integer_constant
from nabla_mlir.table.regions import body_of, ends_of, reads_of
from nabla_mlir.table.registry import REGISTRY

# The comparison after its operands are exchanged.
_FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}


@dataclass(frozen=True)
class Counter:
    """The carry that counts: it starts at `start`, changes by `step`, and the loop runs `trips` iterations."""

    carry: int
    start: int
    step: int
    trips: int


def invariant_carries(op: ir.Operation) -> list[int]:
    """Indices of the carries that the body returns unchanged."""
    arguments, outputs = ends_of(op.regions[1])
    return [i for i, (a, r) in enumerate(zip(arguments, outputs, strict=True)) if a == r]


def carries_behind(op: ir.Operation, values: Iterable[ir.Value]) -> set[int]:
    """Indices of the carries on which `values` of the body depend, in this iteration or an earlier one."""
    arguments, ops, outputs = body_of(op.regions[1])
    positions = {a: i for i, a in enumerate(arguments)}
    producers = {r: o for o in ops for r in o.results}
    work, seen = list(values), set()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in positions:
            work.append(outputs[positions[value]])
        elif value in producers:
            seen.update(producers[value].results)
            work += reads_of(producers[value])
    return {i for a, i in positions.items() if a in seen}


def find_counter(op: ir.Operation) -> Counter | None:
    """The counter of a loop whose number of trips is a constant, or None.

    Recognised: ``counter <op> limit`` with any integer type, comparison and operand order, where the body adds or
    subtracts a constant; start and limit are constants.
    """
    _, (predicate,) = ends_of(op.regions[0])
    return _counter_in(op, made_by(predicate))


def most_trips(op: ir.Operation) -> int | None:
    """An upper bound of the number of trips of a loop; None if no counter bounds it.

    For example, ``(error > 1e-6) & (i < 50)`` has at most 50 trips if i starts at 0 and grows by 1.
    """
    _, work = ends_of(op.regions[0])
    trips: list[int] = []
    while work:
        test = made_by(work.pop())
        if test is not None and test.name == "stablehlo.and":
            work += test.operands
        elif (counter := _counter_in(op, test)) is not None:
            trips.append(counter.trips)
    return min(trips, default=None)


def _counter_in(op: ir.Operation, test: ir.Operation | None) -> Counter | None:
    """The counter that `test`, a comparison in the loop's condition, compares with a constant; None if there is none."""
    if test is None or test.name != "stablehlo.compare":
        return None
    arguments, _ = ends_of(op.regions[0])
    direction = REGISTRY[test.name].read(test)["comparison_direction"]
    left, right = test.operands
    if right in arguments and left not in arguments:
        left, right, direction = right, left, _FLIPPED[direction]
    if left not in arguments:
        return None
    carry = arguments.index(left)
    limit = _constant_in(op, right, arguments)
    start, step = integer_constant(op.operands[carry]), step_of(op, carry)
    if start is None or limit is None or step is None or step == 0:
        return None
    trips = _trips(start, limit, step, direction)
    return None if trips is None else Counter(carry, start, step, trips)


def _trips(start: int, limit: int, step: int, direction: str) -> int | None:
    """The number of iterations of a counting loop; None if the loop ends only when the integer overflows."""
    distance = limit - start
    if direction == "NE":
        return distance // step if distance % step == 0 and distance // step >= 0 else None
    if direction in ("LE", "GE"):
        distance += 1 if direction == "LE" else -1
    rising = direction in ("LT", "LE")
    if direction == "EQ" or (distance > 0) != rising:  # no iteration runs if the condition is false at the start
        return 0 if direction != "EQ" and (distance <= 0 if rising else distance >= 0) else None
    if (step > 0) != rising:
        return None  # the loop runs until the integer wraps around
    return -(-distance // step)


def step_of(op: ir.Operation, carry: int) -> int | None:
    """The constant that an iteration adds to a carry; None if it is not a constant."""
    arguments, outputs = ends_of(op.regions[1])
    move = made_by(outputs[carry])
    if move is None or move.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    left, right = move.operands
    if left == arguments[carry]:
        amount = _constant_in(op, right, arguments, region=1)
    elif right == arguments[carry] and move.name == "stablehlo.add":
        amount = _constant_in(op, left, arguments, region=1)
    else:
        return None
    if amount is None:
        return None
    return -amount if move.name == "stablehlo.subtract" else amount


def _constant_in(op: ir.Operation, value: ir.Value, arguments: list[ir.Value], region: int = 0) -> int | None:
    """The integer of a constant `value`, or of a carry that never changes and starts as a constant; None for other values.

    `op` is the loop, and `arguments` are the carries of its region number `region`.
    """
    if value in arguments:
        i = arguments.index(value)
        return integer_constant(op.operands[i]) if i in invariant_carries(op) else None
    return integer_constant(value)
