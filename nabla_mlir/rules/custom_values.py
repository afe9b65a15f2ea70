"""The values of differentiated functions with custom rules: such a function is replaced by the code of its rule.

Functions inside regions (loops, branches, checkpoints) are replaced, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.ad_rules import CUSTOM, CustomJvpOp
from nabla_mlir.dialects.regions import nested
from nabla_mlir.rules.custom_regions import emit_rule
from nabla_mlir.rules.loop_body import active_carries
from nabla_mlir.rules.reverse import active_values
from nabla_mlir.table.regions import Replacements, body_of, captures_of, reads_of, substitute
from nabla_mlir.table.registry import zeros
from nabla_mlir.table.tensor import Tensor, wrap
from nabla_mlir.table.traits import runs_regions


def apply_rules(ops: Iterable[ir.Operation], active: set[ir.Value]) -> Replacements:
    """Replaces each function with a custom rule that depends on `active` by the code of its rule; returns a map from old to new
    values.

    The derivative of the function has been emitted already. A later derivative then differentiates this code, as in JAX; it does
    not apply the function's own rule a second time. The new values are added to `active`. `ops` are operations in the order in
    which they run.
    """
    replacements: Replacements = {}
    for op in ops:
        if not any(v in active for v in reads_of(op)):
            continue
        if op.name in CUSTOM:
            values = _rule_results(op)
            active.update(x.value for x in values)
            replacements |= substitute(op, values)
        elif runs_regions(op):
            apply_rules_in(op, active)
    return replacements


def apply_unvisited_rules(body: Sequence[ir.Operation], roots: Sequence[ir.Value], outs: Sequence[ir.Value]) -> None:
    """Replaces functions with custom rules on which no value of `outs` depends by the code of their rules.

    Reverse mode does not visit these operations. `body` has the operations in order, and `roots` are the differentiated values.
    """
    if not any(inner.name in CUSTOM for op in body for inner in [*nested(op), op]):
        return
    reached = set(outs)
    for op in reversed(body):
        if any(r in reached for r in op.results):
            reached.update(reads_of(op))
    apply_rules([op for op in body if not any(r in reached for r in op.results)], active_values(body, roots))


def has_rules(op: ir.Operation) -> bool:
    """True if a region of an operation contains a function with a custom rule."""
    return any(inner.name in CUSTOM for inner in nested(op))


def values_by_rules(op: ir.Operation, active: set[ir.Value]) -> list[Tensor]:
    """The results of a choice, or of a copy of it in which each function with a custom rule is replaced by the code of its rule.

    `active` are the differentiated values.
    """
    if not has_rules(op):
        return [wrap(r) for r in op.results]
    with ir.InsertionPoint(op):
        copy = op.clone().operation
    apply_rules_in(copy, active)
    return [wrap(r) for r in copy.results]


def apply_rules_in(op: ir.Operation, active: set[ir.Value]) -> Replacements:
    """Calls `apply_rules` for the regions of a loop, a branch or a checkpoint; returns a map from old to new values.

    `active` are values outside the operation.
    """
    captures = [v for v in captures_of(op) if v in active]
    is_loop = op.name == "stablehlo.while"
    carries = active_carries(op, active) if is_loop else []
    replacements: Replacements = {}
    for region in list(op.regions)[1 if is_loop else 0 :]:  # the test of a loop has no derivative
        arguments, ops, _ = body_of(region)
        replacements |= apply_rules(ops, active_values(ops, [*(arguments[i] for i in carries), *captures]))
    return replacements


def _rule_results(op: ir.Operation) -> list[Tensor]:
    """The results of a function with a custom rule, computed by the code of its rule."""
    operands = list(op.operands)
    with ir.InsertionPoint(op), op.location:
        seeds = [zeros(wrap(operands[i])).value for i in CustomJvpOp(op).wrt] if op.name == CustomJvpOp.name else []
        return emit_rule(op, 1, [*operands, *seeds])[: len(op.results)]
