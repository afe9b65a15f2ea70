"""Division with a remainder, by the conventions of Python: the remainder has the sign of the divisor."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_float
from nabla_mlir.numpy.operands import convert, meet, require_real
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like


@library
def fmod(x: ArrayLike, y: ArrayLike) -> Tensor:
    """The remainder of x / y with the sign of x."""
    return _rest(*_numbers("fmod", x, y))


@library
def remainder(x: ArrayLike, y: ArrayLike) -> Tensor:
    """The remainder of floor_divide; it has the sign of y, also if it is 0."""
    return _modulo(*_numbers("remainder", x, y))


mod = remainder


@library
def floor_divide(x: ArrayLike, y: ArrayLike) -> Tensor:
    """The largest integer <= x / y; `remainder` returns the remainder.

    As in NumPy, x / 0 is infinite, an infinity divided by a number is NaN, and a negative number divided by infinity is -1.
    """
    return _quotient(*_numbers("floor_divide", x, y))


@library
def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
    """``(floor_divide(x, y), remainder(x, y))``."""
    x, y = _numbers("divmod", x, y)
    return _quotient(x, y), _modulo(x, y)


def _numbers(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both operands in one dtype; truth values become int8, as in NumPy. Raises DtypeError for complex numbers.

    `name` is the name of the function.
    """
    x, y = meet(name, x, y)
    if x.dtype.kind == "b":
        return convert(x, np.int8), convert(y, np.int8)
    return require_real(name, x), y


def _less(x: Tensor, y: Tensor) -> Tensor:
    """The mask x < y."""
    return lg.compare(x, y, comparison_direction="LT")


def _equal(x: Tensor, y: Tensor) -> Tensor:
    """The mask x == y."""
    return lg.compare(x, y, comparison_direction="EQ")


def _rest(x: Tensor, y: Tensor) -> Tensor:
    """The remainder of x / y with the sign of x; for integers divided by 0 it is 0."""
    if is_float(x.dtype):
        return ew.remainder(x, y)
    return ew.remainder(x, lg.select(_equal(y, full_like(y, 0)), full_like(y, 1), y))


def _modulo(x: Tensor, y: Tensor) -> Tensor:
    """The remainder of x / y with the sign of y, as Python's %."""
    remainder = _rest(x, y)
    if x.dtype.kind == "u":
        return remainder
    zero = full_like(remainder, 0)
    at_zero, is_negative = _equal(remainder, zero), _less(y, zero)
    differs = lg.compare(_less(remainder, zero), is_negative, comparison_direction="NE")
    result = lg.select(lg.logical_and(differs, lg.logical_not(at_zero)), remainder + y, remainder)
    if not is_float(x.dtype):
        return result
    # A zero gets the sign of y; its derivative is that of `remainder`.
    return lg.select(at_zero, lg.select(is_negative, -ew.absolute(-remainder), ew.absolute(remainder)), result)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """The quotient x / y, rounded towards negative infinity, as Python's //."""
    if x.dtype.kind == "u":
        return ew.divide(x, y)
    if is_float(x.dtype):
        return _float_quotient(stop_gradient(x), stop_gradient(y))
    quotient, zero = ew.divide(x, y), full_like(x, 0)  # rounded towards zero
    opposite = lg.compare(_less(x, zero), _less(y, zero), comparison_direction="NE")
    inexact_ = lg.compare(quotient * y, x, comparison_direction="NE")
    return lg.select(lg.logical_and(opposite, inexact_), quotient - 1, quotient)


def _float_quotient(x: Tensor, y: Tensor) -> Tensor:
    """The quotient x / y of floats, rounded towards negative infinity; x / 0 is returned directly.

    It is computed from the remainder, because x / y may be rounded up to an integer.
    """
    ratio, remainder = x / y, _rest(x, y)
    zero = full_like(x, 0)
    opposite = lg.compare(_less(remainder, zero), _less(y, zero), comparison_direction="NE")
    is_below = lg.logical_and(opposite, lg.compare(remainder, zero, comparison_direction="NE"))
    whole = (x - remainder) / y
    exact = ew.round_nearest_even(lg.select(is_below, whole - 1, whole))
    exact = lg.select(_equal(exact, zero), ratio * 0.0, exact)  # a zero gets the sign of x / y
    return lg.select(_equal(y, zero), ratio, exact)
