"""What an operation costs, from its IR: floating-point operations, and bytes read and written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.convolution import positions
from nabla_mlir.ops.loops import find_counter
from nabla_mlir.ops.regions import body_of
from nabla_mlir.ops.registry import REGISTRY

# They move or name elements: bytes, and no arithmetic.
_MOVES = {
    f"stablehlo.{word}"
    for word in (
        "constant", "iota", "reshape", "transpose", "broadcast_in_dim", "slice", "dynamic_slice", "pad", "concatenate",
        "dynamic_update_slice", "gather", "reverse", "convert", "return", "get_tuple_element", "optimization_barrier",
    )
}  # fmt: skip
# A view of its operand, or a value that needs none: nothing is read or written for it alone.
FREE = {f"stablehlo.{word}" for word in ("constant", "iota", "reshape", "broadcast_in_dim")}


@dataclass(frozen=True)
class Cost:
    """Floating-point operations, and bytes moved if nothing is fused."""

    flops: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.flops * times, self.bytes * times)


def size_of(value: ir.Value) -> int:
    """The number of elements."""
    return math.prod(shape_and_dtype(value.type)[0])


def bytes_of(value: ir.Value) -> int:
    """The bytes of a value."""
    shape, dtype = shape_and_dtype(value.type)
    return math.prod(shape) * dtype.itemsize


def cost_of(op: ir.Operation) -> Cost:
    """The cost of one operation: a loop as often as it runs (once if that is not known), a choice its dearest branch."""
    if op.name == "stablehlo.while":
        counter = find_counter(op)
        trips = 1 if counter is None else counter.trips
        return cost_of_all(body_of(op.regions[1])[1]) * trips + cost_of_all(body_of(op.regions[0])[1]) * (trips + 1)
    if op.name in ("stablehlo.if", "stablehlo.case"):
        branches = [cost_of_all(body_of(region)[1]) for region in op.regions]
        return max(branches, key=lambda cost: (cost.flops, cost.bytes))
    moved = 0 if op.name in FREE else sum(map(bytes_of, [*op.operands, *op.results]))
    return Cost(_flops(op), moved)


def cost_of_all(ops: Iterable[ir.Operation]) -> Cost:
    """The sum of the costs."""
    return sum((cost_of(op) for op in ops), Cost())


def _flops(op: ir.Operation) -> int:
    if op.name in _MOVES or not len(op.results):
        return 0
    if op.name == "stablehlo.dot_general":
        contracted = REGISTRY[op.name].read(op)["dot_dimension_numbers"]["lhs_contracting_dimensions"]
        shape = shape_and_dtype(op.operands[0].type)[0]
        return 2 * size_of(op.results[0]) * math.prod(shape[d] for d in contracted)
    if op.name == "stablehlo.convolution":
        features = positions(REGISTRY[op.name].read(op)["dimension_numbers"])[1][0]
        kernel = shape_and_dtype(op.operands[1].type)[0]
        return 2 * size_of(op.results[0]) * math.prod(kernel) // max(kernel[features], 1)
    if op.name == "stablehlo.triangular_solve":
        return size_of(op.operands[0]) * shape_and_dtype(op.operands[1].type)[0][-1]
    if op.name == "stablehlo.cholesky":
        return size_of(op.operands[0]) * shape_and_dtype(op.operands[0].type)[0][-1] // 3
    return max(map(size_of, [*op.operands, *op.results]))
