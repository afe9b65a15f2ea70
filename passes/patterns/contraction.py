"""Simplifications of products: transposes, broadcasts and reductions folded into dot_general."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.contraction import dims, dot_general, free
from nabla_mlir.ops.shape import reshape, transpose
from nabla_mlir.ops.tensor import Tensor, full_like, splat_of
from nabla_mlir.passes.patterns.pattern import defining, has_one_use, pattern

_FIELDS = ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
           "rhs_contracting_dimensions")  # fmt: skip


@pattern("stablehlo.dot_general")
def dot_of_transpose(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Any, **params: Any) -> Tensor | None:
    """A transposed factor is read as it stands, if its free axes keep their order."""
    lb, rb, lc, rc = (dot_dimension_numbers[f] for f in _FIELDS)
    for side, factor, batch, contract in ((0, lhs, lb, lc), (1, rhs, rb, rc)):
        inner = defining(factor, "stablehlo.transpose")
        if inner is None:
            continue
        (source,), p = inner
        permutation = p["permutation"]
        places = [permutation[d] for d in free(factor.ndim, batch, contract)]
        if places != sorted(places):
            continue
        batch, contract = (tuple(permutation[d] for d in ds) for ds in (batch, contract))
        if side == 0:
            return dot_general(source, rhs, dot_dimension_numbers=dims(contract, rc, batch, rb), **params)
        return dot_general(lhs, source, dot_dimension_numbers=dims(lc, contract, lb, batch), **params)
    return None


@pattern("stablehlo.dot_general")
def dot_of_constant(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Any, dtype: np.dtype, **_: Any) -> Tensor | None:
    """A product with one constant number for each entry is elementwise: so the gradient of a dot product starts."""
    lb, rb, lc, _rc = (dot_dimension_numbers[f] for f in _FIELDS)
    for factor, own, x, batch in ((lhs, lb, rhs, rb), (rhs, rb, lhs, lb)):
        value = splat_of(factor)
        unit = tuple(factor.shape[d] for d in free(factor.ndim, own, ()))
        # Longer axes of the constant stay in the product: IREE takes it, and not every broadcast that could replace it.
        if lc or value is None or set(unit) - {1} or not x.dtype == factor.dtype == dtype:
            continue
        scaled = ew.multiply(x, full_like(x, value))
        moved = transpose(scaled, permutation=(*batch, *free(x.ndim, batch, ())))
        at = x.ndim if x is lhs else len(batch)  # where the axes of size 1 stand in the result
        return reshape(moved, shape=(*moved.shape[:at], *unit, *moved.shape[at:]))
    return None


@pattern("stablehlo.transpose")
def transpose_of_dot(x: Tensor, permutation: tuple[int, ...]) -> Tensor | None:
    """The transpose that exchanges the free axes of the factors exchanges the factors."""
    inner = defining(x, "stablehlo.dot_general")
    if inner is None or not has_one_use(x):
        return None
    (lhs, rhs), p = inner
    numbers = p.pop("dot_dimension_numbers")
    if p["algorithm"] is not None or lhs.dtype != rhs.dtype or p["precision_config"] is not None:
        return None
    lb, rb, lc, rc = (numbers[f] for f in _FIELDS)
    batch = len(lb)
    lhs_free, rhs_free = lhs.ndim - batch - len(lc), rhs.ndim - batch - len(rc)
    exchanged = [*range(batch), *range(batch + lhs_free, batch + lhs_free + rhs_free), *range(batch, batch + lhs_free)]
    if list(permutation) != exchanged:
        return None
    return dot_general(rhs, lhs, dot_dimension_numbers=dims(rc, lc, rb, lb), **p)


@pattern("stablehlo.dot_general")
def dot_of_broadcast(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Any, **params: Any) -> Tensor | None:
    """A factor that is copied along a batching axis is used once: the axis becomes free in the other factor."""
    lb, rb, lc, rc = (dot_dimension_numbers[f] for f in _FIELDS)
    for side, factor, own in ((0, lhs, lb), (1, rhs, rb)):
        inner = defining(factor, "stablehlo.broadcast_in_dim")
        if inner is None:
            continue
        (source,), p = inner
        placed = p["broadcast_dimensions"]
        if list(placed) != sorted(placed) or any(source.shape[i] != factor.shape[d] for i, d in enumerate(placed)):
            continue
        copied = [d for d in range(factor.ndim) if d not in placed]
        # Only a leading batching axis, and no free axes before it, keep the result in order.
        if copied != [own[0]] if own else True:
            continue
        where = {d: i for i, d in enumerate(placed)}
        own_dims = [tuple(where[d] for d in ds if d in where) for ds in ((lb, lc) if side == 0 else (rb, rc))]
        if side == 0:
            return _unbatched(rhs, source, (rb, rc), own_dims, flip=False, params=params)
        return _unbatched(lhs, source, (lb, lc), own_dims, flip=True, params=params)
    return None


def _unbatched(other: Tensor, source: Tensor, theirs: Any, own: Any, flip: bool, params: Any) -> Tensor | None:
    """The product in which the first batching axis of `other` is free; None if that moves axes of the result."""
    (ob, oc), (sb, sc) = theirs, own
    if len(ob) != 1:
        return None
    other_free = free(other.ndim, (), oc)
    source_free = free(source.ndim, sb, sc)
    if other_free[:1] != ob[:1]:
        return None
    if flip:  # other is lhs: result is (axis, free of other, free of source), as before
        return dot_general(other, source, dot_dimension_numbers=dims(oc, sc), **params)
    if len(other_free) > 1 and source_free:
        return None
    if params.get("algorithm") is not None or params.get("precision_config") is not None or other.dtype != source.dtype:
        return None
    # Before: (axis, free of source, rest of other). With the factors exchanged: (axis, rest of other, free of source).
    return dot_general(other, source, dot_dimension_numbers=dims(oc, sc), **params)
