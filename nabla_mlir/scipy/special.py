"""Special functions of mathematics and statistics."""

from __future__ import annotations

from typing import Any

from nabla_mlir.numpy.operands import inexact, inexacts
from nabla_mlir.numpy.reductions import logsumexp as logsumexp
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import gamma
from nabla_mlir.ops import logic as lg
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like


@library
def erf(x: Any) -> Tensor:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    return ew.erf(inexact(x))


@library
def erfc(x: Any) -> Tensor:
    """1 - erf(x), accurate for large x."""
    return ew.erfc(inexact(x))


@library
def erfinv(x: Any) -> Tensor:
    """The number whose error function is x."""
    return ew.erf_inv(inexact(x))


@library
def gammaln(x: Any) -> Tensor:
    """log(abs(gamma(x)))."""
    return gamma.lgamma(inexact(x))


lgamma = gammaln


@library
def digamma(x: Any) -> Tensor:
    """The derivative of gammaln."""
    return gamma.digamma(inexact(x))


@library
def polygamma(n: Static[Any], x: Any) -> Tensor:
    """The n-th derivative of digamma at x."""
    return gamma.polygamma(*inexacts("polygamma", n, x))


@library
def zeta(x: Static[Any], q: Any) -> Tensor:
    """The Hurwitz zeta function: the sum of (q + k)**-s over k = 0, 1, 2, ..."""
    return gamma.zeta(*inexacts("zeta", x, q))


@library
def expit(x: Any) -> Tensor:
    """The logistic function 1 / (1 + exp(-x))."""
    return ew.logistic(inexact(x))


@library
def logit(x: Any) -> Tensor:
    """log(x / (1 - x))."""
    p = inexact(x)
    return ew.log(p) - ew.log_plus_one(-p)


@library
def xlogy(x: Any, y: Any) -> Tensor:
    """x * log(y), and 0 where x is 0."""
    x, y = inexacts("xlogy", x, y)
    zero = full_like(x, 0)
    absent = lg.compare(x, zero, comparison_direction="EQ")
    return lg.select(absent, zero, x * ew.log(lg.select(absent, full_like(y, 1), y)))
