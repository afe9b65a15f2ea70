"""Counted loops on a GPU with several steps in each iteration; a step is an iteration of the original loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import nested, nested_in_functions
from nabla_mlir.ops.elementwise import add
from nabla_mlir.ops.logic import compare
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.count_loops import index, iteration, value_of
from nabla_mlir.rules.loops import Counter, find_counter
from nabla_mlir.table.regions import emit_while, replace
from nabla_mlir.table.tensor import Tensor, wrap


@register
@dataclass(frozen=True)
class UnrollLoopsPass(Pass):
    """Write several steps of a loop of known length into one iteration.

    IREE 3.13 runs a loop on the host, and each iteration waits until the GPU has finished the one before: 0.1 to 0.2 ms. With 8
    steps in an iteration there are 8 times fewer waits.

    Example: tests/filecheck/passes/unroll_loops.mlir
    """

    name: ClassVar[str] = "nabla-unroll-loops"

    def run(self, module: ir.Operation) -> None:
        """Unrolls all loops of known length, in place."""
        # Inner loops come first: with their steps, the body of an outer loop may be too large.
        for op in reversed(list(nested_in_functions(module))):
            if op.name == "stablehlo.while" and (counter := find_counter(op)) is not None:
                steps = _steps(op, counter)
                if steps > 1:
                    _unroll(op, counter, steps)


def _steps(op: ir.Operation, counter: Counter) -> int:
    """The number of steps to write into one iteration of the loop `op`: as many as the limits on steps and operations allow."""
    size = max(1, len(nested(op)))
    return min(counter.trips, thresholds.UNROLLED_STEPS, thresholds.UNROLLED_OPERATIONS // size)


def _unroll(op: ir.Operation, counter: Counter, steps: int) -> None:
    """Replaces a loop by one with `steps` steps in each iteration, followed by the remaining steps.

    `counter` describes the counter of the loop and the number of its iterations.
    """
    others = [i for i in range(len(op.operands)) if i != counter.carry]
    whole, remaining = divmod(counter.trips, steps)

    def body(carry: list[Tensor]) -> list[Tensor]:
        """The values after `steps` steps of the old loop."""
        number, states = carry[0], carry[1:]
        for k in range(steps):
            states = iteration(op, counter, add(number, index(k)) if k else number, states)
        return [add(number, index(steps)), *states]

    with ir.InsertionPoint(op), op.location:
        states = [wrap(op.operands[i]) for i in others]
        if whole > 1:
            limit = index(whole * steps)
            less = lambda carry: compare(carry[0], limit, comparison_direction="LT")  # noqa: E731
            states = emit_while([index(0), *states], less, body)[1:]
        else:  # less than two iterations: all steps are written out
            remaining = counter.trips
        for k in range(counter.trips - remaining, counter.trips):
            states = iteration(op, counter, index(k), states)
        results = dict(zip(others, states, strict=True))
        results[counter.carry] = value_of(op, counter, index(counter.trips))
        replace(op, [results[i] for i in range(len(op.operands))])
