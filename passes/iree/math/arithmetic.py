"""Legalisation of real elementwise mathematics: exponentials, powers, trigonometry, remainders, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, eq, select, splat
from nabla_mlir.dialects.types import is_float
from nabla_mlir.passes.iree.math import exponential, powers, trigonometric
from nabla_mlir.passes.iree.math.formats import format_of, has_format, sar, sign_of, upper_half, with_sign
from nabla_mlir.passes.iree.pattern import Pattern, Patterns, Replacement, Target, operands
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import runs_regions

PATTERNS = Patterns()

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def elementwise(
    formula: Callable[..., Val], *names: str, right: Callable[[np.dtype, Target], bool] = lambda dtype, target: False
) -> Pattern:
    """Registers a formula as the pattern of some operations on real floats, and returns the pattern.

    Narrow floats are computed in float32. At constant operands, the value is a constant, so no formula is compiled.

    Args:
      formula: computes the result from the operands, which are float32 or float64.
      names: the names of the operations.
      right: returns True for a dtype and a target if IREE's own code is right; the operation is then unchanged.
    """

    def rewrite(op: ir.Operation, target: Target) -> Replacement:
        """The result by the formula; None for other dtypes, and where IREE's code is right. Floats narrower than f32 are converted
        first.
        """
        values = operands(op)
        dtype = values[0].dtype
        if not is_float(dtype):
            return None
        if (constant := _at_constants(op.name, values)) is not None:
            return constant
        if right(F32 if dtype.itemsize < 4 else dtype, target):
            return None
        if not has_format(values[0]):
            wide = [b.convert(v, F32) for v in values]
            return b.convert(Val(b.make(op.name, wide, [wide[0].type]).results[0]), dtype)
        return formula(*values)

    rewrite.__doc__ = formula.__doc__
    return PATTERNS.of(*names)(rewrite)


def _at_constants(name: str, values: list[Val]) -> Val | None:
    """The value of the operation `name` at constants, rounded once, as a constant; None if an operand is not constant."""
    numbers = np.array([splat_of(v.value) for v in values])
    reference = REGISTRY[name].numpy
    if reference is None or numbers.dtype.kind != "f" or not values[0].static:
        return None
    with np.errstate(all="ignore"):
        return splat(float(reference(*numbers.astype(np.longdouble))), values[0])


def _is_exponential_right(dtype: np.dtype, target: Target) -> bool:
    """True if IREE computes exponentials and logarithms of this dtype rightly on the target."""
    return dtype.name in target.exponentials


# sine, cosine, tan: in f32 the error is absolute near 0 and grows with |x|, without bound at 1e20; f64 needs a math library.
elementwise(trigonometric.sin, "stablehlo.sine")
elementwise(trigonometric.cos, "stablehlo.cosine")
elementwise(trigonometric.tan, "stablehlo.tan", "chlo.tan")
# atan2: NaN at (0, 0) and (inf, inf), errors of 40 ulp elsewhere; f64 needs a math library. The other inverses use atan2.
elementwise(trigonometric.atan2, "stablehlo.atan2")
elementwise(trigonometric.atan, "chlo.atan")
elementwise(trigonometric.asin, "chlo.asin")
elementwise(trigonometric.acos, "chlo.acos")
# cbrt: f64 does not compile; f32 is NaN at infinity, with errors of 12 ulp elsewhere.
elementwise(exponential.cbrt, "stablehlo.cbrt")
#  exp and log in f64 are scalar code on a CPU, three to five times slower than these formulas. On Vulkan f64 does not
# compile, and f32 has errors of 20 ulp. tanh in f64 needs a math library.
elementwise(exponential.exp, "stablehlo.exponential", right=_is_exponential_right)
elementwise(exponential.log, "stablehlo.log", right=_is_exponential_right)
elementwise(exponential.logistic, "stablehlo.logistic", right=_is_exponential_right)
elementwise(exponential.tanh, "stablehlo.tanh", right=lambda dtype, target: dtype.name in target.tanh)
#  expm1, log1p: on a CPU, f64 is exp(x) - 1 and log(1 + x); on Vulkan, so is log1p in f32. The hyperbolic functions use
# them.
elementwise(exponential.expm1, "stablehlo.exponential_minus_one")
elementwise(exponential.log1p, "stablehlo.log_plus_one")
elementwise(exponential.sinh, "chlo.sinh")
elementwise(exponential.cosh, "chlo.cosh")
elementwise(exponential.asinh, "chlo.asinh")
elementwise(exponential.acosh, "chlo.acosh")
elementwise(exponential.atanh, "chlo.atanh")


@PATTERNS.of("stablehlo.power")
def power(op: ir.Operation, target: Target) -> Replacement:
    """A power as products or by an accurate formula; None if IREE computes it rightly.

    IREE computes exp(y log x), which is NaN for negative bases and at 0^0, and inaccurate if |y log x| is large.
    """
    x, y = operands(op)
    exponent = splat_of(y.value)
    if x.dtype.kind in "iu":
        is_low = exponent is not None and exponent.real < _POWERS
        return None if is_low or not x.static else _whole_power(x, y)
    if not is_float(x.dtype):
        return None
    if exponent is not None:
        result = _constant_power(x, exponent)
        if result is not None:
            return result
    if not has_format(x):
        return b.convert(b.binary("stablehlo.power", b.convert(x, F32), b.convert(y, F32)), x.dtype)
    return powers.power(x, y)


_POWERS = 64  # the number of values of the exponent that IREE handles


def _whole_power(x: Val, y: Val) -> Val:
    """The power x^y of integers, as a product of powers for six bits of the exponent each: IREE 3.13 uses only the lowest six."""
    result, base, mask = splat(1, x), x, splat(_POWERS - 1, y)
    for position in range(0, 8 * x.dtype.itemsize, 6):
        result = result * _low_power(base, b.binary("stablehlo.shift_right_logical", y, splat(position, y)) & mask)
        base = _low_power(base, mask) * base
    return result if x.dtype.kind == "u" else select(y < splat(0, y), _low_power(x, y), result)


def _low_power(x: Val, y: Val) -> Val:
    """The power x^y of integers by IREE's operation, for exponents below 64."""
    return Val(b.make("stablehlo.power", [x, y], [x.type], {}, final=True).results[0])


