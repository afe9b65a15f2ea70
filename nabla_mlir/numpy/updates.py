"""``x.at[...]`` returns an array with some elements replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.numpy.axes import Shape, reversed_along
from nabla_mlir.numpy.creation import ones_like, zeros
from nabla_mlir.numpy.index_modes import index_inside, longer, shorter, word_of
from nabla_mlir.numpy.index_plan import Plan, Window, known_misfit, read_index, static_index
from nabla_mlir.numpy.indexing import get_index, get_moded, positions, starts, static_part, undropped
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert, operand, stored
from nabla_mlir.numpy.reductions import any as any_
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.gather import scatter_of
from nabla_mlir.ops.reduction import identity_of
from nabla_mlir.ops.scatter import scatter
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.narrowing import follows_jax
from nabla_mlir.table.promotion import as_tensor, broadcast_to
from nabla_mlir.table.tensor import Tensor, current_scope, full
from nabla_mlir.transforms.control import while_loop

_INT32 = np.dtype(np.int32)


def put(x: Tensor, index: Any, value: Any, combiner: str) -> Tensor:
    """Combines `value` into the elements of `x` at an index: "set", "add", "mul", "min" or "max"."""
    plan = read_index(x.shape, index)
    if 0 in plan.shape:
        return x
    value = _spread(stored(value, x, plan.shape, "x.at[...]"), plan.shape)
    if not plan.computed:
        return _put_static(x, plan, value, combiner)
    if plan.is_scalar and all(
        w == Window(0, n) for d, (w, n) in enumerate(zip(plan.windows, x.shape, strict=True)) if d not in plan.computed
    ):
        return _put_block(x, plan, value, combiner)
    if any(w != Window(0, n) for w, n in zip(plan.windows, x.shape, strict=True)):
        # The static part is read, updated by the computed part, and written back.
        part = static_part(x, plan.windows)
        inner = Plan(tuple(Window(0, n) for n in part.shape), plan.dropped, plan.computed, plan.position, plan.shape)
        outer = Plan(plan.windows, (), {}, 0, part.shape)
        return _put_static(x, outer, _scatter(part, inner, value, combiner), "set")
    return _scatter(x, plan, value, combiner)


def _spread(value: Tensor, shape: Shape) -> Tensor:
    """Broadcasts the value to the shape of the elements that it replaces. Raises ShapeError if that is impossible."""
    if value.ndim > len(shape) or any(n not in (1, m) for n, m in zip(value.shape[::-1], shape[::-1], strict=False)):
        raise ShapeError(f"x.at[...] requires a value that broadcasts to {shape}, got {value.shape}.", where=user_frame())
    return broadcast_to(value, shape)


def _put_static(x: Tensor, plan: Plan, value: Tensor, combiner: str) -> Tensor:
    """The array with `value` combined ("set", "add", ...) into the part that a plan without index arrays selects.

    A part without steps is one block, which is replaced. For "add" and for other steps, the value is padded to the shape of `x`.
    """
    lengths = tuple(w.length for w in plan.windows)
    value = reversed_along(reshaped(value, lengths), [d for d, w in enumerate(plan.windows) if w.step < 0])
    if lengths == x.shape and combiner == "set":
        return value
    lows, steps = [w.low for w in plan.windows], [abs(w.step) for w in plan.windows]
    dense = all(s == 1 for s in steps)
    if combiner == "add" or not dense:
        around = _around(x, plan, lows, steps)
        if combiner == "set":
            inside = sh.pad(full(lengths, True, np.dtype(bool)), full((), False, np.dtype(bool)), **around)
            return lg.select(inside, sh.pad(value, full((), 0, x.dtype), **around), x)
        neutral = full((), identity_of(combiner, x.dtype), x.dtype)
        return _combine(combiner, x, sh.pad(value, neutral, **around))
    if combiner != "set":
        value = _combine(combiner, static_part(x, [Window(w.low, w.length) for w in plan.windows]), value)
    return sh.dynamic_update_slice(x, value, *(full((), low, _INT32) for low in lows))


def _around(x: Tensor, plan: Plan, lows: list[int], steps: list[int]) -> dict[str, Any]:
    """The parameters of the `pad` that moves a block to its window in x: its first indices `lows` and its `steps` by axis."""
    extents = [low + (w.length - 1) * s + 1 for low, w, s in zip(lows, plan.windows, steps, strict=True)]
    return {
        "edge_padding_low": tuple(lows),
        "interior_padding": tuple(s - 1 for s in steps),
        "edge_padding_high": tuple(n - c for n, c in zip(x.shape, extents, strict=True)),
    }


def _combine(combiner: str, x: Tensor, y: Tensor) -> Tensor:
    """Combines the old elements and the new ones elementwise."""
    return {"add": ew.add, "mul": ew.multiply, "min": ew.minimum, "max": ew.maximum}[combiner](x, y)


def _put_block(x: Tensor, plan: Plan, value: Tensor, combiner: str) -> Tensor:
    """The array with `value` combined ("set", "add", ...) into the block that the computed scalar indices of a plan select."""
    sizes = tuple(1 if d in plan.computed else n for d, n in enumerate(x.shape))
    corner, value = starts(plan, x.ndim), reshaped(value, sizes)
    if combiner != "set":
        value = _combine(combiner, sh.dynamic_slice(x, *corner, slice_sizes=sizes), value)
    return sh.dynamic_update_slice(x, value, *corner)


def _scatter(x: Tensor, plan: Plan, value: Tensor, combiner: str) -> Tensor:
    """The array with `value` combined ("set", "add", ...) into the elements that the index arrays of a plan select."""
    shape = x.shape
    x, computed = undropped(x, plan)
    indices, dims = positions(x, computed, plan.position)
    arrays = indices.shape[:-1]
    windows = [n for d, n in enumerate(x.shape) if d not in computed]
    updates = reshaped(value, (*windows[: plan.position], *arrays, *windows[plan.position :]))
    out = scatter(
        x, indices, updates, scatter_dimension_numbers=scatter_of(dims), unique_indices=_are_unique(computed), body=combiner
    )
    return reshaped(out, shape)


def _are_unique(computed: dict[int, Any]) -> bool:
    """True if the index arrays, `computed` by axis, are known and select no element twice."""
    if any(isinstance(i, Tensor) for i in computed.values()):
        return False
    rows = np.stack([i.reshape(-1) for i in np.broadcast_arrays(*computed.values())], -1)
    return len(np.unique(rows, axis=0)) == len(rows)


def assign(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value`` for a traced array or an array with named axes: `x` becomes the array with replaced elements.

    Raises:
      TraceError: `x` was made outside the traced function, or the value has named axes that `x` lacks.
    """
    if isinstance(x, Tensor):
        x.check_open()
        if x.scope is not None and x.scope is not current_scope():
            raise TraceError(
                f"x[...] = v requires an array of the function that is being traced, got one from {x.scope.what}.",
                where=user_frame(),
                help="write x = x.at[...].set(v), and pass x in and out: as an argument, or in the carry of a loop.",
            )
    new = IndexUpdate(x)[index].set(value)
    if new.axes != x.axes:
        raise TraceError(
            f"x[...] = v requires a value without named axes that x lacks, got {dict(new.axes)}.",
            where=user_frame(),
            help="write x = x.at[...].set(v).",
        )
    if isinstance(x, Tensor):
        x.value, x.weak = new.value, False
    else:
        x.data = new.data


