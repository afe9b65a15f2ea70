"""Products and convolutions under the names and with the parameters of `jax.lax`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.jax.sharding import check_shardings
from nabla_mlir.numpy.operands import common_dtype, convert, tensor
from nabla_mlir.ops import convolution as cv
from nabla_mlir.ops import windows
from nabla_mlir.ops.contraction import dims
from nabla_mlir.ops.contraction import dot_general as product
from nabla_mlir.ops.shape import reverse
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor

Padding = str | Sequence[tuple[int, int]]
Lengths = Sequence[int] | None


class ConvDimensionNumbers(NamedTuple):
    """The axes of a convolution: (batch, features, *spatial) of the arrays, (outputs, inputs, *spatial) of the kernel."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


# ---------------------------------------------------------------- products
def _pair(name: str, lhs: Any, rhs: Any, result_dtype: Any) -> tuple[Tensor, Tensor, np.dtype]:
    """The two factors of a product in their common dtype, and the dtype of the result, which is the common one unless requested."""
    dtype = common_dtype([lhs, rhs])
    x, y = convert(tensor(lhs), dtype), convert(tensor(rhs), dtype)
    return x, y, dtype if result_dtype is None else as_dtype(result_dtype)


@library
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Static[Any],
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Static[Any] = None,
) -> Tensor:
    """Sums products over pairs of contracting axes. The batch axes are the first axes of the result.

    Args:
      lhs, rhs: the factors.
      dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``.
      precision: has no effect; every product has the precision of its dtype.
      preferred_element_type: the dtype of the result.
      out_sharding: a sharding of the result; with one device it changes nothing.

    Raises:
      ShapeError: paired axes have different lengths.

    Example:
      >>> dot_general(np.ones((2, 3)), np.ones((3, 4)), (((1,), (0,)), ((), ()))).shape
      (2, 4)
    """
    check_shardings("dot_general", out_sharding)
    x, y, dtype = _pair("dot_general", lhs, rhs, preferred_element_type)
    (lc, rc), (lb, rb) = dimension_numbers
    pairs = [*zip(lc, rc, strict=True), *zip(lb, rb, strict=True)]
    if any(x.shape[i] != y.shape[j] for i, j in pairs):
        raise ShapeError(
            f"dot_general requires paired axes of one length, got {x.shape} and {y.shape} for {dimension_numbers}.",
            where=user_frame(),
        )
    lc, lb = ([int(d) % x.ndim for d in axes] for axes in (lc, lb))
    rc, rb = ([int(d) % y.ndim for d in axes] for axes in (rc, rb))
    return product(x, y, dot_dimension_numbers=dims(lc, rc, lb, rb), dtype=dtype)


