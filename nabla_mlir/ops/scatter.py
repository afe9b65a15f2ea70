"""Scatter: updates are combined into an array at positions that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects import builder
from nabla_mlir.dialects.stablehlo import Bool, ScatterDims
from nabla_mlir.ops.elementwise import convert
from nabla_mlir.ops.gather import Dims, along_axis, gather, last_starts, lie_inside, per_component
from nabla_mlir.ops.logic import compare, logical_and, select, where_zero
from nabla_mlir.ops.reduction import combine, emit_combiner, read_combiner, reduce
from nabla_mlir.ops.shape import (
    broadcast_in_dim,
    concatenate,
    dynamic_slice,
    element_count,
    iota,
    reshape,
    reverse,
    sliced,
    transpose,
)
from nabla_mlir.sparsity import indexing as patterns
from nabla_mlir.table.batching import all_prefixed, shifted
from nabla_mlir.table.forward import jvp_by_decomposition
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import REGISTRY, OpDef, Params, add_any, materialize
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, integers
from nabla_mlir.table.tensor import Tensor, constant, full, full_like, wrap
from nabla_mlir.table.traits import ONE_BY_ONE


def scatter_dims(**fields: Any) -> Dims:
    """Dimension numbers of a scatter; omitted fields are empty."""
    return {
        "update_window_dims": (),
        "inserted_window_dims": (),
        "input_batching_dims": (),
        "scatter_indices_batching_dims": (),
        "scatter_dims_to_operand_dims": (),
        "index_vector_dim": 0,
        **fields,
    }


def _scatter_result(x: Tensor, *rest: Tensor, **_: Any) -> list[Any]:
    operands = (x, *rest)[: (len(rest) + 1) // 2]
    return [(o.shape, o.dtype) for o in operands]


def _scatter_linear(xs: Sequence[Tensor], body: Any, **_: Any) -> tuple[int, ...]:
    return (0, 2) if len(xs) == 3 and body in ("add", "set") else ()


def _scatter_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, body: Any, **params: Any) -> Sequence[MaybeZero]:
    """The tangents of a scatter: add, set, max, min and mul have their own formulas, other bodies are differentiated by
    decomposition.

    `xs` are the arrays, the indices, and the updates; `body` is a name such as "add", or a region. `outs` are the results.
    """
    if len(xs) != 3 or not isinstance(body, str):
        return jvp_by_decomposition(_as_writes)(outs, xs, tangents, body=body, **params)
    x, indices, updates = xs
    t, t_updates = tangents[0], tangents[2]
    if isinstance(t, Zero) and isinstance(t_updates, Zero):
        return [ZERO]
    if body == "add":
        return [scatter(materialize(t, x), indices, materialize(t_updates, updates), body="add", **params)]
    if body == "set":
        if not params["unique_indices"]:
            # If indices repeat, only the last update counts, so only its tangent is written.
            t_updates = where_zero(_is_last_write(x, indices, updates, params), materialize(t_updates, updates))
            base = scatter(materialize(t, x), indices, full_like(updates, 0), body="set", **params)
            return [scatter(base, indices, t_updates, body="add", **params)]
        return [scatter(materialize(t, x), indices, materialize(t_updates, updates), body="set", **params)]
    if body in ("max", "min"):
        return [_extremum_tangent(outs[0], xs, t, t_updates, params)]
    if body == "mul":
        return [_product_tangent(outs[0], xs, t, t_updates, params)]
    return [ZERO]


def _as_writes(xs: Sequence[Tensor], body: Any, **params: Any) -> list[Tensor]:
    """The results of a scatter by reading the old elements, applying the body to whole arrays, and writing the results.

    `xs` are the arrays, the indices, and the updates. If indices may repeat, an update reads the result of an earlier one, so
    windows are processed one by one.
    """
    count = len(xs) // 2
    operands, indices, updates = xs[:count], xs[count], xs[count + 1 :]
    if 0 in updates[0].shape:
        return list(operands)

    def step(operands: Sequence[Tensor], indices: Tensor, updates: Sequence[Tensor], params: Any) -> list[Tensor]:
        old = [_read_back(x, indices, u, params) for x, u in zip(operands, updates, strict=True)]
        new = combine(body, old, updates)
        return [scatter(x, indices, y, body="set", **params) for x, y in zip(operands, new, strict=True)]

    if params["unique_indices"]:
        return step(operands, indices, updates, params)
    return _one_by_one(step, operands, indices, updates, params["scatter_dimension_numbers"])


def _one_by_one(step: Any, operands: Any, indices: Tensor, updates: Any, dims: Dims) -> list[Tensor]:
    """Applies `step` to the window of each index vector, in order; returns the operands at the end.

    Args:
      step: ``(operands, index vector, updates of the window, params) -> operands``.
      operands: the arrays that are written.
      indices: the index vectors.
      updates: the updates.
      dims: the dimension numbers of the scatter.
    """
    vector_dim, windows = dims["index_vector_dim"], dims["update_window_dims"]
    if vector_dim == indices.ndim:
        indices = reshape(indices, shape=(*indices.shape, 1))
    batch = tuple(d for d in range(indices.ndim) if d != vector_dim)
    sizes = tuple(indices.shape[d] for d in batch)
    count = element_count(sizes)
    columns = [reshape(transpose(indices, permutation=(*batch, vector_dim)), shape=(count, indices.shape[vector_dim]))]
    for d in dims["scatter_indices_batching_dims"]:  # the index along a batching axis is its own iota
        position = iota(shape=sizes, dtype=indices.dtype, iota_dimension=batch.index(d))
        columns.append(reshape(position, shape=(count, 1)))
    rows = concatenate(*columns, dimension=1)
    batch_dims = tuple(d for d in range(updates[0].ndim) if d not in windows)
    updates = [transpose(u, permutation=(*batch_dims, *windows)) for u in updates]
    updates = [reshape(u, shape=(count, *u.shape[len(batch_dims) :])) for u in updates]
    params = {
        "scatter_dimension_numbers": scatter_dims(
            update_window_dims=tuple(range(1, len(windows) + 1)),
            index_vector_dim=1,
            inserted_window_dims=tuple(sorted((*dims["inserted_window_dims"], *dims["input_batching_dims"]))),
            scatter_dims_to_operand_dims=(*dims["scatter_dims_to_operand_dims"], *dims["input_batching_dims"]),
        ),
        "indices_are_sorted": True,
        "unique_indices": True,
    }

    def row(x: Tensor, i: Tensor) -> Tensor:
        starts = [i, *(full((), 0, i.dtype) for _ in x.shape[1:])]
        return dynamic_slice(x, *starts, slice_sizes=(1, *x.shape[1:]))

    def body(i: Any, *carry: Any) -> list[Any]:
        at, own = wrap(i.value), [wrap(v.value) for v in carry]
        return [builder.Val(y.value) for y in step(own, row(rows, at), [row(u, at) for u in updates], params)]

    return [wrap(v.value) for v in builder.for_loop(count, [builder.Val(x.value) for x in operands], body)]


def _read_back(x: Tensor, indices: Tensor, updates: Tensor, params: Any) -> Tensor:
    """The elements of `x` at the indices of the updates, in the shape of `updates`; `params` are the parameters of the scatter."""
    dims = params["scatter_dimension_numbers"]
    sizes = _window_sizes(x, updates, dims)
    return gather(
        x, indices, dimension_numbers=patterns.gather_of(dims), slice_sizes=sizes, indices_are_sorted=params["indices_are_sorted"]
    )


def _window_sizes(x: Tensor, updates: Tensor, dims: Dims) -> tuple[int, ...]:
    """The size of a window of `updates` along each axis of the operand `x`; `dims` are the scatter's dimension numbers."""
    windows = iter(updates.shape[d] for d in dims["update_window_dims"])
    absent = {*dims["inserted_window_dims"], *dims["input_batching_dims"]}
    return tuple(1 if d in absent else next(windows) for d in range(x.ndim))


