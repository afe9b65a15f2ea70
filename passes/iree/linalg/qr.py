"""Decompositions of stacks of matrices by Householder reflections, packed as by LAPACK."""

from __future__ import annotations

import math

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val, conj, eq, imag, ne, real, select
from nabla_mlir.passes.iree.linalg.decompositions import q_kernel, qr_kernel
from nabla_mlir.passes.iree.linalg.dense import has_kernel
from nabla_mlir.passes.iree.linalg.stacks import as_like, exchange_rows, first_largest, line_at, spread, squared


def geqrf(a: Val) -> list[Val]:
    """The packed QR factors of stacked matrices (Householder vectors below the diagonal, R above), and the factors tau."""
    if has_kernel(a, thresholds.REFLECTED_ROWS):
        return qr_kernel(a)
    steps = min(a.shape[1:])
    return b.for_loop(steps, [a, b.full(0, (a.shape[0], steps), a.dtype)], _reflected)


def geqp3(a: Val, first: Val) -> list[Val]:
    """The packed QR factors with pivoting, the order of the columns (counted from 1), and the factors tau, as in LAPACK.

    In each step the longest remaining column is the next one. Columns with a nonzero entry in `first` come before the others.
    """
    batch, m, n = a.shape
    steps = min(m, n)
    row, columns = b.iota(a.shape, 1, np.int32), b.iota((batch, n), 1, np.int32)
    order = b.concat([b.reshape(v, (batch, n, 1)) for v in (columns + 1, first)], 2)

    def step(j: Val, a: Val, taus: Val, order: Val) -> list[Val]:
        """Exchanges column j with the longest remaining column, and makes it zero below the diagonal."""
        norms = b.reduce_sum(select(row < spread(j, a.shape), 0.0, squared(a)), [1])
        come_first = ne(line_at(order, b.full(1, (), np.int32), 2), 0)
        sizes = select(columns < spread(j, columns.shape), -1.0, select(come_first, math.inf, norms))
        p = first_largest(sizes)
        order, a = exchange_rows(order, j, p), b.swap(exchange_rows(b.swap(a), j, p))
        return [*_reflected(j, a, taus), order]

    a, taus, order = b.for_loop(steps, [a, b.full(0, (batch, steps), a.dtype), order], step)
    return [a, line_at(order, b.full(0, (), np.int32), 2), taus]


def _reflected(j: Val, a: Val, taus: Val) -> list[Val]:
    """The packed factors and tau after step j: the reflection that makes column j zero below the diagonal.

    Column j of `a` gets beta on the diagonal and the vector below it; the columns to the right are reflected.
    """
    row, column = b.iota(a.shape, 1, np.int32), b.iota(a.shape, 2, np.int32)
    steps, current = b.iota(taus.shape, 1, np.int32), spread(j, a.shape)
    unit, tau, diagonal = reflection(line_at(a, j, 2), j)
    new = select(row > current, spread(unit, a.shape, 0, 1), select(eq(row, current), spread(diagonal, a.shape, 0), a))
    a = select(column > current, reflect(a, unit, tau), select(eq(column, current), new, a))
    return [a, select(eq(steps, spread(j, steps.shape)), spread(tau, steps.shape, 0), taus)]


def reflection(x: Val, j: Val) -> tuple[Val, Val, Val]:
    """The reflections (v, tau, beta) of a stack of vectors x: the adjoint of 1 - tau v v^H makes x zero after entry j.

    With alpha = x[j]: beta = -sign(alpha) |x|, tau = (beta - alpha) / beta, v = x / (alpha - beta) after entry j, and v[j] = 1.
    Entry j of x becomes beta. If x is zero after entry j, tau is 0. `j` is one index, or one for each vector. |x| is the length
    from entry j on.
    """
    positions, current = b.iota(x.shape, 1, np.int32), spread(j, x.shape, *range(j.rank))
    below = positions > current
    alpha = b.reduce_sum(select(eq(positions, current), x, 0), [1])
    tail = b.reduce_sum(select(below, squared(x), 0.0), [1])
    trivial = eq(tail, 0.0) & eq(imag(alpha), 0.0) if x.dtype.kind == "c" else eq(tail, 0.0)
    norm = b.sqrt(squared(alpha) + tail)
    beta = select(real(alpha) > 0.0, -norm, norm)
    safe = as_like(select(trivial, 1.0, beta), x)
    tau = select(trivial, 0, (safe - alpha) / safe)
    scale = select(trivial, 1, alpha - as_like(beta, x))
    v = select(below, x / spread(scale, x.shape, 0), 0)
    return select(eq(positions, current), 1, v), tau, select(trivial, alpha, as_like(beta, x))


def reflect(a: Val, v: Val, tau: Val) -> Val:
    """The products of the adjoint of 1 - tau v v^H, for each v and tau of the stack, with the matrices of the stack a."""
    product = b.dot(conj(v), a, ([1], [1]), batch=1)
    return a - spread(v, a.shape, 0, 1) * spread(spread(conj(tau), product.shape, 0) * product, a.shape, 0, 2)


def orgqr(a: Val, taus: Val) -> Val:
    """The first columns of Q, as many as `a` has; Q is the product of the reflections in the packed factors `a` and `taus`."""
    if has_kernel(a, thresholds.REFLECTED_ROWS):
        return q_kernel(a, taus)
    batch, m, n = a.shape
    k = taus.shape[1]
    rows = b.iota((batch, m), 1, np.int32)
    identity = b.broadcast(b.constant(np.eye(m, n).astype(a.dtype)), a.shape, [1, 2])

    def step(i: Val, q: Val) -> list[Val]:
        """Multiplies q by reflection k - 1 - i from the left."""
        j = (k - 1) - i
        unit = select(rows > spread(j, rows.shape), line_at(a, j, 2), 0)
        unit = select(eq(rows, spread(j, rows.shape)), 1, unit)
        zero = b.full(0, (), np.int32)
        tau = b.dynamic_slice(taus, [zero, j], (batch, 1))
        product = b.dot(conj(unit), q, ([1], [1]), batch=1)
        change = spread(b.reshape(tau, (batch,)), product.shape, 0) * product
        return [q - spread(unit, q.shape, 0, 1) * spread(change, q.shape, 0, 2)]

    return b.for_loop(k, [identity], step)[0]
