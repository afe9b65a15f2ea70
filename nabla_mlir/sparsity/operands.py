"""Operands as sparsity rules read them: their patterns, and their numbers if these are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.sparsity.relation import Relation, union

Shape = tuple[int, ...]
# (operands, shapes of the results, **parameters of the operation) -> the pattern of each result
Rule = Callable[..., Sequence[Relation]]


class Operand(NamedTuple):
    """One operand of an operation.

    Attributes:
      relation: its pattern.
      read: returns its numbers, or None if they are not constants of the program.
    """

    relation: Relation
    read: Callable[[], np.ndarray | None]

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return self.relation.shape

    def constant(self) -> Operand:
        """The operand with the same numbers, but without dependences."""
        return Operand(Relation.none(self.relation.shape, self.relation.columns), self.read)

    def nonzero(self) -> np.ndarray | None:
        """A mask of the elements that are not always zero; None if every element may be nonzero."""
        numbers = self.read()
        if numbers is None:
            return None
        if numbers.size and not any(numbers.strides):
            numbers = numbers.reshape(-1)[:1].reshape(())  # one number for all elements
        return numbers != 0


def columns_of(xs: Sequence[Operand]) -> int:
    """The number of columns (inputs) of the patterns of some operands."""
    return xs[0].relation.columns


def fitted(relation: Relation, shape: Shape, dimensions: Sequence[int] | None = None) -> Relation:
    """The pattern of an operand, broadcast to the shape of the result; its axes become `dimensions`, by default the last ones."""
    if relation.shape == shape:
        return relation
    rank = len(relation.shape)
    if dimensions is None or len(dimensions) != rank:
        dimensions = range(len(shape) - rank, len(shape))
    return relation.broadcast(shape, dimensions)


def elementwise(
    xs: Sequence[Operand], outs: Sequence[Shape], broadcast_dimensions: Sequence[int] | None = None, **_: Any
) -> list[Relation]:
    """The patterns of the results of an elementwise operation: an element depends on the operand elements at its own index.

    `xs` are the operands, and `outs` the shapes of the results.
    """
    columns = columns_of(xs)
    return [union((fitted(x.relation, shape, broadcast_dimensions) for x in xs), shape, columns) for shape in outs]


def product(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """The pattern of a product: as `elementwise`, but without dependences where the other factor is a constant zero."""
    found = []
    for x, other in zip(xs, reversed(xs), strict=True):
        relation = fitted(x.relation, outs[0])
        where = None if relation.is_empty else other.nonzero()
        found.append(relation if where is None else relation.restricted(where))
    return [union(found, outs[0], columns_of(xs))]


def choice(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """The pattern of a select: the dependences of both values; with a constant predicate, only of the selected value."""
    condition, *sides = xs
    where = condition.read()
    found = [fitted(x.relation, outs[0]) for x in sides]
    if where is not None:
        found = [found[0].restricted(where), found[1].restricted(np.logical_not(where))]
    return [union(found, outs[0], columns_of(xs))]


def dense(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """Patterns that are right for every operation: each element depends on all inputs on which any operand depends.

    `outs` are the shapes of the results.
    """
    columns = columns_of(xs)
    scalars = [x.relation.gathered(range(len(x.shape))) for x in xs]
    return [union(scalars, (), columns).broadcast(shape, ()) for shape in outs]


def identity(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """The patterns of results that are the operands."""
    return [x.relation for x in xs[: len(outs)]]


def trailing(rank: int) -> Rule:
    """The rule of operations that mix elements along the last `rank` axes, and treat the axes before them as a batch.

    A rule computes the patterns of the results from the operands and the shapes of the results.
    """

    def rule(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
        """The patterns of the results: an element depends on all elements of the last `rank` axes of each operand, in its batch."""
        found = []
        for shape in outs:
            parts = []
            for x in (x for x in xs if not x.relation.is_empty):
                lead = len(x.shape) - rank
                if lead < 0 or shape[:lead] != x.shape[:lead]:
                    return dense(xs, outs)
                parts.append(x.relation.gathered(range(lead, len(x.shape))).broadcast(shape, range(lead)))
            found.append(union(parts, shape, columns_of(xs)))
        return found

    return rule
