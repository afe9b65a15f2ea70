"""Distributions whose inverse distribution function is a formula, which is applied to uniform numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.base.typing import DTypeLike, ShapeLike
from nabla_mlir.numpy.axes import shape_of
from nabla_mlir.numpy.dtypes import finfo
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.random.arguments import float_dtype, parameters, shape_over, spread
from nabla_mlir.random.distributions import parametrized, standard
from nabla_mlir.random.generator import between, exponentials, fractions, random_bits
from nabla_mlir.random.keys import WORD, Key, KeyArray, key_of, words_of
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like

_GUMBEL_MODES = ("highest", "high", "low")


@standard
def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """Random numbers with the density exp(-x) for x >= 0.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> exponential(nm.random.key(0), (3,)).shape
      (3,)
    """
    return exponentials(key, shape, dtype)


@standard
def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """Random numbers with the density 1 / (pi (1 + x**2)).

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> cauchy(nm.random.key(0), (3,)).shape
      (3,)
    """
    x = between(key, shape, float(finfo(dtype).eps), 1.0, dtype)
    return ew.tan((x - 0.5) * math.pi)


@standard
def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """Random numbers with the density exp(-abs(x)) / 2.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> laplace(nm.random.key(0), (3,)).shape
      (3,)
    """
    x = between(key, shape, float(finfo(dtype).epsneg) - 1.0, 1.0, dtype)
    return ew.sign(x) * ew.log_plus_one(-ew.absolute(x))


@standard
def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """Random numbers with the density exp(-x) / (1 + exp(-x))**2.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> logistic(nm.random.key(0), (3,)).shape
      (3,)
    """
    x = between(key, shape, float(finfo(dtype).tiny), 1.0, dtype)
    return ew.log(x) - ew.log_plus_one(-x)


def gumbel(key: Key, shape: ShapeLike = (), dtype: DTypeLike | None = None, mode: Any = None) -> Tensor:
    """Random numbers with the density exp(-(x + exp(-x))).

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the real dtype of the result; None means the default float dtype.
      mode: "low" (the default) uses one random word for each number; "high" uses two, for rare large values; "highest" uses
        all bits of two words, in float32.

    Raises:
      TraceError: the mode is unknown; DtypeError: the dtype is not real floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> gumbel(nm.random.key(0), (3,)).shape
      (3,)
    """
    shape = shape_of("gumbel", shape)
    return _gumbel(key_of("gumbel", key), shape, float_dtype("gumbel", dtype), gumbel_mode("gumbel", mode))


def gumbel_mode(name: str, mode: Any) -> str:
    """The mode of `gumbel`, "low" for None; raises TraceError for an unknown mode. `name` is the called function, for errors."""
    if mode is not None and mode not in _GUMBEL_MODES:
        raise TraceError(f"{name} requires a mode among {', '.join(_GUMBEL_MODES)}, got {mode!r}.", where=user_frame())
    return mode or "low"


@library
def _gumbel(key: Any, shape: Static[Any], dtype: np.dtype, mode: str) -> Tensor:
    """Numbers of `gumbel`."""
    return gumbels(words_of(key), shape, dtype, mode)


def gumbels(keys: KeyArray, shape: Any, dtype: np.dtype, mode: str) -> Tensor:
    """Gumbel numbers for each index of a shape and a single key.

    `mode` is the precision of the uniform numbers from which they are computed: "low", "high" or "highest".
    """
    tiny = float(finfo(dtype).tiny)
    if mode == "low":
        return -ew.log(-ew.log(between(keys, shape, tiny, 1.0, dtype)))
    if mode == "highest" and dtype == np.float32:
        return _gumbels_of_all_bits(random_bits(keys, (2, *shape), WORD))
    both = fractions(keys, (2, *shape), dtype)
    coarse, fine = both[0], both[1]
    is_coarse = lg.compare(coarse, full_like(coarse, 0.5), comparison_direction="GE")
    return _upper(lg.select(is_coarse, coarse, coarse + fine * 2.0 ** -int(finfo(dtype).nmant) + tiny))


def _upper(x: Tensor) -> Tensor:
    """The number at which the distribution function is 1 - x."""
    return -ew.log(-ew.log_plus_one(-x))


def _gumbels_of_all_bits(bits: Tensor) -> Tensor:
    """Gumbel numbers from 64 bits each: from the fraction x, or for x >= 1/2 from 1 - x, without loss of digits."""
    # 1 - x for a fraction x is the complement of its bits, plus one in the last digit.
    flipped = lg.logical_not(bits)
    high, low = bits[0], bits[1]
    flip_high, flip_low = flipped[0], flipped[1]
    is_carry = lg.compare(flip_low, full_like(flip_low, 2**32 - 1), comparison_direction="EQ")
    is_small = lg.compare(high, full_like(high, 2**31), comparison_direction="LT")
    high = lg.select(is_small, high, flip_high + ew.convert(is_carry, dtype=WORD))
    x = _fraction(high, lg.select(is_small, low, flip_low + full_like(flip_low, 1)))
    return lg.select(is_small, _upper(x), -ew.log(-ew.log(x)))


def _fraction(high: Tensor, low: Tensor) -> Tensor:
    """The fraction in [0, 1) with the 64 binary digits of `high` and `low`, truncated to float32.

    The leading zeros of the digits give the exponent, and the digits after the first 1 the mantissa; `pattern` has the bits of the
    float.
    """
    info, word = np.finfo(np.float32), lambda n: full_like(high, n)
    above, below = lg.count_leading_zeros(high), lg.count_leading_zeros(low)
    is_low = lg.compare(above, word(32), comparison_direction="EQ")
    low_digits = lg.select(is_low, lg.shift_left(low, below), lg.shift_right_logical(low, word(32) - above))
    digits = lg.shift_right_logical(lg.logical_or(lg.shift_left(high, above), low_digits), word(31 - info.nmant))
    position = word(-int(info.minexp)) - lg.select(is_low, below + word(32), above)
    exponent = lg.shift_left(position, word(info.nmant))
    # The first 1 of the digits is not stored: adding it to the exponent would raise it by one.
    exponent_bits = lg.logical_and(exponent, word((1 << 30) - (1 << (info.nmant - 1))))
    pattern = lg.logical_or(exponent_bits, lg.logical_and(digits, word((1 << info.nmant) - 1)))
    return ew.bitcast_convert(pattern, shape=pattern.shape, dtype=np.dtype(np.float32))


@parametrized
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers with the density b / x**(b + 1) for x >= 1.

    Args:
      key: a key.
      b: the exponent.
      shape: the shape of the result; None means the shape of `b`.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `b` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> pareto(nm.random.key(0), 2.0, (3,)).shape
      (3,)
    """
    return ew.exponential(exponentials(key, shape, dtype) / b)


