"""Elementwise operations of `jax.lax` that `numpy` lacks or defines differently."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.dialects.types import as_dtype, is_complex
from nabla_mlir.numpy import dtypes, logic
from nabla_mlir.numpy.operands import convert, inexacts, meet, require_integer, require_real, strong, tensor
from nabla_mlir.numpy.special_values import described
from nabla_mlir.numpy.ufuncs import power
from nabla_mlir.ops import chlo
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.barrier import optimization_barrier as barrier
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor, full_like


class RoundingMethod(enum.Enum):
    """The number that `round` selects if two whole numbers are equally near."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class Precision(enum.Enum):
    """The precision of products; in nabla_mlir it is always the precision of their dtype."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class DotAlgorithmPreset(enum.Enum):
    """The algorithms of products in JAX, which have no effect here: products have the precision of their dtype."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()


class DotAlgorithm(NamedTuple):
    """The formats of a product in JAX, which have no effect here; see `DotAlgorithmPreset`."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class AccuracyMode(enum.Enum):
    """The accuracy of elementwise functions in JAX; in nabla_mlir it is always the highest."""

    HIGHEST = 1
    DEFAULT = 2


def _ordered(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """A comparison of `jax.lax` from that of `numpy`, `own`: it refuses complex numbers, which `numpy` orders as NumPy does."""

    @described(name, (own.__doc__ or "").split("\n")[0])
    def f(x: Any, y: Any) -> Tensor:
        return own(*(require_real(name, v) for v in meet(name, x, y)))

    return library(f)


lt: Callable[..., Any] = _ordered("lt", logic.less)
le: Callable[..., Any] = _ordered("le", logic.less_equal)
gt: Callable[..., Any] = _ordered("gt", logic.greater)
ge: Callable[..., Any] = _ordered("ge", logic.greater_equal)


@library
def div(x: Any, y: Any) -> Tensor:
    """x / y; for integers, the quotient rounded towards zero.

    Example:
      >>> int(div(-7, 2))
      -3
    """
    x, y = meet("div", x, y)
    return ew.divide(x, y)


@library
def rem(x: Any, y: Any) -> Tensor:
    """The remainder of `div`, which has the sign of x."""
    x, y = meet("rem", x, y)
    return ew.remainder(require_real("rem", x), y)


@library
def round(x: Any, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Tensor:
    """The nearest whole number; `rounding_method` selects the larger absolute value or the even number at a tie."""
    x = require_real("round", tensor(x))
    even = rounding_method in (RoundingMethod.TO_NEAREST_EVEN, 1)
    return (ew.round_nearest_even if even else ew.round_nearest_afz)(x)


@library
def clamp(min: Any, x: Any, max: Any) -> Tensor:
    """Limits `x` to the range from `min` to `max`; at a bound the derivative is 0.

    Raises:
      ShapeError: a bound is neither a scalar nor of the shape of `x`.

    Example:
      >>> clamp(0.0, np.array([-1.0, 0.5]), 1.0).tolist()
      [0.0, 0.5]
    """
    shape = np.shape(x)
    if any(np.shape(b) not in ((), shape) for b in (min, max)):
        raise ShapeError(
            f"clamp requires bounds that are scalars or of shape {shape}, got shapes {np.shape(min)} and {np.shape(max)}.",
            where=user_frame(),
        )
    low, value, high = (require_real("clamp", v) for v in meet("clamp", min, x, max))
    return lg.clamp(low, value, high)


@library
def integer_pow(x: Any, y: Static[int]) -> Tensor:
    """x raised to a known integer power."""
    return power(x, y)


@library
def complex(x: Any, y: Any) -> Tensor:
    """x + iy."""
    return ew.make_complex(*inexacts("complex", x, y))


@library
def clz(x: Any) -> Tensor:
    """The number of leading zero bits."""
    return lg.count_leading_zeros(require_integer("clz", tensor(x)))


@library
def population_count(x: Any) -> Tensor:
    """The number of one bits."""
    return lg.popcnt(require_integer("population_count", tensor(x)))


@library
def mulhi(x: Any, y: Any, /) -> Tensor:
    """The upper half of the product of integers."""
    x, y = meet("mulhi", x, y)
    return chlo.mulhi(require_integer("mulhi", x), y)


@library
def shift_right_arithmetic(x: Any, y: Any) -> Tensor:
    """The bits of x shifted right; the new bits are copies of the sign bit."""
    x, y = meet("shift_right_arithmetic", x, y)
    return lg.shift_right_arithmetic(require_integer("shift_right_arithmetic", x), y)


@library
def shift_right_logical(x: Any, y: Any) -> Tensor:
    """The bits of x shifted right; the new bits are zeros."""
    x, y = meet("shift_right_logical", x, y)
    return lg.shift_right_logical(require_integer("shift_right_logical", x), y)


@library
def convert_element_type(operand: Any, new_dtype: Any) -> Tensor:
    """Converts the elements to another dtype; a Python type means the default dtype of its kind.

    Example:
      >>> convert_element_type(np.array([1.5]), np.int32).tolist()
      [1]
    """
    is_python = any(new_dtype is kind for kind in (int, float))  # `is`, because the 64-bit dtypes are equal to the Python types
    return strong(convert(tensor(operand), dtypes.result_type(new_dtype(0)) if is_python else new_dtype))


@library
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Tensor:
    """Interprets the bits as elements of another dtype. A narrower dtype adds a last axis; a wider dtype removes it."""
    x, dtype = tensor(operand), as_dtype(new_dtype)
    if is_complex(x.dtype) or is_complex(dtype):
        raise DtypeError(f"bitcast_convert_type requires real dtypes, got {x.dtype} and {dtype}.", where=user_frame())
    shape = x.shape
    if dtype.itemsize < x.dtype.itemsize:
        shape = (*shape, x.dtype.itemsize // dtype.itemsize)
    elif dtype.itemsize > x.dtype.itemsize:
        if not shape or shape[-1] != dtype.itemsize // x.dtype.itemsize:
            raise ShapeError(
                f"bitcast_convert_type requires a last axis of {dtype.itemsize // x.dtype.itemsize} elements for "
                f"{dtype}, got shape {shape}.",
                where=user_frame(),
            )
        shape = shape[:-1]
    return ew.bitcast_convert(x, shape=shape, dtype=dtype)


@library
def reduce_precision(operand: Any, exponent_bits: Static[int], mantissa_bits: Static[int]) -> Tensor:
    """Rounds numbers to a format with the given numbers of bits; the derivative is that of the identity."""
    return ew.reduce_precision(tensor(operand), exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


@library
def select_n(which: Any, *cases: Any) -> Tensor:
    """Selects the element of `cases[which]` for each element; a truth value selects between two cases.

    Raises:
      ShapeError: the shapes differ, or there are more than two cases for truth values.
    """
    number = tensor(which)
    if not cases or (number.dtype.kind == "b" and len(cases) > 2):
        raise ShapeError(f"select_n requires one or two cases for truth values, got {len(cases)}.", where=user_frame())
    values = meet("select_n", *cases)
    if number.shape not in ((), values[0].shape):
        raise ShapeError(f"select_n requires a scalar or shape {values[0].shape}, got shape {number.shape}.", where=user_frame())
    number = broadcast_to(number, values[0].shape)
    out = values[0]
    for k, value in enumerate(values[1:], 1):
        is_own = number if number.dtype.kind == "b" else lg.compare(number, full_like(number, k), comparison_direction="GE")
        out = lg.select(is_own, value, out)
    return out


@library
def select(pred: Any, on_true: Any, on_false: Any) -> Tensor:
    """`on_true` where the truth values hold, else `on_false`."""
    return select_n(convert(tensor(pred), bool), on_false, on_true)


@library
def optimization_barrier(operand: Any, /) -> Any:
    """The leaves of a pytree unchanged; a compiler may not move operations across them."""
    leaves, spec = pytree.flatten(operand)
    outs = barrier.apply([tensor(leaf) for leaf in leaves], {}) if leaves else []
    return pytree.unflatten(spec, list(outs))


def dtype(x: Any) -> np.dtype:
    """The dtype of an array, or the dtype that a Python number gets."""
    return dtypes.result_type(x)
