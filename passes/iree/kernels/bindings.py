"""The buffers that a kernel binds. IREE limits their number for a dispatch, so several arrays may share one buffer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, concat, cut, reshape
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.passes.iree.kernels.graph import NotSupported
from nabla_mlir.table.traits import size_of

MAX_BINDINGS = 30
# IREE's own dispatches read a part of a buffer in place if it begins at a multiple of this many bytes.
_ALIGNMENT = 64


class Position(NamedTuple):
    """The position of an array: the index of the bound buffer, and the index of its first element."""

    buffer: int
    start: int = 0


def bind_reads(values: Sequence[ir.Value], limit: int) -> tuple[list[ir.Value], list[Position]]:
    """At most `limit` arrays that contain all `values`, and the position of each value in them.

    A slice of a flat array is read in place. If there are still too many arrays, the smallest ones of each type are joined.

    Raises:
      NotSupported: there are more than `limit` arrays even after joining.
    """
    parts = [_whole(value) for value in values]
    arrays = list(dict.fromkeys(array for array, _ in parts))
    homes: dict[ir.Value, tuple[ir.Value, int]] = {}
    for dtype in dict.fromkeys(map(_dtype, arrays)):
        alike = sorted((a for a in arrays if _dtype(a) == dtype), key=size_of)
        # One joined array in the place of k arrays saves k - 1.
        smallest = alike[: len(arrays) - limit + 1]
        if len(arrays) > limit and len(smallest) > 1:
            whole = concat([reshape(Val(a), (size_of(a),)) for a in smallest], 0).value
            starts = accumulate(map(size_of, smallest), initial=0)
            homes.update((a, (whole, start)) for a, start in zip(smallest, starts, strict=False))
            arrays = [*(a for a in arrays if a not in homes), whole]
    if len(arrays) > limit:
        raise NotSupported("a loop that reads too many arrays of different types")
    # A value starts at `start` in its own array, and this array starts at `before` in the joined one.
    positions = [(*homes.get(array, (array, 0)), start) for array, start in parts]
    return arrays, [Position(arrays.index(array), before + start) for array, before, start in positions]


def share_results(types: Sequence[ir.Type]) -> tuple[list[ir.Type], list[Position]]:
    """The types of flat arrays, one for each element type, that have room for all results, and each result's position in them."""
    ends: dict[np.dtype, int] = {}
    positions = []
    for shape, dtype in map(shape_and_dtype, types):
        start = ends.setdefault(dtype, 0)
        positions.append(Position(list(ends).index(dtype), start))
        step = _ALIGNMENT // dtype.itemsize  # the next result starts at a multiple of _ALIGNMENT bytes
        ends[dtype] = start + -(-math.prod(shape) // step) * step
    return [tensor_type((end,), dtype) for dtype, end in ends.items()], positions


def result_at(position: Position, results: Sequence[ir.Value], type: ir.Type) -> ir.Value:
    """The value of the tensor type `type` whose elements are stored at `position` in the flat arrays `results`."""
    shape, _ = shape_and_dtype(type)
    return reshape(cut(Val(results[position.buffer]), 0, position.start, position.start + math.prod(shape)), shape).value


def _whole(value: ir.Value) -> tuple[ir.Value, int]:
    """The flat array of which a value is a contiguous slice, and the start of the slice; (value, 0) if there is none."""
    flat = made_by(value)
    part = made_by(flat.operands[0]) if flat is not None and flat.name == "stablehlo.reshape" else flat
    if part is None or part.name != "stablehlo.slice":
        return value, 0
    start, stride = (hlo.I64Array.decode(part.attributes[name]) for name in ("start_indices", "strides"))
    return (part.operands[0], start[0]) if stride == (1,) else (value, 0)


def _dtype(value: ir.Value) -> np.dtype:
    return shape_and_dtype(value.type)[1]
