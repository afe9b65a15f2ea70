"""Gather: slices of an array at positions that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import Bool, GatherDims, I64Array
from nabla_mlir.ops.logic import clamp
from nabla_mlir.ops.shape import broadcast_in_dim, reshape
from nabla_mlir.sparsity import indexing as patterns
from nabla_mlir.table.batching import shifted
from nabla_mlir.table.kinds import structural
from nabla_mlir.table.registry import OpDef, operation
from nabla_mlir.table.rules import Tensors
from nabla_mlir.table.samples import Case, integers
from nabla_mlir.table.tensor import Tensor, array_of, constant, full, full_like
from nabla_mlir.table.traits import LONG

Dims = dict[str, Any]


def _gather_result(x: Tensor, indices: Tensor, dimension_numbers: Dims, slice_sizes: Any, **_: Any) -> list[Any]:
    """A list with the shape and the dtype of the result of a gather.

    `dimension_numbers` maps the names of StableHLO's fields, such as "offset_dims", to axes; `slice_sizes` are the lengths of a
    slice.
    """
    dims = dimension_numbers
    window = [
        n for d, n in enumerate(slice_sizes) if d not in dims["collapsed_slice_dims"] and d not in dims["operand_batching_dims"]
    ]
    batch = [n for d, n in enumerate(indices.shape) if d != dims["index_vector_dim"]]
    rank = len(window) + len(batch)
    shape, windows, batches = [], iter(window), iter(batch)
    for d in range(rank):
        shape.append(next(windows) if d in dims["offset_dims"] else next(batches))
    return [(tuple(shape), x.dtype)]


def _gather_transpose(
    cts: Tensors, i: int, xs: Tensors, dimension_numbers: Dims, slice_sizes: tuple[int, ...], indices_are_sorted: bool
) -> Tensor:
    """The cotangent of the operand xs[0]: a scatter that adds each window of the result's cotangent at its start index.

    `cts` are the cotangents of the results.
    """
    x, indices = xs
    positions = clamped_starts(
        indices, x.shape, dimension_numbers["start_index_map"], slice_sizes, dimension_numbers["index_vector_dim"]
    )
    return operation("scatter")(
        full_like(x, 0),
        positions,
        cts[0],
        scatter_dimension_numbers=scatter_of(dimension_numbers),
        indices_are_sorted=indices_are_sorted,
        unique_indices=False,
        body="add",
    )


def scatter_of(dims: Dims) -> Dims:
    """The dimension numbers of the scatter that writes to the positions which a gather with the dimension numbers `dims` reads."""
    return {
        "update_window_dims": dims["offset_dims"],
        "inserted_window_dims": dims["collapsed_slice_dims"],
        "input_batching_dims": dims["operand_batching_dims"],
        "scatter_indices_batching_dims": dims["start_indices_batching_dims"],
        "scatter_dims_to_operand_dims": dims["start_index_map"],
        "index_vector_dim": dims["index_vector_dim"],
    }


def clamped_starts(
    indices: Tensor, shape: Sequence[int], index_map: Sequence[int], sizes: Sequence[int], vector_dim: int
) -> Tensor:
    """The start indices of a gather after clamping, so that each slice lies inside the operand.

    Constants that are in range stay constants.

    Args:
      indices: the start indices.
      shape: the shape of the operand.
      index_map: the axis of the operand for each component of an index.
      sizes: the sizes of a slice.
      vector_dim: the axis of `indices` that holds the components.
    """
    if not index_map:
        return indices
    limits = last_starts(shape, index_map, sizes)
    if lie_inside(indices, limits, vector_dim):
        return indices
    if limits.size and np.iinfo(indices.dtype).max < limits.max():
        limits = np.minimum(limits, np.iinfo(indices.dtype).max)
    if len(set(limits.tolist())) == 1:
        return clamp(full((), 0, indices.dtype), indices, full((), int(limits[0]), indices.dtype))
    upper = broadcast_in_dim(constant(limits.astype(indices.dtype)), shape=indices.shape, broadcast_dimensions=(vector_dim,))
    return clamp(full_like(indices, 0), indices, upper)


def last_starts(shape: Sequence[int], index_map: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """For each component of an index vector, the largest start of a window that lies inside the operand."""
    return np.array([shape[d] - sizes[d] for d in index_map], np.int64)


def lie_inside(indices: Tensor, limits: np.ndarray, vector_dim: int) -> bool:
    """True if the start indices are constants between 0 and `limits`, which has one number per component of an index vector."""
    numbers = array_of(indices)
    return numbers is not None and bool(np.all(numbers >= 0) and np.all(numbers <= per_component(limits, indices, vector_dim)))


def per_component(numbers: np.ndarray, indices: Tensor, vector_dim: int) -> np.ndarray:
    """The array `numbers`, one for each component of an index vector, in a shape that broadcasts to the indices."""
    return numbers.reshape([len(numbers) if d == vector_dim else 1 for d in range(indices.ndim)])


def _gather_batch(
    xs: Tensors, mapped: Sequence[bool], size: int, dimension_numbers: Dims, slice_sizes: tuple[int, ...], indices_are_sorted: bool
) -> list[Tensor]:
    """The gather for all `size` entries of a map; `mapped` is True for each of operand and indices that has the mapped axis first.

    The mapped axis is a batching axis, a window axis of the operand, or an axis of the indices.
    """
    x, indices = xs
    dims = dict(dimension_numbers)
    if mapped[0] and mapped[1]:
        for field in ("collapsed_slice_dims", "start_index_map", "offset_dims"):
            dims[field] = shifted(dims[field])
        dims["operand_batching_dims"] = (0, *shifted(dims["operand_batching_dims"]))
        dims["start_indices_batching_dims"] = (0, *shifted(dims["start_indices_batching_dims"]))
        dims["index_vector_dim"] += 1
        slice_sizes = (1, *slice_sizes)
        indices_are_sorted = False
    elif mapped[0]:
        # The whole mapped axis is read: one more window axis, the first of the result.
        for field in ("collapsed_slice_dims", "start_index_map", "operand_batching_dims"):
            dims[field] = shifted(dims[field])
        dims["offset_dims"] = (0, *shifted(dims["offset_dims"]))
        slice_sizes = (size, *slice_sizes)
    else:
        dims["offset_dims"] = shifted(dims["offset_dims"])
        dims["start_indices_batching_dims"] = shifted(dims["start_indices_batching_dims"])
        dims["index_vector_dim"] += 1
        indices_are_sorted = False
    return [gather(x, indices, dimension_numbers=dims, slice_sizes=slice_sizes, indices_are_sorted=indices_are_sorted)]


def gather_dims(**fields: Any) -> Dims:
    """Dimension numbers of a gather; omitted fields are empty."""
    return {
        "offset_dims": (),
        "collapsed_slice_dims": (),
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
        "start_index_map": (),
        "index_vector_dim": 0,
        **fields,
    }


_ROWS = gather_dims(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1)
_PAIRED = gather_dims(
    collapsed_slice_dims=(1,),
    operand_batching_dims=(0,),
    start_indices_batching_dims=(0,),
    start_index_map=(1,),
    index_vector_dim=2,
)
_WINDOW = gather_dims(offset_dims=(0, 1), start_index_map=(1, 0), index_vector_dim=0)

gather: OpDef = structural(
    "stablehlo.gather",
    pattern=patterns.gather,
    doc="Slices of the operand at computed start indices, which are clamped so that each slice is in range.",
    moves=True,
    part=True,
    instructions=LONG,
    attributes={"dimension_numbers": GatherDims, "slice_sizes": I64Array, "indices_are_sorted": Bool},
    defaults={"indices_are_sorted": False},
    result=_gather_result,
    transpose=_gather_transpose,
    batch=_gather_batch,
    sample=[
        Case(
            ((4, 3), (5, 1)),
            {"dimension_numbers": _ROWS, "slice_sizes": (1, 3)},
            (None, integers(0, 3)),
            numpy=lambda x, i: x[i[:, 0]],
        ),
        Case(
            ((4, 3), (5, 1)),
            {"dimension_numbers": _ROWS, "slice_sizes": (1, 3)},
            (None, integers(-3, 8)),
            numpy=lambda x, i: x[np.clip(i[:, 0], 0, 3)],
        ),
        Case(
            ((2, 5), (2, 3, 1)),
            {"dimension_numbers": _PAIRED, "slice_sizes": (1, 1)},
            (None, integers(0, 4)),
            numpy=lambda x, i: np.take_along_axis(x, i[..., 0], 1),
        ),
        Case(
            ((4, 5), (2,)),
            {"dimension_numbers": _WINDOW, "slice_sizes": (2, 2)},
            (None, integers(0, 2)),
            numpy=lambda x, i: x[i[1] : i[1] + 2, i[0] : i[0] + 2],
        ),
    ],
)


def along_axis(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """``take_along_axis``: element [.., i, ..] of the result is x[.., indices[.., i, ..], ..].

    The indices have the rank of x, and are paired with x along all other axes.
    """
    if 0 in x.shape:  # a slice of one element is larger than such an axis
        return full(indices.shape, 0, x.dtype)
    others = tuple(d for d in range(x.ndim) if d != axis)
    numbers = gather_dims(
        collapsed_slice_dims=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        start_index_map=(axis,),
        index_vector_dim=x.ndim,
    )
    positions = reshape(indices, shape=(*indices.shape, 1))
    return gather(x, positions, dimension_numbers=numbers, slice_sizes=(1,) * x.ndim)


def rows_at(x: Tensor, order: Tensor) -> Tensor:
    """Each matrix with its rows reordered: row i of the result is row order[.., i]."""
    if 0 in x.shape:
        return full((*order.shape, x.shape[-1]), 0, x.dtype)
    axis, stack = x.ndim - 2, tuple(range(x.ndim - 2))
    numbers = gather_dims(
        offset_dims=(x.ndim - 1,),
        collapsed_slice_dims=(axis,),
        operand_batching_dims=stack,
        start_indices_batching_dims=stack,
        start_index_map=(axis,),
        index_vector_dim=order.ndim,
    )
    sizes = (*(1,) * (x.ndim - 1), x.shape[-1])
    return gather(x, reshape(order, shape=(*order.shape, 1)), dimension_numbers=numbers, slice_sizes=sizes)
