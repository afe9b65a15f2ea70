"""Indices out of range: the modes "clip", "wrap", "fill" and "drop"."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_integer
from nabla_mlir.numpy.axes import padded
from nabla_mlir.numpy.division import remainder
from nabla_mlir.numpy.index_plan import expanded
from nabla_mlir.numpy.operands import convert
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.shape import sliced
from nabla_mlir.table.axis_order import IS_FILL
from nabla_mlir.table.promotion import Defaults, broadcast_to, is_inexact
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.table.vectorized import apply_per_entry


class GatherScatterMode(enum.Enum):
    """The treatment of indices out of range: "clip" clamps them, "fill" and "drop" fill or drop, a promise excludes them."""

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2
    ONE_HOT = 3

    @staticmethod
    def from_any(s: Any) -> GatherScatterMode:
        """The mode with a name; None means "fill" or "drop".

        Raises:
          ShapeError: the name is unknown.

        Example:
          >>> GatherScatterMode.from_any("clip").name
          'CLIP'
        """
        return s if isinstance(s, GatherScatterMode) else _MODES[word_of("indexing", s or "fill")]


_MODES = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


def word_of(name: str, mode: Any) -> str:
    """The word "clip", "wrap", "fill" or "promise_in_bounds" for a mode of JAX, an enum or a word; raises ShapeError for another.

    `name` is the called function, for errors.
    """
    word = {0: "clip", 1: "fill", 2: "promise_in_bounds"}.get(mode.value) if isinstance(mode, GatherScatterMode) else mode
    word = "fill" if word == "drop" else word
    if word not in ("clip", "wrap", "fill", "promise_in_bounds"):
        raise ShapeError(
            f"{name} requires mode 'clip', 'wrap', 'fill', 'drop' or 'promise_in_bounds', got {mode!r}.", where=user_frame()
        )
    return str(word)


def filled(found: Tensor, outside: Tensor, fill_value: ArrayLike) -> Tensor:
    """The array `found`, with `fill_value` where the mask `outside` is true.

    The named axes of the array are the first axes of the result. In `where`, those of the mask are the first.
    """

    def make(entries: list[Tensor]) -> list[Tensor]:
        """A list with the result: the elements that were found, and the fill value where the index is outside.

        `entries` are the elements at the clamped indices, and a mask of those outside.
        """
        found, outside = entries
        result = lg.select(broadcast_to(outside, found.shape), full_like(found, filler(fill_value, found.dtype)), found)
        result.value.owner.attributes[IS_FILL] = ir.UnitAttr.get()
        return [result]

    return apply_per_entry(make, [found, outside])[0]


def filler(fill_value: ArrayLike, dtype: np.dtype) -> Any:
    """The value of a missing element: `fill_value`, or NaN, the smallest signed or largest unsigned integer, or True."""
    if fill_value is not None:
        return fill_value
    if is_inexact(dtype):
        return np.nan
    return True if dtype.kind == "b" else int(np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min)


def brought_inside(i: Any, n: int, mode: str, from_end: bool = True) -> Any:
    """The indices `i` of an axis of length n, in range by a mode: "wrap", "clip" or "fill", which gives n for those out of range.

    Negative indices count from the end if `from_end`, and are out of range otherwise.
    """
    if not isinstance(i, Tensor):
        i = np.asarray(i, np.int64)
        if mode == "wrap":
            return i % n
        i = np.where((i < 0) & from_end, i + n, i)
        return np.where((i < 0) | (i >= n), n, i) if mode == "fill" else np.clip(i, 0, n - 1)
    i = convert(i, Defaults.int) if i.dtype.itemsize < 4 or i.dtype.kind == "u" else i
    if mode == "wrap":
        return remainder(i, n)
    zero, last = full_like(i, 0), full_like(i, n - 1)
    if from_end:
        i = lg.select(lg.compare(i, zero, comparison_direction="LT"), i + n, i)
    if mode != "fill":
        return lg.clamp(zero, i, last)
    outside = lg.logical_or(lg.compare(i, zero, comparison_direction="LT"), lg.compare(i, last, comparison_direction="GT"))
    return lg.select(outside, full_like(i, n), i)


def index_inside(shape: Sequence[int], index: Any, mode: str, from_end: bool = True) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """An index whose integers are in range of `shape`, and the axes that need one more element for "fill"; see `brought_inside`."""
    items: list[Any] = []
    axes: list[int] = []
    axis = 0
    for item in expanded(tuple(shape), index if isinstance(index, tuple) else (index,)):
        if item is None:
            items.append(item)
            continue
        if isinstance(item, int) or (hasattr(item, "dtype") and is_integer(item.dtype)):
            item = brought_inside(item, shape[axis], mode, from_end)
            item = item if isinstance(item, Tensor) or item.ndim else int(item)
            axes += [axis] if mode == "fill" else []
        items.append(item)
        axis += 1
    return tuple(items), tuple(axes)


def longer(x: Tensor, axes: Sequence[int], value: Any) -> Tensor:
    """The array `x` with one more element, `value`, at the end of each of these axes."""
    for axis in axes:
        x = padded(x, axis, 0, 1, value)
    return x


def shorter(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The array `x` without the last element of each of these axes."""
    for axis in axes:
        x = sliced(x, axis, 0, x.shape[axis] - 1)
    return x
