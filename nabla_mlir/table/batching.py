"""Batching of a straight line of operations: the mapped axis leads in every value that carries it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects import debug
from nabla_mlir.dialects.ad_rules import CUSTOM, RECUR
from nabla_mlir.dialects.batch import ALL_GATHER, CURRENT, PSUM_SCATTER, REDUCTIONS, axis_of, free_axes
from nabla_mlir.dialects.locations import blaming, named
from nabla_mlir.dialects.regions import scratch_block
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.table.regions import captures_by_rule, decomposed, reads_of
from nabla_mlir.table.registry import OpDef, Region, clone_op, missing_rule, operation, record_of
from nabla_mlir.table.rules import UNSUPPORTED, Batch, BatchRule, CollectiveRule
from nabla_mlir.table.tensor import Tensor, full, splat_of, wrap


def batch_ops(ops: Iterable[ir.Operation], batch: Batch) -> None:
    """Emits `ops` at the insertion point with the mapped axis in front; binds their results in `batch`.

    Args:
      ops: the operations, in order; they are not changed. An operation without varying operands is cloned unchanged.
      batch: the values that the operations read.
    """
    for op in ops:
        operands = list(op.operands)
        constant = not any(v in batch for v in operands) and not captures_any(op, batch.mapped)
        if constant and op.name != RECUR and CURRENT not in free_axes(op):
            clone_op(op, batch.unmapped)
            continue
        record = record_of(op, "vmap")
        if debug.wanted("ops"):
            debug.say("ops", f"vmap {op.name} {debug.types(operands, batch.mapped)}, * carries the axis", op.location)
        with blaming(op), named("vmap", op.location, op.name):
            if record.control is not None:
                record.control.batch(op, batch)
            elif record.collective is not None and axis_of(op) == CURRENT:
                _reduce_axis(op, record, record.collective, batch)
            else:
                for old, new in zip(op.results, _batch_op(op, record, batch), strict=True):
                    batch.bind(old, new)


def _reduce_axis(op: ir.Operation, record: OpDef, rule: CollectiveRule, batch: Batch) -> None:
    """Emits a collective over the axis of the map `batch`, and binds its result, which may not carry that axis.

    `record` is the operation's entry in the table, and `rule` is the function of it that computes the result for all entries.
    """
    (operand,), params = op.operands, record.read(op)
    del params["axis"]
    batch.bind(op.results[0], *rule(batch[operand], operand in batch, batch.size, **params))


def _batch_op(op: ir.Operation, record: OpDef, batch: Batch) -> Sequence[Tensor]:
    """The results of an operation for all entries of the map `batch`, by the batch rule of its record."""
    if isinstance(record.batch, UNSUPPORTED):
        raise missing_rule(op, "vmap", record.batch.reason)
    if captures_any(op, batch.mapped):
        return _batch_decomposition(op, record, batch)
    assert record.batch is not None, op.name
    params = record.read(op)
    for name in record.regions:
        if isinstance(params[name], Region):
            params[name].captures = batch.unmapped
    return record.batch([batch[v] for v in op.operands], tuple(v in batch for v in op.operands), batch.size, **params)


def with_axis(batch: Batch, value: ir.Value, needed: bool = True) -> Tensor:
    """A value with the mapped axis in front; a value without this axis is broadcast, if the axis is `needed`."""
    return prefixed(batch[value], batch.size) if needed and value not in batch else batch[value]


def prefixed(x: Tensor, size: int) -> Tensor:
    """The array `x` broadcast along a new leading axis of `size`.

    Only for operations that cannot use `x` without that axis.
    """
    shape = (size, *x.shape)
    value = splat_of(x)
    if value is not None:
        return full(shape, value, x.dtype)
    return operation("broadcast_in_dim")(x, shape=shape, broadcast_dimensions=tuple(range(1, len(shape))))


def all_prefixed(operands: Sequence[Tensor], mapped: Sequence[bool], size: int) -> list[Tensor]:
    """All operands, each with the mapped axis in front."""
    return [x if m else prefixed(x, size) for x, m in zip(operands, mapped, strict=True)]


def shifted(dims: Sequence[int]) -> tuple[int, ...]:
    """The axis numbers after a new leading axis was added: each is larger by 1."""
    return tuple(d + 1 for d in dims)


def batch_by_decomposition(define: Callable[..., list[Tensor]]) -> BatchRule:
    """The batch rule of an operation that is defined by other operations: it batches these operations.

    `define` emits the definition and returns its results. It runs once in a scratch block, on operands without the mapped axis,
    and the block is then batched.
    """

    def rule(xs: Sequence[Tensor], mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
        """The results for all `size` entries; `mapped` is True for each operand of `xs` that carries the mapped axis first."""
        inner = [tensor_type(x.shape[1:] if m else x.shape, x.dtype) for x, m in zip(xs, mapped, strict=True)]
        block = scratch_block(inner)
        with ir.InsertionPoint(block):
            outputs = [y.value for y in define([wrap(a) for a in block.arguments], **params)]
        batch = Batch(size)
        for argument, x, m in zip(block.arguments, xs, mapped, strict=True):
            batch.bind(argument, x, m)
        batch_ops([op.operation for op in block.operations], batch)
        outs = [with_axis(batch, y) for y in outputs]
        block.owner.erase()
        return outs

    return rule


def _batch_decomposition(op: ir.Operation, record: OpDef, batch: Batch) -> list[Tensor]:
    """The results for all entries of the map `batch` of an operation whose region captures a varying value.

    The operation is replaced by its decomposition, which has no region, and that is batched. `record` is its entry in the table.
    """
    if not any(v in batch for v in captures_by_rule(op, record)):
        raise missing_rule(op, "vmap", "its comparator uses a value from outside that varies over the mapped axis")
    block = scratch_block()
    with ir.InsertionPoint(block):
        outputs = [y.value for y in decomposed(op, record, "vmap")]
    inner = batch.inner()  # a copy, because the operations of the block are erased
    batch_ops([inner_op.operation for inner_op in block.operations], inner)
    outs = [with_axis(inner, y) for y in outputs]
    block.owner.erase()
    return outs


def captures_any(op: ir.Operation, mapped: Container[ir.Value], rules: frozenset[str] = frozenset()) -> bool:
    """True if a region of `op` reads a mapped value from outside, or calls a custom rule that encloses `op`.

    Args:
      op: the operation.
      mapped: the mapped values.
      rules: the custom rules inside `op`; an `ad.recur` that names one of them does not call a rule around it.
    """
    if op.name in CUSTOM:
        rules = rules | {CUSTOM[op.name](op).label}
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                operation = inner.operation
                if any(v in mapped for v in operation.operands):
                    return True
                if operation.name == RECUR and operation.attributes["name"].value not in rules:
                    return True
                if captures_any(operation, mapped, rules):
                    return True
    return False


def varying_values(ops: Iterable[ir.Operation], roots: Iterable[ir.Value]) -> set[ir.Value]:
    """The values that vary over the axis that is expanded, if the values `roots` do; it contains `roots`.

    `ops` are read in order. The results of reductions over that axis do not vary.
    """
    values = set(roots)
    for op in ops:
        is_over_axis = op.name in (*REDUCTIONS, ALL_GATHER, PSUM_SCATTER) and axis_of(op) == CURRENT
        # Of the collectives over that axis, only psum_scatter has another result for each entry.
        varies = op.name == PSUM_SCATTER if is_over_axis else any(v in values for v in reads_of(op))
        if varies:
            values.update(op.results)
    return values
