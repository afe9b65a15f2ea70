"""What holds of an operation, asked of its record; of one without a record nothing does.

A pass that treats a class of operations asks here, so that an operation is added by its record alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.tensor import wrap

CONSTANT = "stablehlo.constant"  # the one operation of values that has no record: it has no operands

# Instructions for an element: the words of one scale, on which records say where an operation stands and passes where they
# change their ways. No time is meant; those of the steps that matter are in nabla_mlir/thresholds.py (`ELEMENT`).
CHEAP = 3  # to compute it again takes no longer than to read it from memory
FUNCTION = 8  # a quotient, a root, an exponential
OWN_LOOP = 10  # of what does not fuse with its neighbours, where the record does not say more
LONG = 20  # it is worth storing for the backward pass
ONE_BY_ONE = 100  # elements are not done side by side


def record_or_none(op: ir.Operation | None) -> OpDef | None:
    """The record of an operation, if there is one."""
    return None if op is None else REGISTRY.get(op.name)


def names_with(holds: Callable[[OpDef], bool]) -> list[str]:
    """The operations of whose record something holds, in order."""
    return sorted(name for name, record in REGISTRY.items() if holds(record))


def is_elementwise(op: ir.Operation | None) -> bool:
    """Whether each element of the result is made of those at its place."""
    record = record_or_none(op)
    return record is not None and record.elementwise


def is_cheap(op: ir.Operation | None) -> bool:
    """Whether an operation is elementwise, and costs less to compute again than to read from memory."""
    record = record_or_none(op)
    return record is not None and record.elementwise and record.instructions <= CHEAP


def is_long(op: ir.Operation | None) -> bool:
    """Whether the result is worth storing rather than computing again."""
    record = record_or_none(op)
    return record is not None and record.instructions >= LONG


def is_free(op: ir.Operation | None) -> bool:
    """Whether an operation takes no time and no memory: a constant, a view, or what is made where it is read."""
    record = record_or_none(op)
    return (op is not None and op.name == CONSTANT) or (record is not None and record.free)


def is_view(op: ir.Operation | None) -> bool:
    """Whether the result has the bits of the operand, in their order."""
    record = record_or_none(op)
    return record is not None and record.view


def is_part(op: ir.Operation | None) -> bool:
    """Whether an operation reads a part of its first operand."""
    record = record_or_none(op)
    return record is not None and record.part


def is_reduction(op: ir.Operation | None) -> bool:
    """Whether many elements become one."""
    record = record_or_none(op)
    return record is not None and record.reduces


def is_sum(op: ir.Operation | None) -> bool:
    """Whether an operation is elementwise and linear in all operands together: zero where they are, of finite partials."""
    record = record_or_none(op)
    if op is None or record is None or not record.elementwise or not record.joint:
        return False
    return record.linear == "all" or record.linear == tuple(range(len(op.operands)))


def is_linear_in(op: ir.Operation | None, i: int) -> bool:
    """Whether an operation is elementwise, and linear in operand `i` while the others are held fixed."""
    record = record_or_none(op)
    if op is None or record is None or not record.elementwise or callable(record.linear):
        return False
    linear = range(len(op.operands)) if record.linear == "all" else record.linear
    return i in linear and (not record.joint or len(linear) == 1)


def is_choice(op: ir.Operation | None) -> bool:
    """Whether one of the regions runs, by the first operand."""
    record = record_or_none(op)
    return record is not None and record.runs == "choice"


def returns_of_regions(op: ir.Operation | None) -> bool:
    """Whether each result is what one of the regions returns at its place."""
    record = record_or_none(op)
    return record is not None and record.runs in ("choice", "once")


def runs_regions(op: ir.Operation) -> bool:
    """Whether regions run as they stand, as that of a function does; those of others say what is done with elements."""
    record = record_or_none(op)
    return op.name == "func.func" or (record is not None and record.kind == "control")


def moved(op: ir.Operation | None) -> list[ir.Value]:
    """The operands of whose elements the result consists; none if it computes."""
    record = record_or_none(op)
    if op is None or record is None or not record.moves:
        return []
    operands = list(op.operands)
    return operands if record.linear in ("all", ()) else [operands[i] for i in record.linear]


def updated(op: ir.Operation) -> Sequence[int]:
    """The operands whose place in memory the results take."""
    record = record_or_none(op)
    return () if record is None or record.updates is None else record.updates(op)


# ---------------------------------------------------------------- cost


def size_of(value: ir.Value) -> int:
    """The number of elements."""
    return math.prod(shape_and_dtype(value.type)[0])


def bytes_of(value: ir.Value) -> int:
    """The bytes of a value."""
    shape, dtype = shape_and_dtype(value.type)
    return math.prod(shape) * dtype.itemsize


def flops_of(op: ir.Operation) -> int:
    """Floating-point operations of an operation, as its record says; its regions do not count."""
    record = record_or_none(op)
    if record is None:
        return 0
    if record.flops is not None:
        return record.flops([wrap(r) for r in op.results], [wrap(v) for v in op.operands], **record.read(op))
    if record.free or record.view or (record.moves and not record.elementwise):
        return 0
    return max(map(size_of, [*op.operands, *op.results]), default=0)
