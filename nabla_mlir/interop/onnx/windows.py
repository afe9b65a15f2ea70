"""Operators of ONNX on windows: convolutions and pools. Images are (batch, channels, *spatial)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.reductions import numbers
from nabla_mlir.interop.onnx.table import operator
from nabla_mlir.jax.lax.convolution import conv_general_dilated
from nabla_mlir.numpy.reductions import widened
from nabla_mlir.ops.reduction import identity_of
from nabla_mlir.ops.windows import reduce_window, window_params
from nabla_mlir.table.tensor import Tensor, full

Ends = list[tuple[int, int]]


def ends_of(sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int], pads: Any, auto_pad: str) -> Ends:
    """The padding (low, high) at both ends of each spatial axis, from ONNX's `pads` or `auto_pad`.

    Args:
      sizes: the lengths of the spatial axes.
      spans: the lengths of the windows, with the gaps of dilation.
      strides: the distances between windows.
      pads: the padding at all starts, then at all ends; None for no padding.
      auto_pad: ONNX's attribute.
    """
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        totals = [max((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(sizes, spans, strides, strict=True)]
        halves = [(p // 2, p - p // 2) for p in totals]
        return halves if auto_pad == "SAME_UPPER" else [(high, low) for low, high in halves]
    if auto_pad == "VALID" or not pads:
        return [(0, 0)] * len(sizes)
    return list(zip(pads[: len(sizes)], pads[len(sizes) :], strict=True))


def _dimensions(rank: int) -> tuple[str, str, str]:
    """The dimension numbers of a convolution with `rank` spatial axes, as text for the images, the kernel and the result."""
    axes = "DHW"[3 - rank :] if rank <= 3 else ""
    return f"NC{axes}", f"OI{axes}", f"NC{axes}"


def convolve(
    x: Tensor,
    w: Tensor,
    bias: Any = None,
    *,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Tensor:
    """The convolution y[b, o, p] = bias[o] + Σ x[b, i, s*p + d*q] * w[o, i, q] over the channels i and the offsets q.

    s and d are the strides and dilations. With groups, channels are only combined within their group. `auto_pad` is a rule for
    `pads`.
    """
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    y = conv_general_dilated(
        x,
        w,
        strides,
        ends_of(x.shape[2:], spans, strides, pads, auto_pad),
        rhs_dilation=dilations,
        dimension_numbers=_dimensions(rank),
        feature_group_count=group,
    )
    return y if bias is None else y + bias.reshape(-1, *(1,) * rank)


@operator("Conv")
def _conv(x: Tensor, w: Tensor, bias: Any = None, kernel_shape: Any = None, **attributes: Any) -> Tensor:
    return convolve(x, w, bias, **attributes)


@operator("ConvTranspose")
def _conv_transpose(
    x: Tensor,
    w: Tensor,
    bias: Any = None,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
    output_padding: Any = None,
    output_shape: Any = None,
) -> Tensor:
    """The transposed convolution of x with the kernel w, as a convolution of x with gaps between its elements.

    `strides` are the distances of the elements with gaps. `output_shape`, or `pads` and `output_padding`, determine the size of the
    result. The other parameters are those of a convolution.
    """
    rank = x.ndim - 2
    strides, dilations, extra = strides or [1] * rank, dilations or [1] * rank, output_padding or [0] * rank
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    sizes = [s * (n - 1) + e + span for n, s, e, span in zip(x.shape[2:], strides, extra, spans, strict=True)]
    if output_shape is not None or auto_pad.startswith("SAME"):
        wanted = output_shape or [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
        totals = [size - n for size, n in zip(sizes, wanted[-rank:], strict=True)]
        ends = [(t // 2, t - t // 2) if auto_pad == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]
    else:
        ends = ends_of(x.shape[2:], spans, strides, pads, auto_pad)
    features = w.shape[1]
    groups = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    kernel = nnp.flip(nnp.swapaxes(groups, 1, 2), tuple(range(3, 3 + rank)))
    y = conv_general_dilated(
        x,
        kernel.reshape(group * features, w.shape[0] // group, *w.shape[2:]),
        [1] * rank,
        [(span - 1 - low, span - 1 - high + e) for span, (low, high), e in zip(spans, ends, extra, strict=True)],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=_dimensions(rank),
        feature_group_count=group,
    )
    return y if bias is None else y + bias.reshape(-1, *(1,) * rank)


# ---------------------------------------------------------------- pools


class _Pool:
    """The windows of a pool: lengths, strides, dilations and padding; `ends` also has the padding of an incomplete last window."""

    def __init__(self, x: Tensor, window: Any, strides: Any, pads: Any, dilations: Any, auto_pad: str, ceil_mode: int):
        """Computes the windows on x from the attributes of the operator.

        `window`, `strides` and `dilations` have one number for each spatial axis, `pads` the widths at the starts, then at the
        ends, or `auto_pad` determines them. `ceil_mode` adds padding for a last window that is only partly inside.
        """
        self.rank = rank = x.ndim - 2
        self.sizes, self.window = x.shape[2:], tuple(window)
        self.strides, self.dilations = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
        self.spans = [d * (k - 1) + 1 for k, d in zip(self.window, self.dilations, strict=True)]
        self.pads = ends_of(self.sizes, self.spans, self.strides, pads, auto_pad)
        self.ends = [(low, high + (self._missing(i, low, high) if ceil_mode else 0)) for i, (low, high) in enumerate(self.pads)]

    def _missing(self, axis: int, low: int, high: int) -> int:
        """The additional padding at the end of an axis that makes the last window complete.

        A window that would start in the padding at the end is left out.
        """
        n, span, stride = self.sizes[axis], self.spans[axis], self.strides[axis]
        steps = -(-(n + low + high - span) // stride)
        if steps * stride >= n + low:
            steps -= 1
        return steps * stride + span - n - low - high

    def reduced(self, x: Tensor, body: str) -> Tensor:
        """The elements of each window of `x` reduced by the operation `body`, such as "add" or "max"."""
        params = window_params(
            x.ndim,
            window_dimensions=(1, 1, *self.window),
            window_strides=(1, 1, *self.strides),
            window_dilations=(1, 1, *self.dilations),
            padding=((0, 0), (0, 0), *self.ends),
        )
        return reduce_window(x, full((), identity_of(body, x.dtype), x.dtype), body=body, **params)

    def counts(self, with_pads: int) -> np.ndarray:
        """The number of elements of each window, of the array and, on request, of its padding."""
        result = np.ones(())
        # n: length of the axis; s: stride; d: dilation; low, high: padding; end: padding for the last window.
        for n, span, s, d, (low, high), (_, end) in zip(
            self.sizes, self.spans, self.strides, self.dilations, self.pads, self.ends, strict=True
        ):
            starts = np.arange(-low, n + end - span + 1, s)
            positions = starts[:, None] + np.arange(0, span, d)
            first, last = (-low, n + high) if with_pads else (0, n)
            result = result[..., None] * ((positions >= first) & (positions < last)).sum(1)
        return result

    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """The index of each element of each window in the flattened spatial axes, and a mask that is False for padding."""
        # For each axis, a matrix: the index of each element (columns) of each window (rows).
        axes = [
            np.arange(-low, n + end - span + 1, s)[:, None] + np.arange(0, span, d)
            for n, span, s, d, (low, end) in zip(self.sizes, self.spans, self.strides, self.dilations, self.ends, strict=True)
        ]
        starts = np.stack(np.meshgrid(*(a[:, 0] for a in axes), indexing="ij")).reshape(self.rank, -1, 1)
        inside = np.stack(np.meshgrid(*(a[0] - a[0, 0] for a in axes), indexing="ij")).reshape(self.rank, 1, -1)
        where = starts + inside
        is_inside = np.all((where >= 0) & (where < np.reshape(self.sizes, (-1, 1, 1))), 0)
        return np.where(is_inside, np.ravel_multi_index(tuple(where), self.sizes, mode="clip"), 0), is_inside


@operator("MaxPool")
def _max_pool(
    x: Tensor,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
    *,
    outputs: int,
) -> Any:
    """The largest element of each window of x, and its index in the flattened array if `outputs` is 2.

    The other parameters are the attributes of ONNX's poolings; `storage_order` 1 counts indices column by column.
    """
    pool = _Pool(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    best = pool.reduced(x, "max")
    if outputs == 1:
        return best
    positions, is_inside = pool.positions()
    rows = x.reshape(*x.shape[:2], -1)
    patches = nnp.where(is_inside, nnp.take(rows, positions, 2), nnp.full((), identity_of("max", x.dtype), x.dtype))
    first = nnp.argmax(patches, -1, keepdims=True)
    found = nnp.take_along_axis(nnp.broadcast_to(positions, patches.shape), first, -1)[..., 0].reshape(best.shape)
    if storage_order:
        found = nnp.asarray(_by_columns(pool.sizes))[found]
    # `found` is an index in one image (an entry of the batch and a channel); the result counts from the first element of x.
    image_offsets = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * pool.rank) * int(np.prod(pool.sizes))
    return best, (found + image_offsets).astype(np.int64)


def _by_columns(sizes: Sequence[int]) -> np.ndarray:
    """The index in column order for each index in row order."""
    return np.arange(int(np.prod(sizes))).reshape(sizes, order="F").ravel()


@operator("AveragePool")
def _average_pool(
    x: Tensor,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Tensor:
    """The mean of each window of x; padding counts as elements if `count_include_pad` is set.

    The other parameters are the attributes of ONNX's poolings.
    """
    pool = _Pool(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    total = pool.reduced(widened(x), "add")
    return (total / pool.counts(count_include_pad).astype(total.dtype)).astype(x.dtype)


@operator("LpPool")
def _lp_pool(
    x: Tensor,
    kernel_shape: Any = None,
    p: Any = 2,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Tensor:
    """The p-norm of each window of x; the other parameters are the attributes of ONNX's poolings."""
    pool = _Pool(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return (pool.reduced(widened(nnp.abs(x)) ** p, "add") ** (1 / p)).astype(x.dtype)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def _global_average_pool(x: Tensor) -> Tensor:
    return nnp.mean(x, _spatial(x), keepdims=True)


@operator("GlobalMaxPool")
def _global_max_pool(x: Tensor) -> Tensor:
    return nnp.max(x, _spatial(x), keepdims=True)


@operator("GlobalLpPool")
def _global_lp_pool(x: Tensor, p: Any = 2) -> Tensor:
    return (nnp.sum(widened(nnp.abs(x)) ** p, _spatial(x), keepdims=True) ** (1 / p)).astype(x.dtype)


@operator("MaxUnpool", static=("output_shape",))
def _max_unpool(
    x: Tensor, positions: Tensor, output_shape: Any = None, kernel_shape: Any = None, strides: Any = None, pads: Any = None
) -> Tensor:
    """An array of zeros with the elements of x written to their positions, indices of the flattened result.

    Its shape is `output_shape`, or that from which windows of `kernel_shape` with `strides` and `pads` give the shape of x.
    """
    rank = x.ndim - 2
    strides, pads = strides or [1] * rank, pads or [0] * (2 * rank)
    sizes = [
        s * (n - 1) + k - pads[i] - pads[i + rank]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel_shape, strict=True))
    ]
    shape = (*x.shape[:2], *sizes)
    flat = nnp.zeros(int(np.prod(shape)), dtype=x.dtype).at[positions.reshape(-1)].set(x.reshape(-1)).reshape(shape)
    if output_shape is None:
        return flat
    return nnp.pad(flat, [(0, m - n) for n, m in zip(shape, numbers(output_shape), strict=True)])


