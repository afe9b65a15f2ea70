"""Calls and composites (calls of their decompositions) are replaced by the bodies of the functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import ImportIRError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.registry import clone_op


@register
@dataclass(frozen=True)
class InlineCallsPass(Pass):
    """Replace each call by the body of the called function, and drop private functions.

    A composite is a call of its decomposition. A function that a custom call applies to elements, such as the comparator of
    `ApproxTopK`, stays as a private function. MLIR's own inliner treats any operation of an unregistered dialect with one
    region as a symbol table, and crashes on those of `ad`.

    Example: tests/filecheck/passes/inline_calls.mlir
    """

    name: ClassVar[str] = "nabla-inline-calls"

    def run(self, module: ir.Operation) -> None:
        """Replaces calls by the called functions, and erases private functions that no operation applies, in place."""
        for op in nested(module):
            if op.name == "stablehlo.composite":
                remade(op, "func.call", {"callee": op.attributes["decomposition"]})
            elif op.name == "stablehlo.return" and op.parent.name == "func.func":
                remade(op, "func.return", {})
        functions = functions_of(module)
        check_calls(functions)
        complete: set[str] = set()
        for name in functions:
            _inline_into(name, functions, complete)
        applied = applied_functions(module)
        for name, function in functions.items():
            if name in applied:  # JAX writes them as public functions, which are no entry points
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
            elif is_private(function):
                function.erase()


def applied_functions(module: ir.Operation) -> set[str]:
    """The names of the functions that custom calls of a module apply to elements, such as the comparator of ``ApproxTopK``."""
    return {
        name.value
        for op in nested(module)
        if op.name == "stablehlo.custom_call" and "called_computations" in op.attributes
        for name in op.attributes["called_computations"]
    }


def check_calls(functions: dict[str, ir.Operation]) -> None:
    """Raises ImportIRError if a function of a module calls itself, also through others."""
    calls = {
        name: [(op, op.attributes["callee"].value) for op in nested(function) if op.name == "func.call"]
        for name, function in functions.items()
    }
    ends: set[str] = set()  # the functions whose calls all end

    def visit(name: str, callers: tuple[str, ...]) -> None:
        for op, callee in calls[name]:
            if callee in (*callers, name):
                raise ImportIRError(
                    f"importing requires functions that do not call themselves, got @{callee}.", where=source_of(op.location)
                )
            if callee in calls and callee not in ends:
                visit(callee, (*callers, name))
        ends.add(name)

    for name in calls:
        visit(name, ())


def _inline_into(name: str, functions: dict[str, ir.Operation], complete: set[str]) -> None:
    """Inlines the calls in the function `name`, after those in the functions that it calls.

    Args:
      name: the function.
      functions: all functions of the module.
      complete: the functions without calls; the function `name` is added.
    """
    if name in complete:
        return
    for op in nested(functions[name]):
        callee = op.attributes["callee"].value if op.name == "func.call" else None
        if callee not in functions or not len(functions[callee].regions[0].blocks):
            continue
        _inline_into(callee, functions, complete)
        block = functions[callee].regions[0].blocks[0]
        mapping = dict(zip(block.arguments, op.operands, strict=True))
        *operations, terminator = (o.operation for o in block.operations)
        with ir.InsertionPoint(op):
            for inner in operations:
                clone_op(inner, mapping)
        for old, value in zip(op.results, terminator.operands, strict=True):
            old.replace_all_uses_with(mapping.get(value, value))
        op.erase()
    complete.add(name)


def remade(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    """Replaces an operation by an operation `name` with these attributes, on the same operands, with the same result types."""
    with op.location, ir.InsertionPoint(op):
        copy = ir.Operation.create(name, results=[r.type for r in op.results], operands=list(op.operands), attributes=attributes)
    for old, new in zip(op.results, copy.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
