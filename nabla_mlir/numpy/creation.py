"""Creates arrays: constants, ranges, and patterns of zeros and ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import ConcretizationError, DtypeError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype, is_float
from nabla_mlir.numpy.axes import axes_of, axis_of, padded, shape_of
from nabla_mlir.numpy.inspection import placed
from nabla_mlir.numpy.operands import convert, inexact_dtype, require_integer, tensor
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.einsum import diagonal as diagonal_of
from nabla_mlir.ops.shape import reshaped, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_to, is_scalar, promote_dtypes, scalar_dtype
from nabla_mlir.table.tensor import Tensor, constant
from nabla_mlir.table.tensor import full as splat


@placed
@library
def full(shape: Static[Any], fill_value: Any, dtype: DTypeLike | None = None, *, device: Any = None) -> Tensor:
    """An array of `shape`, filled with `fill_value` (broadcast); by default with the dtype of the value."""
    shape = shape_of("full", shape)
    if is_scalar(fill_value):
        return splat(shape, fill_value, scalar_dtype(fill_value) if dtype is None else as_dtype(dtype))
    value = tensor(fill_value)
    return broadcast_to(value if dtype is None else convert(value, dtype), shape)


@placed
@library
def zeros(shape: Static[Any], dtype: DTypeLike | None = None, *, device: Any = None) -> Tensor:
    """An array of zeros; the default dtype is the default float dtype."""
    return splat(shape_of("zeros", shape), 0, Defaults.float if dtype is None else as_dtype(dtype))


@placed
@library
def ones(shape: Static[Any], dtype: DTypeLike | None = None, *, device: Any = None) -> Tensor:
    """An array of ones; the default dtype is the default float dtype."""
    return splat(shape_of("ones", shape), 1, Defaults.float if dtype is None else as_dtype(dtype))


@placed
@library
def empty(shape: Static[Any], dtype: DTypeLike | None = None, *, device: Any = None) -> Tensor:
    """An array of zeros, because arrays of nabla_mlir always have values."""
    return splat(shape_of("empty", shape), 0, Defaults.float if dtype is None else as_dtype(dtype))


def _like(x: Any, shape: Any, dtype: Any) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and the dtype of an array like `x`, where `shape` and `dtype` replace those of `x` unless they are None."""
    if isinstance(x, (list, tuple)) or is_scalar(x):
        x = tensor(x)
    return tuple(x.shape) if shape is None else shape_of("full_like", shape), as_dtype(x.dtype if dtype is None else dtype)


@placed
@library
def full_like(
    a: ArrayLike, fill_value: Any, dtype: DTypeLike | None = None, shape: Static[Any] = None, *, device: Any = None
) -> Tensor:
    """An array filled with a value, by default with the shape and dtype of `a`; see `full`."""
    like, dtype = _like(a, shape, dtype)
    if is_scalar(fill_value):
        return splat(like, fill_value, dtype)
    return broadcast_to(convert(tensor(fill_value), dtype), like)


@placed
@library
def zeros_like(a: ArrayLike, dtype: DTypeLike | None = None, shape: Static[Any] = None, *, device: Any = None) -> Tensor:
    """Zeros of the shape and dtype of `a`."""
    like, dtype = _like(a, shape, dtype)
    return splat(like, 0, dtype)


@placed
@library
def ones_like(a: ArrayLike, dtype: DTypeLike | None = None, shape: Static[Any] = None, *, device: Any = None) -> Tensor:
    """Ones of the shape and dtype of `a`."""
    like, dtype = _like(a, shape, dtype)
    return splat(like, 1, dtype)


@placed
@library
def empty_like(prototype: Any, dtype: DTypeLike | None = None, shape: Static[Any] = None, *, device: Any = None) -> Tensor:
    """Zeros of the shape and dtype of `prototype`."""
    like, dtype = _like(prototype, shape, dtype)
    return splat(like, 0, dtype)