class IndexUpdate:
    """``x.at``: ``x.at[index].set(value)`` returns `x` with replaced elements at the index; `x` does not change.

    An index array may contain an index several times: `add` and similar methods combine all values; `set` stores one of them,
    and it is not specified which. Values at computed indices outside the array are dropped; a computed scalar index is
    clamped.

    Example:
      >>> import nabla_mlir.numpy as jnp
      >>> jnp.zeros(3).at[1].set(5.0).tolist()
      [0.0, 5.0, 0.0]
    """

    __slots__ = ("_x",)

    def __init__(self, x: Any):
        self._x = x

    def __getitem__(self, index: Any) -> IndexedUpdate:
        return IndexedUpdate(self._x, index)


class IndexedUpdate:
    """The elements of an array at an index, which can be read or replaced.

    All methods have `mode`, the treatment of indices out of range: "clip" clamps them, "drop" (or "fill") leaves them out,
    "promise_in_bounds" promises that there are none; None means the treatment of ``x[index]``. If `wrap_negative_indices` is
    False, negative indices are out of range, and None means "drop". The parameters `indices_are_sorted` and `unique_indices` of
    JAX have no effect.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Any, index: Any):
        self._x, self._index = x, index

    def _put(self, value: Any, combiner: str, mode: Any, wraps: bool = True) -> Any:
        """The array with a value combined into the elements at the index; see `put` for `combiner`."""
        if isinstance(self._index, Tensor) and self._index.dtype.kind == "b":
            return _put_masked(self._x, self._index, operand(value), combiner)
        shape, items = static_index(tuple(np.shape(self._x)), self._index)
        word = _mode(mode, wraps)
        error = known_misfit(shape, items) if word is None else None
        if error is not None and not follows_jax():
            raise error
        return _put_index(self._x, items, operand(value), combiner, shape, word if error is None else "fill", wraps)

    def _factors(self, values: Any, mode: Any, wraps: bool) -> Any:
        """An array of ones, with the products of the values at the index."""
        return IndexedUpdate(ones_like(self._x), self._index).multiply(values, mode=mode, wrap_negative_indices=wraps)

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The elements ``x[index]``. Mode "fill" gives `fill_value` out of range, by default NaN or the smallest integer."""
        if mode is None and fill_value is None and wrap_negative_indices:
            return get_index(self._x, self._index)
        shape, items = static_index(tuple(np.shape(self._x)), self._index)
        word = word_of("x.at", mode or ("clip" if fill_value is None else "fill"))
        return get_moded(self._x, items, shape, word, fill_value, wrap_negative_indices)

    def set(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with the elements replaced."""
        return self._put(values, "set", mode, wrap_negative_indices)

    def add(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `values` added to the elements."""
        return self._put(values, "add", mode, wrap_negative_indices)

    def subtract(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `values` subtracted from the elements."""
        return self._put(-operand(values), "add", mode, wrap_negative_indices)

    def multiply(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with the elements multiplied by `values`."""
        return self._put(values, "mul", mode, wrap_negative_indices)

    mul = multiply

    def divide(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with the elements divided by `values`, once for each repetition of an index; integers give floating point."""
        return self._x / self._factors(values, mode, wrap_negative_indices)

    def power(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with the elements raised to the power `values`, once for each repetition of an index."""
        return self._x ** self._factors(values, mode, wrap_negative_indices)

    def min(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with the smaller of the elements and `values`."""
        return self._put(values, "min", mode, wrap_negative_indices)

    def max(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with the larger of the elements and `values`."""
        return self._put(values, "max", mode, wrap_negative_indices)

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with the elements replaced by func(elements), once for each repetition of an index."""
        counts = None if unique_indices else self._counts(mode, wrap_negative_indices)
        if counts is None or (not isinstance(counts, Tensor) and counts.max(initial=0) < 2):
            wraps = {"wrap_negative_indices": wrap_negative_indices}
            old = self.get(mode="clip" if mode is not None or not wrap_negative_indices else None, **wraps)
            return self.set(func(old), mode=mode, **wraps)
        x = operand(self._x)

        def once_more(k: Any, x: Any) -> Any:
            """x with func applied to the elements that are selected more than k times."""
            return where(counts > k, convert(func(x), x.dtype), x)

        if isinstance(counts, Tensor):
            return while_loop(lambda state: any_(counts > state[0]), lambda s: (s[0] + 1, once_more(*s)), (0, x))[1]
        for k in range(int(counts.max())):
            x = once_more(k, x)
        return x

    def _counts(self, mode: Any, wraps: bool) -> Any:
        """An array like x that counts how often the index selects each element; None for an index without integer arrays."""
        shape, items = static_index(tuple(np.shape(self._x)), self._index)
        items = tuple(np.asarray(i) if isinstance(i, list) else i for i in items)
        arrays = [i for i in items if hasattr(i, "dtype") and i.dtype.kind != "b" and i.ndim]
        if not arrays:
            return None
        if any(isinstance(i, Tensor) for i in arrays):
            counts = IndexedUpdate(zeros(shape, _INT32), items).add(1, mode=mode, wrap_negative_indices=wraps)
            return reshaped(counts, np.shape(self._x))
        word = _mode(mode, wraps)
        items, axes = (items, ()) if word is None else index_inside(shape, items, word, wraps)
        counts = np.zeros([n + (d in axes) for d, n in enumerate(shape)], np.int32)
        np.add.at(counts, items, 1)
        return counts[tuple(slice(n) for n in shape)].reshape(np.shape(self._x))


def _mode(mode: Any, wraps: bool) -> str | None:
    """The word of a mode; None is the treatment of ``x[index]``, in which negative indices count from the end."""
    return None if mode is None and wraps else word_of("x.at", mode or "drop")


@library
def _put_index(x: Any, index: Any, value: Any, combiner: str, shape: Static[Any], mode: str | None, wraps: bool) -> Tensor:
    """x with `value` combined into an indexed part; `mode` treats indices outside, and `shape` has one axis for each mask."""
    x = as_tensor(x)
    shaped = reshaped(x, shape)
    if mode is None:
        return reshaped(put(shaped, index, value, combiner), x.shape)
    items, axes = index_inside(shape, index, mode, wraps)
    return reshaped(shorter(put(longer(shaped, axes, 0), items, value, combiner), axes), x.shape)


@library
def _put_masked(x: Any, mask: Any, value: Any, combiner: str) -> Tensor:
    """x with `value` combined into the elements where a traced mask is true; all masked rows get the same value."""
    x, mask = as_tensor(x), as_tensor(mask)
    unmasked = x.shape[mask.ndim :]
    if x.shape[: mask.ndim] != mask.shape or np.ndim(value) > len(unmasked):
        raise TraceError(
            f"x.at[mask] requires a traced mask of the first axes of {x.shape} and one value for all that it masks, got shapes "
            f"{mask.shape} and {np.shape(value)}.",
            where=user_frame(),
            help="use where(mask, values, x).",
        )
    mask = sh.broadcast_in_dim(mask, shape=x.shape, broadcast_dimensions=tuple(range(mask.ndim)))
    return lg.select(mask, put(x, ..., value, combiner), x)
