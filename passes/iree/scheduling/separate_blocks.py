"""Products of one matrix with each matrix of a stack: the axis of the stack is moved to where reads and writes are fast."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.builder import Val, concat, cut, dot, reshape, transpose
from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.iree.scheduling.batches import SharedProduct, contracted_axes
from nabla_mlir.passes.iree.scheduling.nests import replace_product
from nabla_mlir.passes.iree.scheduling.packed_factors import packed_product


@register
@dataclass(frozen=True)
class SeparateBlocksPass(Pass):
    """Rewrite each product of matrices B of shape (b, ...) with one matrix A. A map over B becomes such a product.

    - ``transpose(dot(A, B))``, whose result has the axis b moved to the front, becomes ``dot(B, A)``, whose result has it there,
      and a transpose of each matrix. IREE 3.13 moves the axis through memory: 32x16 times 16 of 16x32 takes 91 µs, and 26 in the
      new form. The kernel for large products, and tiles with AVX-512, write their result in any order, so their products stay.
      Other large products become separate products, one after the other: 20x200 times 16 of 200x200 takes 2.4 ms, 0.75 with
      swapped factors, and 0.48 as separate products.
    - ``dot(B, A)`` over the last axis of B becomes one product with the matrix of all rows. Over the middle axis, large ones
      become separate products, too.

    Example: tests/filecheck/passes/separate_blocks.mlir
    """

    name: ClassVar[str] = "nabla-separate-blocks"
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Rewrites products of stacks of matrices with one matrix, in place."""
        for op in [op for op in nested_in_functions(module) if op.name == "stablehlo.transpose"]:
            _swap_factors(op, self.vector_bytes)
        for op in [op for op in nested_in_functions(module) if op.name == "stablehlo.dot_general"]:
            _merge_rows(op, self.vector_bytes)


def _swap_factors(op: ir.Operation, vector_bytes: int) -> None:
    """Replaces ``transpose(dot(A, B))`` by a product with exchanged factors, or by separate products, where these are faster."""
    product = made_by(op.operands[0])
    if product is None or product.name != "stablehlo.dot_general":
        return
    a, b = (Val(v) for v in product.operands)
    axes = contracted_axes(product)
    if axes is None or (a.rank, b.rank) != (2, 3) or axes[1] == 0:
        return
    if list(I64Array.decode(op.attributes["permutation"])) != [1, 0, 2]:
        return
    with ir.InsertionPoint(op), op.location:
        if SharedProduct.of(product, vector_bytes):
            return
        if _is_best_separate(product, b, a.shape[axes[0]], vector_bytes):
            replace_product(op, _one_by_one(b, lambda part: dot(a, part, ([axes[0]], [axes[1] - 1]))))
        elif packed_product(product, vector_bytes) is None:
            replace_product(op, transpose(dot(b, a, ([axes[1]], [axes[0]])), (0, 2, 1)))
    if is_unused(product.results[0]):
        product.erase()


def _merge_rows(op: ir.Operation, vector_bytes: int) -> None:
    """Replaces a product of a stack (p, q, r) with a matrix by one product of p * q rows, or by separate products."""
    b, a = (Val(v) for v in op.operands)
    axes = contracted_axes(op)
    if axes is None or (b.rank, a.rank) != (3, 2) or axes[0] == 0:
        return
    with ir.InsertionPoint(op), op.location:
        if axes[0] == 2:
            rows = reshape(b, (b.shape[0] * b.shape[1], b.shape[2]))
            replace_product(op, reshape(dot(rows, a, ([1], [axes[1]])), (*b.shape[:2], a.shape[1 - axes[1]])))
        elif SharedProduct.of(op, vector_bytes):
            return
        elif _is_best_separate(op, b, a.shape[axes[1]], vector_bytes):
            replace_product(op, _one_by_one(b, lambda part: dot(part, a, ([0], [axes[1]]))))


def _is_best_separate(product: ir.Operation, b: Val, terms: int, vector_bytes: int) -> bool:
    """True if a product of a matrix with the stack b is best as separate products: few and large ones, and without a kernel.

    `terms` is the number of terms of a sum.
    """
    count, results = b.shape[0], math.prod(Val(product.results[0]).shape)
    if count > thresholds.SEPARATE_PRODUCTS or results // max(count, 1) * terms < thresholds.SEPARATE_PRODUCT:
        return False
    return packed_product(product, vector_bytes) is None


def _one_by_one(b: Val, product: Callable[[Val], Val]) -> Val:
    """The stack of the results of `product`, which is called with each matrix of the stack b."""
    parts = [product(reshape(cut(b, 0, i, i + 1), b.shape[1:])) for i in range(b.shape[0])]
    return concat([reshape(p, (1, *p.shape)) for p in parts], 0)
