"""A thin builder of StableHLO: one function per operation, on the wrapped values of `values.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import arith, tensor

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.dialects.values import BOOL as BOOL
from nabla_mlir.dialects.values import FINAL as FINAL
from nabla_mlir.dialects.values import Number as Number
from nabla_mlir.dialects.values import Recording as Recording
from nabla_mlir.dialects.values import Val as Val
from nabla_mlir.dialects.values import binary as binary
from nabla_mlir.dialects.values import bitcast as bitcast
from nabla_mlir.dialects.values import compare as compare
from nabla_mlir.dialects.values import complex_ as complex_
from nabla_mlir.dialects.values import constant as constant
from nabla_mlir.dialects.values import convert as convert
from nabla_mlir.dialects.values import copy as copy
from nabla_mlir.dialects.values import full as full
from nabla_mlir.dialects.values import like as like
from nabla_mlir.dialects.values import make as make
from nabla_mlir.dialects.values import op as op
from nabla_mlir.dialects.values import recording as recording
from nabla_mlir.dialects.values import splat as splat
from nabla_mlir.dialects.values import unary as unary


def eq(x: Val, y: Val | Number) -> Val:
    """Elementwise x == y."""
    return compare("EQ", x, y)


def ne(x: Val, y: Val | Number) -> Val:
    """Elementwise x != y; true if either is NaN."""
    return compare("NE", x, y)


def select(predicate: Val, x: Val | Number, y: Val | Number) -> Val:
    """Elementwise x where the predicate holds, else y. One of x and y may be a number."""
    if not isinstance(x, Val):
        assert isinstance(y, Val)
        x = splat(x, y)
    elif not isinstance(y, Val):
        y = splat(y, x)
    return Val(make("stablehlo.select", (predicate, x, y), (x.type,)).result, x)


def sqrt(x: Val) -> Val:
    """Elementwise square root."""
    return unary("stablehlo.sqrt", x)


def exp(x: Val) -> Val:
    """Elementwise exponential."""
    return unary("stablehlo.exponential", x)


def log(x: Val) -> Val:
    """Elementwise natural logarithm."""
    return unary("stablehlo.log", x)


def floor(x: Val) -> Val:
    """Elementwise floor."""
    return unary("stablehlo.floor", x)


def maximum(x: Val, y: Val | Number) -> Val:
    """Elementwise maximum; NaN if either operand is NaN."""
    return binary("stablehlo.maximum", x, y)


def minimum(x: Val, y: Val | Number) -> Val:
    """Elementwise minimum; NaN if either operand is NaN."""
    return binary("stablehlo.minimum", x, y)


def real(x: Val) -> Val:
    """The real part of `x`; `x` itself if it is real."""
    if x.dtype.kind != "c":
        return x
    return op("stablehlo.real", x)


def imag(x: Val) -> Val:
    """The imaginary part."""
    return op("stablehlo.imag", x)


def conj(x: Val) -> Val:
    """The complex conjugate; of a real value, itself."""
    return complex_(real(x), -imag(x)) if x.dtype.kind == "c" else x


def iota(shape: Sequence[int], dim: int, dtype: Any) -> Val:
    """The array with 0, 1, 2, ... along one dimension."""
    return op("stablehlo.iota", type=tensor_type(tuple(shape), np.dtype(dtype)), iota_dimension=hlo.I64.encode(dim))


def reshape(x: Val, shape: Sequence[int]) -> Val:
    """The elements of `x` in another static shape; `x` itself if it has this shape."""
    if x.shape == tuple(shape):
        return x
    return op("stablehlo.reshape", x, type=tensor_type(tuple(shape), x.dtype))


def broadcast(x: Val, shape: Sequence[int], dims: Sequence[int]) -> Val:
    """The broadcast of `x` to a shape: dimension i of `x` becomes dimension dims[i] of the result; size 1 is repeated."""
    if x.shape == tuple(shape) and list(dims) == list(range(x.rank)):
        return x
    dimensions = hlo.I64Array.encode(dims)
    return op("stablehlo.broadcast_in_dim", x, type=tensor_type(tuple(shape), x.dtype), broadcast_dimensions=dimensions)


def transpose(x: Val, permutation: Sequence[int]) -> Val:
    """The transpose of `x`: dimension i of the result is dimension permutation[i] of `x`."""
    if list(permutation) == list(range(x.rank)):
        return x
    return op("stablehlo.transpose", x, permutation=hlo.I64Array.encode(permutation))


def swap(x: Val) -> Val:
    """`x` with its last two dimensions swapped."""
    return transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def slice_(x: Val, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None) -> Val:
    """The static slice start:limit:strides of `x`; `x` itself if it is all of `x`."""
    strides = [1] * x.rank if strides is None else strides
    if not any(start) and tuple(limit) == x.shape and all(s == 1 for s in strides):
        return x
    return op(
        "stablehlo.slice",
        x,
        start_indices=hlo.I64Array.encode(start),
        limit_indices=hlo.I64Array.encode(limit),
        strides=hlo.I64Array.encode(strides),
    )


def cut(x: Val, dim: int, start: int, limit: int, stride: int = 1) -> Val:
    """The slice start:limit:stride of dimension `dim` of `x`; the other dimensions are complete. A negative `dim` counts from the
    end.
    """
    dim %= x.rank
    starts, limits, strides = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[dim], limits[dim], strides[dim] = start, limit, stride
    return slice_(x, starts, limits, strides)


def concat(parts: Sequence[Val], dim: int) -> Val:
    """The parts joined along one dimension."""
    parts = [p for p in parts if p.shape[dim]] or [parts[0]]
    if len(parts) == 1:
        return parts[0]
    return op("stablehlo.concatenate", *parts, dimension=hlo.I64.encode(dim % parts[0].rank))


def reverse(x: Val, dims: Sequence[int]) -> Val:
    """`x` with the order reversed along some dimensions."""
    return op("stablehlo.reverse", x, dimensions=hlo.I64Array.encode(dims))


def pad(x: Val, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None, value: Val | Number = 0) -> Val:
    """The array `x` with `value` around it and between its elements; the sequences have one number for each dimension."""
    interior = [0] * x.rank if interior is None else interior
    if not any([*low, *high, *interior]):
        return x
    return op(
        "stablehlo.pad",
        x,
        value if isinstance(value, Val) else full(value, (), x.dtype),
        edge_padding_low=hlo.I64Array.encode(low),
        edge_padding_high=hlo.I64Array.encode(high),
        interior_padding=hlo.I64Array.encode(interior),
    )


def dot(x: Val, y: Val, contract: tuple[Sequence[int], Sequence[int]], batch: int = 0, dtype: Any = None) -> Val:
    """The `dot_general` over the dimensions `contract` of x and of y; the first `batch` dimensions of both are batch dimensions."""
    dims = {
        "lhs_batching_dimensions": range(batch),
        "rhs_batching_dimensions": range(batch),
        "lhs_contracting_dimensions": contract[0],
        "rhs_contracting_dimensions": contract[1],
    }
    shape = list(x.shape[:batch])
    shape += [n for i, n in enumerate(x.shape) if i >= batch and i not in contract[0]]
    shape += [n for i, n in enumerate(y.shape) if i >= batch and i not in contract[1]]
    type = tensor_type(shape, np.dtype(dtype or x.dtype))
    return op("stablehlo.dot_general", x, y, type=type, dot_dimension_numbers=hlo.DotDims.encode(dims))


def matmul(x: Val, y: Val) -> Val:
    """The product of stacked matrices; all leading dimensions are batch."""
    return dot(x, y, ([x.rank - 1], [x.rank - 2]), batch=x.rank - 2)


def dynamic_slice(x: Val, start: Sequence[Val], sizes: Sequence[int]) -> Val:
    """The slice of the given sizes that starts at scalar indices."""
    return op("stablehlo.dynamic_slice", x, *start, slice_sizes=hlo.I64Array.encode(sizes))


def dynamic_update_slice(x: Val, update: Val, start: Sequence[Val]) -> Val:
    """`x` with `update` written at scalar indices."""
    return op("stablehlo.dynamic_update_slice", x, update, *start)


def fill_region(region: ir.Region, types: Sequence[ir.Type], body: Callable[..., Val | Sequence[Val]]) -> None:
    """Gives a region one block with arguments of these types, whose operations `body` makes from the arguments; `body` returns
    results.
    """
    location = ir.Location.current
    block = region.blocks.append(*types, arg_locs=[location] * len(types))
    with ir.InsertionPoint(block):
        results = body(*(Val(a) for a in block.arguments))
        results = [results] if isinstance(results, Val) else results
        hlo.emit("stablehlo.return", [r.value for r in results], results=[])


def while_loop(initial: Sequence[Val], condition: Callable[..., Val], body: Callable[..., Sequence[Val]]) -> list[Val]:
    """The results of a `stablehlo.while` that starts with `initial`; both functions get the carried values, `body` returns the new
    ones.

    `condition` returns a truth value, False at the end.
    """
    types = [v.type for v in initial]
    loop = make("stablehlo.while", initial, types, regions=2)
    fill_region(loop.regions[0], types, condition)
    fill_region(loop.regions[1], types, body)
    return [Val(r) for r in loop.results]


def for_loop(count: int, initial: Sequence[Val], body: Callable[..., Sequence[Val]]) -> list[Val]:
    """The last carried values of a loop of `count` iterations that starts with `initial`.

    `body` gets the index (a scalar int32) and the carried values, and returns the new ones.
    """
    index = full(0, (), np.int32)
    result = while_loop([index, *initial], lambda i, *_: i < count, lambda i, *c: [i + 1, *body(i, *c)])
    return result[1:]


def reduce(
    operands: Sequence[Val],
    initial: Sequence[Val],
    dims: Sequence[int],
    body: Callable[..., Val | Sequence[Val]],
    final: bool = False,
) -> list[Val]:
    """The results of a `stablehlo.reduce` over the dimensions `dims`; `initial` has a scalar for each operand.

    `body` gets the accumulators, then the elements, as scalars, and returns the new accumulators. With `final`, no pattern rewrites
    the operation; see `make`. `operands` are arrays of one shape.
    """
    shape = [n for i, n in enumerate(operands[0].shape) if i not in dims]
    types = [tensor_type(shape, v.dtype) for v in operands]
    attributes = {"dimensions": hlo.I64Array.encode(dims)}
    op = make("stablehlo.reduce", [*operands, *initial], types, attributes, regions=1, final=final)
    fill_region(op.regions[0], [v.type for v in initial] * 2, body)
    return [Val(r) for r in op.results]


def reduce_with(name: str, x: Val, initial: Number, dims: Sequence[int]) -> Val:
    """The reduction of x over some dimensions by one binary operation, such as `stablehlo.add`."""
    return reduce([x], [full(initial, (), x.dtype)], dims, lambda a, b: binary(name, a, b))[0]


def reduce_sum(x: Val, dims: Sequence[int]) -> Val:
    """The sum over some dimensions."""
    return reduce_with("stablehlo.add", x, 0, dims)


def reduce_any(x: Val, dims: Sequence[int]) -> Val:
    """True if any element along some dimensions is true."""
    return reduce_with("stablehlo.or", x, False, dims)


def signless(x: Val) -> Val:
    """The bits of unsigned numbers as signed numbers. IREE accepts unsigned numbers only in StableHLO's operations."""
    return bitcast(x, np.dtype(f"i{x.dtype.itemsize}")) if x.dtype.kind == "u" else x


