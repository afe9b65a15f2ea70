"""Covariances, histograms and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype, is_complex
from nabla_mlir.numpy.axes import dynamic_shape
from nabla_mlir.numpy.creation import diag, linspace
from nabla_mlir.numpy.extrema import max, min
from nabla_mlir.numpy.joining import concatenate, diff
from nabla_mlir.numpy.logic import clip, logical_and, where
from nabla_mlir.numpy.operands import convert, inexact, inexacts, require_integer, require_real, tensor
from nabla_mlir.numpy.products import matmul, outer
from nabla_mlir.numpy.reductions import average, sum, widened
from nabla_mlir.numpy.segments import segment_sum
from nabla_mlir.numpy.shapes import atleast_2d, matrix_transpose, ravel
from nabla_mlir.numpy.sorting import searchsorted
from nabla_mlir.numpy.ufuncs import conj, real, sqrt
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor, full


# ---------------------------------------------------------------- covariances
@library
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Static[int | None] = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """The covariance of variables, ``(x - mean(x)) (x - mean(x))^H / (n - ddof)``; each row of x is a variable.

    Args:
      m: a matrix with a variable in each row, or one variable.
      y: more variables.
      rowvar: False means that variables are columns.
      bias: True divides by n instead of n - 1.
      ddof: the number that is subtracted from n; it overrides `bias`.
      fweights: the integer number of repetitions of each observation.
      aweights: the weight of each observation.
      dtype: the dtype of the computation.

    Raises:
      ShapeError: an argument has more than two axes.

    Example:
      >>> np.asarray(cov(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))).tolist()
      [[1.0, -1.0], [-1.0, 1.0]]
    """
    x = _observations(m, y, rowvar, dtype)
    return convert(_wide_covariance(x, bias, ddof, fweights, aweights), x.dtype)


def _wide_covariance(x: Tensor, bias: bool, ddof: int | None, fweights: Any, aweights: Any) -> Tensor:
    """The covariance of the rows of `x` in the dtype of its sums.

    `fweights` are the numbers of repetitions of the observations, and `aweights` are their weights.
    """
    x = widened(x)
    weights = None if fweights is None else ravel(fweights)
    if aweights is not None:
        weights = ravel(aweights) if weights is None else weights * ravel(aweights)
    less = ddof if ddof is not None else 0 if bias else 1
    if weights is None:
        centre = x - average(x, 1, keepdims=True)
        out = matmul(centre, conj(matrix_transpose(centre))) / float(x.shape[1] - less if x.shape[1] else np.nan)
    else:
        weights = convert(tensor(weights), _real(x))
        centre = x - average(x, 1, weights, keepdims=True)
        total_weight = sum(weights)
        rest = (
            total_weight - less
            if aweights is None or not less
            else total_weight - less * sum(weights * tensor(aweights)) / total_weight
        )
        out = matmul(centre * weights, conj(matrix_transpose(centre))) / rest
    return reshaped(out, ()) if out.size == 1 else out


def _observations(m: Any, y: Any, rowvar: bool, dtype: Any) -> Tensor:
    """The variables of `m` and `y` as the rows of one matrix of `dtype`; `rowvar` says that they are rows there."""
    x = _variables(inexact(m), rowvar)
    x = x if y is None else concatenate([x, _variables(inexact(y), rowvar)])
    if dtype is not None and as_dtype(dtype).kind not in "fcV":
        raise DtypeError(f"cov requires a float or complex dtype, got {as_dtype(dtype)}.", where=user_frame())
    return x if dtype is None else convert(x, dtype)


def _variables(x: Tensor, rowvar: bool) -> Tensor:
    """The variables of `x` as rows, which are columns there unless `rowvar`; raises ShapeError for more than two axes."""
    if x.ndim > 2:
        raise ShapeError(f"cov requires at most two axes, got shape {x.shape}.", where=user_frame())
    x = x if x.ndim == 2 else atleast_2d(x)
    return x if rowvar or x.shape[0] == 1 else matrix_transpose(x)


def _real(x: Tensor) -> np.dtype:
    """The dtype of the real part."""
    return np.zeros((), x.dtype).real.dtype


@library
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Tensor:
    """The correlation coefficients: the covariances divided by the standard deviations of both variables.

    Example:
      >>> np.asarray(corrcoef(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))).round(6).tolist()
      [[1.0, -1.0], [-1.0, 1.0]]
    """
    variables = _observations(x, y, rowvar, dtype)
    return convert(_normalized(_wide_covariance(variables, False, None, None, None)), variables.dtype)


def _normalized(c: Tensor) -> Tensor:
    """The covariances `c` divided by the standard deviations of both variables: correlations, clipped to [-1, 1]."""
    if not c.ndim:
        return c / c
    deviation = sqrt(real(diag(c)))
    c = c / convert(outer(deviation, deviation), c.dtype)
    if is_complex(c.dtype):
        return ew.make_complex(clip(ew.real(c), -1.0, 1.0), clip(ew.imag(c), -1.0, 1.0))
    return clip(c, -1.0, 1.0)


# ---------------------------------------------------------------- counts
def bincount(x: ArrayLike, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """The count of each of the integers 0, 1, ... in a vector, or the sum of its weights.

    Args:
      x: integers; negative ones count as 0, as in JAX.
      weights: the weight of each element.
      minlength: the smallest length of the result.
      length: the length of the result; required in traces. Larger numbers are left out.

    Raises:
      TraceError: `x` is traced and `length` is missing.
      DtypeError: `x` does not have an integer dtype.

    Example:
      >>> bincount(np.array([0, 2, 2])).tolist()
      [1, 0, 2]
    """
    if length is None:
        if isinstance(x, Tensor):
            dynamic_shape("bincount", "pass length=, the length of the result.")
        numbers = np.asarray(x)
        length = int(np.max([minlength, 1 + (int(numbers.max()) if numbers.size else -1)]))
    return _bincount(x, weights, length)


@library
def _bincount(x: Any, weights: Any, length: Static[int]) -> Tensor:
    """The count of each integer below `length` in `x`, or the sum of the weights at its positions."""
    positions = require_integer("bincount", tensor(x))
    if positions.ndim != 1:
        raise ShapeError(f"bincount requires a vector, got shape {positions.shape}.", where=user_frame())
    values = full(positions.shape, 1, Defaults.int) if weights is None else tensor(weights)
    return segment_sum(values, clip(positions, 0, None), length)


@library
def digitize(x: ArrayLike, bins: Any, right: bool = False, *, method: str | None = None) -> Tensor:
    """The index of the bin of each element: i with ``bins[i-1] <= x < bins[i]``, or ``<`` and ``<=`` if `right`.

    For decreasing bins, i has ``bins[i-1] > x >= bins[i]``, or ``>=`` and ``>``; `method` is that of `searchsorted`.

    Example:
      >>> digitize(np.array([0.5, 1.0, 2.5]), np.array([0.0, 1.0, 2.0])).tolist()
      [1, 2, 3]
    """
    edges = tensor(bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize requires a vector of bins, got shape {edges.shape}.", where=user_frame())
    side = "left" if right else "right"
    rising = searchsorted(edges, x, side, method=method)
    if edges.shape[0] < 2:
        return rising
    falling = edges.shape[0] - searchsorted(edges[::-1], x, side, method=method)
    return where(edges[-1] >= edges[0], rising, falling)


# ---------------------------------------------------------------- histograms
@library
def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Static[Any] = None, weights: ArrayLike | None = None) -> Tensor:
    """The edges of the bins of a histogram: `bins` equal bins from the smallest to the largest element, or the given edges.

    Args:
      a: an array.
      bins: the number of bins, or the edges.
      range: the first and the last edge.
      weights: has no effect.

    Example:
      >>> histogram_bin_edges(np.array([0.0, 4.0]), 2).tolist()
      [0.0, 2.0, 4.0]
    """
    if isinstance(bins, str):
        raise DtypeError(
            f"histogram_bin_edges requires a number of bins or their edges, got {bins!r}.",
            where=user_frame(),
            help="NumPy chooses a number: pass len(numpy.histogram_bin_edges(a, bins)) - 1.",
        )
    if np.ndim(bins) == 1:
        return tensor(bins)
    x = inexact(a)
    low, high = (min(x), max(x)) if range is None else (tensor(r) for r in range)
    low, high = inexacts("histogram", low, high)
    flat = low == high
    return linspace(where(flat, low - 0.5, low), where(flat, high + 0.5, high), int(bins) + 1, dtype=x.dtype)


@library
def histogram(
    a: ArrayLike, bins: Any = 10, range: Static[Any] = None, weights: ArrayLike | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """The counts of elements in bins, and the edges of the bins. The last bin includes its upper edge.

    Args:
      a: an array.
      bins, range: as for `histogram_bin_edges`.
      weights: the weight of each element, in the shape of `a`.
      density: True divides by the total and by the widths, so that the integral is 1.

    Example:
      >>> counts, edges = histogram(np.array([0.0, 1.0, 1.0, 4.0]), 2)
      >>> counts.tolist(), edges.tolist()
      ([3.0, 1.0], [0.0, 2.0, 4.0])
    """
    weights = None if weights is None else reshaped(tensor(weights), (tensor(weights).size,))
    counts, edges = histogramdd(
        reshaped(tensor(a), (tensor(a).size, 1)),
        [bins] if np.ndim(bins) == 1 else bins,
        None if range is None else [range],
        weights,
        density,
    )
    return counts, edges[0]


@library
def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Static[Any] = None, weights: ArrayLike | None = None, density: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The histogram of pairs, and the edges along both axes; arguments as for `histogram`, for each axis or for both."""
    sample = concatenate([reshaped(tensor(v), (tensor(v).size, 1)) for v in (x, y)], 1)
    bins = [bins, bins] if np.ndim(bins) == 1 and len(bins) != 2 else bins
    counts, (first, second) = histogramdd(sample, bins, range, weights, density)
    return counts, first, second


