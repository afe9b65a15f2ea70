"""Simplifications of products: transposes, broadcasts and reductions folded into dot_general."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.dialects.stablehlo import DotDims
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.contraction import Dims, dims, dot_general, free
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.shape import broadcast_in_dim, reshape, transpose
from nabla_mlir.passes.simplify.pattern import defining, has_one_use, pattern, uncopied
from nabla_mlir.table.tensor import Tensor, full, full_like, splat_of


class _Factor(NamedTuple):
    """A factor of a `dot_general`, with its batching and contracting axes."""

    x: Tensor
    batch: tuple[int, ...]
    contract: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        """The axes that are neither batching nor contracting axes."""
        return free(self.x.ndim, self.batch, self.contract)

    def without(self, axes: Collection[int], rest: Tensor) -> _Factor:
        """The factor in which the array `rest` replaces `x`; `rest` has all axes of `x` except `axes`."""
        dims = [d for d in range(self.x.ndim) if d not in axes]
        return _Factor(rest, *(tuple(dims.index(d) for d in ds if d in dims) for ds in (self.batch, self.contract)))


@pattern("stablehlo.dot_general")
def dot_of_transpose(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Any, **params: Any) -> Tensor | None:
    """dot(transpose(x), y) -> dot(x, y) with other axes, if the order of the free axes does not change.

    lb, rb are the batching axes of the left and the right factor, and lc, rc their contracted axes.
    """
    lb, rb, lc, rc = (dot_dimension_numbers[f] for f in DotDims.lists)
    for side, factor, batch, contract in ((0, lhs, lb, lc), (1, rhs, rb, rc)):
        inner = defining(factor, "stablehlo.transpose")
        if inner is None:
            continue
        (source,), p = inner
        permutation = p["permutation"]
        positions = [permutation[d] for d in free(factor.ndim, batch, contract)]
        if positions != sorted(positions):
            continue
        batch, contract = (tuple(permutation[d] for d in ds) for ds in (batch, contract))
        if side == 0:
            return dot_general(source, rhs, dot_dimension_numbers=dims(contract, rc, batch, rb), **params)
        return dot_general(lhs, source, dot_dimension_numbers=dims(lc, contract, lb, batch), **params)
    return None


@pattern("stablehlo.dot_general")
def dot_of_constant(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Any, dtype: np.dtype, **_: Any) -> Tensor | None:
    """dot(x, full(c)) -> x * c, with reordered axes, if nothing is contracted; the gradient of a dot product starts so."""
    lb, rb, lc, _rc = (dot_dimension_numbers[f] for f in DotDims.lists)
    for factor, batch_of_factor, x, batch in ((lhs, lb, rhs, rb), (rhs, rb, lhs, lb)):
        value = splat_of(factor)
        unit = tuple(factor.shape[d] for d in free(factor.ndim, batch_of_factor, ()))
        # Longer axes of the constant stay in the product: IREE compiles it, and not every broadcast that could replace it.
        if lc or value is None or set(unit) - {1} or not x.dtype == factor.dtype == dtype:
            continue
        product = ew.multiply(x, full_like(x, value))
        result = transpose(product, permutation=(*batch, *free(x.ndim, batch, ())))
        first_unit = x.ndim if x is lhs else len(batch)  # the index of the first axis of size 1 in the result
        return reshape(result, shape=(*result.shape[:first_unit], *unit, *result.shape[first_unit:]))
    return None


@pattern("stablehlo.transpose")
def transpose_of_dot(x: Tensor, permutation: tuple[int, ...]) -> Tensor | None:
    """transpose(dot(x, y)) -> dot(y, x), if the transpose exchanges the free axes of x with those of y."""
    inner = defining(x, "stablehlo.dot_general")
    if inner is None or not has_one_use(x):
        return None
    (lhs, rhs), p = inner
    numbers = p.pop("dot_dimension_numbers")
    if p["algorithm"] is not None or lhs.dtype != rhs.dtype or p["precision_config"] is not None:
        return None
    lb, rb, lc, rc = (numbers[f] for f in DotDims.lists)
    batch = len(lb)
    lhs_free, rhs_free = lhs.ndim - batch - len(lc), rhs.ndim - batch - len(rc)
    order = [*range(batch), *range(batch + lhs_free, batch + lhs_free + rhs_free), *range(batch, batch + lhs_free)]
    if list(permutation) != order:
        return None
    return dot_general(rhs, lhs, dot_dimension_numbers=dims(rc, lc, rb, lb), **p)


@pattern("stablehlo.dot_general")
def dot_of_broadcast(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Any, **params: Any) -> Tensor | None:
    """dot(broadcast(x), y) -> dot(x, y), where the copies are along the leading batching axis.

    That axis becomes a free axis of the other factor, so x is read once.
    """
    lb, rb, lc, rc = (dot_dimension_numbers[f] for f in DotDims.lists)
    for side, factor, batch_axes in ((0, lhs, lb), (1, rhs, rb)):
        inner = defining(factor, "stablehlo.broadcast_in_dim")
        if inner is None:
            continue
        (source,), p = inner
        positions = p["broadcast_dimensions"]
        if list(positions) != sorted(positions) or any(source.shape[i] != factor.shape[d] for i, d in enumerate(positions)):
            continue
        copies = [d for d in range(factor.ndim) if d not in positions]
        # Only a leading batching axis, and no free axes before it, keep the result in order.
        if not batch_axes or copies != [batch_axes[0]]:
            continue
        axis_of = {d: i for i, d in enumerate(positions)}
        own_dims = [tuple(axis_of[d] for d in ds if d in axis_of) for ds in ((lb, lc) if side == 0 else (rb, rc))]
        if side == 0:
            return _unbatched(rhs, source, (rb, rc), own_dims, is_other_left=False, params=params)
        return _unbatched(lhs, source, (lb, lc), own_dims, is_other_left=True, params=params)
    return None


def _unbatched(other: Tensor, source: Tensor, other_axes: Any, source_axes: Any, is_other_left: bool, params: Any) -> Tensor | None:
    """The product of `other` and `source`, in which the only batching axis of `other` is a free axis.

    Args:
      other: the factor with the batching axis.
      source: the factor before its broadcast along that axis.
      other_axes: the batching and contracting axes of `other`.
      source_axes: the batching and contracting axes of `source`.
      is_other_left: True if `other` is the left factor of the original product.
      params: the other parameters of the product.

    Returns:
      The product; None if its axes would have another order.
    """
    (ob, oc), (sb, sc) = other_axes, source_axes
    if len(ob) != 1:
        return None
    other_free = free(other.ndim, (), oc)
    source_free = free(source.ndim, sb, sc)
    if other_free[:1] != ob[:1]:
        return None
    if is_other_left:  # other is lhs: result is (axis, free of other, free of source), as before
        return dot_general(other, source, dot_dimension_numbers=dims(oc, sc), **params)
    if len(other_free) > 1 and source_free:
        return None
    if params.get("algorithm") is not None or params.get("precision_config") is not None or other.dtype != source.dtype:
        return None
    # Before: (axis, free of source, rest of other). With the factors exchanged: (axis, rest of other, free of source).
    return dot_general(other, source, dot_dimension_numbers=dims(oc, sc), **params)


@pattern("stablehlo.dot_general")
def dot_of_copies(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Dims, **params: Any) -> Tensor | None:
    """dot(A, broadcast(v)) -> broadcast(dot(A, v)) for copies along free axes, dot(sum(A), v) for copies along contracted axes."""
    factors = _factors(lhs, rhs, dot_dimension_numbers)
    for side, (factor, other) in enumerate((factors, factors[::-1])):
        copies = _copied_axes(factor.x)
        if copied := [d for d in factor.free if d in copies]:
            # The product with one copy, which is then repeated along the free axes.
            once = _product(side, factor.without(copied, uncopied(factor.x, copied)), other, params)
            first = _first_free_axis(factors, side)
            lost_axes = [first + factor.free.index(d) for d in copied]
            shape = _shape_of_product(factors)
            positions = tuple(i for i in range(len(shape)) if i not in lost_axes)
            return broadcast_in_dim(once, shape=shape, broadcast_dimensions=positions)
        lengths = {a: b for a, b in zip(factor.contract, other.contract, strict=True) if a in copies}
        if lengths and _is_summable(other.x, params):
            # The copies of v are equal, so sum over k of A[k] v = (sum over k of A[k]) v.
            summed = other.without(lengths.values(), _sum(other.x, tuple(lengths.values())))
            return _product(side, factor.without(lengths, uncopied(factor.x, lengths)), summed, params)
    return None


@pattern("stablehlo.reduce")
def sum_of_product(*xs: Tensor, dimensions: tuple[int, ...], body: Any) -> Tensor | None:
    """sum(dot(x, y)) -> dot(sum(x), sum(y)), where the sums are over free axes.

    The sum of a sum of products becomes the sum of each term, so that the rule then applies to each product.
    """
    if len(xs) != 2 or body != "add" or splat_of(xs[1]) != 0:
        return None
    if terms := _sum_of_products(xs[0]):
        return ew.add(*(_sum(term, dimensions) for term in terms))
    inner = defining(xs[0], "stablehlo.dot_general") if has_one_use(xs[0]) else None
    if inner is None:
        return None
    (lhs, rhs), params = inner
    before = _factors(lhs, rhs, params.pop("dot_dimension_numbers"))
    factors, sums = list(before), []
    for side, factor in enumerate(before):
        first = _first_free_axis(before, side)
        axes = tuple(d for i, d in enumerate(factor.free) if first + i in dimensions)
        if math.prod(factor.x.shape[d] for d in axes) > 1 and _is_summable(factor.x, params):
            sums += [first + factor.free.index(d) for d in axes]
            factors[side] = factor.without(axes, _sum(factor.x, axes))
    if not sums:
        return None
    remaining = [i for i in range(xs[0].ndim) if i not in sums]
    return _sum(_product(0, factors[0], factors[1], params), tuple(remaining.index(d) for d in dimensions if d in remaining))


def _sum_of_products(x: Tensor) -> list[Tensor]:
    """The two terms of an addition of products, transposed or not, that nothing else reads; empty for another value."""
    inner = defining(x, "stablehlo.add") if has_one_use(x) else None
    if inner is None:
        return []
    for term in inner[0]:
        maker = defining(term, "stablehlo.transpose") if has_one_use(term) else None
        product = maker[0][0] if maker else term
        is_product = defining(product, "stablehlo.dot_general") or _sum_of_products(product)
        if not has_one_use(product) or not is_product:
            return []
    return inner[0]


def _factors(lhs: Tensor, rhs: Tensor, numbers: Dims) -> tuple[_Factor, _Factor]:
    """The left and the right factor of a product, each with its axes from the dimension numbers."""
    lb, rb, lc, rc = (numbers[f] for f in DotDims.lists)
    return _Factor(lhs, lb, lc), _Factor(rhs, rb, rc)


def _product(side: int, factor: _Factor, other: _Factor, params: Any) -> Tensor:
    """The product of two factors; `factor` is the left one if `side` is 0, and the right one if it is 1.

    `params` are the other parameters of the `dot_general`.
    """
    left, right = (factor, other) if side == 0 else (other, factor)
    numbers = dims(left.contract, right.contract, left.batch, right.batch)
    return dot_general(left.x, right.x, dot_dimension_numbers=numbers, **params)


def _first_free_axis(factors: Sequence[_Factor], side: int) -> int:
    """The axis of the product at which the free axes of a factor begin; `side` is 0 for the left factor, 1 for the right."""
    return len(factors[0].batch) + (len(factors[0].free) if side else 0)


def _shape_of_product(factors: Sequence[_Factor]) -> tuple[int, ...]:
    """The shape of a product: the batching axes, the free axes of the left factor, and the free axes of the right one."""
    left, right = factors
    return (*(left.x.shape[d] for d in (*left.batch, *left.free)), *(right.x.shape[d] for d in right.free))


def _is_summable(x: Tensor, params: Any) -> bool:
    """True if summing `x` before the product loses no precision: the product has the dtype of `x`, of 4 bytes or more."""
    return x.dtype == params["dtype"] and x.dtype.itemsize >= 4


def _sum(x: Tensor, dimensions: tuple[int, ...]) -> Tensor:
    """The sum of `x` over some axes; `x` itself if there are none."""
    return reduce(x, full((), 0, x.dtype), dimensions=tuple(sorted(dimensions)), body="add") if dimensions else x


def _copied_axes(x: Tensor) -> set[int]:
    """The axes along which a broadcast copies; empty if `x` is no broadcast, or one that also stretches axes of size 1."""
    inner = defining(x, "stablehlo.broadcast_in_dim")
    if inner is None:
        return set()
    (source,), params = inner
    positions = params["broadcast_dimensions"]
    if any(x.shape[d] != n for d, n in zip(positions, source.shape, strict=True)):
        return set()
    return {d for d, n in enumerate(x.shape) if d not in positions and n > 1}
