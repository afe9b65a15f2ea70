"""Reads and writes by index that IREE computes out of bounds, or refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.faults import indexing, scatter
from nabla_mlir.passes.iree.pattern import Patterns


@register
@dataclass(frozen=True)
class LegalizeIndexingPass(PatternPass):
    """Restrict gathers and scatters to the range of their arrays, and rewrite the forms that IREE refuses.

    Example: tests/filecheck/passes/legalize_indexing.mlir
    """

    name: ClassVar[str] = "nabla-legalize-indexing"
    patterns: ClassVar[Patterns] = Patterns(indexing.PATTERNS, scatter.PATTERNS)
