"""Distributions of counts: Poisson, binomial, multinomial and geometric."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import DTypeLike, ShapeLike
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.numpy.axes import reversed_along
from nabla_mlir.numpy.logic import clip
from nabla_mlir.numpy.operands import common_dtype, convert, inexact_dtype
from nabla_mlir.numpy.reductions import any
from nabla_mlir.numpy.running import cumsum
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import gamma as gm
from nabla_mlir.ops import logic as lg
from nabla_mlir.random.arguments import float_dtype, integer_dtype, parameters, shape_for, spread
from nabla_mlir.random.generator import fractions, split_in, split_keys
from nabla_mlir.random.keys import Key, KeyArray, key_of, words_of
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, broadcast_to
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.scans import scan

_F32 = np.dtype(np.float32)
_FEW = 10.0  # for larger means, rejection needs fewer steps than counting
_STIRLING = 10  # for smaller numbers, the remainder is a sum of logarithms instead of a series


def _compare(x: Tensor, direction: str, y: Any) -> Tensor:
    """Compares a tensor with a tensor or a number; `direction` is a word such as "LT"."""
    return lg.compare(x, y if isinstance(y, Tensor) else full_like(x, y), comparison_direction=direction)


def _both(x: Tensor, y: Tensor) -> Tensor:
    """The logical and of two masks."""
    return lg.logical_and(x, y)


def _either(x: Tensor, y: Tensor) -> Tensor:
    """The logical or of two masks."""
    return lg.logical_or(x, y)


def poisson(key: Key, lam: Any, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Random integers k with the probability lam**k exp(-lam) / k!; -1 where `lam` is negative, NaN or infinite.

    The computation is in float32. Small means use counts of uniform numbers (Knuth), others rejection (PTRS of Hoermann).

    Args:
      key: a key.
      lam: the mean.
      shape: the shape of the result; None means the shape of `lam`.
      dtype: the dtype of the result; None means the default integer dtype.

    Raises:
      DtypeError: the dtype is not an integer dtype; ShapeError: `lam` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> poisson(nm.random.key(0), 3.0, (4,)).tolist()
      [0, 0, 4, 4]
    """
    dtype = integer_dtype("poisson", dtype)
    (lam,) = parameters("poisson", _F32, lam)
    return _poisson(key_of("poisson", key), lam, shape_for("poisson", shape, lam), dtype)


