"""Legalisation of scatter: updates out of range, partial windows, and several operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, select
from nabla_mlir.dialects.types import is_float, tensor_type
from nabla_mlir.passes.iree.faults.ranges import component_range
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.passes.iree.regions import apply_elementwise, depends_only_on, is_elementwise, single_operation

PATTERNS = Patterns()


@dataclass(frozen=True)
class NormalForm:
    """A scatter in normal form: N index vectors, and N windows with all dimensions of the operand."""

    operands: list[Val]
    indices: Val  # shape N x K: N index vectors with K components
    updates: list[Val]  # shape N x window, for each operand
    index_map: tuple[int, ...]  # for each component of an index vector, the dimension of the operand
    window: tuple[int, ...]  # the size of a window along each dimension of the operand
    body: ir.Region  # computes the new element from the old one and the update

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operands."""
        return self.operands[0].shape

    @property
    def limits(self) -> list[int]:
        """The largest start index of a window inside the operand, along the dimension of each component of an index vector."""
        return [self.shape[d] - self.window[d] for d in self.index_map]


@PATTERNS.of("stablehlo.scatter")
def scatter(op: ir.Operation, target: Target) -> Replacement:
    """A scatter of single elements or complete windows into one operand, all in range; or a loop over the windows.

    The result is None if the scatter has this form already. IREE writes updates out of range outside of the buffer, and does not
    compile windows that are smaller than their dimension, or several operands. A window that is not completely inside the operand
    is dropped, as in XLA.
    """
    values = operands(op)
    n = len(values) // 2
    if not all(v.static for v in values):
        return None
    dims = hlo.ScatterDims.decode(op.attributes["scatter_dimension_numbers"])
    x, indices, updates = values[0], values[n], values[n + 1]
    inserted_dims = {*dims["inserted_window_dims"], *dims["input_batching_dims"]}
    window = window_of(dims, values)
    vector_dim = dims["index_vector_dim"]
    inside = all(
        _inside(component_range(indices.value, vector_dim, k), x.shape[d] - window[d])
        for k, d in enumerate(dims["scatter_dims_to_operand_dims"])
    )
    partial = any(window[d] != x.shape[d] and d not in inserted_dims for d in range(x.rank))
    if inside and n == 1 and not partial and _leads((*dims["input_batching_dims"], *dims["scatter_dims_to_operand_dims"])):
        return None
    if not all(updates.shape):
        return values[:n]
    if not is_elementwise(op.regions[0]):
        raise RuleMissingError(f"stablehlo.scatter requires an elementwise body, got {op.location}.")
    form = normal_form(op, values, dims, window)
    valid = None if inside else _valid(form)
    if form.indices.shape[0] == 1:
        return _one_window(form, form.operands, form.indices, form.updates, valid)
    if n > 1 and not all(depends_only_on(form.body, i, (i, n + i)) for i in range(n)):
        return _loop(form, valid)
    return [_masked(form, i, valid) for i in range(n)]


