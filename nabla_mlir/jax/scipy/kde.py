"""Estimates a density from samples as a sum of Gaussians around the samples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir import random
from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.pytree import register_dataclass
from nabla_mlir.jax.scipy.linalg import cholesky, solve_triangular
from nabla_mlir.jax.scipy.special import ndtr
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.operands import convert, inexact, require_real
from nabla_mlir.numpy.reductions import logsumexp, sum
from nabla_mlir.numpy.shapes import atleast_1d, atleast_2d, ravel
from nabla_mlir.numpy.statistics import cov
from nabla_mlir.numpy.systems import inv
from nabla_mlir.numpy.ufuncs import exp, log, sqrt
from nabla_mlir.staging.eager import library


@register_dataclass
@dataclasses.dataclass(init=False, eq=False)
class gaussian_kde:  # noqa: N801 (the name in SciPy)
    """A density estimated from samples: the sum of Gaussians around them.

    The covariance of each Gaussian is that of the samples times the squared bandwidth.

    Args:
      dataset: samples of shape (n,), or vectors of shape (d, n).
      bw_method: the bandwidth: "scott" (the default), "silverman", a number, or a function of the object.
      weights: the weights of the samples, of shape (n,); None means equal weights.

    Attributes:
      dataset, weights, neff, covariance, inv_cov: the samples, their normalised weights, the effective number of samples,
        the covariance of each Gaussian, and its inverse.

    Raises:
      ShapeError: there is only one sample, or the number of weights is wrong.
      DtypeError: the samples are complex, or `bw_method` is unknown.

    Example:
      >>> round(float(gaussian_kde(np.array([-1.0, 0.0, 1.0]))(0.0)[0]), 5)
      0.31816
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset: Any, bw_method: str | float | Callable[[Any], Any] | None = None, weights: Any = None):
        """Computes the covariance of the kernels from that of the data and the bandwidth."""
        self.dataset, self.weights, self.neff, spread = _moments(dataset, weights)
        factor = self._bandwidth(bw_method)
        self.covariance = spread * factor**2
        self.inv_cov = inv(self.covariance)

    def _bandwidth(self, method: Any) -> Any:
        """The bandwidth for the argument `bw_method`; raises DtypeError for values that are no name, number or function."""
        if method is None or (isinstance(method, str) and method == "scott"):
            return self.neff ** (-1.0 / (self.d + 4))
        if isinstance(method, str) and method == "silverman":
            return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))
        if callable(method):
            return method(self)
        if isinstance(method, str) or np.ndim(method):
            raise DtypeError(
                f"gaussian_kde requires bw_method scott, silverman, a number or a function, got {method!r}.", where=user_frame()
            )
        return method

    @property
    def d(self) -> int:
        """The length of each sample."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def evaluate(self, points: Any) -> Any:
        """The density at points of shape (d, m), (m,) if d is 1, or at one point of shape (d,)."""
        return exp(self.logpdf(points))

    def pdf(self, points: Any) -> Any:
        """The same as `evaluate`."""
        return self.evaluate(points)

    __call__ = evaluate

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at points of shape (d, m), (m,) if d is 1, or at one point of shape (d,).

        It is accurate also where the density underflows.
        """
        x = atleast_2d(x)  # makes a row of one point, but points are columns
        x = x.reshape(self.d, 1) if x.shape == (1, self.d) else x
        if x.shape[0] != self.d:
            raise ShapeError(f"gaussian_kde requires points of {self.d} coordinates, got shape {x.shape}.", where=user_frame())
        return _log_density(self.dataset, self.weights, self.covariance, x)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the product of this density and that of a normal distribution."""
        mean, cov = atleast_1d(mean), atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ShapeError(
                f"integrate_gaussian requires shapes {(self.d,)} and {(self.d, self.d)}, got {mean.shape} and {cov.shape}.",
                where=user_frame(),
            )
        return exp(_log_density(self.dataset, self.weights, self.covariance + cov, mean.reshape(self.d, 1)))[0]

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of the interval [low, high]; the samples must have one coordinate."""
        if self.d != 1 or np.ndim(low) or np.ndim(high):
            raise ShapeError(
                f"integrate_box_1d requires samples of one coordinate and two numbers, got {self.d} coordinates and "
                f"shapes {np.shape(low)} and {np.shape(high)}.",
                where=user_frame(),
            )
        width, data = sqrt(self.covariance[0, 0]), self.dataset[0]
        return sum(self.weights * (ndtr((high - data) / width) - ndtr((low - data) / width)))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product of this density and another estimated density."""
        if other.d != self.d:
            raise ShapeError(f"integrate_kde requires samples of one length, got {self.d} and {other.d}.", where=user_frame())
        return sum(exp(_log_density(self.dataset, self.weights, self.covariance + other.covariance, other.dataset)) * other.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Random samples of shape (d, *shape); they equal those of JAX for the same key."""
        first, second = random.split(key)
        positions = random.choice(first, self.n, shape=shape, p=self.weights)
        mean = np.zeros(self.d, self.covariance.dtype)
        noise = random.multivariate_normal(second, mean, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return take(self.dataset, positions, 1) + noise.T


@library
def _moments(dataset: Any, weights: Any) -> tuple[Any, ...]:
    """The samples as an array (d, n), their weights, the effective number of samples, and their covariance.

    Raises ShapeError unless there are several samples, and a weight for each.
    """
    data = require_real("gaussian_kde", inexact(atleast_2d(dataset)))
    n = data.shape[1]
    if data.size < 2 or (weights is not None and np.shape(weights) != (n,)):
        raise ShapeError(
            f"gaussian_kde requires several samples and a weight for each, got shapes {data.shape} and "
            f"{None if weights is None else np.shape(weights)}.",
            where=user_frame(),
        )
    parts = inexact(np.full(n, 1.0 / n, data.dtype) if weights is None else weights)
    dtype = np.promote_types(data.dtype, parts.dtype)
    data, parts = convert(data, dtype), convert(parts / sum(parts), dtype)
    return data, parts, 1.0 / sum(parts**2), atleast_2d(cov(data, aweights=parts))


@library
def _log_density(data: Any, weights: Any, covariance: Any, points: Any) -> Any:
    """The logarithm of a sum of weighted Gaussians, at the points that are the columns of `points`.

    The Gaussians are centred at the columns of `data` and have one covariance.
    """
    data, weights, covariance, points = (convert(inexact(x), data.dtype) for x in (data, weights, covariance, points))
    d, n = data.shape
    factor = cholesky(covariance, lower=True)
    gaps = (points.reshape(d, -1, 1) - data.reshape(d, 1, n)).reshape(d, -1)
    # The squared distances (x - centre)^T covariance^-1 (x - centre), by the Cholesky factor.
    square_distances = sum(solve_triangular(factor, gaps, lower=True) ** 2, 0).reshape(-1, n)
    scale = sum(log((factor * np.eye(d, dtype=factor.dtype)).sum(0))) + 0.5 * d * math.log(2 * math.pi)
    return logsumexp(-0.5 * square_distances, 1, b=ravel(weights)) - scale
