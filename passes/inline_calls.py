"""Calls, and composites, which are calls of what defines them: the bodies in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.errors import ImportIRError
from nabla_mlir.ops.registry import clone_op
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class InlineCallsPass(Pass):
    """Put the body of each called function in place of the call, and drop private functions.

    A composite is a call of its decomposition. MLIR's own inliner takes any operation of an unregistered dialect with
    one region for a table of symbols, and crashes on ours.
    Example: tests/filecheck/passes/inline_calls.mlir
    """

    name: ClassVar[str] = "nabla-inline-calls"

    def run(self, module: ir.Operation) -> None:
        for op in nested(module):
            if op.name == "stablehlo.composite":
                remade(op, "func.call", {"callee": op.attributes["decomposition"]})
            elif op.name == "stablehlo.return" and op.parent.name == "func.func":
                remade(op, "func.return", {})
        functions = functions_of(module)
        done: set[str] = set()
        for name in functions:
            _inline_into(name, functions, done, ())
        for function in functions.values():
            if is_private(function):
                function.erase()


def _inline_into(name: str, functions: dict[str, ir.Operation], done: set[str], callers: tuple[str, ...]) -> None:
    if name in callers:
        raise ImportIRError(f"importing requires functions that do not call themselves, got @{name}.")
    if name in done:
        return
    for op in nested(functions[name]):
        callee = op.attributes["callee"].value if op.name == "func.call" else None
        if callee not in functions or not len(functions[callee].regions[0].blocks):
            continue
        _inline_into(callee, functions, done, (*callers, name))
        block = functions[callee].regions[0].blocks[0]
        mapping = dict(zip(block.arguments, op.operands, strict=True))
        *operations, terminator = (o.operation for o in block.operations)
        with ir.InsertionPoint(op):
            for inner in operations:
                clone_op(inner, mapping)
        for old, value in zip(op.results, terminator.operands, strict=True):
            old.replace_all_uses_with(mapping.get(value, value))
        op.erase()
    done.add(name)


def remade(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    """The same operands and results under another name."""
    with op.location, ir.InsertionPoint(op):
        made = ir.Operation.create(
            name, results=[r.type for r in op.results], operands=list(op.operands), attributes=attributes
        )
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
