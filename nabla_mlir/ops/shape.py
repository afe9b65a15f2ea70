"""Operations that move elements: reshape, transpose, broadcast, slice, pad, concatenate and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import I64, I64Array
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.sparsity import structure as patterns
from nabla_mlir.table.batching import all_prefixed, prefixed, shifted
from nabla_mlir.table.kinds import nondifferentiable, structural
from nabla_mlir.table.registry import OpDef, operation
from nabla_mlir.table.rules import MaybeZero, Tensors
from nabla_mlir.table.samples import Case, integers
from nabla_mlir.table.tensor import Tensor, full, full_like

Shape = tuple[int, ...]


def inverse(permutation: Sequence[int]) -> Shape:
    """The inverse permutation."""
    return tuple(int(i) for i in np.argsort(permutation))


transpose: OpDef = structural(
    "stablehlo.transpose", pattern=patterns.transpose,
    doc="Permutes the axes: result axis i is operand axis permutation[i].",
    attributes={"permutation": I64Array},
    transpose=lambda cts, i, xs, permutation: transpose(cts[0], permutation=inverse(permutation)),
    batch=lambda xs, mapped, size, permutation: [transpose(xs[0], permutation=(0, *shifted(permutation)))],
    sample=[Case(((2, 3, 4),), {"permutation": (2, 0, 1)}, numpy=lambda x: x.transpose(2, 0, 1)),
            Case(((0, 3),), {"permutation": (1, 0)}, numpy=np.transpose)], moves=True,
)  # fmt: skip

reshape: OpDef = structural(
    "stablehlo.reshape", pattern=patterns.reshape,
    doc="The same elements in row-major order under another shape.",
    result=lambda x, shape: [(tuple(shape), x.dtype)],
    result_params=lambda op: {"shape": shape_and_dtype(op.results[0].type)[0]},
    transpose=lambda cts, i, xs, shape: reshape(cts[0], shape=xs[0].shape),
    batch=lambda xs, mapped, size, shape: [reshape(xs[0], shape=(size, *shape))],
    sample=[Case(((2, 6),), {"shape": (3, 4)}, numpy=lambda x: x.reshape(3, 4)),
            Case(((1,),), {"shape": ()}, numpy=lambda x: x.reshape(())),
            Case(((0, 3),), {"shape": (3, 0, 2)}, numpy=lambda x: x.reshape(3, 0, 2))],
    moves=True, free=True, view=True,
)  # fmt: skip


def reduce_sum(x: Tensor, dimensions: Sequence[int]) -> Tensor:
    """The sum over `dimensions` (the transpose of repetition along them); `x` itself if `dimensions` is empty."""
    if not dimensions:
        return x
    return operation("reduce")(x, full((), 0, x.dtype), dimensions=tuple(dimensions), body="add")


def _broadcast_transpose(cts: Tensors, i: int, xs: Tensors, shape: Shape, broadcast_dimensions: Shape) -> Tensor:
    """The cotangent of the operand of a broadcast: the sum of the result's cotangent over the copies, in the operand's order of
    axes.
    """
    ct, x = cts[0], xs[0]
    axis_of = {d: axis for axis, d in enumerate(broadcast_dimensions) if x.shape[axis] == shape[d]}
    ct = reduce_sum(ct, tuple(d for d in range(len(shape)) if d not in axis_of))
    order = tuple(axis for d, axis in sorted(axis_of.items()))  # the remaining axes of x, in the order of ct
    if list(order) != sorted(order):
        by_axis = tuple(int(j) for j in np.argsort(order))
        ct = transpose(ct, permutation=by_axis)
    return ct if ct.shape == x.shape else reshape(ct, shape=x.shape)


broadcast_in_dim: OpDef = structural(
    "stablehlo.broadcast_in_dim",
    pattern=patterns.broadcast_in_dim,
    doc="Operand axis i becomes result axis broadcast_dimensions[i]; every other element is a copy.",
    attributes={"broadcast_dimensions": I64Array},
    result=lambda x, shape, broadcast_dimensions: [(tuple(shape), x.dtype)],
    result_params=lambda op: {"shape": shape_and_dtype(op.results[0].type)[0]},
    transpose=_broadcast_transpose,
    batch=lambda xs, mapped, size, shape, broadcast_dimensions: [
        broadcast_in_dim(xs[0], shape=(size, *shape), broadcast_dimensions=(0, *shifted(broadcast_dimensions)))
    ],
    sample=[Case(((3,),), {"shape": (2, 3), "broadcast_dimensions": (1,)}, numpy=lambda x: np.broadcast_to(x, (2, 3))),
            Case(((3,),), {"shape": (3, 2), "broadcast_dimensions": (0,)},
                 numpy=lambda x: np.broadcast_to(x[:, None], (3, 2))),
            Case(((1, 3),), {"shape": (4, 3), "broadcast_dimensions": (0, 1)},
                 numpy=lambda x: np.broadcast_to(x, (4, 3))),
            Case(((1, 3),), {"shape": (3, 2, 4), "broadcast_dimensions": (2, 0)},
                 numpy=lambda x: np.broadcast_to(x.T.reshape(3, 1, 1), (3, 2, 4))),
            Case(((2, 3),), {"shape": (3, 2), "broadcast_dimensions": (1, 0)}, numpy=np.transpose),
            Case(((),), {"shape": (2, 0), "broadcast_dimensions": ()}, numpy=lambda x: np.broadcast_to(x, (2, 0)))],
    moves=True, free=True,
)  # fmt: skip


def _slice_transpose(cts: Tensors, i: int, xs: Tensors, start_indices: Shape, limit_indices: Shape, strides: Shape) -> Tensor:
    """The cotangent of the operand of a slice: that of the result, padded with zeros."""
    ct, x = cts[0], xs[0]
    extents = [s + (n - 1) * k + 1 if n else s for s, n, k in zip(start_indices, ct.shape, strides, strict=True)]
    return pad(
        ct,
        full((), 0, ct.dtype),
        edge_padding_low=start_indices,
        edge_padding_high=tuple(n - c for n, c in zip(x.shape, extents, strict=True)),
        interior_padding=tuple(k - 1 for k in strides),
    )


slice_: OpDef = structural(
    "stablehlo.slice", pattern=patterns.slice_,
    doc="Every strides-th element from start_indices up to limit_indices, per axis.",
    attributes={"start_indices": I64Array, "limit_indices": I64Array, "strides": I64Array},
    transpose=_slice_transpose,
    batch=lambda xs, mapped, size, start_indices, limit_indices, strides: [
        slice_(xs[0], start_indices=(0, *start_indices), limit_indices=(size, *limit_indices), strides=(1, *strides))
    ],
    sample=[Case(((5, 4),), {"start_indices": (1, 0), "limit_indices": (5, 3), "strides": (2, 1)},
                 numpy=lambda x: x[1:5:2, 0:3]),
            Case(((5,),), {"start_indices": (2,), "limit_indices": (2,), "strides": (1,)}, numpy=lambda x: x[2:2])],
    moves=True, part=True,
)  # fmt: skip


def sliced(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """``x[start:stop:step]`` along one axis; `x` itself if that is everything."""
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    starts, stops, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice_(x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=tuple(steps))


def row(x: Tensor, index: int) -> Tensor:
    """``x[index]``: one entry of the leading axis, without that axis."""
    return reshape(sliced(x, 0, index, index + 1), shape=x.shape[1:])


def _pad_transpose(
    cts: Tensors, i: int, xs: Tensors, edge_padding_low: Shape, edge_padding_high: Shape, interior_padding: Shape
) -> Tensor:
    """The cotangent of the operand of a pad (i = 0) or of the padding value (i = 1)."""
    ct, (x, _) = cts[0], xs
    if i == 0:
        return _unpad(ct, x, edge_padding_low, edge_padding_high, interior_padding)
    # The padding value gets the cotangents of the padding: the sum of all cotangents minus those of the operand.
    everything = reduce_sum(ct, tuple(range(ct.ndim)))
    if 0 in x.shape:
        return everything
    operand_ct = _unpad(ct, x, edge_padding_low, edge_padding_high, interior_padding)
    return everything - reduce_sum(operand_ct, tuple(range(operand_ct.ndim)))


def _unpad(ct: Tensor, x: Tensor, low: Shape, high: Shape, interior: Shape) -> Tensor:
    """The cotangent of the operand `x` of a pad: the part of `ct` at its elements; zero for elements that were cut off."""
    if any(low) or any(high):
        ct = pad(
            ct,
            full((), 0, ct.dtype),
            edge_padding_low=tuple(-n for n in low),
            edge_padding_high=tuple(-n for n in high),
            interior_padding=(0,) * ct.ndim,
        )
    if not any(interior):
        return ct
    if 0 in x.shape:
        return full_like(x, 0)
    return slice_(ct, start_indices=(0,) * ct.ndim, limit_indices=ct.shape, strides=tuple(n + 1 for n in interior))


def _pad_batch(
    xs: Tensors, mapped: Sequence[bool], size: int, edge_padding_low: Shape, edge_padding_high: Shape, interior_padding: Shape
) -> list[Tensor]:
    """The padded arrays for all `size` entries of a map; `mapped` is True for array and value if they have the mapped axis first.

    With one padding value for each entry, the values are selected where a padded mask is False.
    """
    x, value = xs
    params = {
        "edge_padding_low": (0, *edge_padding_low),
        "edge_padding_high": (0, *edge_padding_high),
        "interior_padding": (0, *interior_padding),
    }
    x = x if mapped[0] else prefixed(x, size)
    if not mapped[1]:
        return [pad(x, value, **params)]
    padded = pad(x, full((), 0, x.dtype), **params)
    inside = pad(full(x.shape[1:], True, np.dtype(bool)), full((), False, np.dtype(bool)), **{k: v[1:] for k, v in params.items()})
    values = broadcast_in_dim(value, shape=padded.shape, broadcast_dimensions=(0,))
    return [operation("select")(prefixed(inside, size), padded, values)]


def _pad_numpy(low: Shape, high: Shape) -> Any:
    return lambda x, v: np.pad(x, list(zip(low, high, strict=True)), constant_values=v)


pad: OpDef = structural(
    "stablehlo.pad", pattern=patterns.pad,
    doc="The operand with `value` around and between its elements; negative edges cut elements off.",
    linear=(0, 1),
    attributes={"edge_padding_low": I64Array, "edge_padding_high": I64Array, "interior_padding": I64Array},
    transpose=_pad_transpose, batch=_pad_batch,
    sample=[Case(((2, 3), ()), {"edge_padding_low": (1, 0), "edge_padding_high": (2, 1), "interior_padding": (0, 0)},
                 numpy=_pad_numpy((1, 0), (2, 1))),
            Case(((5,), ()), {"edge_padding_low": (-1,), "edge_padding_high": (-2,), "interior_padding": (0,)},
                 numpy=lambda x, v: x[1:3]),
            Case(((3,), ()), {"edge_padding_low": (-1,), "edge_padding_high": (1,), "interior_padding": (2,)},
                 numpy=lambda x, v: np.array([v, v, x[1], v, v, x[2], v]))], moves=True,
)  # fmt: skip


def _concatenate_transpose(cts: Tensors, i: int, xs: Tensors, dimension: int) -> Tensor:
    ct, start = cts[0], sum(x.shape[dimension] for x in xs[:i])
    return sliced(ct, dimension, start, start + xs[i].shape[dimension])


concatenate: OpDef = structural(
    "stablehlo.concatenate", pattern=patterns.concatenate,
    doc="The operands joined along `dimension`.", linear="all",
    attributes={"dimension": I64}, transpose=_concatenate_transpose,
    batch=lambda xs, mapped, size, dimension: [concatenate(*all_prefixed(xs, mapped, size), dimension=dimension + 1)],
    sample=[Case(((2, 3), (2, 1)), {"dimension": 1}, numpy=lambda *xs: np.concatenate(xs, 1)),
            Case(((2,), (0,), (3,)), {"dimension": 0}, numpy=lambda *xs: np.concatenate(xs, 0))], moves=True,
)  # fmt: skip

reverse: OpDef = structural(
    "stablehlo.reverse", pattern=patterns.reverse,
    doc="The order of elements reversed along `dimensions`.", attributes={"dimensions": I64Array},
    transpose=lambda cts, i, xs, dimensions: reverse(cts[0], dimensions=dimensions),
    batch=lambda xs, mapped, size, dimensions: [reverse(xs[0], dimensions=shifted(dimensions))],
    sample=[Case(((2, 3),), {"dimensions": (1,)}, numpy=lambda x: x[:, ::-1])], moves=True,
)  # fmt: skip

iota: OpDef = nondifferentiable(
    "stablehlo.iota", doc="0, 1, 2, ... along one axis.", attributes={"iota_dimension": I64},
    result=lambda shape, dtype, iota_dimension: [(tuple(shape), np.dtype(dtype))],
    result_params=lambda op: dict(zip(("shape", "dtype"), shape_and_dtype(op.results[0].type), strict=True)),
    batch=lambda xs, mapped, size, **params: [prefixed(iota(**params), size)],
    sample=[Case((), {"shape": (2, 3), "dtype": np.dtype(np.int32), "iota_dimension": 1},
                 numpy=lambda: np.broadcast_to(np.arange(3, dtype=np.int32), (2, 3)))], free=True,
)  # fmt: skip


# ---------------------------------------------------------------- slices at computed start indices


def _dynamic_slice_transpose(cts: Tensors, i: int, xs: Tensors, slice_sizes: Shape) -> Tensor:
    return dynamic_update_slice(full_like(xs[0], 0), cts[0], *xs[1:])


def _dynamic_slice_batch(xs: Tensors, mapped: Sequence[bool], size: int, slice_sizes: Shape) -> list[Tensor]:
    """The slices for all `size` entries of a map; `mapped` is True for the array and each start that has the mapped axis.

    Starts that differ between entries give a gather.
    """
    x, *starts = xs
    if not any(mapped[1:]):
        first = full_like(starts[0], 0) if starts else full((), 0, np.dtype(np.int32))
        return [dynamic_slice(x, first, *starts, slice_sizes=(size, *slice_sizes))]
    n = len(slice_sizes)
    rows = _start_rows(starts, mapped[1:], size, x.shape[1:] if mapped[0] else x.shape, slice_sizes)
    batching = (0,) if mapped[0] else ()
    dims = {
        "offset_dims": tuple(range(1, n + 1)),
        "collapsed_slice_dims": (),
        "operand_batching_dims": batching,
        "start_indices_batching_dims": batching,
        "start_index_map": tuple(range(len(batching), n + len(batching))),
        "index_vector_dim": 1,
    }
    sizes = (1, *slice_sizes) if mapped[0] else tuple(slice_sizes)
    return [operation("gather")(x, rows, dimension_numbers=dims, slice_sizes=sizes)]


def _start_rows(starts: Sequence[Tensor], mapped: Sequence[bool], size: int, shape: Shape, sizes: Shape) -> Tensor:
    """A matrix with a row of start indices for each of `size` entries, clamped as in a dynamic slice.

    `mapped` is True for each start that differs between entries; `shape` and `sizes` are those of an entry and of its slice.
    """
    columns = []
    for start, is_mapped, extent, width in zip(starts, mapped, shape, sizes, strict=True):
        position = operation("clamp")(full((), 0, start.dtype), start, full((), extent - width, start.dtype))
        column = position if is_mapped else prefixed(position, size)
        columns.append(reshape(column, shape=(size, 1)))
    return concatenate(*columns, dimension=1) if len(columns) > 1 else columns[0]


_POSITIONS = (None, integers(0, 3), integers(0, 3))
dynamic_slice: OpDef = structural(
    "stablehlo.dynamic_slice", pattern=patterns.dynamic_slice,
    doc="A slice of slice_sizes at a computed start, which is clamped so that the slice is in range.",
    attributes={"slice_sizes": I64Array}, transpose=_dynamic_slice_transpose, batch=_dynamic_slice_batch,
    result=lambda x, *starts, slice_sizes: [(tuple(slice_sizes), x.dtype)],
    sample=[Case(((4, 5), (), ()), {"slice_sizes": (2, 3)}, _POSITIONS,
                 numpy=lambda x, i, j: x[min(i, 2) : min(i, 2) + 2, min(j, 2) : min(j, 2) + 3])],
    moves=True, part=True,
)  # fmt: skip


def _update_transpose(cts: Tensors, i: int, xs: Tensors) -> MaybeZero:
    """The cotangent of the array (i = 0), which is 0 at the update, or of the update: the result's cotangent there."""
    ct, update, starts = cts[0], xs[1], xs[2:]
    if i == 0:
        return dynamic_update_slice(ct, full_like(update, 0), *starts)
    return dynamic_slice(ct, *starts, slice_sizes=update.shape)


