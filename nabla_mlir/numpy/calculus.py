"""Interpolation, integrals and differences of samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import Axis, axes_of, axis_of
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.joining import concatenate, diff
from nabla_mlir.numpy.logic import clip, where
from nabla_mlir.numpy.operands import convert, inexact, inexacts, tensor
from nabla_mlir.numpy.reductions import sum
from nabla_mlir.numpy.running import cumsum
from nabla_mlir.numpy.shapes import moveaxis, ravel
from nabla_mlir.numpy.sorting import argsort, searchsorted
from nabla_mlir.ops.shape import reshaped, sliced
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import is_scalar
from nabla_mlir.table.tensor import Tensor


@library
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    """Evaluates the piecewise linear function through the points (xp, fp) at each element of `x`.

    Args:
      x: the points at which the function is evaluated.
      xp: the coordinates of the points, an increasing vector.
      fp: the values at the points.
      left, right: the value before the first and after the last point; the default is the value of that point. "extrapolate"
        continues the line through the last two points.
      period: the period of xp and x; xp then need not be sorted.

    Raises:
      ShapeError: xp and fp are not vectors of one length.

    Example:
      >>> interp(np.array([0.5, 3.0]), np.array([0.0, 1.0]), np.array([0.0, 10.0])).tolist()
      [5.0, 10.0]
    """
    xp, fp = inexact(xp), inexact(fp)
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ShapeError(
            f"interp requires points as vectors of one length, got shapes {xp.shape} and {fp.shape}.", where=user_frame()
        )
    inside = partial(take, mode="promise_in_bounds")
    shape = tensor(x).shape
    x = inexact(x)
    dtype = np.result_type(x.dtype, xp.dtype)
    x, xp = convert(x, dtype), convert(xp, dtype)
    if period is not None:
        x, xp = x % period, xp % period
        order = argsort(xp)
        xp, fp = inside(xp, order), inside(fp, order)
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    if n == 1:
        return where(x == x, fp[0], x)
    after = clip(searchsorted(xp, reshaped(x, (x.size,)), "right"), 1, n - 1)
    after = reshaped(after, shape)
    low, high = inside(fp, after - 1), inside(fp, after)
    start, width = inside(xp, after - 1), inside(xp, after) - inside(xp, after - 1)
    is_step = width == 0
    out = where(is_step, low, low + (x - start) / where(is_step, 1.0, width) * (high - low))
    if period is not None:
        return out
    if not isinstance(left, str):
        out = where(x < xp[0], fp[0] if left is None else left, out)
    if not isinstance(right, str):
        out = where(x > xp[-1], fp[-1] if right is None else right, out)
    return out


@library
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: Static[int] = -1) -> Tensor:
    """The integral of samples by the trapezoidal rule.

    Args:
      y: the samples.
      x: the coordinates of the samples; by default they have the distance `dx`.
      dx: the distance of neighbouring samples: a number, or an array that broadcasts to the distances.
      axis: the axis of the samples.

    Example:
      >>> float(trapezoid(np.array([1.0, 2.0, 3.0]), dx=2.0))
      8.0
    """
    if x is None and np.ndim(dx):
        y, at = inexact(y), axis_of("trapezoid", axis, np.ndim(y))
        high, low = (moveaxis(moveaxis(y, at, 0)[part], 0, at) for part in (slice(1, None), slice(-1)))
        return sum((high + low) * dx, at) * 0.5
    if x is None:
        rows, step = moveaxis(inexact(y), axis, -1), dx
    else:
        y, x = inexact(y), inexact(x)
        step = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
        rows = moveaxis(y, axis_of("trapezoid", axis, y.ndim), -1)
    return sum((rows[..., 1:] + rows[..., :-1]) * step, -1) * 0.5


@library
def gradient(f: Any, *varargs: Any, axis: Static[Axis] = None, edge_order: int | None = None) -> Any:
    """The slopes of samples: central differences inside, and one-sided differences at the ends.

    Args:
      f: the samples.
      *varargs: one distance for all axes, or for each axis a distance or a vector of coordinates.
      axis: the axes of the slopes; None means all.
      edge_order: None or 1: the order of the differences at the ends.

    Returns:
      An array for one axis, a list for several.

    Raises:
      ShapeError: an axis has fewer than two samples, or the distances do not fit.

    Example:
      >>> gradient(np.array([1.0, 4.0, 9.0])).tolist()
      [3.0, 4.0, 5.0]
    """
    y = inexact(f)
    axes = axes_of("gradient", axis, y.ndim)
    steps: Sequence[Any] = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(steps) != len(axes) or edge_order not in (None, 1) or min(y.shape[d] for d in axes) < 2:
        raise ShapeError(
            f"gradient requires at least two samples along each axis, one distance for each of {len(axes)} axes and edge_order 1, "
            f"got shape {y.shape}, {len(steps)} distances and {edge_order}.",
            where=user_frame(),
        )
    slopes = [_slope(y, d, h) for d, h in zip(axes, steps, strict=True)]
    return slopes if len(slopes) > 1 else slopes[0]


def _slope(y: Tensor, axis: int, step: Any) -> Tensor:
    """The slopes of the samples `y` along one axis; `step` is the distance of the samples, or the vector of their coordinates.

    For different distances, an inner slope is the mean of the slopes on both sides, each weighted with the distance on the other
    side.
    """
    n = y.shape[axis]
    part = lambda a, b: sliced(y, axis, a, b)  # noqa: E731
    if is_scalar(step) or not np.ndim(step):
        first, last = (part(1, 2) - part(0, 1)) / step, (part(n - 1, n) - part(n - 2, n - 1)) / step
        inner = [(part(2, n) - part(0, n - 2)) / (2.0 * step)] if n > 2 else []
        return concatenate([first, *inner, last], axis)
    shape = tuple(n - 1 if d == axis else 1 for d in range(y.ndim))
    gaps = reshaped(convert(diff(tensor(step)), y.dtype), shape)
    slopes = (part(1, n) - part(0, n - 1)) / gaps
    # The slope and the distance before each inner sample, and those after it.
    (low, before), (high, after) = ([sliced(v, axis, k, n - 2 + k) for v in (slopes, gaps)] for k in (0, 1))
    inner = [(low * after + high * before) / (before + after)] if n > 2 else []
    return concatenate([sliced(slopes, axis, 0, 1), *inner, sliced(slopes, axis, n - 2, n - 1)], axis)


@library
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """The differences between neighbours of the flattened array, with `to_begin` before and `to_end` after them."""
    x = ravel(ary)
    parts = [ravel(e) for e in (to_begin,) if e is not None] + [diff(x)] + [ravel(e) for e in (to_end,) if e is not None]
    return concatenate([convert(p, x.dtype) for p in parts])


@library
def unwrap(p: ArrayLike, discont: Any = None, axis: Static[int] = -1, period: Any = 2 * np.pi) -> Tensor:
    """Adds multiples of the period to angles where a step is larger than half a period (or than `discont`)."""
    (p,) = inexacts("unwrap", p)
    axis = axis_of("unwrap", axis, p.ndim)
    steps = diff(p, axis=axis)
    half = period / 2
    wrap = (steps + half) % period - half
    wrap = where((wrap == -half) & (steps > 0), half, wrap)
    excess = wrap - steps
    size = where(steps < 0, -steps, steps)
    excess = where(size < (half if discont is None else discont), 0.0, excess)
    return concatenate([sliced(p, axis, 0, 1), sliced(p, axis, 1, p.shape[axis]) + cumsum(excess, axis)], axis)
