"""Elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex, is_float
from nabla_mlir.numpy.complex_order import compared, further
from nabla_mlir.numpy.operands import convert, inexact, inexacts, meet, operand, require_real, strong, tensor
from nabla_mlir.numpy.special_values import complex_expm1, complex_tanh, described, is_infinite, is_nan, sine_over
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import guards
from nabla_mlir.ops import logic as lg
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table import promotion
from nabla_mlir.table.promotion import is_inexact, is_scalar
from nabla_mlir.table.tensor import Tensor, full_like

Function = Callable[..., Any]


# ---------------------------------------------------------------- families of functions of one operation
def _inexact_unary(name: str, record: Any, doc: str) -> Function:
    """The function `name` of one array in floating point, which emits the operation `record`; `doc` is its docstring."""

    @described(name, f"{doc} Integers are converted to the default float dtype.")
    def f(x: ArrayLike) -> Tensor:
        return record(inexact(x))

    return library(f)


def _numeric_binary(name: str, record: Any, doc: str, *, bools: bool = True) -> Function:
    """The function `name` of two arrays in one dtype, which emits the operation `record`; with `bools` they may be truth values."""

    @described(name, doc)
    def f(x: Any, y: Any) -> Tensor:  # the record on operands of one dtype and shape
        x, y = meet(name, x, y)
        if x.dtype.kind == "b" and not bools:
            raise DtypeError(f"{name} requires numbers, got bool.", where=user_frame(), help="use logical_xor.")
        return record(x, y)

    return library(f)


sin: Function = _inexact_unary("sin", ew.sine, "The sine of x, an angle in radians.")
cos: Function = _inexact_unary("cos", ew.cosine, "The cosine of x, an angle in radians.")
tan: Function = _inexact_unary("tan", ew.tan, "The tangent of x, an angle in radians.")
arcsin: Function = _inexact_unary("arcsin", ew.asin, "The angle in [-pi/2, pi/2] with the sine x.")
asin = arcsin
arccos: Function = _inexact_unary("arccos", ew.acos, "The angle in [0, pi] with the cosine x.")
acos = arccos
arctan: Function = _inexact_unary("arctan", ew.atan, "The angle in [-pi/2, pi/2] whose tangent is x.")
atan = arctan
sinh: Function = _inexact_unary("sinh", ew.sinh, "The hyperbolic sine, (exp(x) - exp(-x)) / 2.")
cosh: Function = _inexact_unary("cosh", ew.cosh, "The hyperbolic cosine, (exp(x) + exp(-x)) / 2.")
tanh: Function = _inexact_unary("tanh", lambda x: complex_tanh(x) if is_complex(x.dtype) else ew.tanh(x), "The hyperbolic tangent.")
arcsinh: Function = _inexact_unary("arcsinh", ew.asinh, "The number whose hyperbolic sine is x.")
asinh = arcsinh
arccosh: Function = _inexact_unary("arccosh", ew.acosh, "The number >= 0 with the hyperbolic cosine x.")
acosh = arccosh
arctanh: Function = _inexact_unary("arctanh", ew.atanh, "The number with the hyperbolic tangent x.")
atanh = arctanh
exp: Function = _inexact_unary("exp", ew.exponential, "The exponential e**x.")
expm1: Function = _inexact_unary(
    "expm1", lambda x: complex_expm1(x) if is_complex(x.dtype) else ew.exponential_minus_one(x), "exp(x) - 1, accurate near 0."
)
log: Function = _inexact_unary("log", ew.log, "The natural logarithm; NaN for negative real numbers.")
log1p: Function = _inexact_unary("log1p", ew.log_plus_one, "log(1 + x), accurate near 0.")
sqrt: Function = _inexact_unary("sqrt", ew.sqrt, "The square root; NaN for negative numbers.")
rsqrt: Function = _inexact_unary("rsqrt", ew.rsqrt, "The inverse square root 1 / sqrt(x).")
cbrt: Function = _inexact_unary("cbrt", ew.cbrt, "The real cube root.")
exp2: Function = _inexact_unary(
    "exp2", lambda x: ew.exponential(x * math.log(2)) if is_complex(x.dtype) else ew.power(full_like(x, 2), x), "The power 2**x."
)


def _logarithm(base: int) -> Function:  # log2 or log10, for the base 2 or 10
    def f(x: Any) -> Tensor:
        y, c = ew.log(inexact(x)), 1 / math.log(base)
        # Each part of a complex number is scaled separately: an infinite part times the 0 of a complex factor is NaN.
        return strong(ew.make_complex(ew.real(y) * c, ew.imag(y) * c) if is_complex(y.dtype) else y * c)

    return library(described(f"log{base}", f"The logarithm to base {base}.")(f))


log2: Function = _logarithm(2)
log10: Function = _logarithm(10)
deg2rad: Function = library(described("deg2rad", "Degrees to radians, x * pi / 180.")(lambda x: inexact(x) * (math.pi / 180)))
radians = deg2rad
rad2deg: Function = library(described("rad2deg", "Radians to degrees, x * 180 / pi.")(lambda x: inexact(x) * (180 / math.pi)))
degrees = rad2deg

add: Function = _numeric_binary("add", ew.add, "x + y; for bool, the logical or.")
subtract: Function = _numeric_binary("subtract", ew.subtract, "x - y; bool is refused.", bools=False)
multiply: Function = _numeric_binary("multiply", ew.multiply, "x * y; for bool, the logical and.")
_TIES = "NaN if one of them is NaN. Equal operands get half of the derivative each. Complex numbers are compared as in `max`."
maximum: Function = _numeric_binary("maximum", lambda x, y: further(x, y, "max"), f"The larger of x and y; {_TIES}")
minimum: Function = _numeric_binary("minimum", lambda x, y: further(x, y, "min"), f"The smaller of x and y; {_TIES}")


@library
def divide(x: ArrayLike, y: ArrayLike) -> Tensor:
    """x / y; integers are converted to the default float dtype."""
    return promotion.true_divide(operand(x), operand(y))


true_divide = divide


@library
def negative(x: ArrayLike) -> Tensor:
    """-x."""
    return -tensor(x)


@library
def positive(x: ArrayLike) -> Tensor:
    """+x, which is x."""
    return tensor(x)


@library
def absolute(x: ArrayLike) -> Tensor:
    """The absolute value, or the modulus of a complex number. The derivative at 0 is 1, and 0 for complex numbers.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.grad(absolute)(0.0)), float(nm.grad(absolute)(-0.0))
      (1.0, 1.0)
    """
    x = tensor(x)
    return x if x.dtype.kind in "ub" else ew.absolute(x)


abs = absolute


@library
def fabs(x: ArrayLike) -> Tensor:
    """The absolute value in floating point. The derivative at 0 is 1."""
    return ew.absolute(require_real("fabs", inexact(x)))


@library
def sign(x: ArrayLike) -> Tensor:
    """-1, 0 or 1; z / abs(z) for complex numbers."""
    x = tensor(x)
    if is_complex(x.dtype):
        return ew.complex_sign(x)
    if x.dtype.kind in "ub":
        return convert(convert(x, bool), x.dtype)
    zero = full_like(x, 0)  # the sign of -0.0 is 0.0
    return lg.select(lg.compare(x, zero, comparison_direction="EQ"), zero, ew.sign(x))


@library
def square(x: Any) -> Tensor:
    """x * x; truth values give int8, as in `power`."""
    x = convert(x, "int8") if tensor(x).dtype == bool else tensor(x)
    return ew.square(x) if is_inexact(x.dtype) else x * x


@library
def reciprocal(x: ArrayLike) -> Tensor:
    """1 / x."""
    x = inexact(x)
    return 1.0 / x


@library
def power(x: ArrayLike, y: ArrayLike) -> Tensor:
    """x to the power y. A Python integer y is exact: negative bases are allowed, and no logarithm is used.

    Raises:
      DtypeError: an integer to the power of a negative Python integer.
    """
    if is_scalar(y) and not is_scalar(x):
        special = _constant_power(tensor(x), y)
        if special is not None:
            return special
    x, y = meet("power", x, y)
    if x.dtype.kind == "b":
        x, y = convert(x, np.int8), convert(y, np.int8)
    return ew.power(x, y)


pow = power


def _constant_power(x: Tensor, n: Any) -> Tensor | None:
    """The power x**n with a known exponent `n` by the fewest operations; None if the general formula must be used."""
    if isinstance(n, bool) or x.dtype.kind == "b":
        return None
    if n == 0.5 and is_inexact(x.dtype):
        return ew.sqrt(x)
    if not isinstance(n, int) and not (isinstance(n, float) and n == 2 and is_inexact(x.dtype)):
        return None
    if n < 0 and not is_inexact(x.dtype):
        raise DtypeError(
            f"power requires an exponent of at least 0 for {x.dtype}, got {n}.",
            where=user_frame(),
            help="convert the base to floating point with astype.",
        )
    if n == 0:
        return full_like(x, 1)
    if n == -1:
        return full_like(x, 1) / x
    if n in (1, 2):
        return x if n == 1 else square(x)
    if is_float(x.dtype):
        # One operation, so that its derivative n * x**(n-1) is one too; the compiler gets multiplications.
        return ew.power(x, full_like(x, n))
    n = int(n)
    return _by_squaring(x, n) if n > 0 else full_like(x, 1) / _by_squaring(x, -n)


def _by_squaring(x: Tensor, n: int) -> Tensor:
    """The power x**n, n >= 1, by repeated squaring: the product of the squares that the bits of n select."""
    result: Tensor | None = None
    while n:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        x = x * x if n else x
    assert result is not None
    return result


@library
def float_power(x: ArrayLike, y: ArrayLike) -> Tensor:
    """x to the power y in floating point."""
    return ew.power(*inexacts("float_power", x, y))


def _other_number(name: str, record: Any, direction: str) -> Function:
    """The function `fmax` or `fmin`, which ignores NaN; `direction` is the comparison under which x is the result."""

    @described(name, f"The {'larger' if name == 'fmax' else 'smaller'} of x and y; if one of them is NaN, the other one.")
    def f(x: Any, y: Any) -> Tensor:  # x if it comes first in the direction, or if y is NaN; else y
        x, y = meet(name, x, y)
        if not is_inexact(x.dtype):
            return record(x, y)
        first = lg.logical_or(compared(x, y, direction), is_nan(y))
        return lg.select(first, x, y)

    return library(f)


fmax: Function = _other_number("fmax", ew.maximum, "GE")
fmin: Function = _other_number("fmin", ew.minimum, "LE")


def log1p_exp(low: Tensor, high: Tensor) -> Tensor:
    """high + log1p(exp(low - high)) for low <= high, also where both are infinite."""
    are_infinite = lg.logical_and(is_infinite(high), lg.compare(low, high, comparison_direction="EQ"))
    difference = lg.select(are_infinite, full_like(high, 0), low - high)
    return high + ew.log_plus_one(ew.exponential(difference))


@library
def logaddexp(x: ArrayLike, y: ArrayLike) -> Tensor:
    """log(exp(x) + exp(y)) without overflow; its derivatives of every order are correct at x = y too."""
    x, y = inexacts("logaddexp", x, y)
    first = lg.compare(require_real("logaddexp", x), y, comparison_direction="GT")
    return log1p_exp(lg.select(first, y, x), lg.select(first, x, y))


@library
def logaddexp2(x: ArrayLike, y: ArrayLike) -> Tensor:
    """log2(2**x + 2**y) without overflow."""
    x, y = inexacts("logaddexp2", x, y)
    return logaddexp(x * math.log(2), y * math.log(2)) * (1 / math.log(2))


@library
def arctan2(y: ArrayLike, x: ArrayLike) -> Tensor:
    """The angle of the point (x, y), in (-pi, pi]."""
    y, x = inexacts("arctan2", y, x)
    return ew.atan2(require_real("arctan2", y), x)


atan2 = arctan2


@library
def hypot(x: ArrayLike, y: ArrayLike) -> Tensor:
    """sqrt(x**2 + y**2) without overflow; the derivative at the origin is 0."""
    x, y = inexacts("hypot", x, y)
    return guards.hypot(require_real("hypot", x), y)


@library
def sinc(x: ArrayLike) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0; derivatives exist at 0."""
    x = inexact(x)
    size = ew.absolute(x)
    near = compared(size, full_like(size, 0.15), "LT")  # a series is used here, because its derivatives exist at 0
    small, large = lg.select(near, x * math.pi, full_like(x, 0)), lg.select(near, full_like(x, 1), x)
    return lg.select(near, sine_over(small), _sine_of_half_circles(large) / large)


