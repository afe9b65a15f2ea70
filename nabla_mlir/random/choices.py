"""Random permutations, elements with given probabilities, and categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.pytree import is_array
from nabla_mlir.base.typing import ShapeLike
from nabla_mlir.dialects.types import is_float
from nabla_mlir.numpy.axes import axis_of, shape_of
from nabla_mlir.numpy.extrema import argmax
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.operands import asarray, common_dtype, convert, inexact_dtype
from nabla_mlir.numpy.running import cumsum
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.numpy.sorting import top_k
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.ops.sorting import sort
from nabla_mlir.random.arguments import parameter, real, shape_over
from nabla_mlir.random.generator import fractions, random_bits, split_in
from nabla_mlir.random.inverses import gumbel_mode, gumbels
from nabla_mlir.random.keys import WORD, Key, KeyArray, key_of, words_of
from nabla_mlir.random.uniforms import randint
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, as_tensor, broadcast_to
from nabla_mlir.table.tensor import Tensor, full, full_like
from nabla_mlir.transforms.control import fori_loop

_ROUNDS = 3  # the number of sorts: n**3 of 2**32 makes equal keys in all sorts improbable


def permutation(key: Key, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The elements in random order along an axis.

    Args:
      key: a key.
      x: an array, or an integer n for the numbers 0, ..., n - 1.
      axis: the axis of the permutation.
      independent: True permutes each vector along the axis separately.

    Raises:
      DtypeError: `x` is a scalar but not an integer; AxisError: the axis does not exist; ShapeError: `x` is negative.

    Example:
      >>> import nabla_mlir as nm
      >>> permutation(nm.random.key(0), 5).tolist()
      [0, 1, 4, 3, 2]
    """
    key = key_of("permutation", key)
    if np.ndim(x):
        x = x if is_array(x) else asarray(x)
        return _permutation(key, x, axis_of("permutation", axis, x.ndim), independent)
    axis_of("permutation", axis, 1)
    return _order(key, _length("permutation", x), None)


def _length(name: str, x: Any) -> int:
    """The integer n as a length, which stands for the numbers 0, ..., n - 1; raises DtypeError if `x` is no integer."""
    if not isinstance(x, (int, np.integer)) and not (is_array(x) and x.dtype.kind in "iu"):
        raise DtypeError(f"{name} requires an array with an axis or an integer, got {x!r}.", where=user_frame())
    return shape_of(name, (int(x),))[0]


@library
def _permutation(key: Any, x: Any, axis: Static[int], independent: bool) -> Tensor:
    """The elements of `x` along an axis in random order; `independent` shuffles each vector along the axis separately."""
    x, key = as_tensor(x), words_of(key)
    if independent or x.ndim == 1:
        return _shuffled(key, x, axis)
    return take(x, _shuffled(key, _numbers(x.shape[axis]), 0), axis, mode="promise_in_bounds")


@library
def _order(key: Any, n: Static[int], count: Static[int | None]) -> Tensor:
    """`count` of the numbers 0, ..., n - 1 in random order; None means all."""
    return _shuffled(words_of(key), _numbers(n), 0)[:count]


def _numbers(n: int) -> Tensor:
    """The numbers 0, ..., n - 1."""
    return sh.iota(shape=(n,), dtype=Defaults.int, iota_dimension=0)


def _shuffled(key: KeyArray, x: Tensor, axis: int) -> Tensor:
    """The array `x`, shuffled along an axis: sorted by random bits, several times, so that equal bits do not matter."""
    for _ in range(math.ceil(_ROUNDS * math.log(max(1, x.size)) / math.log(2**32 - 1))):
        key, now = split_in(key, 2)
        x = sort(random_bits(now, x.shape, WORD), x, dimension=axis, is_stable=True, comparator="LT")[1]
    return x


