"""Estimates of the time of an operation in the interpreter, plain and perturbed, by kind and size, before it runs."""

from __future__ import annotations

from collections.abc import Iterable

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.types import is_complex, is_float, shape_and_dtype
from nabla_mlir.interpreter.choices import routine_of
from nabla_mlir.interpreter.evaluations import EVALUATIONS
from nabla_mlir.interpreter.frames import Cost
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.traits import FUNCTION, ONE_BY_ONE, flops_of, size_of


def cost_of_steps(ops: Iterable[ir.Operation]) -> Cost:
    """The cost of operations that run one after the other; the blocks inside them are charged later, when they run.

    `ops` are the operations of a block.
    """
    steps = rerun = 0.0
    for op in ops:
        work = nanoseconds_of(op) / 1e3 / thresholds.STEP
        noise = thresholds.PERTURBED_STEP + thresholds.PERTURBED_ELEMENT / 1e3 * _floats(op)
        steps, rerun = steps + 1 + work, rerun + 1 + work + noise / thresholds.STEP
    return Cost(steps, rerun)


def _floats(op: ir.Operation) -> int:
    """The number of elements of the results that rounding perturbs."""
    results = [v for v in op.results if isinstance(v.type, ir.RankedTensorType)]
    return sum(size_of(v) for v in results if is_float(dtype := shape_and_dtype(v.type)[1]) or is_complex(dtype))


def nanoseconds_of(op: ir.Operation) -> float:
    """The estimated time of an operation in the interpreter for its elements, in nanoseconds,
    without the constant time of a call.
    """
    name = op.name
    record = REGISTRY.get(name)
    if record is None or record.free or record.runs:
        return 0.0
    sizes = [size_of(v) for v in (*op.operands, *op.results) if isinstance(v.type, ir.RankedTensorType)]
    elements = max(sizes, default=0)
    if record.kind == "contraction":
        flop = thresholds.INTERPRETED_CONVOLUTION if "convolution" in name else thresholds.INTERPRETED_FLOP
        return flop * flops_of(op) + thresholds.INTERPRETED_ELEMENT * elements
    if routine_of(op):
        rows = shape_and_dtype(op.operands[0].type)[0][-1]
        return 1e3 * thresholds.INTERPRETED_ROW * rows + thresholds.INTERPRETED_FLOP * flops_of(op)
    if name in ("stablehlo.gather", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"):
        part = op.results[0] if name != "stablehlo.dynamic_update_slice" else op.operands[0]
        return (thresholds.INTERPRETED_PICKED if name == "stablehlo.gather" else thresholds.INTERPRETED_ELEMENT) * size_of(part)
    return _nanoseconds_of_element(record, name) * elements


def _nanoseconds_of_element(record: OpDef, name: str) -> float:
    """The measured time of an operation for one element in the interpreter, in nanoseconds; `record` describes the operation
    `name`.
    """
    if record.elementwise and (isinstance(record.numpy, str) or name in EVALUATIONS) and record.instructions >= FUNCTION:
        return thresholds.INTERPRETED_SPECIAL
    if record.instructions >= ONE_BY_ONE or name == "stablehlo.sort":
        return thresholds.INTERPRETED_ONE_BY_ONE
    is_function = record.elementwise and record.instructions >= FUNCTION
    return thresholds.INTERPRETED_FUNCTION if is_function else thresholds.INTERPRETED_ELEMENT
