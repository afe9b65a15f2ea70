"""What a StableHLO program costs, counted in its IR: operations, elements written, floating-point operations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.portable import parse

FREE = {"func.func", "func.return"} | {f"stablehlo.{word}" for word in ("constant", "return", "while", "if", "case")}
MOVES = {
    f"stablehlo.{word}"
    for word in ("broadcast_in_dim", "reshape", "transpose", "iota", "convert", "slice", "concatenate", "pad", "reverse",
                 "dynamic_slice", "dynamic_update_slice", "gather", "select", "compare")
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The sums over all operations but constants; a loop counts once."""

    operations: int
    elements: int
    flops: int

    def __le__(self, other: Cost) -> bool:
        return (self.operations, self.elements, self.flops) == tuple(
            min(a, b) for a, b in zip((self.operations, self.elements, self.flops),
                                      (other.operations, other.elements, other.flops), strict=True)
        )  # fmt: skip


def cost(module: ir.Module) -> Cost:
    """The cost of a module."""
    ops = [op for op in nested(module.operation) if op.name not in FREE]
    elements = sum(_size(r.type) for op in ops for r in op.results)
    return Cost(len(ops), elements, sum(_flops(op) for op in ops))


def _size(type: Any) -> int:
    return math.prod(shape_and_dtype(type)[0])


def _flops(op: ir.Operation) -> int:
    if op.name in MOVES:
        return 0
    written = sum(_size(r.type) for r in op.results)
    if op.name == "stablehlo.reduce":
        return _size(op.operands[0].type)
    if op.name == "stablehlo.dot_general":
        text = str(op.attributes["dot_dimension_numbers"])
        listed = text.partition("lhs_contracting_dimensions = [")[2].partition("]")[0]
        shape = shape_and_dtype(op.operands[0].type)[0]
        return 2 * written * math.prod(shape[int(d)] for d in listed.split(",") if d.strip())
    return written


def jax_module(f: Any, *args: Any) -> ir.Module:
    """What JAX emits for a function, its calls inlined."""
    module = parse(jax.jit(f).lower(*args).as_text())
    Pipeline.parse("nabla-inline-calls").run(module)
    return module


ELEMENTWISE = {
    f"stablehlo.{word}"
    for word in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "select", "compare")
}


def copies(module: ir.Module, size: int) -> list[str]:
    """The broadcasts of arrays along a new axis of `size` that anything but an elementwise operation reads.

    That is the only reader that needs them: StableHLO has no elementwise operation on operands of different shapes.
    """
    found = []
    for op in nested(module.operation):
        if op.name != "stablehlo.broadcast_in_dim":
            continue
        inside, outside = (shape_and_dtype(v.type)[0] for v in (op.operands[0], op.results[0]))
        readers = {use.owner.name for use in op.results[0].uses}
        if size in outside and size not in inside and math.prod(inside) > 1 and not readers <= ELEMENTWISE:
            found.append(str(op))
    return found