def _update_batch(xs: Tensors, mapped: Sequence[bool], size: int) -> list[Tensor]:
    """The updated arrays for all `size` entries of a map; `mapped` is True for each operand that has the mapped axis first.

    Starts that differ between entries give a scatter.
    """
    x, update, *starts = xs
    if not any(mapped[2:]):
        x, update = all_prefixed([x, update], mapped[:2], size)
        first = full_like(starts[0], 0) if starts else full((), 0, np.dtype(np.int32))
        return [dynamic_update_slice(x, update, first, *starts)]
    n = update.ndim - mapped[1]
    x, update = all_prefixed([x, update], mapped[:2], size)
    rows = _start_rows(starts, mapped[2:], size, x.shape[1:], update.shape[1:])
    return [
        operation("scatter")(
            x,
            rows,
            update,
            scatter_dimension_numbers={
                "update_window_dims": tuple(range(1, n + 1)),
                "inserted_window_dims": (),
                "input_batching_dims": (0,),
                "scatter_indices_batching_dims": (0,),
                "scatter_dims_to_operand_dims": tuple(range(1, n + 1)),
                "index_vector_dim": 1,
            },
            indices_are_sorted=False,
            unique_indices=True,
            body="set",
        )
    ]


def _update_numpy(x: Any, update: Any, i: int, j: int) -> Any:
    """A dynamic update of a matrix in NumPy, with starts i and j clamped for the shapes of the sample, as its reference."""
    x = x.copy()
    i, j = min(i, 2), min(j, 2)
    x[i : i + 2, j : j + 3] = update
    return x