@library
def _poisson(key: Any, lam: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Poisson numbers of mean `lam` and of the given shape, by counting for small means, and by rejection for others."""
    (mean,) = spread("poisson", (lam,), _F32, shape)
    key = words_of(key)
    is_few = lg.logical_not(_compare(mean, "GE", _FEW))
    few = _count_of_products(key, lg.select(is_few, mean, full_like(mean, 0)), dtype)
    many = _poisson_by_rejection(key, lg.select(is_few, full_like(mean, 1e5), mean), dtype)
    return lg.select(_compare(mean, "EQ", 0), full_like(few, 0), lg.select(is_few, few, many))


def _count_of_products(key: KeyArray, mean: Tensor, dtype: np.dtype) -> Tensor:
    """Poisson numbers of small means: how many uniform numbers can be multiplied before the product is at most exp(-mean).

    The loop counts the last one too, so 1 is subtracted.
    """

    def is_open(state: Any) -> Tensor:
        """True while a product, given by its logarithm, is above exp(-mean)."""
        return any(_compare(state[2], "GT", -mean))

    def draw(state: Any) -> Any:
        """The next key, the counts, and the logarithms of the products, after one more uniform number for each open element."""
        key, count, log = state
        following, now = split_in(key, 2)
        more = convert(_compare(log, "GT", -mean), dtype)
        return following, count + more, log + ew.log(fractions(now, mean.shape, _F32))

    zero = full_like(mean, 0)
    count = while_loop(is_open, draw, (key, convert(zero, dtype), zero))[1]
    return count - full_like(count, 1)


def _until_all(key: KeyArray, start: Tensor, is_done: Tensor, propose: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """The first accepted proposal of each element; proposals are computed from two uniform numbers until all elements have one.

    Args:
      key: the key of the uniform numbers.
      start: the initial results.
      is_done: the mask of elements that need no proposal.
      propose: a function from the uniform numbers to proposals and the mask of accepted ones.
    """

    def draw(state: Any) -> Any:
        """The next key, the accepted values, and the mask of accepted elements, after one more proposal for each element."""
        key, value, is_done = state
        following, first, second = split_in(key, 3)
        new, is_good = propose(*(fractions(k, start.shape, start.dtype) for k in (first, second)))
        return following, lg.select(is_good, new, value), _either(is_done, is_good)

    return while_loop(lambda s: any(lg.logical_not(s[2])), draw, (key, start, is_done))[1]


def _poisson_by_rejection(key: KeyArray, mean: Tensor, dtype: np.dtype) -> Tensor:
    """Poisson numbers by transformed rejection (PTRS, Hoermann 1993), for means that are not small.

    The constants fit a simple density above that of the numbers. Most proposals are accepted without its logarithm.
    """
    log_mean = ew.log(mean)
    b = ew.sqrt(mean) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    height = 1.1328 / (b - 3.4) + 1.1239
    share = 0.9277 - 3.6224 / (b - 2.0)

    def propose(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """A proposed number for each element from two uniform numbers, and the mask of those that are accepted."""
        x = x - 0.5
        edge = 0.5 - ew.absolute(x)
        k = ew.floor((a * 2.0 / edge + b) * x + mean + 0.43)
        ratio = ew.log(y * height / (a / (edge * edge) + b))
        log_probability = k * log_mean - mean - gm.lgamma(k + 1.0)
        is_inner = _both(_compare(edge, "GE", 0.07), _compare(y, "LE", share))  # accepted without the logarithm
        is_out = _either(_compare(k, "LT", 0), _both(_compare(edge, "LT", 0.013), _compare(y, "GT", edge)))
        return k, _either(is_inner, _both(lg.logical_not(is_out), _compare(ratio, "LE", log_probability)))

    count = _until_all(key, full_like(mean, -1), lg.logical_not(lg.is_finite(mean)), propose)
    return convert(count, dtype)


def binomial(key: Key, n: Any, p: Any, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The number k of successes in `n` trials, with the probability n! / (k! (n - k)!) p**k (1 - p)**(n - k).

    Small means use inversion, others rejection (BTRS of Hoermann); invalid parameters give NaN.

    Args:
      key: a key.
      n: the number of trials.
      p: the probability.
      shape: the shape of the result; by default the parameters are broadcast.
      dtype: the real dtype of the result; None means the default float dtype. The computation has the dtype of `p`.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: the parameters do not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> binomial(nm.random.key(0), 10, 0.3, (4,)).shape
      (4,)
    """
    dtype = float_dtype("binomial", dtype)
    working_dtype = inexact_dtype(common_dtype([p]))
    n, p = parameters("binomial", working_dtype, n, p)
    return _binomial(key_of("binomial", key), n, p, shape_for("binomial", shape, n, p), working_dtype, dtype)


@library
def _binomial(key: Any, n: Any, p: Any, shape: Static[Any], working_dtype: np.dtype, dtype: np.dtype) -> Tensor:
    """Binomial numbers, computed in the float dtype `working_dtype`."""
    return _binomials(words_of(key), *spread("binomial", (n, p), working_dtype, shape), dtype=dtype)


def _binomials(key: KeyArray, n: Tensor, p: Tensor, *, dtype: np.dtype) -> Tensor:
    """Binomial numbers of n trials with probability p, by counting for small means, and by rejection for others.

    For p >= 1/2, the failures are counted. A negative or NaN argument gives NaN, and infinitely many trials give infinity.
    """
    is_low = _compare(p, "LT", 0.5)
    share = lg.select(is_low, p, 1.0 - p)  # the smaller of both probabilities
    is_no_share = lg.logical_not(_compare(share, "GE", 0))
    is_no_count = lg.logical_not(_compare(n, "GE", 0))
    share = lg.select(is_no_share, full_like(p, 0.01), share)
    is_few = _either(is_no_count, _compare(n * share, "LE", _FEW))
    trials = ew.floor(n)
    few = _count_of_gaps(key, lg.select(is_few, trials, full_like(n, 0)), share)
    inputs = (lg.select(is_few, full_like(x, number), x) for x, number in ((trials, 1e4), (share, 0.5)))
    count = convert(lg.select(is_few, few, _binomial_by_rejection(key, *inputs)), dtype)
    is_wrong = _either(is_no_share, is_no_count)
    is_infinite = _compare(n, "EQ", np.inf)
    count = lg.select(is_wrong, full_like(count, np.nan), count)
    count = lg.select(_both(is_infinite, lg.logical_not(is_wrong)), full_like(count, np.inf), count)
    stays = _either(_either(is_low, is_no_count), _either(_compare(p, "NE", p), is_infinite))
    return lg.select(stays, count, convert(trials, dtype) - count)


def _count_of_gaps(key: KeyArray, n: Tensor, p: Tensor) -> Tensor:
    """Binomial numbers of small means: the number of successes until the sum of the geometric gaps between them exceeds n
    trials.
    """
    log_failure = ew.log_plus_one(-p)

    def draw(state: Any) -> Any:
        """The next key, the successes, and the trials so far, after one more gap for each element."""
        key, count, total = state
        now, following = split_in(key, 2)
        more = convert(_compare(total, "LE", n), p.dtype)
        return following, count + more, total + ew.ceil(ew.log(fractions(now, p.shape, p.dtype)) / log_failure)

    zero = full_like(p, 0)
    # The last success is not counted, because it comes after n trials.
    return while_loop(lambda state: any(_compare(state[2], "LE", n)), draw, (key, zero, zero))[1] - 1.0


def _binomial_by_rejection(key: KeyArray, n: Tensor, p: Tensor) -> Tensor:
    """Binomial numbers by transformed rejection (BTRS, Hoermann 1993), for n p that is not small and p of at most 1/2.

    The constants fit a simple density above that of the numbers. Most proposals are accepted without its logarithm.
    """
    deviation = ew.sqrt(n * p * (1.0 - p))
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 - 0.0873 + p * 0.01
    centre = n * p + 0.5
    share = 0.92 - 4.2 / b
    odds = p / (1.0 - p)
    height = (5.1 / b + 2.83) * deviation
    mode = ew.floor((n + 1.0) * p)

    def propose(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """A proposed number for each element from two uniform numbers, and the mask of those that are accepted."""
        x = x - 0.5
        edge = 0.5 - ew.absolute(x)
        is_inner = _both(_compare(edge, "GE", 0.07), _compare(y, "LE", share))
        k = ew.floor((a * 2.0 / edge + b) * x + centre)
        is_in = lg.logical_not(_either(_compare(k, "LT", 0), _compare(k, "GT", n)))
        ratio = ew.log(y * height / (a / (edge * edge) + b))
        # The logarithm of the probability of k, relative to that of the mode, by Stirling's formula.
        bound = (mode + 0.5) * ew.log((mode + 1.0) / (odds * (n - mode + 1.0)))
        bound = bound + (n + 1.0) * ew.log((n - mode + 1.0) / (n - k + 1.0))
        bound = bound + (k + 0.5) * ew.log(odds * (n - k + 1.0) / (k + 1.0))
        bound = bound + _stirling(mode) + _stirling(n - mode) - _stirling(k) - _stirling(n - k)
        return k, _either(is_inner, _both(is_in, _compare(ratio, "LE", bound)))

    return _until_all(key, full_like(p, -1), _compare(p, "NE", p), propose)


def _stirling(k: Tensor) -> Tensor:
    """The error of the Stirling formula for log(k!): exact for small numbers, by a series for others."""
    k = ew.maximum(k, full_like(k, 0))
    square = (k + 1.0) * (k + 1.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260) / square) / square) / (k + 1.0)
    for i in range(_STIRLING):
        exact = math.lgamma(i + 1) - ((i + 0.5) * math.log(i + 1) - (i + 1) + 0.5 * math.log(2 * math.pi))
        series = lg.select(_both(_compare(k, "GE", i), _compare(k, "LT", i + 1)), full_like(k, exact), series)
    return series


