"""The transformation of Box and Cox, as an integral of powers, whose derivatives are powers and integrals of the same kind."""

from __future__ import annotations

import functools
import math
from typing import Any

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.hermitian_functions import derivative
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexacts
from nabla_mlir.numpy.special_values import polynomial
from nabla_mlir.numpy.ufuncs import absolute, exp, expm1, log, log1p
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.guards import power_log, product
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.custom import custom_jvp


@library
def boxcox(x: ArrayLike, lmbda: Any) -> Tensor:
    """(x**lmbda - 1) / lmbda, and log(x) where lmbda is 0."""
    x, power = inexacts("boxcox", x, lmbda)
    return _power_integral(0, False, x, power)


@library
def boxcox1p(x: ArrayLike, lmbda: Any) -> Tensor:
    """boxcox(1 + x, lmbda), accurate near 0."""
    x, power = inexacts("boxcox1p", x, lmbda)
    return _power_integral(0, True, x, power)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _power_integral(order: int, is_shifted: bool, x: Tensor, power: Tensor) -> Tensor:
    """The integral of t**(power - 1) log(t)**order from 1 to x, or to 1 + x: the derivative of `boxcox` by lambda of that order."""
    logarithm = log1p(x) if is_shifted else log(x)
    return derivative(functools.partial(_power_less_one, logarithm), order)(power)


@_power_integral.defjvp
def _power_integral_jvp(order: int, is_shifted: bool, primals: Any, tangents: Any) -> Any:
    """The value of the integral, and its tangent for tangents of x and of the power.

    The derivative by x is a power. Its factors in the derivative of the formula, exp(power * log(x)) and 1 / x, could be 0 and inf.
    """
    (x, power), (dx, dp) = primals, tangents
    less = power - 1.0
    density = _shifted_power(x, less) if is_shifted else power_log(x, less, degree=float(order)) if order else ew.power(x, less)
    if order and is_shifted:
        density = product(density, log1p(x) ** order)
    slope = _power_integral(order + 1, is_shifted, x, power)
    return _power_integral(order, is_shifted, x, power), product(dx, density) + product(dp, slope)


def _shifted_power(x: Tensor, power: Tensor) -> Tensor:
    """(1 + x)**power; by log1p near 0, because the derivative by the power contains a logarithm that 1 + x would round."""
    near = absolute(x) < 0.5
    small, base = where(near, x, 0.0), where(near, 1.0, 1.0 + x)
    return where(near, exp(power * log1p(small)), ew.power(base, power))


_EXPONENTIAL = [1 / math.factorial(k + 2) for k in range(12)]  # (exp(w) - 1 - w) / w^2


def _power_less_one(logarithm: Tensor, power: Tensor) -> Tensor:
    """The function (exp(power * logarithm) - 1) / power; small exponents use a series, whose derivatives exist at 0."""
    w = product(power, logarithm)
    small = absolute(w) < 0.2
    safe = where(small | (power == 0.0), 1.0, power)
    second = logarithm * logarithm * polynomial(where(small, w, 0.0), _EXPONENTIAL)
    return where(small, logarithm + product(power, second), expm1(where(small, 1.0, w)) / safe)
