"""Affine indices, and the indices of operand elements from which an element of a result is computed.

A symbol is the name of an index in the kernel: a loop variable, or `LANE`. The innermost loop runs over vectors; lane k of a
vector is at loop variable + k, so an index of a vector contains the symbol `LANE`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from nabla_mlir.passes.iree.kernels.graph import Node, Shape, Windows

# The symbol for the number of a lane in a vector.
LANE = "lane"
Range = tuple[int, int]  # the smallest and the largest value


class Affine(NamedTuple):
    """The expression constant + sum of coefficient * symbol; a term is (symbol, coefficient), sorted, with no coefficient 0."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Affine | int) -> Affine:  # type: ignore[override]  # of indices, not of tuples
        """The sum of two affine expressions, or of one and a number; terms that cancel are left out."""
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        if not other.terms or not self.terms:
            return Affine(self.terms or other.terms, self.constant + other.constant)
        sums = dict(self.terms)
        for symbol, factor in other.terms:
            sums[symbol] = sums.get(symbol, 0) + factor
        terms = tuple(sorted((s, f) for s, f in sums.items() if f))
        return Affine(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Affine:  # type: ignore[override]
        """The expression times a number."""
        if factor == 0:
            return ZERO
        return Affine(tuple((s, f * factor) for s, f in self.terms), self.constant * factor)

    @property
    def lane(self) -> int:
        """The distance between the indices of neighbouring lanes: the coefficient of `LANE`."""
        return next((factor for symbol, factor in self.terms if symbol == LANE), 0)

    def scalar(self) -> Affine:
        """The index of the first lane: the expression without `LANE`."""
        return Affine(tuple(t for t in self.terms if t[0] != LANE), self.constant)

    def range(self, ranges: Mapping[str, Range]) -> Range:
        """The smallest and the largest value of the expression; `ranges` has the smallest and largest value of each symbol."""
        low = high = self.constant
        for symbol, factor in self.terms:
            bounds = [factor * b for b in ranges[symbol]]
            low, high = low + min(bounds), high + max(bounds)
        return low, high


ZERO = Affine()
Index = tuple[Affine, ...]
# Start(x, n, i) is the element of the integer array x at the index i, clamped to 0 ... n - 1, as an affine index.
Start = Callable[[Node, int, Index], Affine]


def origin(node: Node) -> Index:
    """The index of the first element."""
    return (ZERO,) * len(node.shape)


class NeedsBuffer(Exception):  # noqa: N818 - asks the planner for something
    """An element has no affine index, unless `node` (the value or its operand) is in memory."""

    def __init__(self, node: Node):
        super().__init__(node.name)
        self.node = node


def symbol(name: str) -> Affine:
    """The symbol as an affine expression."""
    return Affine(((name, 1),))


def linear(index: Sequence[Affine], shape: Shape) -> Affine:
    """The offset of an element in a dense row-major array of `shape`: for the index (i, j) and the shape (n, m), i * m + j."""
    total = ZERO
    for i, n in zip(index, shape, strict=True):
        total = total * n + i
    return total


def reads(node: Node, index: Index, ranges: Mapping[str, Range], start: Start) -> list[tuple[Node, Index]]:
    """The elements of operands, as pairs of node and index, from which the element of `node` at `index` is computed or copied.

    For example, the element (i, j) of a transpose is copied from the element (j, i) of its operand. `ranges` has the range of each
    symbol; `start` makes an affine index of an element of an integer array.

    Raises:
      NeedsBuffer: which elements are read depends on the values of the symbols, or an index is not affine.
    """
    operands = node.operands
    if node.name == "broadcast_in_dim":
        source = tuple(index[d] for d in node.attributes["broadcast_dimensions"])
    elif node.name == "transpose":
        positions = dict(zip(node.attributes["permutation"], index, strict=True))
        source = tuple(positions[d] for d in range(len(index)))
    elif node.name == "slice":
        steps = zip(index, node.attributes["start_indices"], node.attributes["strides"], strict=True)
        source = tuple(i * stride + first for i, first, stride in steps)
    elif node.name == "reverse":
        reversed_axes = node.attributes["dimensions"]
        source = tuple(
            i * -1 + (n - 1) if d in reversed_axes else i for d, (i, n) in enumerate(zip(index, node.shape, strict=True))
        )
    elif node.name == "dynamic_slice":
        whole = operands[0].shape
        source = tuple(i + start(operands[d + 1], whole[d] - node.shape[d] + 1, ()) for d, i in enumerate(index))
        operands = operands[:1]
    elif node.name == "gather":
        source = _gathered(node, index, start)
        operands = operands[:1]
    elif node.name == "reshape":
        source = _reshaped(node, index)
    elif node.name == "pad":
        return [_padded(node, index, ranges)]
    elif node.name == "concatenate":
        return [_part(node, index, ranges)]
    elif node.name in ("constant", "iota"):
        return []
    elif node.name in ("dynamic_update_slice", "reduce", "input", "argument", "result"):
        raise NeedsBuffer(node)
    else:
        return [(n, _inside(index, n.shape)) for n in operands]
    return [(operands[0], _inside(source, operands[0].shape))]


def _inside(index: Index, shape: Shape) -> Index:
    """`index` without superfluous parts: zero in dimensions of size 1 of `shape`, and only as many indices as `shape` has
    dimensions.
    """
    index = index[: len(shape)]
    return index if 1 not in shape else tuple([ZERO if n == 1 else i for i, n in zip(index, shape, strict=True)])


def _reshaped(node: Node, index: Index) -> Index:
    """The index in the operand of a reshape of the element that the reshape has at `index`.

    Raises:
      NeedsBuffer: the reshape joins several axes of the operand, so their indices would need a division.
    """
    operand_index: list[Affine] = []
    for before, after in _groups(node.operands[0].shape, node.shape):
        position = linear([index[d] for d in after], tuple(node.shape[d] for d in after))
        long = [d for d in before if node.operands[0].shape[d] != 1]
        if len(long) > 1:
            raise NeedsBuffer(node.operands[0])
        operand_index += [position if d in long else ZERO for d in before]
    return tuple(operand_index)


@functools.lru_cache(maxsize=1024)
def _groups(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """Pairs of neighbouring dimensions of `before` and of `after` with equal numbers of elements, as small as possible.

    For example, (6, 5) and (2, 3, 5) give ([0], [0, 1]) and ([1], [2]).
    """
    groups = []
    i = j = 0
    while i < len(before) or j < len(after):
        left: list[int] = []
        right: list[int] = []
        n = m = 1
        # The group grows on the side with fewer elements so far: n of `before`, m of `after`.
        while (not left and i < len(before)) or (not right and j < len(after)) or n != m:
            if i < len(before) and (n <= m or j == len(after)):
                left.append(i)
                n *= before[i]
                i += 1
            else:
                right.append(j)
                m *= after[j]
                j += 1
        groups.append((left, right))
    return groups


def _gathered(node: Node, index: Index, start: Start) -> Index:
    """The index in the operand of the element that a gather has at `index`: the window's start plus the index in the window."""
    operand, indices = node.operands
    windows, source = node.attributes["windows"], []
    for n, size, (along, component) in zip(operand.shape, windows.sizes, windows.sources, strict=True):
        position = ZERO if along is None else index[along]
        if component is not None:
            position += start(indices, n - size + 1, component_at(windows, index, component, indices.shape))
        source.append(position)
    return tuple(source)


def component_at(windows: Windows, index: Mapping[int, Affine] | Index, component: int, shape: Shape) -> Index:
    """The index, in the array of start indices, of one component of the index vector that an element of a gather or scatter uses.

    Args:
      windows: the dimension numbers of the gather or scatter.
      index: the index of the element in the result of the gather, or in the updates; batch dimensions are enough.
      component: the number of the component in the index vector.
      shape: the shape of the array of start indices.
    """
    batch = [index[d] for d in windows.batch]
    whole = (*batch[: windows.vector], Affine((), component), *batch[windows.vector :])
    return _inside(whole, shape)


def lanes_choose(node: Node, index: Index) -> bool:
    """True if each lane of a gather reads at an index of its own."""
    return node.name == "gather" and any(index[d].lane for d in node.attributes["windows"].batch)


def at_lane(index: Index, lane: int) -> Index:
    """The index of the element in one lane, from the index of a vector."""
    return tuple(i.scalar() + i.lane * lane for i in index)


def _padded(node: Node, index: Index, ranges: Mapping[str, Range]) -> tuple[Node, Index]:
    """The element of the operand, or the padding value, that the result of a pad has at `index`.

    Raises:
      NeedsBuffer: `ranges` allow both, or there is padding between the elements.
    """
    operand, padding = node.operands
    if any(node.attributes["interior_padding"]):
        raise NeedsBuffer(node)
    source = tuple(i + -low for i, low in zip(index, node.attributes["edge_padding_low"], strict=True))
    inside = True
    # No index can be inside: the padding. All are inside: the operand. Else both are possible.
    for position, n in zip(source, operand.shape, strict=True):
        low, high = position.range(ranges)
        if high < 0 or low >= n:
            return padding, origin(padding)
        inside = inside and low >= 0 and high < n
    if not inside:
        raise NeedsBuffer(node)
    return operand, _inside(source, operand.shape)


def _part(node: Node, index: Index, ranges: Mapping[str, Range]) -> tuple[Node, Index]:
    """The operand of a concatenation that has the element at `index`, and the index in this operand.

    Raises:
      NeedsBuffer: `ranges` allow several operands.
    """
    axis = node.attributes["dimension"]
    low, high = index[axis].range(ranges)
    first = 0
    for operand in node.operands:
        n = operand.shape[axis]
        if first <= low and high < first + n:
            source = (*index[:axis], index[axis] + -first, *index[axis + 1 :])
            return operand, _inside(source, operand.shape)
        first += n
    raise NeedsBuffer(node)
