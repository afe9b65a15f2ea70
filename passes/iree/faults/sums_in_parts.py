"""Long sums, which IREE computes by adding one term after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.types import is_float
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.pattern import operands
from nabla_mlir.passes.iree.regions import single_operation


@register
@dataclass(frozen=True)
class SumsInPartsPass(Pass):
    """Compute sums of many floating-point numbers in two levels.

    One core of a CPU adds one term after the other. The sum of 10⁶ squares in f32 then has an error of 8e-4, and in two levels
    1e-6.

    Example: tests/filecheck/passes/sums_in_parts.mlir
    """

    name: ClassVar[str] = "nabla-sums-in-parts"

    def run(self, module: ir.Operation) -> None:
        """Replaces long sums by sums in two levels, in place."""
        for op in nested_in_functions(module):
            if op.name == "stablehlo.reduce" and (axis := long_axis(op)) is not None:
                with ir.InsertionPoint(op), op.location:
                    total = in_parts(op, axis)
                op.results[0].replace_all_uses_with(total.value)
                op.erase()


_VECTOR = 16  # the number of elements of a vector; rows that are not whole vectors are summed three times slower


def long_axis(op: ir.Operation) -> int | None:
    """The longest axis of a sum if it is long enough for two levels; else None."""
    if len(op.operands) != 2 or single_operation(op.regions[0]) != "stablehlo.add":
        return None
    x, dims = Val(op.operands[0]), list(op.attributes["dimensions"])
    if not (x.static and is_float(x.dtype) and dims):
        return None
    axis = max(dims, key=lambda d: x.shape[d])
    return axis if x.shape[axis] >= thresholds.SUM_IN_PARTS else None


def in_parts(op: ir.Operation, axis: int) -> Val:
    """The sum of `op` in two levels along an axis: sums of parts of about equal size, and the sum of these."""
    (x, initial), dims = operands(op), list(op.attributes["dimensions"])
    length = x.shape[axis]
    width = near_root(length)
    whole = length // width * width
    body = b.cut(x, axis, 0, whole)
    body = b.reshape(body, (*x.shape[:axis], whole // width, width, *x.shape[axis + 1 :]))
    inner = b.reduce_sum(body, [axis + 1])
    total = b.reduce([inner], [initial], dims, lambda a, c: a + c)[0]
    if whole == length:
        return total
    return total + b.reduce_sum(b.cut(x, axis, whole, length), dims)


def near_root(n: int) -> int:
    """A divisor of n within a factor of 4 of its square root, a multiple of the vector size if possible; else the rounded root."""
    root = math.isqrt(n)
    divisors = [d for d in range(max(root // 4, 2), 4 * root + 1) if n % d == 0]
    return min(divisors, key=lambda d: (d % _VECTOR != 0, abs(math.log(d / root))), default=root)
