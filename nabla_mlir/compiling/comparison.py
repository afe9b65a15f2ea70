"""Comparison of compiled results with the interpreter's: a result is wrong if rounding cannot explain its distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.dialects.types import is_complex, is_float

Arrays = Sequence[np.ndarray]
# Units in the last place of an element within which it is right without a perturbed run.
CLOSE = 16.0
# A difference of this many times the spread of perturbed runs is a fault. The runs are perturbed by
# `rounding.AMPLITUDE` units. Eight runs miss a jump that half of all roundings would show with probability 1/256: too often for
# an index, which has no error but jumps.
RUNS, FACTOR = 8, 16.0
_RUNS_OF_INDICES = 32
# In an element that jumps, the largest of the distances is so many times their median.
_JUMP = 8.0


@dataclass(frozen=True)
class Difference:
    """A result whose distance from the interpreter's result rounding does not explain.

    Args:
      result: the index of the result.
      place: the index of the element with the largest error.
      got, wanted: the values of that element.
      bound: the largest distance that is right; 0 if they must be equal.
      count: the number of wrong elements.
    """

    result: int
    place: tuple[int, ...]
    got: str
    wanted: str
    bound: float
    count: int

    def __str__(self) -> str:
        """The element that differs, and its two values, as text."""
        where = f" at {self.place}" if self.place else ""
        return f"result {self.result}{where} is {self.got} instead of {self.wanted} ({self.count} elements differ)"


@dataclass(frozen=True)
class Outcome:
    """The result of a comparison.

    Args:
      difference: the first wrong result; None if all are right.
      ratio: the largest quotient of a difference and its bound; at most 1 if all are right.
      share: the share of elements that rounding does not decide: their bound is not larger than the largest element.
      numbers: the share of elements that are not NaN.
    """

    difference: Difference | None
    ratio: float
    share: float
    numbers: float = 1.0


def compare(got: Arrays, wanted: Arrays, rerun: Callable[[int], Arrays]) -> Outcome:
    """The outcome of a comparison of results of compiled code with those of the interpreter, each a list of arrays.

    Args:
      got: the results of the compiled code.
      wanted: the results of the interpreter.
      rerun: a function from the number of a perturbed run to the interpreter's results. Runs are made only until their
        spread explains the difference: none if results are close, and rarely more than one if they are right.
    """
    worst, decided, elements = 0.0, 0.0, 0
    for i, (x, y) in enumerate(zip(got, wanted, strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        close = bound = _close_distance(y)
        ratio, distances = _largest_ratio(x, y, bound), []
        for k in range(RUNS if unit_of(y.dtype) else _RUNS_OF_INDICES):
            if ratio <= 1:
                break
            distances.append(_differences(np.asarray(rerun(k)[i]), y))
            bound = np.maximum(close, _explained_distance(y, np.array(distances)))
            ratio = _largest_ratio(x, y, bound)
        if ratio > 1:
            return Outcome(_difference(i, x, y, bound), ratio, 1.0)
        worst = max(worst, ratio)
        decided, elements = decided + share_of(y, bound) * y.size, elements + y.size
    return Outcome(None, worst, decided / elements, number_share(wanted)) if elements else Outcome(None, worst, 1.0)


def apparent_error(got: Arrays, wanted: Arrays) -> float:
    """The largest distance of results from the interpreter's results `wanted`, in units in the last place of the largest element.

    It is infinite if indices or truth values differ, or if only one of two elements is a number.
    """
    worst = 0.0
    for x, y in zip(map(np.asarray, got), map(np.asarray, wanted), strict=True):
        size = np.abs(_numbers(y))
        unit = unit_of(y.dtype) * size.max(initial=0.0, where=np.isfinite(size)) + _smallest_normal(y)
        worst = max(worst, _largest_ratio(x, y, np.full(y.shape, unit)))
    return worst


def number_share(wanted: Arrays) -> float:
    """The share of the elements of all results that are not NaN."""
    elements = sum(map(np.size, wanted))
    return sum(int((~np.isnan(_numbers(np.asarray(y)))).sum()) for y in wanted) / elements if elements else 1.0


def bound_of(wanted: np.ndarray, reruns: Arrays) -> np.ndarray:
    """The largest right distance of each element from the interpreter's result `wanted`; infinite if rounding decides the element.

    `reruns` has this result in each perturbed run of the interpreter.
    """
    distances = np.array([_differences(np.asarray(y), wanted) for y in reruns])
    return np.maximum(_close_distance(wanted), _explained_distance(wanted, distances))


def share_of(wanted: np.ndarray, bound: np.ndarray) -> float:
    """The share of elements that rounding does not decide: those whose bound is not larger than the largest element.

    `wanted` is the interpreter's result, and `bound` the largest right distance of each element.
    """
    size = np.abs(_numbers(wanted))
    return (
        float((bound <= size.max(initial=0.0, where=np.isfinite(size)) + _smallest_normal(wanted)).mean()) if wanted.size else 1.0
    )


def _numbers(x: np.ndarray) -> np.ndarray:
    """The array with elements of 64 bits, in f64 or complex128."""
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        return x.astype(np.complex128 if is_complex(x.dtype) else np.float64)


def unit_of(dtype: np.dtype) -> float:
    """The distance from 1 to the next number; 0 for dtypes whose results must be equal."""
    return float(limits_of(dtype).eps) if is_float(dtype) or is_complex(dtype) else 0.0


def _close_distance(wanted: np.ndarray) -> np.ndarray:
    """The distance from the interpreter's result within which an element is right without a perturbed run."""
    unit, size = unit_of(wanted.dtype), np.abs(_numbers(wanted))
    size = np.where(np.isfinite(size), size, 0.0)
    return unit * CLOSE * size + _smallest_normal(wanted)