@operator("LRN")
def _lrn(x: Tensor, size: int = 1, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """Each element of x divided by (bias + alpha / size * sum of squares over `size` neighbouring channels)**beta."""
    low = (size - 1) // 2
    padded = nnp.pad(x * x, [(0, 0), (low, size - 1 - low), *((0, 0) for _ in x.shape[2:])])
    total = sum(padded[:, i : i + x.shape[1]] for i in range(size))
    return x / (bias + alpha / size * total) ** beta


@operator("Col2Im", static=("image_shape", "block_shape"))
def _col2im(x: Tensor, image_shape: Any, block_shape: Any, strides: Any = None, pads: Any = None, dilations: Any = None) -> Tensor:
    """Images of `image_shape` to which overlapping windows are added at their positions.

    Each column of x has the elements of one window of `block_shape`, for all channels; `strides`, `pads` and `dilations` place the
    windows.
    """
    sizes, block = numbers(image_shape), numbers(block_shape)
    channels = x.shape[1] // int(np.prod(block))
    image = nnp.zeros((1, 1, *sizes), dtype=x.dtype)  # only its shape counts: the pool finds the positions of the windows
    pool = _Pool(image, block, strides, pads, dilations, "NOTSET", 0)
    positions, is_inside = pool.positions()
    parts = nnp.swapaxes(x.reshape(x.shape[0], channels, -1, x.shape[2]), 2, 3)  # (batch, channels, window, element)
    parts = nnp.where(is_inside, parts, nnp.zeros_like(parts)).reshape(*x.shape[:1], channels, -1)
    flat = nnp.zeros((x.shape[0], channels, int(np.prod(sizes))), dtype=x.dtype)
    return flat.at[:, :, positions.ravel()].add(parts).reshape(x.shape[0], channels, *sizes)
