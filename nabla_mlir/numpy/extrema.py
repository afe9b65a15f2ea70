"""The largest and the smallest elements, and their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex, is_differentiable
from nabla_mlir.numpy import complex_order
from nabla_mlir.numpy.axes import Axis, Shape, axes_of, axis_of
from nabla_mlir.numpy.operands import convert, meet, tensor
from nabla_mlir.numpy.reductions import check_initial, count, fold, keep, masked, spread
from nabla_mlir.numpy.special_values import is_nan
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.gather import along_axis
from nabla_mlir.ops.reduction import identity_of
from nabla_mlir.ops.shape import reshaped, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, is_scalar
from nabla_mlir.table.tensor import Tensor, full_like


# ---------------------------------------------------------------- elements
def end(combiner: str, dtype: np.dtype) -> Any:
    """The neutral element of "max" or "min"."""
    return complex_order.ENDS[combiner] if is_complex(dtype) else identity_of(combiner, dtype)


def furthest(x: Tensor, axes: Shape, combiner: str) -> Tensor:
    """The largest ("max") or smallest ("min") element of `x` over `axes`; equal elements share the derivative."""
    if not is_complex(x.dtype) or not axes:
        return fold(x, axes, combiner)
    if not count(x.shape, axes):
        return full_like(fold(x, axes, "add"), end(combiner, x.dtype))
    rest = tuple(d for d in range(x.ndim) if d not in axes)
    rows = reshaped(transposed(x, (*rest, *axes)), (*(x.shape[d] for d in rest), count(x.shape, axes)))
    last = rows.ndim - 1
    winner = _first(attained(rows, last, combiner), last)
    value = along_axis(stop_gradient(rows), reshaped(winner, (*winner.shape, 1)), last)
    ties = lg.logical_and(
        lg.compare(rows, spread(reshaped(value, winner.shape), rows.shape, (last,)), comparison_direction="EQ"),
        lg.logical_and(*map(lg.is_finite, complex_order.parts(rows))),
    )
    zero = stop_gradient(rows) - rows  # its derivative is -1
    total = fold(lg.select(ties, zero, full_like(zero, 0)), (last,), "add")
    number = fold(convert(ties, x.dtype), (last,), "add")
    is_one = lg.compare(number, full_like(number, 0), comparison_direction="NE")
    return reshaped(value, winner.shape) - total / lg.select(is_one, number, full_like(number, 1))


def attained(x: Tensor, axis: int, combiner: str) -> Tensor:
    """The mask of the elements that are the largest ("max") or smallest ("min") along an axis, or NaN."""
    if not is_complex(x.dtype):
        x = convert(x, np.int8) if x.dtype.kind == "b" else stop_gradient(x) if is_differentiable(x.dtype) else x
        hits = lg.compare(x, spread(fold(x, (axis,), combiner), x.shape, (axis,)), comparison_direction="EQ")
        return lg.logical_or(hits, is_nan(x)) if is_differentiable(x.dtype) else hits
    re, im = map(stop_gradient, complex_order.parts(x))
    absent = is_nan(x)
    hits = attained(lg.select(absent, full_like(re, np.nan), re), axis, combiner)
    imaginary = lg.select(hits, im, full_like(im, identity_of(combiner, im.dtype)))
    return lg.logical_or(lg.logical_and(hits, attained(imaginary, axis, combiner)), absent)


def _first(hits: Tensor, axis: int) -> Tensor:
    """The index of the first true element along an axis."""
    positions = sh.iota(shape=hits.shape, dtype=Defaults.int, iota_dimension=axis)
    return fold(lg.select(hits, positions, full_like(positions, hits.shape[axis])), (axis,), "min")


def extremum(name: str, combiner: str, x: ArrayLike, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Tensor:
    """The largest ("max") or smallest ("min") element of `x` over axes, as the word `combiner` says.

    `name` is the called function, for errors. The other parameters are those of `max`.
    """
    x = tensor(x)
    check_initial(name, initial)
    axes = axes_of(name, axis, x.ndim)
    if not count(x.shape, axes) and initial is None:
        raise ShapeError(
            f"{name} requires at least one element, got shape {x.shape}.",
            where=user_frame(),
            help="give `initial`, the result for no elements.",
        )
    out = furthest(masked(x, where, end(combiner, x.dtype)), axes, combiner)
    out = keep(out, x.shape, axes) if keepdims else out
    if initial is None:
        return out
    initial = bool(initial) if is_scalar(initial) and x.dtype.kind == "b" else initial
    out, first = meet(name, out, initial)
    return complex_order.further(out, first, combiner)


@library
def max(
    a: ArrayLike,
    axis: Static[Axis] = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The largest element over `axis`; NaN if an element is NaN. Ties share the derivative.

    Complex numbers are ordered by their real parts, then by their imaginary parts.

    Raises:
      ShapeError: there is no element, and no `initial`.

    Example:
      >>> complex(max(np.array([1 + 2j, 1 - 5j, 0 + 9j])))
      (1+2j)
    """
    return extremum("max", "max", a, axis, keepdims, initial, where)


@library
def min(
    a: ArrayLike,
    axis: Static[Axis] = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The smallest element over `axis`; NaN if an element is NaN. Ties share the derivative; complex numbers as for `max`.

    Raises:
      ShapeError: there is no element, and no `initial`.
    """
    return extremum("min", "min", a, axis, keepdims, initial, where)


amax = max
amin = min


@library
def ptp(a: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The largest element minus the smallest element."""
    largest, smallest = (extremum("ptp", combiner, a, axis, keepdims, None, None) for combiner in ("max", "min"))
    return largest - smallest


# ---------------------------------------------------------------- indices
def _position(name: str, combiner: str, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    """The index of the first largest ("max") or smallest ("min") element along an axis, or in the flattened array.

    `name` is the called function, for errors.
    """
    x = tensor(x)
    shape = x.shape
    if axis is None:
        x, searched = reshaped(x, (x.size,)), 0
    else:
        searched = axis_of(name, axis, x.ndim)
    if not x.shape[searched]:
        raise ShapeError(f"{name} requires at least one element, got shape {shape}.", where=user_frame())
    out = _first(attained(x, searched, combiner), searched)
    if not keepdims:
        return out
    return keep(out, shape, (searched,) if axis is not None else tuple(range(len(shape))))


@library
def argmax(a: ArrayLike, axis: Static[int | None] = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element (or NaN) along `axis`, or in the flattened array; complex numbers as in `max`."""
    return _position("argmax", "max", a, axis, keepdims)


@library
def argmin(a: ArrayLike, axis: Static[int | None] = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element (or NaN) along `axis`, or in the flattened array; complex numbers as in `max`."""
    return _position("argmin", "min", a, axis, keepdims)
