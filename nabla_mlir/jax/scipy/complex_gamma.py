"""The logarithm of the gamma function of complex numbers, by the approximation of Lanczos and a reflection.

C. Lanczos, A precision approximation of the gamma function, SIAM J. Numer. Anal. 1 (1964), with nine terms and g = 7, whose
error is 1e-15. The branch cut is the negative real axis, as in SciPy. Derivatives are those of the formulas.
"""

from __future__ import annotations

import math

import numpy as np

from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.special_values import signbit
from nabla_mlir.numpy.ufuncs import conj, exp, expm1, floor, imag, log, real
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.table.tensor import Tensor

_SHIFT = 7.5  # g + 1 / 2
_FIRST = 0.99999999999980993
_TERMS = (
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)


def _right(z: Tensor) -> Tensor:
    """The function log(gamma(z)) for real parts of at least 1/2, by the approximation of Lanczos.

    With w = z - 1 and t = w + shift: log(2 pi) / 2 + (w + 1/2) log(t) - t + log(first + the sum over k >= 1 of c_k / (w + k)).
    """
    w = z - 1.0
    total = w * 0.0 + _FIRST
    for k, c in enumerate(_TERMS):
        total = total + c / (w + (k + 1.0))
    t = w + _SHIFT
    return 0.5 * math.log(2 * math.pi) + (w + 0.5) * log(t) - t + log(total)


def complex_loggamma(z: Tensor) -> Tensor:
    """The function log(gamma(z)), continuous except across the negative real axis; NaN at the poles 0, -1, -2, ...

    In the upper half plane, log(sin(pi z)) = log(1 - q) - i pi z + log(i / 2) with q = exp(2 pi i z), and 1 - q is computed from
    the distance to the nearest whole number. The lower half plane follows by conjugation.
    """
    pole = (imag(z) == 0.0) & (real(z) <= 0.0) & (real(z) == floor(stop_gradient(real(z)))) | (z != z)
    below = signbit(stop_gradient(imag(z)))
    z = where(pole, 1.0, where(below, conj(z), z)).astype(z.dtype)
    left = real(z) < 0.5
    inner = where(left, z, 0.25 + 1j).astype(z.dtype)
    distance = inner - floor(stop_gradient(real(inner)) + 0.5)
    sine = log(-expm1(2j * math.pi * distance)) - 1j * math.pi * inner + complex(-math.log(2), 0.5 * math.pi)
    right = _right(where(left, 1.0 - z, z).astype(z.dtype))
    value = where(left, math.log(math.pi) - sine - right, right)
    value = where(below, conj(value), value)
    return where(pole, complex(np.nan, np.nan), value).astype(z.dtype)


def complex_gamma(z: Tensor) -> Tensor:
    """The gamma function of complex numbers; NaN at its poles, and real on the real axis."""
    value = exp(complex_loggamma(z))
    on_axis = imag(z) == 0.0
    return where(on_axis, ew.make_complex(real(value), where(value == value, 0.0, imag(value))), value).astype(z.dtype)
