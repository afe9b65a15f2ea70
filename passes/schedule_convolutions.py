"""Convolutions whose window is wide and whose result is small, as the gradient of a kernel is."""

from __future__ import annotations

import itertools
import math

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val

# A result of more positions would be more code than it is worth.
_POSITIONS = 64


def split_by_position(op: ir.Operation) -> None:
    """Replaces a convolution by one product for each position of its result, where the window is larger than that.

    Each product contracts a slice of lhs with rhs, over features and window at once. The gradient of a 3x3 kernel, 16
    images of 28x28 with 16 channels: 7150 µs in IREE as a convolution, 500 µs as nine products.
    """
    lhs, rhs, result = Val(op.operands[0]), Val(op.operands[1]), Val(op.results[0])
    attributes = op.attributes
    rank = lhs.rank - 2
    numbers = lambda name, default: list(attributes[name]) if name in attributes else [default] * rank  # noqa: E731
    if not (lhs.static and rhs.static) or len({lhs.dtype, rhs.dtype, result.dtype}) > 1 or rank == 0:
        return
    if any(hlo.I64.decode(attributes[f"{name}_group_count"]) > 1 for name in ("feature", "batch")):
        return
    if any(n > 1 for n in numbers("lhs_dilation", 1)):
        return
    left, right, out = hlo.ConvDims.decode(attributes["dimension_numbers"])
    axes, window_axes, positions = ([dims.index(k) for k in range(rank)] for dims in (left, right, out))
    counts, window = [result.shape[d] for d in positions], [rhs.shape[d] for d in window_axes]
    if not 0 < math.prod(counts) < math.prod(window) or math.prod(counts) > _POSITIONS:
        return
    strides, dilation = numbers("window_strides", 1), numbers("rhs_dilation", 1)
    padding = hlo.Padding.decode(attributes["padding"]) if "padding" in attributes else ((0, 0),) * rank
    turned = hlo.BoolArray.decode(attributes["window_reversal"]) if "window_reversal" in attributes else ()
    with ir.InsertionPoint(op), op.location:
        low, high = [0] * lhs.rank, [0] * lhs.rank
        for axis, (before, after) in zip(axes, padding, strict=True):
            low[axis], high[axis] = before, after
        padded = b.pad(lhs, low, high)
        if any(turned):
            rhs = b.reverse(rhs, [axis for axis, turn in zip(window_axes, turned, strict=True) if turn])
        over = [left.index("f"), *axes], [right.index("i"), *window_axes]
        products = []
        for place in itertools.product(*map(range, counts)):
            start, limit, steps = [0] * lhs.rank, list(padded.shape), [1] * lhs.rank
            for axis, at, n, stride, step in zip(axes, place, window, strides, dilation, strict=True):
                start[axis], limit[axis], steps[axis] = at * stride, at * stride + (n - 1) * step + 1, step
            product = b.dot(b.slice_(padded, start, limit, steps), rhs, over)  # batch x output features
            products.append(b.reshape(product, (1, *product.shape)))
        # (positions, batch, output features) to the order of the result.
        stacked = b.reshape(b.concat(products, 0), (*counts, *products[0].shape[1:]))
        order = [rank if d == "b" else rank + 1 if d == "f" else d for d in out]
        whole = stacked if order == list(range(rank + 2)) else b.transpose(stacked, order)
    op.results[0].replace_all_uses_with(whole.value)
    op.erase()
