"""Elementwise operations on numbers, one record each. Truth values, bits and selection are in logic.py.

A partial has the form ``(t, y, *xs) -> t * dy/dx``. It must be linear in t (a law test checks that).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import I32
from nabla_mlir.dialects.types import element_dtype, is_complex, shape_and_dtype
from nabla_mlir.ops.factors import cancelled, has_slope, times
from nabla_mlir.ops.growth import square_of, unless_overflown
from nabla_mlir.ops.guards import length_with_one, over_squares, power_log, product, quotient, radial
from nabla_mlir.ops.logic import compare, select, where_zero
from nabla_mlir.sparsity import operands as patterns
from nabla_mlir.table.batching import all_prefixed
from nabla_mlir.table.kinds import elementwise, general, nondifferentiable, structural
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, complex_numbers, reals
from nabla_mlir.table.tensor import Tensor, full_like, splat_of

# ---------------------------------------------------------------- arithmetic
add: OpDef = elementwise(
    "stablehlo.add", doc="x + y.", partials=[lambda t, z, x, y: t, lambda t, z, x, y: t], numpy=np.add,
    sample=(reals(), reals()), linear="all", commutes=True,
)  # fmt: skip
subtract: OpDef = elementwise(
    "stablehlo.subtract", doc="x - y.", partials=[lambda t, z, x, y: t, lambda t, z, x, y: -t], numpy=np.subtract,
    sample=(reals(), reals()), linear="all",
)  # fmt: skip


def _multiply_first(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """t * dz/dx of z = x * y; for x * x the sum of both partials, 2x, which may have fewer axes than t."""
    return times(t, x + x if x.value == y.value else y)


def _multiply_second(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> MaybeZero:
    """The tangent of z = x * y for a tangent t of y; zero if x and y are one value: see the partial by x."""
    if x.value == y.value:
        return ZERO
    short = cancelled(t, x)
    return x * t if short is None else short


def _times_ct(t: Tensor, c: Tensor) -> Tensor:
    """t * c for a cotangent t; 0 where c is 0, even if t contains the slope of a root, which is infinite there."""
    short = _guarded(t, c)
    return t * c if short is None else short


def _second_ct(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> MaybeZero:
    short = ZERO if x.value == y.value else _guarded(t, x)
    return x * t if short is None else short


def _guarded(t: Tensor, c: Tensor) -> Tensor | None:
    """t * c if a root cancels (factors.py) or t may be infinite where c is 0; None if the plain product is right."""
    short = cancelled(t, c)
    return radial(t, c) if short is None and splat_of(c) in (None, 0) and has_slope(t) else short


multiply: OpDef = elementwise(
    "stablehlo.multiply", pattern=patterns.product,
    doc="x * y.", forward=[_multiply_first, _multiply_second], numpy=np.multiply, partials=[
        lambda t, z, x, y: _times_ct(t, x + x if x.value == y.value else y), _second_ct],
    sample=(reals(), reals()), linear=(0, 1), joint=False, commutes=True,
)  # fmt: skip


def _divide_second(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """t * dz/dy of z = x / y. For constant x near 1, z is a power of y, so that each higher derivative is one term."""
    # For x far from 1, 1 / y^2 may overflow.
    constant = splat_of(x) if x.dtype.kind == "f" else None
    is_near = constant is not None and 1 / 64 <= abs(constant) <= 64
    return -(t * (z / y)) if constant is None or not is_near else t * (full_like(y, -constant) * power(y, full_like(y, -2)))


divide: OpDef = elementwise(
    "stablehlo.divide", doc="x / y.", partials=[lambda t, z, x, y: t / y, _divide_second], numpy=np.divide,
    singular=((0.0, 0.0), (1.0, 0.0)), sample=(reals(), reals(0.5, 2)), linear=(0,), joint=False, instructions=8,
)  # fmt: skip
negate: OpDef = elementwise(
    "stablehlo.negate", doc="-x.", partials=[lambda t, y, x: -t], numpy=np.negative, sample=(reals(),), linear="all",
)  # fmt: skip
remainder: OpDef = elementwise(
    "stablehlo.remainder", doc="The remainder of x / y with the sign of x.",
    partials=[lambda t, z, x, y: t, lambda t, z, x, y: -(t * _truncate(x / y))], numpy=np.fmod,
    sample=(reals(2.2, 2.8), reals(1, 1.05)), instructions=10,
)  # fmt: skip


def _truncate(x: Tensor) -> Tensor:
    return sign(x) * floor(absolute(x))


def _power_base(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The tangent t * y * x**(y-1) of z = x**y for a tangent t of x; 0 for y = 0, even if x**(y-1) is infinite."""
    exponent = splat_of(y)
    if exponent is not None:
        if exponent == 0:
            return full_like(t, 0)
        if exponent == 1:
            return t
        if exponent == 2:
            return _times_ct(t, x + x)
        factor = full_like(x, exponent)
        factor = unless_overflown(x, factor) if isinstance(exponent, float) and 0 < exponent < 1 else factor
        return _times_ct(t, factor * power(x, full_like(y, exponent - 1)))
    return t * product(y, power(x, y - 1.0))