@library
def histogramdd(
    sample: ArrayLike, bins: Any = 10, range: Static[Any] = None, weights: ArrayLike | None = None, density: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """The histogram of the rows of `sample` as points, and the edges along each axis; arguments as for `histogram`."""
    points = require_real("histogram", inexact(sample))
    if points.ndim != 2:
        raise ShapeError(f"histogramdd requires a matrix with a point in each row, got shape {points.shape}.", where=user_frame())
    n, axes = points.shape
    bins_of_axes = list(bins) if isinstance(bins, (list, tuple)) else [bins] * axes
    if len(bins_of_axes) != axes or (range is not None and len(range) != axes):
        raise ShapeError(f"histogramdd requires bins and range for {axes} axes, got {len(bins_of_axes)} bins.", where=user_frame())
    edges, position, inside = [], full((n,), 0, Defaults.int), full((n,), True, np.dtype(bool))
    for d, axis_bins in enumerate(bins_of_axes):
        column = points[:, d]
        lines = histogram_bin_edges(column, axis_bins, None if range is None else range[d])
        k = lines.shape[0] - 1
        bin_index = searchsorted(lines, column, "right") - 1
        bin_index = where(column == lines[-1], k - 1, bin_index)
        inside = logical_and(inside, logical_and(column >= lines[0], column <= lines[-1]))
        # The flat index of the bin of each point, in row-major order.
        position = position * k + bin_index
        edges.append(lines)
    shape = tuple(lines.shape[0] - 1 for lines in edges)
    values = full((n,), 1, points.dtype) if weights is None else inexact(weights)
    counts = segment_sum(where(inside, values, 0), where(inside, position, 0), int(np.prod(shape)))
    counts = reshaped(counts, shape)
    if density:
        counts = counts / sum(counts)
        for d, lines in enumerate(edges):
            counts = counts / reshaped(convert(diff(lines), counts.dtype), tuple(n if i == d else 1 for i, n in enumerate(shape)))
    return counts, edges
