"""Elementwise functions that IREE computes inexactly, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import VerifyError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.math import arithmetic, chlo, complex, gamma
from nabla_mlir.passes.iree.pattern import Patterns


@register
@dataclass(frozen=True)
class LegalizeMathPass(PatternPass):
    """Write elementwise functions that IREE computes inexactly, or not at all, as formulas that are a few ulp off.

    Functions of CHLO and of complex numbers become other functions, which are then written in the same manner. All patterns
    are in one pass, because a function may need any other.

    Example: tests/filecheck/passes/legalize_math.mlir
    """

    name: ClassVar[str] = "nabla-legalize-math"
    patterns: ClassVar[Patterns] = Patterns(arithmetic.PATTERNS, chlo.PATTERNS, complex.PATTERNS, gamma.PATTERNS)

    def run(self, module: ir.Operation) -> None:
        """Writes functions as formulas, in place. Derivatives are expanded before, because the formulas work on bits of numbers."""
        for op in nested(module):
            if op.name.startswith("ad."):
                raise VerifyError(
                    f"{self.name} requires that no derivative is left, got {op.name}.",
                    where=source_of(op.location),
                    help="run nabla-expand and nabla-remove-stop-gradient first.",
                )
        super().run(module)
