"""Resizes images, under the names of `jax.image`: each axis is multiplied by a matrix of weights of nearby samples."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.operands import inexact
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor

Kernel = Callable[[Any, Any], Any]


class ResizeMethod(enum.Enum):
    """The weights of samples near a point. Each method can also be given by its names in lower case."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
}


# Each kernel is a function of (module, distances from a sample); the module is NumPy if the distances are known numbers.
def _linear(xp: Any, x: Any) -> Any:
    """The kernel of linear interpolation: 1 at distance 0, and 0 from distance 1."""
    return xp.maximum(0, 1 - abs(x))


def _cubic(xp: Any, x: Any) -> Any:
    """The cubic convolution kernel of R. G. Keys (1981) at the distance x, with a = -1/2; `xp` is NumPy or nabla_mlir.numpy."""
    distance = abs(x)
    near = (1.5 * distance - 2.5) * (x * x) + 1  # x instead of its absolute value, so that the second derivative at 0 is -5
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return xp.where(distance < 1, near, xp.where(distance < 2, far, 0))


def _lanczos(radius: int) -> Kernel:
    """The Lanczos kernel that reaches as many samples as `radius` to each side."""
    return lambda xp, x: xp.where(abs(x) > radius, 0, xp.sinc(x) * xp.sinc(x / radius))


_KERNELS: dict[ResizeMethod, Kernel] = {
    ResizeMethod.LINEAR: _linear,
    ResizeMethod.CUBIC: _cubic,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}


def _method(name: str, method: Any) -> ResizeMethod:
    """The `ResizeMethod` for a method or its name; raises ShapeError if there is none. `name` is
    the function in the error.
    """
    found = _NAMES.get(method) if isinstance(method, str) else method
    if not isinstance(found, ResizeMethod):
        raise ShapeError(f"{name} requires a method among {', '.join(_NAMES)}, got {method!r}.", where=user_frame())
    return found


def _weights(xp: Any, size: int, new_size: int, scale: Any, translation: Any, kernel: Kernel, antialias: bool) -> Any:
    """The matrix that maps `size` old samples to `new_size` new ones. A new sample whose position is outside of the image is 0.

    `xp` is NumPy or nabla_mlir.numpy. `kernel` gives the weight of a sample at a distance, which `antialias` widens for smaller
    images.
    """
    inverse = 1 / scale
    width = xp.maximum(inverse, 1) if antialias else 1.0
    positions = (xp.arange(new_size, dtype=scale.dtype) + 0.5) * inverse - translation * inverse - 0.5
    weights = kernel(xp, (positions - np.arange(size, dtype=scale.dtype)[:, None]) / width)
    total = xp.sum(weights, 0, keepdims=True)
    is_some = abs(total) > 1000 * np.finfo(np.float32).eps
    weights = xp.where(is_some, weights / xp.where(is_some, total, 1), 0)
    return xp.where((positions >= -0.5) & (positions <= size - 0.5), weights, 0)


def _applied(x: Tensor, axes: Sequence[int], matrices: Sequence[Any]) -> Tensor:
    """The array with each of `axes` multiplied by its matrix of shape (old length, new length); `matrices` has one for
    each axis.
    """
    for axis, matrix in zip(axes, matrices, strict=True):
        x = nnp.moveaxis(nnp.tensordot(x, matrix.astype(x.dtype), (axis, 0)), -1, axis)
    return x


