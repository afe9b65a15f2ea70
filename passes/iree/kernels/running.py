"""Running sums, products and extrema along an axis as a kernel.

Elements are combined in blocks, and blocks in blocks of blocks, so that few roundings follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text

_BLOCK = 128  # the number of elements, or of blocks, that are combined one after another; they form a block of the next level
_CHAINS = 4  # the number of vectors, or rows, that are processed together, because each waits for its last result
_GROUP = 1 << 14  # the least number of elements of a workgroup


@dataclass(frozen=True)
class Lines:
    """The lines of an array along an axis.

    Args:
      outer, count, inner: the product of the sizes before the axis, its size, and the product of the sizes after it.
      is_reversed: True if lines run from the end.
    """

    outer: int
    count: int
    inner: int
    is_reversed: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the array."""
        return self.outer, self.count, self.inner

    @property
    def rows(self) -> int:
        """The number of outer indices of a workgroup; a multiple of the lines that are processed together if there are no
        inner axes.
        """
        rows = min(self.outer, -(-_GROUP // (self.count * self.inner)))
        return rows if self.inner > 1 or self.outer < _CHAINS else min(-(-rows // _CHAINS) * _CHAINS, self.outer)

    @property
    def groups(self) -> int:
        """The number of workgroups."""
        return -(-self.outer // self.rows)

    def position(self, t: Text, i: Index) -> Index:
        """The SSA value of the index along the axis of element i of a line: it counts from the end if lines are reversed."""
        return t.of_indices("subi", self.count - 1, i) if self.is_reversed else i


@dataclass(frozen=True)
class Running(Lines):
    """The operation that is combined along lines.

    Args:
      operation: an operation of `arith`: addf, mulf, maximumf, minimumf.
      neutral: the neutral element, in MLIR's syntax.
    """

    operation: str
    neutral: str


# line(positions, is_vector) writes the code for several lines at once. A position is the pair of outer and inner index of a line,
# or of the first of as many lines as a vector has lanes, if `is_vector`.
Line = Callable[[Sequence[tuple[Index, Index]], bool], None]


def running_text(name: str, running: Running, form: Form) -> tuple[str, list[Memory]]:
    """A kernel for y[o, i, j] = x[o, 0, j] * ... * x[o, i, j], where * stands for the operation of `running`.

    Args:
      name: the name of the kernel.
      running: the lines and the operation.
      form: the number of lanes of a vector, and the element type.

    Returns:
      The text, and the buffer of the result.
    """
    t = Text(form)
    x, y = Memory("%x", running.shape, form.element, read_only=True), Memory("%y", running.shape, form.element)
    write_lines(t, running, partial(_line, t, running, x, y))
    return t.kernel(name, [x, y], (running.groups, 1, 1)), [y]


def write_lines(t: Text, lines: Lines, line: Line) -> None:
    """Writes the loops over all lines of a workgroup; `line` writes the code for a few lines at once (see `Line`).

    A few lines together keep a core busy, since each operation waits for the last result of its line.
    """
    rows = lines.rows
    first = t.of_indices("muli", t.result(workgroup()), rows)
    last = t.of_indices("minsi", t.add(first, rows), lines.outer)
    if lines.inner > 1:
        with t.loop(first, last) as o:
            _over_columns(t, lines, line, o)
    else:
        whole = t.add(first, t.multiple(t.of_indices("subi", last, first), _CHAINS))
        with t.loop(first, whole, _CHAINS) as o:
            line([(t.add(o, k), 0) for k in range(_CHAINS)], False)
        with t.loop(whole, last) as o:
            line([(o, 0)], False)


def _over_columns(t: Text, lines: Lines, line: Line, o: str) -> None:
    """Writes the loops over the lines with outer index `o`: groups of vectors of lines, remaining vectors, remaining lines.

    `line` writes the code for a few of these lines at once; see `Line`.
    """
    lanes = t.form.lanes
    step, inner = _CHAINS * lanes, lines.inner
    whole = inner // step * step
    if whole:
        with t.loop(0, whole, step) as j:
            line([(o, t.add(j, k * lanes)) for k in range(_CHAINS)], True)
    vectors = range(whole, inner - lanes + 1, lanes)
    if vectors:
        line([(o, j) for j in vectors], True)
    elements = range(whole + len(vectors) * lanes, inner)
    if elements:
        line([(o, j) for j in elements], False)


def _line(t: Text, running: Running, x: Memory, y: Memory, positions: Sequence[tuple[Index, Index]], is_vector: bool) -> None:
    """Writes the running combination of `x` to `y` along several lines at once, block by block.

    `positions` has the pairs of outer and inner index of the lines; if `is_vector`, each is the first of as many lines as lanes.
    """
    kind = t.form.vector if is_vector else t.form.element
    neutral = t.constant(f"dense<{running.neutral}>" if is_vector else running.neutral, kind)
    kinds, nothing = [kind] * len(positions), [neutral] * len(positions)
    levels = 0  # of blocks within the axis
    while _BLOCK ** (levels + 1) < running.count:
        levels += 1

    def combined(values: Sequence[str], others: Sequence[str]) -> list[str]:
        """The combinations of each value with the other one at the same index."""
        return [t.result(f"arith.{running.operation} {a}, {b} : {kind}") for a, b in zip(values, others, strict=True)]

    def element(base: Sequence[str] | None, i: str, values: list[str]) -> list[str]:
        """Writes element i of all lines; returns `values` combined with it."""
        index = running.position(t, i)
        source, target = (t.vector, t.put) if is_vector else (t.load, t.store)
        new = combined(values, [source(x, o, index, j) for o, j in positions])
        for value, (o, j) in zip(new if base is None else combined(base, new), positions, strict=True):
            target(value, y, o, index, j)
        return new

    def block(level: int, base: Sequence[str] | None, start: Index, values: list[str]) -> list[str]:
        """Writes a block, and returns `values` combined with all elements of the block.

        A block of level n has _BLOCK blocks of level n - 1. `base` combines all elements before the enclosing block, and
        `values` those between its start and this block.
        """
        before = values if base is None else combined(base, values)
        size = _BLOCK ** (level + 1)
        stop = t.of_indices("minsi", t.add(start, size), running.count)
        if level == 0:
            body = partial(element, before)
            return combined(values, t.carried(start, stop, nothing, kinds, body))
        inner = t.carried(start, stop, nothing, kinds, partial(block, level - 1, before), _BLOCK**level)
        return combined(values, inner)

    if levels == 0:
        t.carried(0, running.count, nothing, kinds, partial(element, None))
    else:
        t.carried(0, running.count, nothing, kinds, partial(block, levels - 1, None), _BLOCK**levels)
