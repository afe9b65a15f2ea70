"""Legalisation of complex elementwise mathematics, in terms of real operations (which have patterns of their own)."""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val, complex_, eq, imag, real, select, splat
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()


def _complex(*names: str) -> Callable[[Callable[..., Val]], Callable[..., Val]]:
    """Registers a formula for complex operands: IREE's use the real operations that it gets wrong or cannot link."""

    def register(formula: Callable[..., Val]) -> Callable[..., Val]:
        def rewrite(op: ir.Operation, target: Target) -> Replacement:
            values = operands(op)
            return formula(*values) if values[0].dtype.kind == "c" else None

        rewrite.__doc__ = formula.__doc__
        PATTERNS.of(*names)(rewrite)
        return formula

    return register


def _named(name: str) -> Callable[[Val], Val]:
    return lambda x: b.unary(name, x)


_sin, _cos, _tan = _named("stablehlo.sine"), _named("stablehlo.cosine"), _named("stablehlo.tan")
_sinh, _cosh, _tanh = _named("chlo.sinh"), _named("chlo.cosh"), _named("stablehlo.tanh")
_log1p, _expm1 = _named("stablehlo.log_plus_one"), _named("stablehlo.exponential_minus_one")


def _ordered(z: Val) -> tuple[Val, Val, Val]:
    """The larger and the smaller of |re| and |im|, and the smaller over the larger."""
    x, y = abs(real(z)), abs(imag(z))
    larger, smaller = b.maximum(x, y), b.minimum(x, y)
    ratio = select(eq(larger, smaller), select(larger > 0.0, splat(1.0, x), 0.0), smaller / larger)
    return larger, smaller, ratio


def _modulus(z: Val) -> Val:
    larger, _, ratio = _ordered(z)
    return larger * b.sqrt(1.0 + ratio * ratio)


def _log_modulus(z: Val) -> Val:
    larger, smaller, ratio = _ordered(z)
    near = (larger > 0.5) & (larger < 2.0)
    excess = select(near, (larger - 1.0) * (larger + 1.0) + smaller * smaller, ratio * ratio)
    return select(near, splat(0.0, larger), b.log(larger)) + 0.5 * _log1p(excess)


@PATTERNS.of("stablehlo.abs")
def modulus(op: ir.Operation, target: Target) -> Replacement:
    """The modulus of complex128 needs a libm."""
    (z,) = operands(op)
    return _modulus(z) if z.dtype.kind == "c" else None


@_complex("stablehlo.exponential")
def exp(z: Val) -> Val:
    """e^x (cos y + i sin y)."""
    x, y = real(z), imag(z)
    size = b.exp(x)
    return complex_(size * _cos(y), select(eq(y, 0.0), y, size * _sin(y)))


@_complex("stablehlo.log")
def log(z: Val) -> Val:
    """log|z| + i arg z."""
    return complex_(_log_modulus(z), b.binary("stablehlo.atan2", imag(z), real(z)))


@_complex("stablehlo.log_plus_one")
def log1p(z: Val) -> Val:
    """log(1 + z), accurate near 0."""
    x, y = real(z), imag(z)
    far = _log_modulus(complex_(1.0 + x, y))
    near = 0.5 * _log1p(x * (2.0 + x) + y * y)
    size = select((abs(x) < 0.5) & (abs(y) < 1.0), near, far)
    return complex_(size, b.binary("stablehlo.atan2", y, 1.0 + x))


@_complex("stablehlo.exponential_minus_one")
def expm1(z: Val) -> Val:
    """e^z - 1, accurate near 0."""
    x, y = real(z), imag(z)
    half = _sin(0.5 * y)
    return complex_(_expm1(x) * _cos(y) - 2.0 * half * half, select(eq(y, 0.0), y, b.exp(x) * _sin(y)))


@_complex("stablehlo.sqrt")
def sqrt(z: Val) -> Val:
    """The principal square root."""
    x, y = real(z), imag(z)
    root = b.sqrt(0.5 * (abs(x) + _modulus(z)))
    other = select(eq(root, 0.0), splat(0.0, x), 0.5 * y / root)
    positive = x >= 0.0
    signed = select(y < 0.0, -root, root)
    return complex_(select(positive, root, abs(other)), select(positive, other, signed))


@_complex("stablehlo.rsqrt")
def rsqrt(z: Val) -> Val:
    """1 / sqrt(z)."""
    return 1.0 / b.sqrt(z)


@_complex("stablehlo.cbrt")
def cbrt(z: Val) -> Val:
    """The principal cube root; complex ones do not compile."""
    return select(eq(z, 0.0), z, b.exp(b.log(z) * (1.0 / 3.0)))


@_complex("stablehlo.sine")
def sin(z: Val) -> Val:
    """Sin x cosh y + i cos x sinh y."""
    x, y = real(z), imag(z)
    return complex_(_sin(x) * _cosh(y), _cos(x) * _sinh(y))


@_complex("stablehlo.cosine")
def cos(z: Val) -> Val:
    """Cos x cosh y - i sin x sinh y."""
    x, y = real(z), imag(z)
    return complex_(_cos(x) * _cosh(y), -(_sin(x) * _sinh(y)))


def _tan_parts(x: Val, y: Val) -> tuple[Val, Val]:
    """The parts of tan(x + i y), with no term that overflows."""
    t, h, c = _tan(x), _tanh(y), _cosh(y)
    t2 = t * t
    below = 1.0 + t2 * h * h
    return t / c / c / below, h * (1.0 + t2) / below


@_complex("stablehlo.tan", "chlo.tan")
def tan(z: Val) -> Val:
    """The tangent."""
    return complex_(*_tan_parts(real(z), imag(z)))


@_complex("stablehlo.tanh")
def tanh(z: Val) -> Val:
    """-i tan(i z)."""
    im, re = _tan_parts(imag(z), real(z))
    return complex_(re, im)


@_complex("chlo.sinh")
def sinh(z: Val) -> Val:
    """Sinh x cos y + i cosh x sin y."""
    x, y = real(z), imag(z)
    return complex_(_sinh(x) * _cos(y), _cosh(x) * _sin(y))


@_complex("chlo.cosh")
def cosh(z: Val) -> Val:
    """Cosh x cos y + i sinh x sin y."""
    x, y = real(z), imag(z)
    return complex_(_cosh(x) * _cos(y), _sinh(x) * _sin(y))


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
    """e^(w log z), and 0^w."""
    result = b.exp(w * b.log(z))
    at_zero = select(eq(w, 0.0), splat(1.0, w), select(real(w) > 0.0, splat(0.0, w), math.nan))
    return select(eq(z, 0.0), at_zero, result)
