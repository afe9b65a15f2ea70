"""The order of complex numbers, as in NumPy: by the real parts, then by the imaginary parts; NaN is last."""

from __future__ import annotations

from functools import reduce

import numpy as np

from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy.special_values import is_nan
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.table.tensor import Tensor, full_like

ENDS = {"max": complex(-np.inf, -np.inf), "min": complex(np.inf, np.inf)}  # the neutral element of each extremum


def parts(z: Tensor) -> list[Tensor]:
    """The real and the imaginary parts: the sort keys of complex numbers without NaN, most significant first."""
    return [ew.real(z), ew.imag(z)]


def keys(z: Tensor) -> list[Tensor]:
    """The sort keys of complex numbers and NaN, most significant first: a code of the NaN parts, then the parts.

    The code is 0 for numbers, 1 if the imaginary part is NaN, 2 if the real part is, and 3 if both are.
    """
    re, im = parts(z)
    zero = full_like(re, 0)
    absent = ew.convert(is_nan(re), dtype=np.dtype(np.int8)) * 2 + ew.convert(is_nan(im), dtype=np.dtype(np.int8))
    return [absent, *(lg.select(is_nan(part), zero, part) for part in (re, im))]


def lexicographic(xs: list[Tensor], ys: list[Tensor], direction: str) -> Tensor:
    """The comparison "LT", "LE", "GT" or "GE" of two lists of keys, most significant first, as a mask."""

    def before(rest: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        """The comparison by one more significant pair of keys; `rest` is that by the less significant ones."""
        first, same = (lg.compare(*pair, comparison_direction=d) for d in (f"{direction[0]}T", "EQ"))
        return lg.logical_or(first, lg.logical_and(same, rest))

    last = lg.compare(xs[-1], ys[-1], comparison_direction=direction)
    return reduce(before, reversed(list(zip(xs[:-1], ys[:-1], strict=True))), last)


def compared(x: Tensor, y: Tensor, direction: str) -> Tensor:
    """The mask of a comparison of real or complex numbers in a direction such as "LT"; False where a part is NaN."""
    if not is_complex(x.dtype) or direction in ("EQ", "NE"):
        return lg.compare(x, y, comparison_direction=direction)
    numbers = lg.logical_not(lg.logical_or(is_nan(x), is_nan(y)))
    return lg.logical_and(lexicographic(parts(x), parts(y), direction), numbers)


def further(x: Tensor, y: Tensor, combiner: str) -> Tensor:
    """The larger ("max") or smaller ("min") of x and y, or the first NaN; equal numbers share the derivative."""
    if not is_complex(x.dtype):
        return (ew.maximum if combiner == "max" else ew.minimum)(x, y)
    first = lg.logical_or(is_nan(x), compared(x, y, "GE" if combiner == "max" else "LE"))
    ties = lg.compare(x, y, comparison_direction="EQ")
    return lg.select(first, shared(x, y, ties), y)


def shared(x: Tensor, y: Tensor, ties: Tensor) -> Tensor:
    """`x`; where `ties` is True, the derivative is the mean of those of x and y."""
    finite = lg.logical_and(*map(lg.is_finite, parts(x)))
    zero = lg.select(lg.logical_and(ties, finite), x - y, full_like(x, 0))
    return x - zero * 0.5