def _checked(name: str, x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as whole numbers; raises ShapeError if it does not have a length for each axis of x. `name` is the called
    function.
    """
    if len(shape) != x.ndim:
        raise ShapeError(f"{name} requires a length for each of {x.ndim} axes, got {tuple(shape)}.", where=user_frame())
    return tuple(int(n) for n in shape)


@library
def scale_and_translate(
    image: Any,
    shape: Static[Sequence[int]],
    spatial_dims: Static[Sequence[int]],
    scale: Any,
    translation: Any,
    method: Any,
    antialias: bool = True,
    precision: Any = None,
) -> Tensor:
    """Returns samples of an image that is enlarged by `scale` and then translated by `translation`.

    Sample i of the result has the position ``(i + 1/2 - translation) / scale - 1/2`` in the image. Its value is a weighted mean of
    the nearby samples, and 0 outside the image.

    Args:
      image: any array.
      shape: the shape of the result; axes that are not in `spatial_dims` must have the length of the image.
      spatial_dims: the axes that change.
      scale, translation: a number for each of these axes; both are differentiable.
      method: a `ResizeMethod` or its name, except the nearest one.
      antialias: True averages over more samples along an axis that becomes shorter.
      precision: has no effect; sums are computed in the dtype of the image.

    Raises:
      ShapeError: the method is unknown, or the lengths do not fit the axes.

    Example:
      >>> moved = scale_and_translate(np.array([1.0, 2.0, 4.0]), (3,), (0,), np.array([1.0]), np.array([0.5]), "linear")
      >>> moved.tolist()
      [1.0, 1.5, 3.0]
    """
    x = inexact(image)
    shape = _checked("scale_and_translate", x, shape)
    found = _method("scale_and_translate", method)
    axes = [axis % x.ndim for axis in spatial_dims]
    others = [axis for axis, (old, new) in enumerate(zip(x.shape, shape, strict=True)) if old != new and axis not in axes]
    if others:
        raise ShapeError(
            f"scale_and_translate requires that axes which are not spatial keep their length, got {shape} for "
            f"{x.shape} and the spatial axes {axes}.",
            where=user_frame(),
        )
    if found is ResizeMethod.NEAREST:
        raise ShapeError("scale_and_translate requires a method with weights, got 'nearest'.", where=user_frame())
    scales, translations = inexact(scale), inexact(translation)
    if scales.shape != (len(axes),) or translations.shape != (len(axes),):
        raise ShapeError(
            f"scale_and_translate requires a scale and a translation for each of {len(axes)} axes, got shapes "
            f"{scales.shape} and {translations.shape}.",
            where=user_frame(),
        )
    kernel = _KERNELS[found]
    matrices = [_weights(nnp, x.shape[a], shape[a], scales[i], translations[i], kernel, antialias) for i, a in enumerate(axes)]
    return _applied(x, axes, matrices)


@library
def resize(image: Any, shape: Static[Sequence[int]], method: Any, antialias: bool = True, precision: Any = None) -> Tensor:
    """An image that is resized to a shape.

    Args:
      image: any array.
      shape: the length of each axis; an axis whose length does not change is not resampled.
      method: a `ResizeMethod`, or its name: "nearest", "linear", "bilinear", "cubic", "bicubic", "lanczos3", "lanczos5".
      antialias: True averages over more samples along an axis that becomes shorter.
      precision: accepted; sums are in the dtype of the image.

    Raises:
      ShapeError: the method is unknown, or the number of lengths is not the number of axes.

    Example:
      >>> resize(np.array([[0.0, 2.0]]), (1, 4), "bilinear").tolist()
      [[0.0, 0.5, 1.5, 2.0]]
    """
    found = _method("resize", method)
    x = nnp.asarray(image) if found is ResizeMethod.NEAREST else inexact(image)
    shape = _checked("resize", x, shape)
    axes = [axis for axis, (old, new) in enumerate(zip(x.shape, shape, strict=True)) if old != new]
    if found is ResizeMethod.NEAREST:
        for axis in axes:
            x = nnp.take(x, np.floor((np.arange(shape[axis]) + 0.5) * x.shape[axis] / shape[axis]).astype(np.int32), axis)
        return x
    precise = np.float64 if x.dtype == np.float64 else np.float32
    ratios = [precise(shape[a] / x.shape[a]) if shape[a] and x.shape[a] else precise(1) for a in axes]
    zero, kernel = precise(0), _KERNELS[found]
    matrices = [_weights(np, x.shape[a], shape[a], ratio, zero, kernel, antialias) for a, ratio in zip(axes, ratios, strict=True)]
    return _applied(x, axes, matrices)