@library
def dot(
    lhs: Any, rhs: Any, *, dimension_numbers: Static[Any] = None, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The product of vectors and matrices, or the result of `dot_general` if `dimension_numbers` are given."""
    if dimension_numbers is None:
        ranks = np.ndim(lhs), np.ndim(rhs)
        if not all(1 <= n <= 2 for n in ranks):
            raise ShapeError(f"dot requires vectors or matrices, got {ranks[0]} and {ranks[1]} axes.", where=user_frame())
        dimension_numbers = (((ranks[0] - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, None, preferred_element_type)


@library
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Tensor:
    """The matrix products of two stacks of matrices."""
    n = np.ndim(lhs)
    if n < 2 or n != np.ndim(rhs):
        raise ShapeError(f"batch_matmul requires as many axes, at least two, got {n} and {np.ndim(rhs)}.", where=user_frame())
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)))


# ---------------------------------------------------------------- convolutions
def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> ConvDimensionNumbers:
    """The axes of input, kernel and output of a convolution, from three words such as ``("NHWC", "HWIO", "NHWC")``.

    By default, batch and features are the first axes.

    Example:
      >>> conv_dimension_numbers((1, 5, 5, 3), (2, 2, 3, 4), ("NHWC", "HWIO", "NHWC")).rhs_spec
      (3, 2, 0, 1)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    words = tuple(dimension_numbers)
    if all(isinstance(w, (tuple, list)) for w in words):
        return ConvDimensionNumbers(*(tuple(w) for w in words))
    spatial = [c for c in words[1] if c not in "OI"]
    ends = ("NC", "OI", "NC")
    fits = all(len(w) == rank and sorted(w) == sorted([*end, *spatial]) for w, end in zip(words, ends, strict=True))
    if not fits:
        raise ShapeError(
            f"convolution requires words of {rank} letters such as ('NHWC', 'HWIO', 'NHWC'), got {words}.", where=user_frame()
        )
    return ConvDimensionNumbers(*(tuple(w.index(c) for c in (*end, *spatial)) for w, end in zip(words, ends, strict=True)))


def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any, padding: Padding) -> list[tuple[int, int]]:
    """The widths of the padding: for "SAME", "SAME_LOWER" (ceil(n / stride) windows) or "VALID" (no padding).

    If the total width is odd, "SAME" adds the last element at the end, and "SAME_LOWER" at the beginning.

    Raises:
      ShapeError: the padding is unknown.

    Example:
      >>> padtype_to_pads((5,), (2,), (1,), "SAME")
      [(0, 1)]
    """
    if not isinstance(padding, str):
        return [(int(a), int(b)) for a, b in padding]
    word = padding.upper()
    if word == "VALID":
        return [(0, 0)] * len(in_shape)
    if word not in ("SAME", "SAME_LOWER"):
        raise ShapeError(f"padding requires 'SAME', 'SAME_LOWER', 'VALID' or widths, got {padding!r}.", where=user_frame())
    out = []
    for n, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = max((-(-n // stride) - 1) * stride + window - n, 0)
        half = total // 2
        out.append((half, total - half) if word == "SAME" else (total - half, half))
    return out


@library
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Static[Any],
    padding: Static[Any],
    lhs_dilation: Static[Any] = None,
    rhs_dilation: Static[Any] = None,
    dimension_numbers: Static[Any] = None,
    feature_group_count: Static[int] = 1,
    batch_group_count: Static[int] = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """The convolution of machine learning: each element is a sum of products over a window of the spatial axes.

    Args:
      lhs: the input; its axes are batch, features and the spatial axes, unless `dimension_numbers` are given.
      rhs: the kernel; its axes are output features, input features and the spatial axes.
      window_strides: the step of the window along each spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial axis.
      lhs_dilation: the dilation factor of the input: the distance of its elements, between which are zeros.
      rhs_dilation: the dilation factor of the kernel.
      dimension_numbers: three words such as ``("NHWC", "HWIO", "NHWC")``, or a result of `conv_dimension_numbers`.
      feature_group_count: the number of groups of features; each group reads its part of the input features.
      batch_group_count: the number of groups of the batch.
      precision: has no effect; every product has the precision of its dtype.
      preferred_element_type: the dtype of the result.

    Raises:
      ShapeError: the shapes, words and groups do not fit.
    """
    x, w, dtype = _pair("conv_general_dilated", lhs, rhs, preferred_element_type)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    rank = x.ndim - 2
    strides, spread, holes = (tuple(v or (1,) * rank) for v in (window_strides, lhs_dilation, rhs_dilation))
    left, right, _ = numbers
    features = (x.shape[left[1]], w.shape[right[1]] * feature_group_count)
    if (
        w.ndim != x.ndim
        or len(strides) != rank
        or features[0] != features[1]
        or w.shape[right[0]] % (feature_group_count * batch_group_count)
        or x.shape[left[0]] % batch_group_count
    ):
        raise ShapeError(
            f"conv_general_dilated requires a stride for each spatial axis and features that fit, got {x.shape} and {w.shape}, "
            f"strides {strides} and {feature_group_count} and {batch_group_count} groups.",
            where=user_frame(),
        )
    sizes = [windows.spread(x.shape[d], k) for d, k in zip(left[2:], spread, strict=True)]
    window = [windows.spread(w.shape[d], k) for d, k in zip(right[2:], holes, strict=True)]
    return cv.convolution(
        x,
        w,
        dimension_numbers=cv.numbers(*numbers),
        window_strides=strides,
        lhs_dilation=spread,
        rhs_dilation=holes,
        padding=tuple(padtype_to_pads(sizes, window, strides, padding)),
        window_reversal=(False,) * rank,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision_config=None,
        dtype=dtype,
    )


@library
def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Static[Any],
    window_strides: Static[Any],
    padding: Static[Any],
    lhs_dilation: Static[Any] = None,
    rhs_dilation: Static[Any] = None,
    dimension_numbers: Static[Any] = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """The windows of a convolution as features; the order is input feature, then position in the window.

    Args:
      filter_shape: the lengths of the window along the spatial axes. The other arguments are those of `conv_general_dilated`.

    Example:
      >>> conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")[0].tolist()
      [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    """
    x = tensor(lhs)
    window = tuple(filter_shape)
    size = math.prod(window)
    numbers = conv_dimension_numbers(x.shape, (1,) * x.ndim, dimension_numbers)
    features = x.shape[numbers.lhs_spec[1]]
    one = np.tile(np.eye(size).reshape(size, 1, *window), (features, 1, *(1 for _ in window)))
    kernel = np.transpose(one, np.argsort(numbers.rhs_spec)).astype(x.dtype)
    return conv_general_dilated(
        x, kernel, window_strides, padding, lhs_dilation, rhs_dilation, numbers, features, 1, precision, preferred_element_type
    )


def conv(lhs: Any, rhs: Any, window_strides: Any, padding: Any, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """`conv_general_dilated` with batch and features as first axes."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type)


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv_general_dilated` with batch and features as first axes, and with dilations."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, preferred_element_type=preferred_element_type
    )


@library
def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Static[Any],
    padding: Static[Any],
    rhs_dilation: Static[Any] = None,
    dimension_numbers: Static[Any] = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Tensor:
    """The transpose of a strided convolution: the convolution of an input whose elements have the distance `strides`.

    Args:
      lhs, rhs, rhs_dilation, precision, preferred_element_type: as for `conv_general_dilated`.
      strides: the distance of the elements of the input.
      padding: "SAME" (the length is the input length times the stride), "VALID" (all windows), or (low, high) for each
        spatial axis.
      dimension_numbers: as for `conv_general_dilated`; None means that features are the last axis.
      transpose_kernel: True if the kernel is that of the convolution; it is reversed, and its features are exchanged.
      use_consistent_padding: True if given widths are the widths of the convolution.

    Raises:
      ShapeError: the shapes do not fit.
    """
    x, w, dtype = _pair("conv_transpose", lhs, rhs, preferred_element_type)
    rank = x.ndim - 2
    words = {1: ("NHC", "HIO", "NHC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NHWDC", "HWDIO", "NHWDC")}
    if dimension_numbers is None and rank not in words:
        raise ShapeError(f"conv_transpose requires one to three spatial axes, got shape {x.shape}.", where=user_frame())
    numbers = conv_dimension_numbers(x.shape, w.shape, words[rank] if dimension_numbers is None else dimension_numbers)
    holes = tuple(rhs_dilation or (1,) * rank)
    window = [windows.spread(w.shape[d], k) for d, k in zip(numbers.rhs_spec[2:], holes, strict=True)]
    pads = []
    for k, s, d in zip(window, strides, range(rank), strict=True):
        if isinstance(padding, str):
            total = k + s - 2 if padding.upper() == "SAME" else k + s - 2 + max(k - s, 0)
            low = (k - 1 if s > k - 1 else -(-total // 2)) if padding.upper() == "SAME" else k - 1
            if padding.upper() not in ("SAME", "VALID"):
                raise ShapeError(f"conv_transpose requires 'SAME', 'VALID' or widths, got {padding!r}.", where=user_frame())
            pads.append((low, total - low))
        else:
            low, high = padding[d]
            pads.append((k - 1 - low, k - 1 - high) if use_consistent_padding else (low, high))
    if transpose_kernel:
        w = reverse(w, dimensions=tuple(numbers.rhs_spec[2:])) if rank else w
        outs, ins, *spatial = numbers.rhs_spec
        numbers = numbers._replace(rhs_spec=(ins, outs, *spatial))
    return conv_general_dilated(x, w, (1,) * rank, pads, tuple(strides), holes, numbers, preferred_element_type=dtype)
