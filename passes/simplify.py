"""The few canonicalisations that matter for derivative code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.locations import named
from nabla_mlir.dialects.regions import blocks_of
from nabla_mlir.ops.registry import REGISTRY
from nabla_mlir.ops.tensor import wrap
from nabla_mlir.passes import patterns_arithmetic, patterns_contraction, patterns_pieces, patterns_shape
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead_in, is_pure, is_unused
from nabla_mlir.passes.loops import simplify_loop
from nabla_mlir.passes.patterns import PATTERNS

FAMILIES = (patterns_arithmetic, patterns_contraction, patterns_pieces, patterns_shape)
MAX_SWEEPS = 16
COMMUTATIVE = {f"stablehlo.{word}" for word in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")}


def simplify_block(block: ir.Block) -> None:
    """Applies the patterns to a block and the regions in it until none applies, and merges duplicates."""
    for _ in range(MAX_SWEEPS):
        changed = _sweep(block)
        merge_duplicates(block)
        erase_dead_in(block)
        if not changed:
            return


def _sweep(block: ir.Block) -> bool:
    changed = False
    for op in [o.operation for o in block.operations]:
        for region in op.regions:
            for inner in region.blocks:
                changed |= _sweep(inner)
        changed |= simplify_loop(op) if op.name == "stablehlo.while" else _rewrite(op)
    return changed


def _rewrite(op: ir.Operation) -> bool:
    rules = PATTERNS.get(op.name)
    if rules is None or is_unused(op.results[0]):
        return False
    xs = [wrap(v) for v in op.operands]
    params = REGISTRY[op.name].read(op)
    with ir.InsertionPoint(op), named("simplify", op.location):
        for rule in rules:
            new = rule(*xs, **params)
            if new is not None:
                op.results[0].replace_all_uses_with(new.value)
                return True
    return False


def merge_duplicates(block: ir.Block) -> None:
    """Replaces an operation by an equal one that stands before it in the same block; also in the regions in it."""
    seen: dict[object, list[ir.Operation]] = {}
    for op in [o.operation for o in block.operations]:
        for region in op.regions:
            for inner in region.blocks:
                merge_duplicates(inner)
        if not len(op.results) or not is_pure(op):
            continue
        operands = list(op.operands)
        if op.name in COMMUTATIVE:
            operands.sort(key=hash)
        key = (op.name, tuple(operands), tuple(r.type for r in op.results), _attributes(op))
        twins = seen.setdefault(key, [])
        twin = next((t for t in twins if not len(op.regions) or _is_equal(t, op)), None)
        if twin is None:
            twins.append(op)
            continue
        for old, new in zip(op.results, twin.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _is_equal(a: ir.Operation, b: ir.Operation) -> bool:
    return a.is_structurally_equivalent(b, ir.OperationEquivalenceFlags.IGNORE_LOCATIONS)


def _attributes(op: ir.Operation) -> object:
    if op.name == "stablehlo.constant" and isinstance(op.results[0].type.element_type, ir.ComplexType):
        return op.get_asm(use_local_scope=True).split("=", 1)[1]
    attributes = op.attributes
    return tuple((name, attributes[name]) for name in attributes)


@register
@dataclass(frozen=True)
class SimplifyPass(Pass):
    """Simplify: neutral elements, signs, constants, shapes that cancel, transposes inside products, duplicates.

    Every rewrite stays inside the set of operations that can be differentiated and batched, and never raises the
    number of operations, elements or flops.
    Example: tests/filecheck/passes/simplify.mlir
    """

    name: ClassVar[str] = "nabla-simplify"

    def run(self, module: ir.Operation) -> None:
        for block in blocks_of(module):
            simplify_block(block)
