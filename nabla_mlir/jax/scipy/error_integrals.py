"""Integrals of exp(-t**2) and exp(i t**2), from the Faddeeva function by the rational series of Weideman.

J. A. C. Weideman, Computation of the complex error function, SIAM J. Numer. Anal. 31 (1994). Derivatives are formulas of the
functions themselves, so that they have derivatives of any order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.dialects.types import is_complex
from nabla_mlir.jax.scipy.integrals import series
from nabla_mlir.numpy.bessel import of_real
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert, inexact
from nabla_mlir.numpy.ufuncs import absolute, cos, exp, imag, real, sign, sin
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.scans import scan

_ROOT = math.sqrt(math.pi)
_COUNT = 44  # the number of terms of the rational series; the error is 1e-15 in the upper half plane


def _coefficients() -> tuple[float, list[float]]:
    """The scale L and the coefficients of Weideman's series, highest power first, from a discrete Fourier transform.

    They are the Fourier coefficients of exp(-t²) (L² + t²) at t = L tan(angle / 2).
    """
    points = 2 * _COUNT
    scale = math.sqrt(_COUNT / math.sqrt(2))
    t = scale * np.tan(np.arange(1 - points, points) * math.pi / points / 2)
    values = np.concatenate([[0.0], np.exp(-(t**2)) * (scale**2 + t**2)])
    a = np.fft.fft(np.fft.fftshift(values)).real / (2 * points)
    return scale, a[1 : _COUNT + 1][::-1].tolist()


_SCALE, _SERIES = _coefficients()


@custom_jvp
def _wofz(z: Tensor) -> Tensor:
    """The Faddeeva function w(z) = exp(-z²) erfc(-iz): Weideman's series in the upper half plane, a reflection formula in the lower
    one.

    With L = _SCALE and y = (L + i z) / (L - i z): w(z) = 2 p(y) / (L - i z)² + 1 / (sqrt(pi) (L - i z)) for a polynomial p, and
    w(z) = 2 exp(-z²) - w(-z).
    """
    below = imag(z) < 0.0
    up = where(below, -z, z)
    distance = _SCALE - 1j * up
    y = (_SCALE + 1j * up) / distance
    total, _ = scan(lambda total, a: (total * y + a, None), full_like(z, 0), np.array(_SERIES, z.dtype))
    upper = (2.0 * total / distance + 1.0 / _ROOT) / distance
    # On the real axis, the real part is exactly exp(-x²).
    upper = where(imag(up) == 0.0, ew.make_complex(exp(-(real(up) ** 2)), imag(upper)), upper)
    return where(below, 2.0 * exp(-(where(below, z, 0.0) ** 2)) - upper, upper)


@_wofz.defjvp
def _wofz_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of the Faddeeva function w, whose derivative is -2 z w + 2i / sqrt(pi)."""
    (z,), (t,) = primals, tangents
    value = _wofz(z)
    return value, t * (-2.0 * z * value + 2j / _ROOT)


@library
def wofz(z: Any) -> Tensor:
    """The Faddeeva function exp(-z**2) erfc(-i z) of complex numbers.

    Example:
      >>> complex(wofz(0.0)).real
      1.0
    """
    z = inexact(z)
    return _wofz(z if is_complex(z.dtype) else convert(z, np.complex128 if z.dtype.itemsize == 8 else np.complex64))


@custom_jvp
def _erfcx(x: Tensor) -> Tensor:
    """The function exp(x**2) erfc(x) of real numbers, from the Faddeeva function of i abs(x) and a reflection for negative x."""
    value = real(_wofz(1j * absolute(x)))
    below = x < 0.0
    value = where(absolute(x) == np.inf, 0.0, value)
    return where(below, 2.0 * exp(where(below, x, 0.0) ** 2) - value, value)


@_erfcx.defjvp
def _erfcx_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of y = erfcx(x), whose derivative is 2 x y - 2 / sqrt(pi)."""
    (x,), (t,) = primals, tangents
    value = _erfcx(x)
    return value, t * (2.0 * x * value - 2.0 / _ROOT)


@library
def erfcx(x: Any) -> Tensor:
    """exp(x**2) erfc(x) of real or complex numbers, which does not underflow for large x.

    Example:
      >>> round(float(erfcx(100.0)), 6)
      0.005642
    """
    x = inexact(x)
    return _wofz(1j * x) if is_complex(x.dtype) else of_real("erfcx", _erfcx, x)


@custom_jvp
def _dawsn(x: Tensor) -> Tensor:
    """Dawson's integral: a power series for small x, and the Faddeeva function for large x.

    It is exp(-x²) times the sum over k of x^(2 k + 1) / (k! (2 k + 1)), and sqrt(pi) / 2 times the imaginary part of w(x).
    """
    size = absolute(x)
    low = size < 2.0
    near, far = where(low, size, 0.0), where(low | (size == np.inf), 2.0, size)

    def term(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the series: x^(2 k + 1) / k! for the next term, and this divided by 2 k + 1 as the summand."""
        part = part * near * near / k
        return part, part / (2.0 * k + 1.0)

    lower = exp(-near * near) * series(term, near, near)
    upper = where(size == np.inf, 0.0, 0.5 * _ROOT * imag(_wofz(far + 0j)))
    return where(x != x, np.nan, sign(x) * where(low, lower, upper))


