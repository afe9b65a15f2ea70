"""Normalisations over axes."""

from __future__ import annotations

from typing import Any

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import Axis, axes_of
from nabla_mlir.numpy.operands import convert, inexact, tensor
from nabla_mlir.numpy.reductions import spread, wide_mean, widened
from nabla_mlir.numpy.special_values import nan_at_infinity
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def standardize(
    x: ArrayLike,
    axis: Static[Axis] = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: float = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "stable",
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over `axis`; NaN where the variance overflows.

    Args:
      x: an array.
      axis: the axes of mean and variance.
      mean, variance: these, where they are known, with axes that broadcast.
      epsilon: the number that is added to the variance.
      where: truth values; elements where they are False are left out of mean and variance.
      algorithm: "stable" or "fast" of JAX; the variance is always the mean of (x - mean)^2, which does not cancel.

    Raises:
      ShapeError: the algorithm is unknown.
    """
    if algorithm not in ("stable", "fast"):
        raise ShapeError(f"standardize requires the algorithm 'stable' or 'fast', got {algorithm!r}.", where=user_frame())
    x = inexact(x)
    dtype, x = x.dtype, widened(x)
    axes = axes_of("standardize", axis, x.ndim)
    middle = spread(wide_mean(x, axes, where=where), x.shape, axes) if mean is None else tensor(mean)
    deviation = x - middle
    if variance is None:
        power = nan_at_infinity(wide_mean(ew.square(deviation), axes, where=where))
        return convert(deviation * spread(ew.rsqrt(power + epsilon), x.shape, axes), dtype)
    return convert(deviation * ew.rsqrt(convert(tensor(variance), x.dtype) + epsilon), dtype)


@library
def layer_norm(
    x: ArrayLike, scale: ArrayLike | None = None, bias: ArrayLike | None = None, axis: Static[Axis] = -1, epsilon: float = 1e-5
) -> Tensor:
    """standardize(x) * scale + bias; scale and bias broadcast against x."""
    return _affine(standardize(x, axis, epsilon=epsilon), scale, bias)


@library
def rms_norm(x: ArrayLike, scale: ArrayLike | None = None, axis: Static[Axis] = -1, epsilon: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x**2) + epsilon) over `axis`, times scale; NaN where the mean of the squares overflows."""
    x = inexact(x)
    dtype, x = x.dtype, widened(x)
    axes = axes_of("rms_norm", axis, x.ndim)
    power = nan_at_infinity(wide_mean(ew.square(x), axes))
    return _affine(convert(x * spread(ew.rsqrt(power + epsilon), x.shape, axes), dtype), scale, bias=None)


def _affine(x: Tensor, scale: Any, bias: Any) -> Tensor:
    """`x` times `scale` plus `bias`, each of which may be None."""
    x = x if scale is None else x * tensor(scale)
    return x if bias is None else x + tensor(bias)
