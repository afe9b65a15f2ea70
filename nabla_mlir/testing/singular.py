"""The law of singular points: if the formula of a rule has no value, the derivative is the true value, infinite or NaN.

The true value is a limit of derivatives near the point. mpmath computes it with many digits; the caller must install mpmath.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nabla_mlir.table.registry import OpDef
from nabla_mlir.transforms import jvp, vjp

Point = tuple[float, ...]
Function = Callable[..., Any]

# Functions of mpmath numbers for the records that state singular points.
REFERENCES: dict[str, Callable[..., Any]] = {
    "ad.hypot": lambda mp, x, y: mp.hypot(x, y),
    "ad.over_squares": lambda mp, x, y: x / (x * x + y * y),
    "ad.power_log": lambda mp, x, y: mp.power(x, y) * mp.log(x),
    "ad.root": lambda mp, x: mp.sqrt(x),
    "chlo.acos": lambda mp, x: mp.acos(x),
    "chlo.acosh": lambda mp, x: mp.acosh(x),
    "chlo.asin": lambda mp, x: mp.asin(x),
    "chlo.atanh": lambda mp, x: mp.atanh(x),
    "chlo.bessel_i1e": lambda mp, x: mp.besseli(1, x) * mp.exp(-abs(x)),
    "chlo.digamma": lambda mp, x: mp.digamma(x),
    "chlo.erf_inv": lambda mp, x: mp.erfinv(x),
    "chlo.lgamma": lambda mp, x: mp.re(mp.loggamma(x)),
    "stablehlo.abs": lambda mp, x: abs(x),
    "stablehlo.atan2": lambda mp, y, x: mp.atan2(y, x),
    "stablehlo.cbrt": lambda mp, x: mp.sign(x) * mp.cbrt(abs(x)),
    "stablehlo.divide": lambda mp, x, y: x / y,
    "stablehlo.log": lambda mp, x: mp.log(x),
    "stablehlo.log_plus_one": lambda mp, x: mp.log1p(x),
    "stablehlo.maximum": lambda mp, x, y: max(x, y),
    "stablehlo.minimum": lambda mp, x, y: min(x, y),
    "stablehlo.power": lambda mp, x, y: mp.power(x, y),
    "stablehlo.rsqrt": lambda mp, x: 1 / mp.sqrt(x),
    "stablehlo.sqrt": lambda mp, x: mp.sqrt(x),
}

_NEAR, _NEARER = -10, -15  # exponents of ten of the distances from the point
_DIGITS, _STEP = 110, -30  # digits of mpmath, and the exponent of ten of the step of differences
_TOLERANCE = 1e-3
_DIRECTIONS = (1.0, 0.7, 0.4)  # no two arguments move equally


def kinds(count: int) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """The derivatives of first and second order of a function of `count` arguments.

    Each is a pair: the indices of the arguments, and the modes ("jvp" or "vjp") of the differentiations.
    """
    modes = ("jvp", "vjp")
    first = [((i,), (mode,)) for i in range(count) for mode in modes]
    return first + [((*i, j), (*mode, outer)) for i, mode in first for j in range(count) for outer in modes]


def derivatives(f: Function, count: int) -> Function:
    """A function of scalars that returns the list of derivatives of f, in the order of `kinds`."""

    def along(g: Function, i: int, mode: str) -> Function:
        """The derivative of g by its argument i, in one mode."""

        def slope(*xs: Any) -> Any:
            """The derivative at the arguments `xs`."""
            inner = lambda x: g(*xs[:i], x, *xs[i + 1 :])  # noqa: E731
            one = np.ones((), xs[i].dtype)
            return jvp(inner, (xs[i],), (one,))[1] if mode == "jvp" else vjp(inner, xs[i])[1](one)[0]

        return slope

    def every(*xs: Any) -> list[Any]:
        """The list of all derivatives."""
        return [functools.reduce(lambda g, k: along(g, *k), zip(*kind, strict=True), f)(*xs) for kind in kinds(count)]

    return every


def truths(reference: Function, point: Point, indices: Sequence[int]) -> list[float]:
    """The possible values of a derivative at a point: the limit over all arguments, and the limit over the differentiated ones.

    A limit is a number, inf or -inf, or NaN if the derivative grows with both signs. If the limits from several sides differ,
    the limit does not exist, and the derivative is a convention or undefined.

    Args:
      reference: a function of mpmath numbers; sides where it is not real do not count.
      point: the point.
      indices: the index of an argument for each order.
    """
    every = _common(reference, point, indices, range(len(point)))
    own = _common(reference, point, indices, indices)
    return [] if every is None else [every] if own is None else [every, own]


def _common(reference: Function, point: Point, indices: Sequence[int], moving: Sequence[int]) -> float | None:
    """The limit of a derivative at a point if it is the same from all sides; None if the limits differ.

    Args:
      reference: the function, of mpmath's numbers.
      point: its arguments.
      indices: the arguments by which it is differentiated, one after the other.
      moving: the arguments that approach the point; the others are fixed.
    """
    signs = [(1, -1) if i in moving else (0,) for i in range(len(point))]
    values = [v for side in itertools.product(*signs) if (v := _limit(reference, point, indices, side)) is not None]
    if not values:
        return None
    if not np.isfinite(values).any():
        return values[0] if len(set(values)) == 1 else float("nan")
    if not np.isfinite(values).all():
        return None
    return values[0] if np.ptp(values) <= _TOLERANCE * (1 + abs(values[0])) else None


def _limit(reference: Function, point: Point, indices: Sequence[int], signs: Sequence[int]) -> float | None:
    """The limit of a derivative from one side; None if the function is not real there, inf or -inf if the derivative grows.

    Args:
      reference: the function, of mpmath's numbers.
      point: the arguments at which the limit is taken.
      indices: the arguments by which the function is differentiated, one after the other.
      signs: the side for each argument: 1 from above, -1 from below, 0 if it does not move.
    """
    import mpmath as mp

    with mp.workdps(_DIGITS):
        near, nearer = (_slope(mp, reference, point, indices, signs, mp.mpf(10) ** k) for k in (_NEAR, _NEARER))
        if near is None or nearer is None:
            return None
        if abs(near - nearer) <= _TOLERANCE * (1 + abs(nearer)):
            return float(nearer)
        return float("inf") if nearer > 0 else float("-inf")


def _slope(mp: Any, reference: Function, point: Point, indices: Sequence[int], signs: Sequence[int], distance: Any) -> Any:
    """The derivative at `distance` from the point, as a central difference; None if the function is not real there.

    `mp` is the module mpmath. The derivative is by the arguments `indices`, one after the other; `signs` are the sides, as in
    `_limit`.
    """
    step = mp.mpf(10) ** _STEP
    total = mp.mpf(0)
    for sides in itertools.product((1, -1), repeat=len(indices)):
        shifted = [mp.mpf(x) + distance * s * d for x, s, d in zip(point, signs, _DIRECTIONS, strict=False)]
        for i, side in zip(indices, sides, strict=True):
            shifted[i] += side * step
        try:
            value = reference(*shifted)
        except (ValueError, ZeroDivisionError):
            return None
        if mp.im(value) != 0 or not mp.isfinite(value):
            return None
        total += int(np.prod(sides)) * mp.re(value)
    return total / (2 * step) ** len(indices)


def wrong_numbers(
    f: Function,
    reference: Function,
    points: Sequence[Point],
    run: Callable[[Function, Sequence[np.ndarray]], Any],
    orders: Sequence[int] = (1, 2),
    dtype: Any = np.float64,
) -> Iterator[str]:
    """Yields a text for each derivative that is finite but not the true value, or has the wrong infinity.

    Args:
      f: an elementwise function of scalars.
      reference: the same function of mpmath numbers.
      points: the points at which the formula of a derivative has no value.
      run: runs a function of tensors on arrays; its result is a list of arrays.
      orders: the orders of the compared derivatives; without 1 if the first derivative is a convention.
      dtype: the dtype of the arguments.
    """
    tolerance = max(1e-4, 10 * float(np.finfo(dtype).eps) ** 0.5)  # limits are known to 1e-5
    for point in points:
        found = run(derivatives(f, len(point)), [np.array(x, dtype) for x in point])
        limits = {indices: truths(reference, point, indices) for indices, _ in kinds(len(point))}
        for (indices, modes), value in zip(kinds(len(point)), found, strict=True):
            got, may_be = float(value), limits[indices]
            if len(indices) not in orders or np.isnan(got) or not may_be:
                continue
            if not any(_agrees(got, true, tolerance) for true in may_be):
                yield f"{' of '.join(reversed(modes))} by {indices} at {point}: {got}, the limit is {may_be[0]}"


def _agrees(got: float, true: float, tolerance: float) -> bool:
    """True if a number is the true value within the tolerance, or has the right infinity."""
    if np.isfinite(true):
        return abs(got - true) <= tolerance * (1 + abs(true))
    return np.isinf(got) and (np.isnan(true) or got == true)


def reference_of(record: OpDef) -> Function:
    """A function of mpmath numbers for the operation of a record with singular points."""

    def reference(*xs: Any) -> Any:
        """The value of the operation for numbers of mpmath."""
        import mpmath as mp

        return REFERENCES[record.name](mp, *xs)

    return reference
