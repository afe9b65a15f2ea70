"""Products that IREE computes wrongly or refuses, or for which it copies a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, ne
from nabla_mlir.dialects.types import is_float, tensor_type
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, attributes_of, operands

PATTERNS = Patterns()


@PATTERNS.of("stablehlo.dot_general", "stablehlo.einsum", "stablehlo.dot")
def product_of_truth_values(op: ir.Operation, target: Target) -> Replacement:
    """A product of truth values by counting in integers; None for other dtypes. IREE computes sums of truth values modulo 2."""
    x, y = operands(op)
    if x.dtype != np.bool_ or not (x.static and y.static):
        return None
    counts = [b.convert(v, np.dtype(np.int32)) for v in (x, y)]
    type = tensor_type(tuple(op.results[0].type.shape), np.dtype(np.int32))
    return ne(Val(b.make(op.name, counts, [type], attributes_of(op)).results[0]), 0)


@PATTERNS.of("stablehlo.dot_general")
def dot_general(op: ir.Operation, target: Target) -> Replacement:
    """A product in another form: zeros, a product of two numbers, four real products, or a product with f32 results.

    The result is None if no fault of IREE applies. The faults: the compiler crashes if a contracted dimension has size 0. For one
    number times another with a wider result, the operands are not converted. Complex products are not vectorised. Sums of narrow
    floats are rounded after every addition.
    """
    x, y = operands(op)
    type = op.results[0].type
    if not (x.static and y.static):
        return None
    if 0 in x.shape or 0 in y.shape:
        return b.full(0, type.shape, Val(op.results[0]).dtype)
    dtype = Val(op.results[0]).dtype
    if {*x.shape, *y.shape} <= {1}:
        return b.reshape(b.convert(x, dtype), type.shape) * b.reshape(b.convert(y, dtype), type.shape)
    if x.dtype.kind == "c" and y.dtype == x.dtype == dtype:
        attributes = {"dot_dimension_numbers": op.attributes["dot_dimension_numbers"]}
        part = tensor_type(tuple(type.shape), b.real(x).dtype)

        def product(left: Val, right: Val) -> Val:
            """The real product of two parts, with the axes of `op`."""
            return Val(b.make(op.name, [left, right], [part], attributes).results[0])

        (xr, xi), (yr, yi) = ((b.real(v), b.imag(v)) for v in (x, y))
        return b.complex_(product(xr, yr) - product(xi, yi), product(xr, yi) + product(xi, yr))
    if is_float(dtype) and dtype.itemsize <= 2:
        attributes = {"dot_dimension_numbers": op.attributes["dot_dimension_numbers"]}
        wide = tensor_type(tuple(type.shape), np.dtype(np.float32))
        return b.convert(Val(b.make(op.name, [x, y], [wide], attributes).results[0]), dtype)
    return None


@PATTERNS.of("stablehlo.dot_general")
def matrix_times_vector(op: ir.Operation, target: Target) -> Replacement:
    """The product of a matrix and a vector with exchanged factors, if IREE would copy the matrix to transpose it; else None.

    IREE does so unless the vector is the operand on the side of the contracted dimension.
    """
    x, y = operands(op)
    if (x.rank, y.rank) not in ((1, 2), (2, 1)) or "algorithm" in op.attributes:
        return None
    numbers = hlo.DotDims.decode(op.attributes["dot_dimension_numbers"])
    left, right = list(numbers["lhs_contracting_dimensions"]), list(numbers["rhs_contracting_dimensions"])
    if numbers["lhs_batching_dimensions"] or (left != [0] if x.rank == 2 else right != [1]):
        return None
    return b.dot(y, x, (right, left), dtype=Val(op.results[0]).dtype)


@register
@dataclass(frozen=True)
class LegalizeProductsPass(PatternPass):
    """Rewrite the products that IREE computes wrongly or refuses.

    These are products of truth values, of complex and narrow numbers, and over a dimension of size 0. A vector becomes the
    operand on the side of the contracted dimension; otherwise IREE would transpose the matrix.

    Example: tests/filecheck/passes/legalize_products.mlir
    """

    name: ClassVar[str] = "nabla-legalize-products"
    patterns: ClassVar[Patterns] = PATTERNS
