"""Simplifications of predicates, which select where a cotangent goes and which part of a matrix is used."""

from __future__ import annotations

from typing import Any

from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.passes.simplify.pattern import defining, has_one_use, pattern, uncopied
from nabla_mlir.table.tensor import Tensor, full, full_like, splat_of

Shape = tuple[int, ...]
# The signs of a - b for which each comparison is true.
_SIGNS = {"LT": {-1}, "LE": {-1, 0}, "EQ": {0}, "NE": {-1, 1}, "GE": {0, 1}, "GT": {1}}
_OPPOSITE = {"or": "and", "and": "or"}


@pattern("stablehlo.select")
def select_of_not(pred: Tensor, a: Tensor, b: Tensor) -> Tensor | None:
    """select(not p, a, b) -> select(p, b, a)."""
    negation = defining(pred, "stablehlo.not")
    return lg.select(negation[0][0], b, a) if negation else None


@pattern("stablehlo.or")
def or_of_opposites(a: Tensor, b: Tensor) -> Tensor | None:
    """i >= j or i <= j -> True, for every disjunction of two comparisons of the same integers that is always true."""
    signs = _signs_of_both(a, b)
    return full_like(a, True) if signs is not None and signs[0] | signs[1] == {-1, 0, 1} else None


@pattern("stablehlo.and")
def and_of_opposites(a: Tensor, b: Tensor) -> Tensor | None:
    """i > j and i < j -> False, for every conjunction of two comparisons of the same integers that is never true."""
    signs = _signs_of_both(a, b)
    return full_like(a, False) if signs is not None and not signs[0] & signs[1] else None


def _signs_of_both(a: Tensor, b: Tensor) -> tuple[set[int], set[int]] | None:
    """The signs of x - y for which each of two comparisons holds, for example ({0, 1}, {-1, 0}) for x >= y and x <= y.

    None if they do not compare the same two integers.
    """
    left, right = (defining(x, "stablehlo.compare") for x in (a, b))
    if left is None or right is None or left[0][0].dtype.kind not in "iu":
        return None
    values, others = ([x.value for x in one[0]] for one in (left, right))
    first, second = (_SIGNS[one[1]["comparison_direction"]] for one in (left, right))
    if others == values:
        return first, second
    return (first, {-s for s in second}) if others == values[::-1] else None


@pattern("stablehlo.transpose")
def transpose_of_counts(x: Tensor, permutation: Shape) -> Tensor | None:
    """transpose(iota == iota) -> a comparison of iotas along other axes; triangular masks are such comparisons."""
    inner = defining(x, "stablehlo.compare")
    counters = [defining(v, "stablehlo.iota") for v in inner[0]] if inner else []
    if inner is None or any(c is None for c in counters):
        return None
    shape, position = tuple(x.shape[d] for d in permutation), sh.inverse(permutation)
    new_counts = [
        sh.iota(shape=shape, dtype=v.dtype, iota_dimension=position[c[1]["iota_dimension"]])
        for v, c in zip(inner[0], counters, strict=True)
        if c
    ]
    return lg.compare(*new_counts, **inner[1])


@pattern("stablehlo.reduce")
def any_of_not(*xs: Tensor, dimensions: Shape, body: Any) -> Tensor | None:
    """any(not p) -> not all(p), and all(not p) -> not any(p), so that fewer elements are negated."""
    negation = defining(xs[0], "stablehlo.not") if _is_logic(xs, body) else None
    if negation is None:
        return None
    start = full((), body == "or", xs[0].dtype)
    return lg.logical_not(reduce(negation[0][0], start, dimensions=dimensions, body=_OPPOSITE[body]))


@pattern("stablehlo.reduce")
def any_of_constant(*xs: Tensor, dimensions: Shape, body: Any) -> Tensor | None:
    """any(constant) -> constant, and all(constant) -> constant, over axes that are not empty."""
    value = splat_of(xs[0]) if _is_logic(xs, body) else None
    if value is None or any(xs[0].shape[d] == 0 for d in dimensions):
        return None
    return full(tuple(n for d, n in enumerate(xs[0].shape) if d not in dimensions), value, xs[0].dtype)


@pattern("stablehlo.reduce")
def any_of_copies(*xs: Tensor, dimensions: Shape, body: Any) -> Tensor | None:
    """any(broadcast(p)) over the axes of the copies -> p; any(p or broadcast(q)) -> any(p) or q."""
    if not _is_logic(xs, body):
        return None
    x, init = xs
    inner = defining(x, f"stablehlo.{body}") if has_one_use(x) else None
    if inner is not None and any(_without_copies(term, dimensions) is not None for term in inner[0]):
        terms = [reduce(term, init, dimensions=dimensions, body=body) for term in inner[0]]
        return lg.logical_or(*terms) if body == "or" else lg.logical_and(*terms)
    return _without_copies(x, dimensions)


def _is_logic(xs: tuple[Tensor, ...], body: Any) -> bool:
    """True for a reduction that computes any or all of boolean elements."""
    return len(xs) == 2 and body in _OPPOSITE and xs[0].dtype.kind == "b" and splat_of(xs[1]) == (body == "and")


def _without_copies(x: Tensor, dimensions: Shape) -> Tensor | None:
    """A boolean array before its broadcast along the axes `dimensions`; None if `x` is not only copied along them."""
    inner = defining(x, "stablehlo.broadcast_in_dim")
    if inner is None or set(dimensions) & set(inner[1]["broadcast_dimensions"]) or any(x.shape[d] == 0 for d in dimensions):
        return None
    return uncopied(x, dimensions)
