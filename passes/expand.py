"""The expansion of all transforms, innermost first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead_in
from nabla_mlir.passes.jvp import expand_jvp
from nabla_mlir.passes.simplify.simplify import simplify_block
from nabla_mlir.passes.vjp import expand_vjp
from nabla_mlir.passes.vmap import expand_vmap

EXPANSIONS = {"ad.jvp": expand_jvp, "ad.vjp": expand_vjp, "batch.vmap": expand_vmap}


@register
@dataclass(frozen=True)
class ExpandPass(Pass):
    """Expand every `ad` and `batch` region, innermost first, until none is left.

    Between two levels the code is simplified and dead code is removed. So an outer derivative never differentiates
    operations that the inner one does not need.

    Example: tests/filecheck/passes/expand.mlir
    """

    name: ClassVar[str] = "nabla-expand"
    simplify: bool = True  # simplify between the levels

    def run(self, module: ir.Operation) -> None:
        for block in module.regions[0].blocks:
            erase_dead_in(block)
            self._expand_in(block)

    def _expand_in(self, block: ir.Block) -> None:
        """Expands the transforms in a block, and erases dead code."""
        for op in [o.operation for o in block.operations]:
            self.expand(op)
        erase_dead_in(block)

    def expand(self, op: ir.Operation) -> None:
        """Expands every transform in the regions of an operation, and the operation itself if it is one."""
        for region in op.regions:
            for inner in region.blocks:
                self._expand_in(inner)
                if op.name in EXPANSIONS and self.simplify:
                    simplify_block(inner)
        if op.name in EXPANSIONS:
            EXPANSIONS[op.name](op)
