"""Converts axes and shapes from the forms that users give, and moves elements along axes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

from nabla_mlir.base.array_methods import Axis as Axis
from nabla_mlir.base.errors import AxisError, ShapeError, TraceError, user_frame
from nabla_mlir.ops import shape as sh
from nabla_mlir.table.tensor import Tensor, full

Shape = tuple[int, ...]


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """The index of an axis as a number from 0 to ndim - 1; raises AxisError if there is no such axis. `name` is the caller, for
    errors.
    """
    try:
        axis = operator.index(axis)
    except TypeError:
        raise ShapeError(f"{name} requires an integer as axis, got {axis!r}.", where=user_frame(), help=_axis_help(axis)) from None
    if not -ndim <= axis < ndim:
        raise AxisError(f"{name} requires an axis of an array with {ndim} axes, got {axis}.", where=user_frame())
    return axis % ndim


def _axis_help(axis: Any) -> str:
    """The advice for an axis that is not an integer; an array there is likely the second of several arrays."""
    is_array = hasattr(axis, "shape")
    return (
        "several arrays are one list, the first argument: concatenate([x, y])."
        if is_array
        else "count axes from 0, or from the end: -1."
    )


def _shape_help(shape: Any) -> str:
    """The advice for a shape that is not made of integers."""
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    if any(isinstance(part, Tensor) for part in parts):
        return "a shape is part of the program: pass the number as a static argument (jit(f, static_argnums=...))."
    return "a shape is one integer or a tuple of them, such as (2, 3)."


def axes_of(name: str, axis: Axis, ndim: int) -> Shape:
    """The indices of axes, counted from 0, in the given order; None means all. Raises ShapeError if one is repeated or does not
    exist.

    `name` is the name of the function, for errors. Example: (0, -1) with `ndim` 3 gives (0, 2).
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis_of(name, a, ndim) for a in (axis if isinstance(axis, (tuple, list, range)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name} requires different axes, got {axis}.", where=user_frame())
    return axes


def shape_of(name: str, shape: Any) -> Shape:
    """A shape as a tuple, from an int or a sequence of ints, which must not be negative; `name` is the caller, for errors."""
    try:
        lengths = tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list, range)) else (operator.index(shape),)
    except TypeError:
        raise ShapeError(
            f"{name} requires a shape of integers, got {shape!r}.", where=user_frame(), help=_shape_help(shape)
        ) from None
    if any(n < 0 for n in lengths):
        raise ShapeError(f"{name} requires lengths that are not negative, got {lengths}.", where=user_frame())
    return lengths


def dynamic_shape(name: str, advice: str) -> NoReturn:
    """Raises TraceError: the result's shape would depend on values."""
    raise TraceError(
        f"{name} requires a result whose shape does not depend on values, got a traced array.", where=user_frame(), help=advice
    )


def reversed_along(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reverses the array along `axes`. Axes of size 1 or 0 need no operation."""
    axes = tuple(d for d in sorted(axes) if x.shape[d] > 1)
    return sh.reverse(x, dimensions=axes) if axes else x


def joined(xs: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenates the operands; operands of length 0 are left out."""
    parts = [x for x in xs if x.shape[axis]] or [xs[0]]
    return parts[0] if len(parts) == 1 else sh.concatenate(*parts, dimension=axis)


def padded(x: Tensor, axis: int, low: int, high: int, value: Any = 0) -> Tensor:
    """Pads `x` with `value` before and after it along one axis; negative widths remove elements."""
    lows, highs = [0] * x.ndim, [0] * x.ndim
    lows[axis], highs[axis] = low, high
    fill = value if isinstance(value, Tensor) else full((), value, x.dtype)
    return sh.pad(x, fill, edge_padding_low=tuple(lows), edge_padding_high=tuple(highs), interior_padding=(0,) * x.ndim)
