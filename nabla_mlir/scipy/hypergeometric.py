"""Kummer's confluent hypergeometric function: its series, below to positive arguments, and the asymptotic one far out."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.numpy.bessel import of_real
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.ufuncs import absolute, exp, floor, log
from nabla_mlir.ops import gamma
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.scipy.incomplete import gammasgn, with_slopes
from nabla_mlir.scipy.integrals import series
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like


def _pole(x: Tensor) -> Tensor:
    """Where the gamma function has a pole."""
    fixed = stop_gradient(x)
    return (fixed <= 0.0) & (fixed == floor(fixed))


def _kummer(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    below = x < 0.0  # M(a, b, x) = exp(x) M(b - a, b, -x)
    c, size = where(below, b - a, a), absolute(x)
    ends = _pole(a) | _pole(b - a)
    c, size = where(_pole(a), a, where(_pole(b - a), b - a, c)), size
    y = where(_pole(a), x, where(_pole(b - a), -x, size))  # a polynomial is summed as such
    kummer = where(_pole(a), False, where(_pole(b - a), True, below))
    far = ~ends & (size > 100.0 + c * c + b * b)
    near = where(far, 1.0, y)
    distant = where(far, size, 1e4)
    d, e = where(far, b - c, 0.5), where(far, 1.0 - c, 0.5)

    def term(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        part = part * (c + k - 1.0) / (b + k - 1.0) * near / k
        return part, part

    def asymptotic(k: Any, part: Tensor) -> tuple[Tensor, Tensor]:
        ratio = (d + k - 1.0) * (e + k - 1.0) / k / distant
        part = where(absolute(ratio) < 1.0, part * ratio, 0.0)
        return part, part

    one = full_like(x, 1)
    plain = series(term, one, one) * exp(where(far | ~kummer, 0.0, x))
    size_of = gamma.lgamma(b) - gamma.lgamma(where(far, c, 1.0)) + (c - b) * log(distant) + where(kummer, 0.0, distant)
    away = gammasgn(b) * gammasgn(where(far, c, 1.0)) * exp(where(far, size_of, 0.0)) * series(asymptotic, one, one)
    return where(_pole(b), np.nan, where(far, away, plain))


_hyp1f1: Any = with_slopes(_kummer, lambda a, b, x: a / b * _hyp1f1(a + 1.0, b + 1.0, x))


@library
def hyp1f1(a: Any, b: Any, x: Any) -> Tensor:
    """Kummer's function: the sum of (a)_k / (b)_k x**k / k! over k = 0, 1, ...; NaN where b is 0, -1, ...

    Digits are lost where large terms cancel: negative `a` far from 0 with positive x, or a > b with negative x.

    Example:
      >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 6)
      1.718282
    """
    return of_real("hyp1f1", _hyp1f1, a, b, x)
