"""The size of the IR of a derivative, counted in the same manner for nabla_mlir and JAX."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.dialects.stablehlo import OPTIMIZATION_BARRIER
from nabla_mlir.interop.portable import parse
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.rules import cost
from nabla_mlir.table.traits import size_of as size_of_value
from nabla_mlir.targets import Target

_FREE = {"stablehlo.constant", "stablehlo.return", "func.return"}


@dataclass(frozen=True)
class Size:
    """The number of operations, the elements that they write, and the flops and bytes of a call before fusion."""

    operations: int
    elements: int
    flops: int
    bytes: int


def size_of(text: str) -> Size | None:
    """The size of the only function of a module, after inlining and removal of unused operations.

    None if it contains an operation that cannot be counted, such as a custom call of JAX.
    """
    module = parse(text)
    Pipeline.parse("nabla-inline-calls,nabla-dce,cse").run(module)
    (function,) = functions_of(module.operation).values()
    counted = [(op, times) for op, times in cost.with_trips(function) if op.name not in _FREE]
    if any(op.name == "stablehlo.custom_call" for op, _ in counted):
        return None
    elements = sum(times * size_of_value(r) for op, times in counted for r in op.results)
    total = cost.cost_of_function(function)
    return Size(len(counted), elements, total.flops, total.bytes)


def barriers_of(module: ir.Module, target: Target) -> int:
    """The number of barriers in a lowered module; IREE waits at each barrier and allocates memory for it."""
    return sum(op.name == OPTIMIZATION_BARRIER for op in nested(legalize(module, target).operation))
