"""Functions that change the shape of an array or the order of its elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.pytree import is_array
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import Axis, Shape, axes_of, axis_of, joined, reversed_along, shape_of
from nabla_mlir.numpy.division import remainder
from nabla_mlir.numpy.inspection import placed
from nabla_mlir.numpy.operands import convert, strong, tensor
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.shape import reshaped, sliced, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table import promotion
from nabla_mlir.table.narrowing import stated_dtype
from nabla_mlir.table.tensor import Tensor, full


@placed
@library
def astype(x: ArrayLike, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    """Converts `x` to another dtype; a conversion from floating point to integers truncates."""
    del copy
    return strong(convert(tensor(x), stated_dtype(dtype)))


@library
def reshape(a: ArrayLike, shape: Static[Any], order: str = "C", *, copy: bool | None = None) -> Tensor:
    """An array with the same elements and another shape; a length of -1 is inferred.

    Args:
      a: an array.
      shape: the lengths of the axes.
      order: "C" reads and writes the elements in row-major order, "F" in column-major order.
      copy: has no effect.

    Raises:
      ShapeError: the numbers of elements differ, or the order is unknown.

    Example:
      >>> import numpy as np
      >>> reshape(np.array([[1, 2], [3, 4]]), 4, order="F").tolist()
      [1, 3, 2, 4]
    """
    del copy
    x = tensor(a)
    if order not in ("C", "F"):
        raise ShapeError(f"reshape requires order 'C' or 'F', got {order!r}.", where=user_frame())
    lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
    lengths = tuple(operator.index(n) for n in lengths)
    product = math.prod(n for n in lengths if n != -1)
    if lengths.count(-1) == 1 and product and x.size % product == 0:
        lengths = tuple(x.size // product if n == -1 else n for n in lengths)
    if any(n < 0 for n in lengths) or math.prod(lengths) != x.size:
        target = tuple(shape) if isinstance(shape, (tuple, list)) else shape
        raise ShapeError(f"reshape requires the same number of elements, got {x.shape} ({x.size}) to {target}.", where=user_frame())
    if order == "F":
        return _reversed_axes(reshaped(_reversed_axes(x), lengths[::-1]))
    return reshaped(x, lengths)


def _reversed_axes(x: Tensor) -> Tensor:
    """The array with its axes in reversed order."""
    return transposed(x, tuple(reversed(range(x.ndim))))


@library
def ravel(a: ArrayLike, order: str = "C") -> Tensor:
    """The elements as a vector, in row-major ("C") or column-major ("F") order."""
    return reshape(a, (-1,), order) if tensor(a).size else reshaped(tensor(a), (0,))


@library
def transpose(a: ArrayLike, axes: Static[Sequence[int] | None] = None) -> Tensor:
    """Permutes the axes: axis i of the result is axis axes[i] of `a`; the default reverses the axes."""
    x = tensor(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else axes_of("transpose", tuple(axes), x.ndim)
    if len(order) != x.ndim:
        raise ShapeError(f"transpose requires all {x.ndim} axes, got {axes}.", where=user_frame())
    return transposed(x, order)


permute_dims = transpose


@library
def matrix_transpose(x: ArrayLike) -> Tensor:
    """Exchanges the last two axes."""
    x = tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose requires at least 2 axes, got shape {x.shape}.", where=user_frame())
    return swapaxes(x, -1, -2)


@library
def swapaxes(a: ArrayLike, axis1: Static[int], axis2: Static[int]) -> Tensor:
    """Exchanges two axes."""
    x = tensor(a)
    a, b = axis_of("swapaxes", axis1, x.ndim), axis_of("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transposed(x, order)


@library
def moveaxis(a: ArrayLike, source: Static[Axis], destination: Static[Axis]) -> Tensor:
    """Moves the axes `source` to the positions `destination`; the order of the other axes does not change."""
    x = tensor(a)
    sources, destinations = axes_of("moveaxis", source, x.ndim), axes_of("moveaxis", destination, x.ndim)
    if len(sources) != len(destinations):
        raise ShapeError(f"moveaxis requires as many sources as destinations, got {source} and {destination}.", where=user_frame())
    order = [d for d in range(x.ndim) if d not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return transposed(x, order)


@library
def squeeze(a: ArrayLike, axis: Static[Axis] = None) -> Tensor:
    """Drops all axes of size 1, or only the given axes.

    Raises:
      ShapeError: a given axis has another size.
    """
    x = tensor(a)
    axes = tuple(d for d, n in enumerate(x.shape) if n == 1) if axis is None else axes_of("squeeze", axis, x.ndim)
    if any(x.shape[d] != 1 for d in axes):
        raise ShapeError(f"squeeze requires axes of size 1, got axis {axis} of shape {x.shape}.", where=user_frame())
    return reshaped(x, tuple(n for d, n in enumerate(x.shape) if d not in axes))


@library
def expand_dims(a: ArrayLike, axis: Static[Axis]) -> Tensor:
    """An array with new axes of size 1, at the positions `axis` of the result."""
    x = tensor(a)
    ndim = x.ndim + (len(axis) if isinstance(axis, (tuple, list, range)) else 1)
    axes, lengths = axes_of("expand_dims", axis, ndim), iter(x.shape)
    return reshaped(x, tuple(1 if d in axes else next(lengths) for d in range(ndim)))


@library
def broadcast_to(array: ArrayLike, shape: Static[Any]) -> Tensor:
    """Broadcasts `array` to another shape by the rules of NumPy.

    Raises:
      ShapeError: `array` does not broadcast to the shape.
    """
    x, shape = tensor(array), shape_of("broadcast_to", shape)
    if len(shape) < x.ndim or promotion.broadcast_shapes("broadcast_to", [x.shape, shape]) != shape:
        raise ShapeError(f"broadcast_to requires a shape that {x.shape} broadcasts to, got {shape}.", where=user_frame())
    return promotion.broadcast_to(x, shape)


@library
def broadcast_arrays(*xs: Any) -> tuple[Tensor, ...]:
    """Broadcasts all arrays to a common shape."""
    tensors = [tensor(x) for x in xs]
    shape = promotion.broadcast_shapes("broadcast_arrays", [t.shape for t in tensors]) if tensors else ()
    return tuple(promotion.broadcast_to(t, shape) for t in tensors)


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape to which all shapes broadcast.

    Raises:
      ShapeError: the shapes do not broadcast.

    Example:
      >>> broadcast_shapes((3, 1), (4,))
      (3, 4)
    """
    lengths = [shape_of("broadcast_shapes", shape) for shape in shapes]
    return promotion.broadcast_shapes("broadcast_shapes", lengths) if lengths else ()


