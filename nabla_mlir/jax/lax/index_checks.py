"""The conditions that the dimension numbers of a gather and of a scatter must satisfy, as in the specification of StableHLO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from nabla_mlir.base.errors import ShapeError, user_frame


def _refuse(name: str, condition: str, got: str) -> NoReturn:
    """Raises ShapeError: the operation `name` requires the condition."""
    raise ShapeError(f"{name} requires {condition}, got {got}.", where=user_frame())


def _check_axes(name: str, word: str, axes: Sequence[int], rank: int, *, ordered: bool) -> None:
    """Raises ShapeError unless the axes are different, below the rank, and, with `ordered`, ascending."""
    if any(not 0 <= d < rank for d in axes):
        _refuse(name, f"{word} from 0 to {rank - 1}", str(tuple(axes)))
    if len(set(axes)) != len(axes):
        _refuse(name, f"different {word}", str(tuple(axes)))
    if ordered and list(axes) != sorted(axes):
        _refuse(name, f"{word} in ascending order", str(tuple(axes)))


def _check_disjoint(name: str, first: tuple[str, Sequence[int]], second: tuple[str, Sequence[int]]) -> None:
    """Raises ShapeError if two lists of axes, each given with its name, have a common axis.

    `first` and `second` are pairs of a name and axes, and `name` is the operation, for errors.
    """
    if set(first[1]) & set(second[1]):
        _refuse(name, f"{first[0]} and {second[0]} without a common axis", f"{tuple(first[1])} and {tuple(second[1])}")


def _check_indices(name: str, shape: Sequence[int]) -> None:
    """Raises ShapeError if the array of indices is a scalar. `shape` is the shape of this array."""
    if not shape:
        _refuse(name, "indices whose last axis contains the index vectors", "a scalar")


def _check_batching(name: str, x: Sequence[int], of_x: Sequence[int], indices: Sequence[int], of_indices: Sequence[int]) -> None:
    """Raises ShapeError unless the batching axes of the operand and of the indices match in number and lengths.

    `x` and `indices` are shapes; `of_x` and `of_indices` are their batching axes.
    """
    _check_axes(name, "batching axes of the operand", of_x, len(x), ordered=True)
    _check_axes(name, "batching axes of the indices", of_indices, len(indices), ordered=False)
    if len(indices) - 1 in of_indices:
        _refuse(name, "batching axes of the indices other than the last one", str(tuple(of_indices)))
    if len(of_x) != len(of_indices):
        _refuse(name, "as many batching axes of the operand as of the indices", f"{tuple(of_x)} and {tuple(of_indices)}")
    lengths = [tuple(shape[d] for d in axes) for shape, axes in ((x, of_x), (indices, of_indices))]
    if lengths[0] != lengths[1]:
        _refuse(name, "batching axes of equal lengths", f"{lengths[0]} and {lengths[1]}")


def _check_map(name: str, word: str, axes: Sequence[int], x: Sequence[int], indices: Sequence[int]) -> None:
    """Raises ShapeError unless each component of an index vector has its own axis of the operand.

    `axes` has the axis for each component, under the name `word`; `x` and `indices` are shapes.
    """
    if len(axes) != indices[-1]:
        _refuse(name, f"as many {word} as components of an index", f"{len(axes)} and {indices[-1]}")
    _check_axes(name, word, axes, len(x), ordered=False)


def check_gather(x: Sequence[int], indices: Sequence[int], numbers: Any, sizes: Sequence[int]) -> None:
    """Raises ShapeError unless the dimension numbers of a gather fit the shapes of its operand and its indices.

    `x` and `indices` are these shapes, and `sizes` the slice sizes.

    Raises:
      ShapeError: a condition of `stablehlo.gather` is violated.
    """
    name = "gather"
    _check_indices(name, indices)
    offset, collapsed, start = numbers.offset_dims, numbers.collapsed_slice_dims, numbers.start_index_map
    batching = numbers.operand_batching_dims
    _check_axes(name, "offset_dims", offset, len(offset) + len(indices) - 1, ordered=True)
    _check_map(name, "start_index_map", start, x, indices)
    _check_axes(name, "collapsed_slice_dims", collapsed, len(x), ordered=True)
    _check_disjoint(name, ("collapsed_slice_dims", collapsed), ("operand_batching_dims", batching))
    _check_disjoint(name, ("start_index_map", start), ("operand_batching_dims", batching))
    _check_batching(name, x, batching, indices, numbers.start_indices_batching_dims)
    if len(sizes) != len(x) or len(sizes) != len(offset) + len(collapsed) + len(batching):
        got = f"{len(sizes)} sizes, shape {tuple(x)}, and {len(offset) + len(collapsed) + len(batching)} axes"
        _refuse(name, "a slice size for each axis, which is an offset, collapsed or a batching axis", got)
    if 0 not in indices and any(not 0 <= k <= n for k, n in zip(sizes, x, strict=True)):
        _refuse(name, f"slice sizes from 0 to the lengths of {tuple(x)}", str(tuple(sizes)))
    _check_one(name, "collapsed", sizes, collapsed)
    if any(sizes[d] > 1 for d in batching):
        _refuse(name, "slices of size 0 or 1 along batching axes", str(tuple(sizes)))


def _check_one(name: str, word: str, sizes: Sequence[int], axes: Iterable[int]) -> None:
    """Raises ShapeError unless the slices have size 1 along the given axes.

    `word` says what kind of axes they are, `sizes` are the slice sizes.
    """
    if any(sizes[d] != 1 for d in axes):
        _refuse(name, f"slices of size 1 along {word} axes", str(tuple(sizes)))


def check_scatter(name: str, x: Sequence[int], indices: Sequence[int], updates: Sequence[int], numbers: Any) -> None:
    """Raises ShapeError unless the dimension numbers of a scatter fit the shapes of its operand, indices and updates.

    `x`, `indices` and `updates` are these shapes.

    Raises:
      ShapeError: a condition of `stablehlo.scatter` is violated.
    """
    _check_indices(name, indices)
    window, inserted, axes = numbers.update_window_dims, numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims
    batching, of_indices = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    rank = len(indices) - 1 + len(window)
    if len(updates) != rank:
        _refuse(name, f"updates with {rank} axes", f"shape {tuple(updates)}")
    _check_axes(name, "update_window_dims", window, rank, ordered=True)
    _check_axes(name, "inserted_window_dims", inserted, len(x), ordered=True)
    _check_disjoint(name, ("inserted_window_dims", inserted), ("operand_batching_dims", batching))
    _check_disjoint(name, ("scatter_dims_to_operand_dims", axes), ("operand_batching_dims", batching))
    _check_batching(name, x, batching, indices, of_indices)
    if len(window) + len(inserted) + len(batching) != len(x):
        got = f"{len(window) + len(inserted) + len(batching)}"
        _refuse(name, f"{len(x)} window, inserted and batching axes for an operand of shape {tuple(x)}", got)
    _check_map(name, "scatter_dims_to_operand_dims", axes, x, indices)
    largest = [n for d, n in enumerate(x) if d not in inserted and d not in batching]
    if any(updates[d] > n for d, n in zip(window, largest, strict=True)):
        _refuse(name, f"windows of the updates within the operand's {tuple(largest)}", str(tuple(updates[d] for d in window)))
    outer = [updates[d] for d in range(rank) if d not in window]
    if outer != list(indices[:-1]):
        _refuse(name, f"updates with the leading lengths {tuple(indices[:-1])} of the indices", str(tuple(outer)))
