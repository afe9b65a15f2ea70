"""Legalisation of broadcasts, gathers, scatters and pads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.types import is_integer
from nabla_mlir.passes.iree.faults.ranges import component_range
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()


@PATTERNS.of("stablehlo.broadcast_in_dim")
def broadcast_in_dim(op: ir.Operation, target: Target) -> Replacement:
    """A broadcast with sorted dimensions, after a transpose; None if the dimensions are sorted already.

    IREE computes unsorted ones wrongly, or does not compile them. It computes a cycle of three equal sizes wrongly.
    """
    dims = hlo.I64Array.decode(op.attributes["broadcast_dimensions"])
    if list(dims) == sorted(dims):
        return None
    (x,) = operands(op)
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    return b.op(
        "stablehlo.broadcast_in_dim",
        b.transpose(x, order),
        type=op.results[0].type,
        broadcast_dimensions=hlo.I64Array.encode(sorted(dims)),
    )


def _limits(shape: Sequence[int], window: Sequence[int], index_map: Sequence[int]) -> list[int]:
    """The largest start index, for each component of an index vector, of a window that is inside the array.

    `index_map` has the dimension of the array for each component.
    """
    return [shape[d] - window[d] for d in index_map]


def _in_range(indices: ir.Value, vector_dim: int, limits: Sequence[int]) -> bool:
    """True if each component of the index vectors is provably between 0 and its limit; they lie along `vector_dim`."""
    for component, limit in enumerate(limits):
        bounds = component_range(indices, vector_dim, component)
        if bounds is None or bounds[0] < 0 or bounds[1] > limit:
            return False
    return True


def _along(values: Sequence[int], indices: Val, vector_dim: int) -> Val:
    """A constant in the shape of the indices, with values[k] for component k of the index vectors, which lie along `vector_dim`."""
    if len(set(values)) == 1:
        return b.splat(values[0], indices)
    vector = b.constant(np.array(values, indices.dtype))
    return b.broadcast(vector, indices.shape, [vector_dim])


def _wide_enough(indices: Val, limits: Sequence[int]) -> Val:
    """The indices in an integer type that can also represent the limits."""
    if is_integer(indices.dtype) and max(limits, default=0) <= np.iinfo(indices.dtype).max:
        return indices
    return b.convert(indices, np.int64)


def clamp(indices: Val, limits: Sequence[int], vector_dim: int) -> Val:
    """The start indices, clamped to 0 ... limits[k] for component k, as the specification of gather requires.

    The index vectors lie along `vector_dim`.
    """
    indices = _wide_enough(indices, limits)
    return b.minimum(b.maximum(indices, 0), _along(limits, indices, vector_dim))


@PATTERNS.of("stablehlo.torch_index_select")
def torch_index_select(op: ir.Operation, target: Target) -> Replacement:
    """The same operation with an index that is clamped to the array, because IREE reads outside the array."""
    x, index = operands(op)
    attributes = {name: op.attributes[name] for name in ("dim", "batch_dims")}
    limit = x.shape[ir.IntegerAttr(attributes["dim"]).value] - 1
    clamped = clamp(index, [limit], len(index.shape))
    return Val(b.make("stablehlo.torch_index_select", [x, clamped], [op.results[0].type], attributes, final=True).results[0])


@PATTERNS.of("stablehlo.gather")
def gather(op: ir.Operation, target: Target) -> Replacement:
    """The same gather with start indices that are clamped to the array, because IREE reads outside the array.

    None if the indices are provably in range.
    """
    dims = hlo.GatherDims.decode(op.attributes["dimension_numbers"])
    sizes = hlo.I64Array.decode(op.attributes["slice_sizes"])
    x, indices = operands(op)
    if not x.static or not indices.static:
        return None
    limits = _limits(x.shape, sizes, dims["start_index_map"])
    vector_dim = dims["index_vector_dim"]
    if _in_range(indices.value, vector_dim, limits):
        return None
    attributes = {name: op.attributes[name] for name in ("dimension_numbers", "slice_sizes")}
    attributes["indices_are_sorted"] = hlo.Bool.encode(False)
    starts = clamp(indices, limits, vector_dim)
    return Val(b.make(op.name, [x, starts], [op.results[0].type], attributes, final=True).results[0])
