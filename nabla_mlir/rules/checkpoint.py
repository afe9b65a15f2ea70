"""`ad.checkpoint`: a region whose values reverse mode recomputes instead of storing.

The backward pass gets its own region, which recomputes the forward values and pulls the cotangents back through them.
When that region is inlined, its inputs pass an `optimization_barrier`; without the barrier, the merging of duplicates would
undo the recomputation. The values that a policy saves become results of the forward region, and the backward region reads
these results.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects.ad_rules import CheckpointOp
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import Bool, String
from nabla_mlir.ops.barrier import optimization_barrier
from nabla_mlir.rules.control import active_results, branch_batched, branch_pushed, control, untouched, with_tangents
from nabla_mlir.rules.custom_values import apply_rules_in
from nabla_mlir.rules.masks import remasked
from nabla_mlir.rules.policies import SAVED, attributes_of, emit_checkpoint, exposed
from nabla_mlir.rules.reverse import accumulate, active_values, pull_back
from nabla_mlir.sparsity import operands as patterns
from nabla_mlir.table.kinds import general
from nabla_mlir.table.regions import body_of, captures_of, clone_body
from nabla_mlir.table.registry import REGISTRY, OpDef, materialize
from nabla_mlir.table.rules import ZERO, Batch, ControlRules, Cotangents, MaybeZero, Pulled, Pushed, Tangents
from nabla_mlir.table.samples import Case
from nabla_mlir.table.tensor import Tensor, wrap

name: OpDef = general(
    "ad.name",
    pattern=patterns.identity,
    doc="x, with a name for the policies of `ad.checkpoint`.",
    attributes={"name": String},
    result=lambda x, name: [(x.shape, x.dtype)],
    jvp=lambda outs, xs, tangents, name: list(tangents),
    batch=lambda xs, mapped, size, name: [REGISTRY["ad.name"](xs[0], name=name)],
    sample=[Case(((3, 2),), {"name": "a"}, numpy=lambda x: x)],
    moves=True,
    free=True,
    view=True,
    instructions=1,
)


def _jvp(op: ir.Operation, tangents: Tangents) -> Pushed:
    """The results and tangents of a checkpoint, by one new checkpoint that returns both.

    `tangents` maps values to their tangents; other values have none.
    """
    _, ops, outputs = body_of(op.regions[0])
    active = active_results(op, set(tangents))
    if not active:
        return untouched(op)
    with ir.InsertionPoint(op):
        results = emit_checkpoint(lambda _: branch_pushed(ops, outputs, tangents, active), attributes_of(op))
    n = len(op.results)
    return with_tangents(results[:n], active, results[n:])


def _vjp(op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero]) -> Pulled:
    """The cotangents of the values that a checkpoint captures, from a checkpoint that recomputes what the policy did not save.

    `active` are the differentiated values, and `cts` are the cotangents of the results.
    """
    captures = [v for v in captures_of(op) if v in active]
    new = exposed(op)
    _, ops, outputs = body_of(new.regions[0])
    count = new.attributes[SAVED].value
    # The last results of the new checkpoint are the values that the policy saves.
    values = dict(zip(outputs[len(outputs) - count :], list(new.results)[len(outputs) - count :], strict=True))

    def make(_: list[Tensor]) -> list[Tensor]:
        """Emits copies of the operations, and the reverse mode of the copies."""
        mapping: dict[ir.Value, ir.Value] = {}
        clones = clone_body(ops, mapping)
        copies = [mapping[v] for v in values]
        varying = active_values(clones, captures)
        cotangents: Cotangents = {}
        for r, ct in zip(outputs, cts, strict=False):  # the saved values, at the end, have no cotangents
            accumulate(cotangents, mapping.get(r, r), ct, varying)
        replacements = pull_back(clones, varying, cotangents)
        outs = [materialize(cotangents.get(v, ZERO), wrap(v)) for v in captures]
        for old, value in zip(copies, values.values(), strict=True):
            copy = replacements.get(old, old)
            maker = copy.owner
            copy.replace_all_uses_with(value)
            if maker.name == "ad.name":  # the operand of `ad.name` is the same value
                maker.operands[0].replace_all_uses_with(value)
        return outs

    whole = [wrap(r) for r in new.results][: len(op.results)]
    if not captures:
        return Pulled({}, whole)
    results = remasked(emit_checkpoint(make, attributes_of(new, recompute=Bool.encode(True))), cts)
    apply_rules_in(new, active)
    return Pulled(dict(zip(captures, results, strict=True)), whole)


def _batch(op: ir.Operation, batch: Batch) -> None:
    """Emits one checkpoint whose region is batched, and binds its results, which all carry the mapped axis, in `batch`."""
    _, ops, outputs = body_of(op.regions[0])
    wanted = [True] * len(outputs)
    attributes = {key: op.attributes[key] for key in op.attributes}
    results = emit_checkpoint(lambda _: branch_batched(ops, outputs, wanted, batch), attributes)
    for old, new in zip(op.results, results, strict=True):
        batch.bind(old, new)


checkpoint: OpDef = control(
    CheckpointOp.name,
    "A region that reverse mode computes again instead of keeping its values.",
    ControlRules(_jvp, _vjp, _batch, active_results),
    runs="once",
)


def emit_body(op: ir.Operation) -> list[Tensor]:
    """Emits the operations of a checkpoint's region; returns their results.

    If the region is a recomputation, its inputs pass a barrier, so that it is not merged with the original.
    """
    _, ops, outputs = body_of(op.regions[0])
    mapping: dict[ir.Value, ir.Value] = {}
    view = CheckpointOp(op)
    if view.recompute and view.prevent_cse:
        inputs = [v for v in captures_of(op) if not _is_constant(v)]
        barriers = optimization_barrier(*map(wrap, inputs)) if inputs else []
        mapping.update((v, h.value) for v, h in zip(inputs, barriers, strict=True))
    clone_body(ops, mapping)
    return [wrap(mapping.get(v, v)) for v in outputs]


def _is_constant(value: ir.Value) -> bool:
    owner = made_by(value)
    return owner is not None and owner.name == "stablehlo.constant"
