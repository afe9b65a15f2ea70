"""Functions that join and split arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.numpy.axes import axis_of, joined
from nabla_mlir.numpy.logic import not_equal
from nabla_mlir.numpy.operands import common_dtype, convert, tensor
from nabla_mlir.numpy.shapes import atleast_3d
from nabla_mlir.ops.shape import reshaped, sliced
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor


def _tensors(name: str, xs: Sequence[Any], dtype: Any = None) -> list[Tensor]:
    """The arrays, or the slices of one array, as tensors of one dtype; raises ShapeError if there are none.

    `name` is the called function, for errors. Without `dtype`, the arrays promote to a common one.
    """
    if isinstance(xs, Tensor):
        xs = unstack(xs)
    if not len(xs):
        raise ShapeError(f"{name} requires at least one array, got none.", where=user_frame())
    dtype = common_dtype(xs) if dtype is None else dtype
    return [convert(tensor(x), dtype) for x in xs]


@library
def concatenate(arrays: Sequence[Any], axis: Static[int | None] = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Concatenates arrays along `axis`; None flattens them first.

    Raises:
      ShapeError: the lengths of the other axes differ.

    Example:
      >>> import numpy as np
      >>> concatenate([np.array([1.0]), np.array([2.0, 3.0])]).tolist()
      [1.0, 2.0, 3.0]
    """
    tensors = _tensors("concatenate", arrays, dtype)
    if axis is None:
        tensors, axis = [reshaped(x, (x.size,)) for x in tensors], 0
    return _joined("concatenate", tensors, axis)


concat = concatenate


def _joined(name: str, xs: Sequence[Tensor], axis: int) -> Tensor:
    """The arrays concatenated along an axis; raises ShapeError if their other axes differ. `name` is the called function."""
    axis = axis_of(name, axis, xs[0].ndim)
    others = {x.shape[:axis] + x.shape[axis + 1 :] if x.ndim == xs[0].ndim else x.shape for x in xs}
    if len(others) > 1:
        raise ShapeError(
            f"{name} requires arrays whose shapes differ in axis {axis} only, got {' and '.join(str(x.shape) for x in xs)}.",
            where=user_frame(),
        )
    return joined(xs, axis)


