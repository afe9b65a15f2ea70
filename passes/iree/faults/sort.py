"""Legalisation of sort: stable, and for any length."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, eq, ne, select
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.passes.iree.regions import apply_elementwise, is_elementwise

PATTERNS = Patterns()


@PATTERNS.of("stablehlo.sort")
def sort(op: ir.Operation, target: Target) -> Replacement:
    """A sort with the index as the last key, or as a sorting network; None if IREE sorts these operands rightly.

    IREE's sort is not stable, does not compile if one operand occurs twice, and needs n^2 time on a CPU. On Vulkan, results with
    more than 256 elements are wrong, and lengths that are not multiples of 4 may crash the compiler.
    """
    values = operands(op)
    x = values[0]
    if not x.static:
        return None
    dim = hlo.I64.decode(op.attributes["dimension"]) % x.rank if "dimension" in op.attributes else x.rank - 1
    stable = "is_stable" in op.attributes and hlo.Bool.decode(op.attributes["is_stable"])
    n = x.shape[dim]
    if n <= 1 or 0 in x.shape:
        return values
    region = op.regions[0]
    if not is_elementwise(region):
        raise RuleMissingError(f"stablehlo.sort requires an elementwise comparator, got {op.location}.")
    if n > target.longest_sort or (n % target.sort_multiple and n > 2):
        return _bitonic(values, dim, region)
    keeps_order = stable and (len(values) > 1 or x.dtype.kind not in "biu")
    if not keeps_order and len({v.value for v in values}) == len(values):
        return None
    if keeps_order:
        #  An iota operand serves as the last key, because one operand must not occur twice. The sort also reorders the
        # buffer of that iota. If another sort reads it, IREE copies it first, as it does with all constants, but not
        # with --iree-opt-const-expr-hoisting=false.
        counters = [v for v in values if counts(v.value, dim)]
        position = counters[0] if counters else b.iota(x.shape, dim, np.int32)
        return _sort(values, [position], dim, region)
    return _sort(values, [], dim, region)


def counts(value: ir.Value, dim: int) -> bool:
    """True if the value is the index of each element along the dimension, in a type that can represent every index."""
    op = value.owner
    if isinstance(op, ir.Block) or op.name != "stablehlo.iota":
        return False
    return hlo.I64.decode(op.attributes["iota_dimension"]) == dim and value.type.element_type.width >= 32


def _sort(values: Sequence[Val], last: Sequence[Val], dim: int, region: ir.Region) -> list[Val]:
    """The arrays `values` sorted along `dim` by IREE, by the comparator in `region`, and for equal elements by the key `last`.

    `last` has no key or one.
    """
    keys = {v.value: v for v in (*values, *last)}  # without duplicates
    index_of = {value: i for i, value in enumerate(keys)}
    arrays = list(keys.values())
    attributes = {"dimension": hlo.I64.encode(dim), "is_stable": hlo.Bool.encode(False)}
    op = b.make("stablehlo.sort", arrays, [k.type for k in arrays], attributes, regions=1, final=True)

    def comes_first(*elements: Val) -> Val:
        """The comparator of the new sort, an i1: true if the first of two positions comes before the second one.

        `elements` has two elements of each array: at the first position, then at the second. If the original comparator finds
        them equal, the key `last` decides, if there is one.
        """
        # An array that occurs twice in `values` is an operand only once.
        x, y = ([elements[2 * index_of[v.value] + side] for v in values] for side in (0, 1))
        if not last:
            return apply_elementwise(region, [v for pair in zip(x, y, strict=True) for v in pair])[0]
        p, q = (elements[2 * index_of[last[0].value] + side] for side in (0, 1))
        return _before(region, x, y, p < q)

    b.fill_region(op.regions[0], [tensor_type((), k.dtype) for k in arrays for _ in range(2)], comes_first)
    return [Val(op.results[index_of[v.value]]) for v in values]


def _before(region: ir.Region, x: Sequence[Val], y: Sequence[Val], tie: Val) -> Val:
    """A boolean: true if x comes before y by the comparator in `region`, or if both are equal and `tie` is true.

    x and y have the elements of all sorted arrays.
    """
    pairs = [v for pair in zip(x, y, strict=True) for v in pair]
    exchange = [v for pair in zip(y, x, strict=True) for v in pair]
    return apply_elementwise(region, pairs)[0] | (~apply_elementwise(region, exchange)[0] & tie)


def _bitonic(values: Sequence[Val], dim: int, region: ir.Region) -> list[Val]:
    """The arrays `values` sorted along `dim` by a bitonic network: a loop with an iteration for each distance of compared elements.

    The comparator is in `region`. The index of each element is the last key, so the sort is stable and the padding comes last.
    """
    rank, shape = values[0].rank, values[0].shape
    n = shape[dim]
    length = 1 << (n - 1).bit_length()
    order = [*(d for d in range(rank) if d != dim), dim]
    back = sorted(range(rank), key=lambda i: order[i])
    rows = math.prod(shape) // n
    flat = [b.reshape(b.transpose(v, order), (rows, n)) for v in values]
    flat = [_pad(v, length) for v in flat]
    position = b.iota((rows, length), 1, np.int32)
    lane = b.iota((rows, length), 1, np.int32)
    distance, block = b.full(1, (), np.int32), b.full(2, (), np.int32)

    def step(distance: Val, block: Val, position: Val, *keys: Val) -> list[Val]:
        """The values of the loop after a stage, which compares each element with its partner at this distance.

        In a block whose bit `block` of the lane is 0 the order is ascending, else descending. The element with the lower lane gets
        the smaller one in an ascending block.
        """
        spread = lambda scalar: b.broadcast(scalar, (rows, length), [])  # noqa: E731
        partner = b.iota((length,), 0, np.int32) ^ b.broadcast(distance, (length,), [])
        others = [_take(k, partner) for k in keys]
        other = _take(position, partner)
        real, other_real = position < n, other < n
        # True if the partner comes before the element; padding comes after all elements.
        other_first = (other_real & ~real) | (_before(region, others, keys, other < position) & ~(real & ~other_real))
        low = eq(lane & spread(distance), 0)
        up = eq(lane & spread(block), 0)
        take = ne(other_first, ne(low, up))
        keys = tuple(select(take, o, k) for o, k in zip(others, keys, strict=True))
        position = select(take, other, position)
        is_last = eq(distance, 1)
        return [select(is_last, block, distance >> 1), select(is_last, block << 1, block), position, *keys]

    result = b.while_loop([distance, block, position, *flat], lambda d, k, *_: k <= length, step)[3:]
    result = [b.cut(r, 1, 0, n) for r in result]
    order_shape = [shape[d] for d in order]
    return [b.transpose(b.reshape(r, order_shape), back) for r in result]


def _pad(x: Val, length: int) -> Val:
    """The matrix x with zeros added to its rows up to `length` columns."""
    fill = b.full(0, (x.shape[0], length - x.shape[1]), x.dtype) if length > x.shape[1] else None
    return x if fill is None else b.concat([x, fill], 1)


def _take(x: Val, columns: Val) -> Val:
    """The columns of the matrix x at the indices `columns`, which must be in range."""
    dims = {"offset_dims": [0], "collapsed_slice_dims": [1], "start_index_map": [1], "index_vector_dim": 1}
    attributes = {
        "dimension_numbers": hlo.GatherDims.encode(dims),
        "slice_sizes": hlo.I64Array.encode([x.shape[0], 1]),
        "indices_are_sorted": hlo.Bool.encode(False),
    }
    indices = b.reshape(columns, (*columns.shape, 1))
    return Val(b.make("stablehlo.gather", [x, indices], [x.type], attributes, final=True).results[0])
