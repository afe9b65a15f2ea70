"""Sums of products: products of arrays and convolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nabla_mlir.interpreter.evaluations import evaluation
from nabla_mlir.interpreter.shape import pad

Shape = tuple[int, ...]


def _accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which products are summed: f32 for narrow floats."""
    return np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize < 4 else dtype


@evaluation("stablehlo.dot_general")
def dot_general(x: np.ndarray, y: np.ndarray, dot_dimension_numbers: Mapping[str, Shape], dtype: np.dtype, **_: Any) -> np.ndarray:
    """The product of two arrays by StableHLO's dimension numbers; its axes are the batch axes, the free axes of x, and the free
    axes of y.

    `dot_dimension_numbers` maps StableHLO's names, such as "lhs_contracting_dimensions", to axes.
    """
    wide = _accumulator(dtype)
    sides = []
    for a, side in ((x, "lhs"), (y, "rhs")):
        batch, terms = (dot_dimension_numbers[f"{side}_{kind}_dimensions"] for kind in ("batching", "contracting"))
        free = [d for d in range(a.ndim) if d not in {*batch, *terms}]
        sides.append((a.astype(wide, copy=False), list(batch), free, list(terms)))
    (x, x_batch, x_free, x_terms), (y, y_batch, y_free, y_terms) = sides
    batch_shape = tuple(x.shape[d] for d in x_batch)
    x_shape, y_shape = tuple(x.shape[d] for d in x_free), tuple(y.shape[d] for d in y_free)
    terms_count = math.prod(x.shape[d] for d in x_terms)
    left = x.transpose(x_batch + x_free + x_terms).reshape(*batch_shape, math.prod(x_shape), terms_count)
    right = y.transpose(y_batch + y_terms + y_free).reshape(*batch_shape, terms_count, math.prod(y_shape))
    return (left @ right).reshape(batch_shape + x_shape + y_shape).astype(dtype)


@evaluation("stablehlo.convolution")
def convolution(
    x: np.ndarray,
    w: np.ndarray,
    dimension_numbers: Any,
    window_strides: Shape,
    padding: Sequence[Shape],
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    window_reversal: Sequence[bool],
    feature_group_count: int,
    batch_group_count: int,
    dtype: np.dtype,
    **_: Any,
) -> np.ndarray:
    """The convolution of the image x with the kernel w, separately for each group; the parameters are StableHLO's.

    `dimension_numbers` has for image, kernel and result a tuple that names each axis: "b", "f", "o", "i" or the number of a spatial
    axis.
    """
    image, kernel, result = dimension_numbers
    rank = len(window_strides)
    x = x.transpose([image.index(k) for k in ("b", "f", *range(rank))]).astype(_accumulator(dtype), copy=False)
    w = w.transpose([kernel.index(k) for k in ("o", "i", *range(rank))]).astype(_accumulator(dtype), copy=False)
    zero = np.zeros((), x.dtype)
    gaps = [d - 1 for d in lhs_dilation]
    low, high = ([p[i] for p in padding] for i in (0, 1))
    x = pad(x, zero, [0, 0, *low], [0, 0, *high], [0, 0, *gaps])
    w = np.flip(w, tuple(2 + d for d in range(rank) if window_reversal[d]))
    groups = max(feature_group_count, batch_group_count)
    images = np.split(x, groups, axis=0 if batch_group_count > 1 else 1)
    kernels = np.split(w, groups, axis=0)
    outs = [_one_group(a, b, window_strides, rhs_dilation) for a, b in zip(images, kernels, strict=True)]
    out = np.concatenate(outs, axis=1)
    order = ("b", "f", *range(rank))
    return out.transpose([order.index(k) for k in result]).astype(dtype)


def _one_group(x: np.ndarray, w: np.ndarray, strides: Shape, dilation: Shape) -> np.ndarray:
    """The convolution of images [batch, features, ...] with kernels [results, features, ...] of one group."""
    windows = windows_of(x, (1, 1, *w.shape[2:]), (1, 1, *strides), (1, 1, *dilation))
    rank = len(strides)
    # The axes are now: batch, features, positions of windows, 1, 1, axes inside a window. The two axes of length 1 are removed.
    windows = windows.reshape(windows.shape[: 2 + rank] + w.shape[2:])
    out = np.tensordot(windows, w, axes=([1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)]))
    return np.moveaxis(out, -1, 1)


def windows_of(x: np.ndarray, sizes: Shape, strides: Shape, dilation: Shape) -> np.ndarray:
    """All windows of an array as a view; its first axes are the positions of the windows, and its last axes lie inside a window.

    `sizes`, `strides` and `dilation` have one number for each axis of the array.

    Example: [1, 2, 3] with size 2, stride 1 and dilation 1 gives [[1, 2], [2, 3]].
    """
    spans = tuple((n - 1) * d + 1 if n else 0 for n, d in zip(sizes, dilation, strict=True))
    counts = [max((n - span) // s + 1, 0) for n, span, s in zip(x.shape, spans, strides, strict=True)]
    if not math.prod(counts) or not math.prod(sizes):
        return np.zeros((*counts, *sizes), x.dtype)
    view = np.lib.stride_tricks.sliding_window_view(x, spans)
    positions = tuple(slice(None, None, s) for s in strides)
    return view[(*positions, *(slice(None, None, d) for d in dilation))]
