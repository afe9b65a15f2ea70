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
    """Let the body of a loop of unknown length read every carry, by a barrier beside its next value.

    IREE 3.13 moves constant work before a loop, and for that puts the loop's test behind its body. A carry that the test
    alone reads (`while error > tolerance`) is no argument of that loop then, though it is a result, and the conversion
    that follows does not know a loop with more results than arguments: it crashes.
    Example: tests/filecheck/passes/read_carries.mlir
    """

    name: ClassVar[str] = "nabla-read-carries"

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        for loop in nested_in_functions(module):
            if loop.name == "stablehlo.while" and find_counter(loop) is None:
                _read_carries(loop)


def _read_carries(loop: ir.Operation) -> None:
    block = loop.regions[1].blocks[0]
    end = last_of(block)
    for i, argument in enumerate(block.arguments):
        if is_unused(argument):
            value = end.operands[i]
            with ir.InsertionPoint(end), loop.location:
                both = stablehlo.emit(stablehlo.OPTIMIZATION_BARRIER, [value, argument], results=[value.type, argument.type])
            end.operands[i] = both.results[0]
