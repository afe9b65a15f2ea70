"""The code of sums over one space that one kernel computes; each term is computed where it is added.

A sum stands for any reduction. Its slots are its carries in a loop: a vector of partial sums, and a scalar if some elements of the
last loop do not fill a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nabla_mlir.passes.iree.internals.executables import binding, executable, workgroup
from nabla_mlir.passes.iree.kernels.code import NestWriter
from nabla_mlir.passes.iree.kernels.graph import Node, NotSupported
from nabla_mlir.passes.iree.kernels.index import LANE, ZERO, Affine, Index, NeedsBuffer, linear, symbol
from nabla_mlir.passes.iree.kernels.items import Space
from nabla_mlir.passes.iree.kernels.scalars import neutral
from nabla_mlir.passes.iree.kernels.writer import Buffer, Code


@dataclass(frozen=True)
class Sum:
    """A reduction as a part of a loop nest.

    Args:
      node: the reduction.
      space: the space of its operand.
      first: the index of the first loop from which on all loops are reduced; the number of loops if the last one is not
        reduced.
      is_partial: True if each workgroup has a separate result.
    """

    node: Node
    space: Space
    first: int
    is_partial: bool

    @staticmethod
    def of(node: Node) -> Sum:
        """The description of a reduction, given by a node named "reduce".

        `first` is the number of loops before the innermost reduced ones: for sums over the last axis of three it is 2.
        """
        shape, space = node.operands[0].shape, Space.of(node.operands[0].shape)
        # The dimensions that have a loop, and for each one True if it is reduced.
        long = [d for d, n in enumerate(shape) if n != 1][: len(space.loops)]
        is_reduced = [d in node.attributes["dimensions"] for d in long]
        # The first of the reduced loops at the end, which are counted from the last one on.
        first = len(is_reduced) - next((i for i, flag in enumerate(reversed(is_reduced)) if not flag), len(is_reduced))
        return Sum(node, space, first, any(is_reduced[:first]) or is_reduced[0])

    @property
    def adds(self) -> bool:
        """True if the kernel adds to the memory of the sum in each iteration, because an outer loop is reduced."""
        return self.is_partial and self.first > 0

    def positions(self, loops: Sequence[Affine]) -> dict[Index, list[Index]]:
        """The indices of the elements that one iteration reduces, by the index of their sum in the result.

        `loops` has the index of each loop.
        """
        groups: dict[Index, list[Index]] = {}
        for position in self.space.indices(self.node.operands[0].shape, loops):
            target = tuple(p for d, p in enumerate(position) if d not in self.node.attributes["dimensions"])
            groups.setdefault(target, []).append(position)
        return groups


class SumsKernel(NestWriter):
    """Writes a kernel with several sums: workgroups share the first loop, and vectors run along the last loop.

    A sum over the last loops stays in registers; a sum over an outer loop is added to memory. If the first loop is
    reduced, each workgroup has a separate result.
    """

    def write(self, name: str, sums: Sequence[Sum], inputs: Sequence[Node], groups: int) -> str:
        """The text of an executable that reads `inputs` and writes `sums`; a partial sum has a result for each workgroup.

        `groups` is the number of workgroups, which share the iterations of the first loop.

        Raises:
          NotSupported: there is no kernel code for an operation, or an element has no affine index.
        """
        self._loops, writer = sums[0].space.loops, self.writer
        self._lane_count = min(self._lanes(s.node.operands[0], self._loops[-1]) for s in sums)
        self._has_tail = self._loops[-1] % self._lane_count > 0
        self._slots = 2 if self._has_tail else 1
        group = writer.pure(workgroup(), ())
        writer.ranges[group] = (0, groups - 1)
        lines, buffers = ["%begin = arith.constant 0 : index"], []
        for i, node in enumerate(inputs):
            buffers.append(Buffer(f"%in{i}", node.dtype, node.size))
            self.values[node] = buffers[-1]
        for i, s in enumerate(sums):
            copies, offset = (groups, symbol(group) * s.node.size) if s.is_partial else (1, ZERO)
            buffers.append(Buffer(f"%out{i}", s.node.dtype, s.node.size * copies, offset))
            self.buffers[s.node] = buffers[-1]
        for i, buffer in enumerate(buffers):
            writer.levels[buffer.name] = 0
            lines.append(binding(buffer.name, buffer.type, i, "%begin", i < len(inputs)))
        try:
            for s in sums:
                if s.adds:
                    self._clear(s)
            # A workgroup runs the iterations share * group ... share * (group + 1) - 1 of the first loop.
            share = -(-self._loops[0] // groups)
            start = writer.index(symbol(group) * share)
            below = writer.index(symbol(group) * share + share)
            end = writer.pure(f"arith.minsi {below}, {writer.integer(self._loops[0])} : index", [below])
            self._nest(sums, [], [], (start, end))
        except NeedsBuffer as need:
            raise NotSupported(f"{need.node.name} at these indices") from None
        read_only = [True] * len(inputs) + [False] * len(sums)
        return executable(name, read_only, [*lines, *writer.blocks[0].lines], (groups, 1, 1))

    def _clear(self, s: Sum) -> None:
        """Writes the neutral element to all elements of the result of a sum, to which the kernel then adds."""
        start = self._constant(neutral(s.node.attributes["combine"], s.node.dtype), s.node.dtype)
        lanes = self._lanes(s.node, s.node.size)
        whole, tail = divmod(s.node.size, lanes)

        def put(position: Affine, carries: list[Code]) -> list[Code]:
            """Stores the neutral element in one vector of the result."""
            self.writer.store(self.buffers[s.node], [position + symbol(LANE)], [start], lanes)
            return carries

        self._repeat(whole, lanes, 1, [], put)
        if tail:
            self.writer.store(self.buffers[s.node], [symbol(LANE) + whole * lanes], [start], tail)

    def _nest(
        self, sums: Sequence[Sum], loops: list[Affine], totals: list[Code], part: tuple[str, str] | None = None
    ) -> list[Code]:
        """The new values of `totals` after the loops from level `len(loops)` on, which this function writes.

        Args:
          sums: the sums.
          loops: the indices of outer loops.
          totals: the carries of the sums that began in outer loops.
          part: the start and the end of the first loop in this workgroup.
        """
        level = len(loops)
        new = [s for s in sums if s.first == level]
        positions = [(s, target) for s in new for target in s.positions(self._with_zeros(loops))]
        starts = [c for s, _ in positions for c in self._begin(s.node, self._lane_count, self._has_tail)]
        carries = [*totals, *starts]
        order = sorted(sums, key=lambda s: s.first)  # as they have begun
        if level == len(self._loops) - 1:
            carries = self._vectors(order, loops, carries)
        else:
            step = lambda i, c: self._nest(order, [*loops, i], c)  # noqa: E731
            carries = self.writer.loop(self._loops[level], 1, carries, step, part)
        for i, (s, target) in enumerate(positions):
            slot = len(totals) + i * self._slots
            self._finish(s, target, carries[slot : slot + self._slots])
        return carries[: len(totals)]

    def _with_zeros(self, loops: Sequence[Affine]) -> list[Affine]:
        """The indices of outer loops, then 0 for each inner loop."""
        return [*loops, *[ZERO] * (len(self._loops) - len(loops))]

    def _vectors(self, sums: Sequence[Sum], loops: list[Affine], carries: list[Code]) -> list[Code]:
        """The carries of all sums after the last loop, over whole vectors, and after the remaining elements.

        `loops` has the indices of the outer loops.
        """
        size, lanes = self._loops[-1], self._lane_count

        def whole(i: Affine, c: list[Code]) -> list[Code]:  # the carries after one whole vector
            return self._element(sums, [*loops, i + symbol(LANE)], lanes, c)

        carries = self._repeat(size // lanes, lanes, 1, carries, whole)
        if tail := size % lanes:
            with self.writer.block(None):
                carries = self._element(sums, [*loops, symbol(LANE) + (size - tail)], tail, carries)
        return carries

    def _element(self, sums: Sequence[Sum], loops: list[Affine], width: int, totals: list[Code]) -> list[Code]:
        """The carries of all sums after an iteration on `width` elements; a sum along which vectors run is written to memory."""
        new, slot = list(totals), 0
        for s in sums:
            if s.first == len(loops):
                self._put(s, loops, width)
                continue
            for positions in s.positions(loops).values():
                for position in positions:
                    new[slot : slot + self._slots] = self._accumulate(s.node, position, width, new[slot : slot + self._slots])
                slot += self._slots
        return new

    def _put(self, s: Sum, loops: list[Affine], width: int) -> None:
        """Writes, or adds to memory, the elements of a sum in one iteration, if its result has an element for each lane."""
        combine, buffer = s.node.attributes["combine"], self._current_buffer(s)
        targets, values = [], []
        for target, positions in s.positions(loops).items():
            targets.append(linear(target, s.node.shape))
            value = self.at(s.node.operands[0], positions[0], width)
            for position in positions[1:]:
                value = self.apply(combine, (value, self.at(s.node.operands[0], position, width)), s.node.dtype)
            if s.adds:
                value = self.apply(combine, (self.writer.load(buffer, targets[-1], width), value), s.node.dtype)
            values.append(value)
        self.writer.store(buffer, targets, values, width)

    def _finish(self, s: Sum, target: Index, totals: Sequence[Code]) -> None:
        """Writes, or adds to memory, the element `target` of a sum, whose carries after its loops are `totals`."""
        value, position, buffer = self._end(s.node, totals, 0), linear(target, s.node.shape), self._current_buffer(s)
        if s.adds:
            value = self.apply(s.node.attributes["combine"], (self.writer.load(buffer, position, 0), value), s.node.dtype)
        self.writer.store(buffer, [position], [value], 0)

    def _current_buffer(self, s: Sum) -> Buffer:
        """The memory of a sum, whose elements may change in the current block."""
        return replace(self.buffers[s.node], floor=self.writer.level)
