"""Order statistics: quantiles, percentiles and medians, which propagate or ignore NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy.axes import Axis, axes_of
from nabla_mlir.numpy.factorizations import real_dtype
from nabla_mlir.numpy.indexing import take_along_axis
from nabla_mlir.numpy.operands import convert, inexact, require_real, tensor
from nabla_mlir.numpy.reductions import count, count_nonzero, keep
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.numpy.sorting import sort
from nabla_mlir.numpy.special_values import is_nan
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.shape import reshaped, sliced, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_to, is_scalar
from nabla_mlir.table.tensor import Tensor, full, full_like

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


@library
def quantile(a: ArrayLike, q: ArrayLike, axis: Static[Axis] = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The q-quantile over `axis`; NaN if an element is NaN.

    Args:
      a: an array.
      q: a number in [0, 1], or an array of such numbers, whose axes become the first axes of the result.
      axis: the axes that are reduced.
      method: the value between two neighbours: "linear", "lower", "higher", "midpoint" or "nearest".
      keepdims: True leaves the reduced axes with size 1.

    Raises:
      ShapeError: there is no element, a known q is out of range, or the method is unknown.

    Example:
      >>> import numpy as np
      >>> quantile(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.75])).tolist()
      [2.0, 3.0]
    """
    return _quantile("quantile", a, q, axis, method, keepdims, skip=False)


@library
def nanquantile(a: ArrayLike, q: ArrayLike, axis: Static[Axis] = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The q-quantile of the elements that are not NaN; NaN if there is none. Arguments as for `quantile`.

    Example:
      >>> import numpy as np
      >>> float(nanquantile(np.array([1.0, np.nan, 3.0]), 0.5))
      2.0
    """
    return _quantile("nanquantile", a, q, axis, method, keepdims, skip=True)


@library
def percentile(a: ArrayLike, q: Any, axis: Static[Axis] = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The quantile at q / 100; arguments as for `quantile`.

    Example:
      >>> import numpy as np
      >>> float(percentile(np.array([1.0, 2.0, 4.0]), 75))
      3.0
    """
    return _quantile("percentile", a, q / 100, axis, method, keepdims, skip=False)


@library
def nanpercentile(a: ArrayLike, q: Any, axis: Static[Axis] = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The quantile at q / 100 of the elements that are not NaN; arguments as for `quantile`."""
    return _quantile("nanpercentile", a, q / 100, axis, method, keepdims, skip=True)


@library
def median(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The middle element over `axis`, or the mean of the two middle elements; complex numbers have the order of NumPy."""
    return _quantile("median", a, 0.5, axis, "linear", keepdims, skip=False)


@library
def nanmedian(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The median of the elements that are not NaN; NaN if there is none."""
    return _quantile("nanmedian", a, 0.5, axis, "linear", keepdims, skip=True)


# ---------------------------------------------------------------- implementation
def _quantile(name: str, a: Any, q: Any, axis: Axis, method: str, keepdims: bool, skip: bool) -> Tensor:
    """The quantiles of sorted rows; `skip` ignores NaN."""
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


def _between(rows: Tensor, position: Any, method: str) -> Tensor:
    """Interpolates sorted rows at fractional positions: one known position, or an array of positions."""
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
    whole = lg.compare(part, full_like(part, 0), comparison_direction="EQ")
    part = convert(part, rows.dtype)
    return lg.select(whole, below, below * (1.0 - part) + above * part)


def _unless_nan(out: Tensor, rows: Tensor) -> Tensor:
    """Replaces results by the last element of the sorted row where it is NaN; one part of a complex NaN may be a number."""
    last = broadcast_to(reshaped(sliced(rows, rows.ndim - 1, rows.shape[-1] - 1, rows.shape[-1]), rows.shape[:-1]), out.shape)
    absent = stop_gradient(last) if is_complex(out.dtype) else full(out.shape, np.nan, out.dtype)
    return lg.select(is_nan(last), absent, out)