def _is_last_write(x: Tensor, indices: Tensor, updates: Tensor, params: Any) -> Tensor:
    """True for each update that no later update at the same index overwrites.

    Each update writes its number; -1 stands for an element without an update.
    """
    number = np.dtype(np.int32)
    numbers = reshape(iota(shape=(updates.size,), dtype=number, iota_dimension=0), shape=updates.shape)
    winners = scatter(full(x.shape, -1, number), indices, numbers, body="set", **params)
    return compare(numbers, _read_back(winners, indices, updates, params), comparison_direction="EQ")


def _extremum_tangent(y: Tensor, xs: Sequence[Tensor], t: MaybeZero, t_updates: MaybeZero, params: Params) -> Tensor:
    """The mean of the tangents of all elements and updates that attain the extremum at an index.

    Args:
      y: the result.
      xs: operand, indices and updates.
      t: the tangent of the operand.
      t_updates: the tangent of the updates.
      params: the parameters of the scatter.
    """
    x, indices, updates = xs
    is_operand = compare(x, y, comparison_direction="EQ")
    is_update = compare(updates, _read_back(y, indices, updates, params), comparison_direction="EQ")
    count = scatter(convert(is_operand, dtype=x.dtype), indices, convert(is_update, dtype=x.dtype), body="add", **params)
    total = scatter(
        where_zero(is_operand, materialize(t, x)),
        indices,
        where_zero(is_update, materialize(t_updates, updates)),
        body="add",
        **params,
    )
    return total / count