def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: Any = None) -> Any:
    """Draws elements of an array with equal or given probabilities.

    Args:
      key: a key.
      a: an array, or an integer n for the numbers 0, ..., n - 1.
      shape: the shape of the result; for an array with more axes it replaces `axis`.
      replace: True if an element may be drawn again.
      p: the probabilities of the elements along `axis`, a vector.
      axis: the axis along which elements are drawn.
      mode: the mode of `gumbel`, for `p` without replacement.

    Raises:
      ShapeError: there are no elements, or too few without replacement, or `p` has another length; DtypeError: `a` is a
        scalar but not an integer.

    Example:
      >>> import nabla_mlir as nm
      >>> choice(nm.random.key(0), 10, (4,)).tolist()
      [9, 0, 2, 3]
    """
    key, shape = key_of("choice", key), _draws("choice", shape)
    array: Any = (a if is_array(a) else asarray(a)) if np.ndim(a) else None
    axis = 0 if array is None else axis_of("choice", axis, array.ndim)
    n, count = _length("choice", a) if array is None else int(array.shape[axis]), math.prod(shape)
    if count and not n:
        raise ShapeError(f"choice requires elements to choose from, got none for shape {shape}.", where=user_frame())
    if not replace and count > n:
        raise ShapeError(
            f"choice with replace=False requires at least as many elements as are drawn, got {n} for {count}.", where=user_frame()
        )
    if p is not None:
        p = parameter("choice", p if is_array(p) else asarray(p), Defaults.float)
        if tuple(p.shape) != (n,):
            raise ShapeError(
                f"choice requires a probability for each of {n} elements, got shape {tuple(p.shape)}.", where=user_frame()
            )
    mode = gumbel_mode("choice", mode)
    if p is None and replace:
        positions = randint(key, shape, 0, n) if count else np.zeros(shape, Defaults.int)
    elif p is None:
        if array is not None and count:
            return _some(key, array, shape, axis)
        positions = _order(key, n, count).reshape(shape)
    else:
        positions = _positions(key, p, shape, inexact_dtype(common_dtype([p])), replace, mode)
    return positions if array is None else _selected(array, positions, axis)


def _draws(name: str, shape: Any) -> tuple[int, ...]:
    """The shape of the result as a tuple; raises ShapeError unless it is a sequence. `name` is the called function, for errors."""
    if not isinstance(shape, Sequence):
        raise ShapeError(f"{name} requires a sequence as shape, got {shape!r}.", where=user_frame())
    return shape_of(name, tuple(shape))


@library
def _some(key: Any, x: Any, shape: Static[Any], axis: Static[int]) -> Tensor:
    """As many different elements of `x` along an axis as `shape` has, in random order; `shape` replaces the axis."""
    x = as_tensor(x)
    order = _permutation(key, x, axis, False)
    index = (slice(None),) * axis + (slice(math.prod(shape)),)
    return reshaped(order[index], (*x.shape[:axis], *shape, *x.shape[axis + 1 :]))


@library
def _selected(x: Any, positions: Any, axis: Static[int]) -> Tensor:
    """The elements at positions along an axis; the positions are in range."""
    return take(as_tensor(x), as_tensor(positions), axis, mode="promise_in_bounds")


@library
def _positions(key: Any, p: Any, shape: Static[Any], dtype: np.dtype, replace: bool, mode: str) -> Tensor:
    """Random indices of the given shape, with the probabilities p; without replacement by the Gumbel trick.

    `mode` is the precision of the Gumbel numbers.
    """
    p, key = real("choice", p, dtype), words_of(key)
    if not replace:
        return reshaped(top_k(gumbels(key, p.shape, dtype, mode) + ew.log(p), math.prod(shape))[1], shape)
    if not math.prod(shape):
        return full(shape, 0, Defaults.int)
    sums = cumsum(p)
    return _insertion(sums, (1.0 - fractions(key, shape, dtype)) * sums[-1])


