"""Reductions of windows, and choices in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nabla_mlir.interpreter.contractions import windows_of
from nabla_mlir.interpreter.elementwise import compare
from nabla_mlir.interpreter.evaluations import evaluation
from nabla_mlir.interpreter.reductions import UFUNCS, Body, combine, fold, reduced
from nabla_mlir.interpreter.shape import pad

Shape = tuple[int, ...]


@evaluation("stablehlo.reduce_window")
def reduce_window(
    *operands: np.ndarray,
    window_dimensions: Shape,
    window_strides: Shape,
    base_dilations: Shape,
    window_dilations: Shape,
    padding: Sequence[Shape],
    body: Body,
) -> list[np.ndarray]:
    """The elements of each window combined with an initial value, which also fills the padding.

    `operands` are the arrays, then their initial values. `body` is the name of an operation, or a function of two elements.
    """
    count = len(operands) // 2
    low, high = ([p[i] for p in padding] for i in (0, 1))
    gaps = [d - 1 for d in base_dilations]
    windows = [
        windows_of(pad(x, init, low, high, gaps), window_dimensions, window_strides, window_dilations)
        for x, init in zip(operands[:count], operands[count:], strict=True)
    ]
    rank = len(window_dimensions)
    axes = tuple(range(rank, 2 * rank))
    if isinstance(body, str) and body in UFUNCS:
        return [reduced(body, windows[0], operands[1], axes)]
    length = math.prod(window_dimensions)
    rows = [w.transpose([*axes, *range(rank)]).reshape(length, *w.shape[:rank]) for w in windows]
    return fold(body, rows, operands[count:])


@evaluation("stablehlo.select_and_scatter")
def select_and_scatter(
    x: np.ndarray,
    source: np.ndarray,
    init: np.ndarray,
    window_dimensions: Shape,
    window_strides: Shape,
    padding: Sequence[Shape],
    select: Body,
    scatter: Body,
) -> np.ndarray:
    """An array of initial values, into which each element of the source is combined at one position of its window in `x`.

    The position is the first one whose element `select` prefers to all others. `select` and `scatter` are functions of two
    elements, or names of operations.
    """
    out = np.full(x.shape, init, x.dtype)
    for position in np.ndindex(source.shape):
        starts = [i * s - low for i, s, (low, _) in zip(position, window_strides, padding, strict=True)]
        ends = [start + n for start, n in zip(starts, window_dimensions, strict=True)]
        inside = [range(max(a, 0), min(b, n)) for a, b, n in zip(starts, ends, x.shape, strict=True)]
        winner: tuple[int, ...] | None = None
        for candidate in np.ndindex(*map(len, inside)):
            element = tuple(r[k] for r, k in zip(inside, candidate, strict=True))
            if winner is None or not _stays(select, x[winner], x[element]):
                winner = element
        if winner is not None:
            out[winner] = combine(scatter, out[winner], source[position])[0]
    return out


def _stays(select: Body, value: np.ndarray, other: np.ndarray) -> bool:
    """True if `select`, a function or the name of a comparison such as "GE", prefers the value to the other value."""
    if callable(select):
        return bool(select(value, other)[0])
    return bool(compare(np.asarray(value), np.asarray(other), select, None))
