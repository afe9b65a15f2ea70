"""Forward mode over a straight line of operations: tangents pushed through each by its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from iree.compiler import ir

from nabla_mlir.dialects import debug
from nabla_mlir.dialects.locations import blaming, named
from nabla_mlir.dialects.regions import block_aside
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.table.regions import Kept, captures_by_rule, decomposed, reads_of
from nabla_mlir.table.registry import UNSUPPORTED, ZERO, MaybeZero, Zero, missing_rule, record_of
from nabla_mlir.table.tensor import Tensor, wrap

Tangents = dict[ir.Value, Tensor]
T = TypeVar("T")


def carries_tangent(value: ir.Value) -> bool:
    """True if the element type of a value is differentiable."""
    return is_differentiable(shape_and_dtype(value.type)[1])


def push_forward(ops: Iterable[ir.Operation], tangents: Tangents) -> None:
    """Extends `tangents` (keyed by primal value) over the results of `ops`, emitting behind each operation.

    Structural zeros have no entry: an operation none of whose operands has one is left alone.
    """
    for op in ops:
        operands = reads_of(op)
        if not any(v in tangents for v in operands):
            continue
        if not any(carries_tangent(r) for r in op.results):
            continue
        record = record_of(op, "jvp")
        if debug.wanted("ops"):
            debug.say("ops", f"jvp {op.name} {debug.types(operands, tangents)}, * has a tangent", op.location)
        if record.kind == "control":
            with blaming(op), named("jvp", op.location, op.name):
                record.jvp(op, tangents)
            continue
        operands = list(op.operands)
        if isinstance(record.jvp, Zero):
            continue
        if isinstance(record.jvp, UNSUPPORTED):
            raise missing_rule(op, "jvp", record.jvp.reason)
        with blaming(op), named("jvp", op.location, op.name), ir.InsertionPoint.after(op):
            if any(v in tangents for v in captures_by_rule(op, record)):
                found = pushed_through(lambda op=op, record=record: decomposed(op, record, "jvp"), tangents)  # type: ignore[misc]
                outs = list(zip(op.results, found, strict=True))
            else:
                outs = tangents_of(op, [tangents_get(tangents, v) for v in operands])
        for value, tangent in outs:
            if not isinstance(tangent, Zero) and carries_tangent(value):
                tangents[value] = tangent


def tangents_get(tangents: Tangents, value: ir.Value) -> MaybeZero:
    """The tangent of a value, or ZERO."""
    return tangents.get(value, ZERO)


def tangents_of(op: ir.Operation, tangents: Sequence[MaybeZero]) -> list[tuple[ir.Value, MaybeZero]]:
    """The results of an operation with their tangents, emitted at the insertion point.

    A rule may replace a result by one that it computes together with the tangent (`outs[i] = ...`).
    """
    record = record_of(op, "jvp")
    outs = [wrap(r) for r in op.results]
    old = list(outs)
    out_tangents = record.jvp(outs, [wrap(v) for v in op.operands], tangents, **record.read(op))
    for before, after in zip(old, outs, strict=True):
        if after is not before:
            before.value.replace_all_uses_with(after.value)
    return [(out.value, t) for out, t in zip(outs, out_tangents, strict=True)]


def jvp_by_decomposition(decompose: Callable[..., list[Tensor]]) -> Any:
    """The jvp rule of an operation that is defined by others: the tangents of those.

    The primal operation stays; what its definition computes only for the value is dead code.
    """

    def jvp(outs: list[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        known = {x.value: t for x, t in zip(xs, tangents, strict=True) if not isinstance(t, Zero)}
        return pushed_through(lambda: decompose(xs, **params), known)

    return jvp


def pushed_through(make: Callable[[], list[Tensor]], tangents: Tangents) -> list[MaybeZero]:
    """The tangents of what `make` emits and returns, for those of the values that it uses."""
    outputs, new_ops = recorded(make)
    all_tangents = dict(tangents)
    marks = Kept([y.value for y in outputs])  # a loop is replaced by one that carries tangents too
    push_forward(new_ops, all_tangents)
    return [tangents_get(all_tangents, y) for y in marks.release()]


def recorded(make: Callable[[], list[T]]) -> tuple[list[T], list[ir.Operation]]:
    """Runs a function that emits, and returns its result and the operations it emitted, in order."""
    block = block_aside()
    with ir.InsertionPoint(block):
        outs = make()
    new_ops = [op.operation for op in block.operations]
    for op in new_ops:
        op.move_before(block.owner)
    block.owner.erase()
    return outs, new_ops
