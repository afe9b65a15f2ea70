"""Order statistics: quantiles, percentiles and medians, which propagate or ignore NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy.axes import Axis, Shape, axes_of
from nabla_mlir.numpy.factorizations import real_dtype
from nabla_mlir.numpy.indexing import take_along_axis
from nabla_mlir.numpy.operands import convert, inexact, require_real, tensor
from nabla_mlir.numpy.reductions import count, count_nonzero, keep
from nabla_mlir.numpy.running import cumsum
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.numpy.sorting import argsort, sort
from nabla_mlir.numpy.special_values import is_nan
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.gather import along_axis
from nabla_mlir.ops.shape import broadcast_in_dim, reshaped, sliced, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_to, is_scalar
from nabla_mlir.table.tensor import Tensor, full, full_like

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


@library
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Static[Axis] = None,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Tensor:
    """The q-quantile over `axis`; NaN if an element is NaN.

    Args:
      a: an array.
      q: a number in [0, 1], or an array of such numbers, whose axes become the first axes of the result.
      axis: the axes that are reduced.
      method: the value between two neighbours: "linear", "lower", "higher", "midpoint" or "nearest". "inverted_cdf" is the
        smallest element below or at which the share q of all elements, or of their weights, lies.
      keepdims: True leaves the reduced axes with size 1.
      weights: the weight of each element, in the shape of `a` or of the lengths of the axes; only for "inverted_cdf".

    Raises:
      ShapeError: there is no element, a known q is out of range, the method is unknown, or the weights do not fit.

    Example:
      >>> import numpy as np
      >>> quantile(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.75])).tolist()
      [2.0, 3.0]
    """
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


@library
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Static[Axis] = None,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Tensor:
    """The q-quantile of the elements that are not NaN; NaN if there is none. Arguments as for `quantile`.

    Example:
      >>> import numpy as np
      >>> float(nanquantile(np.array([1.0, np.nan, 3.0]), 0.5))
      2.0
    """
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


@library
def percentile(
    a: ArrayLike,
    q: Any,
    axis: Static[Axis] = None,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Tensor:
    """The quantile at q / 100; arguments as for `quantile`.

    Example:
      >>> import numpy as np
      >>> float(percentile(np.array([1.0, 2.0, 4.0]), 75))
      3.0
    """
    return _quantile("percentile", a, q / 100, axis, method, keepdims, False, weights)


@library
def nanpercentile(
    a: ArrayLike,
    q: Any,
    axis: Static[Axis] = None,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Tensor:
    """The quantile at q / 100 of the elements that are not NaN; arguments as for `quantile`."""
    return _quantile("nanpercentile", a, q / 100, axis, method, keepdims, True, weights)


@library
def median(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The middle element over `axis`, or the mean of the two middle elements; complex numbers have the order of NumPy."""
    return _quantile("median", a, 0.5, axis, "linear", keepdims, False)


