"""Slices as boxes of elements: what a slice of a slice, or of one part of a concatenation, is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import I64Array


@dataclass(frozen=True)
class Box:
    """What a slice takes of its operand, along each axis."""

    start: tuple[int, ...]
    limit: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(op: ir.Operation) -> Box:
        """What `stablehlo.slice` takes."""
        fields = (op.attributes[name] for name in ("start_indices", "limit_indices", "strides"))
        return Box(*(tuple(I64Array.decode(field)) for field in fields))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is taken."""
        return tuple(-(-(n - s) // k) for s, n, k in zip(self.start, self.limit, self.strides, strict=True))

    @property
    def end(self) -> tuple[int, ...]:
        """Behind the last element that is taken; the limit may lie further."""
        return _end(self.start, self.shape, self.strides)

    def within(self, outer: Box) -> Box:
        """A slice of the slice `outer`, as one of its operand."""
        # An empty one may start behind the end of the operand.
        places = zip(outer.start, self.start, outer.strides, self.shape, strict=True)
        start = tuple(o + s * k if n else 0 for o, s, k, n in places)
        strides = tuple(k * s for k, s in zip(outer.strides, self.strides, strict=True))
        return Box(start, _end(start, self.shape, strides), strides)

    def behind(self, place: Sequence[int]) -> Box:
        """The same elements, as a slice of what begins at `place`."""
        start, limit = (tuple(n - a for n, a in zip(edge, place, strict=True)) for edge in (self.start, self.end))
        return Box(start, limit, self.strides)

    def in_part(self, sizes: Sequence[int], axis: int) -> tuple[int, Box] | None:
        """Which part of a concatenation holds all of it, and where; None if none does.

        Args:
          sizes: of the parts, along the axis.
          axis: along which they follow each other.
        """
        place = 0
        for part, size in enumerate(sizes):
            if place <= self.start[axis] and self.end[axis] <= place + size:
                return part, self.behind([place * (d == axis) for d in range(len(self.start))])
            place += size
        return None


def _end(start: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(s + (n - 1) * k + 1 if n else s for s, n, k in zip(start, shape, strides, strict=True))
