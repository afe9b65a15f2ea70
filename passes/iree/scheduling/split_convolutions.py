"""Convolutions with windows wider than their results, as products."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.scheduling.packed_factors import packed_product
from nabla_mlir.passes.iree.scheduling.windows import Window, groups_of

# The number of features, in and out, from which on IREE 3.13 refuses its own workgroup sizes.
_WIDE = 64


def is_split(positions: int, window: int) -> bool:
    """True if nabla-split-convolutions applies to a convolution with this number of positions of the result, and of the window."""
    return 0 < positions < window and positions <= thresholds.SPLIT_POSITIONS


def is_wide(op: ir.Operation) -> bool:
    """True for a convolution from many features to many features."""
    if op.name != "stablehlo.convolution":
        return False
    _, kernel, _ = hlo.ConvDims.decode(op.attributes["dimension_numbers"])
    sizes = Val(op.operands[1]).shape
    return min(sizes[kernel.index("i")], sizes[kernel.index("o")]) >= _WIDE


@register
@dataclass(frozen=True)
class SplitConvolutionsPass(Pass):
    """Replace each convolution by one product for each position of its result, if its window is larger than its result.

    Each product contracts a slice of lhs with rhs, over features and window at once. The gradient of a 3x3 kernel, 16 images of
    28x28 with 16 channels: 7150 µs in IREE as a convolution, 500 µs as nine products. Large ones are left to
    nabla-schedule-products.

    Example: tests/filecheck/passes/split_convolutions.mlir
    """

    name: ClassVar[str] = "nabla-split-convolutions"
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Replaces convolutions with windows larger than their results by products, in place."""
        for op in nested_in_functions(module):
            if op.name == "stablehlo.convolution" and packed_product(op, self.vector_bytes) is None:
                _split(op)


def _split(op: ir.Operation) -> None:
    """Replaces a convolution by one product for each position of its result, if these are fewer than those of its window."""
    lhs, rhs, result = Val(op.operands[0]), Val(op.operands[1]), Val(op.results[0])
    rank = lhs.rank - 2
    if not (lhs.static and rhs.static) or len({lhs.dtype, rhs.dtype, result.dtype}) > 1 or rank == 0:
        return
    movement = Window.of(op)
    if max(groups_of(op)) > 1 or any(p.interior for p in movement.padding):
        return
    left, right, out = hlo.ConvDims.decode(op.attributes["dimension_numbers"])
    axes, window_axes, positions = ([dims.index(k) for k in range(rank)] for dims in (left, right, out))
    counts, window = [result.shape[d] for d in positions], [rhs.shape[d] for d in window_axes]
    if not is_split(math.prod(counts), math.prod(window)):
        return
    with ir.InsertionPoint(op), op.location:
        low, high = [0] * lhs.rank, [0] * lhs.rank
        for axis, padding in zip(axes, movement.padding, strict=True):
            low[axis], high[axis] = padding.low, padding.high
        padded = b.pad(lhs, low, high)
        if any(movement.reversed_axes):
            rhs = b.reverse(rhs, [axis for axis, flag in zip(window_axes, movement.reversed_axes, strict=True) if flag])
        contracted = [left.index("f"), *axes], [right.index("i"), *window_axes]
        products = []
        for position in itertools.product(*map(range, counts)):
            start, limit, steps = [0] * lhs.rank, list(padded.shape), [1] * lhs.rank
            for axis, index, n, stride, step in zip(axes, position, window, movement.strides, movement.dilation, strict=True):
                start[axis], limit[axis], steps[axis] = index * stride, index * stride + (n - 1) * step + 1, step
            product = _product(b.slice_(padded, start, limit, steps), rhs, contracted)  # batch x output features
            products.append(b.reshape(product, (1, *product.shape)))
        # (positions, batch, output features) to the order of the result.
        stack = b.reshape(b.concat(products, 0), (*counts, *products[0].shape[1:]))
        order = [rank if d == "b" else rank + 1 if d == "f" else d for d in out]
        whole = stack if order == list(range(rank + 2)) else b.transpose(stack, order)
    op.results[0].replace_all_uses_with(whole.value)
    op.erase()


def _product(lhs: Val, rhs: Val, contracted: tuple[list[int], list[int]]) -> Val:
    """The product of lhs and rhs, summed over the dimensions `contracted[0]` of lhs and `contracted[1]` of rhs.

    It is emitted as a product of two matrices if these are all dimensions but the last.
    """
    leading = list(range(lhs.rank - 1))
    if contracted != (leading, leading):
        return b.dot(lhs, rhs, contracted)
    rows = math.prod(lhs.shape[:-1])
    return b.dot(b.reshape(lhs, (rows, lhs.shape[-1])), b.reshape(rhs, (rows, rhs.shape[-1])), ([0], [0]))