def _smallest_normal(x: np.ndarray) -> float:
    """The smallest normal number of a dtype; 0 for dtypes whose results must be equal."""
    return float(limits_of(x.dtype).tiny) if unit_of(x.dtype) else 0.0


def _explained_distance(wanted: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """The largest distance from the interpreter's result that rounding explains, for each element; infinite if it explains any.

    `distances` has a row for each perturbed run: its distance from `wanted`, the interpreter's result. The bound of an element is a
    multiple of the largest of its distances; if single elements jump, it is larger for all.
    """
    spread = distances.max(0)
    if not spread.any():
        return spread
    unit = unit_of(wanted.dtype)
    if unit == 0.0:  # indices and truth values: if one element jumps, any may jump
        return np.full(spread.shape, np.inf)
    size = np.abs(_numbers(wanted))
    share = _typical_share(spread, size)
    bound = FACTOR * np.maximum(spread, np.where(np.isfinite(size), size, 0.0) * share)
    if len(distances) == RUNS:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where((spread > 0) & np.isfinite(spread), spread / np.median(distances, axis=0), 1.0)
        if (ratio > _JUMP).any() or not np.isfinite(spread).all():  # if some elements jump, others may, too
            bound = np.maximum(bound, FACTOR * _typical(spread))
        bound = bound * ratio  # a few outliers, as in a quotient of rounding errors, do not bound the others
    # A quotient by a number that differs from 0 only by rounding.
    return np.where((size > unit**-0.5) & (FACTOR * spread > size), np.inf, bound)


def _typical_share(spread: np.ndarray, size: np.ndarray) -> float:
    """The median of the relative spreads: each element's `spread` divided by its `size`, its absolute value; 0 without any."""
    is_number = np.isfinite(spread) & np.isfinite(size) & (size > 0)
    return float(np.median(spread[is_number] / size[is_number])) if is_number.any() else 0.0


def _typical(spread: np.ndarray) -> float:
    """The root mean square of the finite elements of an array; infinite if no element is finite."""
    sizes = spread[np.isfinite(spread)]
    largest = sizes.max(initial=0.0)
    return float(largest * np.sqrt(np.mean((sizes / largest) ** 2))) if largest > 0 else 0.0 if sizes.size else np.inf


def _differences(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The distance of each element of `got` from `wanted`; 0 if both are NaN or the same infinity.

    It is infinite if only one of them is NaN, or if they are different infinities.
    """
    x, y = _numbers(got), _numbers(wanted)
    with np.errstate(all="ignore"):
        differences = np.abs(x - y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.where(np.isnan(differences), np.inf, differences))


def _largest_ratio(got: np.ndarray, wanted: np.ndarray, bound: np.ndarray) -> float:
    """The largest distance of an element of `got` from `wanted`, divided by its bound; infinite if shapes or dtypes differ."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return np.inf
    return float(_ratios(got, wanted, bound).max(initial=0.0))


def _ratios(got: np.ndarray, wanted: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The distance of each element of `got` from `wanted`, divided by its bound; 0 where the bound is infinite."""
    differences = _differences(got, wanted)
    with np.errstate(all="ignore"):
        ratios = np.where(differences == 0, 0.0, differences / bound)
    return np.where(np.isinf(bound), 0.0, ratios)


def _difference(result: int, got: np.ndarray, wanted: np.ndarray, bound: np.ndarray) -> Difference:
    """The description of a wrong result, number `result`: its element with the largest error, and the number of wrong elements.

    `bound` is the largest right distance of each element from `wanted`, the interpreter's result.
    """
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return Difference(result, (), f"{got.dtype}{list(got.shape)}", f"{wanted.dtype}{list(wanted.shape)}", 0.0, wanted.size)
    ratios = _ratios(got, wanted, bound)
    index = tuple(int(k) for k in np.unravel_index(int(np.argmax(ratios)), ratios.shape))
    return Difference(result, index, str(got[index]), str(wanted[index]), float(bound[index]), int((ratios > 1).sum()))
