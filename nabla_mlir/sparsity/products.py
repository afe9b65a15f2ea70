"""Sparsity rules of products of tensors: the zeros of a constant factor count; a factor that varies is treated as dense."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.sparsity.operands import Operand, Shape, columns_of
from nabla_mlir.sparsity.relation import Relation, union
from nabla_mlir.sparsity.rows import Rows
from nabla_mlir.sparsity.rows import product as boolean_product


def dot_general(xs: Sequence[Operand], outs: Sequence[Shape], dot_dimension_numbers: Any, **_: Any) -> list[Relation]:
    """The pattern of a product: an element depends on a row of the left factor and a column of the right one.

    `xs` are the factors, and `outs` has the shape of the product.
    """
    batch_l, batch_r, contract_l, contract_r = dot_dimension_numbers.values()
    lhs, rhs = xs
    free_l = [a for a in range(len(lhs.shape)) if a not in (*batch_l, *contract_l)]
    free_r = [a for a in range(len(rhs.shape)) if a not in (*batch_r, *contract_r)]
    n, shape = len(batch_l), outs[0]
    position_l = [*range(n), *range(n, n + len(free_l))]
    position_r = [*range(n), *range(n + len(free_l), len(shape))]
    found = [
        _factor(lhs, rhs, (batch_l, free_l, contract_l), (batch_r, free_r, contract_r), position_l, shape, is_right=False),
        _factor(rhs, lhs, (batch_r, free_r, contract_r), (batch_l, free_l, contract_l), position_r, shape, is_right=True),
    ]
    return [union(found, shape, columns_of(xs))]


def _factor(
    x: Operand, other: Operand, own_axes: Any, other_axes: Any, positions: Sequence[int], shape: Shape, is_right: bool
) -> Relation:
    """The pattern of a product if only one of its factors depends on the inputs.

    Zeros of the other factor, if it is a constant, remove dependences.

    Args:
      x: the factor.
      other: the other factor.
      own_axes: the batching, free and contracting axes of the factor.
      other_axes: those of the other factor.
      positions: the axes of the product for the batching and free axes of the factor.
      shape: the shape of the product.
      is_right: True if the factor is the right one.
    """
    if x.relation.is_empty:
        return Relation.none(shape, x.relation.columns)
    where = other.nonzero()
    if where is not None and not where.any():
        return Relation.none(shape, x.relation.columns)
    if where is not None and not where.all():
        entries = np.count_nonzero(where) * math.prod(x.shape[a] for a in own_axes[1]) * max(1, x.relation.widest)
        # A larger pattern is too slow to compute entry by entry, so the zeros are ignored.
        if entries <= thresholds.PATTERN_ENTRIES:
            return _by_zeros(x.relation, np.broadcast_to(where, other.shape), own_axes, other_axes, shape, is_right)
    batch, free, contract = own_axes
    ordered = x.relation.transposed([*batch, *free, *contract])
    rank = len(batch) + len(free)
    return ordered.gathered(range(rank, len(x.shape))).broadcast(shape, positions)


def _by_zeros(x: Relation, where: np.ndarray, own_axes: Any, other_axes: Any, shape: Shape, is_right: bool) -> Relation:
    """The pattern of a product of a factor x with a constant factor that contains zeros.

    Args:
      x: the pattern of the factor.
      where: a mask of the nonzeros of the constant factor.
      own_axes, other_axes: the batching, free and contracting axes of x and of the constant factor.
      shape: the shape of the product.
      is_right: True if x is the right factor.
    """
    batch, free, contract = own_axes
    sizes = [math.prod(x.shape[a] for a in axes) for axes in own_axes]
    others = math.prod(where.shape[a] for a in other_axes[1])
    # elements[b, i, k] is the element of x, and mask[b, k, j] is True if the other factor has a nonzero there.
    elements = np.arange(math.prod(x.shape)).reshape(x.shape).transpose([*batch, *free, *contract]).reshape(sizes)
    mask = where.transpose([*other_axes[0], *other_axes[2], *other_axes[1]]).reshape(sizes[0], sizes[2], others)
    b, k, j = np.nonzero(mask)  # batch, contracting, free of the other factor
    i = np.arange(sizes[1])
    # The element (b, i, j) of the product depends on x[b, i, k] for each k with a nonzero; its axes i and j are swapped for the
    # right factor. A key is the pair (element of the product, element of x) as one number.
    out = (b[:, None] * sizes[1] + i) * others + j[:, None] if not is_right else (b[:, None] * others + j[:, None]) * sizes[1] + i
    keys = out * elements.size + elements[b[:, None], i, k[:, None]]
    outer = Rows.of(keys.reshape(-1), math.prod(shape), elements.size)
    return Relation.of_rows(shape, boolean_product(outer, x.rows))


def triangular_solve(
    xs: Sequence[Operand], outs: Sequence[Shape], left_side: bool, lower: bool, transpose_a: str, **_: Any
) -> list[Relation]:
    """The pattern of the solution of a triangular system: of the product with the inverse of a constant matrix.

    If the matrix varies, a column of the result depends on the whole right-hand side column and on the whole matrix.
    """
    a, b = xs
    rank = len(outs[0])
    where = a.nonzero() if a.relation.is_empty else None
    if where is not None and where.ndim and a.shape[-1] ** 3 <= 8 * thresholds.PATTERN_ENTRIES:
        # The nonzeros of the inverse stand for the inverse itself: the pattern of a product reads nothing else.
        inverse = _closure(np.tril(where) if lower else np.triu(where))
        inverse = inverse if transpose_a == "NO_TRANSPOSE" else np.swapaxes(inverse, -1, -2)
        factors = [Operand(a.relation, lambda: inverse), b]
        batch = range(rank - 2)
        dims = {"lhs_batch": batch, "rhs_batch": batch, "lhs": [rank - 1], "rhs": [rank - 2]}
        return dot_general(factors if left_side else factors[::-1], outs, dims)
    found = b.relation.spread([rank - 2 if left_side else rank - 1])
    if not a.relation.is_empty:
        found = found.union(a.relation.gathered([rank - 2, rank - 1]).broadcast(outs[0], range(rank - 2)))
    return [found]


def _closure(where: np.ndarray) -> np.ndarray:
    """A mask of the pairs (row, column) that a path of nonzeros joins, empty paths included.

    The inverse of the matrix can be nonzero only there.
    """
    closure = where | np.eye(where.shape[-1], dtype=bool)
    while True:
        twice = closure.astype(np.float32) @ closure.astype(np.float32) > 0
        if np.array_equal(twice, closure):
            return closure
        closure = twice