def iota(shape: Sequence[int], axis: int, dtype: Any = np.int32) -> Tensor:
    """0, 1, 2, ... along one axis."""
    return sh.iota(shape=tuple(shape), dtype=as_dtype(dtype), iota_dimension=axis)


@placed
@library
def arange(
    start: Static[Any], stop: Static[Any] = None, step: Static[Any] = 1, dtype: DTypeLike | None = None, *, device: Any = None
) -> Tensor:
    """start, start + step, ... below stop; ``arange(n)`` counts from 0.

    Raises:
      DtypeError: a bound is complex.
      ConcretizationError: a bound is traced (the length of the result would depend on values).
    """
    if stop is None:
        start, stop = 0, start
    if any(isinstance(v, Tensor) for v in (start, stop, step)):
        raise ConcretizationError(
            "arange requires concrete bounds, got a traced tensor.",
            where=user_frame(),
            help="pass the length as a static argument, or scale arange(n) with a fixed n.",
        )
    bounds = [v.item() if hasattr(v, "item") else v for v in (start, stop, step)]
    start, stop, step = bounds
    if any(isinstance(v, complex) for v in bounds):
        raise DtypeError(f"arange requires real bounds, got {start}, {stop} and {step}.", where=user_frame())
    if step == 0:
        raise ShapeError("arange requires a step that is not 0, got 0.", where=user_frame())
    dtype = promote_dtypes(bounds) if dtype is None else as_dtype(dtype)
    n = max(0, math.ceil((stop - start) / step))
    if n <= 1:
        return splat((n,), start, dtype)
    out = iota((n,), 0, dtype)
    out = out if step == 1 else out * (step if is_float(dtype) else int(step))
    return out if start == 0 else out + (start if is_float(dtype) else int(start))


@placed
@library
def linspace(
    start: Any,
    stop: Any,
    num: Static[int] = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: Static[int] = 0,
    *,
    device: Any = None,
) -> Any:
    """Returns `num` numbers at equal distances from start to stop; the last one is stop unless `endpoint` is False.

    Args:
      start, stop: numbers, or arrays of first and last numbers.
      num: the number of elements along the new axis.
      endpoint: True if `stop` is the last element.
      retstep: True returns the distance too.
      dtype: the dtype of the result.
      axis: the position of the new axis, if start and stop have axes.
      device: the device of the result; inside a trace, the target decides the device.
    """
    if num < 0:
        raise ShapeError(f"linspace requires num of at least 0, got {num}.", where=user_frame())
    kind = inexact_dtype(promote_dtypes([start, stop]))
    final = kind if dtype is None else as_dtype(dtype)
    first, last = (convert(tensor(v), kind) for v in (start, stop))
    gaps = num - 1 if endpoint else num
    if is_scalar(start) and is_scalar(stop) and num <= thresholds.LINSPACE_TABLE:
        out = constant(np.linspace(start, stop, num, endpoint=endpoint).astype(final))
    else:
        part = iota((num,), 0, kind) / max(gaps, 1)
        rank = max(first.ndim, last.ndim)
        part = reshaped(part, (num, *(1,) * rank))
        out = convert(first * (1.0 - part) + last * part, final)  # a weighted mean, so that both ends are exact
        axis_number = axis_of("linspace", axis, rank + 1)
        out = transposed(out, (*range(1, axis_number + 1), 0, *range(axis_number + 1, rank + 1))) if axis_number else out
    if not retstep:
        return out
    return out, (last - first) / gaps if gaps > 0 else full((), np.nan, kind)  # as in NumPy: one number without a gap


@placed
@library
def eye(
    N: Static[int], M: Static[int | None] = None, k: Static[Any] = 0, dtype: DTypeLike | None = None, *, device: Any = None
) -> Tensor:
    """An N by M matrix with ones on the k-th diagonal and zeros elsewhere; `k` may be traced."""
    return convert(_diagonal("eye", N, M, k, "EQ"), Defaults.float if dtype is None else dtype)


