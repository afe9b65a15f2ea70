"""Functions that insert, remove and rearrange elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import CopyError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import axes_of, axis_of, dynamic_shape
from nabla_mlir.numpy.creation import arange, diag, zeros_like
from nabla_mlir.numpy.data_dependent import nonzero
from nabla_mlir.numpy.indexing import take, take_along_axis
from nabla_mlir.numpy.joining import array_split, concatenate
from nabla_mlir.numpy.logic import clip, where
from nabla_mlir.numpy.operands import asarray, convert, in_one_dtype, inexact, operand, require_integer, tensor
from nabla_mlir.numpy.shapes import broadcast_arrays, broadcast_to, moveaxis, ravel, reshape
from nabla_mlir.numpy.sorting import argsort, sort
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor


# ---------------------------------------------------------------- joining and splitting
@library
def append(arr: ArrayLike, values: ArrayLike, axis: Static[int | None] = None) -> Tensor:
    """Joins `arr` and `values` along `axis`; None flattens both first."""
    if axis is not None:
        return concatenate([arr, values], axis)
    return concatenate([ravel(x) for x in in_one_dtype(arr, values)])


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Splits `ary` along axis 1, or a vector along axis 0; arguments as for `split`."""
    return array_split(ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Splits `ary` along axis 0; arguments as for `split`."""
    return array_split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Splits `ary` along axis 2; arguments as for `split`."""
    return array_split(ary, indices_or_sections, 2)


@library
def block(arrays: Any) -> Tensor:
    """Joins nested lists of blocks: the innermost lists along the last axis, the next along the axis before it.

    Example:
      >>> block([[np.ones((1, 2)), np.zeros((1, 1))]]).tolist()
      [[1.0, 1.0, 0.0]]
    """
    leaves, _ = pytree.flatten(arrays)
    depth = _depth(arrays)
    rank = max([depth, *(np.ndim(leaf) for leaf in leaves)])
    return _blocks(arrays, depth, rank)


def _depth(arrays: Any) -> int:
    """The depth of nested lists, by their first items."""
    return 1 + _depth(arrays[0]) if isinstance(arrays, (list, tuple)) else 0


def _blocks(arrays: Any, depth: int, rank: int) -> Tensor:
    """Nested lists of blocks, `depth` deep, as one array of `rank` axes; the innermost lists are joined along the last axis."""
    if not isinstance(arrays, (list, tuple)):
        x = tensor(arrays)
        return reshaped(x, (1,) * (rank - x.ndim) + x.shape)
    return concatenate([_blocks(a, depth - 1, rank) for a in arrays], rank - depth)


# ---------------------------------------------------------------- new lengths
@library
def resize(a: ArrayLike, new_shape: Static[Any]) -> Tensor:
    """Repeats or cuts the elements so that they fill another shape."""
    shape = tuple(new_shape) if isinstance(new_shape, (tuple, list)) else (new_shape,)
    flat, size = ravel(a), math.prod(shape)
    if not flat.size:
        return zeros_like(flat, shape=shape)
    times = -(-size // flat.size)
    return reshaped(concatenate([flat] * max(times, 1))[:size], shape)


def _known(name: str, what: str, x: Any) -> np.ndarray:
    """The value `x` as a NumPy array; raises TraceError if it is traced. `name` and `what` name the function and the argument."""
    if isinstance(x, Tensor):
        dynamic_shape(name, f"pass {what} as known numbers.")
    return np.asarray(x)


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Any:
    """Removes the elements at `obj` along `axis`, or from the flattened array.

    Args:
      arr: an array.
      obj: a known integer, slice, array of integers, or array of truth values.
      axis: the axis of the indices.
      assume_unique_indices: has no effect.

    Example:
      >>> delete(np.array([1, 2, 3]), 1).tolist()
      [1, 3]
    """
    flat, at = (ravel(arr), 0) if axis is None else (operand(arr), axis_of("delete", axis, np.ndim(arr)))
    n = np.shape(flat)[at]
    positions = obj if isinstance(obj, slice) else _known("delete", "obj", obj)
    rest = np.delete(np.arange(n), positions)
    return take(flat, rest, at, mode="promise_in_bounds")


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Inserts `values` before the elements at `obj` along `axis`, or into the flattened array.

    Args:
      arr: an array.
      obj: an integer, which may be traced, or a known slice or array of integers.
      values: the inserted elements, which are broadcast.
      axis: the axis of the indices.

    Example:
      >>> insert(np.array([1, 3]), 1, 2).tolist()
      [1, 2, 3]
    """
    x, at = (ravel(arr), 0) if axis is None else (asarray(arr), axis_of("insert", axis, np.ndim(arr)))
    n = x.shape[at]
    if isinstance(obj, Tensor) and not obj.ndim:
        return _inserted_at(x, require_integer("insert", obj), asarray(values, x.dtype), at)
    positions = np.arange(n)[obj] if isinstance(obj, slice) else _known("insert", "obj", obj)
    values = asarray(values, x.dtype)
    count = positions.size
    if not positions.ndim and values.ndim:  # one index: the values are one or several slices along their first axis, as in NumPy
        values = moveaxis(reshape(values, (1,) * (x.ndim - values.ndim) + values.shape), 0, at)
        count = values.shape[at]
    each = np.full(count, positions) if not positions.ndim else positions
    each = np.where(each < 0, each + n, each)
    order = np.argsort(each, kind="stable")
    targets = np.empty(count, np.int64)
    targets[order] = each[order] + np.arange(count)
    shape = tuple(count if d == at else m for d, m in enumerate(x.shape))
    both = concatenate([x, broadcast_to(values, shape)], at)
    source = np.empty(n + count, np.int64)
    mask = np.zeros(n + count, bool)
    mask[targets] = True
    source[~mask], source[targets] = np.arange(n), n + np.arange(count)
    return take(both, source, at, mode="promise_in_bounds")


def _inserted_at(x: Any, position: Tensor, values: Any, axis: int) -> Tensor:
    """The array with slices inserted at a traced index: element i is from before it, from the values, or from after it."""
    if values.ndim:  # as in NumPy for one index, the first axis of the values becomes the axis of the slices
        values = moveaxis(reshape(values, (1,) * (x.ndim - values.ndim) + values.shape), 0, axis)
    n, count = x.shape[axis], values.shape[axis] if values.ndim else 1
    values = broadcast_to(values, tuple(count if d == axis else m for d, m in enumerate(x.shape)))
    start = where(position < 0, position + n, position)
    i = np.arange(n + count)
    source = where(i < start, i, where(i < start + count, n + i - start, i - count))
    return take(concatenate([x, values], axis), source, axis, mode="promise_in_bounds")


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Removes zeros at the front ("f") and back ("b") of an array, whose values must be known.

    Args:
      filt: an array.
      trim: "f", "b" or both.
      axis: the axes along which slices of zeros are removed; None means all.

    Example:
      >>> trim_zeros(np.array([[0, 0, 0], [0, 1, 0]])).tolist()
      [[1]]
    """
    x, known = asarray(filt), _known("trim_zeros", "the array", filt)
    found = np.argwhere(known)
    axes = axes_of("trim_zeros", axis if axis is None or isinstance(axis, int) else tuple(axis), known.ndim)
    parts = [slice(None)] * known.ndim
    for d in axes:
        low = int(found[:, d].min()) if len(found) and "f" in trim.lower() else 0
        high = int(found[:, d].max()) + 1 if len(found) and "b" in trim.lower() else known.shape[d]
        parts[d] = slice(low, high) if len(found) else slice(0)
    return x[tuple(parts)]


# ---------------------------------------------------------------- selection by truth values
def compress(condition: Any, a: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The entries along `axis` (of the flattened array if None) where a vector of truth values is true.

    Args:
      condition: the truth values.
      a: an array.
      axis: the axis of the entries.
      size: the number of entries of the result; required in traces.
      fill_value: the value that fills the result after the last entry.

    Example:
      >>> compress(np.array([True, False, True]), np.array([1, 2, 3])).tolist()
      [1, 3]
    """
    x = ravel(a) if axis is None else moveaxis(operand(a), axis, 0)
    n = np.shape(x)[0]
    if size is None:
        out = take(x, np.flatnonzero(_known("compress", "the condition, or size=,", condition)[:n]), 0)
        return out if axis is None else moveaxis(out, 0, axis)
    (positions,) = nonzero(asarray(condition)[:n], size=size, fill_value=n)
    rows = take(x, clip(positions, 0, n - 1), 0, mode="promise_in_bounds")
    inside = reshape(positions < n, (size, *(1,) * (np.ndim(x) - 1)))
    out = where(inside, rows, fill_value)
    return out if axis is None else moveaxis(out, 0, axis)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements where a condition is true, as a vector; `size` and `fill_value` as for `compress`."""
    flat = ravel(condition) if isinstance(condition, Tensor) else np.ravel(condition)
    return compress(flat, ravel(arr), size=size, fill_value=fill_value)


@library
def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Tensor:
    """Selects `choices[i]` for each integer i of `a`; its element at the same position is the result.

    Args:
      a: integers.
      choices: arrays, or one array with them along its leading axis; all are broadcast with `a`.
      out: not used.
      mode: the treatment of integers out of range: "clip" or "wrap"; "raise" clamps them too, because a trace cannot raise.
    """
    if mode not in ("raise", "clip", "wrap"):
        raise ShapeError(f"choose requires mode raise, clip or wrap, got {mode!r}.", where=user_frame())
    number = require_integer("choose", tensor(a), bools=True)
    arrays = list(choices)
    number = convert(number, Defaults.int) if number.dtype.kind == "b" else number
    number = number % len(arrays) if mode == "wrap" else clip(number, 0, len(arrays) - 1)
    number, *values = broadcast_arrays(number, *arrays)
    result = values[0]
    for k, value in enumerate(values[1:], 1):
        result = where(number == k, value, result)
    return result


# ---------------------------------------------------------------- updates
def _put(name: str, x: Any, result: Any, inplace: bool) -> Any:
    """Returns the result, or assigns it to `x` and returns None, as in NumPy."""
    if not inplace:
        return result
    if not isinstance(x, (Array, Tensor)):
        raise CopyError(
            f"{name} requires inplace=False or an array of nabla_mlir, got {type(x).__name__}.",
            where=user_frame(),
            help="with inplace=False the result is the new array.",
        )
    x[...] = result
    return None


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """Replaces the elements at indices of the flattened array by `v`, which is repeated.

    Args:
      a: an array.
      ind: integers.
      v: the new elements.
      mode: the treatment of indices out of range: "clip" or "wrap"; None drops them.
      inplace: whether it is assigned to the array, as by ``x[...] = result``, and the result is None.

    Raises:
      CopyError: `inplace` is True for an array of NumPy or another system.
    """
    x, positions, values = asarray(a), ravel(ind), ravel(v)
    if mode in ("clip", "wrap"):
        positions = clip(positions, 0, x.size - 1) if mode == "clip" else positions % x.size
    if not positions.size or not values.size:
        return _put("put", a, x, inplace)
    values = resize(values, (positions.size,))
    return _put("put", a, reshape(ravel(x).at[positions].set(values.astype(x.dtype)), x.shape), inplace)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """Replaces the elements where `mask` is true by the elements of `vals` in order, which are repeated.

    Raises:
      CopyError: `inplace` is True for an array of NumPy or another system.
    """
    x, is_chosen, values = asarray(arr), ravel(mask), ravel(vals)
    count = is_chosen.astype(Defaults.int).cumsum() - 1
    result = where(is_chosen, take(values, count % values.size, mode="promise_in_bounds").astype(x.dtype), ravel(x))
    return _put("place", arr, reshape(result, x.shape), inplace)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: Any = None) -> Any:
    """Replaces the element at each index of `indices` along `axis`.

    Args:
      arr: an array.
      indices: integers, with the same number of axes as `arr`.
      values: the new elements; they are broadcast.
      axis: the axis of the indices; None flattens.
      inplace: whether it is assigned to the array, as by ``x[...] = result``, and the result is None.
      mode: the treatment of indices out of range; they are dropped.

    Raises:
      CopyError: `inplace` is True for an array of NumPy or another system.
    """
    x = asarray(arr)
    if axis is None:
        out = put_along_axis(ravel(x), ravel(indices), values, 0, inplace=False)
        return _put("put_along_axis", arr, reshape(out, x.shape), inplace)
    axis_number = axis_of("put_along_axis", axis, x.ndim)
    grid = [reshape(arange(n), tuple(n if i == d else 1 for i in range(x.ndim))) for d, n in enumerate(x.shape)]
    grid[axis_number] = asarray(indices)
    return _put("put_along_axis", arr, x.at[tuple(grid)].set(values), inplace)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """Sets the diagonal of `a`, along all axes, to `val`.

    Args:
      a: an array whose axes have one length, or a matrix.
      val: the new elements, which are repeated.
      wrap: True continues the diagonal of a tall matrix at the first column after its last column.
      inplace: whether it is assigned to the array, as by ``x[...] = result``, and the result is None.

    Raises:
      CopyError: `inplace` is True for an array of NumPy or another system.
    """
    x = asarray(a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(f"fill_diagonal requires a matrix or axes of one length, got shape {x.shape}.", where=user_frame())
    step = 1 + sum(math.prod(x.shape[d:]) for d in range(1, x.ndim)) if x.ndim > 2 else x.shape[1] + 1
    stop = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] * x.shape[1])
    return _put("fill_diagonal", a, put(x, np.arange(0, stop, step), val, inplace=False), inplace)


# ---------------------------------------------------------------- order
@library
def partition(a: ArrayLike, kth: Static[Any], axis: Static[int | None] = -1) -> Tensor:
    """Reorders elements so that the kth has its sorted position, smaller elements before and larger after it; sorts all."""
    _check_kth("partition", a, kth, axis)
    return sort(a, axis)


@library
def argpartition(a: ArrayLike, kth: Static[Any], axis: Static[int | None] = -1) -> Tensor:
    """The indices of the elements of `partition`."""
    _check_kth("argpartition", a, kth, axis)
    return argsort(a, axis)


def _check_kth(name: str, a: Any, kth: Any, axis: int | None) -> None:
    """Raises ShapeError if a sorted position `kth` is outside the axis."""
    n = math.prod(np.shape(a)) if axis is None else np.shape(a)[axis_of(name, axis, np.ndim(a))]
    for k in kth if isinstance(kth, (tuple, list)) else (kth,):
        if not -n <= k < n:
            raise ShapeError(f"{name} requires -{n} <= kth < {n}, got {k}.", where=user_frame())


@library
def lexsort(keys: Sequence[Any], axis: Static[int] = -1) -> Tensor:
    """The indices that sort by the last key, then by the key before it, and so on.

    Example:
      >>> lexsort([np.array([2, 1, 1]), np.array([0, 1, 0])]).tolist()
      [2, 0, 1]
    """
    arrays = [tensor(k) for k in keys]
    order = argsort(arrays[0], axis)
    for key in arrays[1:]:
        ranks = argsort(take_along_axis(key, order, axis, mode="promise_in_bounds"), axis)
        order = take_along_axis(order, ranks, axis, mode="promise_in_bounds")
    return order


@library
def diagflat(v: ArrayLike, k: Static[int] = 0) -> Tensor:
    """A matrix with the flattened array on its k-th diagonal."""
    return diag(ravel(v), k)


@library
def sort_complex(a: ArrayLike) -> Tensor:
    """Sorts elements as complex numbers, by real parts, then by imaginary parts."""
    x = inexact(a)
    x = convert(x, np.promote_types(x.dtype, np.complex64))
    return sort(x)


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Moves one axis of `a` before the axis `start`."""
    ndim = np.ndim(a)
    axis_number, target = axis_of("rollaxis", axis, ndim), start + ndim if start < 0 else start
    return moveaxis(a, axis_number, target - (axis_number < target))
