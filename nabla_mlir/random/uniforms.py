"""Bits, uniform numbers, integers and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, TraceError, user_frame
from nabla_mlir.base.pytree import is_array
from nabla_mlir.base.typing import DTypeLike, ShapeLike
from nabla_mlir.dialects.types import as_dtype, is_float
from nabla_mlir.numpy.axes import shape_of
from nabla_mlir.numpy.dtypes import finfo
from nabla_mlir.numpy.operands import asarray, convert
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.random.arguments import float_dtype, integer_dtype, parameter, parameters, shape_for, spread
from nabla_mlir.random.generator import between, fractions, random_bits, split_in
from nabla_mlir.random.keys import Key, key_of, words_of
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, as_tensor, broadcast_to, is_scalar
from nabla_mlir.table.tensor import Tensor, full, full_like


def bits(key: Key, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Tensor:
    """Unsigned integers whose bits are all random.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: an unsigned dtype; the default has the width of the default integer dtype.

    Raises:
      DtypeError: the dtype is not unsigned.

    Example:
      >>> import nabla_mlir as nm
      >>> bits(nm.random.key(0), (2,)).tolist()
      [4070199207, 4202968722]
    """
    result = np.dtype(f"u{Defaults.int.itemsize}") if dtype is None else as_dtype(dtype)
    if result.kind != "u":
        raise DtypeError(f"bits requires a dtype of unsigned integers, got {result}.", where=user_frame())
    return _bits(key_of("bits", key), shape_of("bits", shape), result)


@library
def _bits(key: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Numbers of `bits`."""
    return random_bits(words_of(key), shape, dtype)


def uniform(key: Key, shape: ShapeLike = (), dtype: DTypeLike | None = None, minval: Any = 0.0, maxval: Any = 1.0) -> Tensor:
    """Uniformly distributed numbers in [minval, maxval).

    Args:
      key: a key.
      shape: the shape of the result; the bounds broadcast to it.
      dtype: the real dtype of the result; None means the default float dtype.
      minval: the lower bound.
      maxval: the upper bound; rounding may give this value.

    The result is differentiable by the bounds; the random bits are constants.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: the bounds do not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> uniform(nm.random.key(0), (2,), "f64").round(4).tolist()
      [0.4185, 0.2163]
    """
    dtype = float_dtype("uniform", dtype)
    low, high = parameters("uniform", dtype, minval, maxval)
    return _uniform(key_of("uniform", key), low, high, shape_for("uniform", shape_of("uniform", shape), low, high), dtype)


