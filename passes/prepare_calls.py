"""Calls as MLIR's inliner understands them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class PrepareCallsPass(Pass):
    """Make every composite a call of the function that defines it, and every function return as MLIR's do.

    Then `inline` and `symbol-dce` put the bodies in place of the calls.
    Example: tests/filecheck/passes/prepare_calls.mlir
    """

    name: ClassVar[str] = "nabla-prepare-calls"

    def run(self, module: ir.Operation) -> None:
        for op in list(nested(module)):
            if op.name == "stablehlo.composite":
                remade(op, "func.call", {"callee": op.attributes["decomposition"]})
            elif op.name == "stablehlo.return" and op.parent.name == "func.func":
                remade(op, "func.return", {})


def remade(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    """The same operands and results under another name."""
    with op.location, ir.InsertionPoint(op):
        made = ir.Operation.create(
            name, results=[r.type for r in op.results], operands=list(op.operands), attributes=attributes
        )
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
