"""Sums in the forms that IREE computes fastest: sums over columns, and over odd rows, as products with ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.builder import Val, convert, dot, full, reduce_sum, reshape, stored
from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import constant_splat
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.regions import single_operation


@register
@dataclass(frozen=True)
class ScheduleSumsPass(Pass):
    """Rewrite large sums of floating-point numbers.

    - A sum over the leading dimensions becomes a product with a vector of ones (2000x64 over 2000: 45 µs, as a product 22). So
      does a sum over rows that are not whole vectors (1000x500 over 500: 107 µs, as a product 34).
    - A sum over all elements, if it is too small for a kernel, is taken over the last dimension first.
    - "Or" of booleans (200x100 over 200: 13 µs) becomes a sum of ones and zeros (5 µs).

    Example: tests/filecheck/passes/schedule_sums.mlir
    """

    name: ClassVar[str] = "nabla-schedule-sums"
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Rewrites large sums, in place."""
        for op in nested_in_functions(module):
            if op.name == "stablehlo.reduce":
                _schedule(op, self.vector_bytes)


def _schedule(op: ir.Operation, vector_bytes: int) -> None:
    """Rewrites the reduction `op` if it is a large sum, or an `or` of booleans, for which another form is faster."""
    combiner = single_operation(op.regions[0]) if len(op.operands) == 2 else None
    x, result, dims = Val(op.operands[0]), Val(op.results[0]), sorted(op.attributes["dimensions"])
    if not x.static or math.prod(x.shape) < thresholds.SUM_AS_PRODUCT or not _is_zero(op.operands[1]):
        return
    if combiner == "stablehlo.or" and x.dtype == np.bool_:
        with ir.InsertionPoint(op), op.location:
            count = reduce_sum(convert(x, np.float32), dims)
            op.results[0].replace_all_uses_with((count > 0.5).value)
        op.erase()
        _schedule(made_by(count.value), vector_bytes)  # the sum may be faster as a product
        return
    if combiner != "stablehlo.add" or x.dtype not in (np.float32, np.float64):
        return
    result_dims = [d for d in range(x.rank) if d not in dims]
    with ir.InsertionPoint(op), op.location:
        # Sums over leading axes, or over an odd number of elements, are products with a vector of ones.
        if result_dims and min(result_dims) == len(dims):
            new = _by_ones(x, math.prod(x.shape[: len(dims)]), 0)
        elif (
            result_dims
            and max(result_dims) < min(dims)
            and _is_odd(math.prod(x.shape[d] for d in dims), vector_bytes // x.dtype.itemsize)
        ):
            new = _by_ones(x, math.prod(x.shape[: len(result_dims)]), 1)
        elif len(dims) > 1 and max(dims) == x.rank - 1 and math.prod(x.shape[d] for d in dims) >= thresholds.SUM_BY_ROWS:
            new = reduce_sum(stored(reduce_sum(x, [x.rank - 1])), dims[:-1])
        else:
            return
        new = reshape(new, result.shape)
    op.results[0].replace_all_uses_with(new.value)
    op.erase()


def _by_ones(x: Val, rows: int, axis: int) -> Val:
    """The sum over an axis of x, seen as a matrix of `rows` rows, as a product with a vector of ones."""
    matrix = stored(reshape(x, (rows, math.prod(x.shape) // rows)))
    return dot(matrix, full(1, (matrix.shape[axis],), x.dtype), ([axis], [0]))


def _is_odd(length: int, lanes: int) -> bool:
    """True if rows of `length` elements have more than one vector of `lanes` elements, and not only whole vectors."""
    return length > lanes and length % lanes != 0


def _is_zero(value: ir.Value) -> bool:
    """True for a constant zero."""
    source = made_by(value)
    return source is not None and source.name == "stablehlo.constant" and constant_splat(source) == 0
