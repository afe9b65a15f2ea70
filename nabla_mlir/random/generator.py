"""The generator threefry2x32 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011), and numbers from its bits.

The functions work on tensors of keys: the axes of the keys are the first axes of a result, and the axes of the numbers follow. A
number depends only on its key and its index in row-major order; the same holds for a key that is split from another key.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.axes import Shape
from nabla_mlir.numpy.dtypes import finfo
from nabla_mlir.numpy.operands import convert
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.random.keys import WORD, KeyArray
from nabla_mlir.table.tensor import Tensor, full, full_like

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # the rotations of four rounds; the rounds alternate between both rows
_PARITY = 0x1BD11BDA  # the exclusive or of the three words of a key; it defines the third word
_POSITIONS = 2**32


def scrambled(keys: KeyArray, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """The two random words of a counter: its words `high` and `low`, encrypted by 20 rounds of Threefry 2x32.

    A round adds y to x, rotates the bits of y, and combines them with x by xor. After each group of four rounds, words of the key
    are added. All four tensors have one shape.
    """
    number: Callable[[int], Tensor] = functools.cache(lambda n: full(low.shape, n, WORD))
    third = lg.logical_xor(lg.logical_xor(keys.high, keys.low), number(_PARITY))
    schedule = (keys.high, keys.low, third)
    x, y = high + keys.high, low + keys.low
    for group in range(5):
        for n in _ROTATIONS[group % 2]:
            x = x + y
            rotation = lg.logical_or(lg.shift_left(y, number(n)), lg.shift_right_logical(y, number(32 - n)))
            y = lg.logical_xor(rotation, x)
        x, y = x + schedule[(group + 1) % 3], y + (schedule[(group + 2) % 3] + number(group + 1))
    return x, y


def _at_positions(keys: KeyArray, shape: Shape) -> tuple[Tensor, Tensor]:
    """The two random words for each index of a shape and each key."""
    size = math.prod(shape)
    if size > _POSITIONS:
        raise ShapeError(
            f"random numbers require at most 2**32 of them a key, got shape {shape}.", where=user_frame(), help="split the key."
        )
    flat = (*keys.shape, size)
    many = [sh.broadcast_in_dim(x, shape=flat, broadcast_dimensions=tuple(range(x.ndim))) for x in (keys.high, keys.low)]
    counter = sh.iota(shape=flat, dtype=WORD, iota_dimension=len(flat) - 1)
    words = scrambled(KeyArray(*many), full_like(counter, 0), counter)
    return tuple(sh.reshaped(x, (*keys.shape, *shape)) for x in words)  # type: ignore[return-value]


def split_keys(keys: KeyArray, shape: Shape) -> KeyArray:
    """Splits each key into an array of new keys of a shape."""
    return KeyArray(*_at_positions(keys, shape))


def split_in(keys: KeyArray, n: int) -> list[KeyArray]:
    """Splits each key into n new keys, as a list."""
    new = split_keys(keys, (n,))
    return [new[..., i] for i in range(n)]


def fold(keys: KeyArray, data: Tensor) -> KeyArray:
    """Combines each key with a uint32 number to a new key."""
    return KeyArray(*scrambled(keys, full_like(data, 0), data))


def random_bits(keys: KeyArray, shape: Shape, dtype: np.dtype) -> Tensor:
    """Unsigned integers whose bits are all random, for each key and each index of a shape."""
    high, low = _at_positions(keys, shape)
    if dtype.itemsize < 8:
        return convert(lg.logical_xor(high, low), dtype)
    high, low = (convert(x, dtype) for x in (high, low))
    return lg.logical_or(lg.shift_left(high, full_like(high, 32)), low)


def fractions(keys: KeyArray, shape: Shape, dtype: np.dtype) -> Tensor:
    """Uniform numbers in [0, 1) for each key and each index of a shape: random bits are the mantissa of a number in [1,
    2), minus 1.
    """
    info = finfo(dtype)
    digits, pattern = int(info.nmant), np.dtype(f"u{dtype.itemsize}")
    source = np.dtype(np.uint8) if digits < 8 else pattern
    bits = convert(random_bits(keys, shape, source), pattern)
    mantissa = lg.shift_right_logical(bits, full_like(bits, 8 * source.itemsize - digits))
    one = int(np.ones((), dtype).view(pattern))
    return ew.bitcast_convert(lg.logical_or(mantissa, full_like(mantissa, one)), shape=mantissa.shape, dtype=dtype) - 1.0


def between(keys: KeyArray, shape: Shape, low: Any, high: Any, dtype: np.dtype) -> Tensor:
    """Uniform numbers in [low, high); the bounds are numbers, or tensors of the shape."""
    low, high = (x if isinstance(x, Tensor) else full((*keys.shape, *shape), x, dtype) for x in (low, high))
    return ew.maximum(low, fractions(keys, shape, dtype) * (high - low) + low)


def normals(keys: KeyArray, shape: Shape, dtype: np.dtype) -> Tensor:
    """Normal numbers of mean 0 and variance 1, by the inverse of the error function."""
    low = float(np.nextafter(np.array(-1, dtype), np.array(0, dtype)))
    return ew.erf_inv(between(keys, shape, low, 1.0, dtype)) * float(np.sqrt(2).astype(dtype))


def exponentials(keys: KeyArray, shape: Shape, dtype: np.dtype) -> Tensor:
    """Exponential numbers of mean 1."""
    return -ew.log_plus_one(-fractions(keys, shape, dtype))
