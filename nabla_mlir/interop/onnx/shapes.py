"""Operators of ONNX on shapes: they rearrange, join, cut, pad and repeat arrays, or return the shape of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.dtypes import array_of
from nabla_mlir.interop.onnx.reductions import numbers
from nabla_mlir.interop.onnx.table import Refusal, operator
from nabla_mlir.table.tensor import Tensor

# ---------------------------------------------------------------- shapes as values


@operator("Shape", is_raw=True)
def _shape(x: Any, start: int = 0, end: int | None = None) -> np.ndarray:
    return np.array(x.shape[start:end], np.int64)


@operator("Size", is_raw=True)
def _size(x: Any) -> np.ndarray:
    return np.array(np.prod(x.shape, dtype=np.int64))


@operator("Constant", is_raw=True, is_folded=False)
def _constant(
    value: Any = None,
    value_float: Any = None,
    value_floats: Any = None,
    value_int: Any = None,
    value_ints: Any = None,
    value_string: Any = None,
    value_strings: Any = None,
    sparse_value: Any = None,
) -> np.ndarray:
    """The value of a node `Constant`, from the attribute that is set; raises Refusal for a sparse value."""
    if sparse_value is not None:
        raise Refusal("a dense value", "a sparse one")
    if value is not None:
        return array_of(value)
    by_dtype = {np.float32: (value_float, value_floats), np.int64: (value_int, value_ints), object: (value_string, value_strings)}
    return next(np.array(x, dtype) for dtype, xs in by_dtype.items() for x in xs if x is not None)


@operator("ConstantOfShape", static=("shape",), is_raw=True)
def _constant_of_shape(shape: np.ndarray, value: Any = None) -> np.ndarray:
    """An array of `shape`, filled with the number in `value`, or with 0."""
    fill = np.zeros(1, np.float32) if value is None else array_of(value)
    return np.full(numbers(shape), fill.ravel()[0], fill.dtype)


@operator("Range", static=("start", "limit", "delta"), is_raw=True)
def _range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray, stash_type: int = 1) -> np.ndarray:
    """The numbers start, start + delta, ... before `limit`, in the dtype of `start`."""
    count = max(int(np.ceil((limit.item() - start.item()) / delta.item())), 0)
    return (start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)


# ---------------------------------------------------------------- rearranged elements


@operator("Reshape", static=("shape",))
def _reshape(x: Tensor, shape: Any = None, allowzero: int = 0, consumed_inputs: Any = None) -> Tensor:
    """The array x in the shape `shape`, in which 0 means the old length unless `allowzero`."""
    lengths = numbers(shape)
    return x.reshape(tuple(x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(lengths)))


@operator("Transpose")
def _transpose(x: Tensor, perm: Any = None) -> Tensor:
    return nnp.permute_dims(x, tuple(range(x.ndim))[::-1] if perm is None else tuple(perm))


@operator("Flatten")
def _flatten(x: Tensor, axis: int = 1) -> Tensor:
    """The array x as a matrix, whose columns are the axes from `axis` on."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))


@operator("Squeeze", static=("axes",))
def _squeeze(x: Tensor, axes: Any = None) -> Tensor:
    return nnp.squeeze(x, tuple(i for i, n in enumerate(x.shape) if n == 1) if axes is None else numbers(axes))


@operator("Unsqueeze", static=("axes",))
def _unsqueeze(x: Tensor, axes: Any = None) -> Tensor:
    return nnp.expand_dims(x, numbers(axes))


@operator("Expand", static=("shape",))
def _expand(x: Tensor, shape: Any) -> Tensor:
    return nnp.broadcast_to(x, np.broadcast_shapes(x.shape, numbers(shape)))


