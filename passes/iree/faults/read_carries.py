"""Carries of loops that the next iteration does not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import last_of, nested_in_functions
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.rules.loops import find_counter


@register
@dataclass(frozen=True)
class ReadCarriesPass(Pass):
    """Make the body of a loop of unknown length read every carry, by a barrier together with its next value.

    IREE 3.13 moves constant work before a loop, and for that puts the loop's condition after its body. A carry that only the
    condition reads (`while error > tolerance`) is then no argument of the loop, although it is a result. The next conversion
    does not accept a loop with more results than arguments: it crashes.

    Example: tests/filecheck/passes/read_carries.mlir
    """

    name: ClassVar[str] = "nabla-read-carries"

    def run(self, module: ir.Operation) -> None:
        """Adds barriers that read carries to all loops of unknown length."""
        for loop in nested_in_functions(module):
            if loop.name == "stablehlo.while" and find_counter(loop) is None:
                _read_carries(loop)


def _read_carries(loop: ir.Operation) -> None:
    """Adds a barrier that reads each carry which the body does not read."""
    block = loop.regions[1].blocks[0]
    end = last_of(block)
    for i, argument in enumerate(block.arguments):
        if is_unused(argument):
            value = end.operands[i]
            with ir.InsertionPoint(end), loop.location:
                both = stablehlo.emit(stablehlo.OPTIMIZATION_BARRIER, [value, argument], results=[value.type, argument.type])
            end.operands[i] = both.results[0]
