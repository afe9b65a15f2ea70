"""Helpers for stacks of matrices (batch x rows x columns), for the decompositions of LAPACK."""

from __future__ import annotations

import functools
import math

import numpy as np

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, eq, imag, real, select
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.passes.iree.linalg.factorizations import mask


def scaled(x: Val, factor: Val) -> Val:
    """`x` times a real factor of the same shape."""
    return x * factor if x.dtype.kind != "c" else b.complex_(real(x) * factor, imag(x) * factor)


def within_range(a: Val) -> tuple[Val, Val]:
    """A stack of matrices whose squares neither underflow nor overflow, and the divisor of each matrix.

    The divisor is 1 if no scaling is needed.
    """
    limits = np.finfo(a.dtype)
    parts = [a] if a.dtype.kind != "c" else [real(a), imag(a)]
    sizes = functools.reduce(b.maximum, [b.maximum(p, -p) for p in parts])
    largest = b.reduce_with("stablehlo.maximum", sizes, 0.0, [1, 2])
    low, high = float(limits.tiny) ** 0.25, float(limits.max) ** 0.25
    outside = ((largest < low) | (largest > high)) & (largest > 0.0) & (largest <= float(limits.max))
    size = select(outside, b.maximum(largest, 4.0 * float(limits.tiny)), 1.0)
    return scaled(a, spread(1.0 / size, a.shape, 0)), size


def squared(x: Val) -> Val:
    """The squared modulus |x|^2 of each element."""
    return x * x if x.dtype.kind != "c" else real(x) * real(x) + imag(x) * imag(x)


def as_like(x: Val, like: Val) -> Val:
    """The real value x in the dtype of `like`, which is real or complex."""
    return x if like.dtype.kind != "c" else b.complex_(x, 0.0)


def line_at(x: Val, position: Val, dim: int) -> Val:
    """The entries of a stack of matrices at one index along `dim` (a scalar); that dimension is dropped."""
    zero = b.full(0, (), np.int32)
    start = [position if d == dim else zero for d in range(3)]
    sizes = [1 if d == dim else n for d, n in enumerate(x.shape)]
    return b.reshape(b.dynamic_slice(x, start, sizes), tuple(n for d, n in enumerate(x.shape) if d != dim))


def spread(x: Val, shape: tuple[int, ...], *dims: int) -> Val:
    """The value x broadcast to a shape; dimension i of x is dimension dims[i] of the shape."""
    return b.broadcast(x, shape, dims)


def diagonal_entry(a: Val, j: Val) -> Val:
    """Entry (j, j) of each matrix of the stack a, for a scalar j."""
    zero = b.full(0, (), np.int32)
    return b.reshape(b.dynamic_slice(a, [zero, j, j], (a.shape[0], 1, 1)), a.shape[:1])


def take_rows(x: Val, order: Val) -> Val:
    """The matrices x with their rows reordered: row i of matrix b of the result is row order[b, i] of matrix b."""
    dims = {
        "offset_dims": [2],
        "collapsed_slice_dims": [1],
        "operand_batching_dims": [0],
        "start_indices_batching_dims": [0],
        "start_index_map": [1],
        "index_vector_dim": 2,
    }
    attributes = {
        "dimension_numbers": hlo.GatherDims.encode(dims),
        "slice_sizes": hlo.I64Array.encode([1, 1, x.shape[2]]),
        "indices_are_sorted": hlo.Bool.encode(False),
    }
    indices = b.reshape(order, (*order.shape, 1))
    shape = (x.shape[0], order.shape[1], x.shape[2])
    return Val(b.make("stablehlo.gather", [x, indices], [tensor_type(shape, x.dtype)], attributes).results[0])


def exchange_rows(x: Val, j: Val, p: Val) -> Val:
    """The matrices with two rows exchanged: rows j (a scalar) and p[b] of matrix b."""
    index = b.iota(x.shape, 1, np.int32)
    row_j = spread(line_at(x, j, 1), x.shape, 0, 2)
    row_p = b.broadcast(take_rows(x, b.reshape(p, (x.shape[0], 1))), x.shape, [0, 1, 2])
    at_j, at_p = eq(index, spread(j, x.shape)), eq(index, spread(p, x.shape, 0))
    return select(at_j, row_p, select(at_p, row_j, x))


def first_largest(sizes: Val) -> Val:
    """The index of the first largest entry in each row of `sizes`; the last index if the largest is NaN."""
    last = sizes.shape[1]
    largest = spread(b.reduce_with("stablehlo.maximum", sizes, -math.inf, [1]), sizes.shape, 0)
    positions = select(eq(sizes, largest), b.iota(sizes.shape, 1, np.int32), last)
    return b.minimum(b.reduce_with("stablehlo.minimum", positions, last, [1]), last - 1)


def diagonal_of(a: Val) -> Val:
    """The diagonal of each matrix of the stack a."""
    n = a.shape[-1]
    keep = mask(np.eye(n, dtype=bool), a)
    return b.reduce_sum(select(keep, a, 0), [2])
