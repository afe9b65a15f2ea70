"""Results of sorts that IREE would compute on the stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.buffers import STACK, bytes_of, use_at_the_end


@register
@dataclass(frozen=True)
class KeepSortedPass(Pass):
    """Add a use to each large result of a sort that nothing uses.

    IREE sorts the operand of an unused result on the stack, 64 rows at once ("exceeded stack allocation limit").

    Example: tests/filecheck/passes/keep_sorted.mlir
    """

    name: ClassVar[str] = "nabla-keep-sorted"

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        for sort in nested_in_functions(module):
            if sort.name != "stablehlo.sort" or not is_static_tensor(sort.results[0].type):
                continue
            length = sort.results[0].type.shape[ir.IntegerAttr(sort.attributes["dimension"]).value]
            for result in sort.results:
                if (
                    not any(True for _ in result.uses)
                    and min(64 * length * _width(result), bytes_of(result.type) or 0) > STACK
                ):
                    use_at_the_end(Val(result))


def _width(value: ir.Value) -> int:
    return shape_and_dtype(value.type)[1].itemsize