def _power_exponent(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The tangent of x**y for a tangent t of y: x**y * log(x), and 0 where x**y is 0, even if log(x) is infinite."""
    return t * power_log(x, y)


# Powers of 0: the value is 0, or 1, or the derivative is infinite. A base of 2 with the power 1.
_POWERS = ((0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (0.0, 1.5), (0.0, 2.0), (0.0, 3.0), (2.0, 0.0), (0.0, -1.0))
power: OpDef = elementwise(
    "stablehlo.power", doc="x to the power y.", partials=[_power_base, _power_exponent], numpy=np.power,
    singular=_POWERS, sample=(reals(0.5, 2), reals()), instructions=60, overflows=True,
)  # fmt: skip


def _half_ties(sign_of: str) -> Any:
    """The partials of maximum (`sign_of` is GT) or minimum (LT)."""

    # The larger operand gets the whole tangent; equal operands get half each. The share may have fewer axes than t.
    def partial(t: Tensor, z: Tensor, x: Tensor, y: Tensor, *, own: int) -> Tensor:
        """The tangent for a tangent t of operand `own`: t where this operand is the extremum, half of it where both are, else 0."""
        mine, other = (x, y) if own == 0 else (y, x)
        tie = compare(mine, other, comparison_direction="EQ")
        share = select(tie, full_like(mine, 0.5), full_like(mine, 1))
        return where_zero(compare(mine, other, comparison_direction=sign_of), t * share)

    return [lambda t, z, x, y: partial(t, z, x, y, own=0), lambda t, z, x, y: partial(t, z, x, y, own=1)]


maximum: OpDef = elementwise(
    "stablehlo.maximum", doc="The larger of x and y; NaN if one of them is NaN. Equal operands get half of the derivative each.",
    partials=_half_ties("GE"), numpy=np.maximum, singular=((0.0, 0.0),), sample=(reals(), reals()), commutes=True, instructions=3,
)  # fmt: skip
minimum: OpDef = elementwise(
    "stablehlo.minimum", doc="The smaller of x and y; NaN if one of them is NaN. Equal operands get half of the derivative each.",
    partials=_half_ties("LE"), numpy=np.minimum, singular=((0.0, 0.0),), sample=(reals(), reals()), commutes=True, instructions=3,
)  # fmt: skip
atan2: OpDef = elementwise(
    "stablehlo.atan2", doc="The angle of the point (y, x).",
    partials=[lambda t, z, y, x: t * over_squares(x, y), lambda t, z, y, x: -(t * over_squares(y, x))],
    numpy=np.arctan2, singular=((0.0, 0.0),), sample=(reals(avoid=[0]), reals(avoid=[0])), instructions=40,
)  # fmt: skip

# ---------------------------------------------------------------- exponentials and roots
exponential: OpDef = elementwise(
    "stablehlo.exponential", doc="e to the power x.", partials=[lambda t, y, x: t * y], numpy=np.exp, sample=(reals(),),
    instructions=20,
)  # fmt: skip
exponential_minus_one: OpDef = elementwise(
    "stablehlo.exponential_minus_one", doc="exp(x) - 1, accurate near 0.", partials=[lambda t, y, x: t * exponential(x)],
    numpy=np.expm1, sample=(reals(),), instructions=40,
)  # fmt: skip
log: OpDef = elementwise(
    "stablehlo.log", doc="Natural logarithm.", partials=[lambda t, y, x: t / unless_overflown(x, x, True)], numpy=np.log,
    singular=((0.0,),), sample=(reals(0.2, 3),),
    instructions=25,
)  # fmt: skip
log_plus_one: OpDef = elementwise(
    "stablehlo.log_plus_one", doc="log(1 + x), accurate near 0.", partials=[lambda t, y, x: t / unless_overflown(x, x + 1.0, True)],
    numpy=np.log1p, singular=((-1.0,),), sample=(reals(-0.5, 2),), instructions=30,
)  # fmt: skip
logistic: OpDef = elementwise(
    "stablehlo.logistic", doc="1 / (1 + exp(-x)).", partials=[lambda t, y, x: t * (y * (1.0 - y))],
    numpy=lambda x: 1 / (1 + np.exp(-x)), sample=(reals(),), instructions=25,
)  # fmt: skip


sqrt: OpDef = elementwise(
    "stablehlo.sqrt", doc="Square root.", partials=[lambda t, y, x: times(t, unless_overflown(x, full_like(y, 0.5)) / y)],
    constant_partials=[lambda t, y, x: product(t, unless_overflown(x, full_like(y, 0.5)) / y)], numpy=np.sqrt,
    singular=((0.0,),), sample=(reals(0.2, 3),), instructions=10,
)  # fmt: skip
rsqrt: OpDef = elementwise(
    "stablehlo.rsqrt", doc="1 / sqrt(x).", partials=[lambda t, y, x: t * (y / x * unless_overflown(x, full_like(y, -0.5)))],
    numpy=lambda x: x**-0.5, singular=((0.0,),), sample=(reals(0.2, 3),), instructions=15,
)  # fmt: skip
cbrt: OpDef = elementwise(
    "stablehlo.cbrt", doc="Cube root.", partials=[lambda t, y, x: t / (y * y * unless_overflown(x, full_like(y, 3)))],
    numpy=np.cbrt, singular=((0.0,),), sample=(reals(-2, 2, avoid=[0]),), instructions=40,
)  # fmt: skip


square: OpDef = elementwise(
    "chlo.square", doc="x * x.", partials=[lambda t, y, x: _times_ct(t, x + x)], numpy=square_of, sample=(reals(),), overflows=True
)

# ---------------------------------------------------------------- trigonometric and hyperbolic
sine: OpDef = elementwise(
    "stablehlo.sine", doc="Sine.", partials=[lambda t, y, x: t * cosine(x)], numpy=np.sin, sample=(reals(-3, 3),),
    instructions=25,
)  # fmt: skip
cosine: OpDef = elementwise(
    "stablehlo.cosine", doc="Cosine.", partials=[lambda t, y, x: -(t * sine(x))], numpy=np.cos, sample=(reals(-3, 3),),
    instructions=25,
)  # fmt: skip
tan: OpDef = elementwise(
    "stablehlo.tan", doc="Tangent.", partials=[lambda t, y, x: t * (y * y + 1.0)], numpy=np.tan, sample=(reals(-1, 1),),
    instructions=30,
)  # fmt: skip
chlo_tan: OpDef = elementwise(
    "chlo.tan", doc="Tangent.", partials=[lambda t, y, x: t * (y * y + 1.0)], numpy=np.tan, sample=(reals(-1, 1),),
    instructions=30,
)  # fmt: skip
tanh: OpDef = elementwise(
    "stablehlo.tanh", doc="Hyperbolic tangent.", partials=[lambda t, y, x: t * (1.0 - y * y)], numpy=np.tanh,
    sample=(reals(),), instructions=25,
)  # fmt: skip
acos: OpDef = elementwise(
    "chlo.acos", doc="Inverse cosine.", partials=[lambda t, y, x: -(t * rsqrt(1.0 - x * x))], numpy=np.arccos,
    singular=((1.0,), (-1.0,)), sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip
asin: OpDef = elementwise(
    "chlo.asin", doc="Inverse sine.", partials=[lambda t, y, x: t * rsqrt(1.0 - x * x)], numpy=np.arcsin,
    singular=((1.0,), (-1.0,)), sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip
atan: OpDef = elementwise(
    "chlo.atan", doc="Inverse tangent.", partials=[lambda t, y, x: t * over_squares(full_like(x, 1), x)], numpy=np.arctan,
    sample=(reals(),), instructions=30,
)  # fmt: skip
cosh: OpDef = elementwise(
    "chlo.cosh", doc="Hyperbolic cosine.", partials=[lambda t, y, x: t * sinh(x)], numpy=np.cosh, sample=(reals(),),
    instructions=40,
)  # fmt: skip
sinh: OpDef = elementwise(
    "chlo.sinh", doc="Hyperbolic sine.", partials=[lambda t, y, x: t * cosh(x)], numpy=np.sinh, sample=(reals(),),
    instructions=40,
)  # fmt: skip
acosh: OpDef = elementwise(
    "chlo.acosh", doc="Inverse hyperbolic cosine.", partials=[lambda t, y, x: t * rsqrt(x - 1.0) * rsqrt(x + 1.0)],
    numpy=np.arccosh, singular=((1.0,),), sample=(reals(1.2, 3),), instructions=40,
)  # fmt: skip
asinh: OpDef = elementwise(
    "chlo.asinh", doc="Inverse hyperbolic sine.", partials=[lambda t, y, x: t / length_with_one(x)],
    numpy=np.arcsinh, sample=(reals(),), instructions=40,
)  # fmt: skip
atanh: OpDef = elementwise(
    "chlo.atanh", doc="Inverse hyperbolic tangent.", partials=[lambda t, y, x: t / ((1.0 - x) * (1.0 + x))],
    numpy=np.arctanh, singular=((1.0,), (-1.0,)), sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip

# ---------------------------------------------------------------- special functions
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
erf: OpDef = elementwise(
    "chlo.erf", doc="Error function.", partials=[lambda t, y, x: t * (exponential(-(x * x)) * _TWO_OVER_SQRT_PI)],
    numpy="scipy.special:erf", sample=(reals(),), instructions=30,
)  # fmt: skip
erfc: OpDef = elementwise(
    "chlo.erfc", doc="1 - erf(x).", partials=[lambda t, y, x: t * (exponential(-(x * x)) * -_TWO_OVER_SQRT_PI)],
    numpy="scipy.special:erfc", sample=(reals(),), instructions=40,
)  # fmt: skip
erf_inv: OpDef = elementwise(
    "chlo.erf_inv", doc="Inverse of the error function.",
    partials=[lambda t, y, x: t * (exponential(y * y) * (1 / _TWO_OVER_SQRT_PI))], numpy="scipy.special:erfinv",
    singular=((1.0,), (-1.0,)), sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip

# ---------------------------------------------------------------- rounding and sign
_STEPS = (reals(-3, 3, avoid=[-2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5], gap=0.05),)
floor: OpDef = elementwise("stablehlo.floor", doc="The largest integer not above x.", partials=ZERO, numpy=np.floor, sample=_STEPS)
ceil: OpDef = elementwise("stablehlo.ceil", doc="The smallest integer not below x.", partials=ZERO, numpy=np.ceil, sample=_STEPS)
round_nearest_even: OpDef = elementwise(
    "stablehlo.round_nearest_even", doc="The nearest integer, ties to even.", partials=ZERO, numpy=np.rint, sample=_STEPS,
)  # fmt: skip
round_nearest_afz: OpDef = elementwise(
    "stablehlo.round_nearest_afz", doc="The nearest integer, ties away from zero.", partials=ZERO,
    numpy=lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), sample=_STEPS,
)  # fmt: skip
sign: OpDef = elementwise(
    "stablehlo.sign", doc="-1, 0 or 1; NaN for NaN.", partials=ZERO, numpy=np.sign, sample=(reals(avoid=[0]),)
)

reduce_precision: OpDef = elementwise(
    "stablehlo.reduce_precision", doc="x rounded to a format with fewer bits. Its derivative is that of x.",
    partials=[lambda t, y, x, **params: reduce_precision(t, **params)],
    attributes={"exponent_bits": I32, "mantissa_bits": I32},
    sample=[Case(((3, 2),), {"exponent_bits": 11, "mantissa_bits": 52}, numpy=lambda x: x)],
)  # fmt: skip

# ---------------------------------------------------------------- change of type


def _convert_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, dtype: np.dtype) -> list[MaybeZero]:
    return [tangents[0] if isinstance(tangents[0], Zero) else convert(tangents[0], dtype=dtype)]


def _convert_transpose(cts: Tensors, i: int, xs: Tensors, *, dtype: np.dtype) -> Tensor:
    """The cotangent of the operand: that of the result, converted back; its real part for a real operand."""
    ct = real(cts[0]) if is_complex(cts[0].dtype) and not is_complex(xs[0].dtype) else cts[0]
    return convert(ct, dtype=xs[0].dtype) if ct.dtype != xs[0].dtype else ct


convert: OpDef = structural(
    "stablehlo.convert", doc="x converted to another element type.",
    result=lambda x, dtype: [(x.shape, np.dtype(dtype))],
    result_params=lambda op: {"dtype": element_dtype(op.results[0].type)},
    jvp=_convert_jvp, transpose=_convert_transpose,
    batch=lambda xs, mapped, size, dtype: [convert(xs[0], dtype=dtype)],
    sample=[Case(((3, 2),), {"dtype": np.dtype(np.float64)}, numpy=lambda x: x.astype(np.float64)),
            Case(((3, 2),), {"dtype": np.dtype(np.int32)}, numpy=lambda x: x.astype(np.int32), smooth=False),
            Case(((3, 2),), {"dtype": np.dtype(np.complex128)}, numpy=lambda x: x.astype(np.complex128))],
    elementwise=True, flops=lambda *_, **__: 0,
)  # fmt: skip
bitcast_convert: OpDef = nondifferentiable(
    "stablehlo.bitcast_convert", doc="The same bits as another element type; its derivative is zero, as in JAX.",
    result=lambda x, shape, dtype: [(tuple(shape), np.dtype(dtype))],
    result_params=lambda op: dict(zip(("shape", "dtype"), shape_and_dtype(op.results[0].type), strict=True)),
    batch=lambda xs, mapped, size, shape, dtype: [bitcast_convert(xs[0], shape=(size, *shape), dtype=dtype)],
    sample=[Case(((3, 2),), {"shape": (3, 2), "dtype": np.dtype(np.int64)}, numpy=lambda x: x.view(np.int64)),
            Case(((3,),), {"shape": (3, 2), "dtype": np.dtype(np.int32)},
                 numpy=lambda x: x.view(np.int32).reshape(3, 2)),
            Case(((3, 2),), {"shape": (3,), "dtype": np.dtype(np.int32)},
                 values=(np.arange(6, dtype=np.int16).reshape(3, 2),),
                 numpy=lambda x: np.ascontiguousarray(x).view(np.int32)[:, 0])], free=True, view=True,
)  # fmt: skip

# ---------------------------------------------------------------- complex numbers
# Tangents and cotangents are paired by the plain product Re(ct * t), as in JAX, without conjugation.


def _elementwise_batch(record: Any) -> Any:
    return lambda xs, mapped, size, **params: record().apply(all_prefixed(xs, mapped, size), params)


make_complex: OpDef = structural(
    "stablehlo.complex", doc="re + i*im.", linear=(0, 1),
    transpose=lambda cts, i, xs: real(cts[0]) if i == 0 else -imag(cts[0]),
    batch=_elementwise_batch(lambda: make_complex),
    sample=[Case(((3, 2), (3, 2)), numpy=lambda a, b: a + 1j * b)], elementwise=True,
)  # fmt: skip


def _real_result(x: Tensor) -> list[Any]:
    return [(x.shape, np.zeros((), x.dtype).real.dtype)]


def _part_transpose(make: Any) -> Any:
    return lambda cts, i, xs: make(cts[0]) if is_complex(xs[0].dtype) else cts[0]


real: OpDef = structural(
    "stablehlo.real", doc="The real part.", result=_real_result,
    transpose=_part_transpose(lambda ct: make_complex(ct, full_like(ct, 0))), batch=_elementwise_batch(lambda: real),
    sample=[Case(((3, 2),), domains=(domain,), numpy=np.real) for domain in (reals(), complex_numbers())], elementwise=True,
)  # fmt: skip
imag: OpDef = structural(
    "stablehlo.imag", doc="The imaginary part.", result=_real_result,
    transpose=lambda cts, i, xs: (
        make_complex(full_like(cts[0], 0), -cts[0]) if is_complex(xs[0].dtype) else full_like(xs[0], 0)),
    batch=_elementwise_batch(lambda: imag), elementwise=True,
    sample=[Case(((3, 2),), domains=(domain,), numpy=np.imag) for domain in (reals(), complex_numbers())],
)  # fmt: skip
conj: OpDef = structural(
    "chlo.conj", doc="The complex conjugate.", transpose=lambda cts, i, xs: conj(cts[0]),
    batch=_elementwise_batch(lambda: conj), elementwise=True,
    sample=[Case(((3, 2),), domains=(domain,), numpy=np.conj) for domain in (reals(), complex_numbers())],
)  # fmt: skip


def _absolute_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros) -> list[MaybeZero]:
    """The tangent of |x|: t or -t by the sign of x; for complex numbers the part of t along x, and 0 at the origin."""
    x, t = xs[0], tangents[0]
    if isinstance(t, Zero):
        return [ZERO]
    if not is_complex(x.dtype):
        rising = compare(x, full_like(x, 0), comparison_direction="GE")
        return [select(rising, t, -t)]
    # d|z| = Re(t * conj(z) / |z|), and 0 at the origin.
    norm = outs[0]
    return [times(real(t), quotient(real(x), norm)) + times(imag(t), quotient(imag(x), norm))]


absolute: OpDef = general(
    "stablehlo.abs", doc="Absolute value, or the modulus of a complex number. Derivative at 0: 1 (0 for complex), as in JAX.",
    result=_real_result, jvp=_absolute_jvp, batch=_elementwise_batch(lambda: absolute), numpy=np.abs,
    singular=((0.0,),), sample=[Case(((3, 2),), domains=(reals(avoid=[0]),))], elementwise=True,
)  # fmt: skip


def complex_sign(z: Tensor) -> Tensor:
    """z / abs(z), and 0 at 0. Its derivative at 0 is NaN.

    (`stablehlo.sign` has the derivative 0, which is right for real numbers only.)
    """
    size = absolute(z)
    return quotient(z, make_complex(size, full_like(size, 0)))
