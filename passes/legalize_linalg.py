"""Legalisation of products and of the matrix factorisations of StableHLO."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.types import is_float
from nabla_mlir.passes.legalize_pattern import Replacement, Target, operands, pattern


@pattern("stablehlo.dot_general")
def dot_general(op: ir.Operation, target: Target) -> Replacement:
    """Contracting a dimension of size 0 kills the compiler; narrow floats are rounded after every addition."""
    x, y = operands(op)
    type = op.results[0].type
    if not (x.static and y.static):
        return None
    if 0 in x.shape or 0 in y.shape:
        return b.full(0, type.shape, Val(op.results[0]).dtype)
    dtype = Val(op.results[0]).dtype
    if is_float(dtype) and dtype.itemsize <= 2:
        attributes = {"dot_dimension_numbers": op.attributes["dot_dimension_numbers"]}
        wide = b.tensor_type(tuple(type.shape), np.dtype(np.float32))
        return b.convert(Val(b.make(op.name, [x, y], [wide], attributes).results[0]), dtype)
    return None
