"""Index arrays, grids, and short notations: `ix_`, `mgrid`, `r_` and similar objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import IndexValueError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.numpy.creation import arange, linspace
from nabla_mlir.numpy.joining import concatenate, stack
from nabla_mlir.numpy.logic import clip, where
from nabla_mlir.numpy.operands import asarray, require_integer, tensor
from nabla_mlir.numpy.shapes import atleast_1d
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor

s_: Any = np.s_
index_exp: Any = np.index_exp


# ---------------------------------------------------------------- known indices
def _positions(arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """Converts NumPy indices to arrays of the default integer dtype."""
    return tuple(asarray(a.astype(Defaults.int)) for a in arrays)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The rows and columns of the elements on and below the k-th diagonal of an n by m matrix.

    Example:
      >>> [i.tolist() for i in tril_indices(2)]
      [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = _positions(np.tril_indices(n, k, m))
    return rows, columns


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The rows and columns of the elements on and above the k-th diagonal of an n by m matrix."""
    rows, columns = _positions(np.triu_indices(n, k, m))
    return rows, columns


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """The indices of the lower triangle of a matrix; see `tril_indices`."""
    return tril_indices(np.shape(arr)[-2], k, np.shape(arr)[-1])


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """The indices of the upper triangle of a matrix; see `triu_indices`."""
    return triu_indices(np.shape(arr)[-2], k, np.shape(arr)[-1])


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the diagonal of an array with `ndim` axes of length n."""
    return _positions(np.diag_indices(n, ndim))


def diag_indices_from(arr: ArrayLike) -> tuple[Any, ...]:
    """The indices of the diagonal of an array.

    Raises:
      ShapeError: the array has one axis, or the lengths of its axes differ.
    """
    shape = np.shape(arr)
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ShapeError(f"diag_indices_from requires axes of one length, at least two, got {shape}.", where=user_frame())
    return diag_indices(shape[0], len(shape))


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0) -> tuple[Any, Any]:
    """The rows and columns where ``mask_func(ones((n, n)), k)`` is not 0."""
    rows, columns = _positions(np.nonzero(np.asarray(mask_func(np.ones((n, n), np.int32), k))))
    return rows, columns


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The indices of all elements along each axis of a shape, stacked; `sparse` gives a tuple of arrays that broadcast.

    Example:
      >>> indices((2, 2)).tolist()
      [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    kind = Defaults.int if dtype is None else dtype
    if sparse:
        return tuple(asarray(a, kind) for a in np.indices(dimensions, sparse=True))
    return asarray(np.indices(dimensions), kind)


def ix_(*args: Any) -> tuple[Any, ...]:
    """Index arrays for all combinations of the elements of vectors.

    Raises:
      ShapeError: an argument is not a vector.
    """
    vectors = [asarray(a) for a in args]
    for v in vectors:
        if v.ndim != 1:
            raise ShapeError(f"ix_ requires vectors, got shape {v.shape}.", where=user_frame())
    return tuple(v.reshape((1,) * d + (v.size,) + (1,) * (len(vectors) - d - 1)) for d, v in enumerate(vectors))


# ---------------------------------------------------------------- flat indices
@library
def unravel_index(indices: Any, shape: Static[Any]) -> tuple[Tensor, ...]:
    """Converts indices of the flattened array to indices along the axes of a shape; indices out of range are clamped.

    Example:
      >>> [int(i) for i in unravel_index(5, (2, 3))]
      [1, 2]
    """
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    total = math.prod(lengths)
    remaining = require_integer("unravel_index", tensor(indices))
    remaining = clip(where(remaining < 0, remaining + total, remaining), 0, total - 1)
    out = []
    for n in reversed(lengths):
        out.append(remaining % n)
        remaining = remaining // n
    return tuple(reversed(out))


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: str = "raise", order: str = "C", *, dtype: DTypeLike | None = None
) -> Tensor:
    """Converts indices along the axes of an array to an index of the flattened array.

    Args:
      multi_index: an integer array for each axis.
      dims: the shape.
      mode: the treatment of indices out of range: "wrap", "clip" or "raise" (the default). Traced indices are not checked.
        "ignore" checks nothing.
      order: "C" or "F".
      dtype: the dtype of the result.

    Raises:
      ShapeError: the mode or the order is unknown, or the number of index arrays is not that of the axes.
      IndexValueError: the mode is "raise", and an index is out of range.

    Example:
      >>> int(ravel_multi_index((1, 2), (2, 3)))
      5
    """
    if mode not in ("raise", "wrap", "clip", "ignore") or order not in ("C", "F"):
        raise ShapeError(
            f"ravel_multi_index requires mode raise, wrap or clip and order C or F, got {mode!r} and {order!r}.", where=user_frame()
        )
    indices, lengths = list(multi_index), tuple(dims)
    if len(indices) != len(lengths):
        raise ShapeError(
            f"ravel_multi_index requires an index array for each axis of {lengths}, got {len(indices)}.", where=user_frame()
        )
    for d, (index, n) in enumerate(zip(indices, lengths, strict=True)):
        if mode == "raise" and not isinstance(index, Tensor) and np.size(index):
            known = np.asarray(index)
            if known.dtype.kind in "biu" and (known.min() < 0 or known.max() >= n):
                raise IndexValueError(
                    f"ravel_multi_index requires indices from 0 to {n - 1} along axis {d}, got {known.min()} to {known.max()}.",
                    where=user_frame(),
                    help='mode="wrap" and mode="clip" accept others.',
                )
    out = _raveled(indices, lengths, mode, order)
    return out if dtype is None else out.astype(dtype)


@library
def _raveled(indices: Any, lengths: Static[Any], mode: str, order: str) -> Tensor:
    """The index of the flattened array, by the Horner rule over the lengths.

    `mode` brings indices into range: "wrap", "clip", or neither. `order` is "C" if the last axis varies fastest, else "F".
    """
    parts = list(zip(indices, lengths, strict=True))
    total: Any = 0
    for index, n in parts if order == "C" else reversed(parts):
        position = require_integer("ravel_multi_index", tensor(index))
        position = position % n if mode == "wrap" else clip(position, 0, n - 1) if mode == "clip" else position
        total = total * n + position
    return tensor(total)


# ---------------------------------------------------------------- objects with brackets
def _steps(key: slice) -> Any:
    """The numbers of the slice `key`: a range, or as many equal steps as the absolute value of an imaginary step says.

    Example: 0:4:2 gives [0, 2], and 0:1:3j gives [0, 0.5, 1].
    """
    start = 0 if key.start is None else key.start
    if isinstance(key.step, complex):
        return linspace(start, key.stop, int(abs(key.step)))
    return arange(start, key.stop, 1 if key.step is None else key.step)


class _Grid:
    """``mgrid[0:2, 0:3]``: the stacked coordinates of a grid; ``ogrid`` returns arrays that broadcast."""

    def __init__(self, dense: bool):
        self._dense = dense

    def __getitem__(self, key: Any) -> Any:
        """The numbers of a slice, or the grid of several slices: one stacked array if dense, else a list of arrays that
        broadcast.
        """
        if isinstance(key, slice):
            return _steps(key)
        vectors = [_steps(k) for k in key]
        if not vectors:
            return asarray(np.zeros(0, Defaults.int)) if self._dense else []
        dtype = np.result_type(*(v.dtype for v in vectors))
        shape = tuple(v.shape[0] for v in vectors)
        rows = [v.astype(dtype).reshape((1,) * d + (v.shape[0],) + (1,) * (len(vectors) - d - 1)) for d, v in enumerate(vectors)]
        return stack([_spread(r, shape) for r in rows]) if self._dense else rows


@library
def _spread(x: Any, shape: Static[Any]) -> Tensor:
    """Broadcasts `x` to a shape by adding zeros."""
    return tensor(x) + np.zeros(shape, x.dtype)


mgrid: _Grid = _Grid(dense=True)
ogrid: _Grid = _Grid(dense=False)


class _Joined:
    """``r_[1:4, 0, x]`` concatenates ranges, numbers and arrays; ``c_`` joins them as columns.

    The first item may be a string of up to three integers, such as "0,2,1". The first integer is the axis along which arrays are
    joined. The second is the smallest number of axes; an array with fewer axes gets new ones of length 1. The third is the index
    that the first old axis then has. With the string "r" a vector becomes a row, with "c" a column.
    """

    def __init__(self, directions: tuple[int, int, int]):
        self._directions = directions

    def __getitem__(self, key: Any) -> Any:
        """The ranges, numbers and arrays in `key`, joined along an axis; a word as first item, such as "r" or "0,2", gives
        directions.
        """
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans = self._directions
        matrix = ""
        if isinstance(items[0], str):
            word = items.pop(0)
            if word in ("r", "c"):
                matrix = word
            else:
                axis, ndmin, trans = self._read(word)
        if any(isinstance(item, str) for item in items):
            raise ShapeError("r_ and c_ require ranges, numbers and arrays, got a string.", where=user_frame())
        out = concatenate([self._part(item, ndmin, trans) for item in items], axis)
        return out if not matrix or out.ndim > 1 else out[None] if matrix == "r" else out[:, None]

    def _read(self, word: str) -> tuple[int, int, int]:
        """The axis, the least number of axes and the position of the shape, from a string such as "0,2,1"."""
        try:
            numbers = [int(part) for part in word.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            raise ShapeError(f"r_ and c_ require 'r', 'c' or up to three integers as string, got {word!r}.", where=user_frame())
        axis, ndmin, trans = (*numbers, *self._directions[len(numbers) :])
        return axis, ndmin, trans

    @staticmethod
    def _part(item: Any, ndmin: int, trans: int) -> Any:
        """The array of an item, with at least `ndmin` axes.

        The axes that it already has begin at the position `trans`, where -1 is the last possible position.
        """
        part = _steps(item) if isinstance(item, slice) else atleast_1d(item) if ndmin < 2 or np.ndim(item) else asarray(item)
        rank = np.ndim(part)
        if rank >= ndmin:
            return part
        missing = ndmin - rank
        first = trans if trans >= 0 else missing + 1 + trans
        before = min(max(first, 0), missing)
        return part.reshape((1,) * before + tuple(part.shape) + (1,) * (missing - before))


r_: _Joined = _Joined((0, 1, -1))
c_: _Joined = _Joined((-1, 2, 0))
