"""Indexing: ``x[...]``, ``x.at[...]``, take and similar functions.

An index is converted to a plan (index_plan.py) with a static part, which is a slice operation, and a computed part, which is a
gather or a scatter. Reads clamp computed indices to the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import axis_of, joined, reversed_along
from nabla_mlir.numpy.index_modes import GatherScatterMode, brought_inside, filled, filler, index_inside, longer, word_of
from nabla_mlir.numpy.index_plan import Plan, Window, known_misfit, plain_index, read_index, static_index, wrapped
from nabla_mlir.numpy.operands import convert, tensor
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.gather import along_axis, gather, gather_dims
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.narrowing import follows_jax
from nabla_mlir.table.promotion import Defaults, as_tensor, broadcast_shapes, broadcast_to
from nabla_mlir.table.tensor import Tensor, constant, full, full_like, splat_of

_INT32 = np.dtype(np.int32)


# ---------------------------------------------------------------- getting
def take_index(x: Tensor, index: Any) -> Tensor:
    """``x[index]``."""
    return get(x, read_index(x.shape, index))


def get(x: Tensor, plan: Plan) -> Tensor:
    """The elements of `x` that a plan reads: first its slices, then its computed indices."""
    if 0 in plan.shape:
        return full(plan.shape, 0, x.dtype)
    x = static_part(x, plan.windows)
    if plan.computed and plan.is_scalar:
        sizes = tuple(1 if d in plan.computed else n for d, n in enumerate(x.shape))
        return reshaped(sh.dynamic_slice(x, *starts(plan, x.ndim), slice_sizes=sizes), plan.shape)
    if plan.computed:
        x, computed = undropped(x, plan)
        indices, dims = positions(x, computed, plan.position)
        sizes = tuple(1 if d in computed else n for d, n in enumerate(x.shape))
        x = gather(x, indices, dimension_numbers=dims, slice_sizes=sizes)
    return reshaped(x, plan.shape)


def static_part(x: Tensor, windows: Sequence[Window]) -> Tensor:
    """The elements of `x` that the slices of an index read; `windows` has the start, length and step for each axis."""
    # The reverse comes first: IREE 3.13 does not compile the reverse of a strided slice along an inner axis.
    x = reversed_along(x, [d for d, w in enumerate(windows) if w.step < 0])
    starts = tuple(w.start if w.step > 0 else n - 1 - w.start for w, n in zip(windows, x.shape, strict=True))
    steps = tuple(abs(w.step) for w in windows)
    stops = tuple(i + (w.length - 1) * k + 1 for i, w, k in zip(starts, windows, steps, strict=True))
    if all(t == (0, n, 1) for t, n in zip(zip(starts, stops, steps, strict=True), x.shape, strict=True)):
        return x
    return sh.slice_(x, start_indices=starts, limit_indices=stops, strides=steps)


def undropped(x: Tensor, plan: Plan) -> tuple[Tensor, dict[int, Any]]:
    """The array without the axes that integers removed, and a dict of the computed indices by the axes of this array.

    `plan` is the analysed index; its indices by axes of `x` are renumbered.
    """
    dims = [d for d in range(x.ndim) if d not in plan.dropped]
    x = reshaped(x, tuple(x.shape[d] for d in dims))
    return x, {dims.index(d): i for d, i in plan.computed.items()}


def starts(plan: Plan, ndim: int) -> list[Tensor]:
    """The start indices, along each of `ndim` axes, of the block that the scalar indices of a plan select."""
    scalars = [i for i in plan.computed.values() if isinstance(i, Tensor)]
    dtype = np.result_type(*(i.dtype for i in scalars)) if scalars else _INT32
    return [as_tensor(plan.computed[d], dtype) if d in plan.computed else full((), 0, dtype) for d in range(ndim)]


def positions(x: Tensor, computed: dict[int, Any], position: int) -> tuple[Tensor, dict[str, Any]]:
    """The index vectors and the dimension numbers of a gather from `x`.

    `computed` maps each indexed axis to its indices. The axes of the index arrays have the position `position` in the result.
    """
    arrays = list(computed.values())
    shape = broadcast_shapes("indexing", [np.shape(i) for i in arrays])
    if any(isinstance(i, Tensor) for i in arrays):
        dtype = np.result_type(*(i.dtype for i in arrays))
        columns = [reshaped(broadcast_to(as_tensor(i, dtype), shape), (*shape, 1)) for i in arrays]
        indices = joined(columns, len(shape))
    else:
        indices = constant(np.stack([np.broadcast_to(i, shape) for i in arrays], -1))
    windows = x.ndim - len(arrays)
    out = range(windows + len(shape))
    dims = gather_dims(
        offset_dims=tuple(d for d in out if not position <= d < position + len(shape)),
        collapsed_slice_dims=tuple(computed),
        start_index_map=tuple(computed),
        index_vector_dim=len(shape),
    )
    return indices, dims


@library
def _get_index(x: Any, index: Any, shape: Static[Any]) -> Tensor:
    """``x[index]`` of an array of this shape; the shape is static, so that it decides the program."""
    return take_index(reshaped(as_tensor(x), shape), index)


@library
def get_moded(x: Any, index: Any, shape: Static[Any], mode: str, fill_value: Any = None, wraps: bool = True) -> Tensor:
    """The elements at an index, where `mode` treats indices out of range; `shape` is that of x with one axis for each mask.

    Negative indices count from the end if `wraps`.
    """
    x = reshaped(as_tensor(x), shape)
    items, axes = index_inside(shape, index, mode, wraps)
    return take_index(longer(x, axes, filler(fill_value, x.dtype)), items)


def get_index(x: Any, index: Any) -> Any:
    """``x[index]`` on tensors and on concrete arrays.

    Raises:
      IndexingError: a known index is out of range, and the rules of JAX do not hold; they clamp it.
    """
    shape, items = static_index(tuple(np.shape(x)), index)
    error = known_misfit(shape, items)
    if error is None:
        return _get_index(x, items, shape)
    if not follows_jax():
        raise error
    return get_moded(x, items, shape, "clip")


# ---------------------------------------------------------------- functions
@library
def take(
    a: ArrayLike,
    indices: Any,
    axis: Static[int | None] = None,
    mode: Any = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Tensor:
    """The elements at `indices` along `axis`, or of the flattened array.

    Args:
      a: an array.
      indices: integers of any shape; their axes replace the axis.
      axis: the axis; None flattens first.
      mode: the treatment of indices out of range: "fill" gives `fill_value`; "clip" clamps them; "wrap" uses the index
        modulo the length; "promise_in_bounds" promises that there are none. None means "fill"; traces check known indices.
      unique_indices, indices_are_sorted: have no effect.
      fill_value: the value for "fill"; the default is NaN, or the smallest integer.

    Raises:
      ShapeError: the mode is unknown.
    """
    x = tensor(a)
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of("take", axis, x.ndim)
    x, indices, outside = _apply_mode("take", x, indices, axis, mode, fill_value)
    found = take_index(x, (*(slice(None),) * axis, indices))
    if outside is None:
        return found
    others = tuple(d for d in range(found.ndim) if not axis <= d < axis + outside.ndim)
    return filled(found, sh.expand(outside, found.shape, others), fill_value)


def _apply_mode(name: str, x: Tensor, indices: Any, axis: int, mode: Any, fill_value: Any) -> tuple[Tensor, Any, Tensor | None]:
    """The array, the indices into it, and the mask of indices out of range, or None; after the rule `mode` for such indices.

    `name` is the called function, for errors. For known indices, the array gets one more element with the fill value, so that all
    indices are in range.
    """
    indices = plain_index(indices)
    if mode == "promise_in_bounds" or (mode is None and fill_value is None and not isinstance(indices, Tensor)):
        return x, indices, None
    if name == "take" and mode == "clip" and not isinstance(indices, Tensor):  # as in NumPy: no negative indices
        indices = np.maximum(indices, 0)
    elif name == "take" and mode == "clip":
        indices = lg.clamp(full((), 0, indices.dtype), indices, full((), x.shape[axis] - 1, indices.dtype))
    word = word_of(name, mode or "fill")
    if isinstance(indices, Tensor) and word == "fill":
        n = x.shape[axis]
        i = convert(indices, Defaults.int) if indices.dtype.itemsize < 4 else indices
        low, high = (full_like(i, v) for v in (-n if i.dtype.kind == "i" else 0, n))
        is_below, is_above = (lg.compare(i, v, comparison_direction=d) for v, d in ((low, "LT"), (high, "GE")))
        return x, indices, lg.logical_or(is_below, is_above) if i.dtype.kind == "i" else is_above
    n = x.shape[axis]
    if not isinstance(indices, Tensor) and word == "fill" and np.all((indices >= -n) & (indices < n)):
        return x, indices, None
    inside = brought_inside(indices, n, word)
    inside = inside if isinstance(inside, Tensor) or inside.ndim else int(inside)
    return longer(x, [axis] if word == "fill" else [], filler(fill_value, x.dtype)), inside, None


@library
def take_along_axis(
    arr: ArrayLike,
    indices: Any,
    axis: Static[int | None] = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool = True,
) -> Tensor:
    """An element of `arr` for each element of `indices`, which replaces the index along `axis`.

    Args:
      arr: an array.
      indices: integers, with the same number of axes as `arr`.
      axis: the axis of the indices; None flattens first.
      mode, fill_value: as for `take`; mode "one_hot" gives 0 out of range.
      wrap_negative_indices: False means that negative indices are out of range.

    Raises:
      ShapeError: the shapes do not broadcast in the other axes.
    """
    x = tensor(arr)
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of("take_along_axis", axis, x.ndim)
    if mode in ("one_hot", GatherScatterMode.ONE_HOT):
        mode, fill_value = "fill", 0
    if not wrap_negative_indices:
        known = plain_index(indices)
        indices = brought_inside(known, x.shape[axis], word_of("take_along_axis", mode or "fill"), from_end=False)
        mode = "fill" if mode is None else mode
    x, indices, outside = _apply_mode("take_along_axis", x, indices, axis, mode, fill_value)
    if np.ndim(indices) != x.ndim:
        raise ShapeError(
            f"take_along_axis requires as many axes in both, got {x.shape} and {np.shape(indices)}.", where=user_frame()
        )
    indices = as_tensor(wrapped(indices, x.shape[axis], axis))
    rest = broadcast_shapes("take_along_axis", [s[:axis] + s[axis + 1 :] for s in (x.shape, indices.shape)])
    x, indices = (broadcast_to(v, (*rest[:axis], v.shape[axis], *rest[axis:])) for v in (x, indices))
    if not indices.size:
        return full(indices.shape, 0, x.dtype)
    found = along_axis(x, indices, axis)
    return found if outside is None else filled(found, outside, fill_value)


@library
def dynamic_slice(operand: Any, start_indices: Sequence[Any], slice_sizes: Static[Sequence[int]]) -> Tensor:
    """The block of the given sizes at computed starts; starts are clamped so that the block is inside the array.

    Negative starts count from the end, as in JAX. `start_indices` and `slice_sizes` have one integer for each axis.
    """
    x, sizes = tensor(operand), tuple(slice_sizes)
    if len(start_indices) != x.ndim or len(sizes) != x.ndim or any(not 0 <= k <= n for k, n in zip(sizes, x.shape, strict=True)):
        raise ShapeError(
            f"dynamic_slice requires a start and a size within {x.shape} for each axis, got sizes {sizes}.", where=user_frame()
        )
    return sh.dynamic_slice(x, *_starts(start_indices, x.shape), slice_sizes=sizes)


@library
def dynamic_update_slice(operand: Any, update: Any, start_indices: Sequence[Any]) -> Tensor:
    """Replaces the block at computed starts by `update`; starts are clamped so that the block is inside the array.

    Negative starts count from the end, as in JAX. `start_indices` has one integer for each axis.
    """
    x = tensor(operand)
    update = convert(tensor(update), x.dtype)
    if len(start_indices) != x.ndim or update.ndim != x.ndim:
        raise ShapeError(
            f"dynamic_update_slice requires a start for each axis of {x.shape}, got {len(start_indices)} and an "
            f"update of shape {update.shape}.",
            where=user_frame(),
        )
    return sh.dynamic_update_slice(x, update, *_starts(start_indices, x.shape))


def _starts(starts: Sequence[Any], shape: Sequence[int]) -> list[Tensor]:
    """The start indices in one dtype; negative starts count from the end of the axes of `shape`."""
    is_known = [isinstance(s, (int, np.integer)) and s < 0 for s in starts]
    numbers = [tensor(max(int(s) + n, 0) if known else s) for s, n, known in zip(starts, shape, is_known, strict=True)]
    dtype = np.result_type(*(t.dtype for t in numbers)) if numbers else _INT32
    dtype = np.promote_types(dtype, _INT32) if dtype.kind == "i" else dtype
    return [_from_end(convert(t, dtype), n) for t, n in zip(numbers, shape, strict=True)]


def _from_end(start: Tensor, n: int) -> Tensor:
    """The start index, counted from the start of an axis of length `n` if it is negative."""
    known = splat_of(start)
    if start.dtype.kind == "u" or (isinstance(known, int) and known >= 0):
        return start
    return lg.select(lg.compare(start, full_like(start, 0), comparison_direction="LT"), start + n, start)
