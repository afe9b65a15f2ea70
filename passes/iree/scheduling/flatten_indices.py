"""Gathers and scatters of single elements, or rows, by several indices that are computed separately."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.faults.indexing import clamp
from nabla_mlir.passes.iree.faults.ranges import component_range
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.passes.iree.regions import apply_elementwise, is_elementwise

PATTERNS = Patterns()


@register
@dataclass(frozen=True)
class FlattenIndicesPass(PatternPass):
    """Gather and scatter by one index instead of an index vector: x[i, j] is element i * columns + j.

    IREE computes a single index in the operation that uses it. It writes index vectors to memory first, each component
    separately. Example, the four corners of a bilinear interpolation of 384x384 points: with vectors 1.1 ms, 9 dispatches
    and 7.6 MB besides the result; with single indices 0.3 ms, one dispatch, and nothing besides the result.

    Example: tests/filecheck/passes/flatten_indices.mlir
    """

    name: ClassVar[str] = "nabla-flatten-indices"
    patterns: ClassVar[Patterns] = PATTERNS


@dataclass(frozen=True)
class _Indexed:
    """Neighbouring dimensions of an operand that are indexed together, and the columns of their index vectors.

    Args:
      shape: the shape of the operand.
      axes: the dimensions, in the order of the columns.
      columns: the components of the index vectors: one array of indices for each dimension.
      vector_dim: the dimension of the columns along which an index vector lies, of size 1.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    columns: list[Val]
    vector_dim: int

    @property
    def first(self) -> int:
        """The first of the dimensions; the merged dimension has this number, too."""
        return min(self.axes)

    @property
    def size(self) -> int:
        """The size of the merged dimension."""
        return math.prod(self.shape[d] for d in self.axes)

    def flat_shape(self) -> tuple[int, ...]:
        """The shape of the operand in which the dimensions are merged."""
        return (*self.shape[: self.first], self.size, *self.shape[self.first + len(self.axes) :])

    def moved(self, dims: Iterable[int]) -> list[int]:
        """The numbers that the dimensions `dims` of the operand have after the merge; indexed dimensions are left out."""
        return [d if d < self.first else d - len(self.axes) + 1 for d in dims if d not in self.axes]

    @functools.cached_property
    def inside(self) -> list[bool]:
        """A list with True for each column whose indices are provably in range."""
        bounds = [component_range(c.value, self.vector_dim, 0) for c in self.columns]
        return [r is not None and r[0] >= 0 and r[1] < self.shape[d] for r, d in zip(bounds, self.axes, strict=True)]

    def index(self) -> Val:
        """The index along the merged dimension; each column is clamped to its own range, as in a gather."""
        dtype = np.dtype(np.int32 if self.size < np.iinfo(np.int32).max else np.int64)
        end = self.first + len(self.axes)
        total: Val | None = None
        for column, d, is_inside in zip(self.columns, self.axes, self.inside, strict=True):
            position = column if is_inside else clamp(column, [self.shape[d] - 1], self.vector_dim)
            position = position if position.dtype == dtype else b.convert(position, dtype)
            stride = math.prod(self.shape[d + 1 : end])
            term = position * stride if stride > 1 else position
            total = term if total is None else total + term
        assert total is not None  # there are two columns at least
        return total


