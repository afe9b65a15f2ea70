"""How large the IR of a derivative is, counted alike for ours and JAX's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.cost import cost_of_function
from nabla_mlir.ops.loops import find_counter
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.portable import parse

_FREE = {"stablehlo.constant", "stablehlo.return", "func.return"}
_BODIES = {"stablehlo.while", "stablehlo.if", "stablehlo.case"}


@dataclass(frozen=True)
class Size:
    """Operations; elements they write, and the flops and bytes of those that a call runs, before any fusion."""

    operations: int
    elements: int
    flops: int
    bytes: int


def size_of(text: str) -> Size | None:
    """The size of the only function of a module, its calls inlined and what nothing reads erased.

    None where it holds an operation that cannot be counted, such as a custom call of JAX's.
    """
    module = parse(text)
    Pipeline.parse("nabla-inline-calls,nabla-dce,cse").run(module)
    (function,) = functions_of(module.operation).values()
    counted = [(op, times) for op, times in _with_trips(function, 1) if op.name not in _FREE]
    if any(op.name == "stablehlo.custom_call" for op, _ in counted):
        return None
    elements = sum(times * math.prod(shape_and_dtype(r.type)[0]) for op, times in counted for r in op.results)
    cost = cost_of_function(function)
    return Size(len(counted), elements, cost.flops, cost.bytes)


def _with_trips(op: ir.Operation, times: int) -> Iterator[tuple[ir.Operation, int]]:
    """The operations inside of `op`, and how often each runs; those of reductions count as one with it."""
    counter = find_counter(op) if op.name == "stablehlo.while" else None
    times *= 1 if counter is None else counter.trips
    for inner in (o.operation for region in op.regions for block in region.blocks for o in block.operations):
        yield inner, times
        if inner.name in _BODIES:
            yield from _with_trips(inner, times)
