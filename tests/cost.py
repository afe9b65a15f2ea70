"""The cost of a StableHLO program, counted in its IR: operations, elements written, floating-point operations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interop.portable import parse
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.rules.cost import cost_of, with_trips
from nabla_mlir.table.tensor import splat_of, wrap
from nabla_mlir.table.traits import size_of

FREE = {"func.func", "func.return"} | {f"stablehlo.{word}" for word in ("constant", "return", "while", "if", "case")}
MOVES = {
    f"stablehlo.{word}"
    for word in (
        "broadcast_in_dim",
        "reshape",
        "transpose",
        "iota",
        "convert",
        "slice",
        "concatenate",
        "pad",
        "reverse",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "select",
        "compare",
    )
}


@dataclass(frozen=True)
class Cost:
    """The sums over all operations but constants; what a counted loop holds is written as often as it runs."""

    operations: int
    elements: int
    flops: int

    def __le__(self, other: Cost) -> bool:
        return (self.operations, self.elements, self.flops) == tuple(
            min(a, b)
            for a, b in zip(
                (self.operations, self.elements, self.flops), (other.operations, other.elements, other.flops), strict=True
            )
        )


def cost(module: ir.Module) -> Cost:
    """The cost of a module."""
    counted = [(op, times) for op, times in with_trips(module.operation) if op.name not in FREE]
    elements = sum(times * sum(map(size_of, op.results)) for op, times in counted)
    return Cost(len(counted), elements, sum(times * _flops(op) for op, times in counted))


def _flops(op: ir.Operation) -> int:
    if op.name in MOVES:
        return 0
    written = sum(map(size_of, op.results))
    if op.name == "stablehlo.reduce":
        return size_of(op.operands[0])
    if op.name == "stablehlo.reduce_window":
        return written * math.prod(op.attributes["window_dimensions"])
    if op.name == "stablehlo.power":  # a whole constant exponent is compiled to multiplications
        exponent = splat_of(wrap(op.operands[1]))
        return written * (2 if exponent in (3, 4) else 1)
    if op.name in ("stablehlo.dot_general", "stablehlo.convolution"):
        return cost_of(op).flops
    return written


def jax_module(f: Any, *args: Any) -> ir.Module:
    """The StableHLO that JAX emits for a function, with inlined calls and without dead code, as after the first passes of a compiler."""
    module = parse(jax.jit(f).lower(*args).as_text())
    Pipeline.parse("nabla-inline-calls,nabla-dce,cse").run(module)
    return module


ELEMENTWISE = {
    f"stablehlo.{word}"
    for word in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "select", "compare", "and")
}

NEEDED = ELEMENTWISE | {"func.return"}


def copies(module: ir.Module, size: int) -> list[str]:
    """The broadcasts of arrays along a new axis of `size` that anything but an elementwise operation reads.

    That is the only reader that needs them: StableHLO has no elementwise operation on operands of different shapes. A
    result that is the same in all entries is no copy either: it is what was asked for.
    """
    found = []
    for op in nested(module.operation):
        if op.name != "stablehlo.broadcast_in_dim":
            continue
        inside, outside = (shape_and_dtype(v.type)[0] for v in (op.operands[0], op.results[0]))
        readers = _readers(op.results[0])
        if size in outside and size not in inside and math.prod(inside) > 1 and not readers <= NEEDED:
            found.append(str(op))
    return found


def _readers(value: ir.Value) -> set[str]:
    """The names of what reads a value, also in another shape."""
    owners = [use.owner for use in value.uses]
    reshaped = (_readers(op.results[0]) for op in owners if op.name == "stablehlo.reshape")
    return {op.name for op in owners if op.name != "stablehlo.reshape"}.union(*reshaped)