def multinomial(
    key: Key, n: Any, p: Any, *, shape: ShapeLike | None = None, dtype: DTypeLike | None = None, unroll: int = 1
) -> Tensor:
    """The counts of several outcomes in `n` trials; the last axis of `p` has the probabilities.

    Each count is a binomial count of the remaining trials.

    Args:
      key: a key.
      n: the number of trials.
      p: the probabilities.
      shape: the shape of the result, with the axis of the outcomes; that of `p` if not given.
      dtype: the dtype of the result; None means the default float dtype.
      unroll: the number of outcomes for each iteration of the loop.

    Raises:
      ShapeError: `p` is a scalar, or the parameters do not broadcast to the shape; DtypeError: the dtype is complex.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> float(multinomial(nm.random.key(0), 10, np.array([0.2, 0.3, 0.5])).sum())
      10.0
    """
    working_dtype = inexact_dtype(common_dtype([n, p]))
    n, p = parameters("multinomial", working_dtype, n, p)
    result_shape = shape_for("multinomial", tuple(p.shape) if shape is None else shape, p)
    if not p.ndim or not result_shape:
        raise ShapeError("multinomial requires probabilities in an axis, got a scalar.", where=user_frame())
    shape_for("multinomial", result_shape[:-1], n)
    dtype = Defaults.float if dtype is None else as_dtype(dtype)
    return _multinomial(key_of("multinomial", key), n, p, result_shape, working_dtype, dtype, unroll)


