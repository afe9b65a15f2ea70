"""Slices: the composition of two slices, and the part of a concatenation that a slice reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import I64Array


@dataclass(frozen=True)
class Slice:
    """The elements that a slice selects from its operand, along each axis."""

    start: tuple[int, ...]
    limit: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(op: ir.Operation) -> Slice:
        """The elements that a `stablehlo.slice` selects."""
        fields = (op.attributes[name] for name in ("start_indices", "limit_indices", "strides"))
        return Slice(*(tuple(I64Array.decode(field)) for field in fields))

    @staticmethod
    def whole(shape: Sequence[int]) -> Slice:
        """All elements of an array with this shape."""
        return Slice((0,) * len(shape), tuple(shape), (1,) * len(shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selected elements."""
        return tuple(-(-(n - s) // k) for s, n, k in zip(self.start, self.limit, self.strides, strict=True))

    @property
    def end(self) -> tuple[int, ...]:
        """The position after the last selected element; `limit` may be larger."""
        return _end(self.start, self.shape, self.strides)

    def within(self, outer: Slice) -> Slice:
        """The slice of the operand of the slice `outer` that this slice of its result is: x[2:10][1:3] is x[3:5]."""
        # An empty slice may start after the end of the operand.
        positions = zip(outer.start, self.start, outer.strides, self.shape, strict=True)
        start = tuple(o + s * k if n else 0 for o, s, k, n in positions)
        strides = tuple(k * s for k, s in zip(outer.strides, self.strides, strict=True))
        return Slice(start, _end(start, self.shape, strides), strides)

    def relative_to(self, position: Sequence[int]) -> Slice:
        """The same elements, as a slice of an array that begins at index `position` of the operand."""
        start, limit = (tuple(n - a for n, a in zip(edge, position, strict=True)) for edge in (self.start, self.end))
        return Slice(start, limit, self.strides)

    def in_part(self, sizes: Sequence[int], axis: int) -> tuple[int, Slice] | None:
        """The part of a concatenation that holds the whole slice, as its number and the slice inside it; None if no part does.

        Args:
          sizes: the sizes of the parts along the axis.
          axis: the axis of the concatenation.
        """
        position = 0
        for part, size in enumerate(sizes):
            if position <= self.start[axis] and self.end[axis] <= position + size:
                return part, self.relative_to([position if d == axis else 0 for d in range(len(self.start))])
            position += size
        return None


def _end(start: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The index after the last selected element, along each axis."""
    return tuple(s + (n - 1) * k + 1 if n else s for s, n, k in zip(start, shape, strides, strict=True))
