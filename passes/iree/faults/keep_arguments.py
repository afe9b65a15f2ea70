"""Arguments of functions to which IREE would write although the caller owns their memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.arguments import is_writable
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import functions_of, nested_in_functions
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.buffers import one_buffer, use_at_the_end
from nabla_mlir.table.traits import updated


@register
@dataclass(frozen=True)
class KeepArgumentsPass(Pass):
    """Add a use at the end of the function to each argument that may share its buffer with an updated value.

    IREE copies a buffer before it writes to it if something reads the buffer later. It does not count reads by the caller.
    If a function does not use an argument again, IREE 3.13 writes to the caller's memory, through any operation that it folds
    away (`x * 1`, a transpose of a row, a conversion to the signed type of the same width). IREE means to protect arguments
    imported without `consume`, but loses this fact where the import changes the lifetime to an unknown one
    (ElideAsyncCopies.cpp, after https://github.com/iree-org/iree/pull/22844).

    Example: tests/filecheck/passes/keep_arguments.mlir
    """

    name: ClassVar[str] = "nabla-keep-arguments"

    def run(self, module: ir.Operation) -> None:
        """Adds a use, at the end of each function, of each argument that IREE might overwrite."""
        targets = one_buffer(op.operands[i] for op in nested_in_functions(module) for i in updated(op))
        for function in functions_of(module).values():
            blocks = function.regions[0].blocks
            for i, argument in enumerate(blocks[0].arguments if len(blocks) else ()):
                if argument in targets and not is_writable(function, i):
                    use_at_the_end(Val(argument))
