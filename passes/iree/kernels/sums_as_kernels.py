"""Large reductions that IREE computes slowly, as kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import blocks_of, made_by
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.kernels.graph import NotSupported
from nabla_mlir.passes.iree.kernels.sum_groups import Group, Names, combines, groups_of, loops_of
from nabla_mlir.table.traits import is_elementwise, size_of


@register
@dataclass(frozen=True)
class SumsAsKernelsPass(Pass):
    """Compute large reductions in kernels, together with the elementwise operations that only they read.

    IREE reduces rows fast (10,000x1000 over the last axis: 1.9 ms, the speed of reading memory), and computes readers of the
    result in the same dispatch. Other reductions of 10,000x1000 are slow:

    - Columns take 4 ms, of squares 22, of exponentials 42, for the largest elements 13 (kernel: 2.2, 2.6, 5.2, 2.2).
    - Axes 0, 2, 3 of 100x10x100x100 take 38 ms (2.2), and rows of squares 12 (2.2).

    Independent reductions over one space are one kernel, which reads their common operands once.

    Example: tests/filecheck/passes/sums_as_kernels.mlir
    """

    name: ClassVar[str] = "nabla-sums-as-kernels"
    vector_bytes: int = 64  # width of the CPU's vector registers
    least_size: int = thresholds.SUM_AS_KERNEL  # the number of elements of the space

    def run(self, module: ir.Operation) -> None:
        """Replaces groups of large reductions by kernels, in place."""
        names = Names("reductions")
        for block in blocks_of(module):
            for group in [*groups_of(block, self._is_suitable, self._is_inner)]:
                self._replace(group, names)

    def _replace(self, group: Group, names: Names) -> None:
        """Replaces a group of reductions by a kernel, or each reduction by itself if there is no kernel for all of them."""
        if self._is_replaced(group, names):
            return
        for choices in group.parts:  # the first group of the pair for which there is a kernel becomes one
            any(self._is_replaced(part, names) for part in choices)

    def _is_replaced(self, group: Group, names: Names) -> bool:
        """True if a group of reductions is now a kernel; False if there is no kernel for the group, which is then unchanged."""
        try:
            group.replace(names, self.vector_bytes)
        except NotSupported:
            return False
        return True

    def _is_suitable(self, op: ir.Operation) -> bool:
        """True for a reduction that IREE computes slowly: one of columns, of rows and columns, or of squares x * x along rows."""
        if not combines(op):
            return False
        size = size_of(op.operands[0])
        if size < max(self.least_size, thresholds.KERNEL_TERMS * size_of(op.results[0])):
            return False
        shape, dims = op.operands[0].type.shape, {*op.attributes["dimensions"]}
        long = [d for d, n in enumerate(shape) if n != 1]
        first = next((i for i, d in enumerate(long) if d in dims), len(long))
        # Of the dimensions longer than 1, rows are the last ones: the first is kept, and none is kept after a reduced one.
        is_of_rows = first > 0 and all(d in dims for d in long[first:])
        return len(loops_of(op)) > 1 and (not is_of_rows or _is_square(op.operands[0]))

    def _is_inner(self, op: ir.Operation) -> bool:
        """True for a value as large as the operand of the reduction that may be computed element by element in its reader."""
        if not is_static_tensor(op.results[0].type) or size_of(op.results[0]) < self.least_size:
            return False
        return is_elementwise(op) or op.name in _MOVES


# Operations that only move elements or make constants, so that their readers can compute them.
_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.iota", "stablehlo.constant", "stablehlo.reshape", "stablehlo.bitcast_convert")


def _is_square(value: ir.Value) -> bool:
    """True for a product of a value with itself, or a reshape of one."""
    source = made_by(value)
    while source is not None and source.name == "stablehlo.reshape":
        source = made_by(source.operands[0])
    if source is None:
        return False
    return source.name == "chlo.square" or (source.name == "stablehlo.multiply" and source.operands[0] == source.operands[1])
