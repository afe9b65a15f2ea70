"""Removal of `ad.stop_gradient`, after all derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.ad import STOP_GRADIENT
from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class RemoveStopGradientPass(Pass):
    """Remove `ad.stop_gradient`, which is the identity once every derivative has been expanded.

    Example: tests/filecheck/passes/remove_stop_gradient.mlir
    """

    name: ClassVar[str] = "nabla-remove-stop-gradient"

    def run(self, module: ir.Operation) -> None:
        for op in [op for op in nested(module) if op.name == STOP_GRADIENT]:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
