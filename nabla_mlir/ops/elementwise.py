"""Elementwise operations: one record each.

A partial is written ``(t, y, *xs) -> t * dy/dx``; it must be linear in t (a law test holds that).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import I32, enum
from nabla_mlir.dialects.types import element_dtype, is_complex
from nabla_mlir.sparsity import operands as patterns
from nabla_mlir.table.batching import all_prefixed, prefixed
from nabla_mlir.table.kinds import elementwise, general, structural
from nabla_mlir.table.registry import ZERO, MaybeZero, OpDef, Zero, add_any, operation
from nabla_mlir.table.samples import Case, booleans, integers, reals
from nabla_mlir.table.tensor import Tensor, full_like, splat_of


def where_zero(condition: Tensor, t: Tensor) -> Tensor:
    """t where the condition holds, else 0."""
    return select(condition, t, full_like(t, 0))


# ---------------------------------------------------------------- arithmetic
add = elementwise(
    "stablehlo.add", doc="x + y.", partials=[lambda t, z, x, y: t, lambda t, z, x, y: t], numpy=np.add,
    sample=(reals(), reals()), linear="all", commutes=True,
)  # fmt: skip
subtract = elementwise(
    "stablehlo.subtract", doc="x - y.", partials=[lambda t, z, x, y: t, lambda t, z, x, y: -t], numpy=np.subtract,
    sample=(reals(), reals()), linear="all",
)  # fmt: skip


def _multiply_first(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    # Of x * x both parts: 2x may have fewer axes than t.
    return t * (x + x) if x.value == y.value else t * y


def _multiply_second(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> MaybeZero:
    return ZERO if x.value == y.value else x * t


multiply = elementwise(
    "stablehlo.multiply", pattern=patterns.product,
    doc="x * y.", partials=[_multiply_first, _multiply_second], numpy=np.multiply,
    sample=(reals(), reals()), linear=(0, 1), joint=False, commutes=True,
)  # fmt: skip


def _divide_second(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    # A constant over y is a power of y, each derivative of which is one term.
    constant = splat_of(x) if x.dtype.kind == "f" else None
    return -(t * (z / y)) if constant is None else t * (full_like(y, -constant) * power(y, full_like(y, -2)))


divide = elementwise(
    "stablehlo.divide", doc="x / y.", partials=[lambda t, z, x, y: t / y, _divide_second], numpy=np.divide,
    sample=(reals(), reals(0.5, 2)), linear=(0,), joint=False, instructions=8,
)  # fmt: skip
negate = elementwise(
    "stablehlo.negate", doc="-x.", partials=[lambda t, y, x: -t], numpy=np.negative, sample=(reals(),), linear="all",
)  # fmt: skip
remainder = elementwise(
    "stablehlo.remainder", doc="The remainder of x / y with the sign of x.",
    partials=[lambda t, z, x, y: t, lambda t, z, x, y: -(t * _truncate(x / y))], numpy=np.fmod,
    sample=(reals(0.1, 0.9), reals(1, 2)), instructions=10,
)  # fmt: skip


def _truncate(x: Tensor) -> Tensor:
    return sign(x) * floor(absolute(x))


def _power_base(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    # y * x**(y-1), and 0 for x = y = 0, where x**(y-1) is infinite.
    exponent = splat_of(y)
    if exponent is not None:
        if exponent == 0:
            return full_like(t, 0)
        if exponent == 1:
            return t
        if exponent == 2:
            return t * (x + x)
        return t * (full_like(x, exponent) * power(x, full_like(y, exponent - 1)))
    one = full_like(y, 1)
    both_zero = logical_and(*(compare(v, full_like(v, 0), comparison_direction="EQ") for v in (x, y)))
    return t * (y * power(x, select(both_zero, one, y - one)))


def _power_exponent(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    # log(x) * x**y, and 0 for x = 0, where x**y is constant for y > 0.
    at_zero = compare(x, full_like(x, 0), comparison_direction="EQ")
    return t * (log(select(at_zero, full_like(x, 1), x)) * z)


power = elementwise(
    "stablehlo.power", doc="x to the power y.", partials=[_power_base, _power_exponent], numpy=np.power,
    sample=(reals(0.5, 2), reals()), instructions=60,
)  # fmt: skip


def _wins(sign_of: str) -> Any:
    # The winner takes the tangent; equal operands share it. The share is a factor: it may have fewer axes than t.
    def partial(t: Tensor, z: Tensor, x: Tensor, y: Tensor, *, own: int) -> Tensor:
        mine, other = (x, y) if own == 0 else (y, x)
        tie = compare(mine, other, comparison_direction="EQ")
        share = select(tie, full_like(mine, 0.5), full_like(mine, 1))
        return where_zero(compare(mine, other, comparison_direction=sign_of), t * share)

    return [lambda t, z, x, y: partial(t, z, x, y, own=0), lambda t, z, x, y: partial(t, z, x, y, own=1)]


maximum = elementwise(
    "stablehlo.maximum", doc="The larger of x and y; NaN if either is. Equal operands share the derivative.",
    partials=_wins("GE"), numpy=np.maximum, sample=(reals(), reals()), commutes=True, instructions=3,
)  # fmt: skip
minimum = elementwise(
    "stablehlo.minimum", doc="The smaller of x and y; NaN if either is. Equal operands share the derivative.",
    partials=_wins("LE"), numpy=np.minimum, sample=(reals(), reals()), commutes=True, instructions=3,
)  # fmt: skip
atan2 = elementwise(
    "stablehlo.atan2", doc="The angle of the point (y, x).",
    partials=[lambda t, z, y, x: t * (x / (x * x + y * y)), lambda t, z, y, x: t * (-y / (x * x + y * y))],
    numpy=np.arctan2, sample=(reals(avoid=[0]), reals(avoid=[0])), instructions=40,
)  # fmt: skip

# ---------------------------------------------------------------- exponentials and roots
exponential = elementwise(
    "stablehlo.exponential", doc="e to the power x.", partials=[lambda t, y, x: t * y], numpy=np.exp, sample=(reals(),),
    instructions=20,
)  # fmt: skip
exponential_minus_one = elementwise(
    "stablehlo.exponential_minus_one", doc="exp(x) - 1, accurate near 0.", partials=[lambda t, y, x: t * (y + 1.0)],
    numpy=np.expm1, sample=(reals(),), instructions=40,
)  # fmt: skip
log = elementwise(
    "stablehlo.log", doc="Natural logarithm.", partials=[lambda t, y, x: t / x], numpy=np.log, sample=(reals(0.2, 3),),
    instructions=25,
)  # fmt: skip
log_plus_one = elementwise(
    "stablehlo.log_plus_one", doc="log(1 + x), accurate near 0.", partials=[lambda t, y, x: t / (x + 1.0)],
    numpy=np.log1p, sample=(reals(-0.5, 2),), instructions=30,
)  # fmt: skip
logistic = elementwise(
    "stablehlo.logistic", doc="1 / (1 + exp(-x)).", partials=[lambda t, y, x: t * (y * (1.0 - y))],
    numpy=lambda x: 1 / (1 + np.exp(-x)), sample=(reals(),), instructions=25,
)  # fmt: skip


def _sqrt_partial(t: Tensor, y: Tensor, x: Tensor) -> Tensor:
    # t / (2 sqrt(x)), and 0 for t = x = 0.
    both_zero = logical_and(*(compare(v, full_like(v, 0), comparison_direction="EQ") for v in (t, y)))
    return select(both_zero, full_like(t, 0), t * (0.5 / y))


sqrt = elementwise(
    "stablehlo.sqrt", doc="Square root.", partials=[_sqrt_partial], numpy=np.sqrt,
    sample=(reals(0.2, 3),), instructions=10,
)  # fmt: skip
rsqrt = elementwise(
    "stablehlo.rsqrt", doc="1 / sqrt(x).", partials=[lambda t, y, x: t * (y / x * -0.5)],
    numpy=lambda x: x**-0.5, sample=(reals(0.2, 3),), instructions=15,
)  # fmt: skip
cbrt = elementwise(
    "stablehlo.cbrt", doc="Cube root.", partials=[lambda t, y, x: t / (y * y * 3.0)], numpy=np.cbrt,
    sample=(reals(-2, 2, avoid=[0]),), instructions=40,
)  # fmt: skip
square = elementwise(
    "chlo.square", doc="x * x.", partials=[lambda t, y, x: t * (x + x)], numpy=np.square, sample=(reals(),)
)

# ---------------------------------------------------------------- trigonometric and hyperbolic
sine = elementwise(
    "stablehlo.sine", doc="Sine.", partials=[lambda t, y, x: t * cosine(x)], numpy=np.sin, sample=(reals(-3, 3),),
    instructions=25,
)  # fmt: skip
cosine: OpDef = elementwise(
    "stablehlo.cosine", doc="Cosine.", partials=[lambda t, y, x: -(t * sine(x))], numpy=np.cos, sample=(reals(-3, 3),),
    instructions=25,
)  # fmt: skip
tan = elementwise(
    "stablehlo.tan", doc="Tangent.", partials=[lambda t, y, x: t * (y * y + 1.0)], numpy=np.tan, sample=(reals(-1, 1),),
    instructions=30,
)  # fmt: skip
chlo_tan = elementwise(
    "chlo.tan", doc="Tangent.", partials=[lambda t, y, x: t * (y * y + 1.0)], numpy=np.tan, sample=(reals(-1, 1),),
    instructions=30,
)  # fmt: skip
tanh = elementwise(
    "stablehlo.tanh", doc="Hyperbolic tangent.", partials=[lambda t, y, x: t * (1.0 - y * y)], numpy=np.tanh,
    sample=(reals(),), instructions=25,
)  # fmt: skip
acos = elementwise(
    "chlo.acos", doc="Inverse cosine.", partials=[lambda t, y, x: -(t * rsqrt(1.0 - x * x))], numpy=np.arccos,
    sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip
asin = elementwise(
    "chlo.asin", doc="Inverse sine.", partials=[lambda t, y, x: t * rsqrt(1.0 - x * x)], numpy=np.arcsin,
    sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip
atan = elementwise(
    "chlo.atan", doc="Inverse tangent.", partials=[lambda t, y, x: t / (x * x + 1.0)], numpy=np.arctan,
    sample=(reals(),), instructions=30,
)  # fmt: skip
cosh = elementwise(
    "chlo.cosh", doc="Hyperbolic cosine.", partials=[lambda t, y, x: t * sinh(x)], numpy=np.cosh, sample=(reals(),),
    instructions=40,
)  # fmt: skip
sinh: OpDef = elementwise(
    "chlo.sinh", doc="Hyperbolic sine.", partials=[lambda t, y, x: t * cosh(x)], numpy=np.sinh, sample=(reals(),),
    instructions=40,
)  # fmt: skip
acosh = elementwise(
    "chlo.acosh", doc="Inverse hyperbolic cosine.", partials=[lambda t, y, x: t * rsqrt(x - 1.0) * rsqrt(x + 1.0)],
    numpy=np.arccosh, sample=(reals(1.2, 3),), instructions=40,
)  # fmt: skip
asinh = elementwise(
    "chlo.asinh", doc="Inverse hyperbolic sine.", partials=[lambda t, y, x: t * rsqrt(x * x + 1.0)],
    numpy=np.arcsinh, sample=(reals(),), instructions=40,
)  # fmt: skip
atanh = elementwise(
    "chlo.atanh", doc="Inverse hyperbolic tangent.", partials=[lambda t, y, x: t / ((1.0 - x) * (1.0 + x))],
    numpy=np.arctanh, sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip

# ---------------------------------------------------------------- special functions
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
erf = elementwise(
    "chlo.erf", doc="Error function.", partials=[lambda t, y, x: t * (exponential(-(x * x)) * _TWO_OVER_SQRT_PI)],
    numpy="scipy.special:erf", sample=(reals(),), instructions=30,
)  # fmt: skip
erfc = elementwise(
    "chlo.erfc", doc="1 - erf(x).", partials=[lambda t, y, x: t * (exponential(-(x * x)) * -_TWO_OVER_SQRT_PI)],
    numpy="scipy.special:erfc", sample=(reals(),), instructions=40,
)  # fmt: skip
erf_inv = elementwise(
    "chlo.erf_inv", doc="Inverse of the error function.",
    partials=[lambda t, y, x: t * (exponential(y * y) * (1 / _TWO_OVER_SQRT_PI))], numpy="scipy.special:erfinv",
    sample=(reals(-0.9, 0.9),), instructions=40,
)  # fmt: skip


# ---------------------------------------------------------------- rounding, sign, bits: the derivative is zero
def _flat(name: str, doc: str, numpy: Any, sample: Any, **facts: Any) -> Any:
    return elementwise(name, doc=doc, partials=ZERO, numpy=numpy, sample=sample, **facts)


_STEPS = (reals(-3, 3, avoid=[-2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5], gap=0.05),)
floor = _flat("stablehlo.floor", "The largest integer not above x.", np.floor, _STEPS)
ceil = _flat("stablehlo.ceil", "The smallest integer not below x.", np.ceil, _STEPS)
round_nearest_even = _flat("stablehlo.round_nearest_even", "The nearest integer, ties to even.", np.rint, _STEPS)
round_nearest_afz = _flat(
    "stablehlo.round_nearest_afz", "The nearest integer, ties away from zero.",
    lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), _STEPS,
)  # fmt: skip
sign = _flat("stablehlo.sign", "-1, 0 or 1; NaN for NaN.", np.sign, (reals(avoid=[0]),))
is_finite = _flat("stablehlo.is_finite", "True unless x is infinite or NaN.", np.isfinite, (reals(),))
logical_not = _flat("stablehlo.not", "Bitwise or logical complement.", np.invert, (integers(),))
_BITS = (integers(), integers())
logical_and = _flat("stablehlo.and", "Bitwise or logical and.", np.bitwise_and, _BITS, commutes=True)
logical_or = _flat("stablehlo.or", "Bitwise or logical or.", np.bitwise_or, _BITS, commutes=True)
logical_xor = _flat("stablehlo.xor", "Bitwise or logical exclusive or.", np.bitwise_xor, _BITS, commutes=True)
shift_left = _flat("stablehlo.shift_left", "x * 2**n.", np.left_shift, (integers(), integers(0, 5)))
shift_right_arithmetic = _flat(
    "stablehlo.shift_right_arithmetic", "x / 2**n, the sign kept.", np.right_shift, (integers(), integers(0, 5))
)
shift_right_logical = _flat(
    "stablehlo.shift_right_logical", "x / 2**n, zeros shifted in.", np.right_shift, (integers(0, 9), integers(0, 5))
)
popcnt = _flat("stablehlo.popcnt", "The number of one bits.", np.bitwise_count, (integers(0, 9),))
count_leading_zeros = _flat(
    "stablehlo.count_leading_zeros", "The number of leading zero bits.",
    lambda x: _leading_zeros(np.asarray(x)), (integers(0, 9),),
)  # fmt: skip


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    bits = 8 * x.dtype.itemsize
    return np.vectorize(lambda n: bits - (int(n) % (1 << bits)).bit_length(), otypes=[x.dtype])(x)


COMPARISONS: dict[str, np.ufunc] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal
}  # fmt: skip

compare = elementwise(
    "stablehlo.compare", doc="x < y, x == y, ... as truth values.", partials=ZERO,
    attributes={"comparison_direction": enum("comparison_direction"), "compare_type": enum("comparison_type")},
    defaults={"compare_type": None},
    sample=[Case(((3, 2), (3, 2)), {"comparison_direction": d, "compare_type": None}, (integers(), integers()), numpy=f)
            for d, f in COMPARISONS.items()],
)  # fmt: skip
reduce_precision: OpDef = elementwise(
    "stablehlo.reduce_precision", doc="x rounded to a format with fewer bits; differentiated as the identity.",
    partials=[lambda t, y, x, **params: reduce_precision(t, **params)],
    attributes={"exponent_bits": I32, "mantissa_bits": I32},
    sample=[Case(((3, 2),), {"exponent_bits": 11, "mantissa_bits": 52}, numpy=lambda x: x)],
)  # fmt: skip

# ---------------------------------------------------------------- selection and change of type


def _select_transpose(cts: Any, i: int, xs: Any) -> MaybeZero:
    pred, ct = xs[0], cts[0]
    if i == 1:
        return select(pred, ct, full_like(ct, 0))
    return select(pred, full_like(ct, 0), ct)


def _select_batch(xs: Any, mapped: Any, size: int) -> list[Tensor]:
    pred, *branches = xs
    branches = all_prefixed(branches, mapped[1:], size)
    if pred.ndim == 0:
        return [select(pred, *branches)]
    if not mapped[0]:
        pred = prefixed(pred, size)
    if pred.ndim < branches[0].ndim:  # a scalar per entry becomes one truth value per element
        pred = operation("broadcast_in_dim")(pred, shape=branches[0].shape, broadcast_dimensions=(0,))
    return [select(pred, *branches)]


select = structural(
    "stablehlo.select", pattern=patterns.choice,
    doc="x where pred holds, else y; a scalar pred chooses one of them whole.", linear=(1, 2),
    transpose=_select_transpose, batch=_select_batch,
    sample=[Case(((3, 2), (3, 2), (3, 2)), domains=(booleans(),), numpy=np.where),
            Case(((), (3, 2), (3, 2)), domains=(booleans(),), numpy=np.where),
            Case(((), (), ()), domains=(booleans(),), numpy=np.where)], elementwise=True, moves=True,
)  # fmt: skip


def _clamp_jvp(outs: Any, xs: Any, tangents: Any) -> list[MaybeZero]:
    low, x, high = xs
    t_low, t, t_high = tangents
    spread_low, spread_high = (_spread(bound, x) for bound in (low, high))
    below = compare(x, spread_low, comparison_direction="LT")
    above = compare(x, spread_high, comparison_direction="GT")
    total: MaybeZero = ZERO
    if not isinstance(t, Zero):
        inside = logical_and(
            compare(x, spread_low, comparison_direction="GT"), compare(x, spread_high, comparison_direction="LT")
        )
        total = where_zero(inside, t)
    if not isinstance(t_low, Zero):  # where the bounds cross the upper one holds
        below = logical_and(below, compare(spread_low, spread_high, comparison_direction="LT"))
        total = add_any(total, where_zero(below, _spread(t_low, x)))
    if not isinstance(t_high, Zero):
        total = add_any(total, where_zero(above, _spread(t_high, x)))
    return [total]


def _spread(bound: Tensor, x: Tensor) -> Tensor:
    if bound.shape == x.shape:
        return bound
    return operation("broadcast_in_dim")(bound, shape=x.shape, broadcast_dimensions=())


def _clamp_batch(xs: Any, mapped: Any, size: int) -> list[Tensor]:
    low, x, high = xs
    if not mapped[0] and not mapped[2]:
        scalar = [b.ndim == 0 for b in (low, high)]
        bounds = [b if s else prefixed(b, size) for b, s in zip((low, high), scalar, strict=True)]
        return [clamp(bounds[0], x, bounds[1])]
    full_x = x if mapped[1] else prefixed(x, size)
    bounds = [_full_bound(b, m, full_x, size) for b, m in ((low, mapped[0]), (high, mapped[2]))]
    return [clamp(bounds[0], full_x, bounds[1])]


def _full_bound(bound: Tensor, mapped: bool, x: Tensor, size: int) -> Tensor:
    own = bound if mapped else prefixed(bound, size)
    if own.shape == x.shape:
        return own
    return operation("broadcast_in_dim")(own, shape=x.shape, broadcast_dimensions=(0,))


def _clip(low: Any, x: Any, high: Any) -> Any:
    return np.clip(x, low, high)


clamp = general(
    "stablehlo.clamp", doc="min(max(x, low), high); scalar bounds hold for every element. Zero derivative at a bound.",
    jvp=_clamp_jvp, batch=_clamp_batch,
    result=lambda low, x, high: [(x.shape, x.dtype)],
    sample=[Case(((), (4, 2), ()), domains=(reals(-1, -0.5), None, reals(0.5, 1)), numpy=_clip),
            Case(((4,), (4,), (4,)), domains=(reals(-1, -0.5), None, reals(0.5, 1)), numpy=_clip)],
    elementwise=True, instructions=3,
)  # fmt: skip


def _convert_jvp(outs: Any, xs: Any, tangents: Any, *, dtype: np.dtype) -> list[MaybeZero]:
    return [tangents[0] if isinstance(tangents[0], Zero) else convert(tangents[0], dtype=dtype)]


def _convert_transpose(cts: Any, i: int, xs: Any, *, dtype: np.dtype) -> Tensor:
    ct = cts[0]
    if is_complex(ct.dtype) and not is_complex(xs[0].dtype):
        ct = real(ct)
    return convert(ct, dtype=xs[0].dtype) if ct.dtype != xs[0].dtype else ct


convert: OpDef = structural(
    "stablehlo.convert", doc="x in another element type.",
    result=lambda x, dtype: [(x.shape, np.dtype(dtype))],
    result_params=lambda op: {"dtype": element_dtype(op.results[0].type)},
    jvp=_convert_jvp, transpose=_convert_transpose,
    batch=lambda xs, mapped, size, dtype: [convert(xs[0], dtype=dtype)],
    sample=[Case(((3, 2),), {"dtype": np.dtype(np.float64)}, numpy=lambda x: x.astype(np.float64)),
            Case(((3, 2),), {"dtype": np.dtype(np.int32)}, numpy=lambda x: x.astype(np.int32), smooth=False),
            Case(((3, 2),), {"dtype": np.dtype(np.complex128)}, numpy=lambda x: x.astype(np.complex128))],
    elementwise=True, flops=lambda *_, **__: 0,
)  # fmt: skip

# ---------------------------------------------------------------- complex numbers
# Pairing of tangents and cotangents is the plain product Re(ct * t), as in JAX: no conjugation.


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
    sample=[Case(((3, 2),), numpy=np.real)], elementwise=True,
)  # fmt: skip
imag: OpDef = structural(
    "stablehlo.imag", doc="The imaginary part.", result=_real_result,
    transpose=lambda cts, i, xs: (
        make_complex(full_like(cts[0], 0), -cts[0]) if is_complex(xs[0].dtype) else full_like(xs[0], 0)),
    batch=_elementwise_batch(lambda: imag), sample=[Case(((3, 2),), numpy=np.imag)], elementwise=True,
)  # fmt: skip
conj: OpDef = structural(
    "chlo.conj", doc="The complex conjugate.", transpose=lambda cts, i, xs: conj(cts[0]),
    batch=_elementwise_batch(lambda: conj), sample=[Case(((3, 2),), numpy=np.conj)], elementwise=True,
)  # fmt: skip


def _absolute_jvp(outs: Any, xs: Any, tangents: Any) -> list[MaybeZero]:
    x, t = xs[0], tangents[0]
    if isinstance(t, Zero):
        return [ZERO]
    if not is_complex(x.dtype):
        rising = compare(x, full_like(x, 0), comparison_direction="GE")
        return [select(rising, t, -t)]
    # d|z| = Re(t * conj(z) / |z|), and 0 at the origin.
    norm = outs[0]
    safe = select(compare(norm, full_like(norm, 0), comparison_direction="EQ"), full_like(norm, 1), norm)
    direction = make_complex(real(x) / safe, -(imag(x) / safe))
    return [real(t * direction)]


absolute: OpDef = general(
    "stablehlo.abs", doc="Absolute value; of a complex number its modulus. Derivative at 0: 1 (0 for complex), as in JAX.",
    result=_real_result, jvp=_absolute_jvp, batch=_elementwise_batch(lambda: absolute), numpy=np.abs,
    sample=[Case(((3, 2),), domains=(reals(avoid=[0]),))], elementwise=True,
)  # fmt: skip


def complex_sign(z: Tensor) -> Tensor:
    """z / abs(z), 0 at 0, with its derivative: `stablehlo.sign` is for real numbers, whose signs have none."""
    size = absolute(z)
    zero = compare(size, full_like(size, 0), comparison_direction="EQ")
    unit = divide(z, make_complex(select(zero, full_like(size, 1), size), full_like(size, 0)))
    return select(zero, full_like(z, 0), unit)
