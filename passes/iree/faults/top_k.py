"""Legalisation of chlo.top_k, in the total order of floating-point numbers."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, eq, select
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.passes.iree.order import from_key, to_key
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()

_ROUNDS = 8  # up to this many searches are less work than a sort


@PATTERNS.of("chlo.top_k")
def top_k(op: ir.Operation, target: Target) -> Replacement:
    """The k largest elements and their indices, by searches or a sort of keys that are integers.

    IREE ignores NaN, which is the largest element; it treats -0 as 0, and returns equal integers in any order.
    """
    (x,) = operands(op)
    if not x.static:
        return None
    if x.dtype.kind == "c":
        raise RuleMissingError(f"chlo.top_k requires elements with an order, got {x.type} at {op.location}.")
    k = hlo.I64.decode(op.attributes["k"])
    keys = to_key(x)
    if k <= _ROUNDS:
        keys, indices = _searched(keys, k)
    else:
        keys, indices = (b.cut(v, v.rank - 1, 0, k) for v in _sorted(keys))
    return [from_key(keys, x.dtype), indices]


def _searched(keys: Val, k: int) -> tuple[Val, Val]:
    """The k largest keys of each row and their indices, by k searches for the maximum of the remaining keys.

    Among equal keys the first one is found first.
    """
    last, least = keys.rank - 1, int(np.iinfo(keys.dtype).min)
    position = b.iota(keys.shape, last, np.int32)
    is_left = b.full(True, keys.shape, np.dtype(bool))
    columns: list[Val] = []
    positions: list[Val] = []
    along = lambda v: b.broadcast(v, keys.shape, range(last))  # noqa: E731
    for _ in range(k):
        largest = b.reduce_with("stablehlo.maximum", select(is_left, keys, least), least, [last])
        best = eq(keys, along(largest)) & is_left
        end = keys.shape[last]
        index = b.reduce_with("stablehlo.minimum", select(best, position, end), end, [last])
        is_left = is_left & ~eq(position, along(index))
        columns.append(b.reshape(largest, (*largest.shape, 1)))
        positions.append(b.reshape(index, (*index.shape, 1)))
    return b.concat(columns, last), b.concat(positions, last)


def _sorted(keys: Val) -> tuple[Val, Val]:
    """The keys of each row in descending order, and their original indices."""
    last = keys.rank - 1
    xs = [keys, b.iota(keys.shape, last, np.int32)]
    attributes = {"dimension": hlo.I64.encode(last), "is_stable": hlo.Bool.encode(True)}
    op = b.make("stablehlo.sort", xs, [v.type for v in xs], attributes, regions=1)
    types = [tensor_type((), v.dtype) for v in xs for _ in range(2)]
    b.fill_region(op.regions[0], types, lambda x, y, *_: x > y)
    keys, where = (Val(r) for r in op.results)
    return keys, where
