"""Derivatives and batches of LAPACK's gtsv, the solution of tridiagonal systems.

The matrix T of the system has three diagonals (lower, diagonal, upper), each as long as the matrix; the first entry of
the lower one and the last entry of the upper one are not read. T x = b gives T x' = b' - T' x, a system with the same
matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.ops.lapack import register_routine, routine
from nabla_mlir.ops.shape import broadcast_in_dim, pad, sliced
from nabla_mlir.rules.linear_solve import emit_linear_solve
from nabla_mlir.table.registry import add_any, materialize
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.tensor import Tensor, full


def _shift(x: Tensor, axis: int, steps: int) -> Tensor:
    """The array whose entry i along an axis is entry i - `steps` of x, and zero if that is out of range."""
    part = sliced(x, axis, max(-steps, 0), x.shape[axis] - max(steps, 0))
    low, high = ([max(n, 0) if d == axis else 0 for d in range(x.ndim)] for n in (steps, -steps))
    return pad(part, full((), 0, x.dtype), edge_padding_low=low, edge_padding_high=high, interior_padding=[0] * x.ndim)


def _product(diagonals: Sequence[MaybeZero], x: Tensor) -> MaybeZero:
    """The product T x of a tridiagonal matrix; `diagonals` are the lower, the main and the upper one, each a tensor or zero."""
    rows, total = x.ndim - 2, ZERO
    for diagonal, offset in zip(diagonals, (1, 0, -1), strict=True):
        if isinstance(diagonal, Zero):
            continue
        wide = broadcast_in_dim(diagonal, shape=x.shape, broadcast_dimensions=tuple(range(diagonal.ndim)))
        term = wide * (_shift(x, rows, offset) if offset else x)
        total = term if isinstance(total, Zero) else total + term
    return total


def _solve(target: str, diagonals: Sequence[Tensor], b: Tensor) -> Tensor:
    """The solution x of the systems with these diagonals and right-hand sides `b`, by LAPACK's routine `target`."""
    stack = b.ndim - 2
    xs = [*diagonals, b]
    results = [*((x.shape, x.dtype) for x in xs), (b.shape[:stack], np.dtype(np.int32))]
    return routine(target, xs, results, stack=stack)[3]


def _gtsv(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, target: str, **__: Any) -> list[MaybeZero]:
    """The tangents of gtsv's five results: x' from T x' = b' - T' x, and zeros for the others, which are scratch.

    `outs` are the results, `xs` are the three diagonals and b, `tangents` are theirs, and `target` is the name of the routine.
    """
    (*diagonals, _), (*dots, db) = xs, tangents
    lower, diagonal, upper = diagonals
    axis = diagonal.ndim - 1
    # The diagonals of the transposed matrix.
    adjoints = [_shift(upper, axis, 1), diagonal, _shift(lower, axis, -1)]
    change = _product(dots, outs[3])
    right = add_any(db, ZERO if isinstance(change, Zero) else -change)
    if isinstance(right, Zero):
        return [ZERO] * 5
    (dx,) = emit_linear_solve(
        [right],
        lambda x: [materialize(_product(diagonals, x[0]), x[0])],
        lambda b: [_solve(target, diagonals, b[0])],
        lambda b: [_solve(target, adjoints, b[0])],
    )
    return [ZERO, ZERO, ZERO, dx, ZERO]  # the results for the diagonals are scratch


register_routine("gtsv", _gtsv, lambda outs, xs, **_: 8 * xs[3].size)
