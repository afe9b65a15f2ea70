"""Tapes: carried arrays of which every iteration of a counted loop writes one row, at its counter."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.shape import concatenate, reshape, sliced
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.simplify.pattern import owner
from nabla_mlir.rules.loops import Counter, find_counter
from nabla_mlir.rules.tapes import direction, reads_row, row_read, tape_of
from nabla_mlir.table.regions import body_of, ends_of
from nabla_mlir.table.tensor import wrap


def shift_tapes(op: ir.Operation) -> bool:
    """Replaces a tape of the values of a carry before each iteration, if another tape stores the values after it.

    A tape is a carried array of which each iteration writes one row. The rows of the replaced tape are the initial value and all
    rows of the other one except the last. Returns True if a tape of the loop `op` was replaced.
    """
    counter = find_counter(op)
    if counter is None or counter.trips < 2:
        return False
    arguments, outputs = ends_of(op.regions[1])
    tapes = [t for i in range(len(arguments)) if (t := tape_of(op, i, counter)) is not None]
    change = False
    for before in tapes:
        if before.row not in arguments or is_unused(op.results[before.carry]):
            continue
        source = arguments.index(before.row)
        if _comes_back(source, arguments, outputs):
            continue
        after = next((t for t in tapes if t.row == outputs[source] and t.direction == before.direction), None)
        if after is None:
            continue
        with ir.InsertionPoint.after(op), op.location:
            rows, first = wrap(op.results[after.carry]), wrap(op.operands[source])
            first = reshape(first, shape=(1, *first.shape))
            n = rows.shape[0]
            earlier, later = (first, sliced(rows, 0, 0, n - 1)) if before.direction > 0 else (sliced(rows, 0, 1, n), first)
            tape = concatenate(earlier, later, dimension=0)
        op.results[before.carry].replace_all_uses_with(tape.value)
        change = True
    return change


def _comes_back(carry: int, arguments: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> bool:
    """True if the carry with index `carry`, the carry whose output it is, and so on, form a cycle.

    `outputs[i]` is the next value of `arguments[i]`. In a cycle each tape would be computed from the next.
    """
    current = carry
    for _ in arguments:
        if outputs[current] not in arguments:
            return False
        current = arguments.index(outputs[current])
        if current == carry:
            return True
    return False


def read_from_outside(op: ir.Operation) -> bool:
    """Reads rows from the initial value, if every iteration reads one row of a carry and then overwrites it.

    The cotangents of rows have this form: a sum that starts at zero and gains a row in every iteration is a tape. Returns True
    if a carry was changed.
    """
    counter = find_counter(op)
    if counter is None:
        return False
    arguments, outputs = ends_of(op.regions[1])
    change = False
    for i, argument in enumerate(arguments):
        update = owner(wrap(outputs[i]))
        if update is None or update.name != "stablehlo.dynamic_update_slice" or update.operands[0] != argument:
            continue
        row = shape_and_dtype(update.operands[1].type)[0]
        if not row or argument.type.shape[0] < counter.trips or row[0] != 1 or not direction(op, update.operands[2], counter):
            continue
        reads = [use.owner.operation for use in argument.uses if use.owner.operation != update]
        if not reads or not all(reads_row(user, update) for user in reads):
            continue
        for read in reads:
            read.operands[0] = op.operands[i]
        change = True
    return change


def values_inside(op: ir.Operation) -> set[ir.Value]:
    """The arguments of the body of the loop `op`, and the values that the body computes."""
    arguments, ops, _ = body_of(op.regions[1])
    return {*arguments, *(r for o in ops for r in o.results)}


def tape_read(value: ir.Value, op: ir.Operation, counter: Counter) -> ir.Value | None:
    """The array outside the loop `op` of which `value` is the row of the current iteration; None for another value.

    The array has as many rows as the loop has iterations, and `counter` describes the counter of the loop.
    """
    if (read := row_read(value)) is None:
        return None
    rows, index = read
    along = counter.step == direction(op, index, counter)  # True if the rows are read in the order in which the loop writes a tape
    is_whole = shape_and_dtype(rows.type)[0][0] == counter.trips
    return rows if along and is_whole and rows not in values_inside(op) else None
