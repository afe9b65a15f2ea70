"""Convolutions that IREE does slowly, as products: wide windows, one spatial axis, one input channel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val

# A result of more positions would be more code than it is worth.
_POSITIONS = 64
# Features, in and out, from which on IREE 3.13 refuses the sizes of workgroups that it takes by itself.
_WIDE = 64


def is_split(positions: int, window: int) -> bool:
    """Whether `split_by_position` applies, by the positions of the result and the elements of the window."""
    return 0 < positions < window and positions <= _POSITIONS


def is_wide(op: ir.Operation) -> bool:
    """Whether an operation is a convolution of many features to many."""
    if op.name != "stablehlo.convolution":
        return False
    _, kernel, _ = hlo.ConvDims.decode(op.attributes["dimension_numbers"])
    sizes = Val(op.operands[1]).shape
    return min(sizes[kernel.index("i")], sizes[kernel.index("o")]) >= _WIDE


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
    if not is_split(math.prod(counts), math.prod(window)):
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
            product = _product(b.slice_(padded, start, limit, steps), rhs, over)  # batch x output features
            products.append(b.reshape(product, (1, *product.shape)))
        # (positions, batch, output features) to the order of the result.
        stacked = b.reshape(b.concat(products, 0), (*counts, *products[0].shape[1:]))
        order = [rank if d == "b" else rank + 1 if d == "f" else d for d in out]
        whole = stacked if order == list(range(rank + 2)) else b.transpose(stacked, order)
    op.results[0].replace_all_uses_with(whole.value)
    op.erase()


def _product(lhs: Val, rhs: Val, over: tuple[list[int], list[int]]) -> Val:
    """The product over some dimensions; of matrices, where those come first in both factors."""
    leading = list(range(lhs.rank - 1))
    if over != (leading, leading):
        return b.dot(lhs, rhs, over)
    rows = math.prod(lhs.shape[:-1])
    return b.dot(b.reshape(lhs, (rows, lhs.shape[-1])), b.reshape(rhs, (rows, rhs.shape[-1])), ([0], [0]))


# Slices of more window positions, or of more elements, would cost more than they are worth.
_WINDOW = 64
_PATCHES = 1 << 24


def gather_patches(op: ir.Operation) -> None:
    """Replaces a convolution along one axis, or of one channel, by one product of all patches with the kernel.

    16 signals of 64 with 24 channels, 5x24x16: 570 µs in IREE as a convolution, 41 µs as a product; 8 images of 28x28
    with one channel, 5x5x1x6: 507 and 111. With more axes and channels the convolution is faster.
    """
    lhs, rhs, result = Val(op.operands[0]), Val(op.operands[1]), Val(op.results[0])
    rank = lhs.rank - 2
    if not (lhs.static and rhs.static) or lhs.dtype not in (np.float32, np.float64) or rank == 0:
        return
    if {rhs.dtype, result.dtype} != {lhs.dtype}:
        return
    if any(hlo.I64.decode(op.attributes[f"{name}_group_count"]) > 1 for name in ("feature", "batch")):
        return
    left, right, out = hlo.ConvDims.decode(op.attributes["dimension_numbers"])
    window = [rhs.shape[right.index(k)] for k in range(rank)]
    counts = [result.shape[out.index(k)] for k in range(rank)]
    channels, batch = lhs.shape[left.index("f")], lhs.shape[left.index("b")]
    if (rank > 1 and channels > 1) or not 1 < math.prod(window) <= _WINDOW:
        return
    if batch * math.prod(counts) * math.prod(window) * channels > _PATCHES:
        return
    place = _Window.of(op, rank)
    with ir.InsertionPoint(op), op.location:
        x = _ordered(lhs, left, ["b", *range(rank), "f"])
        kernel = _ordered(rhs, right, [*range(rank), "i", "o"])
        if turned := [k for k in range(rank) if place.turned[k]]:
            kernel = b.reverse(kernel, turned)
        low, high = ([0, *(p[side] for p in place.padding), 0] for side in (0, 1))
        x = b.pad(x, low, high, [0, *(n - 1 for n in place.lhs_dilation), 0])
        patches = b.concat([place.view(x, offset, counts) for offset in itertools.product(*map(range, window))], rank + 1)
        rows = b.reshape(patches, (batch * math.prod(counts), math.prod(window) * channels))
        product = b.dot(rows, b.reshape(kernel, (rows.shape[1], kernel.shape[-1])), ([1], [0]))
        whole = b.reshape(product, (batch, *counts, kernel.shape[-1]))
        order = [0 if d == "b" else rank + 1 if d == "f" else d + 1 for d in out]
        whole = whole if order == list(range(rank + 2)) else b.transpose(whole, order)
    op.results[0].replace_all_uses_with(whole.value)
    op.erase()


def _ordered(x: Val, dims: Sequence[str | int], wanted: Sequence[str | int]) -> Val:
    order = [list(dims).index(d) for d in wanted]
    return x if order == list(range(x.rank)) else b.transpose(x, order)


@dataclass(frozen=True)
class _Window:
    """How a window moves, for each spatial axis."""

    strides: Sequence[int]
    lhs_dilation: Sequence[int]
    rhs_dilation: Sequence[int]
    padding: Sequence[tuple[int, int]]
    turned: Sequence[bool]

    @staticmethod
    def of(op: ir.Operation, rank: int) -> _Window:
        given = op.attributes
        ones = lambda name: list(given[name]) if name in given else [1] * rank  # noqa: E731
        padding = hlo.Padding.decode(given["padding"]) if "padding" in given else ((0, 0),) * rank
        turned = hlo.BoolArray.decode(given["window_reversal"]) if "window_reversal" in given else (False,) * rank
        return _Window(ones("window_strides"), ones("lhs_dilation"), ones("rhs_dilation"), padding, turned)

    def view(self, x: Val, offset: Sequence[int], counts: Sequence[int]) -> Val:
        """What one element of the window sees of (batch, *spatial, channels), at all positions."""
        start = [at * step for at, step in zip(offset, self.rhs_dilation, strict=True)]
        limit = [s + (n - 1) * stride + 1 for s, n, stride in zip(start, counts, self.strides, strict=True)]
        return b.slice_(x, [0, *start, 0], [x.shape[0], *limit, x.shape[-1]], [1, *self.strides, 1])
