"""`pad` adds elements at the ends of the axes of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import Shape, joined, padded, reversed_along
from nabla_mlir.numpy.extrema import max, min
from nabla_mlir.numpy.joining import stack
from nabla_mlir.numpy.operands import convert, tensor
from nabla_mlir.numpy.quantiles import median
from nabla_mlir.numpy.reductions import mean
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.numpy.ufuncs import round
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.shape import sliced
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table import promotion
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor, full

_MODES = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS: dict[str, Callable[..., Tensor]] = {"maximum": max, "minimum": min, "mean": mean, "median": median}


def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: Any = "constant",
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = "even",
    **kwargs: Any,
) -> Any:
    """Adds elements at the ends of the axes of an array.

    Args:
      array: an array.
      pad_width: a number, (before, after), or a pair for each axis.
      mode: "constant", "edge" (the last element), "reflect" (mirrored at the last element), "symmetric" (mirrored after it),
        "wrap" (from the other end), "linear_ramp" (from the last element to a value), "empty" (zeros), or a statistic of
        the elements: "maximum", "minimum", "mean", "median". A function ``mode(row, (before, after), axis, kwargs)`` gets each
        row along each axis, padded with zeros, and returns the row with the added elements.
      constant_values: the added value in mode "constant": a number, or in the form of `pad_width`.
      end_values: the last values of the ramps: a number, or in the form of `pad_width`.
      stat_length: the number of elements at each end for the statistic, in the form of `pad_width`; None means all.
      reflect_type: "even", or "odd": twice the last element less the mirrored ones.
      **kwargs: the last argument of the function.

    Raises:
      ShapeError: the mode is unknown, the widths do not fit the axes, an axis has no element to repeat, or an argument belongs
        to another mode.

    Example:
      >>> pad(np.array([4.0, 8.0]), (2, 1), "linear_ramp", end_values=(0, 6)).tolist()
      [0.0, 2.0, 4.0, 8.0, 6.0]
    """
    given = {
        "constant_values": not _is_zero(constant_values),
        "end_values": not _is_zero(end_values),
        "stat_length": stat_length is not None,
        "reflect_type": reflect_type != "even",
    }
    others = [name for name, is_given in given.items() if is_given and not callable(mode) and name != _ARGUMENTS.get(mode)]
    if others or (kwargs and not callable(mode)) or reflect_type not in ("even", "odd"):
        raise ShapeError(
            f"pad requires the arguments of mode {mode!r} and reflect_type 'even' or 'odd', got {[*others, *kwargs]} and "
            f"{reflect_type!r}.",
            where=user_frame(),
        )
    if callable(mode):
        return _pad_by(array, pad_width, mode, kwargs)
    return _pad(array, pad_width, mode, constant_values, end_values, stat_length, reflect_type)


def _is_zero(x: Any) -> bool:
    """True for the integer 0, but not for False or 0.0."""
    return type(x) is int and x == 0


# The argument that only this mode has.
_ARGUMENTS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    **dict.fromkeys(_STATISTICS, "stat_length"),
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
}


@library
def _pad(
    array: ArrayLike,
    pad_width: Static[Any],
    mode: str,
    constant_values: Any,
    end_values: Any,
    stat_length: Static[Any],
    reflect_type: str,
) -> Tensor:
    """The padded array, for a mode with a name; the parameters are those of `pad`."""
    x = tensor(array)
    widths = _pairs("pad", pad_width, x.ndim)
    if np.min(widths, initial=0) < 0:
        raise ShapeError(f"pad requires widths that are not negative, got {pad_width}.", where=user_frame(), help="slice instead.")
    if mode in ("constant", "empty"):
        return _pad_constant(x, widths, constant_values if mode == "constant" else 0)
    if mode not in (*_MODES, "linear_ramp", *_STATISTICS):
        names = ", ".join(("constant", "empty", *_MODES, "linear_ramp", *_STATISTICS))
        raise ShapeError(f"pad requires mode {names}, got {mode!r}.", where=user_frame())
    ends = _pairs("pad", end_values, x.ndim) if mode == "linear_ramp" else None
    lengths = [(None, None)] * x.ndim if stat_length is None else _pairs("pad", stat_length, x.ndim)
    for d, (low, high) in enumerate(widths):
        n = x.shape[d]
        if not low and not high:
            continue
        if not n:
            raise ShapeError(f"pad in mode {mode} requires elements along axis {d}, got shape {x.shape}.", where=user_frame())
        if reflect_type == "odd" and mode in _MODES:
            x = _reflect_odd(x, d, low, high, mode)
        elif mode in _MODES:
            x = _rearranged(x, d, np.pad(np.arange(n), (low, high), mode=mode))  # type: ignore[call-overload]
        elif ends is not None:
            before = convert(_ramp(sliced(x, d, 0, 1), d, low, ends[d][0]), x.dtype)
            after = convert(reversed_along(_ramp(sliced(x, d, n - 1, n), d, high, ends[d][1]), (d,)), x.dtype)
            x = joined([before, x, after], d)
        else:
            first, last = (n if k is None else k for k in lengths[d])
            before = _repeated_statistic(mode, sliced(x, d, 0, first if first < n else n), d, low)
            x = joined([before, x, _repeated_statistic(mode, sliced(x, d, n - last if last < n else 0, n), d, high)], d)
    return x


def _reflect_odd(x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    """The array with mirror images, of `low` and `high` elements, whose values are mirrored at the end elements.

    A mirrored value is twice the end element minus the element: [1, 2, 4] with low 2 in mode "reflect" gives [-2, 0, 1, 2, 4]. One
    round adds at most as many elements as there are, and the next round mirrors the longer axis.
    """
    while low or high:
        n = x.shape[axis]
        most = n if mode == "symmetric" else n - 1
        if not most:  # one element is its own mirror image
            return _rearranged(x, axis, np.zeros(low + n + high, int))
        first, last = (k if k < most else most for k in (low, high))
        around = _rearranged(x, axis, np.pad(np.arange(n), (first, last), mode=mode))  # type: ignore[call-overload]
        before, after = sliced(x, axis, 0, 1) * 2, sliced(x, axis, n - 1, n) * 2
        parts = [before - sliced(around, axis, 0, first), x, after - sliced(around, axis, first + n, first + n + last)]
        x = joined([convert(p, x.dtype) for p in parts if p.shape[axis]], axis)
        low, high = low - first, high - last
    return x


def _pad_by(array: ArrayLike, pad_width: Any, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    """The array padded with zeros, after `function` has been applied to each row along each axis.

    The function gets a padded row, the pair of widths, the axis and `kwargs`, and returns the new row.
    """
    x = pad(array, pad_width)
    for d, width in enumerate(_pairs("pad", pad_width, np.ndim(x))):
        rows = moveaxis(x, d, -1)
        shape = rows.shape
        flat = [function(row, width, d, kwargs) for row in rows.reshape((-1, shape[-1]))]
        x = moveaxis(stack(flat).reshape(shape), -1, d)
    return x


def _ramp(edge: Tensor, axis: int, width: int, end: Any) -> Tensor:
    """Numbers at equal distances from the end value, which is the first, to the edge element, which is not included.

    Args:
      edge: the elements at the edge, with length 1 along the axis.
      axis: the axis.
      width: the count of the numbers.
      end: the value at the new end.
    """
    steps = np.arange(width).reshape([-1 if d == axis else 1 for d in range(edge.ndim)])
    start = convert(as_tensor(end), edge.dtype)
    if edge.dtype.kind not in "iu":
        return start + (edge - start) * (steps / (width or 1)).astype(edge.dtype)
    start, edge = convert(start, "int64"), convert(edge, "int64")
    return start + (edge - start) * steps // (width or 1)


def _repeated_statistic(mode: str, part: Tensor, axis: int, width: int) -> Tensor:
    """The statistic `mode` of a part along an axis, repeated `width` times; a mean or median of integers is rounded."""
    value = _STATISTICS[mode](part, axis=axis, keepdims=True)
    value = convert(round(value) if part.dtype.kind in "iu" and mode in ("mean", "median") else value, part.dtype)
    return promotion.broadcast_to(value, tuple(width if d == axis else n for d, n in enumerate(part.shape)))


def _pairs(name: str, widths: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair for each axis, from one number, one pair, or all pairs; raises ShapeError for other lengths. `name` is the called
    function.
    """
    try:
        return [tuple(pair) for pair in np.broadcast_to(np.asarray(widths), (ndim, 2)).tolist()]
    except ValueError:
        raise ShapeError(
            f"{name} requires a number, a pair, or a pair for each of {ndim} axes, got {widths}.", where=user_frame()
        ) from None


