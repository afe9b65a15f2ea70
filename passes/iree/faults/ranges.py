"""Bounds of integer values, derived from the IR, so that indices that cannot leave a buffer are not clamped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.table.traits import moved

Range = tuple[int, int]  # the smallest and the largest value
_DEPTH = 12  # the number of operations through which bounds are followed


def component_range(value: ir.Value, dim: int, component: int, depth: int = _DEPTH) -> Range | None:
    """The smallest and the largest element of an integer value at index `component` along `dim`; None if they are unknown.

    They are the bounds of all elements if `dim` is the rank. Operations are followed up to `depth`.
    """
    op = made_by(value)
    rank = value.type.rank
    if op is None or not depth or dim >= rank:
        return value_range(value, depth)
    if op.name == "stablehlo.constant":
        array = hlo.constant_array(op)
        return _bounds(np.take(array, component, axis=dim))
    if op.name == "stablehlo.concatenate" and hlo.I64.decode(op.attributes["dimension"]) == dim:
        for part in op.operands:
            if component < part.type.shape[dim]:
                return component_range(part, dim, component, depth - 1)
            component -= part.type.shape[dim]
    if op.name in ("stablehlo.convert", *hlo.BARRIERS):
        return _fits(component_range(op.operands[0], dim, component, depth - 1), value)
    if op.name == "stablehlo.broadcast_in_dim":
        dims = list(hlo.I64Array.decode(op.attributes["broadcast_dimensions"]))
        if dim in dims and op.operands[0].type.shape[dims.index(dim)] > 1:
            return component_range(op.operands[0], dims.index(dim), component, depth - 1)
    if op.name in _COMBINED:
        sides = [component_range(v, dim, component, depth - 1) for v in op.operands]
        return _fits(_combine(op.name, sides[0], sides[1], value), value)
    return value_range(value, depth)


def value_range(value: ir.Value, depth: int = _DEPTH) -> Range | None:
    """The smallest and the largest element of an integer value; None if they are unknown. Operations are followed up to `depth`."""
    op = made_by(value)
    if op is None or not depth:
        return _type_range(value)
    name = op.name
    if name == "stablehlo.constant":
        return _bounds(hlo.constant_array(op))
    if name == "stablehlo.iota":
        return 0, value.type.shape[hlo.I64.decode(op.attributes["iota_dimension"])] - 1
    if name in ("stablehlo.convert", *hlo.BARRIERS):
        return _fits(value_range(op.operands[list(op.results).index(value)], depth - 1), value) or _type_range(value)
    ranges = lambda: [value_range(v, depth - 1) for v in op.operands]  # noqa: E731
    if name == "stablehlo.select":
        truth = _known_predicate(op.operands[0], depth - 1)
        sides = op.operands[1:] if truth is None else [op.operands[1 if truth else 2]]
        return _union([value_range(v, depth - 1) for v in sides])
    if sources := moved(op):
        return _union([value_range(v, depth - 1) for v in sources]) or _type_range(value)
    if name == "stablehlo.clamp":
        low, _, high = ranges()
        return (low[0], high[1]) if low and high else None
    if name in _COMBINED:
        left, right = ranges()
        return _fits(_combine(name, left, right, value), value) or _type_range(value)
    if name == "stablehlo.remainder":
        x, y = ranges()
        if x and y and y[0] > 0:
            # The remainder has the sign of x, and is smaller than y.
            return (0 if x[0] >= 0 else 1 - y[1]), min(y[1] - 1, max(x[1], 0))
    if name == "stablehlo.and":
        tops = [r[1] for r in ranges() if r and r[0] >= 0]
        return (0, min(tops)) if tops else _type_range(value)
    return _type_range(value)


def _bounds(array: np.ndarray) -> Range | None:
    """The smallest and the largest number in an array; None if they are not integers or booleans."""
    if not array.size:
        return 0, 0
    return (int(array.min()), int(array.max())) if array.dtype.kind in "biu" else None


def _union(ranges: list[Range | None]) -> Range | None:
    """The smallest range that contains all of these; None if one is unknown."""
    bounds = [r for r in ranges if r is not None]
    return (min(r[0] for r in bounds), max(r[1] for r in bounds)) if bounds and len(bounds) == len(ranges) else None


def _combine(name: str, x: Range | None, y: Range | None, value: ir.Value) -> Range | None:
    """The bounds of the result `value` of an operation of `_COMBINED`, from the bounds of its operands; None if unknown."""
    everything = _type_range(value)
    if name in ("stablehlo.minimum", "stablehlo.maximum"):  # one bound of one operand is a bound of the result
        x, y = x or everything, y or everything
    return None if x is None or y is None else _COMBINED[name](x, y)


def _product(x: Range, y: Range) -> Range:
    """The bounds of the product of numbers in two ranges."""
    corners = [i * j for i in x for j in y]
    return min(corners), max(corners)


_COMBINED: dict[str, Callable[[Range, Range], Range]] = {
    "stablehlo.minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "stablehlo.maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "stablehlo.add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "stablehlo.subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "stablehlo.multiply": _product,
}


def _fits(bounds: Range | None, value: ir.Value) -> Range | None:
    """The bounds if the type of the value can represent them; else None, because the value may have wrapped around."""
    limits = _type_range(value)
    return bounds if bounds and limits and limits[0] <= bounds[0] and bounds[1] <= limits[1] else None


def _type_range(value: ir.Value) -> Range | None:
    """The bounds of all numbers of an integer or boolean type; None for other types."""
    try:
        dtype = shape_and_dtype(value.type)[1]
    except DtypeError:
        return None
    if dtype.kind == "b":
        return 0, 1
    return (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if dtype.kind in "iu" else None


def _known_predicate(value: ir.Value, depth: int) -> bool | None:
    """The truth of a comparison if the ranges determine it, as in the wrapping of negative indices; else None."""
    op = made_by(value)
    if op is None or not depth:
        return None
    if op.name != "stablehlo.compare":
        bounds = value_range(value, depth)
        return bool(bounds[0]) if bounds and bounds[0] == bounds[1] else None
    x, y = (value_range(v, depth) for v in op.operands)
    if x is None or y is None:
        return None
    word = hlo.enum("comparison_direction").decode(op.attributes["comparison_direction"])
    if word in ("GT", "GE"):
        x, y, word = y, x, {"GT": "LT", "GE": "LE"}[word]
    if word == "LT":
        return True if x[1] < y[0] else False if x[0] >= y[1] else None
    if word == "LE":
        return True if x[1] <= y[0] else False if x[0] > y[1] else None
    return None