def _diagonal(name: str, rows: int, columns: int | None, k: Any, direction: str) -> Tensor:
    """The mask of the elements of a matrix whose row + k compares with their column as `direction` says, such as "GE".

    `k` may be traced. `columns` None means a square matrix.
    """
    columns = rows if columns is None else columns
    if not isinstance(k, Tensor):
        return la.diagonal_mask(rows, columns, operator.index(k), direction)
    offset = convert(require_integer(name, k), np.int32)
    row, column = (iota((rows, columns), axis, np.dtype(np.int32)) for axis in (0, 1))
    return lg.compare(row + offset, column, comparison_direction=direction)


@library
def identity(n: Static[int], dtype: DTypeLike | None = None) -> Tensor:
    """The unit matrix."""
    return convert(la.diagonal_mask(n, n, 0, "EQ"), Defaults.float if dtype is None else dtype)


@library
def tri(N: Static[int], M: Static[int | None] = None, k: Static[Any] = 0, dtype: DTypeLike | None = None) -> Tensor:
    """An N by M matrix with ones on and below the k-th diagonal; `k` may be traced."""
    return convert(_diagonal("tri", N, M, k, "GE"), Defaults.float if dtype is None else dtype)


def _matrices(name: str, x: Any) -> Tensor:
    """The array `x` as a tensor; raises ShapeError if it has fewer than two axes. `name` is the called function, for errors."""
    x = tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"{name} requires at least 2 axes, got shape {x.shape}.", where=user_frame())
    return x


@library
def tril(m: ArrayLike, k: Static[int] = 0) -> Tensor:
    """The lower triangle of the last two axes, with zeros above the k-th diagonal."""
    return la.masked(_matrices("tril", m), "GE", k)


@library
def triu(m: ArrayLike, k: Static[int] = 0) -> Tensor:
    """The upper triangle of the last two axes, with zeros below the k-th diagonal."""
    return la.masked(_matrices("triu", m), "LT", k - 1)


@library
def diagonal(a: ArrayLike, offset: Static[int] = 0, axis1: Static[int] = 0, axis2: Static[int] = 1) -> Tensor:
    """The elements a[i, i + offset] of two axes, which become the last axis."""
    x = _matrices("diagonal", a)
    axis1, axis2 = axes_of("diagonal", (axis1, axis2), x.ndim)
    return diagonal_of(x, axis1, axis2, offset)


@library
def diag(v: ArrayLike, k: Static[int] = 0) -> Tensor:
    """The k-th diagonal of a matrix; for a vector, the matrix with this k-th diagonal."""
    x = tensor(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag requires a vector or a matrix, got shape {x.shape}.", where=user_frame())
    n = x.shape[0] + abs(k)
    row = padded(x, 0, max(k, 0), max(-k, 0)) if k else x
    spread = sh.broadcast_in_dim(row, shape=(n, n), broadcast_dimensions=(1,))
    return lg.select(la.diagonal_mask(n, n, k, "EQ"), spread, splat((n, n), 0, x.dtype))


@library
def meshgrid(*xs: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid: each vector is repeated along the axes of the others ("xy" swaps axes 0 and 1).

    With `sparse`, the axes of the other vectors have length 1. `copy` has no effect: the results are separate arrays.
    """
    vectors = [reshaped(v, (v.size,)) for v in map(tensor, xs)]
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"meshgrid requires indexing 'xy' or 'ij', got {indexing!r}.", where=user_frame())
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = [0] * len(order)
    for v, d in zip(vectors, order, strict=True):
        shape[d] = v.size
    if sparse:
        rank = len(shape)
        return tuple(reshaped(v, (*(1,) * d, v.size, *(1,) * (rank - d - 1))) for v, d in zip(vectors, order, strict=True))
    return tuple(sh.broadcast_in_dim(v, shape=tuple(shape), broadcast_dimensions=(d,)) for v, d in zip(vectors, order, strict=True))