def stored(x: Val) -> Val:
    """The value `x` in memory: the operations before it and those after it are in different dispatches.

    The value is the result of a barrier, which IREE removes when it has formed the dispatches. The barrier has no side effect:
    equal ones are merged, and unused ones are removed. There are two kinds of barriers; a value that is the result of one kind
    gets the other kind, because IREE removes a barrier after another one of the same kind.
    """
    if x.dtype.kind == "u":
        return bitcast(stored(signless(x)), x.dtype)
    # The barrier has the sizes of dynamic dimensions as operands.
    sizes = [tensor.DimOp(x.value, arith.ConstantOp(ir.IndexType.get(), d).result).result for d, n in enumerate(x.shape) if n < 0]
    start, end = hlo.COMPUTE_BARRIERS
    maker = made_by(x.value)
    name = end if maker is not None and maker.name == start else start
    return Val(hlo.emit(name, [x.value, *sizes], results=[x.type]).results[0])


def held(x: Val) -> Val:
    """The value `x` after a barrier: no pass moves or merges operations across it, to the end of compilation.

    IREE divides the program there: the host waits for the value, and later computations have their own memory. Use `stored` if
    values only must not be fused.
    """
    return Val(hlo.emit(hlo.OPTIMIZATION_BARRIER, [x.value], results=[x.type]).results[0])