@library
def _multinomial(key: Any, n: Any, p: Any, shape: Static[Any], working_dtype: np.dtype, dtype: np.dtype, unroll: int) -> Tensor:
    """The counts of n draws among outcomes with the probabilities p, one after the other in a scan over the outcomes.

    Each count is binomial: its trials are those that are left, and its probability is the share of the outcome in the rest.
    `working_dtype` is the float dtype of the computation.
    """
    (p,) = spread("multinomial", (p,), working_dtype, shape)
    (n,) = spread("multinomial", (n,), working_dtype, shape[:-1])
    p = moveaxis(p, -1, 0)
    rest = reversed_along(cumsum(reversed_along(p, (0,)), 0), (0,))
    ratio = clip(p / lg.select(_compare(rest, "EQ", 0), full_like(rest, 1), rest), 0.0, 1.0)

    def step(left: Tensor, row: Any) -> Any:
        """The trials that are left after an outcome, and its count; `row` has the keys and the outcome's share in the rest."""
        keys, share = row
        count = _binomials(keys, left, share, dtype=working_dtype)
        return left - count, count

    _, counts = scan(step, n, (split_keys(words_of(key), (p.shape[0],)), ratio), unroll=unroll)
    return convert(moveaxis(counts, 0, -1), dtype)


def geometric(key: Key, p: Any, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The number k of trials up to the first success, with the probability (1 - p)**(k - 1) p.

    Args:
      key: a key.
      p: the probability.
      shape: the shape of the result; None means the shape of `p`.
      dtype: the dtype of the result; None means the default integer dtype.

    Raises:
      DtypeError: the dtype is not an integer dtype; ShapeError: `p` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> geometric(nm.random.key(0), 0.5, (4,)).shape
      (4,)
    """
    dtype = integer_dtype("geometric", dtype)
    working_dtype = inexact_dtype(common_dtype([p]))
    (p,) = parameters("geometric", working_dtype, p)
    return _geometric(key_of("geometric", key), p, shape_for("geometric", shape, p), working_dtype, dtype)


@library
def _geometric(key: Any, p: Any, shape: Static[Any], working_dtype: np.dtype, dtype: np.dtype) -> Tensor:
    """The number of trials up to the first success of probability `p`, from a uniform number by the inverse distribution
    function.
    """
    x = fractions(words_of(key), shape, working_dtype)
    x = lg.select(_compare(x, "EQ", 0), full_like(x, 1), x)
    log_failure = broadcast_to(ew.log_plus_one(-spread("geometric", (p,), working_dtype, np.shape(p))[0]), shape)
    return convert(ew.floor(ew.log(x) / log_failure) + 1.0, dtype)
