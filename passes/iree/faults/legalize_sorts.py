"""Sorts that IREE computes wrongly or slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.faults import sort, top_k
from nabla_mlir.passes.iree.pattern import Patterns


@register
@dataclass(frozen=True)
class LegalizeSortsPass(PatternPass):
    """Write otherwise the sorts and the searches for the largest that IREE computes wrongly, or in quadratic time.

    Example: tests/filecheck/passes/legalize_sorts.mlir
    """

    name: ClassVar = "nabla-legalize-sorts"
    patterns: ClassVar = Patterns(sort.PATTERNS, top_k.PATTERNS)
