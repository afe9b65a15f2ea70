"""Properties of operations, read from their records; an operation without a record has none of them.

A pass that treats a class of operations uses these functions, so that a new operation needs only its record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.tensor import wrap

CONSTANT = "stablehlo.constant"  # the only operation on values without a record, because it has no operands

# The cost of one element, in instructions: records rate operations on this scale, and passes choose strategies by it. These
# are no times; the times of the relevant steps are in nabla_mlir/base/thresholds.py (`ELEMENT`).
CHEAP = 3  # recomputing it takes no longer than reading it from memory
FUNCTION = 8  # a quotient, a root, an exponential
OWN_LOOP = 10  # the default of operations that do not fuse with their neighbours
LONG = 20  # it is worth storing for the backward pass
ONE_BY_ONE = 100  # elements are processed one after another


def record_or_none(op: ir.Operation | None) -> OpDef | None:
    """The record of an operation; None if it has none."""
    return None if op is None else REGISTRY.get(op.name)


def names_with(holds: Callable[[OpDef], bool]) -> list[str]:
    """The names of the operations whose record satisfies a condition, sorted."""
    return sorted(name for name, record in REGISTRY.items() if holds(record))


def is_elementwise(op: ir.Operation | None) -> bool:
    """True if each element of the result depends only on the elements at its own index."""
    record = record_or_none(op)
    return record is not None and record.elementwise


def is_cheap(op: ir.Operation | None) -> bool:
    """True for an elementwise operation that costs less to recompute than to read from memory."""
    record = record_or_none(op)
    return record is not None and record.elementwise and record.instructions <= CHEAP


def is_long(op: ir.Operation | None) -> bool:
    """True if it is cheaper to store the result than to recompute it."""
    record = record_or_none(op)
    return record is not None and record.instructions >= LONG


def is_free(op: ir.Operation | None) -> bool:
    """True if an operation costs no time and no memory: a constant, a view, or a value that is computed by its readers."""
    record = record_or_none(op)
    return (op is not None and op.name == CONSTANT) or (record is not None and record.free)


def is_view(op: ir.Operation | None) -> bool:
    """True if the result has the bits of the operand, in the same order."""
    record = record_or_none(op)
    return record is not None and record.view


def is_part(op: ir.Operation | None) -> bool:
    """True if an operation reads a part of its first operand."""
    record = record_or_none(op)
    return record is not None and record.part


def is_reduction(op: ir.Operation | None) -> bool:
    """True if an operation combines many elements into one."""
    record = record_or_none(op)
    return record is not None and record.reduces


def is_sum(op: ir.Operation | None) -> bool:
    """True for an elementwise operation that is linear in all operands together.

    Its partials are finite, and its result is zero where all operands are zero.
    """
    record = record_or_none(op)
    if op is None or record is None or not record.elementwise or not record.joint:
        return False
    return record.linear == "all" or record.linear == tuple(range(len(op.operands)))


def is_linear_in(op: ir.Operation | None, i: int) -> bool:
    """True for an elementwise operation that is linear in operand `i` while the other operands are fixed."""
    record = record_or_none(op)
    if op is None or record is None or not record.elementwise or callable(record.linear):
        return False
    linear = range(len(op.operands)) if record.linear == "all" else record.linear
    return i in linear and (not record.joint or len(linear) == 1)


def is_choice(op: ir.Operation | None) -> bool:
    """True if the first operand selects one region, which runs."""
    record = record_or_none(op)
    return record is not None and record.runs == "choice"


def returns_of_regions(op: ir.Operation | None) -> bool:
    """True if each result is the value that one of the regions returns at the same index."""
    record = record_or_none(op)
    return record is not None and record.runs in ("choice", "once")


def runs_regions(op: ir.Operation) -> bool:
    """True if the regions run like the body of a function; the regions of other operations act on elements."""
    record = record_or_none(op)
    return op.name == "func.func" or (record is not None and record.control is not None)


def is_step(op: ir.Operation) -> bool:
    """True for an operation of a function, a loop or a branch; False for a function, and in the region of a reduction."""
    return op.parent is not None and runs_regions(op.parent.operation)


def moved(op: ir.Operation | None) -> list[ir.Value]:
    """The operands from which the elements of the result are copied; empty if the operation computes new elements."""
    record = record_or_none(op)
    if op is None or record is None or not record.moves:
        return []
    operands = list(op.operands)
    return [operands[i] for i in record.linear] if isinstance(record.linear, tuple) and record.linear else operands


def updated(op: ir.Operation) -> Sequence[int]:
    """Indices of the operands whose memory the results reuse."""
    record = record_or_none(op)
    return () if record is None or record.updates is None else record.updates(op)


# ---------------------------------------------------------------- cost


def size_of(value: ir.Value) -> int:
    """The number of elements of a value."""
    return math.prod(shape_and_dtype(value.type)[0])


def bytes_of(value: ir.Value) -> int:
    """The size of a value in bytes."""
    shape, dtype = shape_and_dtype(value.type)
    return math.prod(shape) * dtype.itemsize


def flops_of(op: ir.Operation) -> int:
    """The number of floating-point operations that `op` does, by its record; operations in its regions are not counted."""
    record = record_or_none(op)
    if record is None:
        return 0
    if record.flops is not None:
        return record.flops([wrap(r) for r in op.results], [wrap(v) for v in op.operands], **record.read(op))
    if record.free or record.view or (record.moves and not record.elementwise):
        return 0
    return max(map(size_of, [*op.operands, *op.results]), default=0)