def _pad_constant(x: Tensor, widths: list[tuple[int, int]], values: Any) -> Tensor:
    """The array padded with one value, or with a value for each end of each axis; `widths` has the widths of both ends of each
    axis.
    """
    if isinstance(values, (list, tuple)):
        for d, ((low, high), (before, after)) in enumerate(zip(widths, _pairs("pad", values, x.ndim), strict=True)):
            x = padded(padded(x, d, low, 0, before) if low else x, d, 0, high, after) if low or high else x
        return x
    if not any(w for pair in widths for w in pair):
        return x
    lows, highs = (tuple(side) for side in zip(*widths, strict=True))
    value = convert(as_tensor(values), x.dtype) if not promotion.is_scalar(values) else full((), values, x.dtype)
    return sh.pad(x, value, edge_padding_low=lows, edge_padding_high=highs, interior_padding=(0,) * x.ndim)


def _rearranged(x: Tensor, axis: int, order: np.ndarray) -> Tensor:
    """``take(x, order, axis)`` as a concatenation of slices, which may be reversed or repeated; the order has few runs.

    For example, the order [2, 1, 0, 1, 2, 2] has the runs 2, 1, 0 (step -1), 1, 2 (step 1) and 2 (step 0).
    """
    pieces, start = [], 0
    while start < len(order):
        stop = start + 1
        step = int(order[stop] - order[start]) if stop < len(order) and abs(order[stop] - order[start]) <= 1 else 0
        while stop < len(order) and order[stop] - order[stop - 1] == step:
            stop += 1
        pieces.append(_run(x, axis, int(order[start]), stop - start, step))
        start = stop
    return joined(pieces, axis)


def _run(x: Tensor, axis: int, first: int, length: int, step: int) -> Tensor:
    """The elements first, first + step, ... along an axis; the step is 0, 1 or -1."""
    if step == 0:
        one = sliced(x, axis, first, first + 1)
        if length == 1:
            return one
        shape: Shape = tuple(length if d == axis else n for d, n in enumerate(x.shape))
        return promotion.broadcast_to(one, shape)
    if step == 1:
        return sliced(x, axis, first, first + length)
    return reversed_along(sliced(x, axis, first - length + 1, first + 1), (axis,))
