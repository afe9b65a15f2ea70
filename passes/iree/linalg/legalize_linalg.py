"""Matrix factorisations and decompositions, which IREE does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.linalg import factorizations, lapack
from nabla_mlir.passes.iree.pattern import Patterns


@register
@dataclass(frozen=True)
class LegalizeLinalgPass(PatternPass):
    """Write matrix factorisations, triangular systems and calls of LAPACK as products, loops and kernels.

    IREE compiles none of them. With `vector-bytes`, large real ones on a CPU are kernels of nabla_mlir.

    Example: tests/filecheck/passes/legalize_linalg.mlir
    """

    name: ClassVar[str] = "nabla-legalize-linalg"
    patterns: ClassVar[Patterns] = Patterns(factorizations.PATTERNS, lapack.PATTERNS)
    vector_bytes: int = 0  # width of the CPU's vector registers, for kernels of large matrices; 0: products
