"""Sums for GPUs, which IREE would compute by few threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.types import is_float
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.products_in_parts import longest_inner_axis, product_in_parts
from nabla_mlir.passes.iree.faults.sums_in_parts import in_parts
from nabla_mlir.passes.iree.pattern import operands
from nabla_mlir.passes.iree.regions import single_operation
from nabla_mlir.table.traits import size_of


@register
@dataclass(frozen=True)
class SplitSumsPass(Pass):
    """Compute long sums and products with few results in two levels, so that the whole GPU works on them.

    IREE 3.13 gives each result of a sum to one group of threads, or to one thread if its terms are not contiguous. An H100 needs
    60 to 100 µs for one sum of 65,536 numbers, and 5 ms for 500 sums over columns of 200,000 rows. A sum is divided into about as
    many parts as each part has terms, a product into as many as occupy all threads. Then the parts are added up.

    Example: tests/filecheck/passes/split_sums.mlir
    """

    name: ClassVar[str] = "nabla-split-sums"

    def run(self, module: ir.Operation) -> None:
        """Computes long sums and products with few results in two levels, in place."""
        for op in nested_in_functions(module):
            if op.name not in ("stablehlo.dot_general", "stablehlo.reduce") or len(op.results) != 1:
                continue
            with ir.InsertionPoint(op), op.location:
                total = _product(op) if op.name == "stablehlo.dot_general" else _sum(op)
            if total is not None:
                op.results[0].replace_all_uses_with(total.value)
                op.erase()


def _sum(op: ir.Operation) -> Val | None:
    """A long sum with few results in two steps, so that all threads have work; None for other reductions."""
    if single_operation(op.regions[0]) != "stablehlo.add":
        return None
    (x, initial), dims = operands(op), sorted(op.attributes["dimensions"])
    is_wide = size_of(op.results[0]) >= thresholds.PARALLEL_RESULTS
    if is_wide or not (x.static and can_be_summed(x.dtype)) or math.prod(x.shape[d] for d in dims) < thresholds.PARALLEL_TERMS:
        return None
    first, *others = dims
    if math.prod(x.shape[d] for d in others) * thresholds.PARALLEL_PART >= x.shape[first] >= thresholds.PARALLEL_PART:
        rows = b.reduce_sum(x, others)  # this has many results, and the second sum few terms
        return b.reduce([rows], [initial], [first], lambda a, c: a + c)[0]
    return in_parts(op, max(dims, key=lambda d: x.shape[d]))


def _product(op: ir.Operation) -> Val | None:
    """A product with few results as the sum of products over parts; None if it has many results."""
    count = _parts(longest_inner_axis(op), size_of(op.results[0]))
    return product_in_parts(op, count) if count >= 2 and can_be_summed(Val(op.results[0]).dtype) else None


def can_be_summed(dtype: np.dtype) -> bool:
    """True if IREE compiles sums of this dtype without nabla-legalize-types."""
    return is_float(dtype) or dtype.kind == "i"


def _parts(length: int, results: int) -> int:
    """The number of parts of a contraction of `length` terms: enough for all threads, but with enough terms in each part.

    `results` is the number of results of the product.
    """
    limit = min(thresholds.PARALLEL_PRODUCT // max(results, 1), length // thresholds.PARALLEL_PART // 2, thresholds.PARALLEL_PARTS)
    # The largest divisor above half of the limit gives equal parts.
    return next((n for n in range(limit, limit // 2, -1) if length % n == 0), limit)
