"""Eigenvalues and eigenvectors of stacks of general matrices, by the shifted QR iteration on Hessenberg matrices.

Golub and Van Loan, Matrix Computations, section 7.5, in complex arithmetic: the similar triangular matrix T = Z^H A Z
has the eigenvalues on its diagonal. The eigenvectors of T are computed by back substitution.
"""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val, conj, eq, imag, real, select
from nabla_mlir.passes.iree.linalg.factorizations import adjoint, mask
from nabla_mlir.passes.iree.linalg.qr import geqrf, orgqr, reflect, reflection
from nabla_mlir.passes.iree.linalg.stacks import as_like, diagonal_of, line_at, scaled, spread, squared, within_range

MOST_STEPS = 30  # the number of QR steps for each eigenvalue, on average, before an iteration fails; usually two or three
EXCEPTIONAL = 10  # steps without a converged eigenvalue, after which an exceptional shift breaks a cycle


def geev(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's geev: eigenvalues, left and right eigenvectors of length one (the largest entry is real), and info.

    Eigenvalues are NaN without convergence.
    """
    inside, size = within_range(a)
    triangular, basis, is_done = triangularised(inside if a.dtype.kind == "c" else b.complex_(inside, 0.0))
    values = scaled(diagonal_of(triangular), spread(select(is_done, size, math.nan), triangular.shape[:2], 0))
    right = _normalised(b.matmul(basis, _eigenvectors(triangular)))
    vectors = b.reverse(_eigenvectors(b.reverse(adjoint(triangular), [1, 2])), [1, 2])
    left_vectors = _normalised(b.matmul(basis, vectors))
    parts = [values] if a.dtype.kind == "c" else [real(values), imag(values)]
    return [*parts, left_vectors, right, b.full(0, a.shape[:1], np.int32)]


def triangularised(a: Val) -> tuple[Val, Val, Val]:
    """The factors (T, Z) of complex matrices A = Z T Z^H, and a boolean for each matrix: true if its T is triangular."""
    batch, n = a.shape[:2]
    identity = b.broadcast(b.constant(np.eye(n).astype(a.dtype)), a.shape, [1, 2])
    if n == 1:
        return a, identity, b.full(True, (batch,), np.bool_)
    row, column = b.iota(a.shape, 1, np.int32), b.iota(a.shape, 2, np.int32)
    eps = float(np.finfo(a.dtype).eps)

    def entry(t: Val, i: Val, j: Val) -> Val:
        """Entry (i, j) of each matrix, with an i and a j for each matrix."""
        is_entry = eq(row, spread(i, t.shape, 0)) & eq(column, spread(j, t.shape, 0))
        return b.reduce_sum(select(is_entry, t, 0), [1, 2])

    def corner(t: Val, last: Val) -> tuple[Val, Val, Val, Val]:
        """The entries p, q, r, s of the last 2 x 2 block [[p, q], [r, s]] of the part that is not triangular yet."""
        return (entry(t, last - 1, last - 1), entry(t, last - 1, last), entry(t, last, last - 1), entry(t, last, last))

    def go_on(i: Val, t: Val, z: Val, last: Val, age: Val) -> Val:
        """An i1: some matrix is not triangular yet, and steps are left."""
        return (i < MOST_STEPS * n) & b.reduce_any(last > 0, [0])

    def step(i: Val, t: Val, z: Val, last: Val, age: Val) -> list[Val]:
        """The values of the loop after one shifted QR step on the active part (rows up to `last`) of each matrix.

        T - shift = Q R, then T becomes Q^H T Q, and Z becomes Z Q. If the last subdiagonal entry r is negligible, `last` decreases.
        `age` counts the steps since the last convergence.
        """
        p, q, r, s = corner(t, last)
        shift = select(eq(age, EXCEPTIONAL), s + as_like(_modulus(r), r), _shift(p, q, r, s))
        bounds = spread(last, t.shape, 0)
        active = b.maximum(row, column) <= bounds
        difference = select(active & (bounds > 0), t - identity * spread(shift, t.shape, 0), identity)
        packed, taus = geqrf(difference)
        rotation = orgqr(packed, taus)
        t, z = b.matmul(adjoint(rotation), b.matmul(t, rotation)), b.matmul(z, rotation)
        p, q, r, s = corner(t, last)
        converges = ~(_modulus(r) > eps * (_modulus(p) + _modulus(s)))  # true for NaN, which does not converge
        zeros = eq(row, bounds) & (column < row) & spread(converges, t.shape, 0)
        is_last = eq(last, 0)
        last = select(converges & ~is_last, last - 1, last)
        return [i + 1, select(zeros, 0, t), z, last, select(converges, 0, b.maximum(age, 0) + 1)]

    ends, zeros = b.full(n - 1, (batch,), np.int32), b.full(0, (batch,), np.int32)
    t, z = hessenberg(a)
    _, t, z, last, _ = b.while_loop([b.full(0, (), np.int32), t, z, ends, zeros], go_on, step)
    return t, z, last < 1


def _shift(p: Val, q: Val, r: Val, s: Val) -> Val:
    """The eigenvalue of [[p, q], [r, s]] that is nearer to s: s - q r / larger, where larger is half ± root with the larger
    modulus.
    """
    half = (p - s) / 2.0
    root = b.sqrt(half * half + q * r)
    larger = select(_modulus(half + root) < _modulus(half - root), half - root, half + root)
    trivial = eq(_modulus(larger), 0.0)
    return s - select(trivial, 0, q * r / select(trivial, 1, larger))


def hessenberg(a: Val, z: Val | None = None) -> tuple[Val, Val]:
    """The Hessenberg form: (H, Z) with A Z = Z H, where H is zero below its first subdiagonal; (H, z Z) for a given `z`."""
    n = a.shape[2]
    if z is None:
        z = b.broadcast(b.constant(np.eye(n).astype(a.dtype)), a.shape, [1, 2])

    def step(j: Val, t: Val, z: Val) -> list[Val]:
        """Makes column j zero below its first subdiagonal, by a reflection from both sides."""
        v, tau, _ = reflection(line_at(t, j, 2), j + 1)
        return list(turned(t, z, v, tau))

    t, z = b.for_loop(n - 2, [a, z], step) if n > 2 else [a, z]
    # The reflections leave rounding errors where exact arithmetic gives zeros.
    return select(mask(np.triu(np.ones((n, n), bool), -1), t), t, 0), z


def turned(t: Val, z: Val, v: Val, tau: Val) -> tuple[Val, Val]:
    """The similar matrices H^H t H, and z H, where H is the reflection 1 - tau v v^H."""
    t, z = (adjoint(reflect(adjoint(x), v, tau)) for x in (t, z))
    return reflect(t, v, tau), z


def _eigenvectors(t: Val) -> Val:
    """The eigenvectors of upper triangular matrices T: X with T X = X D, where D is the diagonal of T; the diagonal of X is 1.

    Equal eigenvalues are separated by a change of T of the size of its rounding errors.
    """
    n = t.shape[2]
    row, column = b.iota(t.shape, 1, np.int32), b.iota(t.shape, 2, np.int32)
    values = diagonal_of(t)
    gaps = spread(values, t.shape, 0, 1) - spread(values, t.shape, 0, 2)
    size = b.sqrt(b.reduce_sum(squared(t), [1, 2])) * float(np.finfo(t.dtype).eps)
    least = b.maximum(spread(size, t.shape, 0), float(np.finfo(t.dtype).tiny))
    gaps = select(_modulus(gaps) < least, as_like(least, t), gaps)

    def step(i: Val, x: Val) -> list[Val]:
        """Computes row j = n - 1 - i of X above the diagonal, from the rows below: x[j] = -(sum over k > j of t[j, k] x[k]) /
        gaps[j].
        """
        j = (n - 1) - i
        sums = b.dot(line_at(t, j, 1), select(row > spread(j, t.shape), x, 0), ([1], [1]), batch=1)
        solution = spread(-sums / line_at(gaps, j, 1), t.shape, 0, 2)
        return [select(eq(row, spread(j, t.shape)) & (column > row), solution, x)]

    identity = b.broadcast(b.constant(np.eye(n).astype(t.dtype)), t.shape, [1, 2])
    return b.for_loop(n, [identity], step)[0]


def _normalised(v: Val) -> Val:
    """The columns v scaled to length one, with a real and positive largest entry."""
    size = squared(v)
    row = b.iota(v.shape, 1, np.int32)
    largest = spread(b.reduce_with("stablehlo.maximum", size, 0.0, [1]), v.shape, 0, 2)
    first = b.reduce_with("stablehlo.minimum", select(eq(size, largest), row, v.shape[1]), v.shape[1], [1])
    entry = b.reduce_sum(select(eq(row, spread(first, v.shape, 0, 2)), v, 0), [1])
    factor = scaled(conj(entry), 1.0 / (_modulus(entry) * b.sqrt(b.reduce_sum(size, [1]))))
    return v * spread(factor, v.shape, 0, 2)


def _modulus(x: Val) -> Val:
    """The modulus |x| of each element."""
    return b.sqrt(squared(x))
