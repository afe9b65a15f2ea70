"""Loops on the host that IREE would consider ready at any time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir
from iree.compiler.dialects import arith

from nabla_mlir.dialects.regions import last_of, made_by, nested_in_functions, within
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.internals.barriers import behind_barrier
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import runs_regions


@register
@dataclass(frozen=True)
class WaitForLoopsPass(Pass):
    """Pass the result of a loop or branch through a barrier on the host, if its operands have other readers, too.

    IREE 3.13 collects operations that the device runs without the host in between (ReferencePartitioning.cpp). It ignores loops
    and branches without effects there. So a value that both the loop and a reader of its result need (``loop(sin(x)) * sin(x)``)
    goes with the reader: "circular dependency: input operation uses partition output". The barrier, of one number on the host,
    has an effect, and the device does not wait for it.

    Example: tests/filecheck/passes/wait_for_loops.mlir
    """

    name: ClassVar[str] = "nabla-wait-for-loops"

    def run(self, module: ir.Operation) -> None:
        """Passes results of loops and branches through barriers on the host."""
        for op in nested_in_functions(module):
            if op.name != "func.func" and runs_regions(op) and _shares(op):
                with ir.InsertionPoint.after(op), op.location:
                    number = arith.ConstantOp(ir.IntegerType.get_signless(32), 0).result
                    behind_barrier([number])


def _shares(op: ir.Operation) -> bool:
    """True if another operation reads a value on which `op` depends; arguments and constants do not count."""
    values, before, work = set[ir.Value](), {op, last_of(op.block)}, reads_of(op)
    while work:
        value = work.pop()
        maker = made_by(value)
        if value not in values and maker is not None and maker.name != "stablehlo.constant" and maker.block == op.block:
            values.add(value)
            before.add(maker)
            work += reads_of(maker)
    return any(within(op.block, use.owner.operation) not in before for value in values for use in value.uses)
