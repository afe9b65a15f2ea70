"""Products and convolutions on an NVIDIA GPU as kernels that run on its tensor cores."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.gpu.contraction import Contraction
from nabla_mlir.passes.iree.gpu.product_kernel import product_kernel
from nabla_mlir.passes.iree.gpu.sources import contraction_of
from nabla_mlir.passes.iree.gpu.tiles import Tiling, tiling_of
from nabla_mlir.passes.iree.internals.dispatches import Constants, call_kernel
from nabla_mlir.passes.iree.internals.triton_sources import triton_source
from nabla_mlir.passes.iree.scheduling.nests import replace_product


@register
@dataclass(frozen=True)
class ProductsAsKernelsPass(Pass):
    """Replace products and convolutions of f32, bf16 and f16 by calls of kernels in Triton's dialect.

    The kernel reads its factors where they lie, in any order of axes, also through the window of a convolution, so that nothing is
    transposed, padded or copied first. With few tiles the inner indices are divided into parts, whose sums are added afterwards.

    Example: tests/filecheck/passes/products_as_kernels.mlir
    """

    name: ClassVar[str] = "nabla-products-as-kernels"
    triton: int = 0  # the compute capability of the GPU, such as 90

    def run(self, module: ir.Operation) -> None:
        """Replaces products and convolutions by calls of kernels, in place."""
        constants: Constants = {}
        for op in list(nested_in_functions(module)):
            if op.name not in ("stablehlo.dot_general", "stablehlo.convolution"):
                continue
            contraction = contraction_of(op)
            if contraction is None:
                continue
            canonical = contraction.canonical()
            tiling = tiling_of(canonical)
            if tiling is not None:
                _replace(op, canonical, tiling, constants)


def _replace(op: ir.Operation, c: Contraction, t: Tiling, constants: Constants) -> None:
    """Replaces a product or a convolution by a call of a Triton kernel, and by a sum if the tiling has several parts.

    `c` is the contraction that `op` computes, `t` has the sizes of its tiles, and `constants` has constants that calls share.
    """
    batch, rows, columns, inner = c.shape
    digest = hashlib.sha256(repr((c, t)).encode()).hexdigest()[:8]
    name = f"product_{batch}x{rows}x{columns}x{inner}_{c.element}_{digest}"
    blocks = batch * -(-rows // t.rows) * -(-columns // t.columns) * t.splits
    text = triton_source(name, product_kernel(name, c, t), blocks, t.warps, t.stages, (True, True, False))
    shape = list(op.results[0].type.shape)
    with ir.InsertionPoint(op), op.location:
        element = ir.Type.parse("f32" if t.splits > 1 else c.result)
        type = ir.RankedTensorType.get(([t.splits] if t.splits > 1 else []) + shape, element)
        operands = list(op.operands)[::-1] if c.is_exchanged else list(op.operands)
        value = Val(call_kernel(name, text, operands, [type], op, constants=constants)[0])
        if t.splits > 1:
            value = b.convert(b.reduce_sum(value, [0]), Val(op.results[0]).dtype)
        replace_product(op, value)
