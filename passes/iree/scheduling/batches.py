"""Batches of products of two matrices, or of one matrix with several, as loop nests with nabla_mlir's own tile shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.builder import Val, full, reshape, stored
from nabla_mlir.dialects.stablehlo import DotDims, I64Array
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.iree.faults.separate_uses import positions_of_broadcasts
from nabla_mlir.passes.iree.scheduling.nests import (
    Transposes,
    in_memory,
    loop_nest,
    replace_product,
    transposed_in_memory,
    transposed_once,
)
from nabla_mlir.passes.iree.scheduling.order_axes import has_free_order, in_order
from nabla_mlir.passes.iree.scheduling.packed import is_computed_in
from nabla_mlir.passes.iree.scheduling.tiles import Tiles, batched_product, shared_product

Axes = tuple[int, ...]


@dataclass(frozen=True)
class BatchedProduct:
    """A product of matrices for each index of the batch axes; each factor has one contracted and one free axis."""

    op: ir.Operation
    batches: tuple[Axes, Axes]
    contracted: tuple[int, int]

    @staticmethod
    def of(op: ir.Operation) -> BatchedProduct | None:
        """The description of a `dot_general` with batch axes, one contracted and one free axis of each factor; None for others."""
        numbers = DotDims.decode(op.attributes["dot_dimension_numbers"])
        lhs, rhs = (
            (tuple(numbers[f"{side}_batching_dimensions"]), tuple(numbers[f"{side}_contracting_dimensions"]))
            for side in ("lhs", "rhs")
        )
        ranks = [len(v.type.shape) for v in op.operands]
        if not lhs[0] or any(len(c) != 1 or rank != len(b) + 2 for (b, c), rank in zip((lhs, rhs), ranks, strict=True)):
            return None
        return BatchedProduct(op, (lhs[0], rhs[0]), (lhs[1][0], rhs[1][0]))

    def build(self, vector_bytes: int, transposes: Transposes) -> None:
        """Replaces the product by a loop nest if there are tiles for it; `transposes` caches transposed factors."""
        lhs, rhs = map(Val, self.op.operands)
        # The batch axes of both factors, then the contracted axis of each, then the free axis of each.
        (left, right), (lc, rc), (free, other) = self.batches, self.contracted, (self._free(0), self._free(1))
        batch = math.prod(lhs.shape[a] for a in left)
        rows, columns, length = lhs.shape[free], rhs.shape[other], lhs.shape[lc]
        dtype = shape_and_dtype(lhs.type)[1]
        tiles = batched_product(batch, rows, columns, length, vector_bytes // dtype.itemsize)
        if tiles is None:
            return
        with ir.InsertionPoint(self.op), self.op.location:
            lhs = reshape(self._factor(lhs, (*left, free, lc), transposes), (batch, rows, length))
            rhs = reshape(self._factor(rhs, (*right, rc, other), transposes), (batch, length, columns))
            (result,) = loop_nest(lhs, [rhs], [full(0, (batch, rows, columns), dtype)], "bik", "bkj", "bij", tiles)
            # In memory, the result keeps such a reader out of the dispatch of the product.
            result = stored(result) if _takes_tiles(self.op.results[0]) else result
            result = reshape(result, shape_and_dtype(self.op.results[0].type)[0])
        replace_product(self.op, result)

    def _free(self, position: int) -> int:
        """The axis of factor 0 or 1 (`position`) that is neither a batch axis nor contracted."""
        rank = len(self.op.operands[position].type.shape)
        return next(a for a in range(rank) if a not in (*self.batches[position], self.contracted[position]))

    def _factor(self, x: Val, order: Axes, transposes: Transposes) -> Val:
        """The factor `x` in memory with its axes in `order`.

        A factor that elementwise operations make from broadcasts and constants is recomputed in that order; others are
        transposed. `transposes` caches the results for each block.
        """
        if order == tuple(range(x.rank)):
            return in_memory(x.value)
        # The block is part of the key: a value that is made in the body of a loop cannot be read outside it.
        key = x.value, self.op.operation.block, order
        if key not in transposes:
            transposes[key] = stored(Val(in_order(x.value, order))) if has_free_order(x.value) else transposed_in_memory(x, order)
        return transposes[key]


@dataclass(frozen=True)
class SharedProduct:
    """The product of one matrix A with each matrix B_b of a stack of few, large matrices: C[b, i, j] is a sum over k.

    Args:
      op: the operation whose result is C.
      product: the `dot_general`: ``op`` itself, or the product that ``op`` transposes so that axis b comes first.
      position: the index of the stack among the operands of the product.
      contracted: the axis k of each operand.
      tiles: the tiles of the loop nest.
    """

    op: ir.Operation
    product: ir.Operation
    position: int
    contracted: tuple[int, int]
    tiles: Tiles

    @staticmethod
    def of(product: ir.Operation, vector_bytes: int) -> SharedProduct | None:
        """The description of a product of one matrix with each matrix of a stack; None for other products.

        It needs AVX-512, and each product must be small enough for tiles and large enough to pay off.
        """
        if vector_bytes < 64 or product.name != "stablehlo.dot_general" or not is_computed_in(product):
            return None
        axes, ranks = contracted_axes(product), [Val(x).rank for x in product.operands]
        if axes is None or sorted(ranks) != [2, 3]:
            return None
        position = ranks.index(3)
        op = _with_axis_in_front(product) if position else product
        # Sums over the axis of the stack give no stack; sums over the last axis of a left stack are one product with all rows.
        if op is None or axes[position] == 0 or (position == 0 and axes[0] == 2):
            return None
        count, rows, columns = Val(op.results[0]).shape
        length = Val(product.operands[0]).shape[axes[0]]
        work = rows * columns * length
        if count > thresholds.SEPARATE_PRODUCTS or not thresholds.SEPARATE_PRODUCT <= work < thresholds.PACKED_PRODUCT_AVX512:
            return None
        tiles = shared_product(rows, columns, length, vector_bytes // Val(op.results[0]).dtype.itemsize)
        return SharedProduct(op, product, position, axes, tiles) if tiles else None

    def build(self, transposes: Transposes) -> None:
        """Replaces the product by a loop nest; `transposes` caches transposed factors."""
        shape, dtype = shape_and_dtype(self.op.results[0].type)
        # Names of axes in the loop nest: b of the stack, i rows, j columns, k terms.
        left, right = ("b" if self.position == n else "" for n in (0, 1))
        with ir.InsertionPoint(self.op), self.op.location:
            lhs, rhs = map(Val, self.product.operands)
            lhs, first = in_memory(lhs.value), left + ("ki" if self.contracted[0] == lhs.rank - 2 else "ik")
            if self.contracted[1] == rhs.rank - 1:
                order = (*range(rhs.rank - 2), rhs.rank - 1, rhs.rank - 2)
                rhs = transposed_once(rhs, order, self.op.block, transposes)
            (result,) = loop_nest(lhs, [in_memory(rhs.value)], [full(0, shape, dtype)], first, right + "kj", "bij", self.tiles)
            result = stored(result) if _takes_tiles(self.op.results[0]) else result
        replace_product(self.op, result)
        if self.position == 1:  # the replaced operation was the transpose, so nothing reads its operand, the product
            self.product.erase()


def contracted_axes(product: ir.Operation) -> tuple[int, int] | None:
    """The contracted axis of each factor; None for several contracted axes, batch axes, or different element types."""
    dims = DotDims.decode(product.attributes["dot_dimension_numbers"])
    left, right = dims["lhs_contracting_dimensions"], dims["rhs_contracting_dimensions"]
    elements = {v.type.element_type for v in (*product.operands, *product.results)}
    if dims["lhs_batching_dimensions"] or len(left) != 1 or len(elements) != 1:
        return None
    return left[0], right[0]


def _with_axis_in_front(product: ir.Operation) -> ir.Operation | None:
    """The transpose that is the only reader of a product, if it moves the middle axis to the front; else None."""
    uses = list(product.results[0].uses)
    user = uses[0].owner.operation if len(uses) == 1 else None
    if user is None or user.name != "stablehlo.transpose" or list(I64Array.decode(user.attributes["permutation"])) != [1, 0, 2]:
        return None
    return user


def _takes_tiles(result: ir.Value) -> bool:
    """True if a reader of the result (a transpose or a broadcast), fused with the product, would be computed in its tiles."""
    followers = {use.owner.operation.name for use in result.uses}
    return "stablehlo.transpose" in followers or bool(positions_of_broadcasts(result))
