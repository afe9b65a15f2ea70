"""Elementwise functions that IREE computes inexactly, or not at all: our libm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.math import arithmetic, chlo, complex, gamma
from nabla_mlir.passes.iree.pattern import Patterns


@register
@dataclass(frozen=True)
class LegalizeMathPass(PatternPass):
    """Write elementwise functions that IREE computes inexactly, or not at all, as formulas that are a few ulp off.

    Those of CHLO and of complex numbers become others, which are written likewise; all have to be in one pass, since
    each may need any other.
    Example: tests/filecheck/passes/legalize_math.mlir
    """

    name: ClassVar = "nabla-legalize-math"
    patterns: ClassVar = Patterns(arithmetic.PATTERNS, chlo.PATTERNS, complex.PATTERNS, gamma.PATTERNS)
