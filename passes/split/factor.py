"""Collects factors of known values: ``(v * a) * b - v * c`` with known a, b, c becomes ``v * (a * b - c)``.

A value that depends elementwise and linearly on unknown values is written as a sum of unknown values times known
factors. The factors are computed early and stored as one; only the sum is computed late. As with any reassociation, the
rounding changes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.locations import named
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.ops.elementwise import add, divide, multiply, subtract
from nabla_mlir.ops.logic import select
from nabla_mlir.ops.shape import broadcast_in_dim
from nabla_mlir.passes.split.residuals import Division
from nabla_mlir.table.forward import carries_tangent
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.tensor import Tensor, full, full_like, splat_of, wrap

Terms = dict[ir.Value, Tensor | None]  # unknown value -> its known factor, None for one


def factor(block: ir.Block, division: Division) -> None:
    """Collects the factors of known values in a block, and in the regions of its operations that `division` divides.

    For known a and b, ``(v * a) * b`` becomes ``v * (a * b)``.
    """
    _factor_block(block, division)
    for op in [o.operation for o in block.operations]:
        if division.part(op) is not None:
            for region in op.regions:
                factor(region.blocks[0], division)


def _factor_block(block: ir.Block, division: Division) -> None:
    """Collects the factors of known values in one block, without the regions of its operations.

    The rules compute the terms of each late value in order. A value that another operation reads is replaced by the sum of its
    terms.
    """
    sums: dict[ir.Value, Terms] = {}
    for op in [o.operation for o in block.operations]:
        if not division.is_late(op) or op.name not in _RULES or not carries_tangent(op.results[0]):
            continue
        with named("factor", op.location), ir.InsertionPoint(op):
            terms = _RULES[op.name](op, sums, division)
            # With several readers, a sum of several terms would be computed again for each of them.
            if terms is not None and (len(terms) == 1 or _uses(op.results[0]) == 1):
                sums[op.results[0]] = terms
    for value, terms in sums.items():
        if not all(_is_made_by(use.owner, sums) for use in value.uses):
            op = made_by(value)
            assert op is not None
            with named("factor", op.location), ir.InsertionPoint(op):
                total = _sum_of(terms).value
            value.replace_all_uses_with(total)
            division.unknown.add(total)


def _is_made_by(user: ir.Operation, sums: dict[ir.Value, Terms]) -> bool:
    """True if `user` is an operation whose result is one of the collected sums."""
    return len(user.results) == 1 and user.results[0] in sums


def _uses(value: ir.Value) -> int:
    return sum(1 for _ in value.uses)


def _sum_of(terms: Terms) -> Tensor:
    """The sum of the terms: each unknown value times its known factor, or unchanged if the factor is None."""
    summands = [wrap(v) if factor is None else multiply(wrap(v), factor) for v, factor in terms.items()]
    total, *others = summands
    for summand in others:
        total = add(total, summand)
    return total


# ---------------------------------------------------------------- rules


def _terms(value: ir.Value, sums: dict[ir.Value, Terms]) -> Terms:
    """The terms of a value from `sums`, which has those collected before; else the value itself with factor one."""
    return sums.get(value, {value: None})


def _multiply(op: ir.Operation, sums: dict[ir.Value, Terms], division: Division) -> Terms | None:
    """The terms of a product: the terms of the unknown operand, each times the known one; None unless exactly one is unknown.

    `sums` has the terms of values before the product.
    """
    left, right = op.operands
    if (left in division.unknown) == (right in division.unknown):
        return None
    unknown, known = (left, right) if left in division.unknown else (right, left)
    return _scaled(_terms(unknown, sums), wrap(known), multiply)


def _divide(op: ir.Operation, sums: dict[ir.Value, Terms], division: Division) -> Terms | None:
    """The terms of a quotient: the terms of the numerator, each divided by the denominator; None for an unknown denominator.

    `sums` has the terms of values before the quotient.
    """
    left, right = op.operands
    return None if right in division.unknown else _scaled(_terms(left, sums), wrap(right), divide)


def _negate(op: ir.Operation, sums: dict[ir.Value, Terms], division: Division) -> Terms | None:
    """The terms of a negation: the terms that `sums` has for the operand, each times -1."""
    return _scaled(_terms(op.operands[0], sums), full_like(wrap(op.operands[0]), -1), multiply)


def _sum_rule(binary: OpDef) -> Callable[[ir.Operation, dict[ir.Value, Terms], Division], Terms | None]:
    """The rule that computes the terms of a sum or difference (`binary` is `add` or `subtract`) from those of both operands."""

    def rule(op: ir.Operation, sums: dict[ir.Value, Terms], division: Division) -> Terms | None:
        """The terms of `left + right` or `left - right`; None if an operand is known, or if a joint factor would be too large."""
        left, right = op.operands
        if left not in division.unknown or right not in division.unknown:
            return None
        terms = dict(_terms(left, sums))
        for value, factor in _terms(right, sums).items():
            if value not in terms and binary is add:
                terms[value] = factor
                continue
            if value in terms:  # the factors of both operands are added or subtracted
                both = _combine_factors(_factor(terms[value], value), _factor(factor, value), binary)
            else:
                both = _combine_factors(_factor(factor, value), full_like(wrap(value), -1), multiply)
            if both is None:
                return None
            terms[value] = both
        return terms

    return rule


def _select(op: ir.Operation, sums: dict[ir.Value, Terms], division: Division) -> Terms | None:
    """The terms of a selection by a known predicate: the factor of each term is selected from its factors in both branches.

    None if the predicate is unknown, or if a branch is a known value other than zero.
    """
    predicate, *branches = op.operands
    if predicate in division.unknown:
        return None
    sides: list[Terms] = []
    for branch in branches:
        if branch not in division.unknown and splat_of(wrap(branch)) != 0:
            return None
        sides.append(_terms(branch, sums) if branch in division.unknown else {})
    if all(factor is None for side in sides for factor in side.values()):
        return None  # the predicate is smaller than the factor that would replace it
    new: Terms = {}
    for value in {**sides[0], **sides[1]}:
        values = [_factor(s[value], value) if value in s else full_like(wrap(value), 0) for s in sides]
        new[value] = select(wrap(predicate), *values)
    return new


_RULES = {
    "stablehlo.select": _select,
    "stablehlo.multiply": _multiply,
    "stablehlo.divide": _divide,
    "stablehlo.negate": _negate,
    "stablehlo.add": _sum_rule(add),
    "stablehlo.subtract": _sum_rule(subtract),
}


def _factor(factor: Tensor | None, value: ir.Value) -> Tensor:
    """The factor of a term as a tensor: ones in the shape of the unknown value `value` if the factor is None."""
    return full_like(wrap(value), 1) if factor is None else factor


def _scaled(terms: Terms, known: Tensor, binary: OpDef) -> Terms | None:
    """The terms times (or divided by) the factor `known`, as `binary` says; None if that would cost more than one product."""
    if sum(factor is None for factor in terms.values()) > 1:
        return None  # one product of the sum is cheaper than one of each summand
    new: Terms = {}
    for value, factor in terms.items():
        if factor is None and binary is multiply:
            new[value] = known
            continue
        combined = _combine_factors(_factor(factor, value), known, binary)
        if combined is None:
            return None
        new[value] = combined
    return new


# ---------------------------------------------------------------- factors


def _combine_factors(a: Tensor, b: Tensor, binary: OpDef) -> Tensor | None:
    """The tensor `binary(a, b)` of two factors; None if it would be larger than both, as for a row and a column.

    Two constants give a constant. A factor that is a broadcast of a smaller array is combined before it is broadcast.
    """
    p, q = splat_of(a), splat_of(b)
    if p is not None and q is not None:
        return full(a.shape, _NUMBERS[binary.name](p, q), a.dtype)
    small = [_broadcast(x) for x in (a, b)]  # the arrays before the broadcast, or None
    if (small[0] is None and p is None) or (small[1] is None and q is None):
        return binary(a, b)
    positions = {(s[0].shape, s[1]) for s in small if s is not None}
    if len(positions) > 1:
        return None
    ((shape, dims),) = positions
    # A factor that is no broadcast is a constant with one number: it gets the shape before the broadcast.
    x, y = (full(shape, splat_of(t) or 0, t.dtype) if s is None else s[0] for t, s in zip((a, b), small, strict=True))
    return broadcast_in_dim(binary(x, y), shape=a.shape, broadcast_dimensions=dims)


_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "stablehlo.multiply": operator.mul,
    "stablehlo.divide": operator.truediv,
    "stablehlo.add": operator.add,
    "stablehlo.subtract": operator.sub,
}


def _broadcast(x: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    """The operand of the broadcast that computes a factor, and the axes of the factor along which it runs; else None."""
    op = made_by(x.value)
    if op is None or op.name != "stablehlo.broadcast_in_dim":
        return None
    return wrap(op.operands[0]), tuple(REGISTRY[op.name].read(op)["broadcast_dimensions"])