@_dawsn.defjvp
def _dawsn_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of y = dawsn(x), whose derivative is 1 - 2 x y."""
    (x,), (t,) = primals, tangents
    value = _dawsn(x)
    return value, t * (1.0 - 2.0 * x * value)


@library
def dawsn(x: Any) -> Tensor:
    """Dawson's integral, exp(-x**2) times the integral of exp(t**2) from 0 to x.

    Example:
      >>> round(float(dawsn(1.0)), 6)
      0.53808
    """
    return of_real("dawsn", _dawsn, x)


# ---------------------------------------------------------------- Fresnel's integrals
@custom_jvp
def _fresnel(x: Tensor) -> tuple[Tensor, Tensor]:
    """The Fresnel integrals: a power series for small x, and the Faddeeva function for large x."""
    size = absolute(x)
    low = size < 1.6
    near, far = where(low, size, 0.0), where(low | (size == np.inf), 1.6, size)
    square = (0.5 * math.pi) * near * near

    def term(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        """Term k of the series of C + i S: (i square)^k x / k! for the next term, and this divided by 2 k + 1 as the summand."""
        part = part * (1j * square) / k
        return part, part / (2.0 * k + 1.0)

    lower = series(term, near + 0j, near + 0j)  # C + i S
    angle = (0.5 * math.pi) * far * far
    phase = ew.make_complex(cos(angle), sin(angle))
    upper = (0.5 + 0.5j) * (1.0 - phase * _wofz((0.5 * _ROOT) * (1.0 + 1j) * far))
    both = where(low, lower, where(size == np.inf, 0.5 + 0.5j, upper))
    side = where(x != x, np.nan, sign(x))
    return side * imag(both), side * real(both)


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    """The values and the tangents of the Fresnel integrals, whose derivatives are their integrands."""
    (x,), (t,) = primals, tangents
    angle = (0.5 * math.pi) * x * x
    return _fresnel(x), (t * sin(angle), t * cos(angle))


@library
def fresnel(x: Any) -> tuple[Tensor, Tensor]:
    """The integrals of sin(pi t**2 / 2) and cos(pi t**2 / 2) from 0 to x.

    Example:
      >>> [round(float(y), 6) for y in fresnel(1.0)]
      [0.438259, 0.779893]
    """
    return of_real("fresnel", _fresnel, x)


# ---------------------------------------------------------------- Owen's function
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_END = 9.0  # exp(-s**2 / 2) is negligible for s > 9


@custom_jvp
def _owens_t(h: Tensor, a: Tensor) -> Tensor:
    """Owen's T function: Gauss quadrature for abs(a) <= 1; for larger a, from the value at (h a, 1 / a).

    T(h, a) is the integral of exp(-h² (1 + t²) / 2) / (1 + t²) from 0 to a, divided by 2 pi. With q(x) as the normal tail, for a >
    1 it is (q(h) + q(h a)) / 2 - q(h) q(h a) - T(h a, 1 / a).
    """
    high, slope = absolute(h), absolute(a)
    steep = slope > 1.0
    outer = where(steep, high * slope, high)
    bound = where(steep, 1.0 / where(steep, slope, 1.0), slope)
    end = where(outer * bound > _END, _END / where(outer * bound > _END, outer, 1.0), bound)

    def add(total: Tensor, item: Any) -> tuple[Tensor, None]:
        """The sum with the weighted integrand at one more node; `item` has the node in [0, 1] and its weight."""
        node, weight = item[0], item[1]
        t = end * node
        return total + exp(-0.5 * outer * outer * (1.0 + t * t)) / (1.0 + t * t) * weight, None

    total, _ = scan(add, full_like(h, 0), np.array([0.5 * (_NODES + 1.0), _WEIGHTS], h.dtype).T)
    value = total * end / (4.0 * math.pi)
    tail = lambda x: 0.5 * ew.erfc(x * math.sqrt(0.5))  # noqa: E731
    p, q = tail(high), tail(where(steep, outer, 0.0))
    value = where(steep, 0.5 * (p + q) - p * q - value, value)
    return sign(a) * where(high == np.inf, 0.0, where(slope == np.inf, 0.5 * p, value))


@_owens_t.defjvp
def _owens_t_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of Owen's T function, from its derivatives by h and by a.

    They are -exp(-h² / 2) erf(h a / sqrt(2)) / (2 sqrt(2 pi)) and exp(-h² (1 + a²) / 2) / (2 pi (1 + a²)).
    """
    (h, a), (t, s) = primals, tangents
    by_h = exp(-0.5 * h * h) * ew.erf(h * a * math.sqrt(0.5)) * (-0.5 / math.sqrt(2 * math.pi))
    by_a = exp(-0.5 * h * h * (1.0 + a * a)) / ((1.0 + a * a) * (2.0 * math.pi))
    return _owens_t(h, a), t * by_h + s * by_a


@library
def owens_t(h: Any, a: Any) -> Tensor:
    """Owen's T function: exp(-h**2 (1 + t**2) / 2) / (1 + t**2) / (2 pi), integrated from 0 to a.

    Example:
      >>> round(float(owens_t(1.0, 0.5)), 6)
      0.043065
    """
    return of_real("owens_t", _owens_t, h, a)
