"""The Hurwitz zeta function and the derivatives of digamma: SciPy's walk from a negative number to the positive ones, term by
term, and overflow where the exponent is large.
"""

from __future__ import annotations

import numpy as np

from nabla_mlir.interpreter.evaluations import evaluation
from nabla_mlir.ops.gamma import ZETA_CORRECTIONS, ZETA_TERMS


@evaluation("chlo.zeta")
def zeta(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The Hurwitz zeta function: the sum of (q + k)^-s over k = 0, 1, 2, ..., computed in float64.

    For q < 0 and whole s the terms before zero are those of r = |q| - floor(|q|), r + 1, ..., |q|:
    zeta(s, q) = zeta(s, 1 - r) + (-1)^s (zeta(s, r) - zeta(s, |q| + 1)).
    """
    exponent, x = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    with np.errstate(all="ignore"):
        size = np.abs(x)
        fraction = np.where(np.isfinite(size), size - np.floor(size), 0.0)
        low = x < 0
        total = _zeta_of_positive(exponent, np.where(low, size + 1, x))
        sign = np.where(np.fmod(exponent, 2) == 0, 1.0, -1.0)
        below = _zeta_of_positive(exponent, 1 - fraction) + sign * (_zeta_of_positive(exponent, fraction) - total)
        total = np.where(low, np.where(exponent == np.floor(exponent), below, np.nan), total)
        total = np.where((x <= 0) & (fraction == 0), np.inf, total)  # a term is 1 / 0
        total = np.where(exponent > 1, total, np.where(exponent == 1, np.inf, np.nan))  # the sum converges for s > 1 only
        return np.where(np.isnan(x), np.nan, total).astype(q.dtype)


def _zeta_of_positive(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The Hurwitz zeta function, the sum of (q + k)^-s over k = 0, 1, ..., for positive q, by the Euler-Maclaurin formula.

    With a = q + N: the sum over k < N, plus a^(1 - s) (1 / (s - 1) + 1 / (2 a) + the sum over j >= 1 of c_j s (s + 1) ... (s + 2 j
    - 2) / a^(2 j)).
    """
    a = q + ZETA_TERMS
    terms = sum((np.power(q + k, -s) for k in range(ZETA_TERMS)), np.zeros_like(q))
    near = np.minimum(s, 4 * a)  # for a larger s, a^(1 - s) is so small that the series only must not overflow
    factor, series = near / a, 1 / (s - 1) + 0.5 / a
    for j, c in enumerate(ZETA_CORRECTIONS, start=1):
        series = series + c * factor / a
        factor = factor * ((near + (2 * j - 1)) / a) * ((near + 2 * j) / a)
    tail = np.power(a, 1 - s) * series
    return terms + np.where(np.isfinite(a), tail, 0.0)


@evaluation("chlo.polygamma")
def polygamma(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The derivative of order n of digamma, (-1)^(n + 1) n! zeta(n + 1, x); NaN unless n is a whole number of at least 0."""
    from scipy import special

    n, x = np.broadcast_arrays(n, x)
    order, wide = n.astype(np.float64), x.astype(np.float64)
    with np.errstate(all="ignore"):
        value = special.gamma(order + 1) * zeta(order + 1, wide)
        value = np.where(np.fmod(order, 2) == 0, -value, value)
        value = np.where(order == 0, special.digamma(wide), value)
        return np.where((order >= 0) & np.isfinite(order) & (order == np.floor(order)), value, np.nan).astype(x.dtype)
