"""Reductions: many elements become one, by a named operation or by a region."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.interpreter.elementwise import total_order
from nabla_mlir.interpreter.evaluations import evaluation

Shape = tuple[int, ...]
Body = str | Callable[..., list[np.ndarray]]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
UFUNCS: dict[str, np.ufunc] = {**_UFUNCS, **_BITS}


def combine(body: Body, *values: np.ndarray) -> list[np.ndarray]:
    """The results of a reduction's body for two values, or for all elements of arrays at once."""
    if callable(body):
        return [np.asarray(y) for y in body(*values)]
    a, b = values
    return [b if body == "set" else UFUNCS[body](a, b)]


@evaluation("stablehlo.reduce")
def reduce(*operands: np.ndarray, dimensions: Sequence[int], body: Body) -> list[np.ndarray]:
    """The reduction of all elements along the axes `dimensions`.

    `operands` are the arrays, then their initial values. `body` is the name of an operation such as "add", or a function of two
    elements.
    """
    count = len(operands) // 2
    xs, inits = operands[:count], operands[count:]
    axes = tuple(dimensions)
    if isinstance(body, str) and body in UFUNCS:
        return [reduced(body, xs[0], inits[0], axes)]
    others = [d for d in range(xs[0].ndim) if d not in axes]
    length = math.prod(xs[0].shape[d] for d in axes)
    rows = [x.transpose([*axes, *others]).reshape(length, *(x.shape[d] for d in others)) for x in xs]
    return fold(body, rows, inits)


def reduced(body: str, x: np.ndarray, init: np.ndarray, axes: Shape) -> np.ndarray:
    """The elements of `x` along some axes and an initial value, combined by the operation `body`, such as "add"; narrow floats in
    float32.
    """
    wide = np.dtype(np.float32) if x.dtype.kind in "fV" and x.dtype.itemsize < 4 else x.dtype
    out = UFUNCS[body].reduce(x.astype(wide, copy=False), axis=axes, initial=init.astype(wide))
    return np.asarray(out).astype(x.dtype)


def fold(body: Body, rows: Sequence[np.ndarray], inits: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The rows of each array combined one after the other, beginning with its initial value.

    `rows` and `inits` have one array and one value for each operand. `body` is an operation's name, or a function of two elements.
    """
    state = [np.broadcast_to(init, row.shape[1:]) for row, init in zip(rows, inits, strict=True)]
    for i in range(len(rows[0])):
        new = combine(body, *state, *(row[i] for row in rows))
        state = [np.broadcast_to(y, old.shape) for y, old in zip(new, state, strict=True)]
    return state


@evaluation("stablehlo.sort")
def sort(*xs: np.ndarray, dimension: int, is_stable: bool, comparator: Body) -> list[np.ndarray]:
    """The operands sorted together along an axis, by the first one or by a function; equal elements stay in order.

    `comparator` is "LT", "LE", "GT", "GE", or a function that returns True if its first elements come before its second ones.
    """
    if not xs[0].size:
        return list(xs)
    if isinstance(comparator, str):
        keys = total_order(xs[0])
        order = _ascending(keys, dimension) if comparator in ("LT", "LE") else _descending(keys, dimension)
    else:
        order = _by_comparison(xs, dimension, comparator)
    return [np.take_along_axis(x, order, dimension) for x in xs]


def _ascending(keys: np.ndarray, axis: int) -> np.ndarray:
    return np.argsort(keys, axis=axis, kind="stable")


def _descending(keys: np.ndarray, axis: int) -> np.ndarray:
    return np.argsort(~keys, axis=axis, kind="stable")  # for integers ~k = -k - 1, which never overflows


def _by_comparison(xs: Sequence[np.ndarray], axis: int, comparator: Callable[..., Any]) -> np.ndarray:
    """The indices that sort the operands along an axis, by a merge sort with `comparator`.

    The comparator takes two elements of each operand, and returns a list with one truth value: the first ones come before the
    second. `xs` are the operands, arrays of one shape.
    """
    columns = [np.moveaxis(x, axis, -1) for x in xs]
    order = np.empty(columns[0].shape, np.intp)
    for position in np.ndindex(columns[0].shape[:-1]):
        rows = [c[position] for c in columns]

        # The default arguments bind the rows of this iteration.
        def less(i: int, j: int, rows: Sequence[np.ndarray] = rows) -> bool:
            """True if element i comes before element j."""
            return bool(comparator(*(np.asarray(row[k]) for row in rows for k in (i, j)))[0])

        def sign(i: int, j: int, less: Callable[[int, int], bool] = less) -> int:
            """The order of elements i and j as -1, 0 or 1, as `sorted` needs it."""
            return -1 if less(i, j) else int(less(j, i))

        order[position] = sorted(range(len(rows[0])), key=functools.cmp_to_key(sign))
    return np.moveaxis(order, -1, axis)


@evaluation("chlo.top_k")
def top_k(x: np.ndarray, k: int) -> list[np.ndarray]:
    """The k largest elements along the last axis, and their indices; of equal elements the first."""
    order = _descending(total_order(x), -1)[..., :k]
    return [np.take_along_axis(x, order, -1), order]


@evaluation("stablehlo.map")
def map_(*xs: np.ndarray, computation: Body, **_: Any) -> list[np.ndarray]:
    """A region applied to each element."""
    return [np.broadcast_to(y, xs[0].shape) for y in combine(computation, *xs)]