dynamic_update_slice: OpDef = structural(
    "stablehlo.dynamic_update_slice", pattern=patterns.dynamic_update_slice,
    doc="The operand with `update` written at a computed start.", linear=(0, 1),
    transpose=_update_transpose, batch=_update_batch,
    sample=[Case(((4, 5), (2, 3), (), ()), {}, (None, *_POSITIONS), numpy=_update_numpy)],
    moves=True, updates=lambda op: (0,),
)  # fmt: skip


# ---------------------------------------------------------------- helpers of rules


def expand(x: Tensor, shape: Shape, axes: Sequence[int]) -> Tensor:
    """The array `x` repeated along `axes` of the result shape; the axes of `x` are the other axes, in order."""
    axes_of_x = tuple(d for d in range(len(shape)) if d not in set(axes))
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=axes_of_x)


def move_axis(x: Tensor, source: int, destination: int) -> Tensor:
    """The array with the axis `source` moved to `destination`; no operation is emitted if the axis does not move."""
    if source == destination:
        return x
    order = [d for d in range(x.ndim) if d != source]
    order.insert(destination, source)
    return transpose(x, permutation=tuple(order))


def element_count(shape: Shape) -> int:
    """The number of elements of a shape."""
    return math.prod(shape)


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The array with another shape; no operation is emitted if the shape is the same."""
    return x if x.shape == shape else reshape(x, shape=shape)


def transposed(x: Tensor, permutation: Sequence[int]) -> Tensor:
    """The array with its axes permuted; no operation for the identity, and a reshape if only axes of size 1 move."""
    permutation = tuple(permutation)
    if permutation == tuple(range(x.ndim)):
        return x
    real = [d for d in permutation if x.shape[d] != 1]
    if real == sorted(real):
        return reshaped(x, tuple(x.shape[d] for d in permutation))
    return transpose(x, permutation=permutation)
