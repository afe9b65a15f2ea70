"""The removal of dead code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.registry import REGISTRY

# Operations of these dialects without a record have no effects, except the following.
_PURE_DIALECTS = ("stablehlo.", "chlo.", "ad.", "batch.")
_EFFECTS = {
    "stablehlo.return",
    "stablehlo.custom_call",
    "stablehlo.infeed",
    "stablehlo.outfeed",
    "stablehlo.send",
    "stablehlo.recv",
}


def is_pure(op: ir.Operation) -> bool:
    """True if the operation has no effects, so that it may be removed when no result is used."""
    if not _has_no_effect(op):
        return False
    return not len(op.regions) or all(_has_no_effect(o) or o.name == "stablehlo.return" for o in nested(op))


def _has_no_effect(op: ir.Operation) -> bool:
    """True for an operation without side effects, apart from the operations in its regions."""
    name = op.name
    if name == "stablehlo.custom_call":
        attributes = op.attributes
        return "has_side_effect" not in attributes or not attributes["has_side_effect"].value
    record = REGISTRY.get(name)
    return name.startswith(_PURE_DIALECTS) and name not in _EFFECTS if record is None else record.pure


def is_unused(value: ir.Value) -> bool:
    """True if nothing reads the value."""
    return next(iter(value.uses), None) is None


def erase_dead(ops: Iterable[ir.Operation]) -> None:
    """Erases the operations of `ops` (in the order of the block) whose results nothing uses."""
    for op in reversed(list(ops)):
        if all(is_unused(r) for r in op.results) and is_pure(op):
            op.erase()


def erase_dead_in(block: ir.Block) -> None:
    """Erases dead operations of a block and of the regions in it."""
    for op in reversed([o.operation for o in block.operations]):
        results = op.results
        if len(results) and is_unused(results[0]) and all(is_unused(r) for r in results) and is_pure(op):
            op.erase()
            continue
        for region in op.regions:
            for inner in region.blocks:
                erase_dead_in(inner)


@register
@dataclass(frozen=True)
class DcePass(Pass):
    """Remove operations without effects whose results are not used.

    MLIR's own passes do not remove `ad` and `batch` operations; this pass does.

    Example: tests/filecheck/passes/dce.mlir
    """

    name: ClassVar[str] = "nabla-dce"

    def run(self, module: ir.Operation) -> None:
        erase_dead_in(module.regions[0].blocks[0])
