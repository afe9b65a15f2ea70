"""Calls and composites (calls of their decompositions) are replaced by the bodies of the functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import ImportIRError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.dialects.stablehlo import Bool
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.ops.shape import slice_
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.registry import clone_op
from nabla_mlir.table.tensor import wrap


@register
@dataclass(frozen=True)
class InlineCallsPass(Pass):
    """Replace each call by the body of the called function, and drop private functions.

    A composite is a call of its decomposition, and `ApproxTopK` is a sort whose region calls its comparator. MLIR's own
    inliner treats any operation of an unregistered dialect with one region as a symbol table, and crashes on those of `ad`.

    Example: tests/filecheck/passes/inline_calls.mlir
    """

    name: ClassVar[str] = "nabla-inline-calls"

    def run(self, module: ir.Operation) -> None:
        comparators: set[str] = set()  # JAX writes them as public functions, which are no entry points
        for op in nested(module):
            if op.name == "stablehlo.composite":
                remade(op, "func.call", {"callee": op.attributes["decomposition"]})
            elif op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == "ApproxTopK":
                comparators.add(_sort_by_call(op))
            elif op.name == "stablehlo.return" and op.parent.name == "func.func":
                remade(op, "func.return", {})
        functions = functions_of(module)
        complete: set[str] = set()
        for name in functions:
            _inline_into(name, functions, complete, ())
        for name, function in functions.items():
            if is_private(function) or name in comparators:
                function.erase()


def _inline_into(name: str, functions: dict[str, ir.Operation], complete: set[str], callers: tuple[str, ...]) -> None:
    """Inlines the calls inside the function `name`, those of the called functions first."""
    if name in callers:
        raise ImportIRError(f"importing requires functions that do not call themselves, got @{name}.")
    if name in complete:
        return
    for op in nested(functions[name]):
        callee = op.attributes["callee"].value if op.name == "func.call" else None
        if callee not in functions or not len(functions[callee].regions[0].blocks):
            continue
        _inline_into(callee, functions, complete, (*callers, name))
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


def _sort_by_call(op: ir.Operation) -> str:
    """Replaces ``ApproxTopK`` by a sort, which gives the exact answer; returns the name of its comparator.

    The operands are arrays to sort together, and a scalar for each of them that only the approximation reads.
    """
    xs = list(op.operands)[: len(op.results)]
    attributes = {"dimension": op.attributes["mhlo.backend_config"]["reduction_dim"], "is_stable": Bool.encode(True)}
    with op.location, ir.InsertionPoint(op):
        sort = stablehlo.emit("stablehlo.sort", xs, results=[x.type for x in xs], attributes=attributes, regions=1)
        types = [tensor_type((), shape_and_dtype(x.type)[1]) for x in xs for _ in range(2)]
        block = ir.Block.create_at_start(sort.regions[0], types, [op.location] * len(types))
        (callee,) = op.attributes["called_computations"]
        with ir.InsertionPoint(block):
            truth = [tensor_type((), np.dtype(bool))]
            call = ir.Operation.create("func.call", truth, list(block.arguments), {"callee": callee})
            stablehlo.emit("stablehlo.return", call.results, results=[])
        for old, new in zip(op.results, sort.results, strict=True):
            shape, _ = shape_and_dtype(old.type)
            none, one = (0,) * len(shape), (1,) * len(shape)
            first = slice_(wrap(new), start_indices=none, limit_indices=shape, strides=one)
            old.replace_all_uses_with(first.value)
    op.erase()
    return callee.value


def remade(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    """The operation with another name, on the same operands and with the same results."""
    with op.location, ir.InsertionPoint(op):
        copy = ir.Operation.create(name, results=[r.type for r in op.results], operands=list(op.operands), attributes=attributes)
    for old, new in zip(op.results, copy.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
