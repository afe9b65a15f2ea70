"""Schur's form as LAPACK's gees computes it (for real matrices by Francis' double shifts), and reductions to Hessenberg form.

Golub and Van Loan, Matrix Computations, sections 7.4 and 7.5: a double shift is a reflection of three rows; the
reduction to Hessenberg form removes the bulge that it creates. Blocks of 2 x 2 are standardised as in LAPACK's lanv2.
"""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val, eq, imag, ne, real, select
from nabla_mlir.passes.iree.linalg.factorizations import adjoint, mask
from nabla_mlir.passes.iree.linalg.qr import reflect, reflection
from nabla_mlir.passes.iree.linalg.schur import EXCEPTIONAL, MOST_STEPS, hessenberg, triangularised, turned
from nabla_mlir.passes.iree.linalg.stacks import as_like, diagonal_of, line_at, scaled, spread, within_range


def gees(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's gees: T and Z with A = Z T Z^H, the eigenvalues, a zero count, and info.

    T, Z and the eigenvalues of a matrix without convergence, or with infinities or NaN, are NaN, and its info is 1.
    """
    inside, size = within_range(a)
    triangular, basis, is_done = (triangularised if a.dtype.kind == "c" else _quasi_triangularised)(inside)
    parts, largest = [a] if a.dtype.kind != "c" else [real(a), imag(a)], float(np.finfo(a.dtype).max)
    for part in parts:  # a NaN looks like a converged element, because no comparison with it is true
        is_done = is_done & ~b.reduce_any(~(abs(part) <= largest), [1, 2])
    factor = select(is_done, size, math.nan)
    triangular = scaled(triangular, spread(factor, a.shape, 0))
    basis = scaled(basis, spread(select(is_done, b.full(1.0, is_done.shape, size.dtype), math.nan), a.shape, 0))
    zeros = b.full(0, a.shape[:1], np.int32)
    values = [diagonal_of(triangular)] if a.dtype.kind == "c" else _eigenvalues(triangular)
    return [triangular, basis, *values, zeros, select(is_done, zeros, 1)]


def _quasi_triangularised(a: Val) -> tuple[Val, Val, Val]:
    """The factors (T, Z) of real matrices A = Z T Z^T, and a mask of the matrices with convergence.

    T of such a matrix has only blocks of 1 x 1 and 2 x 2 on its diagonal, and zeros below them.
    """
    batch, n = a.shape[:2]
    row, column = b.iota(a.shape, 1, np.int32), b.iota(a.shape, 2, np.int32)
    positions = b.iota((batch, n), 1, np.int32)

    def entry(t: Val, i: Val, j: Val) -> Val:
        """Entry (i, j) of each matrix, with an i and a j for each matrix."""
        is_entry = eq(row, spread(i, t.shape, 0)) & eq(column, spread(j, t.shape, 0))
        return b.reduce_sum(select(is_entry, t, 0), [1, 2])

    def block(t: Val) -> tuple[Val, Val]:
        """The first and the last row of the last block of each matrix that is larger than 2 x 2; (0, 0) if there is none."""
        is_joined = ne(_below(t), 0)
        last = _largest(select(is_joined & _moved(is_joined), positions, 0))
        return _largest(select(is_joined | (positions >= spread(last, positions.shape, 0)), 0, positions)), last

    def go_on(i: Val, t: Val, z: Val, first: Val, last: Val, age: Val) -> Val:
        """An i1: some matrix is not done, and steps are left."""
        return (i < MOST_STEPS * n) & b.reduce_any(last > 0, [0])

    def step(i: Val, t: Val, z: Val, first: Val, last: Val, age: Val) -> list[Val]:
        """The values of the loop after one double-shift step on the active block (rows `first` to `last`) of each matrix.

        It is the step of Francis: for the trace `total` and the determinant `product` of the last 2 x 2 block [[p, q], [r, s]], the
        vector (T² - total T + product) e_first defines a reflection. The reflected T is brought to Hessenberg form again. `age`
        counts the steps since the last convergence; after EXCEPTIONAL steps, LAPACK's other shifts are used.
        """
        low, high = (spread(v, t.shape, 0) for v in (first, last))
        inner = select((row >= low) & (column >= low) & (row <= high) & (column <= high), t, 0)
        # The last 2 x 2 block of the active block.
        p, q, r, s = (entry(t, last - x, last - y) for x, y in ((1, 1), (1, 0), (0, 1), (0, 0)))
        far = abs(r) + abs(entry(t, last - 1, last - 2))
        is_stuck = eq(age, EXCEPTIONAL)
        total = select(is_stuck, 2.0 * s + 1.5 * far, p + s)
        product = select(is_stuck, (s + 0.75 * far) * (s + 0.75 * far) + 0.4375 * far * far, p * s - q * r)
        unit = select(eq(positions, spread(first, positions.shape, 0)), b.full(1.0, positions.shape, t.dtype), 0)
        once = b.dot(inner, unit, ([2], [1]), batch=1)
        twice = b.dot(inner, once, ([2], [1]), batch=1)
        x = twice - spread(total, once.shape, 0) * once + spread(product, once.shape, 0) * unit
        x = select(spread(last > 0, x.shape, 0), x, 0)
        v, tau, _ = reflection(x, first)
        t, z = hessenberg(*turned(t, z, v, tau))
        t = _without_small(t)
        _, end = new = block(t)
        return [i + 1, t, z, *new, select(eq(end, last) & ~is_stuck, age + 1, 0)]

    t, z = hessenberg(a)
    t, zeros = _without_small(t), b.full(0, (batch,), np.int32)
    _, t, z, _, last, _ = b.while_loop([b.full(0, (), np.int32), t, z, *block(t), zeros], go_on, step)
    return *_standardised(t, z), eq(last, 0)


def _without_small(t: Val) -> Val:
    """The matrices t with zeros for elements below the diagonal that are as small as rounding errors of their neighbours."""
    n = t.shape[2]
    sizes = abs(diagonal_of(t))
    bound = float(np.finfo(t.dtype).eps) * (spread(sizes, t.shape, 0, 1) + spread(sizes, t.shape, 0, 2))
    return select(mask(np.eye(n, k=-1, dtype=bool), t) & ~(abs(t) > bound), 0, t)


def _standardised(t: Val, z: Val) -> tuple[Val, Val]:
    """The factors (T, Z) in standard form: 2 x 2 blocks with real eigenvalues are triangular, others have an equal diagonal.

    For a block [[before, above], [c, d]] with p = (before - d) / 2, the eigenvalues are real if p² + above c >= 0. Then the column
    (cosine, sine) of the rotation is an eigenvector, a multiple of (p ± sqrt(p² + above c), c).
    """
    n = t.shape[2]
    c, above, d = _below(t), _below(b.swap(t)), diagonal_of(t)
    before = _moved(d)
    is_block = ne(c, 0)
    p = (before - d) * 0.5
    product = p * p + above * c
    is_real = is_block & (product >= 0)
    root = b.sqrt(abs(product))
    split = p + select(p < 0, -root, root)
    cosine, sine = _direction(split, c)
    total = above + c
    double, _ = _direction(abs(total), 2.0 * p)  # the cosine of twice the angle
    half = b.sqrt(0.5 + 0.5 * double)
    length = b.sqrt(total * total + 4.0 * p * p)
    reflector = p / (select(eq(length, 0), 1.0, length) * half)
    cosine = select(is_real, cosine, select(is_block, half, 1.0))
    sine = select(is_real, sine, select(is_block, select(total < 0, reflector, -reflector), 0.0))
    main_diagonal = select(is_block, cosine, 1.0 + _moved(cosine - 1.0, -1))
    zero = b.full(0.0, t.shape, t.dtype)
    rotation = select(mask(np.eye(n, dtype=bool), t), spread(main_diagonal, t.shape, 0, 1), zero)
    rotation = select(mask(np.eye(n, k=-1, dtype=bool), t), spread(sine, t.shape, 0, 1), rotation)
    rotation = select(mask(np.eye(n, k=1, dtype=bool), t), -spread(sine, t.shape, 0, 2), rotation)
    t, z = b.matmul(b.swap(rotation), b.matmul(t, rotation)), b.matmul(z, rotation)
    t = select(mask(np.eye(n, k=-1, dtype=bool), t) & ~spread(is_block & ~is_real, t.shape, 0, 1), 0, t)
    d = diagonal_of(t)
    is_pair = is_block & ~is_real
    mean, after = 0.5 * (d + _moved(d)), 0.5 * (d + _moved(d, -1))
    d = select(is_pair, mean, select(_moved(is_pair, -1), after, d))
    t = select(mask(np.eye(n, dtype=bool), t), spread(d, t.shape, 0, 1), t)
    return select(mask(np.triu(np.ones((n, n), bool), -1), t), t, 0), z


def _direction(x: Val, y: Val) -> tuple[Val, Val]:
    """The unit vector in the direction of (x, y), elementwise; (1, 0) for zeros."""
    length = b.sqrt(x * x + y * y)
    is_zero = eq(length, 0)
    length = select(is_zero, 1.0, length)
    return select(is_zero, 1.0, x / length), y / length


def _eigenvalues(t: Val) -> list[Val]:
    """The real and the imaginary parts of the eigenvalues of matrices T in the standard form of `_standardised`."""
    size = b.sqrt(abs(_below(t))) * b.sqrt(abs(_below(b.swap(t))))
    return [diagonal_of(t), _moved(size, -1) - size]


def _below(t: Val) -> Val:
    """The subdiagonal of each matrix: element (i, i - 1) at index i, and 0 at index 0."""
    return b.reduce_sum(select(mask(np.eye(t.shape[2], k=-1, dtype=bool), t), t, 0), [2])


def _moved(x: Val, by: int = 1) -> Val:
    """The rows x shifted by one index to the right, or to the left if `by` is -1; the free entry is zero."""
    n = x.shape[1]
    zero = b.full(0 if x.dtype.kind != "b" else False, (x.shape[0], 1), x.dtype)
    return b.concat([zero, b.cut(x, 1, 0, n - 1)] if by > 0 else [b.cut(x, 1, 1, n), zero], 1)


def _largest(x: Val) -> Val:
    """The largest entry of each row of x, whose entries are not negative."""
    return b.reduce_with("stablehlo.maximum", x, 0, [1])


def gehrd(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's gehrd: the Hessenberg form with the reflections below it, the factors tau, and info."""
    return [*_reduced(a), b.full(0, a.shape[:1], np.int32)]


def _reduced(a: Val) -> tuple[Val, Val]:
    """The matrices in Hessenberg form with the reflections packed below it, and the factors tau, by a reflection per column."""
    n = a.shape[2]
    row, column = b.iota(a.shape, 1, np.int32), b.iota(a.shape, 2, np.int32)
    taus = b.full(0, (a.shape[0], n - 1), a.dtype)
    steps = b.iota(taus.shape, 1, np.int32)

    def step(j: Val, t: Val, taus: Val) -> list[Val]:
        """Makes column j zero below the subdiagonal by a reflection from both sides, and stores the reflection."""
        current = spread(j, t.shape)
        v, tau, beta = reflection(line_at(t, j, 2), j + 1)
        t = adjoint(reflect(adjoint(t), v, tau))
        new = select(row > current + 1, spread(v, t.shape, 0, 1), select(eq(row, current + 1), spread(beta, t.shape, 0), t))
        t = select(column > current, reflect(t, v, tau), select(eq(column, current), new, t))
        return [t, select(eq(steps, spread(j, steps.shape)), spread(tau, steps.shape, 0), taus)]

    return tuple(b.for_loop(n - 1, [a, taus], step)) if n > 1 else (a, taus)  # type: ignore[return-value]


def sytrd(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's sytrd, the tridiagonal form of Hermitian matrices, of which one triangle is read.

    They are the packed reflections, the diagonal, the off-diagonal, the factors tau, and info.
    """
    n = a.shape[2]
    is_lower = chr(op.attributes["mhlo.backend_config"]["uplo"].value & 0xFF) == "L"
    x = a if is_lower else b.reverse(a, [1, 2])
    half = select(mask(np.tril(np.ones((n, n), bool), -1), x), x, 0)
    diagonal = select(mask(np.eye(n, dtype=bool), x), as_like(real(x), x), 0)
    packed, taus = _reduced(half + adjoint(half) + diagonal)
    main_diagonal, off_diagonal = real(diagonal_of(packed)), b.cut(real(_below(packed)), 1, 1, n)
    packed = select(mask(np.tril(np.ones((n, n), bool)), x), packed, x)
    info = b.full(0, a.shape[:1], np.int32)
    if is_lower:
        return [packed, main_diagonal, off_diagonal, taus, info]
    return [b.reverse(packed, [1, 2]), *(b.reverse(v, [1]) for v in (main_diagonal, off_diagonal, taus)), info]
