"""Division with a remainder, by the conventions of Python: the remainder has the sign of the divisor."""

from __future__ import annotations

from typing import Any

from nabla_mlir.dialects.types import is_float
from nabla_mlir.numpy.operands import meet, require_real
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like


@library
def fmod(x: Any, y: Any) -> Tensor:
    """The remainder of x / y with the sign of x."""
    x, y = meet("fmod", x, y)
    return ew.remainder(require_real("fmod", x), y)


@library
def remainder(x: Any, y: Any) -> Tensor:
    """The remainder of floor_divide, which has the sign of y, also where it is 0."""
    x, y = meet("remainder", x, y)
    return _modulo(require_real("remainder", x), y)


mod = remainder


@library
def floor_divide(x: Any, y: Any) -> Tensor:
    """The largest integer not above x / y; `remainder` is what is left. An infinite x / y stays, and so does the sign of 0."""
    x, y = meet("floor_divide", x, y)
    return _quotient(require_real("floor_divide", x), y)


@library
def divmod(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """``(floor_divide(x, y), remainder(x, y))``."""
    x, y = meet("divmod", x, y)
    return _quotient(require_real("divmod", x), y), _modulo(x, y)


def _less(x: Tensor, y: Tensor) -> Tensor:
    return lg.compare(x, y, comparison_direction="LT")


def _equal(x: Tensor, y: Tensor) -> Tensor:
    return lg.compare(x, y, comparison_direction="EQ")


def _modulo(x: Tensor, y: Tensor) -> Tensor:
    rest = ew.remainder(x, y)
    if x.dtype.kind in "ub":
        return rest
    zero = full_like(rest, 0)
    at_zero, is_negative = _equal(rest, zero), _less(y, zero)
    differs = lg.compare(_less(rest, zero), is_negative, comparison_direction="NE")
    result = lg.select(lg.logical_and(differs, lg.logical_not(at_zero)), rest + y, rest)
    if not is_float(x.dtype):
        return result
    # A zero gets the sign of y; the derivative of both is that of `rest`.
    return lg.select(at_zero, lg.select(is_negative, -ew.absolute(-rest), ew.absolute(rest)), result)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.kind == "u":
        return ew.divide(x, y)
    if is_float(x.dtype):
        return _float_quotient(stop_gradient(x), stop_gradient(y))
    quotient, zero = ew.divide(x, y), full_like(x, 0)  # rounded towards zero
    opposite = lg.compare(_less(x, zero), _less(y, zero), comparison_direction="NE")
    inexact_ = lg.compare(quotient * y, x, comparison_direction="NE")
    return lg.select(lg.logical_and(opposite, inexact_), quotient - 1, quotient)


def _float_quotient(x: Tensor, y: Tensor) -> Tensor:
    """By the remainder, since x / y may be rounded up to an integer; where that says nothing by x / y."""
    ratio = x / y
    exact = ew.round_nearest_even((x - _modulo(x, y)) / y)
    exact = lg.select(_equal(exact, full_like(exact, 0)), ratio * 0.0, exact)  # the zero of the sign of x / y
    return lg.select(lg.logical_and(lg.is_finite(ratio), lg.is_finite(y)), exact, ew.floor(ratio))
