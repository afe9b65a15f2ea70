"""Factorisations and triangular systems of large real matrices on a CPU, by kernels of nabla_mlir.

As products of blocks they would be hundreds of dispatches, each compiled separately. The Cholesky factor of a 1024x1024
matrix took IREE 30 s to compile and 6.5 ms to compute; as a kernel, whose code does not grow with the matrix, 1 s and 2
ms.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.iree.kernels.call import call, form_of, has_form
from nabla_mlir.passes.iree.kernels.cholesky import cholesky_text
from nabla_mlir.passes.iree.kernels.lu import lu_text
from nabla_mlir.passes.iree.kernels.text import round_up
from nabla_mlir.passes.iree.kernels.triangular import triangular_text


def has_kernel(a: Val, rows: int) -> bool:
    """True if there are kernels for stacked matrices of this dtype, with more than `rows` rows and columns."""
    return has_form(a) and min(a.shape[1:]) > rows


def cholesky_kernel(a: Val, lower: bool) -> Val:
    """The lower Cholesky factors of stacked matrices, from their lower triangles; if not `lower`, the upper ones from the upper."""
    form = form_of(a)
    batch, n, _ = a.shape
    size = round_up(n, form.width)
    name = f"cholesky_{'lower' if lower else 'upper'}_{batch}x{size}_{form.element}"
    text, results = cholesky_text(name, batch, size, form, lower)
    return cut(call(name, text, [_with_ones(a, size)], results)[0], n, n)


def triangular_kernel(a: Val, right: Val, lower: bool, transposed: bool, unit: bool) -> Val:
    """The solutions X of op(A) X = B for stacked matrices A (`a`) and B (`right`); see `triangular_text` for the flags."""
    form = form_of(a)
    batch, n, columns = right.shape
    if columns <= form.lanes:
        form = replace(form, vectors=1)
    if transposed and columns > form.width:
        # Each workgroup reads the matrix; the kernel would otherwise use only a few numbers of each cache line.
        a, lower, transposed = b.swap(a), not lower, False
    rows = round_up(n, form.rows)
    flags = "".join(word for word, flag in (("_transposed", transposed), ("_unit", unit)) if flag)
    name = f"solve_{'lower' if lower else 'upper'}{flags}_{batch}x{rows}x{columns}_{form.element}"
    text, results = triangular_text(name, batch, rows, columns, form, lower, transposed, unit)
    padded = b.pad(right, [0, 0, 0], [0, rows - n, 0])
    return cut(call(name, text, [_with_ones(a, rows), padded], results)[0], n, columns)


def lu_kernel(a: Val) -> tuple[Val, Val]:
    """The factors L and U of stacked matrices in one array, and for each row the row (from 0) with which it is exchanged."""
    form = form_of(a)
    batch, m, n = a.shape
    rows, columns = round_up(m, form.rows), round_up(n, thresholds.LU_PANEL)
    name = f"lu_{batch}x{m}x{n}_{form.element}"
    text, results = lu_text(name, batch, (rows, columns), (m, n), form)
    factors, pivots, _ = call(name, text, [b.pad(a, [0, 0, 0], [0, rows - m, columns - n])], results)
    return cut(factors, m, n), pivots


def _with_ones(a: Val, size: int) -> Val:
    """Square matrices extended to `size` rows and columns, with ones on the new part of the diagonal."""
    n = a.shape[-1]
    if n == size:
        return a
    row, column = (b.iota((a.shape[0], size, size), dim, np.int32) for dim in (1, 2))
    is_new = b.eq(row, column) & (row >= n)
    return b.select(is_new, 1, b.pad(a, [0, 0, 0], [0, size - n, size - n]))


def cut(x: Val, rows: int, columns: int) -> Val:
    """The first `rows` rows and `columns` columns of stacked matrices."""
    return x if x.shape[1:] == (rows, columns) else b.slice_(x, [0, 0, 0], [x.shape[0], rows, columns])
