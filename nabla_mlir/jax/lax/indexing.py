"""Slices, gathers and scatters under the names and with the parameters of `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.jax.lax.index_checks import check_gather, check_scatter
from nabla_mlir.numpy import indexing
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.index_modes import GatherScatterMode, filler
from nabla_mlir.numpy.operands import convert, require_integer, tensor
from nabla_mlir.numpy.special_values import described
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.gather import clamped_starts, gather_dims, last_starts, per_component
from nabla_mlir.ops.gather import gather as gather_record
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.scatter import scatter as scatter_record
from nabla_mlir.ops.scatter import scatter_dims
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.sparsity.indexing import gather_of
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, constant, full, full_like


class GatherDimensionNumbers(NamedTuple):
    """The axes of a gather; see StableHLO."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """The axes of a scatter; see StableHLO."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


# ---------------------------------------------------------------- slices
def _starts(x: Tensor, axis: int, start: Any) -> list[Any]:
    """The start indices of a slice: `start` for the axis, and 0 for the other axes."""
    position = require_integer("start_index", tensor(start))
    return [position if d == axis else full((), 0, position.dtype) for d in range(x.ndim)]


@library
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: Static[int], axis: Static[int] = 0) -> Tensor:
    """Returns `slice_size` elements from a computed start along one axis; the start is clamped so that all are inside.

    Example:
      >>> dynamic_slice_in_dim(np.arange(5.0), np.int32(3), 2).tolist()
      [3.0, 4.0]
    """
    x = tensor(operand)
    at = axis_of("dynamic_slice_in_dim", axis, x.ndim)
    sizes = tuple(slice_size if d == at else n for d, n in enumerate(x.shape))
    return indexing.dynamic_slice(x, _starts(x, at, start_index), sizes)


@library
def dynamic_index_in_dim(operand: Any, index: Any, axis: Static[int] = 0, keepdims: bool = True) -> Tensor:
    """The slice at a computed index along one axis; `keepdims` leaves the axis with length 1."""
    x = dynamic_slice_in_dim(operand, index, 1, axis)
    at = axis_of("dynamic_index_in_dim", axis, x.ndim)
    return x if keepdims else reshaped(x, (*x.shape[:at], *x.shape[at + 1 :]))


@library
def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: Static[int]) -> Tensor:
    """Replaces the elements from a computed start along one axis."""
    x = tensor(operand)
    return indexing.dynamic_update_slice(x, update, _starts(x, axis_of("dynamic_update_slice_in_dim", axis, x.ndim), start_index))


@library
def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: Static[int]) -> Tensor:
    """Replaces the slice at a computed index along one axis; the update may lack that axis."""
    x, new = tensor(operand), tensor(update)
    at = axis_of("dynamic_update_index_in_dim", axis, x.ndim)
    if new.ndim != x.ndim:
        new = reshaped(new, (*new.shape[:at], 1, *new.shape[at:]))
    return dynamic_update_slice_in_dim(x, new, index, at)


@library
def index_take(src: Any, idxs: Any, axes: Static[Any]) -> Tensor:
    """The slices of `src` at index vectors; `idxs` has one array of indices for each of `axes`."""
    order = dict(zip(axes, idxs, strict=True))
    x = tensor(src)
    return x[tuple(order.get(d, _ALL) for d in range(x.ndim))]


_ALL = np.s_[:]


# ---------------------------------------------------------------- gather
@library
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: Static[Any],
    slice_sizes: Static[Any],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Tensor:
    """Returns slices of the operand at computed indices; the last axis of `start_indices` contains the index vectors.

    Args:
      operand: an array.
      start_indices: integers.
      dimension_numbers: a `GatherDimensionNumbers`.
      slice_sizes: the shape of each slice.
      unique_indices, indices_are_sorted: known properties of the indices.
      mode: the treatment of slices out of range: "clip" (the default; the start is clamped), "fill" or "promise_in_bounds".
      fill_value: the value for "fill"; the default is NaN, or the smallest integer.

    Raises:
      ShapeError: the dimension numbers do not fit the shapes.
    """
    x, positions, numbers = tensor(operand), require_integer("gather", tensor(start_indices)), dimension_numbers
    sizes = tuple(slice_sizes)
    check_gather(x.shape, positions.shape, numbers, sizes)
    dims = gather_dims(**{k: tuple(v) for k, v in numbers._asdict().items()}, index_vector_dim=positions.ndim - 1)
    out = gather_record(x, positions, dimension_numbers=dims, slice_sizes=sizes, indices_are_sorted=indices_are_sorted)
    if mode is None or GatherScatterMode.from_any(mode) is not GatherScatterMode.FILL_OR_DROP:
        return out
    limits = last_starts(x.shape, dims["start_index_map"], sizes)
    fits = _fits(positions, limits)
    batch = [d for d in range(out.ndim) if d not in dims["offset_dims"]]
    mask = sh.broadcast_in_dim(fits, shape=out.shape, broadcast_dimensions=tuple(batch))
    return lg.select(mask, out, full_like(out, filler(fill_value, out.dtype)))


