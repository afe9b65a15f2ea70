"""Custom rules are replaced by their values, after all derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.ad import GUARDS
from nabla_mlir.dialects.ad_rules import CUSTOM, CheckpointOp, LinearSolveOp
from nabla_mlir.dialects.regions import nested
from nabla_mlir.ops.guards import RECORDS
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.rules.checkpoint import emit_body
from nabla_mlir.rules.custom_regions import emit_rule
from nabla_mlir.table.regions import replace
from nabla_mlir.table.tensor import Tensor, wrap

# By operation: the index of the region that computes its value.
VALUE = {**dict.fromkeys(CUSTOM, 0), LinearSolveOp.name: LinearSolveOp.region_names.index("solve")}
ENDED = {*VALUE, *GUARDS, "ad.name", CheckpointOp.name}


def _value(op: ir.Operation) -> list[Tensor]:
    """The values that replace the results of an operation after all derivatives are expanded."""
    if op.name == "ad.name":
        return [wrap(op.operands[0])]
    if op.name in GUARDS:
        record = RECORDS[op.name]
        return record.define([wrap(v) for v in op.operands], **record.read(op))  # type: ignore[misc]
    if op.name == CheckpointOp.name:
        return emit_body(op)
    return emit_rule(op, VALUE[op.name], list(op.operands))


@register
@dataclass(frozen=True)
class InlineRulesPass(Pass):
    """Replace each operation with custom rules by its value, once every derivative has been expanded.

    `ad.custom_jvp` and `ad.custom_vjp` are replaced by their bodies, and `ad.linear_solve` by its solver. `ad.checkpoint` is
    replaced by its body, too. In a backward pass its inputs pass a barrier, so that the body is computed a second time.
    Guarded products, quotients and roots are replaced by their definitions.

    Example: tests/filecheck/passes/inline_rules.mlir
    """

    name: ClassVar[str] = "nabla-inline-rules"

    def run(self, module: ir.Operation) -> None:
        """Replaces operations with custom rules by their functions, in place."""
        # A value is a copy of a region, which may contain others: each round replaces the outermost ones.
        while ops := [op for op in nested(module) if op.name in ENDED]:
            for op in reversed([op for op in ops if not _is_inside_another(op)]):
                with ir.InsertionPoint(op), op.location:
                    replace(op, _value(op))


def _is_inside_another(op: ir.Operation) -> bool:
    """True if the operation is in a region of an operation that this pass replaces."""
    parent = op.parent
    while parent is not None and parent.name not in ENDED:
        parent = parent.parent
    return parent is not None
