"""Comparisons, logic on truth values and bits, and selection of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex, is_integer
from nabla_mlir.numpy.axes import dynamic_shape
from nabla_mlir.numpy.complex_order import compared
from nabla_mlir.numpy.operands import convert, inexacts, meet, require_integer, tensor
from nabla_mlir.numpy.special_values import described, is_nan, isfinite
from nabla_mlir.numpy.ufuncs import maximum, minimum
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_shapes, broadcast_to, is_scalar, promote_dtypes
from nabla_mlir.table.tensor import Tensor, full, full_like

Function = Callable[..., Any]


# ---------------------------------------------------------------- comparisons and logic
def _comparison(name: str, direction: str, symbol: str) -> Function:
    """The function `name` that compares two arrays; `direction` is StableHLO's word, such as "LT", and `symbol` Python's,
    such as "<".
    """

    @described(name, f"True where x {symbol} y.")
    def f(x: Any, y: Any) -> Tensor:
        x, y = meet(name, x, y)
        return compared(x, y, direction)

    return library(f)


equal: Function = _comparison("equal", "EQ", "==")
not_equal: Function = _comparison("not_equal", "NE", "!=")
less: Function = _comparison("less", "LT", "<")
less_equal: Function = _comparison("less_equal", "LE", "<=")
greater: Function = _comparison("greater", "GT", ">")
greater_equal: Function = _comparison("greater_equal", "GE", ">=")


def _logical(name: str, record: Any, word: str) -> Function:
    """The function `name` that combines truth values by the operation `record`; `word` describes it, such as "and"."""

    @described(name, f"The logical {word} of x and y; every number except 0 counts as True.")
    def f(x: Any, y: Any) -> Tensor:
        return record(*meet(name, convert(tensor(x), bool), convert(tensor(y), bool)))

    return library(f)


logical_and: Function = _logical("logical_and", lg.logical_and, "and")
logical_or: Function = _logical("logical_or", lg.logical_or, "or")
logical_xor: Function = _logical("logical_xor", lg.logical_xor, "exclusive or")


@library
def logical_not(x: ArrayLike) -> Tensor:
    """True where x is 0 or False."""
    x = tensor(x)
    return lg.logical_not(x) if x.dtype.kind == "b" else lg.compare(x, full_like(x, 0), comparison_direction="EQ")


def _bitwise(name: str, record: Any, word: str) -> Function:
    """The function `name` that combines the bits of integers by the operation `record`; `word` describes it, such as "and"."""

    @described(name, f"The bitwise {word} of x and y.")
    def f(x: Any, y: Any) -> Tensor:
        x, y = meet(name, x, y)
        return record(require_integer(name, x, bools=True), y)

    return library(f)


bitwise_and: Function = _bitwise("bitwise_and", lg.logical_and, "and")
bitwise_or: Function = _bitwise("bitwise_or", lg.logical_or, "or")
bitwise_xor: Function = _bitwise("bitwise_xor", lg.logical_xor, "exclusive or")


@library
def bitwise_invert(x: ArrayLike) -> Tensor:
    """The complement of the bits of x; for bool, the logical not."""
    return lg.logical_not(require_integer("bitwise_invert", tensor(x), bools=True))


invert = bitwise_invert
bitwise_not = bitwise_invert


@library
def bitwise_left_shift(x: ArrayLike, y: Static[Any]) -> Tensor:
    """x * 2**y by shifting bits."""
    x, n = meet("bitwise_left_shift", x, y)
    return lg.shift_left(require_integer("bitwise_left_shift", x), n)


@library
def bitwise_right_shift(x: ArrayLike, y: Static[Any]) -> Tensor:
    """x // 2**y by shifting bits; the sign does not change."""
    x, n = meet("bitwise_right_shift", x, y)
    unsigned = require_integer("bitwise_right_shift", x).dtype.kind == "u"
    return (lg.shift_right_logical if unsigned else lg.shift_right_arithmetic)(x, n)


left_shift = bitwise_left_shift
right_shift = bitwise_right_shift


@library
def bitwise_count(x: ArrayLike) -> Tensor:
    """The number of one bits in the absolute value of x."""
    x = require_integer("bitwise_count", tensor(x))
    return convert(lg.popcnt(x if x.dtype.kind == "u" else ew.absolute(x)), np.uint8)


# ---------------------------------------------------------------- choice
@library
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /) -> Tensor:
    """Returns x where the condition is true, else y.

    Raises:
      TraceError: x and y are missing, so that the number of indices would depend on values.
    """
    if x is None or y is None:
        dynamic_shape("where with one argument", "give x and y, or multiply by the mask.")
    x, y = meet("where", x, y)
    return choose(convert(tensor(condition), bool), x, y)


def choose(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The elements of x where `condition` is true, else those of y, after broadcasting; a scalar condition stays a scalar."""
    shape = broadcast_shapes("where", [condition.shape, x.shape])
    if condition.ndim:
        condition = broadcast_to(condition, shape)
    return lg.select(condition, broadcast_to(x, shape), broadcast_to(y, shape))


@library
def clip(x: ArrayLike, min: Any = None, max: Any = None) -> Tensor:
    """Limits `x` to [min, max]; None means no bound. The derivative is zero outside and at the bounds.

    Complex numbers are compared in the order of NumPy; at a bound, the number and the bound share the derivative.
    """
    x = tensor(x)
    bounds = [b for b in (min, max) if b is not None]
    if is_integer(x.dtype) and all(is_scalar(b) and isinstance(b, int) for b in bounds):
        info = np.iinfo(x.dtype)  # every number satisfies a bound beyond the range of the dtype
        min = None if min is None or min <= info.min else min
        max = None if max is None or max >= info.max else max
    if min is None and max is None:
        return x
    if min is None or max is None:
        return maximum(x, min) if max is None else minimum(x, max)
    if is_complex(promote_dtypes([x, *bounds])):
        return minimum(maximum(x, min), max)
    if all(is_scalar(b) for b in (min, max)):
        x, low, high = _with_scalar_bounds(x, min, max)
        return lg.clamp(low, x, high)
    x, low, high = meet("clip", x, min, max)
    return lg.clamp(low, x, high)


def _with_scalar_bounds(x: Tensor, low: Any, high: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Converts an array and two numbers to their common dtype; the numbers stay scalars."""
    dtype = promote_dtypes([x, low, high])
    return convert(x, dtype), full((), low, dtype), full((), high, dtype)


@library
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """Selects the choice of the first true condition for each element, else `default`."""
    *values, out = meet("select", *choicelist, default)
    for condition, value in reversed(list(zip(condlist, values, strict=True))):
        out = choose(convert(tensor(condition), bool), value, out)
    return out


@library
def isclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """True where abs(a - b) <= atol + rtol * abs(b), or both are the same infinity."""
    x, y = inexacts("isclose", a, b)
    near = lg.compare(ew.absolute(x - y), ew.absolute(y) * rtol + atol, comparison_direction="LE")
    near = lg.logical_and(near, isfinite(y))
    out = lg.logical_or(near, lg.compare(x, y, comparison_direction="EQ"))
    return lg.logical_or(out, lg.logical_and(is_nan(x), is_nan(y))) if equal_nan else out
