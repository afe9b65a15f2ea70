"""Distributions under the names of `scipy.stats`, and some statistics."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_float
from nabla_mlir.jax.scipy import special as sp
from nabla_mlir.jax.scipy.distributions import Distribution
from nabla_mlir.jax.scipy.gamma_ratios import deviance, log_binomial
from nabla_mlir.jax.scipy.kde import gaussian_kde as gaussian_kde
from nabla_mlir.jax.scipy.multivariate import dirichlet as dirichlet
from nabla_mlir.jax.scipy.multivariate import multinomial as multinomial
from nabla_mlir.jax.scipy.multivariate import multivariate_normal as multivariate_normal
from nabla_mlir.jax.scipy.truncated import log_complement, log_mass, truncated_log_cdf, truncated_log_sf
from nabla_mlir.numpy import bessel, extrema, reductions
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.dtypes import finfo
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexact, tensor
from nabla_mlir.numpy.reductions import sum
from nabla_mlir.numpy.shapes import moveaxis, ravel
from nabla_mlir.numpy.special_values import is_nan, polynomial, times_log, times_log1p
from nabla_mlir.numpy.ufuncs import absolute, arctan2, cos, exp, expm1, floor, log, log1p, logaddexp, power, sqrt, square, tan
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor

__path__: list[str] = []  # after nabla_mlir.jax.install(), `import jax.scipy.stats.norm` gives the object `norm`

_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


def _softplus(z: Any) -> Any:
    return logaddexp(z, 0.0)


def _unless(outside: Any, other: float, value: Any) -> Any:
    """Replaces the value by `other` where `outside` is True; NaN is preserved."""
    return where(outside, other, value)


# ---------------------------------------------------------------- continuous distributions
norm: Distribution = Distribution(
    "norm", log=lambda z: z * z * -0.5 - _HALF_LOG_2_PI, cdf=sp.ndtr, sf=lambda z: sp.ndtr(-z), logcdf=sp.log_ndtr,
    logsf=lambda z: sp.log_ndtr(-z), ppf=sp.ndtri, isf=lambda q: -sp.ndtri(q),
)  # fmt: skip
expon: Distribution = Distribution(
    "expon", log=lambda z: -_unless(z < 0, 0.0, z), outside=lambda z: z < 0, cdf=lambda z: -expm1(-z), sf=lambda z: exp(-z),
    logsf=lambda z: -z, logcdf=log_complement, ppf=lambda q: -log1p(-_valid_or_nan(q)), isf=lambda q: -log(_valid_or_nan(q)),
    support=(0.0, np.inf), has_lines=True,
)  # fmt: skip
uniform: Distribution = Distribution(
    "uniform", has_lines=True, log=lambda z: _unless((z < 0) | (z > 1), 0.5, z) * 0.0, outside=lambda z: (z < 0) | (z > 1),
    cdf=lambda z: z, sf=lambda z: 1.0 - z, ppf=lambda q: _valid_or_nan(q), support=(0.0, 1.0),
)  # fmt: skip


def _laplace_quantile(q: Any) -> Any:  # computed from the nearer end of [0, 1] for accuracy
    low = q < 0.5
    value = log(2.0 * where(low, q, 1.0 - q))
    return where(low, value, -value)


def _laplace_cdf(z: Any) -> Any:  # from the tail on the side of z
    tail = 0.5 * exp(-absolute(z))
    return where(z < 0, tail, 1.0 - tail)


def _laplace_log_cdf(z: Any) -> Any:
    return where(z < 0, z - math.log(2.0), log1p(-0.5 * exp(-_unless(z < 0, 0.0, z))))


laplace: Distribution = Distribution(
    "laplace", log=lambda z: -absolute(z) - math.log(2.0), cdf=_laplace_cdf, sf=lambda z: _laplace_cdf(-z), ppf=_laplace_quantile,
    logcdf=_laplace_log_cdf, logsf=lambda z: _laplace_log_cdf(-z), isf=lambda q: -_laplace_quantile(q),
    has_lines=True,
)  # fmt: skip
logistic: Distribution = Distribution(
    "logistic", log=lambda z: -absolute(z) - 2.0 * log1p(exp(-absolute(z))), cdf=sp.expit, sf=lambda z: sp.expit(-z),
    logcdf=lambda z: -_softplus(-z), logsf=lambda z: -_softplus(z), ppf=sp.logit, isf=lambda q: -sp.logit(q),
)  # fmt: skip


def _cauchy_quantile(q: Any) -> Any:
    """The quantile -cot(pi q) of the Cauchy distribution, computed from the nearer end of [0, 1] for accuracy."""
    q = _valid_or_nan(q)
    low = q < 0.5
    value = 1.0 / tan(math.pi * where(low, q, 1.0 - q))
    return where(low, -value, value)


def _far(z: Any) -> Any:
    """True where 1 + z**2 is rounded to z**2."""
    return absolute(z) > 2.0 * float(finfo(z.dtype).eps) ** -0.5


def _log1p_square(z: Any) -> Any:
    """The logarithm of 1 + z**2, also where the square overflows."""
    far, size = _far(z), absolute(z)
    return where(far, 2.0 * log(_unless(~far, 1.0, size)), log1p(square(_unless(far, 0.0, z))))


def _cauchy_cdf(z: Any) -> Any:
    return arctan2(1.0, -z) / math.pi


def _cauchy_log_cdf(z: Any) -> Any:
    """The logarithm of the distribution function of the Cauchy distribution at the standardised variable z."""
    far = _far(z) & (z < 0)  # the angle is its tangent, -1 / z
    near = _unless(far, -1.0, z)
    value = where(near < 0, log(_cauchy_cdf(near)), log1p(-_cauchy_cdf(-near)))
    return where(far, -log(-_unless(~far, -1.0, z)) - math.log(math.pi), value)


cauchy: Distribution = Distribution(
    "cauchy", log=lambda z: -_log1p_square(z) - math.log(math.pi), cdf=_cauchy_cdf, sf=lambda z: _cauchy_cdf(-z),
    logcdf=_cauchy_log_cdf, logsf=lambda z: _cauchy_log_cdf(-z), ppf=_cauchy_quantile, isf=lambda q: -_cauchy_quantile(q),
)  # fmt: skip


def _gumbel_log_density(z: Any) -> Any:
    """The log density -z - exp(-z) of the Gumbel distribution; -inf at -inf, with an infinite slope."""
    lowest = z == -np.inf
    return where(lowest, 0.0, -_unless(lowest, 0.0, z)) - exp(-z)


gumbel_r: Distribution = Distribution(
    "gumbel_r", log=_gumbel_log_density, cdf=lambda z: exp(-exp(-z)), logcdf=lambda z: -exp(-z), sf=lambda z: -expm1(-exp(-z)),
    logsf=lambda z: log_complement(exp(-z)), ppf=lambda q: -log(-log(q)), isf=lambda q: -log(-log1p(-q)),
)  # fmt: skip
gumbel_l: Distribution = Distribution(
    "gumbel_l", log=lambda z: _gumbel_log_density(-z), cdf=lambda z: -expm1(-exp(z)), sf=lambda z: exp(-exp(z)),
    logcdf=lambda z: log_complement(exp(z)), logsf=lambda z: -exp(z), ppf=lambda q: log(-log1p(-q)), isf=lambda q: log(-log(q)),
)  # fmt: skip
t: Distribution = Distribution(
    "t", "df", log=lambda z, n: sp.gammaln((n + 1.0) * 0.5) - sp.gammaln(n * 0.5) - 0.5 * log(n * math.pi)
    - (n + 1.0) * 0.5 * _log1p_square(z / sqrt(n)),
)  # fmt: skip


def _positive(z: Any) -> Any:
    """The variable of a distribution of positive numbers where its formula holds, and 1 elsewhere, also at infinity."""
    return _unless((z < 0) | (z == np.inf), 1.0, z)


def _beyond(z: Any, rate: float) -> Any:
    """-inf with the slope -rate at infinity, where a formula has inf - inf; 0 elsewhere."""
    far = z == np.inf
    return where(far, -rate * _unless(~far, 0.0, z), 0.0)


gamma: Distribution = Distribution(
    "gamma", "a", outside=lambda z, a: z < 0, valid=lambda a: a > 0, has_lines=True,
    log=lambda z, a: times_log(a - 1.0, _positive(z)) - _positive(z) - sp.gammaln(a) + _beyond(z, 1.0),
    cdf=lambda z, a: sp.gammainc(a, z), sf=lambda z, a: sp.gammaincc(a, z), support=(0.0, np.inf),
)  # fmt: skip
chi2: Distribution = Distribution(
    "chi2", "df", outside=lambda z, n: z < 0, valid=lambda n: n > 0, has_lines=True, support=(0.0, np.inf),
    log=lambda z, n: times_log(n * 0.5 - 1.0, _positive(z)) - _positive(z) * 0.5 - sp.gammaln(n * 0.5)
    - n * (0.5 * math.log(2.0)) + _beyond(z, 0.5),
    cdf=lambda z, n: sp.gammainc(n * 0.5, z * 0.5), sf=lambda z, n: sp.gammaincc(n * 0.5, z * 0.5),
)  # fmt: skip
beta: Distribution = Distribution(
    "beta", "a b", has_lines=True, outside=lambda z, a, b: (z < 0) | (z > 1), valid=lambda a, b: (a > 0) & (b > 0),
    log=lambda z, a, b: times_log(a - 1.0, _inside(z)) + times_log1p(b - 1.0, -_inside(z)) - sp.betaln(a, b) + _inside(z) * 0.0,
    cdf=lambda z, a, b: sp.betainc(a, b, z), sf=lambda z, a, b: sp.betainc(b, a, 1.0 - z), support=(0.0, 1.0),
)  # fmt: skip


pareto: Distribution = Distribution(
    "pareto", "b", outside=lambda z, b: z < 1, log=lambda z, b: log(b) - (b + 1.0) * log(_unless(z < 1, 1.0, z)),
    cdf=lambda z, b: -expm1(-b * log(z)), logcdf=lambda z, b: log_complement(b * log(z)), support=(1.0, np.inf),
    sf=lambda z, b: exp(-b * log(z)), logsf=lambda z, b: -b * log(z), valid=lambda b: b > 0,
    ppf=lambda q, b: exp(-log1p(-_valid_or_nan(q)) / b), isf=lambda q, b: exp(-log(_valid_or_nan(q)) / b),
)  # fmt: skip


def _gennorm_cdf(z: Any, b: Any) -> Any:  # from the tail on the side of z; b is the exponent
    tail = 0.5 * sp.gammaincc(1.0 / b, power(absolute(z), b))
    return where(z < 0, tail, 1.0 - tail)


gennorm: Distribution = Distribution(
    "gennorm", "beta", has_location=False, has_scale=False,
    log=lambda z, b: log(b * 0.5) - sp.gammaln(1.0 / b) - power(absolute(z), b), cdf=_gennorm_cdf,
    sf=lambda z, b: _gennorm_cdf(-z, b),
)  # fmt: skip
vonmises: Distribution = Distribution(
    "vonmises", "kappa", has_location=False, has_scale=False,
    log=lambda z, k: k * (cos(z) - 1.0) - math.log(2 * math.pi) - _log_i0e(k),
)  # fmt: skip
wrapcauchy: Distribution = Distribution(
    "wrapcauchy", "c", has_location=False, has_scale=False, outside=lambda z, c: (z < 0) | (z > 2 * math.pi),
    log=lambda z, c: log1p(-c * c) - math.log(2 * math.pi) - log(1.0 + c * c - 2.0 * c * cos(_unless((z < 0) | (z > 7.0), 0.0, z))),
)  # fmt: skip


def _log_i0e(k: Any) -> Any:
    """The function log(I0(k)) - k, by a formula with derivatives at 0, unlike log(i0e(k)); NaN for negative numbers."""
    return where(k >= 0, bessel.of_real("vonmises", bessel.log_i0e, k), np.nan)


def _inside(z: Any) -> Any:
    return _unless((z < 0) | (z > 1), 0.5, z)


def _valid_or_nan(q: Any) -> Any:
    """The probability q; NaN for numbers outside of [0, 1]."""
    return _unless((q < 0) | (q > 1), np.nan, q)


truncnorm: Distribution = Distribution(
    "truncnorm", "a b", outside=lambda z, a, b: (z < a) | (z > b), valid=lambda a, b: a < b,
    log=lambda z, a, b: z * z * -0.5 - _HALF_LOG_2_PI - log_mass(a, b),
    cdf=lambda z, a, b: exp(truncated_log_cdf(z, a, b)), logcdf=truncated_log_cdf,
    sf=lambda z, a, b: exp(truncated_log_sf(z, a, b)), logsf=truncated_log_sf,
)  # fmt: skip


# ---------------------------------------------------------------- discrete distributions
def _no_count(k: Any) -> Any:
    """True where k is neither 0, 1, 2, ... nor NaN."""
    return (k < 0) | (floor(k) < k) | (k == np.inf)


def _count(k: Any) -> Any:
    return _unless(_no_count(k), 0.0, k)


def _above(k: Any, n: Any) -> Any:
    """True where k is neither 0, 1, ..., n nor NaN."""
    return (k < 0) | (floor(k) < k) | (k > n)


def _up_to(k: Any, n: Any) -> Any:
    return _unless(_above(k, n), 0.0, k)


bernoulli: Distribution = Distribution(
    "bernoulli", "p", is_discrete=True, has_lines=True, outside=lambda k, p: _above(k, 1.0),
    log=lambda k, p: times_log(_up_to(k, 1.0), p) + times_log1p(1.0 - _up_to(k, 1.0), -p),
    cdf=lambda k, p: where(k >= 0, 1.0 - p, k), sf=lambda k, p: where(k >= 0, p, k), support=(0.0, 0.0),
    ppf=lambda q, p: where(q == 0, -1.0, where(_valid_or_nan(q) <= 1.0 - p, 0.0, where(_valid_or_nan(q) >= 0, 1.0, np.nan))),
    isf=lambda q, p: where(q == 1, -1.0, where(_valid_or_nan(q) >= p, 0.0, where(_valid_or_nan(q) <= 1, 1.0, np.nan))),
)  # fmt: skip
binom: Distribution = Distribution(
    "binom", "n p", is_discrete=True, outside=lambda k, n, p: _above(k, n),
    log=lambda k, n, p: log_binomial(n, _up_to(k, n)) + times_log(_up_to(k, n), p) + sp.xlog1py(n - _up_to(k, n), -p),
)  # fmt: skip
geom: Distribution = Distribution(
    "geom", "p", is_discrete=True, outside=lambda k, p: _no_count(k - 1.0),
    log=lambda k, p: times_log1p(_count(k - 1.0), -p) + log(p),
)  # fmt: skip
_SUMMED = 100.0  # up to this mean, the entropy is a sum of `_COUNTS` terms
_COUNTS = 256
# The entropy of large means is log(2 pi e mu) / 2 plus these coefficients times mu^-1, mu^-2, ... (found by high precision).
_ENTROPY = (-1 / 12, -1 / 24, -19 / 360, -9 / 80, -863 / 2520, -1375 / 1008, -33953 / 5040)


def _poisson_entropy(mu: Any) -> Any:
    """The entropy of the Poisson distribution with the mean mu: the sum of -p log(p), or a series for large means."""
    low = (mu > 0) & (mu <= _SUMMED)
    mean = reshaped(where(low, mu, 1.0), (*mu.shape, 1))
    counts = np.arange(1, _COUNTS)
    constants = [math.lgamma(k + 1) - k * math.log(k) + k for k in counts.tolist()]
    k = counts.astype(mu.dtype)
    log_p = -np.array(constants, mu.dtype) - k * deviance((mean - k) / k, mean / k)
    summed = where(low, mu, 1.0) * exp(-where(low, mu, 1.0)) - sum(exp(log_p) * log_p, -1)
    large = where(mu > _SUMMED, mu, _SUMMED)
    series = 0.5 * log(2 * math.pi * math.e * large) + polynomial(1.0 / large, [0.0, *_ENTROPY])
    return where(low, summed, where(mu == 0, 0.0, where(mu > _SUMMED, series, np.nan)))


poisson: Distribution = Distribution(
    "poisson", "mu", is_discrete=True, outside=lambda k, mu: _no_count(k), valid=lambda mu: mu >= 0, entropy=_poisson_entropy,
    log=lambda k, mu: times_log(_count(k), mu) - sp.gammaln(_count(k) + 1.0) - mu,
    cdf=lambda k, mu: sp.gammaincc(k + 1.0, mu), sf=lambda k, mu: sp.gammainc(k + 1.0, mu),
    support=(0.0, np.inf),
)  # fmt: skip
nbinom: Distribution = Distribution(
    "nbinom", "n p", is_discrete=True, outside=lambda k, n, p: _no_count(k),
    log=lambda k, n, p: -sp.betaln(n, _count(k) + 1.0) - log(n + _count(k)) + n * log(p)
    + times_log1p(_count(k), -p),
)  # fmt: skip
betabinom: Distribution = Distribution(
    "betabinom", "n a b", is_discrete=True, outside=lambda k, n, a, b: _above(k, n),
    log=lambda k, n, a, b: log_binomial(n, _up_to(k, n)) - sp.betaln(a, b) + sp.betaln(_up_to(k, n) + a, n - _up_to(k, n) + b),
)  # fmt: skip


# ---------------------------------------------------------------- statistics
class ModeResult(NamedTuple):
    """The most frequent elements, and their counts."""

    mode: Any
    count: Any


def _check_nan_policy(name: str, nan_policy: str) -> None:
    """Raises ShapeError unless NaN propagates, which is the only supported policy."""
    if nan_policy != "propagate":
        raise ShapeError(f"{name} requires nan_policy='propagate', got {nan_policy!r}.", where=user_frame(),
                         help="nanmean, nanstd and their like leave NaN out.")  # fmt: skip


@library
def mode(a: Any, axis: Static[int | None] = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent element along `axis`, the smallest one at a tie; all pairs are compared. NaN propagates.

    Example:
      >>> [int(v) for v in mode(np.array([3, 1, 3, 2]))]
      [3, 2]
    """
    _check_nan_policy("mode", nan_policy)
    x = tensor(a)
    x, at = (ravel(x), 0) if axis is None else (x, axis_of("mode", axis, x.ndim))
    rows = moveaxis(x, at, -1)
    same = reshaped(rows, (*rows.shape, 1)) == reshaped(rows, (*rows.shape[:-1], 1, rows.shape[-1]))
    counts = sum(same.astype(np.int32), -1)
    most = extrema.max(counts, -1, keepdims=True)
    lowest = extrema.min(where(counts == most, rows, extrema.max(rows, -1, keepdims=True)), -1)
    out = ModeResult(lowest, reshaped(most, most.shape[:-1]))
    shape = tuple(1 if d == at else n for d, n in enumerate(x.shape))
    return ModeResult(*(reshaped(v, shape) for v in out)) if keepdims else out


