"""Policies of `ad.checkpoint`: the values of the region that are saved become results of the region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad_rules import CheckpointOp
from nabla_mlir.dialects.regions import scratch_op
from nabla_mlir.dialects.stablehlo import I64
from nabla_mlir.table.regions import Fill, body_of, clone_body, fill
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import Tensor, wrap

SAVED = "saved"  # the number of last results that only the backward pass reads


def _is_saved(op: ir.Operation, policies: Sequence[Sequence[str]]) -> bool:
    """True if any of the policies allows that the results of `op` are stored."""
    label = op.attributes["name"].value if op.name == "ad.name" else None
    return any(_allows(policy, op, label) for policy in policies)


def _allows(policy: Sequence[str], op: ir.Operation, label: str | None) -> bool:
    """True if a policy allows that the results of `op` are stored; `label` is the name in its `ad.name`.

    A policy is a name of JAX, followed by the names of values.
    """
    word, *names = policy
    if word == "everything_saveable":
        return True
    if word == "dots_saveable":
        return op.name in REGISTRY and REGISTRY[op.name].kind == "contraction"
    if word == "dots_with_no_batch_dims_saveable":
        if op.name != "stablehlo.dot_general":
            return False
        return not REGISTRY[op.name].read(op)["dot_dimension_numbers"]["lhs_batching_dimensions"]
    if word == "save_only_these_names":
        return label in names
    if word == "save_any_names_but_these":
        return label is not None and label not in names
    if word == "save_anything_except_these_names":
        return label not in names
    return False  # nothing_saveable


def emit_checkpoint(make: Fill, attributes: Mapping[str, ir.Attribute]) -> list[Tensor]:
    """The results of a new `ad.checkpoint`, whose region `make` fills; they have the types of the values that the region returns.

    `make` is a function of no tensors that emits the operations and returns the results. `attributes` are those of the operation,
    by name.
    """
    holder = scratch_op()
    types = [out.value.type for out in fill(holder.regions[0], [], make)]
    op = stablehlo.emit(CheckpointOp.name, [], results=types, attributes=dict(attributes), regions=1)
    holder.regions[0].blocks[0].append_to(op.regions[0])
    holder.erase()
    return [wrap(r) for r in op.results]


def attributes_of(op: ir.Operation, **changes: ir.Attribute) -> dict[str, ir.Attribute]:
    """The attributes of a checkpoint for an operation that replaces it, with some changed."""
    attributes = {key: op.attributes[key] for key in ("policies", "prevent_cse", "recompute")}
    return {**attributes, **changes}


def exposed(op: ir.Operation) -> ir.Operation:
    """Inserts before a checkpoint a copy that also returns the values that its policy saves; returns the copy."""
    if SAVED in op.attributes:  # it returns them already
        with ir.InsertionPoint(op):
            return op.clone().operation
    _, ops, outputs = body_of(op.regions[0])
    policies = CheckpointOp(op).policies
    residuals = [r for inner in ops if _is_saved(inner, policies) for r in inner.results]

    def make(_: list[Tensor]) -> list[Tensor]:
        """Emits a copy of the body; returns the results, then the saved values."""
        mapping: dict[ir.Value, ir.Value] = {}
        clone_body(ops, mapping)
        return [wrap(mapping.get(v, v)) for v in [*outputs, *residuals]]

    with ir.InsertionPoint(op), op.location:
        results = emit_checkpoint(make, attributes_of(op, saved=I64.encode(len(residuals))))
    new = results[0].value.owner if results else None
    assert new is not None
    return new
