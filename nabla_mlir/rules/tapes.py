"""Tapes: arrays with one row per iteration of a loop; one loop writes them and another reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.elementwise import add, convert, multiply
from nabla_mlir.ops.shape import dynamic_slice, dynamic_update_slice, reshape
from nabla_mlir.rules.loops import Counter
from nabla_mlir.table.regions import ends_of
from nabla_mlir.table.tensor import Tensor, full, splat_of, wrap

INDEX = np.dtype(np.int32)  # the dtype of row indices


def empty_tape(length: int, like: Tensor) -> Tensor:
    """A tape of `length` zero rows, each with the shape and dtype of `like`."""
    return full((length, *like.shape), 0, like.dtype)


def write_row(tape: Tensor, value: Tensor, index: Tensor, axis: int = 0) -> Tensor:
    """The tape, with `value` as its row `index` along an axis."""
    zero = full((), 0, index.dtype)  # all indices have one type
    row = reshape(value, shape=(*value.shape[:axis], 1, *value.shape[axis:]))
    return dynamic_update_slice(tape, row, *[zero] * axis, index, *[zero] * (value.ndim - axis))


def read_row(tape: Tensor, index: Tensor, axis: int = 0) -> Tensor:
    """The row `index` of the tape along an axis."""
    zero = full((), 0, index.dtype)  # all indices have one type
    before, after = tape.shape[:axis], tape.shape[axis + 1 :]
    starts = [*[zero] * axis, index, *[zero] * len(after)]
    row = dynamic_slice(tape, *starts, slice_sizes=(*before, 1, *after))
    return reshape(row, shape=(*before, *after))


def row_read(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The array and the index, if `value` is one element of the leading axis of an array; None for another value.

    Such a value is a dynamic slice of size 1 along that axis, at 0 along the others, reshaped to drop the axis.
    """
    maker = made_by(value)
    read = made_by(maker.operands[0]) if maker is not None and maker.name == "stablehlo.reshape" else None
    if read is None or read.name != "stablehlo.dynamic_slice":
        return None
    rows, index, *other_indices = list(read.operands)
    shape, sizes = (shape_and_dtype(v.type)[0] for v in (rows, read.results[0]))
    is_row = sizes == (1, *shape[1:]) and shape_and_dtype(value.type)[0] == shape[1:]
    return (rows, index) if is_row and all(splat_of(wrap(i)) == 0 for i in other_indices) else None


@dataclass(frozen=True)
class Tape:
    """A carry that is a tape, and the value that each iteration writes to it."""

    carry: int
    row: ir.Value  # the value that an iteration writes
    direction: int  # 1 if the rows are written from the first to the last, -1 from the last to the first


def direction(op: ir.Operation, index: ir.Value, counter: Counter) -> int:
    """The order in which `index`, a value in the body, counts: 1 for 0 ... trips - 1, -1 for trips - 1 ... 0, and 0 for another
    value.

    `counter` describes the carry that counts. Example: for i in range(3), the index i gives 1, and 2 - i gives -1.
    """
    counting = op.regions[1].blocks[0].arguments[counter.carry]
    # A counter that goes through all rows, upwards or downwards.
    upward = {(0, 1): 1, (counter.trips - 1, -1): -1}.get((counter.start, counter.step), 0)
    if index == counting:
        return upward
    maker = made_by(index)
    if maker is None or maker.name != "stablehlo.subtract" or maker.operands[1] != counting:
        return 0
    return -upward if splat_of(wrap(maker.operands[0])) == counter.trips - 1 else 0


def tape_of(op: ir.Operation, carry: int, counter: Counter) -> Tape | None:
    """The tape in the carry with index `carry`, if each iteration writes one row of it and nothing else uses it; else None.

    `counter` describes the carry that counts the iterations.
    """
    update = row_update(op, carry, counter)
    if update is None:
        return None
    rows, row, index = list(update.operands)[:3]
    maker = made_by(row)
    value = maker.operands[0] if maker is not None and maker.name == "stablehlo.reshape" else row
    is_row = shape_and_dtype(value.type)[0] == shape_and_dtype(rows.type)[0][1:]
    return Tape(carry, value, direction(op, index, counter)) if is_row else None


def row_update(op: ir.Operation, carry: int, counter: Counter) -> ir.Operation | None:
    """The operation that writes one row of the carry with index `carry` in each iteration.

    None unless every row is written once and nothing else in the loop reads or writes the carry. `counter` describes the carry that
    counts.
    """
    arguments, outputs = ends_of(op.regions[1])
    update = made_by(outputs[carry])
    if update is None or update.name != "stablehlo.dynamic_update_slice":
        return None
    rows, row, index, *other_indices = list(update.operands)
    shape = shape_and_dtype(rows.type)[0]
    whole_row = shape_and_dtype(row.type)[0] == (1, *shape[1:]) and all(splat_of(wrap(i)) == 0 for i in other_indices)
    if rows != arguments[carry] or not direction(op, index, counter) or not whole_row or shape[0] != counter.trips:
        return None
    used_once = len(list(rows.uses)) == 1 and len(list(outputs[carry].uses)) == 1
    return update if used_once else None


def reads_row(user: ir.Operation, update: ir.Operation) -> bool:
    """True if `user`, a user of a tape, reads the row that `update` writes."""
    if user.name != "stablehlo.dynamic_slice":
        return False
    return user.results[0].type == update.operands[1].type and list(user.operands)[1:] == list(update.operands)[2:]


def count_at(index: Tensor, counter: Counter, dtype: np.dtype) -> Tensor:
    """The value of the loop's counter at iteration number `index`."""
    value = index if dtype == INDEX else convert(index, dtype=dtype)
    if counter.step != 1:
        value = multiply(value, full((), counter.step, dtype))
    return value if counter.start == 0 else add(value, full((), counter.start, dtype))