def _sine_of_half_circles(x: Tensor) -> Tensor:
    """sin(pi x) / pi; for real numbers it is computed from the exact difference to the nearest integer."""
    if is_complex(x.dtype):
        return ew.sine(x * math.pi) * (1 / math.pi)
    whole = ew.round_nearest_even(x)
    is_odd = lg.compare(whole, ew.floor(whole * 0.5) * 2.0, comparison_direction="NE")
    sine = ew.sine((x - whole) * math.pi) * (1 / math.pi)
    return lg.select(is_odd, -sine, sine)


@library
def heaviside(x: ArrayLike, y: ArrayLike) -> Tensor:
    """0 for x < 0, y for x = 0, 1 for x > 0."""
    x, y = inexacts("heaviside", x, y)
    require_real("heaviside", x)
    zero = full_like(x, 0)
    step = lg.select(compared(zero, x, "LT"), full_like(x, 1), lg.select(is_nan(x), x, zero))
    return lg.select(lg.compare(x, zero, comparison_direction="EQ"), y, step)


# ---------------------------------------------------------------- rounding
def _rounding(name: str, record: Any, doc: str) -> Function:  # the function `name`, which rounds floats by `record`
    @described(name, f"{doc} Integers are returned unchanged.")
    def f(x: Any) -> Tensor:
        x = require_real(name, tensor(x))
        return record(x) if is_float(x.dtype) else x

    return library(f)


