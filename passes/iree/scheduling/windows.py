"""What a convolution does: which axes are what, and how its window moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.passes.iree.scheduling.views import Padding


@dataclass(frozen=True)
class Window:
    """How the window of a convolution moves, for each spatial axis.

    Args:
      strides: positions of the result are so far apart.
      dilation: elements of the kernel are.
      padding: of the input, with what lies between its elements.
      reversed_axes: whether the kernel is read backwards.
    """

    strides: Sequence[int]
    dilation: Sequence[int]
    padding: Sequence[Padding]
    reversed_axes: Sequence[bool]

    @staticmethod
    def of(op: ir.Operation) -> Window:
        """Of a stablehlo.convolution."""
        attributes, rank = op.attributes, len(op.results[0].type.shape) - 2
        numbers = lambda name: list(attributes[name]) if name in attributes else [1] * rank  # noqa: E731
        sides = hlo.Padding.decode(attributes["padding"]) if "padding" in attributes else ((0, 0),) * rank
        flags = hlo.BoolArray.decode(attributes["window_reversal"]) if "window_reversal" in attributes else (False,) * rank
        padding = [Padding(low, high, n - 1) for (low, high), n in zip(sides, numbers("lhs_dilation"), strict=True)]
        return Window(numbers("window_strides"), numbers("rhs_dilation"), padding, flags)


def groups_of(op: ir.Operation) -> tuple[int, int]:
    """In how many groups a convolution divides its features, and its batch."""
    features, batches = (hlo.I64.decode(op.attributes[f"{name}_group_count"]) for name in ("feature", "batch"))
    return features, batches
