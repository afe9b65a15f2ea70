"""Large sums of values that are computed from small values, as kernels that store no large value."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import blocks_of
from nabla_mlir.dialects.stablehlo import BARRIERS
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.kernels.graph import NotSupported
from nabla_mlir.passes.iree.kernels.items import SHORT
from nabla_mlir.passes.iree.kernels.sum_groups import Group, Names, combines, groups_of, is_short
from nabla_mlir.table.traits import is_elementwise, size_of


@register
@dataclass(frozen=True)
class FuseSumsPass(Pass):
    """Compute large sums over one space, of values that are computed from small ones, in one kernel.

    IREE writes a value to memory if several sums read it, or if it is summed over a short axis and then again. For example, the
    forces between n bodies need several arrays of n x n x 3. If all large values are only summed, one loop over the space
    computes each element once, adds it to all sums, and stores none.

    Example: tests/filecheck/passes/fuse_sums.mlir
    """

    name: ClassVar[str] = "nabla-fuse-sums"
    vector_bytes: int = 64  # width of the CPU's vector registers
    least_size: int = thresholds.FUSED_SUMS  # the number of elements of the space

    def run(self, module: ir.Operation) -> None:
        """Replaces groups of large sums by kernels, in place."""
        names = Names("sums")
        for block in blocks_of(module):
            for group in [*groups_of(block, self._is_sum, self._is_inner)]:
                if len(group.loops) > 1 and group.stores and _reads_little(group):
                    with contextlib.suppress(NotSupported):
                        group.replace(names, self.vector_bytes)

    def _is_sum(self, op: ir.Operation) -> bool:
        """True for a large reduction over more than a short last axis."""
        return combines(op) and not is_short(op) and size_of(op.operands[0]) >= self.least_size

    def _is_inner(self, op: ir.Operation) -> bool:
        """True for a large value that may be computed element by element in its reader."""
        if not is_static_tensor(op.results[0].type) or size_of(op.results[0]) * SHORT < self.least_size:
            return False
        return is_elementwise(op) or op.name in _MOVES or (combines(op) and is_short(op))


# Operations that only move elements or make constants, so that their readers can compute them.
_MOVES = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.transpose",
    "stablehlo.iota",
    "stablehlo.constant",
    "stablehlo.reshape",
    "stablehlo.bitcast_convert",
    *BARRIERS,
)


def _reads_little(group: Group) -> bool:
    """True if the group reads no large value from memory."""
    return all(thresholds.FUSED_SUMS_READ * size_of(v) <= group.size for v in group.inputs)