def _constant_power(x: Val, n: complex) -> Val | None:
    """The power x^n with few roundings, for n = 0.5 or -0.5 and for integers n from -8 to 8; None for other n."""
    if n in (0.5, -0.5):
        # x + 0 turns -0 into 0.
        root = select(eq(x, -math.inf), math.inf, b.sqrt(x + 0.0))
        return root if n == 0.5 else 1.0 / root
    if isinstance(n, complex) or not -8 <= n <= 8 or n != int(n):
        return None
    if n == 0:
        return splat(1, x)
    base = x if n > 0 else 1.0 / x
    result = base
    # By squaring, for the binary digits of |n| after the first one.
    for bit in f"{abs(int(n)):b}"[1:]:
        result = result * result
        if bit == "1":
            result = result * base
    return result


def splat_of(value: ir.Value) -> complex | None:
    """The number with which a value is filled: a splat constant, or a broadcast or reshape of one; else None."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if op.name == "stablehlo.constant":
            return hlo.constant_splat(op)
        if op.name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
            return None
        value = op.operands[0]
    return None


@PATTERNS.of("stablehlo.remainder")
def remainder(op: ir.Operation, target: Target) -> Replacement:
    """The exact remainder by a formula, because IREE needs a math library for f64 on a CPU; None where IREE's is right.

    On Vulkan, x rem inf is NaN in IREE, and narrow floats are reduced in their own precision.
    """
    x, y = operands(op)
    if not is_float(x.dtype) or x.dtype.itemsize <= target.remainders:
        return None
    if not has_format(x):
        return b.convert(b.binary("stablehlo.remainder", b.convert(x, F32), b.convert(y, F32)), x.dtype)
    loop = runs_regions(op.parent)
    return exact_remainder(x, y, loop)


def exact_remainder(x: Val, y: Val, loop: bool) -> Val:
    """The exact remainder of x / y, with the sign of x.

    If `loop` is False, no loop is emitted, and the remainder is exact only for quotients up to 2^(2 mantissa).
    """
    ax, ay = abs(x), abs(y)
    valid = (ax < math.inf) & (ay > 0.0)
    rest, divisor = select(valid, ax, 0.0), select(valid & (ay < math.inf), ay, 1.0)
    if loop:
        rest = _remainder_step(_remainder_step(rest, divisor), divisor)
        # Rarely entered; it needs one step for each half mantissa of the quotient.
        (rest,) = b.while_loop([rest], lambda r: b.reduce_any(r >= divisor, range(r.rank)), lambda r: [_remainder_step(r, divisor)])
    else:
        for _ in range(4):
            rest = _remainder_step(rest, divisor)
    rest = select(eq(ay, math.inf), ax, rest)
    return with_sign(select(valid, rest, math.nan), sign_of(x))


def _remainder_step(rest: Val, divisor: Val) -> Val:
    """The number `rest` minus q times `divisor`, where q has the leading bits of the quotient, about half a mantissa of them."""
    form = format_of(rest)
    bits = b.bitcast(divisor, form.signed)
    ahead = sar(b.bitcast(rest, form.signed), form.mantissa) - sar(bits, form.mantissa)
    scale = b.maximum(ahead - (form.mantissa // 2 - 2), 0)
    multiple = b.bitcast(bits + (scale << form.mantissa), rest.dtype)
    high = upper_half(multiple)
    q = b.floor(rest / multiple)
    # Both products are exact, and so are the differences, because they are small multiples of the last digit.
    rest = (rest - q * high) - q * (multiple - high)
    rest = select(rest < 0.0, rest + multiple, rest)
    return select(rest >= multiple, rest - multiple, rest)