def window_of(dims: dict[str, Any], values: Sequence[Val]) -> tuple[int, ...]:
    """The size of a window in each dimension of the operand, from the dimension numbers `dims` and the operands of a scatter."""
    inserted_dims = {*dims["inserted_window_dims"], *dims["input_batching_dims"]}
    updates = values[len(values) // 2 + 1]
    sizes = iter([updates.shape[d] for d in dims["update_window_dims"]])
    return tuple(1 if d in inserted_dims else next(sizes) for d in range(values[0].rank))


def _leads(dims: Sequence[int]) -> bool:
    """True if the indexed dimensions `dims` are the first ones, or only one. IREE does not compile other scatters."""
    return len(dims) < 2 or sorted(dims) == list(range(len(dims)))


def _inside(bounds: tuple[int, int] | None, limit: int) -> bool:
    """True if bounds are known and inside 0 ... limit."""
    return bounds is not None and bounds[0] >= 0 and bounds[1] <= limit


def normal_form(op: ir.Operation, values: list[Val], dims: dict[str, Any], window: tuple[int, ...]) -> NormalForm:
    """The normal form of a scatter: its index vectors are along one axis, and also index the batching dimensions.

    `values` are the operands, `dims` the dimension numbers, and `window` the sizes of a window. For example, updates of 4x5 with
    indices of 4x5x1, batched along the first axis of a 4x9 operand, become 20 windows of 1x1 at (row, index).
    """
    n = len(values) // 2
    indices, updates = values[n], values[n + 1 :]
    vector_dim = dims["index_vector_dim"]
    if vector_dim == indices.rank:
        indices = b.reshape(indices, (*indices.shape, 1))
    batch_dims = [d for d in range(indices.rank) if d != vector_dim]
    batch = [indices.shape[d] for d in batch_dims]
    count = math.prod(batch)
    indices = b.transpose(indices, [*batch_dims, vector_dim])
    columns = [b.reshape(indices, (count, indices.shape[-1]))]
    index_map = list(dims["scatter_dims_to_operand_dims"])
    for operand_dim, indices_dim in zip(dims["input_batching_dims"], dims["scatter_indices_batching_dims"], strict=True):
        position = b.iota(batch, batch_dims.index(indices_dim), indices.dtype)
        columns.append(b.reshape(position, (count, 1)))
        index_map.append(operand_dim)
    outer = [d for d in range(updates[0].rank) if d not in dims["update_window_dims"]]
    updates = [b.transpose(u, [*outer, *dims["update_window_dims"]]) for u in updates]
    updates = [b.reshape(u, (count, *window)) for u in updates]
    signed = [b.convert(c, np.int32) if c.dtype.itemsize < 4 or c.dtype.name == "uint32" else c for c in columns]
    return NormalForm(values[:n], b.concat(signed, 1), updates, tuple(index_map), window, op.regions[0])


def _valid(form: NormalForm) -> Val:
    """A boolean for each window: True if it is completely inside the operand."""
    limits = b.broadcast(b.constant(np.array(form.limits, form.indices.dtype)), form.indices.shape, [1])
    is_inside = (form.indices >= 0) & (form.indices <= limits)
    return b.reduce_with("stablehlo.and", is_inside, True, [1])


def _one_window(form: NormalForm, arrays: Sequence[Val], indices: Val, updates: Sequence[Val], valid: Val | None) -> list[Val]:
    """The `arrays` after the scatter of one window, by dynamic slices, whose start indices IREE clamps.

    `indices`, `updates` and `valid` (None: True) are those of one window, with a leading dimension of size 1.
    """
    zero = b.full(0, (), indices.dtype)
    start = [zero] * len(form.shape)
    for k, d in enumerate(form.index_map):
        start[d] = b.reshape(b.slice_(indices, [0, k], [1, k + 1]), ())
    old = [b.dynamic_slice(x, start, form.window) for x in arrays]
    new = apply_elementwise(form.body, [*old, *(b.reshape(u, form.window) for u in updates)])
    if valid is not None:
        inside = b.broadcast(b.reshape(valid, ()), form.window, [])
        new = [select(inside, n, o) for n, o in zip(new, old, strict=True)]
    return [b.dynamic_update_slice(x, n, start) for x, n in zip(arrays, new, strict=True)]


def _loop(form: NormalForm, valid: Val | None) -> list[Val]:
    """The results of a scatter as a loop over its windows, for a body that combines several operands.

    `valid` has a boolean for each window: it is inside the operand. None means that all are.
    """

    def row(x: Val, i: Val) -> Val:  # element i of the first axis, which stays with size 1
        zero = b.full(0, (), np.int32)
        return b.dynamic_slice(x, [i] + [zero] * (x.rank - 1), (1, *x.shape[1:]))

    def step(i: Val, *into: Val) -> list[Val]:  # the arrays `into` after the scatter of window i
        updates = [row(u, i) for u in form.updates]
        return _one_window(form, into, row(form.indices, i), updates, None if valid is None else row(valid, i))

    return b.for_loop(form.indices.shape[0], form.operands, step)


# The update that changes nothing, by the operation that combines old elements and updates, for a dtype.
_NEUTRAL = {
    "stablehlo.add": lambda d: -0.0 if is_float(d) else 0,
    "stablehlo.multiply": lambda d: 1,
    "stablehlo.or": lambda d: 0,
    "stablehlo.xor": lambda d: 0,
    "stablehlo.maximum": lambda d: -math.inf if is_float(d) else int(np.iinfo(d).min),
    "stablehlo.minimum": lambda d: math.inf if is_float(d) else int(np.iinfo(d).max),
}


def _masked(form: NormalForm, i: int, valid: Val | None) -> Val:
    """The result of the scatter into operand i. A window out of range gets a neutral update, or is written to a spare index.

    `valid` has a boolean for each window: it is inside the operand. None means that all are.
    """
    x, indices, updates = form.operands[i], form.indices, form.updates[i]
    n = len(form.operands)
    name = single_operation(form.body) if n == 1 else None
    if valid is not None and name in _NEUTRAL and x.dtype.kind != "c" and x.dtype.kind != "b":
        # A neutral update changes no element, so its index may be clamped.
        neutral = b.splat(_NEUTRAL[name](x.dtype), updates)
        updates = select(b.broadcast(valid, updates.shape, [0]), updates, neutral)
        limits = b.broadcast(b.constant(np.array(form.limits, indices.dtype)), indices.shape, [1])
        indices = b.minimum(b.maximum(indices, 0), limits)
        valid = None
    spare_rows = 0
    if valid is not None:
        # The spare index is after the end of the first indexed dimension.
        first = form.index_map[0]
        spare_rows = form.window[first]
        spare_index = b.constant(np.array([x.shape[d] if d == first else 0 for d in form.index_map], indices.dtype))
        indices = select(b.broadcast(valid, indices.shape, [0]), indices, b.broadcast(spare_index, indices.shape, [1]))
        x = b.pad(x, [0] * x.rank, [spare_rows if d == first else 0 for d in range(x.rank)])
    result = _points(form, x, indices, updates, i)
    return b.slice_(result, [0] * x.rank, form.shape)


def _points(form: NormalForm, x: Val, indices: Val, updates: Val, i: int) -> Val:
    """The result of the scatter into x, operand i, with each window split into single elements along its partial dimensions.

    A dimension is partial if the window is smaller than the operand.

    For example, 7 windows of 2x3 in an operand of 5x3, each at a row i, become 14 rows at i and i + 1; the last
    dimension is complete.
    """
    n, count = len(form.operands), indices.shape[0]
    if indices.dtype.itemsize > 4 and max(x.shape, default=0) < 2**31:  # IREE refuses 64-bit indices that come from a reshape
        indices = b.convert(indices, np.int32)
    lead_dims = [d for d in range(x.rank) if d in form.index_map or form.window[d] != x.shape[d]]
    wide = [d for d in lead_dims if form.window[d] > 1]
    complete_dims = [d for d in range(x.rank) if d not in lead_dims]
    positions = (count, *(form.window[d] for d in wide))
    total = math.prod(positions)
    columns = [_positions_along(d, form, indices, positions, 1 + wide.index(d) if d in wide else None) for d in lead_dims]
    indices = b.concat([b.reshape(c, (total, 1)) for c in columns], 1)
    order = [0, *(1 + d for d in wide), *(1 + d for d in range(x.rank) if d not in wide)]
    updates = b.reshape(b.transpose(updates, order), (total, *(x.shape[d] for d in complete_dims)))
    # IREE requires that the indexed dimensions come first.
    lead = list(range(x.rank)) if _leads(lead_dims) else [*lead_dims, *complete_dims]
    x, lead_dims = b.transpose(x, lead), [lead.index(d) for d in lead_dims]
    dims = {
        "update_window_dims": range(1, updates.rank),
        "inserted_window_dims": lead_dims,
        "scatter_dims_to_operand_dims": lead_dims,
        "index_vector_dim": 1,
    }
    attributes = {
        "scatter_dimension_numbers": hlo.ScatterDims.encode(dims),
        "indices_are_sorted": hlo.Bool.encode(False),
        "unique_indices": hlo.Bool.encode(False),
    }
    op = b.make("stablehlo.scatter", [x, indices, updates], [x.type], attributes, regions=1, final=True)
    scalar = tensor_type((), x.dtype)

    def body(old: Val, new: Val) -> Val:
        """The new element from the old one and the update, by the part of the body for operand i."""
        arguments: list[Val | None] = [None] * (2 * n)
        arguments[i], arguments[n + i] = old, new
        return apply_elementwise(form.body, arguments, only=i)[0]

    b.fill_region(op.regions[0], [scalar, scalar], body)
    return b.transpose(Val(op.results[0]), [lead.index(d) for d in range(x.rank)])


def _positions_along(d: int, form: NormalForm, indices: Val, positions: tuple[int, ...], axis: int | None) -> Val:
    """The index along dimension `d` of each element that a scatter updates: the start of its window plus its offset in the window.

    `positions` is the shape of the result: the number of windows, and the sizes of windows. `axis` is the axis of the offsets
    (None: 0).
    """
    offset = None if axis is None else b.iota(positions, axis, indices.dtype)
    if d not in form.index_map:
        return b.full(0, positions, indices.dtype) if offset is None else offset
    k, count = form.index_map.index(d), positions[0]
    start = b.broadcast(b.reshape(b.slice_(indices, [0, k], [count, k + 1]), (count,)), positions, [0])
    return start if offset is None else start + offset