@library
def _uniform(key: Any, low: Any, high: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Numbers of `uniform`."""
    low, high = spread("uniform", (low, high), dtype, shape)
    return between(words_of(key), shape, low, high, dtype)


def randint(key: Key, shape: ShapeLike, minval: Any, maxval: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Uniformly distributed integers in [minval, maxval), with a bias of about the range divided by 2**32 (2**64).

    Args:
      key: a key.
      shape: the shape of the result; the bounds broadcast to it.
      minval: the smallest integer.
      maxval: the largest integer plus 1; if it is not above `minval`, the result is `minval`.
      dtype: the dtype of the result; None means the default integer dtype. Bounds are clamped to the range of this dtype.

    Raises:
      DtypeError: the dtype or the bounds are not integers; ShapeError: the bounds do not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> randint(nm.random.key(0), (4,), 0, 10).tolist()
      [9, 0, 2, 3]
    """
    dtype = integer_dtype("randint", dtype)
    low, high = _bound(minval), _bound(maxval)
    return _randint(key_of("randint", key), low, high, shape_for("randint", shape_of("randint", shape), low, high), dtype)


def _bound(x: Any) -> Any:
    """The bound `x` of `randint` as an array of integers; raises DtypeError for other types and for more than 64 bits."""
    if isinstance(x, int) and not -(2**63) <= x < 2**64:
        raise DtypeError(f"randint requires bounds of at most 64 bits, got {x}.", where=user_frame())
    if isinstance(x, int):
        return np.array(x, np.uint64 if x >= 2**63 else np.int64)
    array = x if is_array(x) else asarray(x)
    if array.dtype.kind not in "biu":
        raise DtypeError(
            f"randint requires integers as bounds, got {array.dtype}.", where=user_frame(), help="convert them with astype."
        )
    return array


@library
def _randint(key: Any, low: Any, high: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Integers in [low, high): combines two random words modulo the range, as in JAX.

    An upper bound above the largest integer of the dtype stands for it plus 1.
    """
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.int32)  # narrow dtypes are drawn in int32, which holds the upper bound
    word = np.dtype(f"u{wide.itemsize}")
    info, extra = np.iinfo(dtype), int(wide != dtype)  # extra is 1 if a wider dtype holds the largest integer plus 1
    low, high = as_tensor(low), as_tensor(high)
    is_beyond = broadcast_to(_is_above(high, info.max + extra), shape)
    low = broadcast_to(_inside(low, info.min, info.max, wide), shape)
    high = broadcast_to(_inside(high, info.min, info.max + extra, wide), shape)
    is_range = lg.compare(high, low, comparison_direction="GT")
    span = lg.select(is_range, convert(high - low, word), full(shape, 1, word))
    if not extra:
        span = lg.select(lg.logical_and(is_beyond, is_range), span + full_like(span, 1), span)
    first, second = (random_bits(keys, shape, word) for keys in split_in(words_of(key), 2))
    is_whole = lg.compare(span, full_like(span, 0), comparison_direction="EQ")  # the range is the whole range of the dtype
    span = lg.select(is_whole, full_like(span, 1), span)
    half = ew.remainder(full_like(span, 2 ** (4 * word.itemsize)), span)
    weight = ew.remainder(half * half, span)  # the weight of the higher bits
    offset = ew.remainder(ew.remainder(first, span) * weight + ew.remainder(second, span), span)
    return convert(low + convert(lg.select(is_whole, second, offset), wide), dtype)


def _is_above(x: Tensor, bound: int) -> Tensor:
    """True where the integers `x` are above `bound`, which may be outside of their dtype."""
    if x.dtype.kind == "b" or bound >= np.iinfo(x.dtype).max:
        return full(x.shape, False, np.dtype(bool))
    return lg.compare(x, full_like(x, bound), comparison_direction="GT")


def _inside(x: Tensor, low: int, high: int, dtype: np.dtype) -> Tensor:
    """The integers `x`, clamped to the range from `low` to `high`, in a dtype that holds the range."""
    if x.dtype.kind != "b":
        info = np.iinfo(x.dtype)
        bounds = (full((), bound, x.dtype) for bound in (max(low, info.min), min(high, info.max)))
        least, largest = bounds
        x = lg.clamp(least, x, largest)
    return convert(x, dtype)


def bernoulli(key: Key, p: Any = 0.5, shape: ShapeLike | None = None, mode: str = "low") -> Tensor:
    """Truth values that are True with the probability `p`.

    Args:
      key: a key.
      p: the probability; uniform numbers of its dtype are compared with it.
      shape: the shape of the result; None means the shape of `p`.
      mode: "high" draws twice the bits, for probabilities near 0.

    Raises:
      TraceError: the mode is unknown; DtypeError: `p` is not a real number; ShapeError: `p` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> bernoulli(nm.random.key(0), 0.9, (3,)).tolist()
      [False, False, True]
    """
    if mode not in ("low", "high"):
        raise TraceError(f"bernoulli requires the mode 'low' or 'high', got {mode!r}.", where=user_frame())
    if not is_array(p) and not (is_scalar(p) and isinstance(p, float)):
        p = asarray(p)
    p = parameter("bernoulli", p, Defaults.float)
    if not is_float(p.dtype):
        raise DtypeError(f"bernoulli requires a probability of floating point, got {p.dtype}.", where=user_frame())
    return _bernoulli(key_of("bernoulli", key), p, shape_for("bernoulli", shape, p), mode)


@library
def _bernoulli(key: Any, p: Any, shape: Static[Any], mode: str) -> Tensor:
    """Truth values of `bernoulli`."""
    return chances(words_of(key), as_tensor(p), shape, mode)


def chances(keys: Any, p: Tensor, shape: Any, mode: str = "low") -> Tensor:
    """Truth values for each key and each index of a shape, which are True with probability `p`.

    Mode "low" compares `p` with one random fraction; "high" uses the digits of a second one too.
    """
    dtype, p = p.dtype, broadcast_to(p, (*keys.shape, *shape))
    if mode == "low":
        return lg.compare(fractions(keys, shape, dtype), p, comparison_direction="LT")
    both = fractions(keys, (2, *shape), dtype)
    coarse, fine = both[0], both[1] * 2.0 ** -int(finfo(dtype).nmant)
    return lg.compare(fine, p - coarse, comparison_direction="LT")


def rademacher(key: Key, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Tensor:
    """-1 or 1 with equal probability.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the dtype of the result; None means the default integer dtype.

    Example:
      >>> import nabla_mlir as nm
      >>> rademacher(nm.random.key(0), (3,)).tolist()
      [-1, -1, 1]
    """
    dtype = Defaults.int if dtype is None else as_dtype(dtype)
    return _rademacher(key_of("rademacher", key), shape_of("rademacher", shape), dtype)


@library
def _rademacher(key: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Signs of `rademacher`."""
    return signs(words_of(key), shape, dtype)


def signs(keys: Any, shape: Any, dtype: np.dtype) -> Tensor:
    """-1 or 1 at random for each key and each index of a shape; in an unsigned dtype, the largest integer stands for -1."""
    one = full((*keys.shape, *shape), 1, dtype)
    is_one = chances(keys, full((), 0.5, Defaults.float), shape)
    return lg.select(is_one, one, full_like(one, np.iinfo(dtype).max if dtype.kind == "u" else -1))
