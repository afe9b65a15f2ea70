"""Simplifications of operations that move elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.elementwise import add
from nabla_mlir.ops.reduction import COMBINERS, identity_of, reduce
from nabla_mlir.passes.simplify.pattern import Pattern, defining, has_free_zeros, has_one_use, is_identity, owner, pattern, uncopied
from nabla_mlir.passes.slices import Slice
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.tensor import Tensor, full, full_like, splat_of, wrap
from nabla_mlir.table.traits import is_part, moved

Shape = tuple[int, ...]


@pattern("stablehlo.broadcast_in_dim")
def broadcast_noop(x: Tensor, shape: Shape, broadcast_dimensions: Shape) -> Tensor | None:
    """A broadcast to the same shape -> its operand; of a constant -> a constant; that only adds axes of size 1 -> a reshape."""
    if x.shape == shape and is_identity(broadcast_dimensions):
        return x
    value = splat_of(x)
    if value is not None:
        return full(shape, value, x.dtype)
    if sh.element_count(shape) == x.size and list(broadcast_dimensions) == sorted(broadcast_dimensions):
        return sh.reshape(x, shape=shape)
    return None


@pattern("stablehlo.broadcast_in_dim")
def broadcast_of_broadcast(x: Tensor, shape: Shape, broadcast_dimensions: Shape) -> Tensor | None:
    """broadcast(broadcast(x)) -> broadcast(x)."""
    inner = defining(x, "stablehlo.broadcast_in_dim")
    if inner is None:
        return None
    (source,), params = inner
    dims = tuple(broadcast_dimensions[d] for d in params["broadcast_dimensions"])
    return sh.broadcast_in_dim(source, shape=shape, broadcast_dimensions=dims)


@pattern("stablehlo.broadcast_in_dim")
def broadcast_of_reshape(x: Tensor, shape: Shape, broadcast_dimensions: Shape) -> Tensor | None:
    """broadcast(reshape(x)) -> broadcast(x), if the reshape only adds or drops axes of size 1."""
    inner = defining(x, "stablehlo.reshape")
    if inner is None:
        return None
    source = inner[0][0]
    long_axes = [d for d, n in enumerate(source.shape) if n != 1]
    other_axes = [d for d, n in enumerate(x.shape) if n != 1]
    if len(long_axes) != len(other_axes) or [source.shape[d] for d in long_axes] != [x.shape[d] for d in other_axes]:
        return None
    if len(long_axes) != source.ndim:  # axes of size 1 need separate axes, which only the reshape gives
        return None
    return sh.broadcast_in_dim(source, shape=shape, broadcast_dimensions=tuple(broadcast_dimensions[d] for d in other_axes))


@pattern("stablehlo.broadcast_in_dim")
def broadcast_of_iota(x: Tensor, shape: Shape, broadcast_dimensions: Shape) -> Tensor | None:
    """broadcast(iota) -> iota along the corresponding axis."""
    inner = defining(x, "stablehlo.iota")
    if inner is None:
        return None
    axis = inner[1]["iota_dimension"]
    if x.shape[axis] != shape[broadcast_dimensions[axis]]:
        return None
    return sh.iota(shape=shape, dtype=x.dtype, iota_dimension=broadcast_dimensions[axis])


@pattern("stablehlo.transpose")
def transpose_noop(x: Tensor, permutation: Shape) -> Tensor | None:
    """A transpose that is the identity -> its operand; of a constant -> a constant; of axes of size 1 -> a reshape."""
    if is_identity(permutation):
        return x
    shape = tuple(x.shape[d] for d in permutation)
    value = splat_of(x)
    if value is not None:
        return full(shape, value, x.dtype)
    order = [d for d in permutation if x.shape[d] != 1]
    return sh.reshape(x, shape=shape) if order == sorted(order) else None


@pattern("stablehlo.transpose")
def transpose_of_transpose(x: Tensor, permutation: Shape) -> Tensor | None:
    """transpose(transpose(x)) -> transpose(x) by the product of the permutations."""
    inner = defining(x, "stablehlo.transpose")
    if inner is None:
        return None
    (source,), params = inner
    return sh.transpose(source, permutation=tuple(params["permutation"][d] for d in permutation))


@pattern("stablehlo.transpose")
def transpose_of_broadcast(x: Tensor, permutation: Shape) -> Tensor | None:
    """transpose(broadcast(x)) -> broadcast(x), if the order of the axes of x does not change."""
    inner = defining(x, "stablehlo.broadcast_in_dim")
    if inner is None:
        return None
    (source,), params = inner
    position = sh.inverse(permutation)
    dims = tuple(position[d] for d in params["broadcast_dimensions"])
    if list(dims) != sorted(dims):
        return None
    return sh.broadcast_in_dim(source, shape=tuple(x.shape[d] for d in permutation), broadcast_dimensions=dims)


@pattern("stablehlo.reshape")
def reshape_noop(x: Tensor, shape: Shape) -> Tensor | None:
    """A reshape to the same shape -> its operand; of a constant, a reshape or a broadcast scalar -> one operation."""
    if x.shape == shape:
        return x
    value = splat_of(x)
    if value is not None:
        return full(shape, value, x.dtype)
    inner = defining(x, "stablehlo.reshape")
    if inner is not None:
        return sh.reshape(inner[0][0], shape=shape)
    broadcast = defining(x, "stablehlo.broadcast_in_dim")
    if broadcast is not None and broadcast[0][0].ndim == 0:
        return sh.broadcast_in_dim(broadcast[0][0], shape=shape, broadcast_dimensions=())
    return None


@pattern("stablehlo.slice")
def slice_noop(x: Tensor, start_indices: Shape, limit_indices: Shape, strides: Shape) -> Tensor | None:
    """A slice of everything -> its operand; of a constant -> a constant; slice(slice(x)) -> slice(x)."""
    box = Slice(start_indices, limit_indices, strides)
    if box.shape == x.shape:
        return x
    value = splat_of(x)
    if value is not None:
        return full(box.shape, value, x.dtype)
    inner = defining(x, "stablehlo.slice")
    if inner is None:
        return None
    (source,), p = inner
    return _slice(source, box.within(Slice(p["start_indices"], p["limit_indices"], p["strides"])))


@pattern("stablehlo.slice")
def slice_of_part(x: Tensor, start_indices: Shape, limit_indices: Shape, strides: Shape) -> Tensor | None:
    """slice(concatenate(x, y)) -> slice(x), and slice(pad(x)) -> slice(x), if the slice reads only x: the whole is not computed."""
    box = Slice(start_indices, limit_indices, strides)
    if 0 in box.shape:
        return None
    if (concatenation := defining(x, "stablehlo.concatenate")) is not None:
        parts, params = concatenation
        axis = params["dimension"]
        found = box.in_part([part.shape[axis] for part in parts], axis)
        return None if found is None else _slice(parts[found[0]], found[1])
    if (padding := defining(x, "stablehlo.pad")) is None:
        return None
    (source, value), params = padding
    low, high = params["edge_padding_low"], params["edge_padding_high"]
    if any(params["interior_padding"]) or min(*low, *high) < 0:
        return None
    inner = box.relative_to(low)
    positions = list(zip(inner.start, inner.limit, source.shape, strict=True))
    if any(limit <= 0 or size <= start for start, limit, size in positions):
        return sh.broadcast_in_dim(value, shape=box.shape, broadcast_dimensions=())
    return _slice(source, inner) if all(start >= 0 and limit <= size for start, limit, size in positions) else None


def _slice(x: Tensor, box: Slice) -> Tensor:
    """The slice of `x` by a box of starts, limits and strides."""
    return sh.slice_(x, start_indices=box.start, limit_indices=box.limit, strides=box.strides)


@pattern("stablehlo.pad")
def pad_noop(x: Tensor, value: Tensor, edge_padding_low: Shape, edge_padding_high: Shape, interior_padding: Shape) -> Any:
    """A pad by nothing -> its operand; a negative pad -> a slice; zeros padded by zeros -> zeros."""
    edges = (*edge_padding_low, *edge_padding_high)
    if not any(edges) and not any(interior_padding):
        return x
    if not any(interior_padding) and all(e <= 0 for e in edges) and 0 not in x.shape:
        limits = tuple(n + e for n, e in zip(x.shape, edge_padding_high, strict=True))
        starts = tuple(-e for e in edge_padding_low)
        if all(a <= b for a, b in zip(starts, limits, strict=True)):
            return sh.slice_(x, start_indices=starts, limit_indices=limits, strides=(1,) * x.ndim)
    inside, around = splat_of(x), splat_of(value)
    if inside is None or around is None or inside != around or np.signbit(np.real(inside)) != np.signbit(np.real(around)):
        return None
    shape = tuple(
        n + (n - 1) * i + lo + hi if n else lo + hi
        for n, lo, hi, i in zip(x.shape, edge_padding_low, edge_padding_high, interior_padding, strict=True)
    )
    return full(shape, inside, x.dtype)


@pattern("stablehlo.concatenate")
def concatenate_one(*xs: Tensor, dimension: int) -> Tensor | None:
    """concatenate(x) -> x; operands of size 0 are dropped."""
    parts = [x for x in xs if x.shape[dimension] != 0]
    if len(parts) == 1:
        return parts[0]
    if parts and len(parts) < len(xs):
        return sh.concatenate(*parts, dimension=dimension)
    return None


@pattern("stablehlo.reverse")
def reverse_noop(x: Tensor, dimensions: Shape) -> Tensor | None:
    """reverse(reverse(x)) -> x, and reverse(constant) -> constant; axes of size 1 are not reversed."""
    if splat_of(x) is not None:
        return x
    long_axes = tuple(d for d in dimensions if x.shape[d] > 1)
    if len(long_axes) == len(dimensions):
        inner = defining(x, "stablehlo.reverse")
        return inner[0][0] if inner and set(inner[1]["dimensions"]) == set(dimensions) else None
    return sh.reverse(x, dimensions=long_axes) if long_axes else x


@pattern("stablehlo.reduce")
def reduce_unit_axes(*xs: Tensor, dimensions: Shape, body: Any) -> Tensor | None:
    """A reduction over axes of size 1 -> a reshape, if the start value is neutral; over no axis -> its operand."""
    if len(xs) != 2 or body not in COMBINERS or body == "xor":
        return None
    x, init = xs
    if any(x.shape[d] != 1 for d in dimensions) or splat_of(init) != identity_of(body, x.dtype):
        return None
    return sh.reshape(x, shape=tuple(n for d, n in enumerate(x.shape) if d not in dimensions))


@pattern("stablehlo.reduce")
def sum_of_broadcast(*xs: Tensor, dimensions: Shape, body: Any) -> Tensor | None:
    """sum(broadcast(x)) -> x * n for n copies; before a sum over all elements, a reshape or transpose is dropped."""
    if len(xs) != 2 or body != "add" or splat_of(xs[1]) != 0 or xs[0].dtype.kind not in "fc":
        return None
    inner = defining(xs[0], "stablehlo.broadcast_in_dim")
    if inner is not None:
        return _sum_of_copies(xs[0], inner[0][0], inner[1]["broadcast_dimensions"], dimensions)
    if len(dimensions) != xs[0].ndim:
        return None
    maker = owner(xs[0])
    sources = [] if is_part(maker) else [wrap(v) for v in moved(maker)]
    if len(sources) != 1 or sources[0].size != xs[0].size:  # the same elements in another order have the same sum
        return None
    (source,) = sources
    return reduce(source, xs[1], dimensions=tuple(range(source.ndim)), body="add") if source.ndim else source


@pattern("stablehlo.reduce")
def sum_of_negated(*xs: Tensor, dimensions: Shape, body: Any) -> Tensor | None:
    """sum(-x) -> -sum(x): fewer elements are negated, and the sign can cancel later."""
    is_sum = len(xs) == 2 and body == "add" and splat_of(xs[1]) == 0 and has_free_zeros(xs[0])
    negation = defining(xs[0], "stablehlo.negate") if is_sum else None
    if negation is None or not has_one_use(xs[0]):
        return None
    return ew.negate(reduce(negation[0][0], xs[1], dimensions=dimensions, body="add"))


@pattern("stablehlo.reduce")
def reduce_of_transpose(*xs: Tensor, dimensions: Shape, body: Any) -> Tensor | None:
    """reduce(transpose(x)) -> transpose(reduce(x)), whose transpose has fewer elements."""
    inner = defining(xs[0], "stablehlo.transpose") if len(xs) == 2 and body in COMBINERS and has_one_use(xs[0]) else None
    if inner is None:
        return None
    (source,), params = inner
    permutation = params["permutation"]
    sums = tuple(permutation[d] for d in dimensions)
    remaining = [d for d in range(source.ndim) if d not in sums]
    order = tuple(remaining.index(d) for d in permutation if d in remaining)
    return sh.transpose(reduce(source, xs[1], dimensions=tuple(sorted(sums)), body=body), permutation=order)


@pattern("stablehlo.multiply")
def multiply_broadcasts(a: Tensor, b: Tensor) -> Tensor | None:
    """(x * broadcast(y)) * broadcast(z) -> x * broadcast(y * z) where y is smaller than x."""
    for product, other in ((a, b), (b, a)):
        z = defining(other, "stablehlo.broadcast_in_dim") if has_one_use(other) else None
        factors = defining(product, "stablehlo.multiply") if z and has_one_use(product) else None
        if not factors or not z or z[0][0].size >= a.size or a.dtype.kind not in "fc":
            continue
        for x, broadcast in (factors[0], factors[0][::-1]):
            y = defining(broadcast, "stablehlo.broadcast_in_dim")
            if y is not None and y[0][0].shape == z[0][0].shape and y[1] == z[1]:
                return ew.multiply(x, sh.broadcast_in_dim(ew.multiply(y[0][0], z[0][0]), **z[1]))
    return None


@pattern("stablehlo.multiply")
def scale_smaller(a: Tensor, b: Tensor) -> Tensor | None:
    """(x * broadcast(y)) * c -> x * broadcast(y * c) for a constant c."""
    product, constant = (a, b) if splat_of(b) is not None else (b, a)
    c = splat_of(constant) if a.dtype.kind in "fc" else None
    return None if c is None else _change_smaller_factor(product, lambda y: ew.multiply(y, full_like(y, c)))


@pattern("stablehlo.negate")
def negate_smaller(x: Tensor) -> Tensor | None:
    """-(x * broadcast(y)) -> x * broadcast(-y), if no reader can absorb the sign."""
    # The negation that is rewritten must be the only reader of the product.
    (negation,) = (use.owner for use in x.value.uses) if has_one_use(x) else (None,)
    if negation is None or any(_can_move_sign(use.owner) for use in negation.results[0].uses):
        return None
    return _change_smaller_factor(x, ew.negate)


def _can_move_sign(op: ir.Operation) -> bool:
    """True if a pattern moves the sign of an operand through the operation, as in f(-x) -> -f(x)."""
    record = REGISTRY.get(op.name)
    return op.name == "stablehlo.reduce" or (record is not None and record.kind == "elementwise" and bool(record.linear))


def _change_smaller_factor(product: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor | None:
    """x * broadcast(y) -> x * broadcast(change(y)), if y is smaller than the product; else None.

    Nothing else may read the product or the broadcast.
    """
    factors = defining(product, "stablehlo.multiply") if has_one_use(product) else None
    for x, broadcast in (factors[0], factors[0][::-1]) if factors else ():
        y = defining(broadcast, "stablehlo.broadcast_in_dim") if has_one_use(broadcast) else None
        if y is not None and y[0][0].size < product.size:
            return ew.multiply(x, sh.broadcast_in_dim(change(y[0][0]), **y[1]))
    return None


def _broadcast_last(record: OpDef) -> Pattern:
    """The pattern f(broadcast(x), broadcast(y)) -> broadcast(f(x, y)), for equal broadcasts and an elementwise f (`record`)."""

    def broadcast_last(*xs: Tensor) -> Tensor | None:
        """f(broadcast(x), broadcast(y), c) -> broadcast(f(x, y, c)) for equal broadcasts and constants c."""
        constants = [splat_of(x) for x in xs]
        operands = [x.value for x, c in zip(xs, constants, strict=True) if c is None]
        broadcasts = [defining(wrap(v), "stablehlo.broadcast_in_dim") for v in operands]
        # Nothing else may read the broadcasts, which then disappear.
        if not operands or broadcasts[0] is None or any(len(list(v.uses)) != operands.count(v) for v in operands):
            return None
        shape, params = broadcasts[0][0][0].shape, broadcasts[0][1]
        if any(m is None or m[0][0].shape != shape or m[1] != params for m in broadcasts):
            return None
        sources = (m[0][0] for m in broadcasts if m is not None)
        small = [next(sources) if c is None else full(shape, c, x.dtype) for x, c in zip(xs, constants, strict=True)]
        return sh.broadcast_in_dim(record(*small), **params) if small[0].size < xs[0].size else None

    return broadcast_last


for _record in (ew.negate, lg.logical_not, ew.add, ew.subtract, ew.multiply, ew.divide, lg.logical_and, lg.logical_or):
    pattern(_record.name)(_broadcast_last(_record))


def _sum_of_copies(x: Tensor, source: Tensor, positions: Shape, dimensions: Shape) -> Tensor | None:
    """The sum of the broadcast `x` as a multiple of the sum of `source`; None if it sums no copies.

    Args:
      x: the broadcast.
      source: its operand.
      positions: the axes of `x` that are axes of `source`.
      dimensions: the axes that are summed.
    """
    copies = [d for d in range(x.ndim) if d not in positions]
    sums = [d for d in dimensions if d in copies]
    if not sums or any(source.shape[i] != x.shape[d] for i, d in enumerate(positions)):
        return None
    remaining = [d for d in range(x.ndim) if d not in sums]
    smaller = uncopied(x, sums)
    dims = tuple(remaining.index(d) for d in dimensions if d not in sums)
    total = smaller if not dims else reduce(smaller, full((), 0, x.dtype), dimensions=dims, body="add")
    return total * float(sh.element_count(tuple(x.shape[d] for d in sums)))


@pattern("stablehlo.add")
def add_of_update(a: Tensor, b: Tensor) -> Tensor | None:
    """x + update(0, u) -> update(x, x[window] + u): a loop that sums rows then does not read the other rows."""
    for x, update in ((a, b), (b, a)):
        inner = defining(update, "stablehlo.dynamic_update_slice") if has_one_use(update) else None
        if inner is None or splat_of(inner[0][0]) != 0 or splat_of(x) is not None or not has_free_zeros(x):
            continue
        _, u, *positions = inner[0]
        if 2 * u.size <= x.size and x.dtype.kind != "b":
            window = sh.dynamic_slice(x, *positions, slice_sizes=u.shape)
            return sh.dynamic_update_slice(x, add(window, u), *positions)
    return None


@pattern("stablehlo.dynamic_slice")
def slice_of_constant(x: Tensor, *_: Tensor, slice_sizes: Shape) -> Tensor | None:
    """dynamic_slice(constant) -> a smaller constant, if all elements of the constant are equal."""
    value = splat_of(x)
    return None if value is None else full(slice_sizes, value, x.dtype)
