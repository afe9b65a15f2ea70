"""The parts of a plan: stores and reductions, and the nests in which they share loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nabla_mlir.passes.iree.kernels.graph import Node, Shape
from nabla_mlir.passes.iree.kernels.index import ZERO, Affine, Index

# A last dimension up to this size is written out, and vectors run along the dimension before it.
SHORT = 4
Start = tuple[Node, int]  # a dynamic start index: an integer scalar, and the number of indices 0, 1, ... to which it is clamped


@dataclass(frozen=True)
class Space:
    """The iterations of a nest: the sizes of its loops (the last one over vectors), and the elements of one iteration."""

    loops: Shape
    short: int = 1  # elements of an iteration: 3 for a tensor of 100x3, which has one loop of 100

    @staticmethod
    def of(shape: Shape) -> Space:
        """The loops in which a tensor of this shape is computed: one for each dimension except those of size 1, and a short last
        one.

        For example, the shape (100, 1, 3) has one loop of 100 iterations with 3 elements each.
        """
        long = [n for n in shape if n != 1]
        if len(long) > 1 and long[-1] <= SHORT and long[-2] > long[-1]:
            return Space(tuple(long[:-1]), long[-1])
        return Space(tuple(long))

    def indices(self, shape: Shape, loops: Sequence[Affine]) -> list[Index]:
        """The indices of the elements of a tensor of `shape` that one iteration computes; `loops` has the index of each loop.

        For example, ``Space((100,), 3)`` has the indices (i, 0), (i, 1), (i, 2) for the shape (100, 3) and the loop index i.
        """
        elements = []
        for i in range(self.short):
            positions = iter((*loops, Affine((), i)))
            elements.append(tuple(ZERO if n == 1 else next(positions) for n in shape))
        return elements


@dataclass(eq=False)
class Store:
    """A store of `source` to the memory of `target`, which has shape `whole`, from the indices `starts` on.

    `strides` has the distance between neighbouring elements along each dimension; empty for neighbours in the target.
    """

    source: Node
    target: Node
    whole: Shape
    starts: Sequence[int | Start]
    strides: Sequence[int] = ()

    @property
    def domain(self) -> Shape:
        """The shape of the computed value."""
        return self.source.shape


@dataclass(eq=False)
class Reduction:
    """A reduction: `target` is its result, a scalar or an array in memory."""

    target: Node

    @property
    def source(self) -> Node:
        """The operand of the reduction."""
        return self.target.operands[0]

    @property
    def domain(self) -> Shape:
        """The shape of the operand."""
        return self.source.shape


Item = Store | Reduction


@dataclass(eq=False)
class Nest:
    """Items that share their loops."""

    space: Space | None  # None: a reduction to several elements, in a separate nest
    items: list[Item] = field(default_factory=list)


def items_of(node: Node) -> Iterable[Item]:
    """The stores or the reduction that write `node` to memory: one store for each operand of a concatenation, for example."""
    starts = [0] * len(node.shape)
    if node.name == "reduce":
        yield Reduction(node)
    elif node.name == "concatenate":
        for operand in node.operands:
            yield Store(operand, node, node.shape, list(starts))
            starts[node.attributes["dimension"]] += operand.shape[node.attributes["dimension"]]
    elif node.name == "pad":
        # The padding value is written everywhere, then the operand over it.
        low = node.attributes["edge_padding_low"]
        operand, padding = node.operands
        everywhere = Node("broadcast_in_dim", (padding,), node.shape, node.dtype, {"broadcast_dimensions": ()})
        yield Store(everywhere, node, node.shape, starts)
        interior = node.attributes["interior_padding"]
        yield Store(operand, node, node.shape, low, [i + 1 for i in interior] if any(interior) else ())
    elif node.name == "dynamic_update_slice":
        operand, update, *_ = node.operands
        yield Store(operand, node, node.shape, starts)
        yield Store(update, node, node.shape, starts_of(node))
    else:
        yield Store(node, node, node.shape, starts)


def starts_of(node: Node) -> list[int | Start]:
    """The start indices of a dynamic_update_slice, each with the number of values to which it is clamped."""
    _, update, *starts = node.operands
    return [(s, n - m + 1) for s, n, m in zip(starts, node.shape, update.shape, strict=True)]
