"""Functions whose result shape depends on values: NumPy computes them on concrete arrays; in traces `size` fixes the shape."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_narrow
from nabla_mlir.numpy import logic
from nabla_mlir.numpy.axes import axis_of, dynamic_shape, joined, padded
from nabla_mlir.numpy.creation import iota
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.operands import asarray, convert, tensor
from nabla_mlir.numpy.reductions import any, sum
from nabla_mlir.numpy.running import cumsum
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.numpy.sorting import argsort
from nabla_mlir.numpy.special_values import is_nan
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.shape import reshaped, sliced
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, is_inexact
from nabla_mlir.table.tensor import Tensor, full

_ADVICE = "pass `size`, the length of the result; for a choice of elements use where with three arguments."


class UniqueAllResult(NamedTuple):
    """The sorted unique elements, the first index of each, the index in them of each input element, and the counts."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The sorted unique elements, and their counts."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The sorted unique elements, and the index in them of each input element."""

    values: Any
    inverse_indices: Any


def _numbers(name: str, x: Any) -> np.ndarray:
    """The concrete array `x` as an array of NumPy; raises TraceError for a traced array. `name` is the name of the function."""
    if isinstance(x, Tensor):
        dynamic_shape(name, _ADVICE)
    return np.asarray(asarray(x) if isinstance(x, (list, tuple)) else x)


def _positions(x: np.ndarray) -> Array:
    """Converts NumPy indices to an array of the default integer dtype."""
    return Array.from_numpy(x.astype(Defaults.int))


def _fills(name: str, fill_value: Any, rank: int) -> tuple[int, ...]:
    """The index along each axis that fills the result after the last element found; `fill_value` is one, or one for each axis."""
    fills = np.ravel(np.asarray(0 if fill_value is None else fill_value)).tolist()
    if len(fills) not in (1, rank):
        raise ShapeError(f"{name} requires one index or {rank} as fill_value, got {fill_value}.", where=user_frame())
    return tuple(map(int, fills * rank if len(fills) == 1 else fills))


# ---------------------------------------------------------------- indices
def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The indices of the nonzero elements along each axis, in row-major order.

    Args:
      a: an array with axes.
      size: the length of the result; required in traces. None means all.
      fill_value: the index that fills the result after the last nonzero element, or a tuple of one for each axis; None is 0.

    Raises:
      TraceError: `a` is traced and `size` is missing.
      ValueError: `a` has no axis.
      ShapeError: `fill_value` has another number of indices than the array has axes.

    Example:
      >>> [i.tolist() for i in nonzero(np.array([[0, 5], [7, 0]]))]
      [[0, 1], [1, 0]]
      >>> nonzero(np.array([0, 5, 7]), size=3)[0].tolist()
      [1, 2, 0]
    """
    if size is not None:
        return _sized_nonzero(a, size, _fills("nonzero", fill_value, np.ndim(a)))
    return tuple(map(_positions, np.nonzero(_numbers("nonzero", a))))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the nonzero elements of the flattened array.

    `size` fixes the number of indices, and `fill_value` takes the place of indices that are missing; see `nonzero`.

    Example:
      >>> flatnonzero(np.array([[0, 5], [7, 0]])).tolist()
      [1, 2]
    """
    if size is not None:
        return _sized_positions(a, size, *_fills("flatnonzero", fill_value, 1))
    return _positions(np.flatnonzero(_numbers("flatnonzero", a)))


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The indices of the nonzero elements, with one row for each element; arguments as in `nonzero`.

    Example:
      >>> argwhere(np.array([[0, 5], [7, 0]])).tolist()
      [[0, 1], [1, 0]]
    """
    if size is not None:
        return _sized_rows(a, size, _fills("argwhere", fill_value, np.ndim(a)))
    return _positions(np.argwhere(_numbers("argwhere", a)))


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Returns x where the condition is true, and y elsewhere. Without x and y, the indices as in `nonzero`.

    Raises:
      TraceError: x and y are missing, the condition is traced, and `size` is missing.
      ShapeError: only one of x and y is given.

    Example:
      >>> where(np.array([True, False]), 1.0, 2.0).tolist()
      [1.0, 2.0]
    """
    if x is not None and y is not None:
        return logic.where(condition, x, y)
    if x is not None or y is not None:
        raise ShapeError("where requires both x and y or neither, got one of them.", where=user_frame())
    if size is None:
        _numbers("where with one argument", condition)
    return nonzero(condition, size=size, fill_value=fill_value)


@library
def _sized_positions(x: Any, size: Static[int], fill_value: Static[int] = 0) -> Tensor:
    """The indices of the first `size` nonzero elements of the flattened array; the rest is `fill_value`."""
    x = convert(tensor(x), bool)
    return _first_positions(reshaped(x, (x.size,)), size, fill_value)


def _first_positions(mask: Tensor, size: int, fill_value: int) -> Tensor:
    """The indices of the first `size` true elements of a vector, in order."""
    order = argsort(convert(lg.logical_not(mask), np.int8))  # true elements first, because the sort is stable
    order = padded(order, 0, 0, size - mask.size) if size > mask.size else sliced(order, 0, 0, size)
    count = sum(mask, dtype=order.dtype)
    return logic.where(logic.less(iota((size,), 0, order.dtype), count), order, full((), fill_value, order.dtype))


@library
def _sized_nonzero(x: Any, size: Static[int], fills: Static[tuple[int, ...]]) -> tuple[Tensor, ...]:
    """The indices of the first `size` nonzero elements along each axis; the rest is the number in `fills` for the axis."""
    x = tensor(x)
    positions = _sized_positions(x, size, -1)
    indices = []
    for axis, (length, fill) in enumerate(zip(x.shape, fills, strict=True)):
        index = positions // max(math.prod(x.shape[axis + 1 :]), 1) % max(length, 1)
        indices.append(logic.where(positions < 0, full((), fill, index.dtype), index))
    return tuple(indices)


@library
def _sized_rows(x: Any, size: Static[int], fills: Static[tuple[int, ...]]) -> Tensor:
    """The indices of `_sized_nonzero` as the columns of a matrix with `size` rows."""
    return joined([reshaped(i, (size, 1)) for i in _sized_nonzero(x, size, fills)], 1)


# ---------------------------------------------------------------- sets
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The sorted unique elements, or a tuple with the other requested results in the order of the arguments.

    Args:
      ar: an array, which is flattened unless `axis` is given.
      return_index: True also returns the first index of each unique element.
      return_inverse: True also returns, in the shape of `ar`, the index of each element in the unique elements.
      return_counts: True also returns the counts.
      axis: the axis along which slices are compared as wholes, in lexicographic order; None compares elements.
      equal_nan: True if all NaN are one element.
      size: the length of the result; required in traces. None means all.
      fill_value: the value that fills the result after the last unique element; None means the first element.
      sorted: has no effect; the result is always sorted.

    Raises:
      TraceError: `ar` is traced and `size` is missing.
      AxisError: the array has no such axis.

    Example:
      >>> unique(np.array([3.0, 1.0, 3.0])).tolist()
      [1.0, 3.0]
      >>> unique(np.array([3.0, 1.0, 3.0]), return_counts=True, size=3)[1].tolist()
      [1, 2, 0]
    """
    if size is None:
        host = _numbers("unique", ar)
        # NumPy does not know the NaN of narrow formats such as bfloat16; float32 has all of their numbers.
        known = host.astype(np.float32) if is_narrow(host.dtype) else host
        known_axis = None if axis is None else axis_of("unique", axis, known.ndim)
        values, *positions = np.unique(known, True, True, True, known_axis, equal_nan=equal_nan)
        parts = [Array.from_numpy(values.astype(host.dtype, copy=False)), *map(_positions, positions)]
    else:
        parts = list(_sized_unique(ar, size, fill_value, equal_nan, axis))
    choice = [True, return_index, return_inverse, return_counts]
    out = tuple(part for part, is_chosen in zip(parts, choice, strict=True) if is_chosen)
    return out if len(out) > 1 else out[0]


