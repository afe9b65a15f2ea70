"""Convolutions along one spatial axis, or of one input channel, as products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.scheduling.packed_factors import packed_product
from nabla_mlir.passes.iree.scheduling.windows import Window, groups_of


@register
@dataclass(frozen=True)
class GatherPatchesPass(Pass):
    """Replace each convolution along one axis, or of one channel, by one product of all patches with the kernel.

    16 signals of 64 with 24 channels, 5x24x16: 570 µs in IREE as a convolution, 41 µs as a product; 8 images of 28x28
    with one channel, 5x5x1x6: 507 and 111. With more axes and channels the convolution is faster;
    large ones are left to nabla-schedule-products.

    Example: tests/filecheck/passes/gather_patches.mlir
    """

    name: ClassVar[str] = "nabla-gather-patches"
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Replaces convolutions by products of patches, in place."""
        for op in nested_in_functions(module):
            if op.name == "stablehlo.convolution" and packed_product(op, self.vector_bytes) is None:
                _gather(op)


def _gather(op: ir.Operation) -> None:
    """Replaces a small convolution with one group and few channels by one product of its patches with the kernel."""
    lhs, rhs, result = Val(op.operands[0]), Val(op.operands[1]), Val(op.results[0])
    rank = lhs.rank - 2
    if not (lhs.static and rhs.static) or lhs.dtype not in (np.float32, np.float64) or rank == 0:
        return
    if {rhs.dtype, result.dtype} != {lhs.dtype}:
        return
    if max(groups_of(op)) > 1:
        return
    left, right, out = hlo.ConvDims.decode(op.attributes["dimension_numbers"])
    window = [rhs.shape[right.index(k)] for k in range(rank)]
    counts = [result.shape[out.index(k)] for k in range(rank)]
    channels, batch = lhs.shape[left.index("f")], lhs.shape[left.index("b")]
    if (rank > 1 and channels > 1) or not 1 < math.prod(window) <= thresholds.PATCH_WINDOW:
        return
    if batch * math.prod(counts) * math.prod(window) * channels > thresholds.PATCHES:
        return
    moves = Window.of(op)
    with ir.InsertionPoint(op), op.location:
        x = _ordered(lhs, left, ["b", *range(rank), "f"])
        kernel = _ordered(rhs, right, [*range(rank), "i", "o"])
        if reversed_axes := [k for k in range(rank) if moves.reversed_axes[k]]:
            kernel = b.reverse(kernel, reversed_axes)
        low, high, interior = zip(*((p.low, p.high, p.interior) for p in moves.padding), strict=True)
        x = b.pad(x, [0, *low, 0], [0, *high, 0], [0, *interior, 0])
        views = [_view(moves, x, offset, counts) for offset in itertools.product(*map(range, window))]
        patches = b.concat(views, rank + 1)
        rows = b.reshape(patches, (batch * math.prod(counts), math.prod(window) * channels))
        product = b.dot(rows, b.reshape(kernel, (rows.shape[1], kernel.shape[-1])), ([1], [0]))
        whole = b.reshape(product, (batch, *counts, kernel.shape[-1]))
        # From (batch, *positions, features) to the order of the result.
        order = [0 if d == "b" else rank + 1 if d == "f" else d + 1 for d in out]
        whole = whole if order == list(range(rank + 2)) else b.transpose(whole, order)
    op.results[0].replace_all_uses_with(whole.value)
    op.erase()


def _ordered(x: Val, dims: Sequence[str | int], wanted: Sequence[str | int]) -> Val:
    """The array x, whose axes have the names `dims`, transposed so that they are in the order `wanted`."""
    order = [list(dims).index(d) for d in wanted]
    return x if order == list(range(x.rank)) else b.transpose(x, order)


def _view(window: Window, x: Val, offset: Sequence[int], counts: Sequence[int]) -> Val:
    """The slice of x, an array (batch, *spatial, channels), that the element `offset` of the window reads at all positions.

    `counts` has the number of positions along each spatial axis.
    """
    start = [index * step for index, step in zip(offset, window.dilation, strict=True)]
    limit = [s + (n - 1) * stride + 1 for s, n, stride in zip(start, counts, window.strides, strict=True)]
    return b.slice_(x, [0, *start, 0], [x.shape[0], *limit, x.shape[-1]], [1, *window.strides, 1])
