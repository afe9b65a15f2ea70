"""The last pass for a CPU: the forms of products and convolutions in which IREE runs them fastest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.kernels.replace import loops_as_kernels
from nabla_mlir.passes.iree.scheduling.blocks import separate_blocks
from nabla_mlir.passes.iree.scheduling.convolutions import gather_patches, split_by_position
from nabla_mlir.passes.iree.scheduling.layouts import order_axes
from nabla_mlir.passes.iree.scheduling.products import schedule_products
from nabla_mlir.passes.iree.scheduling.slices import fold_reshapes, push_up_slices, stacks_as_choices
from nabla_mlir.passes.iree.scheduling.sums import schedule_sum


@register
@dataclass(frozen=True)
class SchedulePass(Pass):
    """Give products the tile shapes of a cost model, and rewrite what IREE does slowly.

    A product becomes a `linalg.generic` with `compilation_info` where IREE's own choice is slower
    (passes/iree/scheduling/tiles.py); products of one matrix with several vectors become one operation that reads the matrix
    once, products of one matrix with each of several matrices are taken apart, and a large factor is copied in strips.
    Values are computed in the order of axes in which products and sums read them (passes/iree/scheduling/layouts.py). Sums
    over columns become products with ones, convolutions with wide windows, one axis or one channel become products, and
    slices of cheap values are computed from slices of what those are made of. A small loop becomes one dispatch
    (passes/iree/kernels/replace.py). What is to be in memory and not fused stands behind a compute barrier, which is gone
    once there are dispatches. The numbers are the same up to the order of sums.
    Example: tests/filecheck/passes/schedule.mlir
    """

    name: ClassVar = "nabla-schedule"
    vector_bytes: int = 64  # width of the CPU's vector registers
    kernels: bool = True  # run small loops as kernels of our own code

    def run(self, module: ir.Operation) -> None:
        for op in [op for op in nested(module) if op.name == "stablehlo.convolution"]:
            split_by_position(op)
        for op in [op for op in nested(module) if op.name == "stablehlo.convolution"]:
            gather_patches(op)
        for owner in nested(module):
            for region in owner.regions:
                for block in region.blocks:
                    order_axes(block)
                    push_up_slices(block)
                    stacks_as_choices(block)
                    fold_reshapes(block)
        if self.kernels:
            loops_as_kernels(module, self.vector_bytes)
        for op in [op for op in nested(module) if op.name == "stablehlo.reduce"]:
            schedule_sum(op, self.vector_bytes)
        for name in ("stablehlo.transpose", "stablehlo.dot_general"):
            for op in [op for op in nested(module) if op.name == name]:
                separate_blocks(op)
        schedule_products([op for op in nested(module) if op.name == "stablehlo.dot_general"], self.vector_bytes)
