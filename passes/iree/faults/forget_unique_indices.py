"""Scatters that IREE distributes differently from the operations that are fused with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class ForgetUniqueIndicesPass(Pass):
    """Remove from scatters the attribute that says that their indices are unique.

    With it, IREE distributes the scatter differently from the operations that are fused with it, and may stop with "write
    affecting operations on global resources are restricted to workgroup distributed contexts". A gather, a product and a
    scatter showed this up to IREE 3.11. No small module shows it in 3.12 and 3.13.

    Example: tests/filecheck/passes/forget_unique_indices.mlir
    """

    name: ClassVar[str] = "nabla-forget-unique-indices"

    def run(self, module: ir.Operation) -> None:
        """Sets the attribute `unique_indices` of all scatters to false."""
        for op in nested_in_functions(module):
            if op.name == "stablehlo.scatter":
                op.attributes["unique_indices"] = ir.BoolAttr.get(False, op.context)
