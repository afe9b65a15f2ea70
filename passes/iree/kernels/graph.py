"""A loop as plain Python objects, without MLIR, from which a kernel is planned and written.

A node is a tensor value. A compound is an operation that has regions, or that updates memory: a loop, a branch, a sort, a scatter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nabla_mlir.passes.iree.kernels.scalars import ELEMENTWISE, instructions
from nabla_mlir.table.traits import FUNCTION

Shape = tuple[int, ...]


class NotSupported(Exception):  # noqa: N818 - not an error: the loop stays as it is
    """The loop cannot become a kernel; the message has the reason."""


_numbers = itertools.count()


@dataclass(eq=False)
class Node:
    """A tensor value: the operation that computes it, or its origin. Nodes are numbered in the order in which they are made."""

    name: str
    operands: tuple[Node, ...]
    shape: Shape
    dtype: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.number: int = next(_numbers)
        self.size: int = math.prod(self.shape)
        # True if the value does not change while the loop runs.
        self.fixed: bool = self.name not in ("argument", "result") and all(n.fixed for n in self.operands)
        # True if an element is computed from elements in memory, and not only from constants.
        self.from_memory: bool = self.name in ("input", "argument", "result") or any(n.from_memory for n in self.operands)
        is_computed = self.name in ELEMENTWISE or self.name in ("convert", "bitcast_convert", "reduce")
        # True if it costs time to compute the value twice, so that memory may be better.
        self.is_work: bool = self.size > 1 and self.from_memory and is_computed
        # True if an element needs a function such as exp.
        self.is_costly: bool = is_computed and (
            (self.name in ELEMENTWISE and instructions(self.name) >= FUNCTION)
            or (self.name != "reduce" and any(n.is_costly for n in self.operands))
        )


def next_number() -> int:
    """The next number of the counter of nodes: larger than the numbers of all nodes so far."""
    return next(_numbers)


@dataclass(eq=False)
class Region:
    """A computation from arguments to results.

    Args:
      compounds: the loops, branches, sorts and scatters of the region, in order.
      numbers: the numbers of the nodes that were made for it.
    """

    arguments: list[Node]
    results: list[Node]
    compounds: list[Compound]
    numbers: range


@dataclass(eq=False)
class Compound:
    """An operation that is a separate step of a plan: its operands are `inits`, and its results are scalars or arrays in memory."""

    inits: list[Node]
    results: list[Node]

    @property
    def regions(self) -> list[Region]:
        """The regions, which may read values from outside."""
        return []


@dataclass(eq=False)
class Loop(Compound):
    """A `stablehlo.while`."""

    condition: Region
    body: Region

    @property
    def regions(self) -> list[Region]:
        """The condition and the body."""
        return [self.condition, self.body]


@dataclass(eq=False)
class Branch(Compound):
    """A `stablehlo.if` or `stablehlo.case`. The operand of an `if` is an i1, and its first region is for true."""

    branches: list[Region]

    @property
    def regions(self) -> list[Region]:
        """One region for each value of the index."""
        return self.branches


@dataclass(eq=False)
class Sort(Compound):
    """A `stablehlo.sort` along a dimension. Only the first `wanted` elements are read."""

    dimension: int
    comparator: Region
    wanted: int

    @property
    def regions(self) -> list[Region]:
        """The comparator."""
        return [self.comparator]


@dataclass(frozen=True)
class Windows:
    """The parts of an operand that a gather reads, and a scatter updates, as the windows of another array.

    In a gather this array is the result, in a scatter the updates.

    Args:
      batch: the dimensions of the array that choose an index vector.
      inner: its other dimensions, along which a window extends.
      vector: the dimension of the indices along which an index vector lies.
      sources: for each dimension of the operand, the dimension of the array along which it runs (None: a single element), and
        the component of the index vector that has its start (None: 0).
      sizes: the size of a window along each dimension of the operand.
    """

    batch: tuple[int, ...]
    inner: tuple[int, ...]
    vector: int
    sources: tuple[tuple[int | None, int | None], ...]
    sizes: Shape


@dataclass(eq=False)
class Scatter(Compound):
    """A `stablehlo.scatter` of one operand. `combine` is an elementwise operation, or "" if updates replace elements."""

    windows: Windows
    combine: str
