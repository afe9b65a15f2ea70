"""Sorts that IREE computes wrongly or slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.faults import sort, top_k
from nabla_mlir.passes.iree.kernels import sorts
from nabla_mlir.passes.iree.pattern import Patterns


@register
@dataclass(frozen=True)
class LegalizeSortsPass(PatternPass):
    """Rewrite the sorts and the searches for the largest element that IREE computes wrongly, or in quadratic time.

    With `vector-bytes`, large sorts by one key on a CPU are kernels of nabla_mlir.

    Example: tests/filecheck/passes/legalize_sorts.mlir
    """

    name: ClassVar[str] = "nabla-legalize-sorts"
    patterns: ClassVar[Patterns] = Patterns(sorts.PATTERNS, sort.PATTERNS, top_k.PATTERNS)
    vector_bytes: int = 0  # width of the CPU's vector registers, for kernels of large sorts; 0: no kernels
