"""What the rules of records read: the operands of an operation with their patterns, and their numbers where these are known."""

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
      read: gives its numbers, or None if they are not constants of the program.
    """

    relation: Relation
    read: Callable[[], np.ndarray | None]

    @property
    def shape(self) -> Shape:
        """Of the array."""
        return self.relation.shape

    def constant(self) -> Operand:
        """The same numbers, which depend on nothing."""
        return Operand(Relation.none(self.relation.shape, self.relation.columns), self.read)

    def nonzero(self) -> np.ndarray | None:
        """Where the operand is not always zero; None if it may be anything anywhere."""
        numbers = self.read()
        if numbers is None:
            return None
        if numbers.size and not any(numbers.strides):
            numbers = numbers.reshape(-1)[:1].reshape(())  # one number, repeated
        return numbers != 0


def columns_of(xs: Sequence[Operand]) -> int:
    """How many columns there are."""
    return xs[0].relation.columns


def fitted(relation: Relation, shape: Shape, dimensions: Sequence[int] | None = None) -> Relation:
    """The pattern of an operand repeated to the shape of the result, its axes at `dimensions`: the last ones, as in NumPy."""
    if relation.shape == shape:
        return relation
    rank = len(relation.shape)
    if dimensions is None or len(dimensions) != rank:
        dimensions = range(len(shape) - rank, len(shape))
    return relation.broadcast(shape, dimensions)


def elementwise(
    xs: Sequence[Operand], outs: Sequence[Shape], broadcast_dimensions: Sequence[int] | None = None, **_: Any
) -> list[Relation]:
    """Each element depends on what those at its place do."""
    columns = columns_of(xs)
    return [union((fitted(x.relation, shape, broadcast_dimensions) for x in xs), shape, columns) for shape in outs]


def product(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """As elementwise; where the other factor is a constant zero, nothing."""
    found = []
    for x, other in zip(xs, reversed(xs), strict=True):
        relation = fitted(x.relation, outs[0])
        where = None if relation.is_empty else other.nonzero()
        found.append(relation if where is None else relation.restricted(where))
    return [union(found, outs[0], columns_of(xs))]


def choice(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """What either side depends on; of a constant choice only the side that is taken."""
    condition, *sides = xs
    where = condition.read()
    found = [fitted(x.relation, outs[0]) for x in sides]
    if where is not None:
        found = [found[0].restricted(where), found[1].restricted(np.logical_not(where))]
    return [union(found, outs[0], columns_of(xs))]


def dense(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """Everything depends on all that anything depends on: what holds of every operation."""
    columns = columns_of(xs)
    scalars = [x.relation.gathered(range(len(x.shape))) for x in xs]
    return [union(scalars, (), columns).broadcast(shape, ()) for shape in outs]


def identity(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
    """The results are the operands."""
    return [x.relation for x in xs[: len(outs)]]


def trailing(rank: int) -> Rule:
    """Everything depends on the last `rank` axes of an operand, and on its own place along those before."""

    def rule(xs: Sequence[Operand], outs: Sequence[Shape], **_: Any) -> list[Relation]:
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
