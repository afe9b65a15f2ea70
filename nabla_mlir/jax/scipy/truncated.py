"""The normal distribution between two bounds: logarithms of probabilities, each from the tail in which it is accurate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.jax.scipy.special import log_ndtr
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.ufuncs import exp, expm1, log, log1p


def log_complement(t: Any) -> Any:
    """The logarithm of 1 - exp(-t) for t >= 0, computed without loss of digits."""
    far = t > math.log(2)
    return where(far, log1p(-exp(-where(~far, 1.0, t))), log(-expm1(-where(far, 1.0, t))))


def log_mass(a: Any, b: Any) -> Any:
    """The logarithm of ndtr(b) - ndtr(a) for a < b, computed in the tail in which the difference is accurate."""
    swap = a > 0
    low, high = where(swap, -b, a), where(swap, -a, b)
    upper, lower = log_ndtr(high), log_ndtr(low)
    nothing = upper == -np.inf
    return where(nothing, -np.inf, upper + log_complement(where(nothing, 0.0, upper) - lower))


def truncated_log_cdf(z: Any, a: Any, b: Any) -> Any:
    """The logarithm of the distribution function of the normal distribution between a and b."""
    inner = where((z <= a) | (z >= b), (a + b) * 0.5, z)
    return where(z <= a, -np.inf, where(z >= b, 0.0, log_share(log_mass(a, inner), log_mass(inner, b), log_mass(a, b))))


def log_share(part: Any, rest: Any, whole: Any) -> Any:
    """The logarithm of a share of a mass, from the logarithms of the part, of the rest and of their sum."""
    high = part > rest  # the share is near 1 there, and its logarithm is small
    return where(high, log1p(-exp(where(~high, -1.0, rest - whole))), part - whole)


def truncated_log_sf(z: Any, a: Any, b: Any) -> Any:
    """The logarithm of one less that function."""
    inner = where((z <= a) | (z >= b), (a + b) * 0.5, z)
    return where(z <= a, 0.0, where(z >= b, -np.inf, log_share(log_mass(inner, b), log_mass(a, inner), log_mass(a, b))))
