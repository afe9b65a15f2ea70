"""Parts of numbers: divisors, bits, mantissas and exponents."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.logic import logical_and, where
from nabla_mlir.numpy.operands import convert, inexact, meet, require_integer, require_real, tensor
from nabla_mlir.numpy.reductions import any, sum
from nabla_mlir.numpy.shapes import moveaxis, ravel
from nabla_mlir.numpy.special_values import isfinite, isinf, nextafter
from nabla_mlir.numpy.ufuncs import absolute, trunc
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.control import while_loop


@library
def gcd(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """The greatest common divisor of integers; for 0 and the smallest integer it is negative, as in NumPy.

    Example:
      >>> gcd(np.array([12, 18]), 8).tolist()
      [4, 2]
    """
    x, y = meet("gcd", x1, x2)
    x, y = (absolute(require_integer("gcd", v)) for v in (x, y))

    def step(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The pair (b, a mod b) for the pair (a, b), as in Euclid's algorithm; (a, 0) if b is 0."""
        a, b = pair
        rest = absolute(ew.remainder(a, where(b != 0, b, 1)))  # the smallest integer has no absolute value, and stays negative
        return where(b != 0, b, a), where(b != 0, rest, 0)

    return while_loop(lambda pair: any(pair[1] != 0), step, (x, y))[0]


@library
def lcm(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """The least common multiple of integers; 0 if one of them is 0."""
    x, y = meet("lcm", x1, x2)
    x, y = (absolute(require_integer("lcm", v)) for v in (x, y))
    divisor = gcd(x, y)
    return where(divisor == 0, 0, x * (y // where(divisor == 0, 1, divisor)))


# ---------------------------------------------------------------- bits
@library
def packbits(a: Any, axis: Static[int | None] = None, bitorder: str = "big") -> Tensor:
    """Packs eight truth values along `axis` (of the flattened array if None) into one uint8; missing bits are 0.

    Example:
      >>> packbits(np.array([1, 0, 0, 0, 0, 0, 1, 1])).tolist()
      [131]
    """
    _check_order("packbits", bitorder)
    require_integer("packbits", tensor(a), bools=True)
    x = ravel(a) if axis is None else moveaxis(tensor(a), axis_of("packbits", axis, np.ndim(a)), -1)
    bits = convert(convert(x, bool), np.uint8)
    missing = -bits.shape[-1] % 8
    if missing:
        bits = concatenate([bits, np.zeros((*bits.shape[:-1], missing), np.uint8)], -1)
    rows = reshaped(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8))
    weights = 2 ** np.arange(8, dtype=np.uint8)
    out = sum(rows * (weights if bitorder == "little" else weights[::-1]), -1, dtype=np.uint8)
    return out if axis is None else moveaxis(out, -1, axis)


@library
def unpackbits(a: ArrayLike, axis: Static[int | None] = None, count: Static[int | None] = None, bitorder: str = "big") -> Tensor:
    """Unpacks the eight bits of each uint8 along `axis` (of the flattened array if None); `count` limits the number."""
    _check_order("unpackbits", bitorder)
    x = tensor(a)
    if x.dtype != np.uint8:
        raise DtypeError(f"unpackbits requires uint8, got {x.dtype}.", where=user_frame())
    x = ravel(x) if axis is None else moveaxis(x, axis_of("unpackbits", axis, x.ndim), -1)
    positions = np.arange(8, dtype=np.uint8)
    rows = lg.logical_and(
        lg.shift_right_logical(
            *meet("unpackbits", reshaped(x, (*x.shape, 1)), positions if bitorder == "little" else positions[::-1])
        ),
        full_like(reshaped(x, (*x.shape, 1)) + np.zeros(8, np.uint8), 1),
    )
    out = reshaped(rows, (*x.shape[:-1], 8 * x.shape[-1]))
    if count is not None:
        n = out.shape[-1]
        out = out[..., :count] if count <= n else concatenate([out, np.zeros((*out.shape[:-1], count - n), np.uint8)], -1)
    return out if axis is None else moveaxis(out, -1, axis)


def _check_order(name: str, bitorder: str) -> None:
    """Raises ShapeError unless `bitorder` is "big" or "little"."""
    if bitorder not in ("big", "little"):
        raise ShapeError(f"{name} requires bitorder 'big' or 'little', got {bitorder!r}.", where=user_frame())


# ---------------------------------------------------------------- floating point
@library
def modf(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """The fractional part and the integer part, both with the sign of x.

    Example:
      >>> [float(v) for v in modf(-2.5)]
      [-0.5, -2.0]
    """
    x = require_real("modf", inexact(x))
    whole = trunc(x)
    return where(isinf(x), full_like(x, 0), x - whole), whole


@library
def frexp(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """Returns m with abs(m) in [0.5, 1) and e of ``x = m * 2**e``; the derivative treats e as a constant.

    Example:
      >>> m, e = frexp(6.0)
      >>> float(m), int(e)
      (0.75, 3)
    """
    x = require_real("frexp", inexact(x))
    bits, fraction = x.dtype.itemsize * 8, limits_of(x.dtype).nmant
    bias = 2 ** (bits - fraction - 2) - 1
    width = np.dtype(f"i{x.dtype.itemsize}")
    is_tiny = absolute(x) < float(limits_of(x.dtype).tiny)
    scale = float(2.0 ** (fraction + 1))
    large = where(is_tiny, x * scale, x)
    pattern = ew.bitcast_convert(large, shape=large.shape, dtype=width)
    field = lg.logical_and(lg.shift_right_logical(pattern, full_like(pattern, fraction)), full_like(pattern, 2 * bias + 1))
    exponent = field - (bias - 1) - where(is_tiny, fraction + 1, 0)
    plain = logical_and(isfinite(x), x != 0)
    exponent = where(plain, convert(exponent, np.int32), 0)
    return where(plain, ldexp(x, -exponent), x), exponent


@library
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 * 2**x2`` for integers x2, computed on the bits; exact unless the result is denormal.

    Example:
      >>> float(ldexp(0.75, 3))
      6.0
    """
    x, e = inexact(x1), tensor(x2)
    require_integer("ldexp", e)
    fraction = limits_of(x.dtype).nmant
    bias = 2 ** (x.dtype.itemsize * 8 - fraction - 2) - 1
    width = np.dtype(f"i{x.dtype.itemsize}")
    remaining = convert(e, np.int32)
    for _ in range(3):  # the exponent of one factor is at most `bias`
        part = ew.maximum(ew.minimum(remaining, full_like(remaining, bias)), full_like(remaining, 1 - bias))
        pattern = lg.shift_left(convert(part, width) + bias, full_like(convert(part, width), fraction))
        x = x * ew.bitcast_convert(pattern, shape=pattern.shape, dtype=x.dtype)
        remaining = remaining - part
    return x


@library
def spacing(x: Any, /) -> Tensor:
    """The distance from x to the next number of larger absolute value, with the sign of x. Its derivative is 0."""
    x = stop_gradient(require_real("spacing", inexact(x)))  # the spacing is constant between two powers of 2; dx - dx could be NaN
    neighbour = nextafter(x, where(x < 0, full_like(x, -np.inf), full_like(x, np.inf)))
    return where(isfinite(x), neighbour - x, full_like(x, np.nan))
