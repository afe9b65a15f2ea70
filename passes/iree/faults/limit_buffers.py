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
_COMPUTED: Buffers = frozenset((None,))  # stands for values that a block computes, and constants, which share one buffer


@register
@dataclass(frozen=True)
class LimitBuffersPass(TargetPass):
    """Materialise values where a kernel would read more arguments than a device binds buffers.

    IREE 3.13 fuses elementwise operations without regard to the number of buffers that its runtime can bind: 32 on a CPU, 16
    on CUDA. For example, a sum of 40 arguments compiles, and is refused at load time. An operation reads the arguments, of the
    function or of a loop, from which elementwise operations compute its operands. A part of the operand with the most
    arguments gets its own kernel, after a compute barrier.

    Example: tests/filecheck/passes/limit_buffers.mlir
    """

    name: ClassVar[str] = "nabla-limit-buffers"

    def run(self, module: ir.Operation) -> None:
        """Adds barriers to blocks with more arguments than a device binds buffers."""
        for block in blocks_in_functions(module):
            if len(block.arguments) > self.codegen.most_arguments:
                self._limit(block)

    def _limit(self, block: ir.Block) -> None:
        """Materialises operands in a block until each kernel reads few enough arguments."""
        sources: dict[ir.Value, Buffers] = {}  # the buffers from which values without their own kernel are computed
        for op in [op.operation for op in block.operations]:
            buffers = [sources.get(x, _COMPUTED if made_by(x) else frozenset((x,))) for x in op.operands]
            while len(together := frozenset[ir.Value | None]().union(*buffers)) > self.codegen.most_arguments:
                i = max(range(len(buffers)), key=lambda i: len(buffers[i]))
                if len(buffers[i]) == 1:
                    break  # an operation with many operands, such as a concatenation, copies them one by one
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