@operator("DepthToSpace")
def _depth_to_space(x: Tensor, blocksize: int = 1, mode: str = "DCR") -> Tensor:
    """The elements of blocks of channels, moved to blocks of `blocksize` x `blocksize` elements on the spatial axes.

    `mode` is the order of the old channels: "DCR" has the position in the block before the new channel, another mode after it.
    """
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        y = nnp.permute_dims(x.reshape(n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2))
    else:
        y = nnp.permute_dims(x.reshape(n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3))
    return y.reshape(n, c // b**2, h * b, w * b)


@operator("SpaceToDepth")
def _space_to_depth(x: Tensor, blocksize: int = 1, mode: str = "DCR") -> Tensor:
    """Blocks of `blocksize` x `blocksize` spatial elements moved to the channels.

    `mode` is the order of the new channels: "DCR" puts the position in the block before the old channel, another mode after it.
    """
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return nnp.permute_dims(x.reshape(n, c, h // b, b, w // b, b), order).reshape(n, c * b**2, h // b, w // b)


@operator("Trilu", static=("k",))
def _trilu(x: Tensor, k: Any = None, upper: int = 1) -> Tensor:
    """The upper or lower triangle of matrices, from diagonal k on; the other elements are zero."""
    (diagonal,) = (0,) if k is None else numbers(k)
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    is_inside = columns - rows >= diagonal if upper else columns - rows <= diagonal
    return nnp.where(is_inside, x, nnp.zeros_like(x))


# ---------------------------------------------------------------- joined and cut


@operator("Concat")
def _concat(*xs: Tensor, axis: int = 1) -> Tensor:
    return nnp.concatenate(xs, axis)


def parts_of(x: Tensor, lengths: Any, axis: int) -> tuple[Tensor, ...]:
    """The parts of x with these lengths along an axis."""
    return tuple(nnp.split(x, np.cumsum(lengths)[:-1].tolist(), axis))


@operator("Split", static=("split",))
def _split(x: Tensor, split: Any = None, axis: int = 0, num_outputs: int | None = None, *, outputs: int) -> tuple[Tensor, ...]:
    """The parts of x along an axis: with the lengths in `split`, or `outputs` equal parts, of which the last may be shorter."""
    if split is not None:
        return parts_of(x, numbers(split), axis)
    length = -(-x.shape[axis] // outputs)
    return parts_of(x, [max(min(length, x.shape[axis] - i * length), 0) for i in range(outputs)], axis)


@operator("Slice", static=("starts", "ends", "axes", "steps"))
def _slice(x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Tensor:
    """The part of x from `starts` to `ends` along `axes`, with `steps`: ONNX's `Slice`. The four are arrays of integers
    of one length.
    """
    begins, limits = numbers(starts), numbers(ends)
    positions = range(len(begins)) if axes is None else numbers(axes)
    strides = (1,) * len(begins) if steps is None else numbers(steps)
    slices = [slice(None)] * x.ndim
    for axis, start, end, step in zip(positions, begins, limits, strides, strict=True):
        n = x.shape[axis]
        # A negative end counts from the back. Ends are clamped; with negative steps the lower limit is below 0.
        first, last = (i + n if i < 0 else i for i in (start, end))
        low, high = (0, n) if step > 0 else (-1, n - 1)
        first, last = min(max(first, 0), high), min(max(last, low), high)
        slices[axis] = slice(first, None if last < 0 else last, step)  # None: Python would count -1 from the back
    return x[tuple(slices)]


@operator("Pad", static=("pads", "axes"))
def _pad(
    x: Tensor,
    pads: Any = None,
    constant_value: Any = None,
    axes: Any = None,
    mode: str = "constant",
    value: float = 0.0,
    paddings: Any = None,
) -> Tensor:
    """The array x, padded at the ends of `axes`, or cut where the width is negative.

    `pads`, or `paddings`, has the widths at the starts of the axes, then those at the ends. `mode` is "constant", with
    `constant_value` or `value`, or a mode of `np.pad`.
    """
    widths = numbers(paddings if pads is None else pads)
    positions = range(x.ndim) if axes is None else numbers(axes)
    ends = [(0, 0)] * x.ndim
    for i, axis in enumerate(positions):
        ends[axis] = (widths[i], widths[i + len(widths) // 2])
    # Negative widths cut elements off, positive ones are padded below.
    remaining = tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(x.shape, ends, strict=True))
    x, ends = x[remaining], [(max(low, 0), max(high, 0)) for low, high in ends]
    if mode == "constant":
        fill = value if constant_value is None else constant_value.reshape(())
        return nnp.pad(x, ends, constant_values=nnp.asarray(fill, dtype=x.dtype))
    for axis, (low, high) in enumerate(ends):
        if low or high:
            x = nnp.take(x, np.pad(np.arange(x.shape[axis]), (low, high), mode), axis)  # type: ignore[call-overload]
    return x


@operator("Tile", static=("repeats", "axis"))
def _tile(x: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    """The array x repeated repeats[i] times along each axis i; with `axis`, repeats[0] times along that axis."""
    if axis is None:
        return nnp.tile(x, numbers(repeats))
    return nnp.concatenate([x] * numbers(repeats)[0], numbers(axis)[0])


@operator("ReverseSequence")
def _reverse_sequence(x: Tensor, lengths: Tensor, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """A copy of x in which the first `lengths[b]` elements of each sequence b are in reversed order.

    The sequences lie along `time_axis`, and b is the index along `batch_axis`.
    """
    time = np.arange(x.shape[time_axis]).reshape([-1 if i == time_axis else 1 for i in range(x.ndim)])
    ends = lengths.reshape([-1 if i == batch_axis else 1 for i in range(x.ndim)])
    return nnp.take_along_axis(x, nnp.where(time < ends, ends - 1 - time, time), time_axis)


@operator("Compress", static=("condition",))
def _compress(x: Tensor, condition: Any, axis: int | None = None) -> Tensor:
    """The slices of x along `axis` at which `condition` is true; without `axis`, the elements of the flattened array."""
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return nnp.take(x, np.flatnonzero(condition), axis)


@operator("NonZero", static=("x",), is_raw=True)
def _non_zero(x: np.ndarray) -> np.ndarray:
    return np.array(np.nonzero(x), np.int64)


@operator("Unique", static=("x",), is_raw=True)
def _unique(x: np.ndarray, axis: int | None = None, sorted: int = 1) -> Any:
    """The distinct elements, the index of each one's first occurrence, the inverse indices, and the counts."""
    values, positions, inverse, counts = np.unique(x, True, True, True, axis)
    order = np.arange(len(positions)) if sorted else np.argsort(positions)  # if not sorted, the order of first occurrence
    rank = np.argsort(order)
    values = np.take(values, order, 0 if axis is None else axis)
    return values, positions[order], rank[inverse.ravel()], counts[order]


@operator("OneHot", static=("depth",))
def _one_hot(positions: Tensor, depth: Any, values: Tensor, axis: int = -1) -> Tensor:
    """An array with a new axis: `values[1]` at the given positions along this axis, and `values[0]` elsewhere."""
    (count,) = numbers(depth)
    axis %= positions.ndim + 1
    classes = np.arange(count).reshape([-1 if i == axis else 1 for i in range(positions.ndim + 1)])
    positions = nnp.expand_dims(positions.astype(np.int64), axis)
    return nnp.where(nnp.where(positions < 0, positions + count, positions) == classes, values[1], values[0])