floor: Function = _rounding("floor", ew.floor, "The largest integer not above x.")
ceil: Function = _rounding("ceil", ew.ceil, "The smallest integer not below x.")
trunc: Function = _rounding(
    "trunc", lambda x: lg.select(compared(x, full_like(x, 0), "LT"), ew.ceil(x), ew.floor(x)), "The integer part of x."
)
fix = trunc


@library
def rint(x: ArrayLike) -> Tensor:
    """The nearest integer, ties to even, in floating point; a complex number is rounded by parts."""
    return round(inexact(x))


@library
def round(a: ArrayLike, decimals: Static[int] = 0) -> Tensor:
    """The nearest number with `decimals` digits after the point, ties to even."""
    x = tensor(a)
    if is_complex(x.dtype):
        return ew.make_complex(round(ew.real(x), decimals), round(ew.imag(x), decimals))
    if is_float(x.dtype):
        return ew.round_nearest_even(x * 10.0**decimals) / 10.0**decimals if decimals else ew.round_nearest_even(x)
    if decimals < 0:
        raise DtypeError(f"round requires floating point for decimals below 0, got {x.dtype}.", where=user_frame())
    return x


around = round


# ---------------------------------------------------------------- complex numbers
@library
def real(x: ArrayLike) -> Tensor:
    """The real part."""
    x = tensor(x)
    return ew.real(x) if is_complex(x.dtype) else x


@library
def imag(x: ArrayLike) -> Tensor:
    """The imaginary part; 0 for real numbers."""
    x = tensor(x)
    return ew.imag(x) if is_complex(x.dtype) else full_like(x, 0)


@library
def conj(x: ArrayLike) -> Tensor:
    """The complex conjugate."""
    x = tensor(x)
    return ew.conj(x) if is_complex(x.dtype) else x


conjugate = conj


@library
def angle(z: ArrayLike, deg: bool = False) -> Tensor:
    """The angle of a complex number, in (-pi, pi], or in degrees if `deg`."""
    z = inexact(z)
    out = ew.atan2(ew.imag(z), ew.real(z)) if is_complex(z.dtype) else ew.atan2(full_like(z, 0), z)
    return out * (180 / math.pi) if deg else out
