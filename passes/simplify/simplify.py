"""nabla-simplify: the canonicalisations that matter for derivative code, applied to a whole block."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.locations import named
from nabla_mlir.dialects.regions import blocks_of, made_by, nested, scratch_op
from nabla_mlir.dialects.stablehlo import constant_attribute
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead_in, is_pure, is_unused
from nabla_mlir.passes.simplify import arithmetic, contraction, masks, pieces, shape
from nabla_mlir.passes.simplify.loops import simplify_loop
from nabla_mlir.passes.simplify.pattern import PATTERNS
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import wrap

FAMILIES = (arithmetic, contraction, masks, pieces, shape)


def simplify_block(block: ir.Block) -> None:
    """Applies the patterns to a block and the regions in it until none applies, and merges duplicates."""
    erase_dead_in(block)
    touched: set[ir.Value] | None = None
    for _ in range(thresholds.SWEEPS):
        sweep = _Sweep(touched)
        sweep.run(block)
        merge_duplicates(block, sweep.touch_users)
        if not sweep.touched:
            break
        touched = sweep.touched
    erase_dead_in(block)


class _Sweep:
    """One walk over a block, which applies the first pattern that matches each operation.

    Operations are stored by their first result. Those near a change are `touched`: another pattern may now match them.

    Args:
      needed: the operations to visit; None for all.
    """

    def __init__(self, needed: set[ir.Value] | None):
        """Starts a walk that visits the operations `needed`."""
        self.wanted = needed
        self.touched: set[ir.Value] = set()
        # Patterns emit into a separate block. Their operations move to this block only if the pattern applies.
        self.holder = scratch_op(detached=True)
        self.scratch = ir.Block.create_at_start(self.holder.regions[0])

    def run(self, block: ir.Block) -> None:
        """Visits the operations in order, inner ones before the operation that contains them."""
        with ir.InsertionPoint(self.scratch):
            self._walk(block)

    def _walk(self, block: ir.Block) -> None:
        """Rewrites the operations of a block and of their regions, from first to last."""
        for op in [o.operation for o in block.operations]:
            if not len(op.results) or (self.wanted is not None and op.results[0] not in self.wanted):
                continue
            for region in op.regions:
                for inner in region.blocks:
                    self._walk(inner)
            if op.name == "stablehlo.while":
                self._simplify_loop(op)
            elif is_unused(op.results[0]):
                self._erase_unused(op)
            elif op.name in PATTERNS.by_name:
                self._rewrite(op)

    def _rewrite(self, op: ir.Operation) -> None:
        """Applies the first pattern that matches an operation."""
        xs = [wrap(v) for v in op.operands]
        params = REGISTRY[op.name].read(op)
        with op.location:
            for rule in PATTERNS.by_name[op.name]:
                new = rule(*xs, **params)
                if new is not None:
                    self._replace(op, new.value, named("simplify", op.location, rule.__name__))
                    return

    def _replace(self, op: ir.Operation, value: ir.Value, location: ir.Location) -> None:
        """Moves the operations of a pattern in front of `op`, and replaces the result of `op` by `value`."""
        for new in [o.operation for o in self.scratch.operations]:
            new.location = location
            new.move_before(op)
            self._touch(new)
        op.results[0].replace_all_uses_with(value)
        self.touch_users(value)
        self._erase_unused(op)

    def _simplify_loop(self, op: ir.Operation) -> None:
        """Simplifies a loop, and marks its operations and neighbours if that changed the loop."""
        loop = simplify_loop(op)
        if loop is None:
            return
        for inner in [*nested(loop), loop]:
            self._touch(inner)
        for value in (*loop.results, *reads_of(loop)):
            self.touch_users(value)

    def _erase_unused(self, op: ir.Operation) -> None:
        """Erases an operation without uses, and the operations that computed values for it alone."""
        work = {op.results[0]: op}
        while work:
            _, op = work.popitem()
            if not all(is_unused(r) for r in op.results) or not is_pure(op):
                continue
            reads = reads_of(op)
            op.erase()
            for value in dict.fromkeys(reads):
                maker = made_by(value)
                if maker is not None:
                    work[maker.results[0]] = maker
                if len(list(itertools.islice(value.uses, 3))) < 3:  # patterns ask for values with one use or two
                    self.touch_users(value)

    def touch_users(self, value: ir.Value) -> None:
        """Marks the readers of a value, to be visited once more."""
        for use in value.uses:
            self._touch(use.owner.operation)

    def _touch(self, op: ir.Operation) -> None:
        """Marks an operation and the operations around it."""
        while op is not None and op.name != "builtin.module":
            if len(op.results):
                self.touched.add(op.results[0])
            op = op.parent


def merge_duplicates(block: ir.Block, on_merge: Callable[[ir.Value], None] | None = None) -> None:
    """Replaces an operation by an earlier equal one in the same block; does so in regions, too.

    Args:
      block: the block.
      on_merge: called with each value before another replaces it.
    """
    seen: dict[object, ir.Operation | dict[object, list[ir.Operation]]] = {}  # by key: one operation, or several by their details
    for op in [o.operation for o in block.operations]:
        for region in op.regions:
            for inner in region.blocks:
                merge_duplicates(inner, on_merge)
        if not len(op.results) or not is_pure(op):
            continue
        name, operands = op.name, list(op.operands)
        if name in REGISTRY and REGISTRY[name].commutes:
            operands.sort(key=hash)
        key = (name, *operands) if operands else (name, _attributes(op))
        others = seen.setdefault(key, op)
        if others is op:
            continue
        if isinstance(others, ir.Operation):
            others = seen[key] = {_details(others): [others]}
        equals = others.setdefault(_details(op), [])
        equal = next((t for t in equals if _have_equal_regions(t, op)), None)
        if equal is None:
            equals.append(op)
            continue
        for old, new in zip(op.results, equal.results, strict=True):
            if on_merge is not None:
                on_merge(old)
            old.replace_all_uses_with(new)
        op.erase()


def _details(op: ir.Operation) -> object:
    """The key that distinguishes two operations of one name on the same operands: result types and attributes, without regions."""
    return (*(r.type for r in op.results), _attributes(op))


def _have_equal_regions(a: ir.Operation, b: ir.Operation) -> bool:
    """True if two operations have the same regions; locations are ignored."""
    return not len(a.regions) or a.is_structurally_equivalent(b, ir.OperationEquivalenceFlags.IGNORE_LOCATIONS)


def _attributes(op: ir.Operation) -> object:
    """The attributes of an operation as a value that can be compared and hashed."""
    if op.name == "stablehlo.constant":
        return constant_attribute(op)
    attributes = op.attributes
    return tuple((name, attributes[name]) for name in attributes)


def rewrite_loops(module: ir.Operation, rewrite: Callable[[ir.Operation], bool]) -> None:
    """Rewrites all loops of a module by `rewrite`, inner ones first; the functions are simplified if one call returned True."""
    changes = [rewrite(op) for op in nested(module) if op.name == "stablehlo.while"]
    if any(changes):
        for block in blocks_of(module):
            simplify_block(block)


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
