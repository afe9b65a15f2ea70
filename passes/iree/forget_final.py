"""Removal of the marks of operations that patterns created as final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import FINAL
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class ForgetFinalPass(Pass):
    """Remove the marks `nabla.final`.

    Patterns of the passes whose names start with nabla-legalize put this mark on operations that no pattern may rewrite
    again. IREE does not know it.

    Example: tests/filecheck/passes/forget_final.mlir
    """

    name: ClassVar[str] = "nabla-forget-final"

    def run(self, module: ir.Operation) -> None:
        """Removes the marks from all operations."""
        for op in nested_in_functions(module):
            if FINAL in op.attributes:
                del op.attributes[FINAL]
