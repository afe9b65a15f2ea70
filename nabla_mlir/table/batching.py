"""Batching of a straight line of operations: the mapped axis leads in every value that carries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects import debug
from nabla_mlir.dialects.ad_rules import CUSTOM, RECUR
from nabla_mlir.dialects.batch import ALL_GATHER, CURRENT, PSUM_SCATTER, REDUCTIONS, axis_of, free_axes
from nabla_mlir.dialects.locations import blaming, named
from nabla_mlir.dialects.regions import block_aside
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.table.regions import captures_by_rule, decomposed, reads_of
from nabla_mlir.table.registry import UNSUPPORTED, OpDef, Region, clone_op, missing_rule, operation, record_of
from nabla_mlir.table.tensor import Tensor, full, splat_of, wrap

# Mapped values, by the value that they have inside the map; a value that does not vary has no entry. If only some
# entries use the results of the code, LIVE is their mask: loops must end for the other entries, too.
LIVE = "live"
Mapped = dict[ir.Value | str, Tensor]


def batch_ops(ops: Iterable[ir.Operation], mapped: Mapped, size: int, *, unmapped: dict[ir.Value, ir.Value]) -> None:
    """Emits `ops` at the insertion point with one mapped axis of `size` in front.

    Args:
      ops: the operations, in order; they are not changed.
      mapped: the values that carry the axis; extended with the results.
      unmapped: replacements for values that do not vary. An operation without varying operands is cloned unchanged, and
        its results are added here.
    """
    for op in ops:
        operands = list(op.operands)
        constant = not any(v in mapped for v in operands) and not captures_any(op, mapped)
        if constant and op.name != RECUR and CURRENT not in free_axes(op):
            clone_op(op, unmapped)
            continue
        record = record_of(op, "vmap")
        if debug.wanted("ops"):
            debug.say("ops", f"vmap {op.name} {debug.types(operands, mapped)}, * carries the axis", op.location)
        if isinstance(record.batch, UNSUPPORTED):
            raise missing_rule(op, "vmap", record.batch.reason)
        if record.kind in ("control", "collective"):
            with blaming(op), named("vmap", op.location, op.name):
                record.batch(op, mapped, size, unmapped)
            continue
        if captures_any(op, mapped):
            with blaming(op), named("vmap", op.location, op.name):
                mapped.update(zip(op.results, _batched_without_regions(op, record, mapped, size, unmapped), strict=True))
            continue
        with blaming(op), named("vmap", op.location, op.name):
            xs = [mapped[v] if v in mapped else wrap(unmapped.get(v, v)) for v in operands]
            params = record.read(op)
            for name in record.regions:
                if isinstance(params[name], Region):
                    params[name].captures = unmapped
            outs = record.batch(xs, tuple(v in mapped for v in operands), size, **params)
        for old, new in zip(op.results, outs, strict=True):
            mapped[old] = new


def prefixed(x: Tensor, size: int) -> Tensor:
    """The array `x` broadcast along a new leading axis of `size`; only for operations that cannot use it without that axis."""
    shape = (size, *x.shape)
    value = splat_of(x)
    if value is not None:
        return full(shape, value, x.dtype)
    return operation("broadcast_in_dim")(x, shape=shape, broadcast_dimensions=tuple(range(1, len(shape))))


def all_prefixed(operands: Sequence[Tensor], mapped: Sequence[bool], size: int) -> list[Tensor]:
    """All operands, each with the mapped axis in front."""
    return [x if m else prefixed(x, size) for x, m in zip(operands, mapped, strict=True)]


def shifted(dims: Sequence[int]) -> tuple[int, ...]:
    """The axis numbers behind a new leading axis: each is larger by 1."""
    return tuple(d + 1 for d in dims)


def batch_by_decomposition(define: Callable[..., list[Tensor]]) -> Any:
    """The batch rule of an operation that is defined by other operations: their batches.

    The definition is emitted once into a scratch block, on operands without the mapped axis, and the block is then
    batched.
    """

    def batch(xs: Sequence[Tensor], mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
        inner = [tensor_type(x.shape[1:] if m else x.shape, x.dtype) for x, m in zip(xs, mapped, strict=True)]
        block = block_aside(inner)
        with ir.InsertionPoint(block):
            outputs = [y.value for y in define([wrap(a) for a in block.arguments], **params)]
        varying: Mapped = {}
        constants: dict[ir.Value, ir.Value] = {}
        for argument, x, m in zip(block.arguments, xs, mapped, strict=True):
            if m:
                varying[argument] = x
            else:
                constants[argument] = x.value
        batch_ops([op.operation for op in block.operations], varying, size, unmapped=constants)
        outs = [varying[y] if y in varying else prefixed(wrap(constants.get(y, y)), size) for y in outputs]
        block.owner.erase()
        return outs

    return batch


def _batched_without_regions(
    op: ir.Operation, record: OpDef, mapped: Mapped, size: int, unmapped: dict[ir.Value, ir.Value]
) -> list[Tensor]:
    """The results of an operation whose region captures a varying value: the batches of its decomposition, which has no region."""
    if not any(v in mapped for v in captures_by_rule(op, record)):
        raise missing_rule(op, "vmap", "its comparator uses a value from outside that varies over the mapped axis")
    block = block_aside()
    with ir.InsertionPoint(block):
        outputs = [y.value for y in decomposed(op, record, "vmap")]
    varying, constants = dict(mapped), dict(unmapped)  # copies, because the operations of the block are erased
    batch_ops([inner.operation for inner in block.operations], varying, size, unmapped=constants)
    outs = [varying[y] if y in varying else prefixed(wrap(constants.get(y, y)), size) for y in outputs]
    block.owner.erase()
    return outs


def captures_any(op: ir.Operation, mapped: Mapped, rules: frozenset[str] = frozenset()) -> bool:
    """True if a region of `op` reads a mapped value from outside, or calls a custom rule that encloses `op`.

    Args:
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
    """The values that vary over the axis that is expanded, if `roots` do. The results of collectives over that axis do not vary."""
    values = set(roots)
    for op in ops:
        own_axis = op.name in (*REDUCTIONS, ALL_GATHER, PSUM_SCATTER) and axis_of(op) == CURRENT
        if op.name == PSUM_SCATTER if own_axis else any(v in values for v in reads_of(op)):
            values.update(op.results)
    return values
