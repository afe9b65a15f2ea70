"""Interpolation in arrays under the name of `scipy.ndimage`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.ops.elementwise import round_nearest_afz
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


def _reflected(i: Any, n: int) -> Any:
    """The indices reflected at the edges of an axis of length n; the edge element is repeated."""
    i = i % (2 * n)
    return nnp.where(i < n, i, 2 * n - 1 - i)


def _mirrored(i: Any, n: int) -> Any:
    """The indices `i` reflected at the first and last of n elements, which are not repeated: for n
    = 3, 0 1 2 3 4 give 0 1 2 1 0.
    """
    period = max(2 * n - 2, 1)
    i = i % period
    return nnp.where(i < n, i, period - i)


# For each mode: a function from any integer to the index of an element.
_MODES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda i, n: nnp.clip(i, 0, n - 1),
    "nearest": lambda i, n: nnp.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": _mirrored,
    "reflect": _reflected,
}


@library
def map_coordinates(input: Any, coordinates: Sequence[Any], order: Static[int], mode: str = "constant", cval: Any = 0.0) -> Tensor:
    """Interpolates an array at coordinates: by the nearest element (order 0), or linearly (order 1).

    An array of integers gives the nearest integers; halves are rounded away from zero.

    Args:
      input: an array.
      coordinates: for each axis, an array of the coordinates along it; all arrays have one shape.
      order: 0 or 1.
      mode: the extension outside the array: "constant" (`cval`), "nearest", "wrap", "mirror" (about the middle of the last
        element) or "reflect" (about its edge).
      cval: the value outside the array for "constant".

    Raises:
      ShapeError: the order or the mode is unknown, or the number of coordinates is not the number of axes.

    Example:
      >>> map_coordinates(np.array([0.0, 10.0, 20.0]), [np.array([0.5, 1.25])], order=1).tolist()
      [5.0, 12.5]
    """
    x = nnp.asarray(input)
    if order not in (0, 1) or mode not in _MODES:
        raise ShapeError(
            f"map_coordinates requires order 0 or 1 and a mode among {', '.join(_MODES)}, got {order} and {mode!r}.",
            where=user_frame(),
        )
    if len(coordinates) != x.ndim:
        raise ShapeError(
            f"map_coordinates requires coordinates for each of {x.ndim} axes, got {len(coordinates)}.", where=user_frame()
        )
    positions = [nnp.asarray(c) for c in coordinates]
    sides = [_neighbours(position, order) for position in positions]
    total: Any = 0
    for corner in itertools.product(*sides):
        at = tuple(_MODES[mode](i, n) for (i, _), n in zip(corner, x.shape, strict=True))
        value = x[at]
        if mode == "constant":
            inside = [(i >= 0) & (i < n) for (i, _), n in zip(corner, x.shape, strict=True)]
            value = nnp.where(math.prod(inside[1:], start=inside[0]), value, nnp.asarray(cval, dtype=x.dtype))
        total = total + math.prod((w for _, w in corner[1:]), start=corner[0][1]) * value
    return total.astype(x.dtype) if x.dtype.kind in "fcV" else round_nearest_afz(total).astype(x.dtype)


def _neighbours(position: Any, order: int) -> list[tuple[Any, Any]]:
    """The indices next to a position, each with its weight: one index for order 0, two for order 1."""
    index = np.dtype(np.int32)
    if order == 0 or position.dtype.kind in "iu":
        nearest = position if position.dtype.kind in "iu" else nnp.trunc(position + nnp.copysign(0.5, position))
        return [(nearest.astype(index), nnp.ones_like(nearest))]
    below = nnp.floor(position)
    weight = position - below
    return [(below.astype(index), 1 - weight), (below.astype(index) + 1, weight)]
