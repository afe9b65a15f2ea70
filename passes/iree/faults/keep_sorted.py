"""Results of sorts that nothing uses, and that IREE would compute on the stack or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import TargetPass
from nabla_mlir.passes.iree.faults.buffers import STACK, bytes_of, use_at_the_end


@register
@dataclass(frozen=True)
class KeepSortedPass(TargetPass):
    """Add a use to results of sorts that nothing uses.

    IREE 3.13 sorts the operand of an unused result on the stack, 64 rows at once ("exceeded stack allocation limit"). On a GPU it
    does not compile some sorts of a single row with an unused result ("failed to bufferize op").

    Example: tests/filecheck/passes/keep_sorted.mlir
    """

    name: ClassVar[str] = "nabla-keep-sorted"

    def run(self, module: ir.Operation) -> None:
        """Adds uses to unused results of sorts, in place."""
        for sort in nested_in_functions(module):
            if sort.name != "stablehlo.sort" or not is_static_tensor(sort.results[0].type):
                continue
            for result in sort.results:
                if not any(True for _ in result.uses) and self._needs_use(sort, result):
                    use_at_the_end(Val(result))

    def _needs_use(self, sort: ir.Operation, result: ir.Value) -> bool:
        """True if IREE would fail on a sort with this unused result: it has one row (on a GPU), or needs too much of the stack."""
        shape = result.type.shape
        length = shape[ir.IntegerAttr(sort.attributes["dimension"]).value]
        if self.codegen.sorted_operands:
            return math.prod(shape) == length
        return min(64 * length * _width(result), bytes_of(result.type) or 0) > STACK


def _width(value: ir.Value) -> int:
    """The number of bytes of an element."""
    return shape_and_dtype(value.type)[1].itemsize
