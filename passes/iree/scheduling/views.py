"""Values as views: a transpose, a reversal or a slice is read from the memory of its operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import BARRIERS, SLICES, I64Array
from nabla_mlir.passes.iree.internals.dispatches import DISPATCH
from nabla_mlir.passes.iree.kernels.layout import Axis
from nabla_mlir.table.traits import CONSTANT

# Padded values, by value, block and amounts.
Pads = dict[tuple[ir.Value, ir.Block, tuple[tuple[int, int, int], ...]], Val]


@dataclass(frozen=True)
class Padding:
    """The number of zeros before an axis, after it, and between neighbours; negative numbers remove elements."""

    low: int = 0
    high: int = 0
    interior: int = 0

    def size(self, before: int) -> int:
        """The size of an axis with this padding, from the size `before` without it."""
        return before + self.low + self.high + max(0, before - 1) * self.interior

    @property
    def backwards(self) -> Padding:
        """The same padding for the reversed axis."""
        return replace(self, low=self.high, high=self.low)


class ViewAxis(NamedTuple):
    """An axis of a view: a range of an axis of the value, with a first element and a step.

    Args:
      axis: the axis of the value.
      first: the index of the first element.
      step: the step to the next element; negative for a reversed axis.
      size: the number of elements.
    """

    axis: int
    first: int
    step: int
    size: int

    @property
    def backwards(self) -> ViewAxis:
        """The same elements in reverse order."""
        return self._replace(first=self.first + (self.size - 1) * self.step, step=-self.step)


@dataclass(frozen=True)
class MemoryView:
    """A value as a view of a value in memory.

    Args:
      value: the value in memory.
      dims: the axes of the view.
      padding: the padding of each axis of the value.
    """

    value: ir.Value
    dims: tuple[ViewAxis, ...]
    padding: tuple[Padding, ...]

    @staticmethod
    def of(value: ir.Value, padding: Sequence[Padding] = ()) -> MemoryView:
        """The view that reads a value from the operand of its transposes and reversals, and of its slices if there is no padding.

        Args:
          value: the value.
          padding: the padding along each of its axes; empty for none.
        """
        dims = [ViewAxis(n, 0, 1, size) for n, size in enumerate(value.type.shape)]
        is_padded = any(p != Padding() for p in padding)
        while (maker := made_by(value)) is not None and maker.name in _VIEWS:
            if maker.name in SLICES and (is_padded or not _is_in_memory(maker.operands[0])):
                break
            dims = _VIEWS[maker.name](maker, dims)
            value = maker.operands[0]
        paddings = [Padding()] * len(dims)
        for n, amount in enumerate(padding if is_padded else ()):
            paddings[dims[n].axis] = amount.backwards if dims[n].step < 0 else amount
            size = amount.size(dims[n].size)  # with padding there are no slices, so the view has the whole axis
            dims[n] = dims[n]._replace(first=size - 1 if dims[n].step < 0 else 0, size=size)
        return MemoryView(value, tuple(dims), tuple(paddings))

    def backwards(self, axes: Sequence[int]) -> MemoryView:
        """The same view with some axes reversed."""
        return replace(self, dims=tuple(d.backwards if n in axes else d for n, d in enumerate(self.dims)))

    @property
    def elements(self) -> int:
        """The number of elements of the value, with its padding."""
        return _strides(self._shape)[1]

    @property
    def axes(self) -> list[Axis]:
        """The axes of the view, with their strides in memory."""
        strides, _ = _strides(self._shape)
        return [Axis(d.size, d.step * strides[d.axis]) for d in self.dims]

    @property
    def start(self) -> int:
        """The offset of the first element of the view."""
        strides, _ = _strides(self._shape)
        return sum(d.first * strides[d.axis] for d in self.dims)

    def in_memory(self, block: ir.Block, pads: Pads) -> Val:
        """The value in memory with its padding, computed in a block; `pads` caches padded values."""
        amounts = tuple((p.low, p.high, p.interior) for p in self.padding)
        if not any(map(any, amounts)):
            return Val(self.value)
        key = self.value, block, amounts
        if key not in pads:
            low, high, interior = zip(*amounts, strict=True)
            pads[key] = b.pad(Val(self.value), low, high, interior)
        return pads[key]

    @property
    def _shape(self) -> list[int]:
        """The shape of the value with its padding."""
        return [p.size(n) for p, n in zip(self.padding, self.value.type.shape, strict=True)]


def _strides(shape: Sequence[int]) -> tuple[list[int], int]:
    """The stride of each axis of a row-major array, and its number of elements."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis], step = step, step * shape[axis]
    return strides, step


def _of_transpose(op: ir.Operation, dims: Sequence[ViewAxis]) -> list[ViewAxis]:
    """The axes `dims` of a view of the transpose `op`, as axes of a view of its operand."""
    permutation = I64Array.decode(op.attributes["permutation"])
    return [d._replace(axis=permutation[d.axis]) for d in dims]


def _of_reverse(op: ir.Operation, dims: Sequence[ViewAxis]) -> list[ViewAxis]:
    """The axes `dims` of a view of the reversal `op`, as axes of a view of its operand."""
    sizes, axes = op.operands[0].type.shape, I64Array.decode(op.attributes["dimensions"])
    return [d._replace(first=sizes[d.axis] - 1 - d.first, step=-d.step) if d.axis in axes else d for d in dims]


def _of_slice(op: ir.Operation, dims: Sequence[ViewAxis]) -> list[ViewAxis]:
    """The axes `dims` of a view of the slice `op`, as axes of a view of its operand."""
    starts, steps = (I64Array.decode(op.attributes[name]) for name in ("start_indices", "strides"))
    return [d._replace(first=starts[d.axis] + d.first * steps[d.axis], step=d.step * steps[d.axis]) for d in dims]


_VIEWS = {"stablehlo.transpose": _of_transpose, "stablehlo.reverse": _of_reverse, "stablehlo.slice": _of_slice}


def _is_in_memory(value: ir.Value) -> bool:
    """True if a value is stored in memory: an argument, a constant, the result of a dispatch, or a value with several readers."""
    maker = made_by(value)
    while maker is not None and maker.name in _VIEWS:
        maker = made_by(maker.operands[0])
    return maker is None or maker.name in (CONSTANT, DISPATCH, *BARRIERS) or len(list(maker.results[0].uses)) > 1