@library
def _sized_unique(x: Any, size: Static[int], fill_value: Any, equal_nan: bool, axis: Static[int | None]) -> tuple[Tensor, ...]:
    """The first `size` unique elements, or slices along `axis`, then their indices, the inverse and their counts.

    `fill_value` fills the rest; None repeats the first element. Slices are compared as rows of numbers. After sorting, a row that
    differs from the row before it starts a group of equal rows.
    """
    x = tensor(x)
    axis_position = 0 if axis is None else axis_of("unique", axis, x.ndim)
    slices = reshaped(x, (x.size,)) if axis is None else moveaxis(x, axis_position, 0)
    n, rest = slices.shape[0], slices.shape[1:]
    if not n:
        nothing = full((size,), 0, Defaults.int)
        values = full((size, *rest), 0 if fill_value is None else fill_value, x.dtype)
        inverse = reshaped(sliced(nothing, 0, 0, 0), x.shape if axis is None else (0,))
        return moveaxis(values, 0, axis_position), nothing, inverse, nothing
    rows = reshaped(slices, (n, math.prod(rest)))
    order = iota((n,), 0, Defaults.int)
    for k in reversed(range(rows.shape[1])):  # stable sorts by the last key first
        column = reshaped(sliced(rows, 1, k, k + 1), (n,))
        order = take(order, argsort(take(column, order, mode="promise_in_bounds")), mode="promise_in_bounds")
    ordered = take(rows, order, 0, mode="promise_in_bounds")
    high, low = sliced(ordered, 0, 1, n), sliced(ordered, 0, 0, n - 1)
    differs = lg.compare(high, low, comparison_direction="NE")
    if equal_nan and is_inexact(x.dtype):
        differs = lg.logical_and(differs, lg.logical_not(lg.logical_and(is_nan(high), is_nan(low))))
    first = padded(any(differs, 1), 0, 1, 0, True)
    starts = _first_positions(first, size + 1, n)
    ends, starts = sliced(starts, 0, 1, size + 1), sliced(starts, 0, 0, size)
    exists = logic.less(starts, n)
    positions = logic.where(exists, starts, 0)  # the first element fills the result after the last one
    values = reshaped(take(ordered, positions, 0, mode="promise_in_bounds"), (size, *rest))
    if fill_value is not None:
        values = logic.where(reshaped(exists, (size, *(1,) * len(rest))), values, convert(tensor(fill_value), x.dtype))
    # The number of each sorted row's group; the inverse permutation brings these numbers to the order of x.
    inverse = take(cumsum(convert(first, order.dtype)) - 1, argsort(order), mode="promise_in_bounds")
    indices = take(order, positions, mode="promise_in_bounds")
    return moveaxis(values, 0, axis_position), indices, reshaped(inverse, x.shape if axis is None else (n,)), ends - starts


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The sorted unique elements (every NaN is different), with indices and counts; `size` as in `unique`.

    Example:
      >>> unique_all(np.array([3, 1, 3])).counts.tolist()
      [1, 2]
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCountsResult:
    """The sorted unique elements (every NaN is different), and their counts; `size` as in `unique`.

    Example:
      >>> unique_counts(np.array([3, 1, 3])).counts.tolist()
      [1, 2]
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverseResult:
    """The sorted unique elements (every NaN is different), and the index in them of each element; `size` as in `unique`.

    Example:
      >>> unique_inverse(np.array([3, 1, 3])).inverse_indices.tolist()
      [1, 0, 1]
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The sorted unique elements (every NaN is different); `size` as in `unique`.

    Example:
      >>> unique_values(np.array([3, 1, 3])).tolist()
      [1, 3]
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)
