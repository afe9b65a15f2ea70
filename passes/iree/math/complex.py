"""Legalisation of complex elementwise mathematics by real operations, which have their own patterns."""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val, complex_, eq, select, splat
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.passes.iree.math.formats import flip_sign, is_nan, sign_of, with_sign
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.table.traits import runs_regions

PATTERNS = Patterns()
ARITHMETIC = Patterns()  # operations that later passes also create

_REDUCERS = ("stablehlo.add", "stablehlo.multiply")


def _complex(*names: str, into: Patterns = PATTERNS) -> Callable[[Callable[..., Val]], Callable[..., Val]]:
    """A decorator that registers a formula as the pattern of operations on complex operands.

    IREE's own formulas use real operations that IREE computes wrongly, or cannot link.

    Args:
      names: the names of the operations.
      into: the table of patterns.
    """

    def register(formula: Callable[..., Val]) -> Callable[..., Val]:
        """Registers a formula, and returns it unchanged."""

        def rewrite(op: ir.Operation, target: Target) -> Replacement:
            """The result by the formula; None for real numbers, and in the body of a reduction."""
            values = operands(op)
            if op.name in _REDUCERS and not runs_regions(op.parent):  # sums are recognised by the operation in their region
                return None
            return formula(*values) if values[0].dtype.kind == "c" else None

        rewrite.__doc__ = formula.__doc__
        into.of(*names)(rewrite)
        return formula

    return register


def _named(name: str) -> Callable[[Val], Val]:
    """The operation with this name, as a function of one operand."""
    return lambda x: b.unary(name, x)


_sin, _cos, _tan = _named("stablehlo.sine"), _named("stablehlo.cosine"), _named("stablehlo.tan")
_sinh, _cosh, _tanh = _named("chlo.sinh"), _named("chlo.cosh"), _named("stablehlo.tanh")
_log1p, _expm1 = _named("stablehlo.log_plus_one"), _named("stablehlo.exponential_minus_one")


def _ordered(z: Val) -> tuple[Val, Val, Val]:
    """The larger and the smaller of |re| and |im|, and the quotient smaller / larger (0 for zeros, 1 for infinities)."""
    x, y = abs(real(z)), abs(imag(z))
    larger, smaller = b.maximum(x, y), b.minimum(x, y)
    ratio = select(eq(larger, smaller), select(larger > 0.0, splat(1.0, x), 0.0), smaller / larger)
    return larger, smaller, ratio


def _is_infinite(x: Val) -> Val:
    """True where x is infinite."""
    return eq(abs(x), math.inf)


def _is_finite(x: Val) -> Val:
    """True where x is neither infinite nor NaN."""
    return abs(x) < math.inf


def _has_infinite_part(z: Val) -> Val:
    """True where the real or the imaginary part of z is infinite."""
    return _is_infinite(real(z)) | _is_infinite(imag(z))


def _product(x: Val, y: Val) -> Val:
    """The product x y, but zero times infinity or NaN is zero; for functions that are 0 on a whole axis."""
    product = x * y
    is_lost = is_nan(product) & (eq(x, 0.0) | eq(y, 0.0))
    return select(is_lost, flip_sign(with_sign(splat(0.0, x), sign_of(x)), sign_of(y)), product)


def _modulus(z: Val) -> Val:
    """The modulus; infinite if one part is infinite, even if the other is NaN."""
    larger, _, ratio = _ordered(z)
    return select(_has_infinite_part(z), math.inf, larger * b.sqrt(1.0 + ratio * ratio))


def _log_modulus(z: Val) -> Val:
    """The logarithm of the modulus, accurate also near modulus 1.

    log |z| = log(larger) + log1p(ratio²) / 2, with ratio = smaller / larger for the parts of z. Near 1 it is log1p((larger - 1)
    (larger + 1) + smaller²) / 2.
    """
    larger, smaller, ratio = _ordered(z)
    larger = select(_has_infinite_part(z), math.inf, larger)
    ratio = select(eq(larger, math.inf), 0.0, ratio)
    is_near_one = (larger > 0.5) & (larger < 2.0)
    excess = select(is_near_one, (larger - 1.0) * (larger + 1.0) + smaller * smaller, ratio * ratio)
    return select(is_near_one, splat(0.0, larger), b.log(larger)) + 0.5 * _log1p(excess)


@PATTERNS.of("stablehlo.abs")
def modulus(op: ir.Operation, target: Target) -> Replacement:
    """The modulus of complex numbers from their parts; None for real ones. IREE needs a math library for complex128."""
    (z,) = operands(op)
    return _modulus(z) if z.dtype.kind == "c" else None


def real(z: Val) -> Val:
    """The real part; read directly if the number was made from two parts."""
    return _part(z, 0)


def imag(z: Val) -> Val:
    """The imaginary part; read directly if the number was made from two parts."""
    return _part(z, 1)


