"""Batches of products of two matrices as loop nests with tile shapes of our own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, full, reshape, stored
from nabla_mlir.dialects.stablehlo import DotDims
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.iree.faults.separate_uses import places_of_broadcasts
from nabla_mlir.passes.iree.scheduling.nests import (
    Transposes,
    in_memory,
    loop_nest,
    replace_product,
    transposed_in_memory,
)
from nabla_mlir.passes.iree.scheduling.order_axes import in_order, is_free
from nabla_mlir.passes.iree.scheduling.tiles import batched_product

Axes = tuple[int, ...]


@dataclass(frozen=True)
class BatchedProduct:
    """A product for each place along the batch axes, over one axis of each factor; each has one axis more."""

    op: ir.Operation
    batches: tuple[Axes, Axes]
    contracted: tuple[int, int]

    @staticmethod
    def of(op: ir.Operation) -> BatchedProduct | None:
        """What `op` is, if it is one."""
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
        """Replaces the product, if there are tiles for it; `transposes` holds those that there are by now."""
        lhs, rhs = map(Val, self.op.operands)
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
            result = stored(result) if self._is_apart() else result
            result = reshape(result, shape_and_dtype(self.op.results[0].type)[0])
        replace_product(self.op, result)

    def _free(self, place: int) -> int:
        """The axis of a factor that is neither a batch nor summed over."""
        rank = len(self.op.operands[place].type.shape)
        return next(a for a in range(rank) if a not in (*self.batches[place], self.contracted[place]))

    def _factor(self, x: Val, order: Axes, transposes: Transposes) -> Val:
        """A factor in memory with its axes in that order; a free one is computed in it."""
        if order == tuple(range(x.rank)):
            return in_memory(x.value)
        key = x.value, self.op.operation.block, order
        if key not in transposes:
            transposes[key] = stored(Val(in_order(x.value, order))) if is_free(x.value) else transposed_in_memory(x, order)
        return transposes[key]

    def _is_apart(self) -> bool:
        """Whether what follows would take the tiles if it were fused: a transpose, or a broadcast."""
        result = self.op.results[0]
        followers = {use.owner.operation.name for use in result.uses}
        return "stablehlo.transpose" in followers or bool(places_of_broadcasts(result))
