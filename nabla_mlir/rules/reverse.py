"""Reverse mode over a straight line of operations: cotangents are pulled back through each operation by its record.

There is no third set of rules. For an elementwise operation the cotangent is multiplied by the partials. An operation
that is linear in its active operands is transposed. Any other operation is linearised by its jvp rule, and the emitted
operations, which are linear in the tangents, are transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import debug
from nabla_mlir.dialects.locations import blaming, named
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.ops.guards import product, share_of
from nabla_mlir.ops.logic import where_zero
from nabla_mlir.rules.masks import choice_of, selection_mask
from nabla_mlir.rules.questions import Known
from nabla_mlir.table.forward import augmented, carries_tangent, is_constant, pushed_through, recorded
from nabla_mlir.table.regions import Replacements, captures_by_rule, decomposed, dependents, reads_of, substitute
from nabla_mlir.table.registry import OpDef, Params, add_any, materialize, missing_rule, record_of
from nabla_mlir.table.rules import UNSUPPORTED, ZERO, Cotangents, MaybeZero, Partial, Tangents, Zero, as_rule
from nabla_mlir.table.tensor import Tensor, full_like, wrap
from nabla_mlir.table.traits import is_sum


def active_values(ops: Iterable[ir.Operation], roots: Iterable[ir.Value]) -> set[ir.Value]:
    """The values that depend differentiably on `roots` through the operations `ops`, including the roots."""
    active = set(roots)
    for op in ops:
        if not any(v in active for v in reads_of(op)):
            continue
        record = record_of(op, "vjp") if any(carries_tangent(r) for r in op.results) else None
        if record is None or isinstance(record.jvp, Zero):
            continue
        choose = record.control.active if record.control is not None else None
        results = list(op.results) if choose is None else [op.results[i] for i in choose(op, active)]
        active.update(r for r in results if carries_tangent(r))
    return active


def accumulate(cotangents: Cotangents, value: ir.Value, ct: MaybeZero, active: set[ir.Value]) -> None:
    """Adds `ct` to the cotangent of `value` in `cotangents`, if the value is in `active`; a structural zero adds no entry."""
    total = add_any(cotangents.get(value, ZERO), ct) if value in active else ZERO
    if isinstance(total, Tensor):
        cotangents[value] = total


def pull_back(
    ops: Sequence[ir.Operation], active: set[ir.Value], cotangents: Cotangents, are_constant: bool = False
) -> Replacements:
    """Extends `cotangents` from the results of `ops` to the active operands; returns the replacements of results.

    All code is emitted at the current insertion point, which must be after `ops`. Cotangents of one value are summed. An
    operation whose rule computes its results together with residuals is replaced.

    Args:
      ops: straight-line code.
      active: the values that are differentiated.
      cotangents: by primal value, its cotangent; no entry is zero.
      are_constant: True if the initial cotangents do not depend on `active`.
    """
    replacements: Replacements = {}
    masks: Known = {}
    varying: dict[ir.Value, bool] | None = {} if are_constant else None
    for op in reversed(ops):
        results = list(op.results)
        if not any(r in cotangents for r in results):
            continue
        cts: list[MaybeZero] = [cotangents.pop(r, ZERO) for r in results]
        operands = reads_of(op)
        if not any(v in active for v in operands):
            continue
        if debug.wanted("ops"):
            debug.say("ops", f"vjp {op.name} {debug.types(operands, active)}, * is active", op.location)
        with blaming(op), named("vjp", op.location, op.name):
            record = record_of(op, "vjp")
            operand_cts: Sequence[MaybeZero]
            if record.control is not None:
                pulled = record.control.vjp(op, active, cts)
                operands, operand_cts = list(pulled.cotangents), list(pulled.cotangents.values())
                replacements |= substitute(op, pulled.values or [wrap(r) for r in results])
            else:
                operands = list(op.operands)
                if any(v in active for v in captures_by_rule(op, record)):
                    operands = [v for v in dict.fromkeys(reads_of(op)) if v in active]
                    operand_cts = _through_decomposition(op, record, operands, cts)
                else:
                    operand_cts = _operand_cotangents(op, operands, active, cts, masks, varying, replacements)
            for value, ct in zip(operands, operand_cts, strict=True):
                if isinstance(ct, Zero) or value not in active:
                    continue
                total = add_any(cotangents.get(value, ZERO), ct)
                assert isinstance(total, Tensor)
                cotangents[value] = total
    return replacements


def _operand_cotangents(
    op: ir.Operation,
    operands: list[ir.Value],
    active: set[ir.Value],
    cts: list[MaybeZero],
    masks: Known,
    varying: dict[ir.Value, bool] | None,
    replacements: Replacements,
) -> list[MaybeZero]:
    """The cotangents of the operands of one operation: by its partials, its transpose, or its linearised jvp rule.

    Args:
      op: the operation.
      operands: its operands.
      active: the values that are differentiated.
      cts: the cotangents of its results.
      masks: the known masks of cotangents.
      varying: the known answers of `is_constant`; None if the initial cotangents depend on `active`.
      replacements: the function adds replacements of results.
    """
    record = record_of(op, "vjp")
    if isinstance(record.jvp, Zero):
        return [ZERO] * len(operands)
    if isinstance(record.jvp, UNSUPPORTED):
        raise missing_rule(op, "vjp", record.jvp.reason)
    params = record.read(op)
    xs = [wrap(v) for v in operands]
    is_active = [v in active for v in operands]
    if record.partials is not None:
        ct, partials = cts[0], record.partials
        if record.constant_partials and varying is not None and is_constant(ct, active, varying):
            partials = record.constant_partials
        return _scale_by_partials(partials, op, xs, is_active, ct, params, masks)
    linear = record.linear_operands(xs, params)
    if all(i in linear for i, a in enumerate(is_active) if a):
        return _apply_transpose(record, op, xs, is_active, cts, params)
    return _transpose_jvp(record, op, xs, is_active, cts, params, replacements)


def _scale_by_partials(
    partials: Sequence[Partial | Zero],
    op: ir.Operation,
    xs: list[Tensor],
    is_active: list[bool],
    ct: MaybeZero,
    params: Params,
    masks: Known,
) -> list[MaybeZero]:
    """The cotangents of the operands of an elementwise operation: `ct` times each partial, computed inside the mask of `ct`.

    Args:
      partials: for each operand, the function that multiplies by the partial derivative, or zero.
      op: the operation.
      xs: its operands.
      is_active: True for each operand that needs a cotangent.
      ct: the cotangent of the result.
      params: the parameters of the operation.
      masks: known masks of values, a cache.
    """
    if isinstance(ct, Zero):
        return [ZERO] * len(xs)
    y = wrap(op.results[0])
    mask, share = None, None
    if not is_sum(op):  # the partials of a sum are 1 and -1
        mask, share = selection_mask(ct, masks), share_of(ct)
        mask = choice_of(ct) if mask is None else mask
    if share is not None:
        weight, ct = share
    operand_cts: list[MaybeZero] = []
    for partial, a in zip(partials, is_active, strict=True):
        if isinstance(partial, Zero) or not a:
            operand_cts.append(ZERO)
            continue
        operand_ct = partial(ct, y, *xs, **params)
        if isinstance(operand_ct, Tensor) and share is not None:
            operand_ct = product(weight, operand_ct)
        operand_cts.append(operand_ct if mask is None or isinstance(operand_ct, Zero) else where_zero(mask, operand_ct))
    return operand_cts


def _apply_transpose(
    record: OpDef, op: ir.Operation, xs: list[Tensor], is_active: list[bool], cts: list[MaybeZero], params: Params
) -> list[MaybeZero]:
    """The cotangents of the operands, by the transpose rule of the operation's record.

    `xs` are the operands, `is_active` is True for those that need cotangents, `cts` are the cotangents of the results, and
    `params` are the parameters.
    """
    if isinstance(record.transpose, UNSUPPORTED):
        raise missing_rule(op, "transpose", record.transpose.reason)
    if not record.multi and isinstance(cts[0], Zero):
        return [ZERO] * len(xs)
    full_cts = [materialize(ct, wrap(r)) for ct, r in zip(cts, op.results, strict=True)]
    transpose = as_rule(record.transpose)
    return [transpose(full_cts, i, xs, **params) if a else ZERO for i, a in enumerate(is_active)]


def _transpose_jvp(
    record: OpDef,
    op: ir.Operation,
    xs: list[Tensor],
    is_active: list[bool],
    cts: list[MaybeZero],
    params: Params,
    replacements: Replacements,
) -> list[MaybeZero]:
    """The cotangents of the operands, by the transpose of the forward rule, which is emitted on placeholders for the tangents.

    The placeholders are dead afterwards.

    Args:
      record, op: the record and the operation.
      xs: its operands.
      is_active: True for each operand that needs a cotangent.
      cts: the cotangents of the results.
      params: the parameters of the operation.
      replacements: maps results that the augmented operation replaces; it is extended.
    """
    holders = {i: placeholder(x) for i, (x, a) in enumerate(zip(xs, is_active, strict=True)) if a}
    with ir.InsertionPoint.after(op):
        outs = augmented(op, record, replacements)

    def run() -> Sequence[MaybeZero]:
        """The tangents of the results, by the forward rule on the placeholders."""
        return as_rule(record.jvp)(outs, xs, [holders.get(i, ZERO) for i in range(len(xs))], **params)

    tangents, new_ops = recorded(run)
    found = _pull_to_placeholders(list(holders.values()), tangents, new_ops, cts)
    by_position = dict(zip(holders, found, strict=True))
    return [by_position.get(i, ZERO) for i in range(len(xs))]


def _pull_to_placeholders(
    holders: Sequence[Tensor], tangents: Sequence[MaybeZero], new_ops: Sequence[ir.Operation], cts: Sequence[MaybeZero]
) -> list[MaybeZero]:
    """The cotangents of the placeholders `holders`, from which the operations `new_ops` compute `tangents`, whose cotangents are
    `cts`.
    """
    inner: Cotangents = {}
    for tangent, ct in zip(tangents, cts, strict=True):
        if isinstance(tangent, Zero) or isinstance(ct, Zero):
            continue
        total = add_any(inner.get(tangent.value, ZERO), ct)
        assert isinstance(total, Tensor)
        inner[tangent.value] = total
    active = active_values(new_ops, [h.value for h in holders])
    pull_back(new_ops, active, inner)
    return [inner.get(h.value, ZERO) for h in holders]


def _through_decomposition(
    op: ir.Operation, record: OpDef, values: Sequence[ir.Value], cts: Sequence[MaybeZero]
) -> list[MaybeZero]:
    """The cotangents of `values`, which an operation reads, some of them in its region.

    The operation is replaced by its decomposition, which has no region; that is linearised and transposed. `cts` are the cotangents
    of the results. `record` is the operation's entry in the table of operations.
    """
    holders = [placeholder(wrap(v)) for v in values]
    known: Tangents = dict(zip(values, holders, strict=True))
    tangents, new_ops = recorded(lambda: pushed_through(lambda: decomposed(op, record, "vjp"), known))
    return _pull_to_placeholders(holders, tangents, new_ops, cts)


PLACEHOLDER = "ad.placeholder"


def transposed(
    what: str, make: Callable[[list[Tensor]], Sequence[MaybeZero]], likes: Sequence[Tensor], cts: Sequence[MaybeZero]
) -> list[MaybeZero]:
    """The transpose of the linear map that `make` emits, applied to `cts`: one cotangent for each of `likes`.

    The map is emitted on placeholders at the current insertion point, and its transpose after it. Operations that only
    the map itself needs are dead afterwards.

    Raises:
      RuleMissingError: the map is not linear: its transpose would need the values to which it is applied.
    """
    holders = [placeholder(x) for x in likes]
    outs, new_ops = recorded(lambda: list(make(holders)))
    return pulled(what, outs, new_ops, holders, cts)[0]


def pulled(
    what: str, outs: Sequence[MaybeZero], new_ops: list[ir.Operation], holders: Sequence[Tensor], cts: Sequence[MaybeZero]
) -> tuple[list[MaybeZero], Replacements]:
    """The transpose of a linear map that is emitted already, and the values that replace results of its operations.

    Args:
      what: the name of the map, for an error.
      outs: its results.
      new_ops: its operations.
      holders: its arguments, placeholders.
      cts: the cotangents of the results.
    """
    roots = [h.value for h in holders]
    active = active_values(new_ops, roots)
    cotangents: Cotangents = {}
    for out, ct in zip(outs, cts, strict=True):
        if not isinstance(out, Zero):
            accumulate(cotangents, out.value, ct, active)
    # The first result of each operation with regions, by its number: a replacement is found under it.
    firsts = {i: op.results[0] for i, op in enumerate(new_ops) if len(op.regions) and len(op.results)}
    replacements, pullback = recorded(lambda: pull_back(new_ops, active, cotangents))
    results = [cotangents.get(root, ZERO) for root in roots]
    # The pullback of a loop replaces the loop by one with tapes.
    makers = {i: made_by(replacements.get(first, first)) for i, first in firsts.items()}
    whole_map = [op for i, old in enumerate(new_ops) if (op := makers.get(i, old)) is not None]
    varying = dependents([*whole_map, *pullback], roots)
    if any(isinstance(r, Tensor) and r.value in varying for r in results):
        raise RuleMissingError(
            f"{what} requires a rule that is linear in its tangents (or cotangents), got one that is not.",
            help="products of tangents, and decisions by them, have no transpose; use the other mode of "
            "differentiation, which runs the rule as it is.",
        )
    for holder in holders:  # a loop whose values are needed also carries tangents, which nothing reads
        with ir.InsertionPoint.after(holder.value.owner):
            zero = full_like(holder, 0)
        holder.value.replace_all_uses_with(zero.value)
    return results, replacements


def placeholder(like: Tensor) -> Tensor:
    """A value of the type of `like` that represents a tangent in a linear map that will be transposed."""
    return wrap(ir.Operation.create(PLACEHOLDER, results=[like.value.type]).results[0])