@parametrized
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers with the density x / scale**2 exp(-x**2 / (2 scale**2)) for x >= 0.

    Args:
      key: a key.
      scale: the most likely number.
      shape: the shape of the result; None means the shape of `scale`.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `scale` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> rayleigh(nm.random.key(0), 2.0, (3,)).shape
      (3,)
    """
    return scale * ew.sqrt(ew.log(fractions(key, shape, dtype)) * -2.0)


@parametrized
def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers with the density that rises linearly from `left` to `mode` and falls to `right`.

    Args:
      key: a key.
      left: the smallest number.
      mode: the most likely number.
      right: the largest number.
      shape: the shape of the result; by default the parameters are broadcast.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: parameters do not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> triangular(nm.random.key(0), 0.0, 1.0, 3.0, (3,)).shape
      (3,)
    """
    x, width = fractions(key, shape, dtype), right - left
    is_rising = lg.compare(x, (mode - left) / width, comparison_direction="LT")
    rising = left + ew.sqrt(x * width * (mode - left))
    return lg.select(is_rising, rising, right - ew.sqrt((1.0 - x) * width * (right - mode)))


def weibull_min(key: Key, scale: Any, concentration: Any, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Tensor:
    """Random numbers with the distribution function 1 - exp(-(x / scale)**concentration) for x >= 0.

    Args:
      key: a key.
      scale: a factor.
      concentration: the exponent.
      shape: the shape of the drawn numbers; parameters with more axes repeat them, as in JAX.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: shapes do not broadcast together.

    Example:
      >>> import nabla_mlir as nm
      >>> weibull_min(nm.random.key(0), 1.0, 2.0, (3,)).shape
      (3,)
    """
    dtype = float_dtype("weibull_min", dtype)
    scale, concentration = parameters("weibull_min", dtype, scale, concentration)
    return _weibull_min(key_of("weibull_min", key), scale, concentration, shape_of("weibull_min", shape), dtype)


@library
def _weibull_min(key: Any, scale: Any, concentration: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Weibull numbers: the power 1 / concentration of exponential numbers, times the scale."""
    common = shape_over("weibull_min", None, shape, tuple(scale.shape), tuple(concentration.shape))
    scale, concentration = spread("weibull_min", (scale, concentration), dtype, common)
    (x,) = spread("weibull_min", (exponentials(words_of(key), shape, dtype),), dtype, common)
    return ew.power(x, 1.0 / concentration) * scale
