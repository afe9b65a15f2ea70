"""Recomputation of values for late readers, so that the values need not stay in memory until then.

A late reader is an elementwise operation of a later stage than the value; stages are defined at `_Order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.builder import Val, stored
from nabla_mlir.dialects.regions import blocks_in_functions, made_by
from nabla_mlir.dialects.stablehlo import BARRIERS
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.cuts import cheapest_cut
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import ONE_BY_ONE, bytes_of, is_elementwise, is_free, is_view, record_or_none, size_of

Cone = dict[ir.Value, Sequence[ir.Value]]  # values with their operands; no operands if the value is not recomputed


@register
@dataclass(frozen=True)
class RecomputePass(Pass):
    """Recompute elementwise values for late readers, if this needs fewer live bytes until then.

    A derivative reads values of the function: for an activation, each factor of its derivative, and for a second derivative as
    many again. All of them are computed from few values, which are stored instead. The choice is the cheapest cut between the
    values in memory and the readers; a value that is in memory anyway costs nothing. To recompute a value takes a few
    instructions, about as many as to write and read it.

    Example: tests/filecheck/passes/recompute.mlir
    """

    name: ClassVar[str] = "nabla-recompute"
    least_bytes: int = thresholds.RECOMPUTED  # the least size of a value that is recomputed

    def run(self, module: ir.Operation) -> None:
        """Recomputes values for late readers in all blocks, in place."""
        for block in blocks_in_functions(module):
            _recompute(block, self.least_bytes)


@dataclass(frozen=True)
class _Read:
    """A late read: an elementwise operation, its index in the block, and the index of the operand."""

    op: ir.Operation
    position: int
    operand: int

    @property
    def value(self) -> ir.Value:
        """The value that the operation reads."""
        return self.op.operands[self.operand]


@dataclass
class _Order:
    """The order of the values of a block.

    The stage of a value is the number of operations before it that are not elementwise, on the longest path to it.
    Elementwise operations of one stage can be computed together.
    """

    ops: list[ir.Operation] = field(default_factory=list)
    positions: dict[ir.Value, int] = field(default_factory=dict)
    stages: dict[ir.Value, int] = field(default_factory=dict)
    last: dict[ir.Value, int] = field(default_factory=dict)  # the stage of the last reader that is not elementwise
    made: Cone = field(default_factory=dict)  # the operands of values that can be recomputed
    where_read: set[ir.Value] = field(default_factory=set)  # of these, values that are computed in their readers
    sizes: dict[ir.Value, int] = field(default_factory=dict)

    @staticmethod
    def of(block: ir.Block) -> _Order:
        """The order of a block."""
        order = _Order()
        for position, op in enumerate(o.operation for o in block.operations):
            order.ops.append(op)
            begins = order.begins(op)
            is_repeatable = _is_recomputed(op)
            for value in op.results:
                order.positions[value] = position
                order.stages[value] = begins if is_repeatable else begins + 1
            if is_repeatable:
                order.made[op.results[0]] = tuple(op.operands)
                if is_free(op) and not is_view(op):
                    order.where_read.add(op.results[0])
            else:
                for value in reads_of(op):
                    order.last[value] = max(begins, order.last.get(value, 0))
        return order

    def begins(self, op: ir.Operation) -> int:
        """The stage at which an operation can run: the latest stage of the values that it reads."""
        return max((self.stages.get(v, 0) for v in reads_of(op)), default=0)

    def is_available(self, value: ir.Value, stage: int) -> bool:
        """True if a value is in memory at a stage in any case, or needs no memory because it is a constant."""
        is_constant = self.made.get(value) == ()
        return value not in self.positions or is_constant or self.last.get(value, -1) >= stage

    def size(self, value: ir.Value) -> int:
        """The bytes of a value; 0 if its shape is dynamic."""
        if value not in self.sizes:
            self.sizes[value] = bytes_of(value) if is_static_tensor(value.type) else 0
        return self.sizes[value]

    def late(self, least_bytes: int) -> dict[int, list[_Read]]:
        """The late reads of elementwise values of at least `least_bytes`, by the stage of the reader; the last stage first."""
        found: dict[int, list[_Read]] = {}
        for position, op in enumerate(self.ops):
            if not is_elementwise(op):
                continue
            begins = self.begins(op)
            for i, value in enumerate(op.operands):
                maker = made_by(value)
                is_late = value in self.stages and self.stages[value] < begins
                if is_late and is_elementwise(maker) and self.size(value) >= least_bytes:
                    found.setdefault(begins, []).append(_Read(op, position, i))
        return dict(sorted(found.items(), reverse=True))


def _recompute(block: ir.Block, least_bytes: int) -> None:
    """Recomputes elementwise values of a block for late readers; values of fewer than `least_bytes` are not recomputed.

    For each stage, a minimum cut chooses which values are stored and which are recomputed.
    """
    order = _Order.of(block)
    tape: set[ir.Value] = set()  # values that stay in memory for a later stage
    for stage, reads in order.late(least_bytes).items():
        cone = _cone([r.value for r in reads], order)
        targets = {r.value for r in reads}
        costs = {v: 0 if v in tape or order.is_available(v, stage) else order.size(v) for v in cone}
        # Values that are computed in their readers are in no cut, unless they have no operands.
        cut = cheapest_cut(cone, {v: c for v, c in costs.items() if not cone[v] or v not in order.where_read}, targets)
        recomputed = _after_cut(cone, targets, cut)
        # The bytes that need not be stored until the late readers, because their values are recomputed from the cut.
        gain = sum(map(costs.__getitem__, targets)) - sum(map(costs.__getitem__, cut))
        if gain < least_bytes or sum(map(_work, recomputed)) > thresholds.RECOMPUTED_WORK * gain:
            tape |= targets  # they stay stored for this stage
            continue
        tape |= cut
        _insert_copies(cone, reads, cut, order, least_bytes)
    for op in reversed(order.ops):
        if is_elementwise(op) and is_unused(op.results[0]):
            op.erase()


def _cone(values: Iterable[ir.Value], order: _Order) -> Cone:
    """The operands of the values, and of all values from which they are computed by operations that can be repeated.

    Values that cannot be recomputed, or are too far away, have no operands.
    """
    cone: Cone = {}
    work = list(dict.fromkeys(values))
    for value in work:  # breadth first, so that near values are included
        if value in cone:
            continue
        cone[value] = order.made.get(value, ()) if len(cone) < thresholds.RECOMPUTED_AT_ONCE else ()
        work += cone[value]
    return cone


def _after_cut(cone: Cone, values: Iterable[ir.Value], cut: set[ir.Value]) -> set[ir.Value]:
    """The values that must be recomputed if those in `cut` are stored: `values`, and those on the way from the cut to them.

    `cone` has the operands of each value.
    """
    found: set[ir.Value] = set()
    work = [v for v in values if v not in cut]
    while work:
        value = work.pop()
        if value not in found:
            found.add(value)
            work += [v for v in cone[value] if v not in cut]
    return found


def _insert_copies(cone: Cone, reads: Sequence[_Read], cut: set[ir.Value], order: _Order, least_bytes: int) -> None:
    """Recomputes the values that `reads` read, each before its first reader, from the stored values `cut`.

    `cone` has the operands of each value, and `order` has the positions and sizes of the values of the block.
    """
    new: dict[ir.Value, ir.Value] = {}
    for reader in sorted(reads, key=lambda r: r.position):
        chain = sorted(_after_cut(cone, [reader.value], cut), key=order.positions.__getitem__)
        with ir.InsertionPoint(reader.op), reader.op.location:
            for value in (v for v in chain if v not in new):
                copy = value.owner.operation.clone()
                for i, operand in enumerate(copy.operands):
                    is_held = operand in cut and not _is_constant(operand)
                    if is_held and operand not in new and order.size(operand) >= least_bytes:
                        with ir.InsertionPoint(copy):  # the barrier prevents that the copies are merged with the originals
                            new[operand] = stored(Val(operand)).value
                    copy.operands[i] = new.get(operand, operand)
                new[value] = copy.results[0]
        reader.op.operands[reader.operand] = new.get(reader.value, reader.value)


def _is_recomputed(op: ir.Operation) -> bool:
    """True if an operation can be repeated: elementwise and not long, or free."""
    record = record_or_none(op)
    if op.name in BARRIERS or len(op.results) != 1 or not is_static_tensor(op.results[0].type):
        return False
    return is_free(op) or (record is not None and record.elementwise and record.instructions < ONE_BY_ONE)


def _is_constant(value: ir.Value) -> bool:
    """True for a value that needs no memory and no operands, such as a constant or an iota."""
    maker = made_by(value)
    return maker is not None and is_free(maker) and not len(maker.operands)


def _work(value: ir.Value) -> int:
    """The instructions that compute an elementwise value; 0 for other values."""
    record = record_or_none(made_by(value))
    return size_of(value) * record.instructions if record is not None and record.elementwise else 0
