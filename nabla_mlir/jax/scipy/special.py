"""Special functions of mathematics and statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.jax.scipy.boxcox import boxcox as boxcox
from nabla_mlir.jax.scipy.boxcox import boxcox1p as boxcox1p
from nabla_mlir.jax.scipy.complex_gamma import complex_gamma, complex_loggamma
from nabla_mlir.jax.scipy.error_integrals import dawsn as dawsn
from nabla_mlir.jax.scipy.error_integrals import erfcx as erfcx
from nabla_mlir.jax.scipy.error_integrals import fresnel as fresnel
from nabla_mlir.jax.scipy.error_integrals import owens_t as owens_t
from nabla_mlir.jax.scipy.error_integrals import wofz as wofz
from nabla_mlir.jax.scipy.gamma_ratios import log_beta, log_binomial, log_rising
from nabla_mlir.jax.scipy.harmonics import bessel_jn as bessel_jn
from nabla_mlir.jax.scipy.harmonics import sph_harm_y as sph_harm_y
from nabla_mlir.jax.scipy.hypergeometric import hyp1f1 as hyp1f1
from nabla_mlir.jax.scipy.hypergeometric import hyp2f1 as hyp2f1
from nabla_mlir.jax.scipy.incomplete import betainc as betainc
from nabla_mlir.jax.scipy.incomplete import gammainc as gammainc
from nabla_mlir.jax.scipy.incomplete import gammaincc as gammaincc
from nabla_mlir.jax.scipy.incomplete import gammasgn as gammasgn
from nabla_mlir.jax.scipy.information import entr as entr
from nabla_mlir.jax.scipy.information import kl_div as kl_div
from nabla_mlir.jax.scipy.information import rel_entr as rel_entr
from nabla_mlir.jax.scipy.information import xlog1py as xlog1py
from nabla_mlir.jax.scipy.information import xlogy as xlogy
from nabla_mlir.jax.scipy.integrals import bernoulli as bernoulli
from nabla_mlir.jax.scipy.integrals import exp1 as exp1
from nabla_mlir.jax.scipy.integrals import expi as expi
from nabla_mlir.jax.scipy.integrals import expn as expn
from nabla_mlir.jax.scipy.integrals import sici as sici
from nabla_mlir.jax.scipy.integrals import spence as spence
from nabla_mlir.nn import activations
from nabla_mlir.numpy.axes import Axis
from nabla_mlir.numpy.bessel import i0 as i0
from nabla_mlir.numpy.bessel import i0e as i0e
from nabla_mlir.numpy.bessel import i1 as i1
from nabla_mlir.numpy.bessel import i1e as i1e
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexact, inexacts
from nabla_mlir.numpy.reductions import logsumexp as logsumexp
from nabla_mlir.numpy.ufuncs import exp, log, log1p, sqrt
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import gamma as gamma_functions
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.guards import product
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.custom import custom_jvp

_NO_TAIL = 40.0  # ndtr underflows to 0 below -40 in f64


@library
def erf(x: ArrayLike) -> Tensor:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    return ew.erf(inexact(x))


@library
def erfc(x: ArrayLike) -> Tensor:
    """1 - erf(x), accurate for large x."""
    return ew.erfc(inexact(x))


@library
def erfinv(x: ArrayLike) -> Tensor:
    """The number whose error function is x."""
    return ew.erf_inv(inexact(x))


@library
def gammaln(x: ArrayLike) -> Tensor:
    """log(abs(gamma(x)))."""
    return gamma_functions.lgamma(inexact(x))


lgamma = gammaln


@library
def digamma(x: ArrayLike) -> Tensor:
    """The derivative of gammaln."""
    return gamma_functions.digamma(inexact(x))


@library
def polygamma(n: Static[Any], x: ArrayLike) -> Tensor:
    """The n-th derivative of digamma at x."""
    return gamma_functions.polygamma(*inexacts("polygamma", n, x))


@library
def zeta(x: Static[Any], q: ArrayLike = 1.0) -> Tensor:
    """The Hurwitz zeta function (Riemann's for q = 1): the sum of (q + k)**-s over k = 0, 1, 2, ..."""
    return gamma_functions.zeta(*inexacts("zeta", x, q))


@library
def expit(x: ArrayLike) -> Tensor:
    """The logistic function 1 / (1 + exp(-x))."""
    return ew.logistic(inexact(x))


@library
def logit(x: ArrayLike) -> Tensor:
    """log(x / (1 - x))."""
    p = inexact(x)
    return ew.log(p) - ew.log_plus_one(-p)


@library
def softmax(x: ArrayLike, /, *, axis: Static[Axis] = None) -> Tensor:
    """exp(x) / sum(exp(x)) over `axis`, without overflow; over all elements by default, unlike `nn.softmax`.

    Example:
      >>> softmax(np.zeros((2, 2))).tolist()
      [[0.25, 0.25], [0.25, 0.25]]
    """
    return activations.softmax(x, axis)


@library
def log_softmax(x: ArrayLike, /, *, axis: Static[Axis] = None) -> Tensor:
    """The logarithm of `softmax`: x - logsumexp(x) over `axis`; over all elements by default, unlike `nn.log_softmax`.

    Example:
      >>> log_softmax(np.zeros((2, 2))).round(4).tolist()
      [[-1.3863, -1.3863], [-1.3863, -1.3863]]
    """
    return activations.log_softmax(x, axis)


# ---------------------------------------------------------------- gamma and beta
@library
def gamma(x: ArrayLike) -> Tensor:
    """The gamma function of real or complex numbers; NaN at the negative whole numbers.

    Example:
      >>> round(float(gamma(5.0)), 3)
      24.0
    """
    x = inexact(x)
    if is_complex(x.dtype):
        return complex_gamma(x)
    return gammasgn(x) * exp(gammaln(x))


@library
def loggamma(x: ArrayLike) -> Tensor:
    """The logarithm of the gamma function; of real numbers NaN where the gamma function is negative.

    Of complex numbers it is continuous outside of the negative real axis.

    Example:
      >>> round(complex(loggamma(0.5 + 1j)).real, 4)
      -0.6528
    """
    x = inexact(x)
    if is_complex(x.dtype):
        return complex_loggamma(x)
    return where(gammasgn(x) > 0.0, gammaln(x), np.nan)


@library
def factorial(n: ArrayLike, exact: bool = False) -> Tensor:
    """gamma(n + 1), and 0 for negative n; `exact` must be False."""
    if exact:
        raise DtypeError("factorial requires exact=False, got True.", where=user_frame(), help="use math.factorial.")
    n = inexact(n)
    return where(n < 0.0, 0.0, exp(gammaln(where(n < 0.0, 0.0, n) + 1.0)))


@library
def betaln(a: ArrayLike, b: ArrayLike) -> Tensor:
    """log(abs(beta(a, b)))."""
    a, b = inexacts("betaln", a, b)
    return log_beta(a, b)


@library
def beta(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The beta function, gamma(a) gamma(b) / gamma(a + b)."""
    a, b = inexacts("beta", a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * exp(betaln(a, b))


@library
def poch(z: ArrayLike, m: ArrayLike) -> Tensor:
    """Pochhammer's symbol, gamma(z + m) / gamma(z)."""
    z, m = inexacts("poch", z, m)
    at_pole = (m == 0.0) & (gammaln(z) == np.inf)  # the value is 1, but it is not differentiable by m
    return where(at_pole, 1.0 + product(m, exp(m * np.nan)), gammasgn(z + m) * gammasgn(z) * exp(log_rising(z, m)))


@library
def comb(N: Any, k: ArrayLike, *, repetition: bool = False) -> Tensor:
    """The number of combinations of k of N elements, with or without repetition; 1 for k = 0.

    Example:
      >>> round(float(comb(4.0, 2.0)), 4)
      6.0
    """
    N, k = inexacts("comb", N, k)
    if repetition:  # there is one way to choose nothing, also of no elements
        N = where(k == 0.0, N, N + k - 1.0)
    inside = (k >= 0.0) & (k <= N)
    n, part = where(inside, N, 1.0), where(inside, k, 0.0)
    return where(inside, exp(log_binomial(n, part)), 0.0)


@library
def multigammaln(a: ArrayLike, d: Static[int]) -> Tensor:
    """The logarithm of the gamma function of d by d matrices."""
    a = inexact(a)
    total = full_like(a, d * (d - 1) / 4 * math.log(math.pi))
    for k in range(d):
        total = total + gammaln(a - k / 2)
    return total


# ---------------------------------------------------------------- the normal distribution
_FAR = -10.0  # below this number, the asymptotic series with the number of terms below has all digits
_TERMS = 16


@custom_jvp
def _near_log_ndtr(x: Tensor) -> Tensor:
    return log(ndtr(x))


@_near_log_ndtr.defjvp
def _near_log_ndtr_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of log(ndtr(x)).

    The density divided by ndtr(x) is computed as one exponential, because a quotient by the square would overflow in float32.
    """
    (x,), (t,) = primals, tangents
    y = _near_log_ndtr(x)
    return y, t * exp(x * x * -0.5 - y - 0.5 * math.log(2 * math.pi))


@library
def ndtr(x: ArrayLike) -> Tensor:
    """The distribution function of the standard normal distribution.

    Example:
      >>> float(ndtr(0.0))
      0.5
    """
    x = inexact(x)
    if x.dtype.itemsize < 4:
        return ndtr(x.astype(np.float32)).astype(x.dtype)
    u = x * -math.sqrt(0.5)
    return erfc(u) * (0.5 + 0.5 * _excess(stop_gradient(x), stop_gradient(u)))


def _excess(x: Tensor, u: Tensor) -> Tensor:
    """The correction u * u - x * x / 2 of the exponent in the tail of erfc, for a rounded u."""
    tail = (x < -1.0) & (x > -_NO_TAIL)
    (x, dx), (u, du) = _halves(where(tail, x, 0.0)), _halves(where(tail, u, 0.0))
    return (u * u - 0.5 * x * x) + (2.0 * u * du - x * dx) + (du * du - 0.5 * dx * dx)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers whose sum is x; the square of the first one is exact."""
    info = np.finfo(x.dtype)
    high = ew.reduce_precision(x, exponent_bits=info.nexp, mantissa_bits=info.nmant // 2 - 1 + info.nmant % 2)
    return high, x - high


@library
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Tensor:
    """log(ndtr(x)), also where ndtr underflows; the asymptotic series has as many terms as it needs."""
    x = inexact(x)
    if x.dtype.itemsize < 4:
        return log_ndtr(x.astype(np.float32)).astype(x.dtype)
    far = x < _FAR
    high = x > 0.0
    near = where(far | high, 0.0, x)
    low = where(far, x, _FAR)
    square = 1.0 / (low * low)
    series, term = full_like(x, 1), full_like(x, 1)
    for k in range(1, _TERMS + 1):
        term = term * square * float(1 - 2 * k)
        series = series + term
    tail = low * low * -0.5 - log(-low) - 0.5 * math.log(2 * math.pi) + log(series)
    return where(far, tail, where(high, log1p(-ndtr(-where(high, x, 1.0))), _near_log_ndtr(near)))


@library
def ndtri(p: ArrayLike) -> Tensor:
    """The number whose `ndtr` is p."""
    return _ndtri(inexact(p))


@custom_jvp
def _ndtri(p: Tensor) -> Tensor:
    """The quantile of the standard normal distribution: a rational approximation, refined by Newton's method for log(ndtr).

    The approximation is Abramowitz and Stegun 26.2.23.
    """
    inside = (p > 0.0) & (p < 1.0)
    low = where(p < 0.5, p, 1.0 - p)
    low = where(inside, low, 0.25)
    t = sqrt(-2.0 * log(low))
    x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(4):
        value = log_ndtr(x)
        x = x - (value - log(low)) * exp(value + 0.5 * x * x + 0.5 * math.log(2 * math.pi))
    x = where(low == 0.5, 0.0, x)
    x = where(p < 0.5, x, -x)
    return where(inside, x, where(p == 0.0, -np.inf, where(p == 1.0, np.inf, np.nan)))


@_ndtri.defjvp
def _ndtri_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of the normal quantile, whose derivative is 1 divided by the density at the quantile."""
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, t * exp(0.5 * x * x) * math.sqrt(2 * math.pi)