@library
def nanmedian(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The median of the elements that are not NaN; NaN if there is none."""
    return _quantile("nanmedian", a, 0.5, axis, "linear", keepdims, True)


# ---------------------------------------------------------------- implementation
def _quantile(
    name: str, a: Any, q: Any, axis: Axis, method: str, keepdims: bool, skip: bool, weights: ArrayLike | None = None
) -> Tensor:
    """The quantiles over axes, from sorted rows.

    Args:
      name: the called function, for errors.
      a: the array.
      q: the share, or an array of shares, whose axes are the first of the result.
      axis: the axes; None means all.
      method: what is returned between two elements, such as "linear".
      keepdims: whether the axes stay with length 1.
      skip: whether NaN is ignored.
      weights: the weights of the elements, or None.
    """
    x = inexact(a) if name.endswith("median") else require_real(name, inexact(a))
    axes = axes_of(name, axis, x.ndim)
    n = count(x.shape, axes)
    if not n or (is_scalar(q) and not 0 <= q <= 1) or method not in _METHODS:
        raise ShapeError(
            f"{name} requires elements, 0 <= q <= 1 and a method of {', '.join(_METHODS)}, got shape {x.shape}, "
            f"q = {q} and {method!r}.",
            where=user_frame(),
        )
    rest = tuple(d for d in range(x.ndim) if d not in axes)
    if method == "inverted_cdf":
        return _inverted(x, q, axes, rest, keepdims, skip, _weights(name, x, axes, weights))
    if weights is not None:
        raise ShapeError(f'{name} with weights requires the method "inverted_cdf", got {method!r}.', where=user_frame())
    rows = sort(reshaped(transposed(x, (*rest, *axes)), (*(x.shape[d] for d in rest), n)))  # NaN last
    if is_scalar(q) and not skip:
        out = _unless_nan(reshaped(_between(rows, q * (n - 1), method), rows.shape[:-1]), rows)
        return keep(out, x.shape, axes) if keepdims else out
    real = real_dtype(x.dtype)
    q = full((), q, real) if is_scalar(q) else convert(tensor(q), real)
    positions = broadcast_to(reshaped(q, (q.size,)), (*rows.shape[:-1], q.size))
    if skip:
        numbers = convert(count_nonzero(lg.compare(rows, rows, comparison_direction="EQ"), -1, True), real)
        positions = positions * ew.maximum(numbers - 1.0, full_like(numbers, 0))
    else:
        positions = positions * float(n - 1)
    values = moveaxis(_between(rows, positions, method), -1, 0)
    if not skip:
        values = _unless_nan(values, rows)
    if keepdims:
        return reshaped(values, (*q.shape, *(1 if d in axes else n for d, n in enumerate(x.shape))))
    return reshaped(values, (*q.shape, *rows.shape[:-1]))


def _weights(name: str, x: Tensor, axes: Shape, weights: Any) -> Tensor:
    """The weight of each element of `x`; 1 without weights. Weights may have the shape of `axes` only. `name` is the called
    function.
    """
    if weights is None:
        return full_like(x, 1)
    numbers = convert(require_real(name, inexact(weights)), x.dtype)
    if numbers.shape == x.shape:
        return numbers
    if numbers.shape != tuple(x.shape[d] for d in axes) or len(axes) == x.ndim:
        raise ShapeError(f"{name} requires weights of shape {x.shape} or of the axes, got {numbers.shape}.", where=user_frame())
    numbers = transposed(numbers, tuple(int(d) for d in np.argsort(axes)))
    return broadcast_in_dim(numbers, shape=x.shape, broadcast_dimensions=tuple(sorted(axes)))


def _inverted(x: Tensor, q: Any, axes: Shape, rest: Shape, keepdims: bool, skip: bool, weights: Tensor) -> Tensor:
    """The first element of sorted rows at which the sum of the weights reaches the share q of the total.

    Args:
      x: the array.
      q, keepdims, skip: as in `_quantile`.
      axes, rest: the axes of the quantile, and the others.
      weights: the weight of each element.
    """
    shape = (*(x.shape[d] for d in rest), count(x.shape, axes))
    flat, weights = (reshaped(transposed(v, (*rest, *axes)), shape) for v in (x, weights))
    if skip:
        weights = lg.select(is_nan(flat), full_like(weights, 0), weights)
    order = argsort(stop_gradient(flat))
    rows, sums = along_axis(flat, order, flat.ndim - 1), cumsum(stop_gradient(along_axis(weights, order, flat.ndim - 1)), -1)
    shares = sums / sliced(sums, sums.ndim - 1, shape[-1] - 1, shape[-1])
    # Elements of weight 0 before all others are never the result, not even for q = 0.
    shares = lg.select(lg.compare(shares, full_like(shares, 0), comparison_direction="EQ"), full_like(shares, -1), shares)
    q = full((), q, x.dtype) if is_scalar(q) else convert(tensor(q), x.dtype)
    wanted = reshaped(q, (q.size, *(1,) * rows.ndim))
    positions = count_nonzero(broadcast_to(shares, (q.size, *shares.shape)) < wanted, -1)
    positions = lg.clamp(full((), 0, positions.dtype), positions, full((), shape[-1] - 1, positions.dtype))
    values = moveaxis(take_along_axis(rows, moveaxis(positions, 0, -1), -1, mode="promise_in_bounds"), -1, 0)
    values = values if skip else _unless_nan(values, rows)
    lengths = tuple(1 if d in axes else n for d, n in enumerate(x.shape) if keepdims or d not in axes)
    return reshaped(values, (*q.shape, *lengths))


def _between(rows: Tensor, position: Any, method: str) -> Tensor:
    """Interpolates sorted rows at fractional positions.

    Args:
      rows: the sorted rows.
      position: one known position, or an array with the positions for each row.
      method: the rule between two elements.
    """
    if not isinstance(position, Tensor):
        position = float(round(position)) if method == "nearest" else position
        low, high = math.floor(position), math.ceil(position)
        below, above = (sliced(rows, rows.ndim - 1, k, k + 1) for k in (low, high))
        part: Any = position - low
    else:
        position = ew.round_nearest_even(position) if method == "nearest" else position
        low_position, high_position = ew.floor(position), ew.ceil(position)
        below, above = (
            take_along_axis(rows, convert(k, Defaults.int), -1, mode="promise_in_bounds") for k in (low_position, high_position)
        )
        part = position - low_position
    if method in ("lower", "nearest"):
        return below
    if method == "higher":
        return above
    if method == "midpoint":
        return (below + above) * 0.5
    if not isinstance(part, Tensor):
        return below * (1 - part) + above * part if part else below
    is_whole = lg.compare(part, full_like(part, 0), comparison_direction="EQ")
    part = convert(part, rows.dtype)
    return lg.select(is_whole, below, below * (1.0 - part) + above * part)


def _unless_nan(out: Tensor, rows: Tensor) -> Tensor:
    """The results `out`, or NaN where the last element of the sorted row is NaN; one part of a complex NaN may be a number.

    `rows` are the sorted rows, in which NaN is last.
    """
    last = broadcast_to(reshaped(sliced(rows, rows.ndim - 1, rows.shape[-1] - 1, rows.shape[-1]), rows.shape[:-1]), out.shape)
    absent = stop_gradient(last) if is_complex(out.dtype) else full(out.shape, np.nan, out.dtype)
    return lg.select(is_nan(last), absent, out)
