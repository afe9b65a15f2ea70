"""Rules of products of tensors: with a matrix that is a constant by its zeros, with one that varies by rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir import thresholds
from nabla_mlir.sparsity.operands import Operand, Shape, columns_of
from nabla_mlir.sparsity.relation import Relation, union
from nabla_mlir.sparsity.rows import Rows
from nabla_mlir.sparsity.rows import product as boolean_product


def dot_general(xs: Sequence[Operand], outs: Sequence[Shape], dot_dimension_numbers: Any, **_: Any) -> list[Relation]:
    """Of stablehlo.dot_general."""
    batch_l, batch_r, contract_l, contract_r = dot_dimension_numbers.values()
    lhs, rhs = xs
    left = [a for a in range(len(lhs.shape)) if a not in (*batch_l, *contract_l)]
    right = [a for a in range(len(rhs.shape)) if a not in (*batch_r, *contract_r)]
    n, shape = len(batch_l), outs[0]
    place_l = [*range(n), *range(n, n + len(left))]
    place_r = [*range(n), *range(n + len(left), len(shape))]
    found = [
        _factor(lhs, rhs, (batch_l, left, contract_l), (batch_r, right, contract_r), place_l, shape, flip=False),
        _factor(rhs, lhs, (batch_r, right, contract_r), (batch_l, left, contract_l), place_r, shape, flip=True),
    ]
    return [union(found, shape, columns_of(xs))]


def _factor(
    x: Operand, other: Operand, mine: Any, theirs: Any, places: Sequence[int], shape: Shape, flip: bool
) -> Relation:
    """What a product has from one of its factors; axes are given as (batching, free, contracting)."""
    if x.relation.is_empty:
        return Relation.none(shape, x.relation.columns)
    where = other.nonzero()
    if where is not None and not where.any():
        return Relation.none(shape, x.relation.columns)
    if where is not None and not where.all():
        entries = np.count_nonzero(where) * math.prod(x.shape[a] for a in mine[1]) * max(1, x.relation.widest)
        if entries <= thresholds.PATTERN_ENTRIES:
            return _by_zeros(x.relation, np.broadcast_to(where, other.shape), mine, theirs, shape, flip)
    batch, free, contract = mine
    ordered = x.relation.transposed([*batch, *free, *contract])
    rank = len(batch) + len(free)
    return ordered.gathered(range(rank, len(x.shape))).broadcast(shape, places)


def _by_zeros(x: Relation, where: np.ndarray, mine: Any, theirs: Any, shape: Shape, flip: bool) -> Relation:
    """The boolean product with the pattern of a constant factor."""
    batch, free, contract = mine
    sizes = [math.prod(x.shape[a] for a in axes) for axes in mine]
    others = math.prod(where.shape[a] for a in theirs[1])
    elements = np.arange(math.prod(x.shape)).reshape(x.shape).transpose([*batch, *free, *contract]).reshape(sizes)
    mask = where.transpose([*theirs[0], *theirs[2], *theirs[1]]).reshape(sizes[0], sizes[2], others)
    b, k, j = np.nonzero(mask)  # batch, contracting, free of the other factor
    i = np.arange(sizes[1])
    out = (b[:, None] * sizes[1] + i) * others + j[:, None] if not flip else (b[:, None] * others + j[:, None]) * sizes[1] + i
    keys = out * elements.size + elements[b[:, None], i, k[:, None]]
    outer = Rows.of(keys.reshape(-1), math.prod(shape), elements.size)
    return Relation.of_rows(shape, boolean_product(outer, x.rows))
