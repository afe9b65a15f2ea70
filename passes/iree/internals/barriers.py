"""Barriers on the host: IREE knows nothing about their results, and moves no operation of the device across them."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import emit

HOST_BARRIER = "util.optimization_barrier"


def behind_barrier(values: Sequence[ir.Value]) -> list[ir.Value]:
    """The values as results of a barrier on the host, so that IREE knows nothing about them."""
    return list(emit(HOST_BARRIER, values, results=[value.type for value in values]).results)


# The operations from which `linalg.fill` gets a number and memory.
PARTS_OF_FILLS = ("arith.constant", HOST_BARRIER, "tensor.empty")


def fill_value(op: ir.Operation) -> float | int | None:
    """The number of a `linalg.fill` whose number passes a barrier; None for other operations."""
    barrier = made_by(op.operands[0]) if op.name == "linalg.fill" else None
    if barrier is None or barrier.name != HOST_BARRIER:
        return None
    constant = made_by(barrier.operands[ir.OpResult(op.operands[0]).result_number])
    if constant is None or constant.name != "arith.constant":
        return None
    value = constant.attributes["value"].value
    return value if isinstance(value, int | float) else None
