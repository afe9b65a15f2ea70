"""Functions whose result shape depends on values: NumPy computes them on concrete arrays; in traces `size` fixes the shape."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy import logic
from nabla_mlir.numpy.axes import dynamic_shape, joined, padded
from nabla_mlir.numpy.creation import iota
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.operands import asarray, convert, tensor
from nabla_mlir.numpy.reductions import sum
from nabla_mlir.numpy.running import cumsum
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
    """The numbers of a concrete array. Raises TraceError for a traced array."""
    if isinstance(x, Tensor):
        dynamic_shape(name, _ADVICE)
    return np.asarray(asarray(x) if isinstance(x, (list, tuple)) else x)


def _positions(x: np.ndarray) -> Array:
    return Array.from_numpy(x.astype(Defaults.int))


# ---------------------------------------------------------------- indices
def nonzero(a: Any, *, size: int | None = None, fill_value: int = 0) -> tuple[Any, ...]:
    """The indices of the nonzero elements along each axis, in row-major order.

    Args:
      a: an array with axes.
      size: the length of the result; required in traces. None means all.
      fill_value: the index that fills the result after the last nonzero element.

    Raises:
      TraceError: `a` is traced and `size` is missing.
      ValueError: `a` has no axis.

    Example:
      >>> [i.tolist() for i in nonzero(np.array([[0, 5], [7, 0]]))]
      [[0, 1], [1, 0]]
      >>> nonzero(np.array([0, 5, 7]), size=3)[0].tolist()
      [1, 2, 0]
    """
    if size is not None:
        return _sized_nonzero(a, size, fill_value)
    return tuple(map(_positions, np.nonzero(_numbers("nonzero", a))))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: int = 0) -> Any:
    """The indices of the nonzero elements of the flattened array; arguments as in `nonzero`.

    Example:
      >>> flatnonzero(np.array([[0, 5], [7, 0]])).tolist()
      [1, 2]
    """
    if size is not None:
        return _sized_positions(a, size, fill_value)
    return _positions(np.flatnonzero(_numbers("flatnonzero", a)))


def argwhere(a: Any, *, size: int | None = None, fill_value: int = 0) -> Any:
    """The indices of the nonzero elements, with one row for each element; arguments as in `nonzero`.

    Example:
      >>> argwhere(np.array([[0, 5], [7, 0]])).tolist()
      [[0, 1], [1, 0]]
    """
    if size is not None:
        return _sized_rows(a, size, fill_value)
    return _positions(np.argwhere(_numbers("argwhere", a)))


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: int = 0) -> Any:
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
    x = convert(tensor(x), bool)
    return _first_positions(reshaped(x, (x.size,)), size, fill_value)


def _first_positions(mask: Tensor, size: int, fill_value: int) -> Tensor:
    """The indices of the first `size` true elements of a vector, in order."""
    order = argsort(convert(lg.logical_not(mask), np.int8))
    order = padded(order, 0, 0, size - mask.size) if size > mask.size else sliced(order, 0, 0, size)
    count = sum(mask, dtype=order.dtype)
    return logic.where(logic.less(iota((size,), 0, order.dtype), count), order, full((), fill_value, order.dtype))


@library
def _sized_nonzero(x: Any, size: Static[int], fill_value: Static[int]) -> tuple[Tensor, ...]:
    x = tensor(x)
    positions = _sized_positions(x, size, -1)
    indices = []
    for axis, length in enumerate(x.shape):
        index = positions // max(math.prod(x.shape[axis + 1 :]), 1) % max(length, 1)
        indices.append(logic.where(positions < 0, full((), fill_value, index.dtype), index))
    return tuple(indices)


@library
def _sized_rows(x: Any, size: Static[int], fill_value: Static[int]) -> Tensor:
    return joined([reshaped(i, (size, 1)) for i in _sized_nonzero(x, size, fill_value)], 1)


# ---------------------------------------------------------------- sets
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Returns the sorted unique elements, or a tuple with the other requested results in the order of the arguments.

    Args:
      ar: an array, which is flattened.
      return_index: True also returns the first index of each unique element.
      return_inverse: True also returns, in the shape of `ar`, the index of each element in the unique elements.
      return_counts: True also returns the counts.
      equal_nan: True if all NaN are one element.
      size: the length of the result; required in traces. None means all.
      fill_value: the value that fills the result after the last unique element; None means the first element.

    Raises:
      TraceError: `ar` is traced and `size` is missing.

    Example:
      >>> unique(np.array([3.0, 1.0, 3.0])).tolist()
      [1.0, 3.0]
      >>> unique(np.array([3.0, 1.0, 3.0]), return_counts=True, size=3)[1].tolist()
      [1, 2, 0]
    """
    if size is None:
        host = _numbers("unique", ar)
        values, *positions = np.unique(host, return_index=True, return_inverse=True, return_counts=True, equal_nan=equal_nan)
        parts = [Array.from_numpy(values), *map(_positions, positions)]
    else:
        parts = list(_sized_unique(ar, size, fill_value, equal_nan))
    choice = [True, return_index, return_inverse, return_counts]
    out = tuple(part for part, is_chosen in zip(parts, choice, strict=True) if is_chosen)
    return out if len(out) > 1 else out[0]


@library
def _sized_unique(x: Any, size: Static[int], fill_value: Any, equal_nan: bool) -> tuple[Tensor, ...]:
    """The first `size` unique elements, with indices, inverse and counts."""
    x = tensor(x)
    flat = reshaped(x, (x.size,))
    n = x.size
    if not n:
        nothing = full((size,), 0, Defaults.int)
        return full((size,), fill_value or 0, x.dtype), nothing, reshaped(sliced(nothing, 0, 0, 0), x.shape), nothing
    order = argsort(flat)
    elements = take(flat, order, mode="promise_in_bounds")
    high, low = sliced(elements, 0, 1, n), sliced(elements, 0, 0, n - 1)
    differs = lg.compare(high, low, comparison_direction="NE")
    if equal_nan and is_inexact(x.dtype):
        differs = lg.logical_and(differs, lg.logical_not(lg.logical_and(is_nan(high), is_nan(low))))
    first = padded(differs, 0, 1, 0, True)
    starts = _first_positions(first, size + 1, n)
    ends, starts = sliced(starts, 0, 1, size + 1), sliced(starts, 0, 0, size)
    exists = logic.less(starts, n)
    positions = logic.where(exists, starts, 0)  # the first element fills the result after the last one
    values, indices = (take(v, positions, mode="promise_in_bounds") for v in (elements, order))
    if fill_value is not None:
        values = logic.where(exists, values, convert(tensor(fill_value), x.dtype))
    inverse = take(cumsum(convert(first, order.dtype)) - 1, argsort(order), mode="promise_in_bounds")
    return values, indices, reshaped(inverse, x.shape), ends - starts


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
