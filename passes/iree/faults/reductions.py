"""Sums that IREE rounds after every term, computes on one core, or refuses; and the gradient of batch normalisation."""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import function_around, made_by, nested
from nabla_mlir.dialects.types import is_float, tensor_type
from nabla_mlir.passes.iree.faults.sums_in_parts import in_parts, long_axis
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, attributes_of, operands
from nabla_mlir.passes.iree.regions import single_operation

PATTERNS = Patterns()

F32 = np.dtype(np.float32)


def _is_narrow(dtype: np.dtype) -> bool:
    """True for floats of 16 bits."""
    return is_float(dtype) and dtype.itemsize == 2


@PATTERNS.of("stablehlo.reduce", "stablehlo.reduce_window")
def narrow_sum(op: ir.Operation, target: Target) -> Replacement:
    """A sum or product of narrow floats, computed in f32; None for others. IREE rounds to the narrow format after every term."""
    if len(op.operands) != 2 or not _is_narrow(Val(op.results[0]).dtype):
        return None
    body = single_operation(op.regions[0])
    if body not in ("stablehlo.add", "stablehlo.multiply"):
        return None
    values = [b.convert(v, F32) for v in operands(op)]
    type = tensor_type(tuple(op.results[0].type.shape), F32) if Val(op.results[0]).static else None
    if type is None:
        type = b.like(Val(op.results[0]), F32)
    attributes = attributes_of(op)
    total = b.make(op.name, values, [type], attributes, regions=1, final=True)
    b.fill_region(total.regions[0], [tensor_type((), F32)] * 2, lambda x, y: b.binary(body, x, y))
    return b.convert(Val(total.results[0]), Val(op.results[0]).dtype)


@PATTERNS.of("stablehlo.reduce")
def complex_sum(op: ir.Operation, target: Target) -> Replacement:
    """A complex sum as two real sums, of the real and the imaginary parts, if the sum is long or its function has loops; else None.

    Later patterns compute long real sums in two levels. In functions with loops, IREE does not compile some complex sums: their
    initial value is a dispatch outside of all regions that run.
    """
    if len(op.operands) != 2 or Val(op.results[0]).dtype.kind != "c" or single_operation(op.regions[0]) != "stablehlo.add":
        return None
    dims, (x, initial) = list(op.attributes["dimensions"]), operands(op)
    is_long = max((x.shape[d] for d in dims), default=0) >= thresholds.SUM_IN_PARTS
    if not is_long and all(inner.name != "stablehlo.while" for inner in nested(function_around(op))):
        return None
    return b.complex_(*(b.reduce([part(x)], [part(initial)], dims, lambda y, z: y + z)[0] for part in (b.real, b.imag)))


@PATTERNS.of("stablehlo.reduce")
def sum_of_products(op: ir.Operation, target: Target) -> Replacement:
    """A sum over rows and columns of a product with a vector as two sums: first over the rows, along which the vector is constant.

    The result is None for other sums. For a CPU, IREE does not compile the sum in one step.
    """
    dims = list(op.attributes["dimensions"])
    if target.sums_of_products or len(dims) < 2 or len(op.operands) != 2 or single_operation(op.regions[0]) != "stablehlo.add":
        return None
    x, initial = operands(op)
    product = made_by(x.value)
    if product is None or product.name != "stablehlo.multiply":
        return None
    for factor in product.operands:
        vector = _axes_of_vector(factor)
        rows = [d for d in dims if d not in vector]
        if vector and rows and len(rows) < len(dims):
            # The numbers of the other axes after the first sum has removed the rows before them.
            columns = [d - sum(1 for r in rows if r < d) for d in dims if d in vector]
            return b.reduce([b.reduce_sum(x, rows)], [initial], columns, lambda a, c: a + c)[0]
    return None


def _axes_of_vector(value: ir.Value) -> set[int]:
    """The axes along which a broadcast varies, also if it is transposed or reshaped; empty if the value is not a broadcast."""
    axis_of = {d: d for d in range(len(value.type.shape))}  # from an axis of the source to the axis of the value
    while (maker := made_by(value)) is not None and maker.operands:
        source = maker.operands[0]
        if maker.name == "stablehlo.broadcast_in_dim":
            return {axis_of[d] for d in maker.attributes["broadcast_dimensions"] if d in axis_of}
        if maker.name == "stablehlo.transpose":
            permutation = list(maker.attributes["permutation"])
            axis_of = {permutation[d]: axis for d, axis in axis_of.items()}
        elif maker.name == "stablehlo.reshape":
            before, after = ([d for d, n in enumerate(v.type.shape) if n != 1] for v in (source, value))
            if [source.type.shape[d] for d in before] != [value.type.shape[d] for d in after]:
                return set()
            axis_of = {d: axis_of[e] for d, e in zip(before, after, strict=True) if e in axis_of}
        elif [v.type for v in maker.operands] != [value.type]:  # otherwise it must be elementwise with one operand type
            return set()
        value = source
    return set()


@PATTERNS.of("stablehlo.reduce")
def long_sum(op: ir.Operation, target: Target) -> Replacement:
    """A long sum in two levels, because on a CPU IREE adds the terms one after another, on one core; None for others.

    Sums of rows, whose terms are the columns, are not changed here: a later pass may make them kernels.
    """
    axis = None if target.long_sums else long_axis(op)
    if axis is None:
        return None
    shape = op.operands[0].type.shape
    is_of_rows = math.prod(shape[:axis]) == 1 and math.prod(shape[axis + 1 :]) > _FEW_COLUMNS
    return None if is_of_rows else in_parts(op, axis)


_FEW_COLUMNS = 4  # a kernel writes this many columns and the rows as one loop


@PATTERNS.of("stablehlo.batch_norm_grad")
def batch_norm_grad(op: ir.Operation, target: Target) -> Replacement:
    """The gradients with respect to operand, scale and offset by their formulas, because IREE does not compile the operation.

    With inverse = 1 / sqrt(variance + epsilon), deviation = x - mean and sums over all axes but the features: the gradient of the
    offset is sum(grad), that of the scale sum(grad * deviation) * inverse, and that of x is scale * inverse * (grad - sum(grad) /
    count - deviation * sum(grad * deviation) * inverse² / count).
    """
    x, scale, mean, variance, grad = operands(op)
    feature = hlo.I64.decode(op.attributes["feature_index"])
    epsilon = op.attributes["epsilon"].value
    others = [d for d in range(x.rank) if d != feature]
    count = math.prod(x.shape[d] for d in others)
    spread = lambda v: b.broadcast(v, x.shape, [feature])  # noqa: E731
    inverse = 1.0 / b.sqrt(variance + epsilon)
    deviation = x - spread(mean)
    grad_sum = b.reduce_sum(grad, others)
    grad_deviation = b.reduce_sum(grad * deviation, others)
    slope = spread(grad_deviation * inverse * inverse * (1.0 / count))
    grad_x = spread(scale * inverse) * (grad - spread(grad_sum * (1.0 / count)) - deviation * slope)
    return [grad_x, grad_deviation * inverse, grad_sum]