def _product_tangent(y: Tensor, xs: Sequence[Tensor], t: MaybeZero, t_updates: MaybeZero, params: Params) -> MaybeZero:
    """The tangent of y = x * prod(u): the sum over the factors of the factor's tangent times the product of the other factors.

    `xs` are x, the indices and the updates u; `t` and `t_updates` are the tangents of x and u. The product of the others is
    computed without division, so it is exact if factors are zero. `params` are the parameters of the scatter.
    """
    x, indices, updates = xs
    total: MaybeZero = ZERO
    if not isinstance(t, Zero):
        total = t * scatter(full_like(x, 1), indices, updates, body="mul", **params)
    if isinstance(t_updates, Zero):
        return total
    factor = _read_back(x, indices, updates, params)
    if not params["unique_indices"]:
        factor = factor * _product_of_others(x, indices, updates, params)
    return add_any(total, scatter(full_like(x, 0), indices, t_updates * factor, body="add", **params))


def _product_of_others(x: Tensor, indices: Tensor, updates: Tensor, params: Any) -> Tensor:
    """For each update the product of all other updates with the same index.

    Updates are sorted by index; the result is the product of the updates before it times the product of those after it.
    """
    number = np.dtype(np.int64 if x.size > np.iinfo(np.int32).max else np.int32)
    positions = reshape(iota(shape=(x.size,), dtype=number, iota_dimension=0), shape=x.shape)
    targets_of_updates = _read_back(positions, indices, updates, params)
    targets_of_updates = select(
        _is_in_range(x, indices, updates, params), targets_of_updates, full_like(targets_of_updates, x.size)
    )  # x.size: out of range
    count = updates.size
    position = iota(shape=(count,), dtype=np.dtype(np.int32), iota_dimension=0)
    by_position = {"dimension": 0, "is_stable": True, "comparator": "LT"}
    sort = REGISTRY["stablehlo.sort"]
    targets, order = sort.apply([reshape(targets_of_updates, shape=(count,)), position], by_position)
    _, inverse_order = sort.apply([order, position], by_position)
    factors = along_axis(reshape(updates, shape=(count,)), order, 0)
    before = _products_before(factors, targets)
    after_each = reverse(_products_before(*(reverse(v, dimensions=(0,)) for v in (factors, targets))), dimensions=(0,))
    return reshape(along_axis(before * after_each, inverse_order, 0), shape=updates.shape)


def _products_before(factors: Tensor, targets: Tensor) -> Tensor:
    """For each element, the product of the earlier elements with the same target index.

    The distances are doubled (Hillis and Steele 1986). Equal `targets` must be neighbours.
    """
    one = full_like(factors, 1)

    def from_before(x: Tensor, distance: int) -> Tensor:
        """The vector `x`, shifted by `distance` within each run of equal targets; ones where the shift leaves the run."""
        start, end = sliced(one, 0, 0, distance), sliced(x, 0, 0, x.size - distance)
        earlier, later = sliced(targets, 0, 0, x.size - distance), sliced(targets, 0, distance, x.size)
        same = compare(earlier, later, comparison_direction="EQ")
        return concatenate(start, select(same, end, full_like(end, 1)), dimension=0)

    if factors.size < 2:
        return one
    total, distance = from_before(factors, 1), 1
    while distance < factors.size:
        total = total * from_before(total, distance)
        distance *= 2
    return total


def _scatter_transpose(cts: Tensors, i: int, xs: Tensors, body: Any, **params: Any) -> Tensor:
    """The cotangent of the operand (i = 0), or of the updates: read at their indices, and 0 for updates without effect.

    `xs` are the operand, the indices and the updates, and cts[0] is the cotangent of the result.
    """
    x, indices, updates = xs
    ct = cts[0]
    if i == 0:
        return ct if body == "add" else scatter(ct, indices, full_like(updates, 0), body="set", **params)
    gathered_ct = where_zero(_is_in_range(x, indices, updates, params), _read_back(ct, indices, updates, params))
    if body == "set" and not params["unique_indices"]:
        gathered_ct = where_zero(_is_last_write(x, indices, updates, params), gathered_ct)
    return gathered_ct