def _insertion(a: Tensor, x: Tensor) -> Tensor:
    """The number of elements of an increasing vector `a` that are below each element of `x`, by bisection."""
    n = a.shape[0]

    def halve(_: Any, state: Any) -> Any:
        """The bounds of the number for each element, after one more step of the bisection."""
        low, high = state
        middle = ew.divide(low + high, full_like(low, 2))
        is_below = lg.compare(take(a, middle, mode="promise_in_bounds"), x, comparison_direction="LT")
        is_open = lg.compare(low, high, comparison_direction="LT")
        step = full_like(low, 1)
        return (
            lg.select(lg.logical_and(is_open, is_below), middle + step, low),
            lg.select(lg.logical_and(is_open, lg.logical_not(is_below)), middle, high),
        )

    start = (full(x.shape, 0, Defaults.int), full(x.shape, n, Defaults.int))
    low, _ = fori_loop(0, n.bit_length(), halve, start)
    return low


def categorical(
    key: Key, logits: Any, axis: int = -1, shape: ShapeLike | None = None, replace: bool = True, mode: Any = None
) -> Any:
    """Draws indices along an axis with probabilities proportional to exp(logits): the argmax after `gumbel` is added.

    Args:
      key: a key.
      logits: logarithms of probabilities, up to a constant.
      axis: the axis of the categories.
      shape: the shape of the result; it must end in the shape of `logits` without this axis, which is the default.
      replace: True if the draws of the leading axes may be equal.
      mode: the mode of `gumbel`.

    Raises:
      DtypeError: the logits are not real floating point; AxisError: the axis does not exist; ShapeError: the shape has another
        end, or there are fewer categories than draws without replacement.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> categorical(nm.random.key(0), np.log(np.array([0.1, 0.9])), shape=(3,)).tolist()
      [1, 0, 1]
    """
    logits = logits if is_array(logits) else asarray(logits)
    if not is_float(logits.dtype):
        raise DtypeError(f"categorical requires logits of real floating point, got {logits.dtype}.", where=user_frame())
    axis = axis_of("categorical", axis, logits.ndim)
    stack = tuple(n for d, n in enumerate(logits.shape) if d != axis)
    shape = shape_over("categorical", shape, stack)
    before, n = shape[: len(shape) - len(stack)], logits.shape[axis]
    if not n:
        raise ShapeError(f"categorical requires categories, got logits of shape {tuple(logits.shape)}.", where=user_frame())
    if not replace and (math.prod(before) > n or shape[len(before) :] != stack):
        raise ShapeError(
            f"categorical with replace=False requires at most {n} draws in axes before {stack}, got shape {shape}.",
            where=user_frame(),
        )
    draw = _with_replacement if replace else _without_replacement
    return draw(key_of("categorical", key), logits, axis, shape, gumbel_mode("categorical", mode))


@library
def _with_replacement(key: Any, logits: Any, axis: Static[int], shape: Static[Any], mode: str) -> Tensor:
    """Random categories of the given shape, each drawn separately: the largest of its logits plus Gumbel numbers.

    `axis` is the axis of the categories, and `mode` is the precision of the Gumbel numbers.
    """
    x = as_tensor(logits)
    position = len(shape) - (x.ndim - 1) + axis
    with_categories = (*shape[:position], x.shape[axis], *shape[position:])
    return argmax(gumbels(words_of(key), with_categories, x.dtype, mode) + broadcast_to(x, with_categories), position)


@library
def _without_replacement(key: Any, logits: Any, axis: Static[int], shape: Static[Any], mode: str) -> Tensor:
    """Random different categories of the given shape: those with the largest sums of logits and Gumbel numbers.

    `axis` is the axis of the categories, and `mode` is the precision of the Gumbel numbers.
    """
    x = as_tensor(logits)
    x = moveaxis(x + gumbels(words_of(key), x.shape, x.dtype, mode), axis, -1)
    _, positions = top_k(x, math.prod(shape[: len(shape) - (x.ndim - 1)]))
    return convert(reshaped(moveaxis(positions, -1, 0), shape), Defaults.int)
