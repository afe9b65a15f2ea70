"""Large products as calls of the kernel that packs its factors (kernels/product.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.builder import Val, reshape, transpose
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.iree.internals.dispatches import Constants
from nabla_mlir.passes.iree.kernels.layout import Axis, Layout, merged
from nabla_mlir.passes.iree.kernels.product import Product, ProductKernel
from nabla_mlir.passes.iree.scheduling.nests import Transposes, replace_product, transposed_once
from nabla_mlir.passes.iree.scheduling.packed_calls import PackedCall
from nabla_mlir.passes.iree.scheduling.views import MemoryView, Pads

_ELEMENTS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
# IREE passes at most 64 numbers to a kernel; some of them are the blocks.
_NUMBERS = 56


@dataclass(frozen=True)
class Factor:
    """A factor of a product; an axis of the image of a convolution is two axes: positions of the window, and elements in it.

    Args:
      view: the factor as a view of a value in memory.
      batch: the batch axes, with their strides in memory.
      free: the axes of the rows (or columns) of the product.
      terms: the axes that are summed over.
      dims: the axes of the view in the order batch, free, terms; empty if the factor cannot be transposed.
    """

    view: MemoryView
    batch: Sequence[Axis]
    free: Sequence[Axis]
    terms: Sequence[Axis]
    dims: Sequence[int] = ()

    def in_order(self, block: ir.Block, transposes: Transposes) -> Factor:
        """The same factor, transposed in memory: batch axes, free axes (rows or columns), then the axes that are summed over.

        `transposes` caches transposed values.
        """
        order = [self.view.dims[n].axis for n in self.dims]
        value = transposed_once(Val(self.view.value), order, block, transposes).value
        # The transposed value has the axes of the view in this order, so each gets its position as its number.
        dims = tuple(self.view.dims[n]._replace(axis=position) for position, n in enumerate(self.dims))
        view = replace(MemoryView.of(value), dims=dims)
        first, last = len(self.batch), len(self.batch) + len(self.free)
        return Factor(view, view.axes[:first], view.axes[first:last], view.axes[last:], range(len(order)))


@dataclass(frozen=True)
class PackedProduct:
    """A product of stacked matrices, or a convolution.

    Args:
      op: the operation that is replaced.
      left: the factor of the rows.
      right: the factor of the columns.
      order: axis n of the result (before axes are merged) is axis order[n] of the kernel's result, whose axes are:
        batch, free axes of the left factor, free axes of the right factor.
    """

    op: ir.Operation
    left: Factor
    right: Factor
    order: Sequence[int]

    @property
    def sizes(self) -> list[int]:
        """The sizes of the axes of the kernel's result."""
        return [axis.size for axis in (*self.left.batch, *self.left.free, *self.right.free)]

    @property
    def product(self) -> Product:
        """The product for the kernel, with as few axes as possible."""
        batch = _merged_pairs(self.left.batch, self.right.batch)
        left, right = (
            Layout(f.view.elements, tuple(axis.stride for axis in axes), merged(f.free), merged(f.terms), f.view.start)
            for f, axes in zip((self.left, self.right), batch, strict=True)
        )
        return Product(tuple(axis.size for axis in batch[0]), left, right, _ELEMENTS[Val(self.op.results[0]).dtype])

    def is_large(self, least: int) -> bool:
        """True if the product has at least `least` multiplications, no short side, and 32-bit element counts."""
        product = self.product
        elements = product.left.elements, product.right.elements, math.prod(product.result_shape)
        return (
            min(product.sizes) >= thresholds.PACKED_SIDE
            and math.prod((*product.batch, *product.sizes)) >= least
            and max(elements) < 1 << 31
            and len(product.numbers) <= _NUMBERS
        )

    def build(self, vector_bytes: int, transposes: Transposes, pads: Pads, constants: Constants) -> PackedCall:
        """The call of the kernel that replaces the operation.

        `transposes`, `pads` and `constants` are caches of transposed values, padded values and constants; `vector_bytes` is the
        size of a vector register.
        """
        shape, dtype = shape_and_dtype(self.op.results[0].type)
        block = self.op.block
        with ir.InsertionPoint(self.op), self.op.location:
            ordered = self._in_order(block, transposes)
            layouts = ordered.product.left, ordered.product.right
            factors = [
                reshape(f.view.in_memory(block, pads), (layout.elements,)).value
                for f, layout in zip((ordered.left, ordered.right), layouts, strict=True)
            ]
            call = PackedCall.at(self.op, ProductKernel.of(ordered.product, vector_bytes), factors, dtype, constants)
            result = reshape(transpose(reshape(Val(call.result), self.sizes), self.order), shape)
        replace_product(self.op, result)
        return call

    def _in_order(self, block: ir.Block, transposes: Transposes) -> PackedProduct:
        """The product with contiguous factors: a factor with neither contiguous rows nor contiguous terms is transposed in memory.

        A factor with windows, as of a convolution, stays as it is.
        """
        layouts = self.product.left, self.product.right
        # Unit "s": neither the rows nor the terms are contiguous. Factors with windows have no `dims`.
        left, right = (
            f.in_order(block, transposes) if layout.kind.unit == "s" and f.dims else f
            for f, layout in zip((self.left, self.right), layouts, strict=True)
        )
        return PackedProduct(self.op, left, right, self.order)


def is_computed_in(op: ir.Operation) -> bool:
    """True if an operation has static shapes and one element type, f32 or f64, as the kernels of products need."""
    values = *op.operands, *op.results
    return (
        all(v.type.has_static_shape for v in values)
        and {Val(v).dtype for v in values} <= _ELEMENTS.keys()
        and len({Val(v).dtype for v in values}) == 1
    )


def _merged_pairs(left: Sequence[Axis], right: Sequence[Axis]) -> tuple[list[Axis], list[Axis]]:
    """The batch axes of the left and the right factor, where axes that continue each other in both factors are joined.

    Axes of size 1 are left out.
    """
    pairs: list[tuple[Axis, Axis]] = []
    for pair in zip(left, right, strict=True):
        if pair[0].size == 1:
            continue
        if pairs and all(before.stride == axis.size * axis.stride for before, axis in zip(pairs[-1], pair, strict=True)):
            size = pairs[-1][0].size * pair[0].size
            pairs[-1] = pair[0]._replace(size=size), pair[1]._replace(size=size)
        else:
            pairs.append(pair)
    return [a for a, _ in pairs], [b for _, b in pairs]
