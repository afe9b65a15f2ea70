"""Indexing: ``x[...]``, ``x.at[...]``, take and their like.

An index is read once into a plan: a static part (slices, one of each integer), which is a slice operation, and a
computed part (index arrays), which is a gather or a scatter. Numbers that are known are checked against the shape;
numbers that are computed wrap if they are negative, and are then moved inside the array when reading.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.dialects.types import is_integer
from nabla_mlir.errors import DtypeError, IndexingError, ShapeError, TraceError, user_frame
from nabla_mlir.numpy.axes import Shape, axis_of, joined, reversed_along
from nabla_mlir.numpy.operands import convert, operand, tensor
from nabla_mlir.numpy.ufuncs import remainder
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import indexing as ix
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import as_tensor, broadcast_shapes, broadcast_to
from nabla_mlir.table.tensor import Tensor, constant, full, full_like

_INT32 = np.dtype(np.int32)


# ---------------------------------------------------------------- reading an index
@dataclass(frozen=True)
class Window:
    """The static part of an index along one axis: `length` elements from `start`, `step` apart."""

    start: int
    length: int
    step: int = 1

    @property
    def low(self) -> int:
        """The smallest place that is read."""
        return self.start if self.step > 0 else self.start + (self.length - 1) * self.step


@dataclass(frozen=True)
class Plan:
    """An index, taken apart.

    Attributes:
      windows: the static part, one for each axis of the array.
      dropped: axes that an integer takes away.
      computed: index arrays (NumPy arrays if known, else tensors) by axis; along those the window is everything.
      place: where the axes of the index arrays stand among the axes that are left.
      shape: of the result.
    """

    windows: tuple[Window, ...]
    dropped: tuple[int, ...]
    computed: dict[int, Any]
    place: int
    shape: Shape

    @property
    def is_scalar(self) -> bool:
        """True if all computed indices are scalars: then the elements read are one block."""
        return all(np.ndim(i) == 0 for i in self.computed.values())


def read_index(shape: Shape, index: Any) -> Plan:
    """The plan of an index into an array of `shape`.

    Raises:
      IndexingError: there are too many indices, or one is outside.
      TraceError: an index is of a kind that cannot be traced.
    """
    items = _expanded(shape, index if isinstance(index, tuple) else (index,))
    windows: list[Window] = []
    computed: dict[int, Any] = {}
    dropped: list[int] = []
    kinds = ""  # of each item: n(ew axis), s(lice), i(nteger), a(rray)
    for item in items:
        axis = len(windows)
        if item is None:
            kinds += "n"
            continue
        n = shape[axis]
        if isinstance(item, slice):
            kinds += "s"
            windows.append(_window(item, n, axis))
        elif isinstance(item, int):
            kinds += "i"
            dropped.append(axis)
            windows.append(Window(_checked(item, n, axis), 1))
        else:
            kinds += "a"
            computed[axis] = _wrapped(item, n, axis)
            windows.append(Window(0, n))
    return _finished(shape, windows, dropped, computed, kinds)


def _finished(shape: Shape, windows: list[Window], dropped: list[int], computed: dict[int, Any], kinds: str) -> Plan:
    arrays = broadcast_shapes("indexing", [np.shape(i) for i in computed.values()]) if computed else ()
    # NumPy: index arrays (and integers beside them) that stand together put their axes there, else in front.
    advanced = [k for k, kind in enumerate(kinds) if kind in "ai"]
    together = bool(advanced) and advanced == list(range(advanced[0], advanced[-1] + 1))
    if computed and together:
        place = kinds[: advanced[0]].count("s")
    else:
        place, advanced = 0, [-1]
    out: list[int] = list(arrays) if advanced == [-1] else []
    lengths = iter(w.length for d, w in enumerate(windows) if d not in computed and d not in dropped)
    for k, kind in enumerate(kinds):
        if k == advanced[0]:
            out += arrays
        if kind in "ns":
            out.append(1 if kind == "n" else next(lengths))
    return Plan(tuple(windows), tuple(dropped), computed, place, tuple(out))


def _expanded(shape: Shape, items: tuple[Any, ...]) -> list[Any]:
    """The items in plain form, the ellipsis and what is missing at the end written out; masks as index arrays."""
    _check_masks(shape, items)
    plain: list[Any] = []
    for item in items:
        plain += _masks(item) if _is_mask(item) else [_plain(item)]
    count = len(plain) - sum(i is None or i is Ellipsis for i in plain)
    if count > len(shape) or sum(i is Ellipsis for i in plain) > 1:
        raise IndexingError(f"indexing requires at most {len(shape)} indices and one ellipsis, got {len(items)} for "
                            f"shape {shape}.",
                            where=user_frame())  # fmt: skip
    at = next((k for k, i in enumerate(plain) if i is Ellipsis), len(plain))
    rest = [slice(None)] * (len(shape) - count)
    return plain[:at] + rest + plain[at + 1 :]


def _check_masks(shape: Shape, items: Sequence[Any]) -> None:
    """Raises IndexingError for a mask that is longer or shorter than the axes it stands for."""
    counts = [np.ndim(i) if _is_mask(i) else int(i is not None and i is not Ellipsis) for i in items]
    axis = 0
    for item, count in zip(items, counts, strict=True):
        if _is_mask(item) and axis + count <= len(shape) and np.shape(item) != shape[axis : axis + count]:
            raise IndexingError(
                f"indexing requires a mask as long as the axes it masks, got shape {np.shape(item)} for axis {axis} of "
                f"shape {shape}.", where=user_frame(),
            )  # fmt: skip
        axis += len(shape) - sum(counts) if item is Ellipsis else count


def _plain(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (list, tuple)):
        item = (
            operand(item) if any(isinstance(e, Tensor) for e in item) else np.asarray(item, None if item else np.intp)
        )
    if isinstance(item, Array):
        item = item.numpy()
    if isinstance(item, bool) or not (hasattr(item, "dtype") or hasattr(item, "__index__")):
        raise TraceError(f"indexing requires integers, slices, None, ... or arrays, got {item!r}.", where=user_frame())
    if hasattr(item, "dtype"):
        if not is_integer(item.dtype):
            raise DtypeError(f"indexing requires integers or truth values, got {item.dtype}.", where=user_frame(),
                             help="convert the index with astype.")  # fmt: skip
        return item if isinstance(item, Tensor) or item.ndim else int(item)
    return operator.index(item)


def _is_mask(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return bool(item) and np.asarray(item).dtype == bool if not any(isinstance(e, Tensor) for e in item) else False
    return isinstance(item, (bool, np.bool_)) or getattr(item, "dtype", None) == np.dtype(bool)


def _masks(mask: Any) -> list[Any]:
    if isinstance(mask, Tensor):
        raise TraceError("indexing requires a mask with known values, got a traced one.", where=user_frame(),
                         help="the number of elements would depend on values: use where(mask, x, y), or x.at[...].set "
                         "with where.")  # fmt: skip
    mask = np.asarray(mask)
    if not mask.ndim:
        raise TraceError(f"indexing requires a mask with axes, got {mask!r}.", where=user_frame(), help="use where.")
    return list(np.nonzero(mask))


def _window(item: slice, n: int, axis: int) -> Window:
    bounds = [None if b is None else _bound(b, axis) for b in (item.start, item.stop, item.step)]
    if bounds[2] == 0:
        raise IndexingError("a slice requires a step that is not 0, got 0.", where=user_frame())
    places = range(*slice(*bounds).indices(n))
    return Window(places.start if len(places) else 0, len(places), places.step if len(places) > 1 else 1)


def _bound(bound: Any, axis: int) -> int:
    if isinstance(bound, Tensor):
        raise TraceError(f"a slice requires known bounds, got the traced {bound!r} at axis {axis}.", where=user_frame(),
                         help="use nm.numpy.dynamic_slice(x, starts, sizes), whose sizes are fixed.")  # fmt: skip
    return operator.index(bound)


def _checked(i: int, n: int, axis: int) -> int:
    if not -n <= i < n:
        raise IndexingError(f"indexing requires an index below {n} along axis {axis}, got {i}.", where=user_frame())
    return i % n


def _wrapped(i: Any, n: int, axis: int) -> Any:
    """An index array with negative numbers counted from the end."""
    if not isinstance(i, Tensor):
        if i.size and not (-n <= i.min() and i.max() < n):
            raise IndexingError(f"indexing requires indices from {-n} to {n - 1} along axis {axis}, got {i.min()} to "
                                f"{i.max()}.",
                                where=user_frame())  # fmt: skip
        return np.where(i < 0, i + n, i).astype(_INT32 if n < 2**31 else np.int64)
    if i.dtype.itemsize < 4:
        i = ew.convert(i, dtype=_INT32)
    if i.dtype.kind == "u":
        return i
    return ew.select(ew.compare(i, full_like(i, 0), comparison_direction="LT"), i + n, i)


# ---------------------------------------------------------------- getting
def take_index(x: Tensor, index: Any) -> Tensor:
    """``x[index]``."""
    return get(x, read_index(x.shape, index))


def get(x: Tensor, plan: Plan) -> Tensor:
    """What a plan reads."""
    if 0 in plan.shape:
        return full(plan.shape, 0, x.dtype)
    x = static_part(x, plan.windows)
    if plan.computed and plan.is_scalar:
        sizes = tuple(1 if d in plan.computed else n for d, n in enumerate(x.shape))
        return reshaped(sh.dynamic_slice(x, *starts(plan, x.ndim), slice_sizes=sizes), plan.shape)
    if plan.computed:
        x, computed = undropped(x, plan)
        indices, dims = places(x, computed, plan.place)
        sizes = tuple(1 if d in computed else n for d, n in enumerate(x.shape))
        x = ix.gather(x, indices, dimension_numbers=dims, slice_sizes=sizes)
    return reshaped(x, plan.shape)


def static_part(x: Tensor, windows: Sequence[Window]) -> Tensor:
    """The elements that the static part of an index reads."""
    # Reversed first: IREE 3.13 does not compile the reverse of a slice with strides along an inner axis.
    x = reversed_along(x, [d for d, w in enumerate(windows) if w.step < 0])
    starts = tuple(w.start if w.step > 0 else n - 1 - w.start for w, n in zip(windows, x.shape, strict=True))
    steps = tuple(abs(w.step) for w in windows)
    stops = tuple(i + (w.length - 1) * k + 1 for i, w, k in zip(starts, windows, steps, strict=True))
    if all(t == (0, n, 1) for t, n in zip(zip(starts, stops, steps, strict=True), x.shape, strict=True)):
        return x
    return sh.slice_(x, start_indices=starts, limit_indices=stops, strides=steps)


def undropped(x: Tensor, plan: Plan) -> tuple[Tensor, dict[int, Any]]:
    """The array without the axes that integers took, and the computed indices by its axes."""
    dims = [d for d in range(x.ndim) if d not in plan.dropped]
    x = reshaped(x, tuple(x.shape[d] for d in dims))
    return x, {dims.index(d): i for d, i in plan.computed.items()}


def starts(plan: Plan, ndim: int) -> list[Tensor]:
    """The start of the block that scalar indices name, along every axis."""
    scalars = [i for i in plan.computed.values() if isinstance(i, Tensor)]
    dtype = np.result_type(*(i.dtype for i in scalars)) if scalars else _INT32
    return [as_tensor(plan.computed[d], dtype) if d in plan.computed else full((), 0, dtype) for d in range(ndim)]


def places(x: Tensor, computed: dict[int, Any], place: int) -> tuple[Tensor, dict[str, Any]]:
    """The index vectors of a gather, and its dimension numbers: the axes of the index arrays stand at `place`."""
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
    dims = ix.gather_dims(
        offset_dims=tuple(d for d in out if not place <= d < place + len(shape)), collapsed_slice_dims=tuple(computed),
        start_index_map=tuple(computed), index_vector_dim=len(shape),
    )  # fmt: skip
    return indices, dims


@library
def _get_index(x: Any, index: Any) -> Tensor:
    return take_index(as_tensor(x), index)


def get_index(x: Any, index: Any) -> Any:
    """``x[index]`` on tensors and on concrete arrays."""
    return _get_index(x, static_index(tuple(np.shape(x)), index))


def static_index(shape: Shape, index: Any) -> Any:
    """An index in which masks are index arrays: their values decide the shape, so they cannot be arguments."""
    items = index if isinstance(index, tuple) else (index,)
    _check_masks(shape, items)
    out: list[Any] = []
    for item in items:
        if _is_mask(item):
            out += _masks(item)
        else:
            out.append(int(item) if isinstance(item, np.integer) else item)
    return tuple(out)


# ---------------------------------------------------------------- functions
@library
def take(x: Any, indices: Any, axis: Static[int | None] = None, mode: str | None = None) -> Tensor:
    """The elements at `indices` along `axis`, or of the flattened array.

    Args:
      x: an array.
      indices: integers of any shape, which takes the place of the axis.
      axis: the axis; None flattens first.
      mode: what happens to indices outside: None checks known ones, and counts negative ones from the end; "clip"
        moves them inside; "wrap" goes round.
    """
    x = tensor(x)
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of("take", axis, x.ndim)
    return take_index(x, (*(slice(None),) * axis, _moded("take", indices, x.shape[axis], mode)))


def _moded(name: str, indices: Any, n: int, mode: str | None) -> Any:
    indices = _plain(indices)
    if mode is None:
        return indices
    if mode not in ("clip", "wrap"):
        raise ShapeError(f"{name} requires mode None, 'clip' or 'wrap', got {mode!r}.", where=user_frame())
    if not isinstance(indices, Tensor):
        result = np.clip(indices, 0, n - 1) if mode == "clip" else np.mod(indices, n)
        return result if np.ndim(result) else int(result)
    if mode == "wrap":
        return remainder(indices, n)
    return ew.clamp(full((), 0, indices.dtype), indices, full((), n - 1, indices.dtype))


@library
def take_along_axis(x: Any, indices: Any, axis: Static[int | None] = -1) -> Tensor:
    """For each place of `indices` the element of `x` at that place, with the index instead of its own along `axis`.

    Raises:
      ShapeError: the shapes do not broadcast in the other axes.
    """
    x = tensor(x)
    indices = _plain(indices)
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of("take_along_axis", axis, x.ndim)
    if np.ndim(indices) != x.ndim:
        raise ShapeError(
            f"take_along_axis requires as many axes in both, got {x.shape} and {np.shape(indices)}.", where=user_frame()
        )
    indices = as_tensor(_wrapped(indices, x.shape[axis], axis))
    rest = broadcast_shapes("take_along_axis", [s[:axis] + s[axis + 1 :] for s in (x.shape, indices.shape)])
    x, indices = (broadcast_to(v, (*rest[:axis], v.shape[axis], *rest[axis:])) for v in (x, indices))
    if not indices.size:
        return full(indices.shape, 0, x.dtype)
    return ix.along_axis(x, indices, axis)


@library
def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Static[Sequence[int]]) -> Tensor:
    """The block of the given sizes at computed starts, moved inside the array where it would reach beyond."""
    x = tensor(x)
    if (
        len(starts) != x.ndim
        or len(sizes) != x.ndim
        or any(not 0 <= k <= n for k, n in zip(sizes, x.shape, strict=True))
    ):
        raise ShapeError(f"dynamic_slice requires a start and a size within {x.shape} for each axis, got sizes "
                         f"{tuple(sizes)}.",
                         where=user_frame())  # fmt: skip
    return sh.dynamic_slice(x, *_scalars(starts), slice_sizes=tuple(sizes))


@library
def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Tensor:
    """`x` with the block at computed starts replaced by `update`; the block is moved inside the array if needed."""
    x = tensor(x)
    update = convert(tensor(update), x.dtype)
    if len(starts) != x.ndim or update.ndim != x.ndim:
        raise ShapeError(f"dynamic_update_slice requires a start for each axis of {x.shape}, got {len(starts)} and an "
                         f"update of shape {update.shape}.", where=user_frame())  # fmt: skip
    return sh.dynamic_update_slice(x, update, *_scalars(starts))


def _scalars(starts: Sequence[Any]) -> list[Tensor]:
    tensors = [tensor(s) for s in starts]
    dtype = np.result_type(*(t.dtype for t in tensors)) if tensors else _INT32
    return [convert(t, dtype) for t in tensors]
