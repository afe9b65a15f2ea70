"""Distributions of vectors, under the names of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.jax.scipy import special as sp
from nabla_mlir.numpy.axes import joined
from nabla_mlir.numpy.factorizations import cholesky
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexact, inexacts
from nabla_mlir.numpy.reductions import sum
from nabla_mlir.numpy.systems import triangular_solve
from nabla_mlir.numpy.ufuncs import exp, log, square
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor

_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class _MultivariateNormal:
    """The normal distribution of vectors, with its log density."""

    @staticmethod
    @library
    def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Tensor:
        """The logarithm of the density at the vectors along the last axis of `x`.

        Args:
          x: vectors.
          mean: a vector, or a number.
          cov: the covariance matrix, or a number: the variance of every element.
          allow_singular: must be None.

        Raises:
          ShapeError: the shapes do not fit.
        """
        x, mean, cov = separate_inexacts(x, mean, cov)
        if not mean.shape and not cov.shape:
            return square(x - mean) / cov * -0.5 - 0.5 * (math.log(2 * math.pi) + log(cov))
        n = mean.shape[-1] if mean.shape else cov.shape[-1]
        d = x - mean
        if not cov.shape:
            return sum(square(d), -1) / cov * -0.5 - n * 0.5 * (math.log(2 * math.pi) + log(cov))
        if cov.shape[-2:] != (n, n) or d.shape[-1] != n:
            raise ShapeError(
                f"multivariate_normal requires vectors of one length and a square covariance, got {x.shape}, "
                f"{mean.shape} and {cov.shape}.",
                where=user_frame(),
            )
        factor = cholesky(cov)
        y = reshaped(triangular_solve(factor, reshaped(d, (*d.shape, 1)), lower=True), d.shape)
        diagonal = sum(log(_diagonal(factor)), -1)
        return sum(square(y), -1) * -0.5 - n * _HALF_LOG_2_PI - diagonal

    @staticmethod
    def pdf(x: Any, mean: Any, cov: Any) -> Any:
        """The density; arguments as for `logpdf`."""
        return exp(multivariate_normal.logpdf(x, mean, cov))


def separate_inexacts(*xs: Any) -> list[Tensor]:
    """The arrays in one floating-point dtype, each with its own shape."""
    tensors = [inexact(x) for x in xs]
    dtype = np.result_type(*(x.dtype for x in tensors))
    return [inexacts("stats", x, np.zeros((), dtype))[0] for x in tensors]


def _diagonal(x: Tensor) -> Tensor:
    """The diagonals of the matrices in the last two axes."""
    return sum(x * np.eye(x.shape[-1], dtype=x.dtype), -1)


multivariate_normal: _MultivariateNormal = _MultivariateNormal()


class _Dirichlet:
    """The Dirichlet distribution of vectors whose elements add up to 1."""

    @staticmethod
    @library
    def logpdf(x: Any, alpha: Any) -> Tensor:
        """The logarithm of the density at the vectors along the first axis of `x`.

        The last element of the vectors may be left out: the elements add up to 1.
        """
        x, alpha = separate_inexacts(x, alpha)
        if x.shape[0] not in (alpha.shape[-1], alpha.shape[-1] - 1):
            raise ShapeError(f"dirichlet requires vectors of {alpha.shape[-1]} elements, got shape {x.shape}.", where=user_frame())
        if x.shape[0] != alpha.shape[-1]:
            rest = reshaped(1.0 - sum(x, 0), (1, *x.shape[1:]))
            x = joined([x, rest], 0)
        size = sp.gammaln(sum(alpha, -1)) - sum(sp.gammaln(alpha), -1)
        weights = reshaped(alpha, (alpha.shape[-1], *(1,) * (x.ndim - 1)))
        return size + sum(sp.xlogy(weights - 1.0, x), 0)

    @staticmethod
    def pdf(x: Any, alpha: Any) -> Any:
        """The density; arguments as for `logpdf`."""
        return exp(dirichlet.logpdf(x, alpha))


dirichlet: _Dirichlet = _Dirichlet()


class _Multinomial:
    """The distribution of the counts of each of several outcomes in n trials."""

    @staticmethod
    @library
    def logpmf(x: Any, n: Any, p: Any) -> Tensor:
        """The logarithm of the probability of the counts along the last axis of `x`; -inf if the
        counts do not add up to n.
        """
        x, n, p = separate_inexacts(x, n, p)
        value = sp.gammaln(n + 1.0) + sum(sp.xlogy(x, p) - sp.gammaln(x + 1.0), -1)
        rest = sum(x, -1) - n
        return where((rest < 0.0) | (rest > 0.0), -np.inf, value)

    @staticmethod
    def pmf(x: Any, n: Any, p: Any) -> Any:
        """The probability; arguments as for `logpmf`."""
        return exp(multinomial.logpmf(x, n, p))


multinomial: _Multinomial = _Multinomial()