@library
def stack(arrays: Sequence[Any], axis: Static[int] = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Arrays of one shape joined along a new axis.

    Raises:
      ShapeError: the shapes differ.
    """
    tensors = _tensors("stack", arrays, dtype)
    if len({x.shape for x in tensors}) > 1:
        raise ShapeError(
            f"stack requires arrays of one shape, got {' and '.join(str(x.shape) for x in tensors)}.", where=user_frame()
        )
    shape = tensors[0].shape
    axis = axis_of("stack", axis, len(shape) + 1)
    return joined([reshaped(x, (*shape[:axis], 1, *shape[axis:])) for x in tensors], axis)


@library
def vstack(tup: Sequence[Any], dtype: DTypeLike | None = None) -> Tensor:
    """Joins arrays along the first axis; vectors are rows. `tup` is a sequence of arrays."""
    tensors = [reshaped(x, (1, x.size)) if x.ndim < 2 else x for x in _tensors("vstack", tup, dtype)]
    return _joined("vstack", tensors, 0)


@library
def hstack(tup: Sequence[Any], dtype: DTypeLike | None = None) -> Tensor:
    """Joins arrays along the second axis, and vectors along the first. `tup` is a sequence of arrays."""
    tensors = [reshaped(x, (1,)) if x.ndim == 0 else x for x in _tensors("hstack", tup, dtype)]
    return _joined("hstack", tensors, 0 if tensors[0].ndim == 1 else 1)


@library
def dstack(tup: Sequence[Any], dtype: DTypeLike | None = None) -> Tensor:
    """Joins arrays along the third axis."""
    return _joined("dstack", [atleast_3d(x) for x in _tensors("dstack", tup, dtype)], 2)


@library
def column_stack(tup: Sequence[Any]) -> Tensor:
    """Joins arrays along the second axis; vectors are columns. `tup` is a sequence of arrays."""
    tensors = [reshaped(x, (x.size, 1)) if x.ndim < 2 else x for x in _tensors("column_stack", tup)]
    return _joined("column_stack", tensors, 1)


def _cut(x: Tensor, axis: int, positions: Sequence[int]) -> list[Tensor]:
    """The parts of `x` between positions along an axis; a position counts like the bound of a slice.

    Example: length 5 and positions [2, 4] give parts of the lengths 2, 2 and 1.
    """
    n = x.shape[axis]
    bounds = [slice(a, b).indices(n)[:2] for a, b in zip([0, *positions], [*positions, n], strict=True)]
    return [sliced(x, axis, a, max(a, b)) for a, b in bounds]


@library
def split(ary: ArrayLike, indices_or_sections: Static[Any], axis: Static[int] = 0) -> list[Tensor]:
    """Splits `ary` along `axis` into a number of equal parts, or at the indices of a list.

    Raises:
      ShapeError: the length is not a multiple of the number of parts.
    """
    x = tensor(ary)
    axis_number = axis_of("split", axis, x.ndim)
    n = x.shape[axis_number]
    if isinstance(indices_or_sections, (list, tuple, np.ndarray, Array)):
        return _cut(x, axis_number, [operator.index(i) for i in indices_or_sections])
    parts = operator.index(indices_or_sections)
    if parts <= 0 or n % parts:
        raise ShapeError(
            f"split requires a number of parts that divides the length {n}, got {parts}.",
            where=user_frame(),
            help="use array_split for parts of unequal lengths.",
        )
    return _cut(x, axis_number, range(n // parts, n, n // parts) if n else [0] * (parts - 1))


@library
def array_split(ary: ArrayLike, indices_or_sections: Static[Any], axis: Static[int] = 0) -> list[Tensor]:
    """Splits an array like `split`; the first parts may be longer by one element."""
    if isinstance(indices_or_sections, (list, tuple, np.ndarray, Array)):
        return split(ary, indices_or_sections, axis)
    x = tensor(ary)
    axis_number, parts = axis_of("array_split", axis, x.ndim), operator.index(indices_or_sections)
    size, longer = divmod(x.shape[axis_number], parts)
    return _cut(x, axis_number, [i * size + min(i, longer) for i in range(1, parts)])


@library
def unstack(x: ArrayLike, axis: Static[int] = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis`, without that axis."""
    x = tensor(x)
    axis_number = axis_of("unstack", axis, x.ndim)
    shape = x.shape[:axis_number] + x.shape[axis_number + 1 :]
    return tuple(reshaped(sliced(x, axis_number, i, i + 1), shape) for i in range(x.shape[axis_number]))


@library
def diff(a: ArrayLike, n: Static[int] = 1, axis: Static[int] = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences between neighbours along `axis`, n times, with `prepend` and `append` at the ends unless n is 0."""
    x = tensor(a)
    axis_number = axis_of("diff", axis, x.ndim)
    ends = [None if e is None or not n else _end(x, axis_number, e) for e in (prepend, append)]
    if ends != [None, None]:
        x = concatenate([e for e in (ends[0], x, ends[1]) if e is not None], axis_number)
    for _ in range(n):
        length = x.shape[axis_number]
        high, low = sliced(x, axis_number, min(1, length), length), sliced(x, axis_number, 0, max(length - 1, 0))
        x = not_equal(high, low) if x.dtype.kind == "b" else high - low
    return x


def _end(x: Tensor, axis: int, end: Any) -> Tensor:
    """The array that `diff` adds at an end: a scalar gets the shape of one slice of `x`."""
    end = tensor(end)
    if end.ndim:
        return end
    return broadcast_to(end, tuple(1 if d == axis else n for d, n in enumerate(x.shape)))
