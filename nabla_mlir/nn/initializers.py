"""Initial weights: functions that make an initializer, which is called with a key, a shape and a dtype, as in JAX.

Where a scale depends on how many numbers a layer takes in and gives, axes say which those are: of a shape (..., in, out) all
axes in front belong to the window of a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir import random
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy import creation
from nabla_mlir.numpy.axes import axes_of, axis_of, shape_of
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.numpy.ufuncs import cos, log1p, sin, sqrt
from nabla_mlir.numpy.updates import IndexUpdate
from nabla_mlir.random.arguments import float_dtype

Initializer = Callable[..., Any]  # (key, shape, dtype) -> an array
_MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")
_TRUNCATED = 0.87962566103423978  # the deviation of a normal number between -2 and 2
_TRUNCATED_DISK = 0.95311164380491208  # the deviation of a complex normal number of modulus up to 2


def zeros(key: ArrayLike, shape: Any, dtype: Any = None) -> Any:
    """An initializer: zeros. The key is not used."""
    return creation.zeros(shape, dtype)


def ones(key: ArrayLike, shape: Any, dtype: Any = None) -> Any:
    """An initializer: ones. The key is not used."""
    return creation.ones(shape, dtype)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """The initializer that puts a value everywhere.

    Args:
      value: a number, or an array that broadcasts to the shape.
      dtype: of the result if the call names none.

    Example:
      >>> constant(0.5)(None, (2,)).tolist()
      [0.5, 0.5]
    """
    default_dtype = dtype

    def init(key: Any, shape: Any, dtype: Any = default_dtype) -> Any:
        """An array filled with the value."""
        return creation.full(shape, value, float_dtype("constant", dtype, complex=True))

    return init


def _scaled(draw: Callable[..., Any], scale: Any, default_dtype: Any) -> Initializer:
    """An initializer that multiplies random numbers by `scale`; `draw` makes them from a key, a shape and a dtype."""

    def init(key: Any, shape: Any, dtype: Any = default_dtype) -> Any:
        """Random weights, multiplied by the scale."""
        x = draw(key, shape, dtype)
        return x * np.asarray(scale, x.dtype)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """The initializer of uniform numbers in [0, scale).

    Args:
      scale: the upper bound.
      dtype: of the result if the call names none.

    Example:
      >>> import nabla_mlir as nm
      >>> uniform(0.1)(nm.random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _scaled(random.uniform, scale, dtype)


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """The initializer of normal numbers.

    Args:
      stddev: their deviation.
      dtype: of the result if the call names none.

    Example:
      >>> import nabla_mlir as nm
      >>> normal(0.1)(nm.random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _scaled(random.normal, stddev, dtype)


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """The initializer of normal numbers between two bounds.

    Args:
      stddev: a factor: the deviation of the numbers before those outside are left out.
      dtype: of the result if the call names none.
      lower: the lower bound, in units of `stddev`.
      upper: the upper bound.

    Example:
      >>> import nabla_mlir as nm
      >>> truncated_normal(0.1)(nm.random.key(0), (2, 3)).shape
      (2, 3)
    """
    return _scaled(lambda key, shape, dtype: random.truncated_normal(key, lower, upper, shape, dtype), stddev, dtype)


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None
) -> Initializer:
    """The initializer of mean 0 and variance scale / n, where n is the number of inputs or outputs of a layer.

    Args:
      scale: the variance times n.
      mode: the meaning of n: "fan_in", "fan_out", their mean "fan_avg" or their geometric mean "fan_geo_avg".
      distribution: "truncated_normal" (between two deviations), "normal" or "uniform".
      in_axis: the axis, or the axes, of the inputs of the layer.
      out_axis: those of its outputs.
      batch_axis: those that count for neither; all others count for both.
      dtype: of the result if the call names none. Complex numbers have uniform angles.

    Raises:
      TraceError: there is no such mode or distribution; ShapeError, when it is called: the shape has not these axes.

    Example:
      >>> import nabla_mlir as nm
      >>> variance_scaling(1.0, "fan_in", "normal")(nm.random.key(0), (4, 3)).shape
      (4, 3)
    """
    for what, value, values in (("mode", mode, _MODES), ("distribution", distribution, _DISTRIBUTIONS)):
        if value not in values:
            raise TraceError(f"variance_scaling requires a {what} among {', '.join(values)}, got {value!r}.", where=user_frame())
    default_dtype = dtype

    def init(key: Any, shape: Any, dtype: Any = default_dtype) -> Any:
        """Random weights of a shape with the variance scale / n, where n is the number of inputs, of outputs, or a mean."""
        shape, dtype = shape_of("variance_scaling", shape), float_dtype("variance_scaling", dtype, complex=True)
        if not math.prod(shape):
            return creation.zeros(shape, dtype)
        part = np.zeros((), dtype).real.dtype
        variance = np.array(scale / _fan(shape, mode, in_axis, out_axis, batch_axis), part)
        if dtype.kind == "c" and distribution != "normal":
            deviation = np.sqrt(variance) / np.array(_TRUNCATED_DISK if distribution == "truncated_normal" else 1.0, part)
            return _in_disk(key, shape, dtype, distribution) * np.asarray(deviation, dtype)
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, -1.0) * np.asarray(np.sqrt(np.array(3, part) * variance))
        if distribution == "normal":
            return random.normal(key, shape, dtype) * np.asarray(np.sqrt(variance), dtype)
        deviation = np.sqrt(variance) / np.array(_TRUNCATED, part)
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * np.asarray(deviation)

    return init


def _in_disk(key: Any, shape: tuple[int, ...], dtype: np.dtype, distribution: str) -> Any:
    """Complex numbers of variance 1: uniform in a disk, or normal numbers whose modulus is at most 2, as in JAX.

    The modulus r has the distribution function r^2 / 2, or that of exp(-r^2) cut at 2; the angle is uniform.
    """
    part = np.zeros((), dtype).real.dtype
    first, second = random.split(key)
    share, angle = random.uniform(first, shape, part), random.uniform(second, shape, part) * np.asarray(2 * np.pi, part)
    modulus = sqrt(2 * share) if distribution == "uniform" else sqrt(-log1p(share * math.expm1(-4.0)))
    return modulus * cos(angle) + 1j * (modulus * sin(angle))


def _fan(shape: tuple[int, ...], mode: str, in_axis: Any, out_axis: Any, batch_axis: Any) -> float:
    """The number of inputs or outputs of a layer, or a mean of both, as `mode` says ("fan_in", "fan_out", "fan_avg",
    "fan_geo_avg").

    Axes that are neither inputs, outputs nor batches are those of a window, whose elements count for both.

    Example: shape (3, 3, 8, 16) with in_axis -2 and out_axis -1 has 72 inputs and 144 outputs.
    """
    if len(shape) < 2 and in_axis == -2:
        raise ShapeError(
            f"variance_scaling requires two axes, or others than the default ones, got shape {shape}.", where=user_frame()
        )
    inside, outside, batches = (_count(shape, axis) for axis in (in_axis, out_axis, batch_axis))
    window = math.prod(shape) / (inside * outside * batches)
    fan_in, fan_out = inside * window, outside * window
    return {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2, "fan_geo_avg": (fan_in * fan_out) ** 0.5}[mode]


def _count(shape: tuple[int, ...], axis: Any) -> int:
    """The number of elements along one or several axes."""
    return math.prod(shape[d] for d in axes_of("variance_scaling", axis if isinstance(axis, int) else tuple(axis), len(shape)))


def _named(name: str, scale: float, mode: str, distribution: str) -> Initializer:
    """The maker of an initializer: `variance_scaling` with a fixed scale, mode and distribution."""

    def make(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""`variance_scaling` with the scale {scale:g}, the mode "{mode}" and the distribution "{distribution}".

    Args:
      in_axis: the axis, or the axes, of the inputs of the layer.
      out_axis: those of its outputs.
      batch_axis: those that count for neither; all others count for both.
      dtype: of the result if the call names none.

    Example:
      >>> import nabla_mlir as nm
      >>> {name}()(nm.random.key(0), (4, 3)).shape
      (4, 3)
    """
    return make


glorot_uniform: Initializer = _named("glorot_uniform", 1.0, "fan_avg", "uniform")
xavier_uniform = glorot_uniform
glorot_normal: Initializer = _named("glorot_normal", 1.0, "fan_avg", "truncated_normal")
xavier_normal = glorot_normal
lecun_uniform: Initializer = _named("lecun_uniform", 1.0, "fan_in", "uniform")
lecun_normal: Initializer = _named("lecun_normal", 1.0, "fan_in", "truncated_normal")
he_uniform: Initializer = _named("he_uniform", 2.0, "fan_in", "uniform")
kaiming_uniform = he_uniform
he_normal: Initializer = _named("he_normal", 2.0, "fan_in", "truncated_normal")
kaiming_normal = he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """The initializer of orthogonal matrices: rows or columns, of which there are fewer, are orthonormal.

    Args:
      scale: a factor.
      column_axis: the axis of the columns; all others together are the rows.
      dtype: of the result if the call names none.

    Raises:
      ShapeError: the shape that it is called with has less than two axes.

    Example:
      >>> import nabla_mlir as nm
      >>> orthogonal()(nm.random.key(0), (4, 3)).shape
      (4, 3)
    """
    default_dtype = dtype

    def init(key: Any, shape: Any, dtype: Any = default_dtype) -> Any:
        """A random orthogonal matrix, multiplied by the scale, whose rows are reshaped to all axes except `column_axis`."""
        shape, dtype = shape_of("orthogonal", shape), float_dtype("orthogonal", dtype, complex=True)
        if len(shape) < 2:
            raise ShapeError(f"orthogonal requires a shape of at least two axes, got {shape}.", where=user_frame())
        if not math.prod(shape):
            return creation.zeros(shape, dtype)
        axis = axis_of("orthogonal", column_axis, len(shape))
        columns, others = shape[axis], (*shape[:axis], *shape[axis + 1 :])
        q = random.orthogonal(key, math.prod(others), (), dtype, columns).reshape((*others, columns))
        return moveaxis(q, -1, axis) * np.asarray(scale, dtype)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """The initializer of convolutions that are an orthogonal matrix in the middle of the window and zero elsewhere.

    Args:
      scale: a factor.
      column_axis: the axis of the columns, of the last two axes.
      dtype: of the result if the call names none.

    Raises:
      ShapeError: the shape that it is called with has not three to five axes, or gives less than it takes in.

    Example:
      >>> import nabla_mlir as nm
      >>> delta_orthogonal()(nm.random.key(0), (3, 2, 2)).shape
      (3, 2, 2)
    """
    default_dtype = dtype

    def init(key: Any, shape: Any, dtype: Any = default_dtype) -> Any:
        """Zeros with an orthogonal matrix at the middle of the window."""
        shape, dtype = shape_of("delta_orthogonal", shape), float_dtype("delta_orthogonal", dtype, complex=True)
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ShapeError(
                "delta_orthogonal requires a shape of three to five axes, the last one at least as long as the one before, "
                f"got {shape}.",
                where=user_frame(),
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        if not math.prod(shape):
            return creation.zeros(shape, dtype)
        return IndexUpdate(creation.zeros(shape, dtype))[tuple((n - 1) // 2 for n in shape[:-2])].set(matrix)

    return init