def _part(z: Val, position: int) -> Val:
    """The real part of z if `position` is 0, the imaginary part if it is 1; see `visible_part`."""
    part = visible_part(z, position)
    return (b.real, b.imag)[position](z) if part is None else part


def visible_part(z: Val, position: int) -> Val | None:
    """The real part (position 0) or the imaginary part (1) from which z was made; None if z was made otherwise."""
    maker = made_by(z.value)
    return Val(maker.operands[position]) if maker is not None and maker.name == "stablehlo.complex" else None


@_complex("stablehlo.add", into=ARITHMETIC)
def add(z: Val, w: Val) -> Val:
    """The sum z + w by parts.

    The reason for this and the following operations: `fuse_chains` then fuses chains of complex numbers.
    """
    return complex_(real(z) + real(w), imag(z) + imag(w))


@_complex("stablehlo.subtract", into=ARITHMETIC)
def subtract(z: Val, w: Val) -> Val:
    """The difference z - w by parts."""
    return complex_(real(z) - real(w), imag(z) - imag(w))


@_complex("chlo.conj", into=ARITHMETIC)
def conjugate(z: Val) -> Val:
    """The conjugate of z by parts, so that equal parts of z and its conjugate are seen to be equal."""
    return complex_(real(z), -imag(z))


@_complex("stablehlo.negate", into=ARITHMETIC)
def negate(z: Val) -> Val:
    """The negative -z by parts."""
    return complex_(-real(z), -imag(z))


@_complex("stablehlo.multiply", into=ARITHMETIC)
def multiply(z: Val, w: Val) -> Val:
    """The product z w by parts, with four real products."""
    (x, y), (u, v) = (real(z), imag(z)), (real(w), imag(w))
    return complex_(x * u - y * v, x * v + y * u)


@_complex("stablehlo.divide")
def divide(z: Val, w: Val) -> Val:
    """The quotient by Smith's formula (1962), with the special values of annex G of C99.

    (x + i y) / (u + i v) = ((x + y ratio) + i (y - x ratio)) / size, with ratio = v / u and size = u + v ratio, if |u| >= |v|; else
    with u and v exchanged. IREE 3.13 squares |w|, which may overflow, and ignores infinities. An infinite operand is replaced by
    its direction, and a zero divisor by 1; the result is then infinite or 0.
    """
    is_z_infinite, is_w_infinite = _has_infinite_part(z), _has_infinite_part(w)
    x, y = (select(is_z_infinite, _boxed(part), part) for part in (real(z), imag(z)))
    u, v = (select(is_w_infinite, _boxed(part), part) for part in (real(w), imag(w)))
    is_real_larger = abs(u) >= abs(v)
    larger, smaller = select(is_real_larger, u, v), select(is_real_larger, v, u)
    is_w_zero = eq(larger, 0.0)
    larger = select(is_w_zero, with_sign(splat(1.0, u), sign_of(u)), larger)
    ratio = smaller / larger
    size = larger + smaller * ratio
    re = (select(is_real_larger, x, y) + select(is_real_larger, y, x) * ratio) / size
    im = (select(is_real_larger, y, -x) - select(is_real_larger, x, -y) * ratio) / size
    factor = select(is_z_infinite | is_w_zero, splat(math.inf, x), 1.0) * select(is_w_infinite, splat(0.0, x), 1.0)
    return complex_(re * factor, im * factor)


def _boxed(x: Val) -> Val:
    """The sign of an infinite number, and 0 for other numbers."""
    return select(_is_infinite(x), b.maximum(b.minimum(x, 1.0), -1.0), 0.0)


@_complex("stablehlo.exponential")
def exp(z: Val) -> Val:
    """The exponential e^x (cos y + i sin y); for infinite x and y without an angle, 0 or an infinity."""
    x, y = real(z), imag(z)
    size = b.exp(x)
    is_end = _is_infinite(x) & ~_is_finite(y)
    re, im = size * _cos(y), select(eq(y, 0.0), y, size * _sin(y))
    return complex_(select(is_end, size, re), select(is_end & (x < 0.0), 0.0, im))


@_complex("stablehlo.log")
def log(z: Val) -> Val:
    """The logarithm log|z| + i arg z."""
    return complex_(_log_modulus(z), b.binary("stablehlo.atan2", imag(z), real(z)))


@_complex("stablehlo.log_plus_one")
def log1p(z: Val) -> Val:
    """The logarithm log |1 + z| + i arg(1 + z), accurate near 0: there its real part is half of the real log1p of x (2 + x) +
    y².
    """
    x, y = real(z), imag(z)
    far = _log_modulus(complex_(1.0 + x, y))
    near = 0.5 * _log1p(x * (2.0 + x) + y * y)
    size = select((abs(x) < 0.5) & (abs(y) < 1.0), near, far)
    return complex_(size, b.binary("stablehlo.atan2", y, 1.0 + x))