@PATTERNS.of("stablehlo.gather")
def gather(op: ir.Operation, target: Target) -> Replacement:
    """A gather by one index instead of an index vector, from an operand whose indexed dimensions are merged; else None."""
    dims = hlo.GatherDims.decode(op.attributes["dimension_numbers"])
    x, indices = operands(op)
    plan = _indexed(x, indices, dims["start_index_map"], dims["collapsed_slice_dims"], dims["index_vector_dim"])
    if plan is None:
        return None
    numbers = {
        **dims,
        "collapsed_slice_dims": sorted([*plan.moved(dims["collapsed_slice_dims"]), plan.first]),
        "operand_batching_dims": plan.moved(dims["operand_batching_dims"]),
        "start_index_map": [plan.first],
    }
    window = hlo.I64Array.decode(op.attributes["slice_sizes"])
    attributes = {
        "dimension_numbers": hlo.GatherDims.encode(numbers),
        "slice_sizes": hlo.I64Array.encode([*window[: plan.first], 1, *window[plan.first + len(plan.axes) :]]),
        "indices_are_sorted": hlo.Bool.encode(False),  # sorted index vectors may give single indices in another order
    }
    flat = b.reshape(x, plan.flat_shape())
    return Val(b.make(op.name, [flat, plan.index()], [op.results[0].type], attributes).results[0])


@PATTERNS.of("stablehlo.scatter")
def scatter(op: ir.Operation, target: Target) -> Replacement:
    """A scatter by one index instead of an index vector, into an operand whose indexed dimensions are merged; else None.

    An update that is out of range in one dimension gets an index that is out of range.
    """
    dims = hlo.ScatterDims.decode(op.attributes["scatter_dimension_numbers"])
    values = operands(op)
    n = len(values) // 2
    axes = dims["scatter_dims_to_operand_dims"]
    plan = _indexed(values[0], values[n], axes, dims["inserted_window_dims"], dims["index_vector_dim"])
    if plan is None or not is_elementwise(op.regions[0]):
        return None
    index = plan.index()
    for column, d, is_inside in zip(plan.columns, plan.axes, plan.inside, strict=True):
        if not is_inside:
            within = (column >= 0) & (column <= plan.shape[d] - 1)
            index = b.select(within, index, plan.size)  # an index out of range, so that the update is dropped
    numbers = {
        **dims,
        "inserted_window_dims": sorted([*plan.moved(dims["inserted_window_dims"]), plan.first]),
        "input_batching_dims": plan.moved(dims["input_batching_dims"]),
        "scatter_dims_to_operand_dims": [plan.first],
    }
    attributes = {
        "scatter_dimension_numbers": hlo.ScatterDims.encode(numbers),
        "indices_are_sorted": hlo.Bool.encode(False),
        "unique_indices": op.attributes["unique_indices"] if "unique_indices" in op.attributes else hlo.Bool.encode(False),
    }
    flat = [b.reshape(x, plan.flat_shape()) for x in values[:n]]
    new = b.make(op.name, [*flat, index, *values[n + 1 :]], [x.type for x in flat], attributes, regions=1)
    scalars = [tensor_type((), x.dtype) for x in values[:n]]  # the region has an old and a new element of each array
    b.fill_region(new.regions[0], scalars * 2, lambda *arguments: apply_elementwise(op.regions[0], arguments))
    return [b.reshape(Val(y), x.shape) for x, y in zip(values[:n], new.results, strict=True)]


def _indexed(x: Val, indices: Val, axes: Sequence[int], single: Iterable[int], vector_dim: int) -> _Indexed | None:
    """The description of indexed dimensions that can be merged into one; else None.

    They must be neighbours of which single elements are selected, and the index vectors a concatenation of columns.

    Args:
      x: the operand.
      indices: the index vectors.
      axes: the indexed dimensions, in the order of the components of an index vector.
      single: the dimensions of which a window has one element.
      vector_dim: the dimension of the indices along which an index vector lies.
    """
    if len(axes) < 2 or not x.static or not indices.static or 0 in x.shape or not set(axes) <= set(single):
        return None
    if sorted(axes) != list(range(min(axes), min(axes) + len(axes))):
        return None
    maker = made_by(indices.value)
    if maker is None or maker.name != "stablehlo.concatenate" or hlo.I64.decode(maker.attributes["dimension"]) != vector_dim:
        return None
    columns = operands(maker)
    if any(c.shape[vector_dim] != 1 for c in columns):
        return None
    return _Indexed(x.shape, tuple(axes), columns, vector_dim)
