"""Gamma-distributed numbers by the rejection of Marsaglia and Tsang (2000), and their derivative by the parameter.

Every number has a separate key, so that it does not depend on other numbers. A loop runs until all numbers of an array are
accepted; accepted numbers do not change.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from nabla_mlir.numpy.dtypes import finfo
from nabla_mlir.numpy.reductions import any
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import gamma as gm
from nabla_mlir.ops import logic as lg
from nabla_mlir.random.generator import exponentials, fractions, normals, split_in, split_keys
from nabla_mlir.random.keys import KeyArray, reshaped_keys
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.custom import custom_jvp

_SQUEEZE = 0.0331  # the constant of the test that accepts most numbers without a logarithm


def gammas(key: KeyArray, a: Tensor, *, is_log: bool = False) -> Tensor:
    """A random number, or its logarithm, for each of the parameters `a`; differentiable by `a`."""
    return _samples(reshaped_keys(split_keys(key, (math.prod(a.shape),)), a.shape), a, is_log)


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _samples(keys: KeyArray, a: Tensor, is_log: bool) -> Tensor:
    """Gamma-distributed numbers with the parameter `a`, or their logarithms if `is_log`, by Marsaglia and Tsang (2000).

    For a < 1, a number for a + 1 is multiplied by u**(1 / a) for a uniform number u.
    """
    dtype = a.dtype
    is_large = lg.compare(a, full_like(a, 1), comparison_direction="GE")
    d = lg.select(is_large, a, a + 1.0) - 1.0 / 3.0
    c = full_like(d, 1.0 / 3.0) / ew.sqrt(d)
    keys, last = split_in(keys, 2)

    def draw(state: Any) -> Any:
        """The next keys, the accepted cubes, and the mask of elements that wait, after one more proposal for each of those."""
        keys, cube, waits = state
        following, inner, of_uniform = split_in(keys, 3)
        x = _above_zero(inner, c, waits)
        square, v = x * x, x * c + 1.0
        new, u = v * v * v, fractions(of_uniform, (), dtype)
        bound = square * 0.5 + d * (1.0 - new + ew.log(new))
        fails = lg.compare(ew.log(u), bound, comparison_direction="GE")
        fails = lg.logical_and(fails, lg.compare(u, 1.0 - square * square * _SQUEEZE, comparison_direction="GE"))
        return following, lg.select(waits, new, cube), lg.logical_and(waits, fails)

    # d v³ is accepted for v = 1 + c x with a normal x, if log(u) < x² / 2 + d (1 - v³ + log(v³)) for a uniform u.
    cube = while_loop(lambda state: any(state[2]), draw, (keys, full_like(a, 1), lg.is_finite(d)))[1]
    if not is_log:
        power = ew.power(1.0 - fractions(last, (), dtype), 1.0 / a)
        return d * cube * lg.select(is_large, full_like(a, 1), power)
    logs = -exponentials(last, (), dtype)
    is_none = lg.logical_or(is_large, lg.compare(logs, full_like(a, 0), comparison_direction="EQ"))
    return ew.log(d) + ew.log(cube) + lg.select(is_none, full_like(a, 0), logs * (1.0 / a))


def _above_zero(keys: KeyArray, c: Tensor, waits: Tensor) -> Tensor:
    """Normal numbers x with 1 + c x > 0 for the elements in the mask `waits`."""

    def draw(state: Any) -> Any:
        """The next keys, the numbers, and the mask of elements that wait, after one more normal number for each of those."""
        keys, x, waits = state
        following, now = split_in(keys, 2)
        new = normals(now, (), c.dtype)
        fails = lg.compare(new * c + 1.0, full_like(c, 0), comparison_direction="LE")
        return following, lg.select(waits, new, x), lg.logical_and(waits, fails)

    return while_loop(lambda state: any(state[2]), draw, (keys, full_like(c, 0), waits))[1]


@_samples.defjvp
def _samples_jvp(is_log: bool, primals: Any, tangents: Any) -> Any:
    """The numbers, and their tangents by the parameter `a`: the value of the distribution function stays constant."""
    (keys, a), (_, t) = primals, tangents
    out = _samples(keys, a, is_log)
    if is_log:
        return out, t * log_slope(a, out)
    is_zero = lg.compare(out, full_like(out, 0), comparison_direction="EQ")
    x = lg.select(is_zero, full_like(out, 1), out)
    return out, t * lg.select(is_zero, full_like(out, 0), x * log_slope(a, ew.log(x)))


def log_slope(a: Tensor, log_x: Tensor) -> Tensor:
    """The derivative of log(x) by `a`, if x changes so that the distribution function P(a, x) is constant.

    It is -dP/da / (x dP/dx), from the series of P if x <= a or x <= 1, and otherwise from the continued fraction of 1 - P.

    Args:
      a: the parameter.
      log_x: the logarithm of x, which is accurate also where x underflows.
    """
    x = ew.exponential(log_x)
    one = full_like(x, 1)
    is_tail = lg.compare(x, ew.maximum(a, one), comparison_direction="GT")
    series, series_slope = _series(*(lg.select(is_tail, one, v) for v in (a, x)))
    tail, tail_slope = _fraction(*(lg.select(is_tail, v, full_like(v, n)) for v, n in ((a, 1), (x, 2))))
    inside = -(series * (log_x - gm.digamma(a + 1.0)) + series_slope) / a
    return lg.select(is_tail, tail * (log_x - gm.digamma(a)) + tail_slope, inside)


def _series(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of x^n / ((a + 1) ... (a + n)) over n = 0, 1, ..., and its derivative by a, both to the precision of the dtype."""
    eps, zero = float(finfo(a.dtype).eps), full_like(a, 0)

    def add(state: Any) -> Any:
        """The state of the sum of a series and of its derivative, with one more term: n, term, slope, and both totals."""
        n, term, slope, total, total_slope = state
        n = n + 1.0
        ratio = x / n
        term, slope = term * ratio, (slope - term / n) * ratio
        return n, term, slope, total + term, total_slope + slope

    def is_open(state: Any) -> Tensor:
        """True while a term changes a sum by more than the precision."""
        return any(lg.compare(ew.absolute(state[2]), ew.absolute(state[4]) * eps, comparison_direction="GT"))

    one = full_like(a, 1)
    return while_loop(is_open, add, add((a, one, zero, one, zero)))[3:]


