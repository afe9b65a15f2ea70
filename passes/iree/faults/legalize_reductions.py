"""Sums and windows that IREE computes wrongly or refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.faults import reductions, windows
from nabla_mlir.passes.iree.pattern import Patterns


@register
@dataclass(frozen=True)
class LegalizeReductionsPass(PatternPass):
    """Rewrite the reductions and windows that IREE computes wrongly, inexactly, or not at all.

    Example: tests/filecheck/passes/legalize_reductions.mlir
    """

    name: ClassVar[str] = "nabla-legalize-reductions"
    patterns: ClassVar[Patterns] = Patterns(windows.PATTERNS, reductions.PATTERNS)  # window patterns must come first
