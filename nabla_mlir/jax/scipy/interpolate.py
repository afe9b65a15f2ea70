"""Interpolation on grids under the name of `scipy.interpolate`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.staging.eager import staged


class RegularGridInterpolator:
    """Interpolates values on a grid of n axes: linearly along each axis, or by the value of the nearest grid point.

    Args:
      points: for each axis, the increasing coordinates of the grid.
      values: the values at the grid points; the first axes are those of the grid.
      method: "linear" or "nearest".
      bounds_error: must be False, because the coordinates are not known in a trace.
      fill_value: the value outside the grid; None extrapolates from the outermost cell.

    Raises:
      ShapeError: the method is unknown, or the points do not fit the values.

    Example:
      >>> f = RegularGridInterpolator((np.array([0.0, 1.0]), np.array([0.0, 2.0])), np.array([[0.0, 2.0], [1.0, 3.0]]))
      >>> f(np.array([[0.5, 1.0]])).tolist()
      [1.5]
    """

    grid: tuple[Any, ...]
    values: Any
    method: str
    fill_value: Any

    def __init__(
        self, points: Sequence[Any], values: Any, method: str = "linear", bounds_error: bool = False, fill_value: Any = np.nan
    ) -> None:
        """Stores the grid and the values; raises ShapeError if their lengths differ."""
        self.method, self.fill_value = _checked(method), fill_value
        if bounds_error:
            raise ShapeError(
                "RegularGridInterpolator requires bounds_error=False, got True.",
                where=user_frame(),
                help="fill_value says what lies outside.",
            )
        self.grid, self.values = tuple(nnp.asarray(p) for p in points), nnp.asarray(values)
        lengths = tuple(p.shape[0] if p.ndim == 1 else -1 for p in self.grid)
        if lengths != self.values.shape[: len(lengths)] or min(lengths, default=0) < 2:
            raise ShapeError(
                f"RegularGridInterpolator requires vectors of at least two points, as long as the axes of the values, got "
                f"{', '.join(str(p.shape) for p in self.grid)} for {self.values.shape}.",
                where=user_frame(),
            )

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at points; `xi` is an array with the coordinates along its last axis, or a tuple of arrays.

        Raises:
          ShapeError: the method is unknown, or the number of coordinates is wrong.
        """
        rule = self.method if method is None else _checked(method)
        return staged(lambda grid, values, xi: self._at(grid, values, xi, rule))(self.grid, self.values, xi)

    def _at(self, grid: Any, values: Any, xi: Any, method: str) -> Any:
        """The interpolated values at the points `xi`; outside of the grid, `fill_value`. Raises ShapeError for another
        number of coordinates.
        """
        positions = nnp.stack(nnp.broadcast_arrays(*xi), axis=-1) if isinstance(xi, tuple) else nnp.asarray(xi)
        if positions.ndim == 1:
            positions = positions[:, None] if len(grid) == 1 else positions[None]
        if positions.shape[-1] != len(grid):
            raise ShapeError(
                f"RegularGridInterpolator requires {len(grid)} coordinates, got shape {positions.shape}.", where=user_frame()
            )
        sides, outside = [], nnp.zeros(positions.shape[:-1], bool)
        for k, points in enumerate(grid):
            x = positions[..., k]
            below = nnp.clip(nnp.searchsorted(points, x, side="right") - 1, 0, points.shape[0] - 2)
            weight = (x - points[below]) / (points[below + 1] - points[below])
            outside = outside | (x < points[0]) | (x > points[-1])
            if method == "nearest":
                sides.append([(nnp.where(weight <= 0.5, below, below + 1), nnp.ones_like(weight))])
            else:
                sides.append([(below, 1 - weight), (below + 1, weight)])
        trailing = (1,) * (values.ndim - len(grid))  # for the axes of values that are not axes of the grid
        total: Any = 0
        for corner in itertools.product(*sides):
            # The weight of a corner is the product of its weights along all axes.
            factor = math.prod((w for _, w in corner[1:]), start=corner[0][1])
            total = total + factor.reshape(factor.shape + trailing) * values[tuple(i for i, _ in corner)]
        if self.fill_value is None:
            return total
        return nnp.where(outside.reshape(outside.shape + trailing), nnp.asarray(self.fill_value, dtype=total.dtype), total)


def _checked(method: str) -> str:
    """The word `method`; raises ShapeError unless it is "linear" or "nearest"."""
    if method not in ("linear", "nearest"):
        raise ShapeError(f"RegularGridInterpolator requires the method linear or nearest, got {method!r}.", where=user_frame())
    return method