@library
def sem(
  a: Any, axis: Static[int | None] = 0, ddof: Static[int] = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Tensor:  # fmt: skip
    """The standard error of the mean: the standard deviation divided by the root of the number of elements."""
    _check_nan_policy("sem", nan_policy)
    x = inexact(a)
    n = x.size if axis is None else x.shape[axis_of("sem", axis, x.ndim)]
    return reductions.std(x, axis, ddof=ddof, keepdims=keepdims) / math.sqrt(n)


@library
def rankdata(
  a: Any, method: str = "average", *, axis: Static[int | None] = None, nan_policy: str = "propagate"
) -> Tensor:  # fmt: skip
    """The rank of each element, starting at 1; equal elements get the mean of their ranks, or the rank of `method`.

    The ranks have a float dtype, because NaN propagates: it makes all ranks NaN, or all of its row if `axis` is given.

    Raises:
      ShapeError: the method is unknown.

    Example:
      >>> rankdata(np.array([10.0, 30.0, 10.0])).tolist()
      [1.5, 3.0, 1.5]
    """
    _check_nan_policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ShapeError(f"rankdata requires method average, min, max, dense or ordinal, got {method!r}.", where=user_frame())
    x = tensor(a)
    x, at = (ravel(x), 0) if axis is None else (x, axis_of("rankdata", axis, x.ndim))
    rows = moveaxis(x, at, -1)
    n = rows.shape[-1]
    element, others = reshaped(rows, (*rows.shape, 1)), reshaped(rows, (*rows.shape[:-1], 1, n))
    before = np.arange(n)[:, None] > np.arange(n)
    below, same = (others < element).astype(np.int32), (others == element).astype(np.int32)
    low, ties = sum(below, -1) + 1, sum(same, -1)
    if method == "dense":  # equal elements count once, by the first of them
        first = 1 - extrema.max(same * before.astype(np.int32), -1)
        out: Any = sum(below * reshaped(first, (*first.shape[:-1], 1, n)), -1) + 1
    elif method == "ordinal":
        out = low + sum(same * before.astype(np.int32), -1)
    else:
        out = low if method == "min" else low + ties - 1 if method == "max" else inexact(low) + (inexact(ties) - 1.0) * 0.5
    out = inexact(out)
    if is_float(x.dtype):
        out = where(reductions.any(is_nan(rows), -1, keepdims=True), np.nan, out)
    return moveaxis(out, -1, at)
