"""Kernels that would read more buffers than a device binds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, stored
from nabla_mlir.dialects.regions import blocks_in_functions, made_by
from nabla_mlir.dialects.stablehlo import constant_splat
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import TargetPass
from nabla_mlir.table.traits import is_elementwise, is_free, is_part, is_view

Buffers = frozenset[ir.Value | None]
_COMPUTED: Buffers = frozenset((None,))  # what is computed in a block, and constants, lie in one buffer


@register
@dataclass(frozen=True)
class LimitBuffersPass(TargetPass):
    """Put values into memory where a kernel would read more arguments than a device binds buffers.

    IREE 3.13 fuses elementwise operations without looking at how many buffers its runtime can bind, 32 on a CPU and 16 on
    CUDA: a sum of 40 arguments compiles, and is refused when it is loaded. An operation reads the arguments, of the function
    or of a loop, that its operands are computed from by elementwise operations. Of the operand with most of them a part
    has a kernel of its own, behind a compute barrier.
    Example: tests/filecheck/passes/limit_buffers.mlir
    """

    name: ClassVar[str] = "nabla-limit-buffers"

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        for block in blocks_in_functions(module):
            if len(block.arguments) > self.codegen.most_arguments:
                self._limit(block)

    def _limit(self, block: ir.Block) -> None:
        sources: dict[ir.Value, Buffers] = {}  # what those values are computed from that are computed where they are read
        for op in [op.operation for op in block.operations]:
            buffers = [sources.get(x, _COMPUTED if made_by(x) else frozenset((x,))) for x in op.operands]
            while len(together := frozenset[ir.Value | None]().union(*buffers)) > self.codegen.most_arguments:
                i = max(range(len(buffers)), key=lambda i: len(buffers[i]))
                if len(buffers[i]) == 1:
                    break  # an operation with so many operands, such as a concatenation, which are copied one by one
                with ir.InsertionPoint(op), op.location:
                    op.operands[i] = stored(Val(op.operands[i])).value
                buffers[i] = _COMPUTED
            if len(op.results) != 1:
                continue
            if op.name == "stablehlo.constant" and constant_splat(op) is not None:
                sources[op.results[0]] = frozenset()
            elif len(op.operands) and (is_elementwise(op) or is_view(op) or is_free(op)):
                sources[op.results[0]] = together
            elif is_part(op):
                sources[op.results[0]] = buffers[0]
