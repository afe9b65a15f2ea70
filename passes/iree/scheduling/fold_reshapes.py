"""Folding of reshapes of reshapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import blocks_in_functions, made_by
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead_in


@register
@dataclass(frozen=True)
class FoldReshapesPass(Pass):
    """Replace a reshape of a reshape by one reshape, or by none.

    Example: tests/filecheck/passes/fold_reshapes.mlir
    """

    name: ClassVar[str] = "nabla-fold-reshapes"

    def run(self, module: ir.Operation) -> None:
        """Replaces reshapes of reshapes in all blocks, in place."""
        for block in blocks_in_functions(module):
            _fold(block)


def _fold(block: ir.Block) -> None:
    """Replaces a reshape of a reshape by one reshape, or by its operand if the shape is the same."""
    for op in [op.operation for op in block.operations if op.operation.name == "stablehlo.reshape"]:
        inner = made_by(op.operands[0])
        if inner is None or inner.name != "stablehlo.reshape":
            continue
        source = inner.operands[0]
        if source.type == op.results[0].type:
            op.results[0].replace_all_uses_with(source)
        else:
            op.operands[0] = source
    erase_dead_in(block)
