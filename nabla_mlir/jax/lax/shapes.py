"""Operations that move elements, under the names and with the parameters of `jax.lax`."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.jax.numpy import constructors
from nabla_mlir.numpy import creation, shapes
from nabla_mlir.numpy.axes import axes_of, axis_of, reversed_along, shape_of
from nabla_mlir.numpy.joining import concatenate as concatenated
from nabla_mlir.numpy.joining import split as cut
from nabla_mlir.numpy.joining import stack as stacked
from nabla_mlir.numpy.operands import asarray, convert, tensor
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.shape import reshaped, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor

_slice = builtins.slice  # this module defines a function with the name
_ALL = _slice(None)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array whose elements are all equal to `fill_value`."""
    return constructors.full(shape, fill_value, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """An array whose elements are all equal to `fill_value`; its shape and dtype are those of `x` by default."""
    return constructors.full_like(x, fill_value, dtype, shape)


def empty(shape: Any, dtype: Any) -> Any:
    """An array of zeros, because arrays of nabla_mlir always have values."""
    return creation.empty(shape, dtype)


@library
def iota(dtype: Any, size: Static[int]) -> Tensor:
    """The numbers 0, 1, ..., size - 1.

    Example:
      >>> iota(np.int32, 3).tolist()
      [0, 1, 2]
    """
    return broadcasted_iota(dtype, (size,), 0)


@library
def broadcasted_iota(dtype: Any, shape: Static[Any], dimension: Static[int]) -> Tensor:
    """The numbers 0, 1, ... along one axis of a shape."""
    lengths, kind = shape_of("broadcasted_iota", shape), as_dtype(dtype)
    at = axis_of("broadcasted_iota", dimension, len(lengths))
    return convert(sh.iota(shape=lengths, dtype=np.dtype(np.int32) if kind.kind == "b" else kind, iota_dimension=at), kind)


@library
def broadcast(operand: Any, sizes: Static[Any]) -> Tensor:
    """The array repeated along new leading axes."""
    x = tensor(operand)
    return sh.expand(x, (*sizes, *x.shape), tuple(range(len(sizes))))


@library
def broadcast_in_dim(operand: Any, shape: Static[Any], broadcast_dimensions: Static[Any]) -> Tensor:
    """Broadcasts an array: its axis i becomes axis broadcast_dimensions[i], and it is repeated along the other axes.

    Raises:
      ShapeError: the number of axes differs, or a length is neither 1 nor the length in the shape.

    Example:
      >>> broadcast_in_dim(np.array([1.0, 2.0]), (2, 2), (0,)).tolist()
      [[1.0, 1.0], [2.0, 2.0]]
    """
    x, lengths, axes = tensor(operand), tuple(shape), tuple(broadcast_dimensions)
    inside = len(axes) == x.ndim and all(0 <= d < len(lengths) for d in axes) and len(set(axes)) == len(axes)
    if not inside or any(n not in (1, lengths[d]) for n, d in zip(x.shape, axes, strict=True)):
        raise ShapeError(
            f"broadcast_in_dim requires an axis of {lengths} for each of {x.shape}, all different, got {axes}.", where=user_frame()
        )
    return sh.broadcast_in_dim(x, shape=lengths, broadcast_dimensions=axes)


@library
def broadcast_to_rank(x: Any, rank: Static[int]) -> Tensor:
    """The array with leading axes of length 1, so that it has `rank` axes."""
    x = tensor(x)
    return reshaped(x, (1,) * (rank - x.ndim) + x.shape)


@library
def broadcast_like(arr: Any, like_arr: Any) -> Tensor:
    """The array broadcast to the shape of another array."""
    return shapes.broadcast_to(arr, np.shape(like_arr))


@library
def collapse(operand: Any, start_dimension: Static[int], stop_dimension: Static[int | None] = None) -> Tensor:
    """Joins the axes from `start_dimension` up to `stop_dimension` into one axis.

    Example:
      >>> collapse(np.ones((2, 3, 4)), 1).shape
      (2, 12)
    """
    x = tensor(operand)
    low, high, _ = _slice(start_dimension, stop_dimension).indices(x.ndim)
    return reshaped(x, (*x.shape[:low], math.prod(x.shape[low:high]), *x.shape[high:]))


@library
def concatenate(operands: Sequence[Any], dimension: Static[int]) -> Tensor:
    """The concatenation of arrays along one axis."""
    return concatenated(operands, dimension)


@library
def stack(operands: Sequence[Any], axis: Static[int] = 0) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    return stacked(operands, axis)


@library
def tile(operand: Any, reps: Static[Any]) -> Tensor:
    """The array repeated as a whole, reps[i] times along axis i."""
    return shapes.tile(operand, reps)


@library
def expand_dims(array: Any, dimensions: Static[Any]) -> Tensor:
    """The array with new axes of length 1 at these positions of the result."""
    return shapes.expand_dims(array, tuple(dimensions))


@library
def squeeze(array: Any, dimensions: Static[Any]) -> Tensor:
    """The array without these axes, which must have length 1."""
    return shapes.squeeze(array, tuple(dimensions))


def transpose(operand: Any, permutation: Any) -> Any:
    """The axes permuted: result axis i is axis permutation[i]; the permutation is a sequence or a concrete array.

    Example:
      >>> transpose(np.ones((2, 3)), (1, 0)).shape
      (3, 2)
    """
    return shapes.transpose(operand, numbers_of(permutation))


def numbers_of(values: Any) -> tuple[int, ...]:
    """The integers of a sequence, or of a concrete array, as numbers that are known while tracing."""
    return tuple(operator.index(v) for v in (values if isinstance(values, (list, tuple)) else np.asarray(values).tolist()))


@library
def reshape(operand: Any, new_sizes: Static[Any], dimensions: Static[Any] = None) -> Tensor:
    """The same elements with another shape; `dimensions` is the order of the axes in which they are read."""
    x = tensor(operand)
    return shapes.reshape(x if dimensions is None else transposed(x, axes_of("reshape", tuple(dimensions), x.ndim)), new_sizes)


@library
def rev(operand: Any, dimensions: Static[Any]) -> Tensor:
    """The array with its elements reversed along these axes."""
    x = tensor(operand)
    return reversed_along(x, axes_of("rev", tuple(dimensions), x.ndim))


def shape_as_value(shape: Sequence[Any]) -> Any:
    """A shape as a vector of integers.

    Example:
      >>> shape_as_value((2, 3)).tolist()
      [2, 3]
    """
    return asarray(np.array(numbers_of(shape), Defaults.int))


@library
def pad(operand: Any, padding_value: Any, padding_config: Static[Any]) -> Tensor:
    """Pads an array before, after and between its elements, with three widths for each axis; a negative width removes elements.

    Example:
      >>> pad(np.array([1.0, 2.0]), 0.0, [(1, 0, 1)]).tolist()
      [0.0, 1.0, 0.0, 2.0]
    """
    x = tensor(operand)
    widths = [tuple(w) for w in padding_config]
    if len(widths) != x.ndim or any(len(w) != 3 or w[2] < 0 for w in widths):
        raise ShapeError(f"pad requires (low, high, interior) for each of {x.ndim} axes, got {widths}.", where=user_frame())
    low, high, interior = zip(*widths, strict=True) if widths else ((), (), ())
    value = convert(tensor(padding_value), x.dtype)
    sizes = [low + high + n + max(n - 1, 0) * gap for (low, high, gap), n in zip(widths, x.shape, strict=True)]
    if value.ndim or any(n < 0 for n in sizes):
        raise ShapeError(
            f"pad requires a scalar value and lengths of at least 0, got a value of shape {value.shape} and lengths {sizes}.",
            where=user_frame(),
        )
    return sh.pad(x, value, edge_padding_low=low, edge_padding_high=high, interior_padding=interior)


@library
def slice(operand: Any, start_indices: Static[Any], limit_indices: Static[Any], strides: Static[Any] = None) -> Tensor:
    """Every strides-th element from start_indices up to limit_indices, for each axis.

    Raises:
      ShapeError: the number of indices is not the number of axes, or an index is out of range.

    Example:
      >>> slice(np.arange(5.0), (1,), (5,), (2,)).tolist()
      [1.0, 3.0]
    """
    x = tensor(operand)
    low, high, steps = (tuple(operator.index(k) for k in v) for v in (start_indices, limit_indices, strides or (1,) * x.ndim))
    fits = {len(low), len(high), len(steps), x.ndim} == {x.ndim} and all(
        0 <= a <= b <= n and k > 0 for a, b, n, k in zip(low, high, x.shape, steps, strict=False)
    )
    if not fits:
        raise ShapeError(
            f"slice requires 0 <= start <= limit <= length and a positive stride for each axis of {x.shape}, got "
            f"{low}, {high} and {steps}.",
            where=user_frame(),
        )
    return sh.slice_(x, start_indices=low, limit_indices=high, strides=steps)


@library
def slice_in_dim(
    operand: Any, start_index: Static[int | None], limit_index: Static[int | None], stride: Static[int] = 1, axis: Static[int] = 0
) -> Tensor:
    """``operand[start:limit:stride]`` along one axis."""
    x = tensor(operand)
    at = axis_of("slice_in_dim", axis, x.ndim)
    return x[(*[_ALL] * at, _slice(start_index, limit_index, stride))]


@library
def _split(operand: Any, sizes: Static[Any], axis: Static[int]) -> list[Tensor]:
    """The parts of an array, of these sizes, along an axis; raises ShapeError unless the sizes add up to its length."""
    x = tensor(operand)
    at = axis_of("split", axis, x.ndim)
    if sum(sizes) != x.shape[at] or any(n < 0 for n in sizes):
        raise ShapeError(f"split requires sizes that add up to {x.shape[at]}, got {tuple(sizes)}.", where=user_frame())
    return cut(x, np.cumsum(sizes)[:-1].tolist(), at)


def split(operand: Any, sizes: Any, axis: int = 0) -> list[Any]:
    """Splits an array along one axis into parts of these sizes, a sequence or a concrete array.

    Raises:
      ShapeError: a size is negative, or the sizes do not add up to the length.

    Example:
      >>> [part.tolist() for part in split(np.arange(3), (1, 2))]
      [[0], [1, 2]]
    """
    return _split(operand, numbers_of(sizes), axis)


@library
def index_in_dim(operand: Any, index: Static[int], axis: Static[int] = 0, keepdims: bool = True) -> Tensor:
    """``operand[index]`` along one axis; `keepdims` leaves the axis with length 1."""
    x = tensor(operand)
    at = axis_of("index_in_dim", axis, x.ndim)
    position = axis_of("index_in_dim", index, x.shape[at])
    return x[(*[_ALL] * at, _slice(position, position + 1) if keepdims else position)]
