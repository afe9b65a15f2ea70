"""Converts an index, as in ``x[1:, i]``, to a plan of the elements that it reads.

A plan has a static part (slices and integers), which becomes a slice operation, and a computed part (index arrays), which
becomes a gather or a scatter. Known numbers are checked against the shape. Computed negative numbers count from the end.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, IndexingError, MaskError, SliceError, TraceError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.dialects.types import is_integer
from nabla_mlir.numpy.axes import Shape
from nabla_mlir.numpy.operands import operand
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.named import VectorizedArray
from nabla_mlir.table.promotion import as_tensor, broadcast_shapes
from nabla_mlir.table.tensor import Tensor, full_like

_INT32 = np.dtype(np.int32)
_TRACED = (Tensor, VectorizedArray)  # the types without known numbers


@dataclass(frozen=True)
class Window:
    """The static part of an index along one axis: `length` elements from `start`, `step` apart."""

    start: int
    length: int
    step: int = 1

    @property
    def low(self) -> int:
        """The smallest index that is read."""
        return self.start if self.step > 0 else self.start + (self.length - 1) * self.step


@dataclass(frozen=True)
class Plan:
    """The parts of an index.

    Attributes:
      windows: the static part, one for each axis of the array.
      dropped: the axes that an integer removes.
      computed: index arrays (NumPy arrays if known, else tensors) by axis; the window of such an axis is the whole axis.
      position: the position of the axes of the index arrays among the other axes of the result.
      shape: the shape of the result.
    """

    windows: tuple[Window, ...]
    dropped: tuple[int, ...]
    computed: dict[int, Any]
    position: int
    shape: Shape

    @property
    def is_scalar(self) -> bool:
        """True if all computed indices are scalars; the plan then reads one block."""
        return all(np.ndim(i) == 0 for i in self.computed.values())


def read_index(shape: Shape, index: Any) -> Plan:
    """The plan of an index into an array of `shape`.

    Raises:
      IndexingError: there are too many indices, or one is out of range.
      TraceError: an index has a type that cannot be traced.
    """
    items = expanded(shape, index if isinstance(index, tuple) else (index,))
    windows: list[Window] = []
    computed: dict[int, Any] = {}
    dropped: list[int] = []
    kinds = ""  # one letter for each item: n(ew axis), s(lice), i(nteger), a(rray)
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
            windows.append(Window(_check_index(item, n, axis), 1))
        else:
            kinds += "a"
            computed[axis] = wrapped(item, n, axis)
            windows.append(Window(0, n))
    return _make_plan(shape, windows, dropped, computed, kinds)


def _make_plan(shape: Shape, windows: list[Window], dropped: list[int], computed: dict[int, Any], kinds: str) -> Plan:
    """The plan of an index, with the position of index arrays and the shape of the result.

    Args:
      shape: the shape of the indexed array.
      windows, dropped, computed: the attributes of the plan.
      kinds: a letter for each item of the index: "a" an index array, "i" an integer, "s" a slice, "n" None.
    """
    arrays = broadcast_shapes("indexing", [np.shape(i) for i in computed.values()]) if computed else ()
    # As in NumPy: the axes of adjacent index arrays (and integers) replace these items; otherwise they are the first axes.
    advanced = [k for k, kind in enumerate(kinds) if kind in "ai"]
    together = bool(advanced) and advanced == list(range(advanced[0], advanced[-1] + 1))
    if computed and together:
        position = kinds[: advanced[0]].count("s")
    else:
        position, advanced = 0, [-1]  # -1 is the index of no item: the axes of the arrays come first
    out: list[int] = list(arrays) if advanced == [-1] else []
    lengths = iter(w.length for d, w in enumerate(windows) if d not in computed and d not in dropped)
    for k, kind in enumerate(kinds):
        if k == advanced[0]:
            out += arrays
        if kind in "ns":
            out.append(1 if kind == "n" else next(lengths))
    return Plan(tuple(windows), tuple(dropped), computed, position, tuple(out))


def expanded(shape: Shape, items: tuple[Any, ...]) -> list[Any]:
    """The items in plain form: the ellipsis and missing items become slices, and masks become index arrays."""
    _check_masks(shape, items)
    plain: list[Any] = []
    for item in items:
        plain += _masks(item) if _is_mask(item) else [plain_index(item)]
    count = len(plain) - sum(i is None or i is Ellipsis for i in plain)
    if count > len(shape) or sum(i is Ellipsis for i in plain) > 1:
        raise IndexingError(
            f"indexing requires at most {len(shape)} indices and one ellipsis, got {len(items)} for shape {shape}.",
            where=user_frame(),
        )
    ellipsis = next((k for k, i in enumerate(plain) if i is Ellipsis), len(plain))
    rest = [slice(None)] * (len(shape) - count)
    return plain[:ellipsis] + rest + plain[ellipsis + 1 :]


def _check_masks(shape: Shape, items: Sequence[Any]) -> None:
    """Raises IndexingError for a mask among the items of an index whose shape differs from the axes that it masks, except for
    length 0.

    `shape` is the shape of the indexed array.
    """
    counts = [_axis_count(item) for item in items]
    axis = 0
    for item, count in zip(items, counts, strict=True):
        lengths = shape[axis : axis + count]
        if _is_mask(item) and len(lengths) == count and any(m not in (0, n) for m, n in zip(np.shape(item), lengths, strict=True)):
            raise IndexingError(
                f"indexing requires a mask as long as the axes it masks, got shape {np.shape(item)} for axis {axis} of "
                f"shape {shape}.",
                where=user_frame(),
            )
        axis += len(shape) - sum(counts) if item is Ellipsis else count


def plain_index(item: Any) -> Any:
    """One item of an index as an integer, a slice, None, an ellipsis or an array of integers.

    Raises:
      TraceError, DtypeError: the item has another type.
    """
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (list, tuple)):
        # NumPy would make a float array of an empty list.
        item = operand(item) if any(isinstance(e, _TRACED) for e in item) else np.asarray(item, None if item else np.intp)
    if type(item) is Array:
        item = item.numpy()
    elif isinstance(item, VectorizedArray):
        item = as_tensor(item)
    if isinstance(item, bool) or not (hasattr(item, "dtype") or hasattr(item, "__index__")):
        raise TraceError(f"indexing requires integers, slices, None, ... or arrays, got {item!r}.", where=user_frame())
    if hasattr(item, "dtype"):
        if not is_integer(item.dtype):
            raise DtypeError(
                f"indexing requires integers or truth values, got {item.dtype}.",
                where=user_frame(),
                help="convert the index with astype.",
            )
        return item if isinstance(item, Tensor) or item.ndim else int(item)
    return operator.index(item)


def _is_mask(item: Any) -> bool:
    """True if an item of an index consists of truth values."""
    if isinstance(item, (list, tuple)):
        return bool(item) and np.asarray(item).dtype == bool if not any(isinstance(e, _TRACED) for e in item) else False
    return isinstance(item, (bool, np.bool_)) or getattr(item, "dtype", None) == np.dtype(bool)


def _masks(mask: Any) -> list[Any]:
    """The indices of the true elements along each axis. Raises MaskError for a traced mask."""
    if isinstance(mask, _TRACED):
        raise MaskError(
            "indexing requires a mask with known values, got a traced one.",
            where=user_frame(),
            help="the number of elements would depend on values: use where(mask, x, y), or x.at[...].set with where.",
        )
    mask = np.asarray(mask)
    return list(np.nonzero(mask))


def _window(item: slice, n: int, axis: int) -> Window:
    """The start, length and step of the indices that the slice `item` selects from axis `axis` of length `n`; raises SliceError for
    step 0.
    """
    bounds = [None if b is None else _bound(b, axis) for b in (item.start, item.stop, item.step)]
    if bounds[2] == 0:
        raise SliceError("a slice requires a step that is not 0, got 0.", where=user_frame())
    positions = range(*slice(*bounds).indices(n))
    return Window(positions.start if len(positions) else 0, len(positions), positions.step if len(positions) > 1 else 1)


def _bound(bound: Any, axis: int) -> int:
    """A bound of a slice as an integer; raises TraceError if it is traced. `axis` is the axis of the slice, for the error."""
    if isinstance(bound, _TRACED):
        raise TraceError(
            f"a slice requires known bounds, got the traced {bound!r} at axis {axis}.",
            where=user_frame(),
            help="use nm.numpy.dynamic_slice(x, starts, sizes), whose sizes are fixed.",
        )
    return operator.index(bound)


def _check_index(i: int, n: int, axis: int) -> int:
    """The index `i`, counted from the start; raises IndexingError if it is out of range of axis `axis` of length `n`."""
    if (error := _range_error(np.asarray(i), n, axis)) is not None:
        raise error
    return i % n


def wrapped(i: Any, n: int, axis: int) -> Any:
    """The index array `i` with negative numbers counted from the end of axis `axis` of length `n`; raises IndexingError if known
    ones misfit.
    """
    if not isinstance(i, Tensor):
        if (error := _range_error(i, n, axis)) is not None:
            raise error
        return np.where(i < 0, i + n, i).astype(_INT32 if n < 2**31 else np.int64)
    if i.dtype.itemsize < 4:
        i = ew.convert(i, dtype=_INT32)
    if i.dtype.kind == "u":
        return i
    return lg.select(lg.compare(i, full_like(i, 0), comparison_direction="LT"), i + n, i)


def _range_error(i: np.ndarray, n: int, axis: int) -> IndexingError | None:
    """The error for the known indices `i` if one is out of range of axis `axis` of length `n`; None if all are in range."""
    if not i.size or (-n <= (low := i.min()) and i.max() < n):
        return None
    wanted, got = f"indices from {-n} to {n - 1}", f"{low} to {i.max()}"
    if not i.ndim:
        wanted, got = f"an index below {n}", str(i)
    return IndexingError(
        f"indexing requires {wanted} along axis {axis}, got {got}.",
        where=user_frame(),
        help="known indices are checked; take(x, i, axis, mode='clip') clamps them, x.at[i].set(v, mode='drop') drops them.",
    )


def known_misfit(shape: Shape, items: Sequence[Any]) -> IndexingError | None:
    """The error for the first known index out of range; None if there is none. The index has no masks (see `static_index`)."""
    count = sum(item is not None and item is not Ellipsis for item in items)
    axis = 0
    for item in items:
        if item is Ellipsis:
            axis += len(shape) - count
        if item is None or item is Ellipsis:
            continue
        if not 0 <= axis < len(shape):
            return None  # too many indices, which `read_index` refuses
        if not isinstance(item, slice) and not any(isinstance(leaf, _TRACED) for leaf in pytree.flatten(item)[0]):
            error = _range_error(_integers(item), shape[axis], axis)
            if error is not None:
                return error
        axis += 1
    return None


def _integers(item: Any) -> np.ndarray:
    """The known indices of an item as an array; an empty one if the item is no integer, which `read_index` refuses."""
    array = np.asarray(readable(item))
    return array if is_integer(array.dtype) else np.empty(0, _INT32)


def static_index(shape: Shape, index: Any) -> tuple[Shape, tuple[Any, ...]]:
    """The shape of an array, and an index into it with index arrays in place of masks, because masks decide the shape of the
    result.

    A scalar truth value masks a new axis of size 1 before the next axis; the first result is the shape of the array with these
    axes.
    """
    items = index if isinstance(index, tuple) else (index,)
    _check_masks(shape, items)
    lengths, out = list(shape), []
    axis = 0
    count = sum(_axis_count(item) for item in items)
    for item in items:
        if _is_mask(item):
            mask = item if isinstance(item, Tensor) else np.asarray(item)
            if not np.ndim(mask):
                lengths.insert(axis, 1)
                mask = mask.reshape(1)
            out += _masks(mask)
            axis += np.ndim(mask)
            continue
        axis += len(shape) - count if item is Ellipsis else _axis_count(item)
        out.append(int(item) if isinstance(item, np.integer) else item)
    return tuple(lengths), tuple(out)


def _axis_count(item: Any) -> int:
    """The number of axes that an item of an index selects; 0 for the ellipsis."""
    return np.ndim(item) if _is_mask(item) else int(item is not None and item is not Ellipsis)