def atleast_1d(*xs: Any) -> Any:
    """Each array with at least one axis."""
    return _at_least(xs, lambda x: (1,))


def atleast_2d(*xs: Any) -> Any:
    """Each array with at least two axes; a vector becomes a row."""
    return _at_least(xs, lambda x: (1, *x.shape) if x.ndim else (1, 1))


def atleast_3d(*xs: Any) -> Any:
    """Each array with at least three axes; a vector (n,) becomes (1, n, 1), a matrix (m, n) becomes (m, n, 1)."""
    return _at_least(xs, lambda x: [(1, 1, 1), (1, x.size, 1), (*x.shape, 1)][x.ndim], 3)


def _at_least(xs: Sequence[Any], shape: Any, ndim: int = 0) -> Any:
    """The arrays, of which those with fewer than `ndim` axes are reshaped; one array, or a list for several.

    `shape` returns the new shape of an array; without `ndim`, the length of its result for a scalar is the number of axes.
    """
    ndim = ndim or len(shape(_Scalar))
    run = library(lambda x: reshaped(x, shape(x)) if (x := tensor(x)).ndim < ndim else x)
    out = [run(x) for x in xs]
    return out[0] if len(out) == 1 else out


class _Scalar:
    """Has the shape of a scalar, from which `_at_least` reads the number of axes of the result."""

    ndim, shape, size = 0, (), 1


@library
def flip(m: ArrayLike, axis: Static[Axis] = None) -> Tensor:
    """Reverses the elements along `axis`; None means all axes."""
    x = tensor(m)
    return reversed_along(x, axes_of("flip", axis, x.ndim))


@library
def fliplr(m: ArrayLike) -> Tensor:
    """The columns in reversed order."""
    return flip(m, 1)


@library
def flipud(m: ArrayLike) -> Tensor:
    """The rows in reversed order."""
    return flip(m, 0)


@library
def rot90(m: ArrayLike, k: Static[int] = 1, axes: Static[tuple[int, int]] = (0, 1)) -> Tensor:
    """Rotates the array k times by 90 degrees in the plane of two axes, from the first towards the second."""
    x = tensor(m)
    a, b = axes_of("rot90", tuple(axes), x.ndim)
    if k % 4 == 2:
        return reversed_along(x, (a, b))
    if k % 4 == 1:
        return swapaxes(reversed_along(x, (b,)), a, b)
    return reversed_along(swapaxes(x, a, b), (b,)) if k % 4 else x


@library
def roll(a: ArrayLike, shift: Any, axis: Static[Axis] = None) -> Tensor:
    """Shifts the elements along `axis`; elements that leave at one end enter at the other.

    Args:
      a: an array.
      shift: an integer, or one for each axis, also as a vector; integers may be traced.
      axis: the axes of the shift; None shifts the flattened array.
    """
    x = tensor(a)
    if axis is None:
        return reshaped(roll(reshaped(x, (x.size,)), shift, 0), x.shape)
    axes = tuple(axis_of("roll", a, x.ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if is_array(shift) and len(shift.shape) == 1:
        shift = tuple(shift[k] for k in range(shift.shape[0]))
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise ShapeError(f"roll requires one shift for each axis, got {shift} for {axis}.", where=user_frame())
    for by, d in zip(shifts, axes, strict=True):
        n = x.shape[d]
        if not n:
            continue
        if isinstance(by, Tensor):
            x = _roll_traced(x, by, d)
            continue
        start = -operator.index(by) % n
        x = joined([sliced(x, d, start, n), sliced(x, d, 0, start)], d)
    return x


def _roll_traced(x: Tensor, by: Tensor, axis: int) -> Tensor:
    """The array rolled by a traced number of positions along an axis."""
    # The window of length n that starts at -by in two concatenated copies.
    start = remainder(-by, x.shape[axis])
    starts = [start if d == axis else full((), 0, start.dtype) for d in range(x.ndim)]
    return sh.dynamic_slice(sh.concatenate(x, x, dimension=axis), *starts, slice_sizes=x.shape)


@library
def tile(A: Any, reps: Static[Any]) -> Tensor:
    """Repeats the whole array, reps[i] times along axis i."""
    x, counts = tensor(A), shape_of("tile", reps)
    ndim = max(x.ndim, len(counts))
    shape = (1,) * (ndim - x.ndim) + x.shape
    counts = (1,) * (ndim - len(counts)) + counts
    if all(k == 1 for k in counts):
        return reshaped(x, shape)
    spread = sh.broadcast_in_dim(
        x,
        shape=tuple(n for pair in zip(counts, shape, strict=True) for n in pair),
        broadcast_dimensions=tuple(2 * d + 1 for d in range(ndim - x.ndim, ndim)),
    )
    return reshaped(spread, tuple(k * n for k, n in zip(counts, shape, strict=True)))


# ---------------------------------------------------------------- padding
