"""Products and convolutions as packed products (packed.py): each axis is an axis of rows, columns, terms or batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.stablehlo import ConvDims, DotDims
from nabla_mlir.passes.iree.kernels.layout import Axis
from nabla_mlir.passes.iree.scheduling.packed import Factor, PackedProduct, is_computed_in
from nabla_mlir.passes.iree.scheduling.views import MemoryView, Padding
from nabla_mlir.passes.iree.scheduling.windows import Window, groups_of


def packed_product(op: ir.Operation, vector_bytes: int) -> PackedProduct | None:
    """The description of an operation as a packed product; None if it is no product or convolution, or too small."""
    if op.name == "stablehlo.dot_general" and is_computed_in(op):
        product = _of_product(op)
        least = thresholds.PACKED_PRODUCT_AVX512 if vector_bytes >= 64 else thresholds.PACKED_PRODUCT
    elif op.name == "stablehlo.convolution" and is_computed_in(op):
        product, least = _of_convolution(op), thresholds.PACKED_PRODUCT
    else:
        return None
    return product if product.is_large(least) else None


# ---------------------------------------------------------------- products


def _of_product(op: ir.Operation) -> PackedProduct:
    """The factors of a product, with their axes in the order in which both lie in memory."""
    numbers = DotDims.decode(op.attributes["dot_dimension_numbers"])
    views = [MemoryView.of(x) for x in op.operands]
    batch, terms = ([numbers[f"{side}_{kind}_dimensions"] for side in ("lhs", "rhs")] for kind in ("batching", "contracting"))
    order = _order_of_terms(*([view.axes[n] for n in dims] for view, dims in zip(views, terms, strict=True)))
    factors: list[Factor] = []
    for side, view in enumerate(views):
        inner = [terms[side][n] for n in order]
        free = [n for n in range(len(view.dims)) if n not in (*batch[side], *inner)]
        dims = *batch[side], *free, *inner
        batch_axes, free_axes, term_axes = ([view.axes[n] for n in part] for part in (batch[side], free, inner))
        factors.append(Factor(view, batch_axes, free_axes, term_axes, dims))
    return PackedProduct(op, factors[0], factors[1], range(len(op.results[0].type.shape)))


def _order_of_terms(left: Sequence[Axis], right: Sequence[Axis]) -> list[int]:
    """The order of the summed axes in which vectors of terms are read wherever possible: indices into `left` and `right`.

    It is the order in memory in the left factor; in the right factor if only there an axis has stride 1.

    Args:
      left, right: the summed axes in each factor.
    """
    reference = right if _has_unit(right) and not _has_unit(left) else left
    return sorted(range(len(reference)), key=lambda n: (-abs(reference[n].stride), n))


def _has_unit(axes: Sequence[Axis]) -> bool:
    """True if an axis with several elements has stride 1."""
    return any(axis.stride == 1 and axis.size > 1 for axis in axes)


# ---------------------------------------------------------------- convolutions


def _of_convolution(op: ir.Operation) -> PackedProduct:
    """A convolution as a product of windows of the image (rows: positions) and the kernel (columns: features of the result).

    The sums are over the elements of a window. Groups of features, or of images, are batch axes. If the features are the last
    axis of the result, the kernel is the right factor, else the left one, with the features as rows. In the latter case, the axes
    of the result before the features are batch axes if the axes after the features fill tiles; else the result is transposed.
    """
    window, (by_feature, by_batch) = Window.of(op), groups_of(op)
    image_dims, kernel_dims, result_dims = ConvDims.decode(op.attributes["dimension_numbers"])
    rank, shape = len(result_dims) - 2, dict(zip(result_dims, op.results[0].type.shape, strict=True))
    x = MemoryView.of(op.operands[0], [window.padding[d] if isinstance(d, int) else Padding() for d in image_dims])
    w = MemoryView.of(op.operands[1]).backwards([kernel_dims.index(d) for d in range(rank) if window.reversed_axes[d]])
    image, kernel = dict(zip(image_dims, x.axes, strict=True)), dict(zip(kernel_dims, w.axes, strict=True))
    groups = by_feature * by_batch

    # The group is the slower part of an axis.
    of_group = {
        name: _split(axis, count)
        for name, axis, count in (("b", image["b"], by_batch), ("i", image["f"], by_feature), ("o", kernel["o"], groups))
    }
    group = of_group["b"][0] if by_batch > 1 else of_group["i"][0], of_group["o"][0]
    positions: dict[int | str, Axis] = {d: Axis(shape[d], image[d].stride * window.strides[d]) for d in range(rank)}
    positions["b"] = of_group["b"][1]
    taps = [(Axis(kernel[d].size, image[d].stride * window.dilation[d]), kernel[d]) for d in range(rank)]
    taps.append((of_group["i"][1], kernel["i"]))
    order = _order_of_terms([t[0] for t in taps], [t[1] for t in taps])
    image_terms, weights = [taps[n][0] for n in order], [taps[n][1] for n in order]

    position = result_dims.index("f")
    before, trailing = result_dims[:position], result_dims[position + 1 :]
    is_separate = before and math.prod(positions[d].size for d in trailing) >= thresholds.PACKED_SIDE
    batch = before if trailing and is_separate else ()
    free = [d for d in result_dims if d != "f" and d not in batch]
    windows = Factor(x, [group[0], *(positions[d] for d in batch)], [positions[d] for d in free], image_terms)
    copies = [Axis(positions[d].size, 0) for d in batch]  # stride 0: all positions read the same weights
    features = Factor(w, [group[1], *copies], [of_group["o"][1]], weights)
    names = ("g", *batch, "f", *free) if trailing else ("g", *free, "f")
    left, right = (features, windows) if trailing else (windows, features)
    wanted = [name for d in result_dims for name in (("g", "f") if d == "f" else (d,))]
    return PackedProduct(op, left, right, [names.index(name) for name in wanted])


def _split(axis: Axis, count: int) -> tuple[Axis, Axis]:
    """The axis as two axes: one over `count` groups, and one over the elements of a group."""
    size = axis.size // count
    return Axis(count, axis.stride * size), Axis(size, axis.stride)