def _fraction(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The continued fraction 1 / (b0 + a1 / (b1 + a2 / (b2 + ...))), and its derivative by a.

    Its coefficients are an = n (a - n) and bn = x + 1 - a + 2 n (Legendre). The Lentz method evaluates it from the front as a
    product of factors C D, where D = 1 / (bn + an D) and C = bn + an / C.
    """
    eps, zero = float(finfo(a.dtype).eps), full_like(a, 0)

    def multiply(state: Any) -> Any:
        """One step of Lentz's method: multiplies the fraction and its slope by the next factor."""
        n, b, d, d_slope, e, e_slope, value, value_slope, _ = state  # e is 1 / C
        n, b = n + 1.0, b + 2.0
        numerator = n * (a - n)
        d_new = 1.0 / (numerator * d + b)
        d_new_slope = -(d_new * d_new) * (n * d + numerator * d_slope - 1.0)
        c = numerator * e + b
        c_slope = n * e + numerator * e_slope - 1.0
        factor, factor_slope = c * d_new, c_slope * d_new + c * d_new_slope
        new, new_slope = value * factor, value_slope * factor + value * factor_slope
        change = ew.absolute(new - value) + ew.absolute(new_slope - value_slope)
        open_ = lg.compare(change, (ew.absolute(new) + ew.absolute(new_slope)) * eps, comparison_direction="GT")
        e_new = 1.0 / c
        return n, b, d_new, d_new_slope, e_new, -(e_new * e_new) * c_slope, new, new_slope, open_

    b = x + 1.0 - a
    d = 1.0 / b
    always = lg.compare(zero, zero, comparison_direction="EQ")
    start = (zero, b, d, d * d, zero, zero, d, d * d, always)
    return while_loop(lambda state: any(state[8]), multiply, start)[6:8]
