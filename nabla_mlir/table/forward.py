"""Forward mode over a straight line of operations: tangents are pushed through each operation by its record."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeVar

from iree.compiler import ir

from nabla_mlir.dialects import debug
from nabla_mlir.dialects.locations import blaming, named
from nabla_mlir.dialects.regions import made_by, scratch_block
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.table.regions import Replacements, captures_by_rule, decomposed, reads_of, substitute
from nabla_mlir.table.registry import REGISTRY, OpDef, add_any, missing_rule, record_of
from nabla_mlir.table.rules import UNSUPPORTED, ZERO, Jvp, MaybeZero, Partial, Tangents, Zero, as_rule
from nabla_mlir.table.tensor import Tensor, splat_of, wrap

T = TypeVar("T")


def carries_tangent(value: ir.Value) -> bool:
    """True if the element type of a value is differentiable."""
    return is_differentiable(shape_and_dtype(value.type)[1])


def varies(value: ir.Value, active: Container[ir.Value], known: dict[ir.Value, bool]) -> bool:
    """True if a value may have a derivative with respect to active values.

    A factor that is 0 and does not vary makes every product 0. A factor that varies and happens to be 0 does not.

    Args:
      value: the value.
      active: the active values.
      known: the answers for values of the same block; the function adds to them.
    """
    work = [value]
    while work:
        current = work[-1]
        if current in known:
            work.pop()
            continue
        op = made_by(current)
        record = None if op is None else REGISTRY.get(op.name)
        flat = op is None or (record is not None and isinstance(record.jvp, Zero))
        if current in active or flat or op is None:
            known[current] = current in active
            continue
        reads = reads_of(op)
        if any(known.get(v) or v in active for v in reads):
            known[current] = True
        elif new := [v for v in reads if v not in known]:
            work += new
        else:
            known[current] = False
    return known[value]


def is_constant(t: MaybeZero, active: Container[ir.Value], known: dict[ir.Value, bool]) -> bool:
    """True for a tangent or a cotangent that does not vary with active values."""
    return isinstance(t, Zero) or (not splat_of(t) and not varies(t.value, active, known))


def push_forward(ops: Iterable[ir.Operation], tangents: Tangents, are_constant: bool = False) -> Replacements:
    """Extends `tangents` over the results of `ops`; returns the replacements of results.

    Code is emitted after each operation. An operation whose operands have no tangents is left alone. An operation whose rule
    computes its results together with tangents or residuals is replaced.

    Args:
      ops: straight-line code.
      tangents: by primal value, its tangent; a structural zero has no entry.
      are_constant: True if the initial tangents do not vary with the primals.
    """
    known: dict[ir.Value, bool] = {}
    replacements: Replacements = {}
    for op in ops:
        operands = reads_of(op)
        if not any(v in tangents for v in operands):
            continue
        if not any(carries_tangent(r) for r in op.results):
            continue
        record = record_of(op, "jvp")
        if debug.wanted("ops"):
            debug.say("ops", f"jvp {op.name} {debug.types(operands, tangents)}, * has a tangent", op.location)
        if record.control is not None:
            with blaming(op), named("jvp", op.location, op.name):
                pushed = record.control.jvp(op, tangents)
            _add_nonzero(tangents, zip((v.value for v in pushed.values), pushed.tangents, strict=True))
            replacements |= substitute(op, pushed.values)
            continue
        operands = list(op.operands)
        if isinstance(record.jvp, Zero):
            continue
        if isinstance(record.jvp, UNSUPPORTED):
            raise missing_rule(op, "jvp", record.jvp.reason)
        with blaming(op), named("jvp", op.location, op.name), ir.InsertionPoint.after(op):
            operand_tangents = [tangents_get(tangents, v) for v in operands]
            if any(v in tangents for v in captures_by_rule(op, record)):
                found = pushed_through(lambda op=op, record=record: decomposed(op, record, "jvp"), tangents)  # type: ignore[misc]
                outs = list(zip(op.results, found, strict=True))
            elif record.constant_partials and are_constant and all(is_constant(t, tangents, known) for t in operand_tangents):
                y, xs = wrap(op.results[0]), [wrap(v) for v in operands]
                outs = [(y.value, scaled(record.constant_partials, y, xs, operand_tangents, record.read(op)))]
            else:
                outs = _tangents_of(op, record, operand_tangents, replacements)
        _add_nonzero(tangents, outs)
    return replacements


def _add_nonzero(tangents: Tangents, found: Iterable[tuple[ir.Value, MaybeZero]]) -> None:
    """Adds the tangents that are not structural zeros."""
    tangents.update((value, t) for value, t in found if not isinstance(t, Zero) and carries_tangent(value))


def tangents_get(tangents: Tangents, value: ir.Value) -> MaybeZero:
    """The tangent of a value, or ZERO."""
    return tangents.get(value, ZERO)


def _tangents_of(
    op: ir.Operation, record: OpDef, tangents: Sequence[MaybeZero], replacements: Replacements
) -> list[tuple[ir.Value, MaybeZero]]:
    """The results of an operation, each paired with its tangent; emits the forward rule at the insertion point.

    `tangents` are those of the operands, and `replacements` is extended by the results that `augmented` replaces. `record` is the
    operation's entry in the table.
    """
    xs, params = [wrap(v) for v in op.operands], record.read(op)
    outs = augmented(op, record, replacements)
    out_tangents = as_rule(record.jvp)(outs, xs, tangents, **params)
    values = outs[: len(op.results)]  # the others are residuals, which have no tangents
    return [(y.value, t) for y, t in zip(values, out_tangents, strict=True)]


def augmented(op: ir.Operation, record: OpDef, replacements: Replacements) -> list[Tensor]:
    """The results of an operation, then the residuals of its forward rule.

    If the rule needs residuals, an operation at the insertion point computes results and residuals, and its results replace the
    original ones; `replacements` is extended. `record` is the operation's entry in the table.
    """
    if record.augmented is None:
        return [wrap(r) for r in op.results]
    outs = list(record.augmented([wrap(v) for v in op.operands], **record.read(op)))
    for old, new in zip(op.results, outs[: len(op.results)], strict=True):
        old.replace_all_uses_with(new.value)
        replacements[old] = new.value
    return outs


def scaled(
    partials: Sequence[Partial | Zero], y: Tensor, xs: Sequence[Tensor], tangents: Sequence[MaybeZero], params: dict[str, Any]
) -> MaybeZero:
    """The tangent of an elementwise result `y`: the sum of the partials, each applied to the tangent of its operand in `xs`.

    A structural zero among `partials` or `tangents` adds nothing; `params` are the parameters of the operation.
    """
    total: MaybeZero = ZERO
    for partial, tangent in zip(partials, tangents, strict=True):
        if not isinstance(tangent, Zero) and not isinstance(partial, Zero):
            total = add_any(total, partial(tangent, y, *xs, **params))
    return total


def jvp_by_decomposition(decompose: Callable[..., list[Tensor]]) -> Jvp:
    """The jvp rule of an operation that is defined by other operations, which `decompose` emits: it pushes tangents through these
    operations.

    The primal operation stays; operations of the definition that compute only its value are dead code.
    """

    def jvp(outs: Sequence[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        known = {x.value: t for x, t in zip(xs, tangents, strict=True) if not isinstance(t, Zero)}
        return pushed_through(lambda: decompose(xs, **params), known)

    return jvp


def pushed_through(make: Callable[[], list[Tensor]], tangents: Tangents) -> list[MaybeZero]:
    """The tangents of the values that `make` emits and returns; `tangents` has the tangents of the values that `make` reads."""
    outputs, new_ops = recorded(make)
    all_tangents = dict(tangents)
    replacements = push_forward(new_ops, all_tangents)  # a loop is replaced by one that also carries tangents
    return [tangents_get(all_tangents, replacements.get(y.value, y.value)) for y in outputs]


def recorded(make: Callable[[], T]) -> tuple[T, list[ir.Operation]]:
    """Runs `make`, which emits operations; returns its result and the emitted operations, in order."""
    block = scratch_block()
    with ir.InsertionPoint(block):
        outs = make()
    new_ops = [op.operation for op in block.operations]
    for op in new_ops:
        op.move_before(block.owner)
    block.owner.erase()
    return outs, new_ops
