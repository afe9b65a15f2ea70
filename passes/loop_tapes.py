"""Tapes: carries of which every iteration of a counted loop writes one row, at its counter."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.loops import Counter, find_counter
from nabla_mlir.ops.regions import body_of
from nabla_mlir.ops.shape import concatenate, reshape, slice_
from nabla_mlir.ops.tensor import Tensor, splat_of, wrap
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.patterns import has_one_use, owner


@dataclass(frozen=True)
class Tape:
    """A carry that is a tape, and the value that an iteration writes to it."""

    carry: int
    row: ir.Value  # what an iteration writes
    direction: int  # 1 if the rows are written from the first to the last, -1 from the last to the first


def shift_tapes(op: ir.Operation) -> bool:
    """Drops a tape of what a carry was before each iteration where another one holds what it is after it.

    Its rows are the initial value and all rows of the other but the last.
    """
    counter = find_counter(op)
    if counter is None or counter.trips < 2:
        return False
    arguments, _, returned = body_of(op.regions[1])
    tapes = [t for i in range(len(arguments)) if (t := tape_of(op, i, counter)) is not None]
    changed = False
    for before in tapes:
        if before.row not in arguments or is_unused(op.results[before.carry]):
            continue
        source = arguments.index(before.row)
        after = next((t for t in tapes if t.row == returned[source] and t.direction == before.direction), None)
        if after is None:
            continue
        with ir.InsertionPoint.after(op), op.location:
            rows, first = wrap(op.results[after.carry]), wrap(op.operands[source])
            first = reshape(first, shape=(1, *first.shape))
            earlier, later = (first, _rows(rows, 0, -1)) if before.direction > 0 else (_rows(rows, 1, None), first)
            shifted = concatenate(earlier, later, dimension=0)
        op.results[before.carry].replace_all_uses_with(shifted.value)
        changed = True
    return changed


def read_from_outside(op: ir.Operation) -> bool:
    """Drops a tape of which every iteration reads one row and then overwrites it: the rows are those it starts with.

    The cotangents of stacked results come so.
    """
    counter = find_counter(op)
    if counter is None:
        return False
    arguments, _, returned = body_of(op.regions[1])
    changed = False
    for i, argument in enumerate(arguments):
        update = owner(wrap(returned[i]))
        if not is_unused(op.results[i]) or update is None or update.name != "stablehlo.dynamic_update_slice":
            continue
        row = shape_and_dtype(update.operands[1].type)[0]
        place = list(update.operands)[2:]
        if argument.type.shape[0] != counter.trips or row[0] != 1 or not direction(op, place[0], counter):
            continue
        reads = [use.owner.operation for use in argument.uses if use.owner.operation != update]
        fits = all(r.name == "stablehlo.dynamic_slice" and list(r.operands)[1:] == place for r in reads)
        if not reads or not fits or any(shape_and_dtype(r.results[0].type)[0] != row for r in reads):
            continue
        for read in reads:
            read.operands[0] = op.operands[i]
        changed = True
    return changed


def _rows(x: Tensor, start: int, stop: int | None) -> Tensor:
    limits = (range(x.shape[0])[start:stop].stop, *x.shape[1:])
    return slice_(x, start_indices=(start, *[0] * (x.ndim - 1)), limit_indices=limits, strides=(1,) * x.ndim)


def direction(op: ir.Operation, index: ir.Value, counter: Counter) -> int:
    """1 or -1 if a value in the body is 0 ... trips - 1, rising or falling, as the loop runs; else 0.

    It is the counter, or the last index less the counter.
    """
    counting = body_of(op.regions[1])[0][counter.carry]
    runs = {(0, 1): 1, (counter.trips - 1, -1): -1}.get((counter.start, counter.step), 0)
    if index == counting:
        return runs
    made_by = owner(wrap(index))
    if made_by is None or made_by.name != "stablehlo.subtract" or made_by.operands[1] != counting:
        return 0
    return -runs if splat_of(wrap(made_by.operands[0])) == counter.trips - 1 else 0


def tape_of(op: ir.Operation, carry: int, counter: Counter) -> Tape | None:
    """The tape that a carry is, if every row of it is written."""
    arguments, _, returned = body_of(op.regions[1])
    update = owner(wrap(returned[carry]))
    if update is None or update.name != "stablehlo.dynamic_update_slice":
        return None
    rows, row, index, *rest = list(update.operands)
    shape = shape_and_dtype(rows.type)[0]
    whole_row = shape_and_dtype(row.type)[0] == (1, *shape[1:]) and all(splat_of(wrap(i)) == 0 for i in rest)
    order = direction(op, index, counter)
    if rows != arguments[carry] or not order or not whole_row or shape[0] != counter.trips:
        return None
    made_by = owner(wrap(row))
    value = made_by.operands[0] if made_by is not None and made_by.name == "stablehlo.reshape" else row
    if (
        shape_and_dtype(value.type)[0] != shape[1:]
        or not has_one_use(wrap(rows))
        or not has_one_use(wrap(returned[carry]))
    ):
        return None
    return Tape(carry, value, order)


def values_inside(op: ir.Operation) -> set[ir.Value]:
    """The values that an iteration computes or is given."""
    arguments, ops, _ = body_of(op.regions[1])
    return {*arguments, *(r for o in ops for r in o.results)}


def tape_read(value: ir.Value, op: ir.Operation, counter: Counter) -> ir.Value | None:
    """The tape outside the loop whose row at the counter `value` is, for a counter that is the number of a row."""
    made_by = owner(wrap(value))
    if made_by is not None and made_by.name == "stablehlo.reshape":
        made_by = owner(wrap(made_by.operands[0]))
    if made_by is None or made_by.name != "stablehlo.dynamic_slice":
        return None
    rows, index, *rest = list(made_by.operands)
    shape = shape_and_dtype(rows.type)[0]
    sizes = shape_and_dtype(made_by.results[0].type)[0]
    is_row = sizes == (1, *shape[1:]) and all(splat_of(wrap(i)) == 0 for i in rest)
    along = counter.step == direction(op, index, counter)  # read in the order in which the loop writes a tape
    if rows in values_inside(op) or not along or not is_row or shape[0] != counter.trips:
        return None
    return rows if shape_and_dtype(value.type)[0] == shape[1:] else None
