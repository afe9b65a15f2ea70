"""Functions with rules of the user: `ad.custom_jvp` and `ad.custom_vjp`.

A derivative replaces the operation by the code of its rule, so the derivative of a rule is the derivative of its code.
At that moment each `ad.recur` in the rule becomes the whole operation: a rule may call its own function, and the second
derivative applies the rule a second time.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.base.errors import CapturedValueError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad_rules import CUSTOM, RECUR, CustomJvpOp, CustomVjpOp
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.stablehlo import String
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.ops.shape import reduce_sum, reshape
from nabla_mlir.rules.control import control, with_tangents
from nabla_mlir.rules.custom_regions import emit_rule
from nabla_mlir.rules.reverse import accumulate, placeholder, pulled, transposed
from nabla_mlir.table.batching import all_prefixed, batch_ops, with_axis
from nabla_mlir.table.forward import recorded
from nabla_mlir.table.kinds import general
from nabla_mlir.table.regions import Replacements, body_of, captures_of, fill, reads_of, substitute
from nabla_mlir.table.registry import OpDef, materialize
from nabla_mlir.table.rules import UNSUPPORTED, ZERO, Batch, ControlRules, Cotangents, MaybeZero, Pulled, Pushed, Tangents
from nabla_mlir.table.tensor import Tensor, wrap


def _refuse_active_captures(op: ir.Operation, active: Collection[ir.Value]) -> None:
    """Raises CapturedValueError if a function with a custom rule reads one of the differentiated values `active` from outside."""
    if any(v in active for v in captures_of(op)):
        label = CUSTOM[op.name](op).label
        raise CapturedValueError(
            f"the custom rule of {label} requires every value that is differentiated as an argument, got one that the "
            "function uses from outside.",
            where=source_of(op.location),
            help="pass the value as an argument of the function (not in nondiff_argnums), or wrap it with nm.stop_gradient.",
        )


def _own_values(op: ir.Operation, outs: Sequence[Tensor], new_ops: Sequence[ir.Operation]) -> list[Tensor]:
    """The results `outs` of a rule, each as a different value that one of `new_ops` computes.

    If the rule returns an argument, or one value twice, the result is a copy: its tangent may differ from that of the value.
    """
    fresh = {r for new in new_ops for r in new.results}
    values = []
    for out in outs:
        if out.value not in fresh:
            with ir.InsertionPoint(op):
                out = reshape(out, shape=out.shape)
        fresh.discard(out.value)  # if it is returned a second time, that result is a copy
        values.append(out)
    return values


# ---------------------------------------------------------------- custom_jvp


def _custom_jvp_jvp(op: ir.Operation, tangents: Tangents) -> Pushed:
    """The results and tangents of a function, computed by its custom rule; `tangents` maps values to their tangents."""
    _refuse_active_captures(op, tangents)
    view = CustomJvpOp(op)
    operands = list(op.operands)
    with ir.InsertionPoint(op):
        seeds = [materialize(tangents.get(operands[i], ZERO), wrap(operands[i])).value for i in view.wrt]
        outs, new_ops = recorded(lambda: emit_rule(op, 1, [*operands, *seeds]))
    n = len(op.results)
    return with_tangents(_own_values(op, outs[:n], new_ops), view.of, outs[n:])


def _custom_jvp_vjp(op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero]) -> Pulled:
    """The cotangents of the operands, by the transpose of the custom rule, which is linear in the tangents.

    `active` are the differentiated values, and `cts` are the cotangents of the results.
    """
    _refuse_active_captures(op, active)
    view = CustomJvpOp(op)
    operands = list(op.operands)
    with ir.InsertionPoint(op):
        holders = {i: placeholder(wrap(operands[i])) for i in view.wrt if operands[i] in active}
        seeds = [materialize(holders.get(i, ZERO), wrap(operands[i])).value for i in view.wrt]
        outs, new_ops = recorded(lambda: emit_rule(op, 1, [*operands, *seeds]))
    n = len(op.results)
    outs = [*_own_values(op, outs[:n], new_ops), *outs[n:]]
    linear, replacements = _replace_by_bodies(new_ops, [h.value for h in holders.values()])
    outs = _replace_values(outs, replacements)
    out_cts = [cts[i] for i in view.of]
    what = f"the transpose of the rule of {view.label}"
    in_cts, replacements = pulled(what, outs[n:], linear, list(holders.values()), out_cts)
    result: Cotangents = {}
    for i, ct in zip(holders, in_cts, strict=True):
        accumulate(result, operands[i], ct, active)
    return Pulled(result, _replace_values(outs[:n], replacements))


def _replace_values(values: Sequence[Tensor], replacements: Replacements) -> list[Tensor]:
    """The values, or their replacements."""
    return [wrap(replacements.get(v.value, v.value)) for v in values]


def _replace_by_bodies(ops: Sequence[ir.Operation], roots: Sequence[ir.Value]) -> tuple[list[ir.Operation], Replacements]:
    """Replaces each `ad.custom_jvp` in `ops` that is applied to a tangent by its body.

    Such a function is linear in the tangent, so the transpose of its body is the transpose of its rule. Applying the
    rule instead would not end if the rule calls its own function on a tangent.

    Args:
      ops: the operations of a rule.
      roots: its tangents.

    Returns:
      The new operations, and the replacements of results.
    """
    plain: list[ir.Operation] = []
    replacements: Replacements = {}
    varying = set(roots)
    for op in ops:
        if not any(v in varying for v in reads_of(op)):
            plain.append(op)
            continue
        if op.name == CustomJvpOp.name:
            with ir.InsertionPoint(op):
                outs, new_ops = recorded(functools.partial(emit_rule, op, 0, list(op.operands)))
            inner, inner_replacements = _replace_by_bodies(new_ops, [*varying, *(out.value for out in outs)])
            outs = _replace_values(outs, inner_replacements)
            varying.update(out.value for out in outs)
            replacements |= substitute(op, outs)
            plain += inner
        else:
            varying.update(op.results)
            plain.append(op)
    return plain, replacements


# ---------------------------------------------------------------- custom_vjp


def _custom_vjp_vjp(op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero]) -> Pulled:
    """The cotangents of the operands: emits `fwd` in front of the operation, and `bwd` on its residuals and the cotangents `cts`.

    `active` are the differentiated values.
    """
    _refuse_active_captures(op, active)
    view = CustomVjpOp(op)
    operands, n = list(op.operands), len(op.results)
    seeds = [materialize(cts[i], wrap(op.results[i])).value for i in view.of]
    with ir.InsertionPoint(op):
        outs, new_ops = recorded(lambda: emit_rule(op, 1, operands))
    values, residuals = _own_values(op, outs[:n], new_ops), [r.value for r in outs[n:]]
    result: Cotangents = {}
    for i, ct in zip(view.wrt, emit_rule(op, 2, [*residuals, *seeds]), strict=True):
        accumulate(result, operands[i], ct, active)
    return Pulled(result, values)


def _custom_vjp_jvp(op: ir.Operation, tangents: Tangents) -> Pushed:
    """The results of `fwd`, and their tangents by the transpose of `bwd`, which is linear in the cotangents.

    `tangents` maps values to their tangents.
    """
    _refuse_active_captures(op, tangents)
    view = CustomVjpOp(op)
    operands = list(op.operands)
    n = len(op.results)
    with ir.InsertionPoint(op):
        outs, new_ops = recorded(lambda: emit_rule(op, 1, operands))
        residuals = [r.value for r in outs[n:]]

        def bwd(cts: list[Tensor]) -> list[Tensor]:
            """The results of the rule `bwd` for the residuals and these cotangents."""
            return emit_rule(op, 2, [*residuals, *(ct.value for ct in cts)])

        seeds = [tangents.get(operands[i], ZERO) for i in view.wrt]
        likes = [wrap(op.results[i]) for i in view.of]
        out_tangents = transposed(f"forward mode through the reverse rule of {view.label}", bwd, likes, seeds)
    return with_tangents(_own_values(op, outs[:n], new_ops), view.of, out_tangents)


# ---------------------------------------------------------------- batches


def batched_region(
    region: ir.Region,
    target: ir.Region,
    is_mapped: Sequence[bool],
    wanted: Sequence[bool | None],
    batch: Batch,
    sums: Sequence[bool] = (),
) -> list[bool]:
    """Fills `target` with the batch of a region; returns for each result True if it carries the mapped axis.

    Args:
      region: the region.
      target: an empty region.
      is_mapped: for each argument, True if it carries the axis.
      wanted: for each result, True if it must carry the axis; None or False if it need not.
      batch: the mapped values outside.
      sums: for each result, True if it is summed over the axis.
    """
    parameters, ops, outputs = body_of(region)
    types = [prefixed_type(p.type, batch.size) if m else p.type for p, m in zip(parameters, is_mapped, strict=True)]
    carries: list[bool] = []

    def make(arguments: list[Tensor]) -> list[Tensor]:
        """Emits the batch of the region on its new arguments, and records in `carries` which results vary."""
        inner = batch.inner()
        for parameter, argument, m in zip(parameters, arguments, is_mapped, strict=True):
            inner.bind(parameter, argument, m)
        batch_ops(ops, inner)
        outs = []
        for k, (value, want) in enumerate(zip(outputs, wanted, strict=True)):
            varies = value in inner
            x = with_axis(inner, value, bool(want))
            if sums and sums[k]:
                x = reduce_sum(with_axis(inner, value), dimensions=(0,))
            outs.append(x)
            carries.append(bool(varies or want))
        return outs

    fill(target, types, make)
    return carries


def prefixed_type(type: ir.Type, size: int) -> ir.Type:
    """The type with a leading axis."""
    shape, dtype = shape_and_dtype(type)
    return tensor_type((size, *shape), dtype)


def _batch(op: ir.Operation, batch: Batch) -> None:
    """Emits the same operation with every region batched, and binds its results, which all carry the axis of the map `batch`.

    An unmapped operand stays unmapped, and its cotangent is the sum over the axis. If the rule calls its own function, all
    operands carry the axis, because the inner call may be on mapped values.
    """
    view = CUSTOM[op.name](op)
    recursive = any(inner.name == RECUR for inner in nested(op))
    is_mapped = [recursive or v in batch for v in op.operands]
    operands = [with_axis(batch, v, m) for v, m in zip(op.operands, is_mapped, strict=True)]
    new = stablehlo.emit(
        op.name,
        [x.value for x in operands],
        results=[prefixed_type(r.type, batch.size) for r in op.results],
        attributes={name: op.attributes[name] for name in op.attributes},
        regions=len(op.regions),
    )
    outs = [True] * len(op.results)
    active = [is_mapped[i] for i in view.wrt]
    batched_region(op.regions[0], new.regions[0], is_mapped, outs, batch)
    if isinstance(view, CustomJvpOp):
        tangents = [True] * len(view.of)
        batched_region(op.regions[1], new.regions[1], is_mapped + active, outs + tangents, batch)
    else:
        residuals: list[bool | None] = [None] * (len(body_of(op.regions[1])[2]) - len(outs))
        carries = batched_region(op.regions[1], new.regions[1], is_mapped, [*outs, *residuals], batch)
        cotangents = carries[len(outs) :] + [True] * len(view.of)
        sums = [not m for m in active]
        batched_region(op.regions[2], new.regions[2], cotangents, active, batch, sums=sums)
    for old, r in zip(op.results, new.results, strict=True):
        batch.bind(old, wrap(r))


def _active(op: ir.Operation, varying: set[ir.Value]) -> Sequence[int]:
    """The indices of the results that vary with the values `varying`.

    A captured value counts too, so that its derivative is refused instead of zero.
    """
    view = CUSTOM[op.name](op)
    reads = {*(op.operands[i] for i in view.wrt), *captures_of(op)}
    return [] if varying.isdisjoint(reads) else view.of


custom_jvp: OpDef = control(
    "ad.custom_jvp", "A function with a custom forward rule.", ControlRules(_custom_jvp_jvp, _custom_jvp_vjp, _batch, _active)
)
custom_vjp: OpDef = control(
    "ad.custom_vjp", "A function with a custom reverse rule.", ControlRules(_custom_vjp_jvp, _custom_vjp_vjp, _batch, _active)
)


def _recur_batch(xs: Sequence[Tensor], mapped: Sequence[bool], size: int, types: Any, name: str) -> list[Tensor]:
    """Batches a call of the enclosing rule: all operands and results carry the axis.

    `mapped` is True for each operand of `xs` that has it already; `types` are the shapes and dtypes of the results of one entry.
    """
    prefixed_types = [((size, *shape), dtype) for shape, dtype in types]
    return recur.apply(all_prefixed(xs, mapped, size), {"types": prefixed_types, "name": name})


recur: OpDef = general(
    RECUR,
    doc="A call of the enclosing custom rule with other operands.",
    multi=True,
    attributes={"name": String},
    result=lambda *xs, types, name: types,
    result_params=lambda op: {"types": [shape_and_dtype(r.type) for r in op.results]},
    jvp=UNSUPPORTED("a rule that differentiates the function it is the rule of has no end"),
    batch=_recur_batch,
    sample=[],
)
