"""The axes of a convolution, and the movement of its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.passes.iree.scheduling.views import Padding


@dataclass(frozen=True)
class Window:
    """The movement of the window of a convolution, for each spatial axis.

    Args:
      strides: the distance of neighbouring positions of the result.
      dilation: the distance of neighbouring elements of the kernel.
      padding: the padding of the input, also between its elements.
      reversed_axes: True if the kernel is reversed.
    """

    strides: Sequence[int]
    dilation: Sequence[int]
    padding: Sequence[Padding]
    reversed_axes: Sequence[bool]

    @staticmethod
    def of(op: ir.Operation) -> Window:
        """The window of a stablehlo.convolution."""
        attributes, rank = op.attributes, len(op.results[0].type.shape) - 2
        numbers = lambda name: list(attributes[name]) if name in attributes else [1] * rank  # noqa: E731
        sides = hlo.Padding.decode(attributes["padding"]) if "padding" in attributes else ((0, 0),) * rank
        flags = hlo.BoolArray.decode(attributes["window_reversal"]) if "window_reversal" in attributes else (False,) * rank
        # A dilation of n puts n - 1 zeros between neighbours.
        padding = [Padding(low, high, n - 1) for (low, high), n in zip(sides, numbers("lhs_dilation"), strict=True)]
        return Window(numbers("window_strides"), numbers("rhs_dilation"), padding, flags)


def groups_of(op: ir.Operation) -> tuple[int, int]:
    """The number of groups of features, and of groups of the batch, of a convolution."""
    features, batches = (hlo.I64.decode(op.attributes[f"{name}_group_count"]) for name in ("feature", "batch"))
    return features, batches