def _is_in_range(x: Tensor, indices: Tensor, updates: Tensor, params: Any) -> Tensor:
    """True for each update whose window lies inside the operand `x`; the scatter drops the other updates. `params` are its
    parameters.
    """
    dims = params["scatter_dimension_numbers"]
    sizes = _window_sizes(x, updates, dims)
    index_map, vector_dim = dims["scatter_dims_to_operand_dims"], dims["index_vector_dim"]
    limits = last_starts(x.shape, index_map, sizes)
    if not index_map or lie_inside(indices, limits, vector_dim):
        return full(updates.shape, True, np.dtype(bool))
    if len(set(limits.tolist())) > 1:
        every = np.broadcast_to(per_component(limits, indices, vector_dim), indices.shape)
        upper = constant(every.astype(indices.dtype))
    else:
        upper = full_like(indices, int(limits[0]))
    fits = logical_and(
        compare(indices, full_like(indices, 0), comparison_direction="GE"), compare(indices, upper, comparison_direction="LE")
    )
    if vector_dim < indices.ndim:
        fits = reduce(fits, full((), True, np.dtype(bool)), dimensions=(vector_dim,), body="and")
    windows = set(dims["update_window_dims"])
    update_axes = tuple(d for d in range(updates.ndim) if d not in windows)
    return broadcast_in_dim(fits, shape=updates.shape, broadcast_dimensions=update_axes)


def _scatter_batch(xs: Tensors, mapped: Sequence[bool], size: int, body: Any, **params: Any) -> list[Tensor]:
    """The scatter for all `size` entries of a map; `mapped` is True for each operand that has the mapped axis first.

    The mapped axis is a batching axis, or a window axis if the indices are unmapped.
    """
    count = (len(xs) - 1) // 2
    operands, indices, updates = xs[:count], xs[count], xs[count + 1 :]
    dims = dict(params["scatter_dimension_numbers"])
    operands = all_prefixed(operands, mapped[:count], size)
    updates = all_prefixed(updates, mapped[count + 1 :], size)
    for field in ("inserted_window_dims", "scatter_dims_to_operand_dims"):
        dims[field] = shifted(dims[field])
    if mapped[count]:
        dims["update_window_dims"] = shifted(dims["update_window_dims"])
        dims["input_batching_dims"] = (0, *shifted(dims["input_batching_dims"]))
        dims["scatter_indices_batching_dims"] = (0, *shifted(dims["scatter_indices_batching_dims"]))
        dims["index_vector_dim"] += 1
        params["indices_are_sorted"] = False
    else:
        dims["update_window_dims"] = (0, *shifted(dims["update_window_dims"]))
        dims["input_batching_dims"] = shifted(dims["input_batching_dims"])
    params["scatter_dimension_numbers"] = dims
    return scatter.apply([*operands, indices, *updates], {**params, "body": body})


def _scatter_numpy(ufunc: Any) -> Any:
    """A function of NumPy that combines updates with rows of an array, as the reference of a sample."""

    def run(x: Any, i: Any, u: Any) -> Any:
        """The array `x` updated in a loop over the rows `u` at the indices `i`; rows outside are left out."""
        x = x.copy()
        for row, update in zip(i[:, 0], u, strict=True):
            if 0 <= row < len(x):
                x[row] = ufunc(x[row], update)
        return x

    return run


_ROWS = scatter_dims(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1)
_SCATTER = {"scatter_dimension_numbers": _ROWS, "indices_are_sorted": False, "unique_indices": False}
_SHAPES = ((4, 3), (5, 1), (5, 3))
scatter: OpDef = general(
    "stablehlo.scatter",
    pattern=patterns.scatter,
    doc="The operand, into which `body` combines updates at computed indices. Updates out of range are dropped.",
    instructions=ONE_BY_ONE,
    updates=lambda op: range((len(op.operands) - 1) // 2),
    attributes={"scatter_dimension_numbers": ScatterDims, "indices_are_sorted": Bool, "unique_indices": Bool},
    defaults={"indices_are_sorted": False, "unique_indices": False},
    regions=("body",),
    emit_region=emit_combiner,
    read_region=read_combiner,
    result=_scatter_result,
    decomposition=_as_writes,
    jvp=_scatter_jvp,
    linear=_scatter_linear,
    transpose=_scatter_transpose,
    batch=_scatter_batch,
    sample=[
        Case(_SHAPES, {**_SCATTER, "body": "add"}, (None, integers(0, 3)), numpy=_scatter_numpy(np.add)),
        Case(_SHAPES, {**_SCATTER, "body": "add"}, (None, integers(-2, 6)), numpy=_scatter_numpy(np.add)),
        Case(_SHAPES, {**_SCATTER, "body": "set"}, (None, integers(0, 3)), numpy=_scatter_numpy(lambda a, b: b)),
        Case(_SHAPES, {**_SCATTER, "body": "max"}, (None, integers(0, 3)), numpy=_scatter_numpy(np.maximum)),
        Case(_SHAPES, {**_SCATTER, "body": "min"}, (None, integers(0, 3)), numpy=_scatter_numpy(np.minimum)),
        Case(_SHAPES, {**_SCATTER, "body": "mul"}, (None, integers(0, 3)), numpy=_scatter_numpy(np.multiply)),
    ],
)
