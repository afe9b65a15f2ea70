"""Results of loops whose buffers a GPU would free twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, held
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.rules.loops import find_counter


@register
@dataclass(frozen=True)
class HoldLoopResultsPass(Pass):
    """Pass the results of a loop that may have no iteration through a barrier.

    If one dispatch reads the results of two such loops, IREE 3.13 puts both into one transient buffer, that of their initial
    values. It frees the buffer twice: "Vulkan transient buffer has already been queued for deallocation".

    Example: tests/filecheck/passes/hold_loop_results.mlir
    """

    name: ClassVar[str] = "nabla-hold-loop-results"

    def run(self, module: ir.Operation) -> None:
        """Passes the results of loops that may have no iteration through barriers."""
        for loop in [op for op in nested_in_functions(module) if op.name == "stablehlo.while"]:
            counter = find_counter(loop)
            # Such a loop has an iteration.
            if counter is not None and counter.trips > 0:
                continue
            with ir.InsertionPoint.after(loop), loop.location:
                for result in loop.results:
                    uses = [(use.owner, use.operand_number) for use in result.uses]
                    value = held(Val(result)).value if uses else result
                    for user, i in uses:
                        user.operands[i] = value
