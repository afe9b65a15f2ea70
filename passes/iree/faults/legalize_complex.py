"""Complex values that IREE folds wrongly or refuses, split into real and imaginary parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, select
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.math.complex import ARITHMETIC, visible_part
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, attributes_of, operands

PATTERNS = Patterns()


@PATTERNS.of("stablehlo.constant")
def constant(op: ir.Operation, target: Target) -> Replacement:
    """A complex constant as a complex number of two real constants; None for real constants.

    IREE refuses a complex128 splat (a fill of 128 bits), and on Vulkan every dense complex constant.
    """
    if not isinstance(op.results[0].type.element_type, ir.ComplexType):
        return None
    return b.constant(hlo.constant_array(op))


@PATTERNS.of("stablehlo.convert")
def convert(op: ir.Operation, target: Target) -> Replacement:
    """A conversion of real to complex numbers as a complex number of two parts, the second one zero; None for others.

    If a real constant is converted for a product, IREE also uses it as the imaginary part: 1 and 0 act as 1 + i and 0.
    """
    (x,), dtype = operands(op), Val(op.results[0]).dtype
    if dtype.kind != "c" or x.dtype.kind == "c":
        return None
    return b.complex_(b.convert(x, np.zeros((), dtype).real.dtype), 0.0)


@PATTERNS.of("stablehlo.real", "stablehlo.imag")
def part_of_parts(op: ir.Operation, target: Target) -> Replacement:
    """The operand re or im for the real or imaginary part of `complex(re, im)`, so that chains contain real values only."""
    (z,) = operands(op)
    return visible_part(z, 0 if op.name == "stablehlo.real" else 1)


@PATTERNS.of("stablehlo.pad")
def pad(op: ir.Operation, target: Target) -> Replacement:
    """A padded complex value as a complex number of two padded parts, because the compiler crashes on a complex padding."""
    x, value = operands(op)
    if x.dtype.kind != "c":
        return None
    attributes = attributes_of(op)
    part = b.like(Val(op.results[0]), b.real(value).dtype)
    parts = [Val(b.make(op.name, [f(x), f(value)], [part], attributes).results[0]) for f in (b.real, b.imag)]
    return b.complex_(*parts)


@PATTERNS.of("stablehlo.select")
def select_parts(op: ir.Operation, target: Target) -> Replacement:
    """A complex selection as a complex number of two selections of parts; None for real numbers.

    IREE computes products with selected complex constants wrongly: 1 and 0 act as 1 + i and 0.
    """
    predicate, x, y = operands(op)
    if x.dtype.kind != "c":
        return None
    return b.complex_(select(predicate, b.real(x), b.real(y)), select(predicate, b.imag(x), b.imag(y)))


@PATTERNS.of("chlo.ragged_dot")
def ragged_dot(op: ir.Operation, target: Target) -> Replacement:
    """A ragged product of complex numbers as four real ones, because IREE does not compile it."""
    lhs, rhs, sizes = operands(op)
    if lhs.dtype.kind != "c":
        return None
    attributes, part = attributes_of(op), b.like(Val(op.results[0]), b.real(lhs).dtype)
    product = lambda x, y: Val(b.make(op.name, [x, y, sizes], [part], attributes).results[0])  # noqa: E731
    (a, c), (d, e) = (b.real(lhs), b.imag(lhs)), (b.real(rhs), b.imag(rhs))
    return b.complex_(product(a, d) - product(c, e), product(a, e) + product(c, d))


@register
@dataclass(frozen=True)
class LegalizeComplexPass(PatternPass):
    """Split constants, conversions, selections, paddings, sums and products of complex numbers into real and imaginary parts.

    IREE computes the parts rightly, and fuses chains of them.

    Example: tests/filecheck/passes/legalize_complex.mlir
    """

    name: ClassVar[str] = "nabla-legalize-complex"
    patterns: ClassVar[Patterns] = Patterns(PATTERNS, ARITHMETIC)