@_complex("stablehlo.exponential_minus_one")
def expm1(z: Val) -> Val:
    """e^z - 1, accurate near 0: for z = x + i y the real part is (e^x - 1) cos y - 2 sin²(y / 2)."""
    x, y = real(z), imag(z)
    half = _sin(0.5 * y)
    return complex_(_expm1(x) * _cos(y) - 2.0 * half * half, select(eq(y, 0.0), y, b.exp(x) * _sin(y)))


@_complex("stablehlo.sqrt")
def sqrt(z: Val) -> Val:
    """The principal square root; its imaginary part has the sign of the imaginary part of z, also for zeros.

    With root = sqrt((|x| + |z|) / 2) and other = y / (2 root), it is root + i other for x >= 0, else |other| + i sign(y) root.
    """
    x, y = real(z), imag(z)
    larger, _, ratio = _ordered(z)
    # Scaled, so that |x| + |z| is finite and normal.
    is_large = larger > 1.0
    scale = select(is_large, splat(0.125, x), 2.0)
    root = b.sqrt(scale * abs(x) + scale * larger * b.sqrt(1.0 + ratio * ratio)) * select(is_large, splat(2.0, x), 0.5)
    root = select(_is_infinite(x), math.inf, root)
    other = select(eq(root, 0.0), y, 0.5 * (y / root))
    is_positive = x >= 0.0
    signed = with_sign(abs(root), sign_of(y))
    is_infinite = _is_infinite(y)
    re, im = select(is_positive, root, abs(other)), select(is_positive, other, signed)
    return complex_(select(is_infinite, math.inf, re), select(is_infinite, y, im))


@_complex("stablehlo.rsqrt")
def rsqrt(z: Val) -> Val:
    """The number 1 / sqrt(z)."""
    return 1.0 / b.sqrt(z)


@_complex("stablehlo.cbrt")
def cbrt(z: Val) -> Val:
    """The principal cube root e^(log(z) / 3); IREE does not compile complex cube roots."""
    return select(eq(z, 0.0), z, b.exp(b.log(z) * (1.0 / 3.0)))


@_complex("stablehlo.sine")
def sin(z: Val) -> Val:
    """Sin x cosh y + i cos x sinh y."""
    x, y = real(z), imag(z)
    return complex_(_product(_sin(x), _cosh(y)), _product(_cos(x), _sinh(y)))


@_complex("stablehlo.cosine")
def cos(z: Val) -> Val:
    """Cos x cosh y - i sin x sinh y."""
    x, y = real(z), imag(z)
    return complex_(_cos(x) * _cosh(y), -_product(_sin(x), _sinh(y)))


def _tan_parts(x: Val, y: Val) -> tuple[Val, Val]:
    """The real and imaginary part of tan(x + i y), without overflow: for large y it is i for every x.

    With t = tan x and h = tanh y: (t / cosh² y + i h (1 + t²)) / (1 + t² h²).
    """
    h, c = _tanh(y), _cosh(y)
    t = select(_is_infinite(y) & ~_is_finite(x), 0.0, _tan(x))
    t2 = t * t
    below = 1.0 + t2 * h * h
    return select(eq(x, 0.0), x, t / c / c / below), select(eq(y, 0.0), y, h * (1.0 + t2) / below)


@_complex("stablehlo.tan", "chlo.tan")
def tan(z: Val) -> Val:
    """The tangent of z, without overflow."""
    return complex_(*_tan_parts(real(z), imag(z)))


@_complex("stablehlo.tanh")
def tanh(z: Val) -> Val:
    """The hyperbolic tangent, as -i tan(i z)."""
    im, re = _tan_parts(imag(z), real(z))
    return complex_(re, im)


@_complex("chlo.sinh")
def sinh(z: Val) -> Val:
    """Sinh x cos y + i cosh x sin y."""
    x, y = real(z), imag(z)
    return complex_(_product(_sinh(x), _cos(y)), _product(_cosh(x), _sin(y)))


@_complex("chlo.cosh")
def cosh(z: Val) -> Val:
    """Cosh x cos y + i sinh x sin y."""
    x, y = real(z), imag(z)
    return complex_(_cosh(x) * _cos(y), _product(_sinh(x), _sin(y)))


@_complex("stablehlo.logistic")
def logistic(z: Val) -> Val:
    """1 / (1 + e^-z)."""
    return 1.0 / (1.0 + b.exp(-z))


@_complex("stablehlo.sign")
def sign(z: Val) -> Val:
    """z / |z|, and 0 at 0."""
    size = _modulus(z)
    size = select(eq(size, 0.0), 1.0, size)
    return complex_(real(z) / size, imag(z) / size)


@_complex("stablehlo.power")
def power(z: Val, w: Val) -> Val:
    """The power e^(w log z); for z = 0 it is 1 if w = 0, 0 if the real part of w is positive, else NaN."""
    result = b.exp(w * b.log(z))
    nan = complex_(splat(math.nan, real(w)), math.nan)
    at_zero = select(eq(w, 0.0), splat(1.0, w), select(real(w) > 0.0, splat(0.0, w), nan))
    return select(eq(z, 0.0), at_zero, result)