def _fits(positions: Tensor, limits: np.ndarray) -> Tensor:
    """True for each index vector, which is along the last axis, if it is inside the limits."""
    every = np.broadcast_to(per_component(limits, positions, positions.ndim - 1), positions.shape)
    low = lg.compare(positions, full_like(positions, 0), comparison_direction="GE")
    high = lg.compare(positions, constant(every.astype(positions.dtype)), comparison_direction="LE")
    return reduce(lg.logical_and(low, high), full((), True, np.dtype(bool)), dimensions=(positions.ndim - 1,), body="and")


# ---------------------------------------------------------------- scatter
def _scattering(name: str, body: str, doc: str) -> Callable[..., Any]:
    """The function of `jax.lax` with this name, which combines updates by the operation in `body`."""

    @described(name, doc)
    def f(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: Static[Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Tensor:
        """The operand after the updates, whose signs change for `scatter_sub`."""
        x, new = tensor(operand), tensor(updates)
        new = convert(-new if name == "scatter_sub" else new, x.dtype)
        positions, dims = _positions(name, x, scatter_indices, new, dimension_numbers, mode)
        return scatter_record(
            x,
            positions,
            new,
            scatter_dimension_numbers=dims,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            body=body,
        )

    return library(f)


def _positions(name: str, x: Tensor, indices: Any, new: Tensor, numbers: Any, mode: Any) -> tuple[Tensor, dict[str, Any]]:
    """The checked indices of a scatter and its dimension numbers by name; with the mode CLIP the indices are clamped to the array.

    `new` are the updates, and `numbers` are JAX's dimension numbers.
    """
    positions = require_integer(name, tensor(indices))
    check_scatter(name, x.shape, positions.shape, new.shape, numbers)
    dims = scatter_dims(
        update_window_dims=tuple(numbers.update_window_dims),
        inserted_window_dims=tuple(numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(numbers.scatter_dims_to_operand_dims),
        input_batching_dims=tuple(numbers.operand_batching_dims),
        index_vector_dim=positions.ndim - 1,
        scatter_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
    )
    if GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP:
        windows = iter(new.shape[d] for d in dims["update_window_dims"])
        absent = {*dims["inserted_window_dims"], *dims["input_batching_dims"]}
        sizes = [1 if d in absent else next(windows) for d in range(x.ndim)]
        positions = clamped_starts(positions, x.shape, dims["scatter_dims_to_operand_dims"], sizes, positions.ndim - 1)
    return positions, dims


_DOC = """The operand with updates {} at computed indices; updates outside are dropped, or moved inside with mode "clip"."""
scatter: Callable[..., Any] = _scattering("scatter", "set", _DOC.format("written"))
scatter_add: Callable[..., Any] = _scattering("scatter_add", "add", _DOC.format("added"))
scatter_sub: Callable[..., Any] = _scattering("scatter_sub", "add", _DOC.format("subtracted"))
scatter_mul: Callable[..., Any] = _scattering("scatter_mul", "mul", _DOC.format("multiplied"))
scatter_min: Callable[..., Any] = _scattering("scatter_min", "min", _DOC.format("that are smaller written"))
scatter_max: Callable[..., Any] = _scattering("scatter_max", "max", _DOC.format("that are larger written"))


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: Any,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """Applies a function once to each element at computed indices, and returns the new array.

    Args:
      operand: an array.
      scatter_indices: integers, which must not repeat if `unique_indices` is True.
      func: a function of one element.
      dimension_numbers: a `ScatterDimensionNumbers`.
      update_shape: the shape of the updates of the equivalent scatter.
      indices_are_sorted, unique_indices: known properties of the indices.
      mode: the treatment of indices out of range.

    Raises:
      ShapeError: `update_shape` does not fit.
    """
    if len(update_shape) < len(dimension_numbers.update_window_dims):
        raise ShapeError(
            f"scatter_apply requires update_shape with an axis for each of {dimension_numbers.update_window_dims}, "
            f"got {tuple(update_shape)}.",
            where=user_frame(),
        )
    return _applied(func, operand, scatter_indices, dimension_numbers, tuple(update_shape), unique_indices, mode)


def _applied(func: Any, operand: Any, indices: Any, numbers: Any, shape: tuple[int, ...], unique: bool, mode: Any) -> Any:
    """The array with `func` applied to the elements at the indices.

    `numbers` are the dimension numbers of a scatter, and `shape` is the shape of the elements at the indices.
    """
    old = _read(operand, indices, numbers, shape, mode)
    return scatter(operand, indices, func(old), numbers, unique_indices=unique, mode=mode)


@library
def _read(operand: Any, indices: Any, numbers: Static[Any], shape: Static[Any], mode: Any) -> Tensor:
    """The elements of the array to which a scatter with these dimension numbers, and updates of this shape, would write."""
    x = tensor(operand)
    new = full(shape, 0, x.dtype)
    positions, dims = _positions("scatter_apply", x, indices, new, numbers, mode)
    windows = iter(shape[d] for d in dims["update_window_dims"])
    absent = {*dims["inserted_window_dims"], *dims["input_batching_dims"]}
    sizes = tuple(1 if d in absent else next(windows) for d in range(x.ndim))
    return gather_record(x, positions, dimension_numbers=gather_of(dims), slice_sizes=sizes, indices_are_sorted=False)
