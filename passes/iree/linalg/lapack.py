"""Legalisation of the LAPACK custom calls that JAX emits, and LU, symmetric eigenvalues and singular values.

All functions work on stacks (batch x rows x columns). Eigenvalues and singular values are computed by Jacobi rotations.
Each step rotates one half of the columns against the other half, so it is a few passes over the whole matrix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, conj, eq, imag, real, select, splat
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.passes.iree.linalg.decompositions import eigh_kernel, svd_kernel
from nabla_mlir.passes.iree.linalg.dense import has_kernel, lu_kernel
from nabla_mlir.passes.iree.linalg.factorizations import BLOCK, adjoint, cholesky_factor, invert_lower, mask, solve_triangular
from nabla_mlir.passes.iree.linalg.qr import geqp3, geqrf, orgqr
from nabla_mlir.passes.iree.linalg.real_schur import gees, gehrd, sytrd
from nabla_mlir.passes.iree.linalg.schur import geev
from nabla_mlir.passes.iree.linalg.stacks import (
    as_like,
    diagonal_entry,
    diagonal_of,
    exchange_rows,
    first_largest,
    line_at,
    scaled,
    spread,
    squared,
    take_rows,
    within_range,
)
from nabla_mlir.passes.iree.linalg.tridiagonal import tridiagonal_solve
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()

MOST_SWEEPS = 30  # the largest number of sweeps (rotations of all pairs of columns); convergence needs six to twelve


@PATTERNS.of("stablehlo.custom_call")
def lapack(op: ir.Operation, target: Target) -> Replacement:
    """Values for the results of a custom call of LAPACK, computed by other operations and kernels; None for other custom calls.

    IREE compiles no routine of LAPACK.
    """
    name = hlo.String.decode(op.attributes["call_target_name"])
    routine = re.fullmatch(r"lapack_[sdcz](\w+)_ffi", name)
    if routine is None:
        return None
    rule = _ROUTINES.get(routine[1])
    if rule is None:
        raise RuleMissingError(f"stablehlo.custom_call requires a known LAPACK routine, got {name} at {op.location}.")
    values = operands(op)
    if 0 in values[0].shape:
        return [b.full(0, Val(r).shape, Val(r).dtype) for r in op.results]
    stack = values[-1].rank - 2 if routine[1] == "gtsv" else values[0].rank - 2  # the diagonals of gtsv are vectors
    results = rule(op, *(_stack(v, stack) for v in values))
    return [b.reshape(v, tuple(r.type.shape)) for v, r in zip(results, op.results, strict=True)]


def _stack(x: Val, batch: int) -> Val:
    """The array with its first `batch` dimensions merged into one."""
    return b.reshape(x, (math.prod(x.shape[:batch]), *x.shape[batch:]))


def _letter(op: ir.Operation, key: str) -> str:
    """A letter among the arguments of a LAPACK call, such as "L" for the key uplo."""
    return chr(op.attributes["mhlo.backend_config"][key].value & 0xFF)


def _no_info(a: Val) -> Val:
    """LAPACK's result `info` for success: a zero for each matrix of the stack `a`."""
    return b.full(0, a.shape[:1], np.int32)


# LU


def _panel_lu(panel: Val) -> tuple[Val, Val, Val]:
    """The LU factors of a stack of tall panels, the new order of their rows, and for each column the row of its pivot."""
    batch, m, n = panel.shape
    row, column = b.iota(panel.shape, 1, np.int32), b.iota(panel.shape, 2, np.int32)
    rows, steps = b.iota((batch, m), 1, np.int32), b.iota((batch, n), 1, np.int32)

    def step(j: Val, a: Val, order: Val, pivots: Val) -> list[Val]:
        """Factors column j of the panel, after exchanging row j with the pivot row.

        For the rows i > j: factor = a[i, j] / a[j, j], which replaces a[i, j], and a[i, k] -= factor a[j, k] for the columns k > j.
        """
        candidates = line_at(a, j, 2)
        size = abs(real(candidates)) + abs(imag(candidates)) if a.dtype.kind == "c" else abs(candidates)
        p = first_largest(select(rows < spread(j, rows.shape), -1.0, size))
        a, order = exchange_rows(a, j, p), exchange_rows(order, j, p)
        pivot = spread(diagonal_entry(a, j), rows.shape, 0)
        factor = line_at(a, j, 2)
        factor = select(eq(pivot, 0), factor, factor / select(eq(pivot, 0), 1, pivot))
        factors = spread(factor, a.shape, 0, 1)
        below, current = row > spread(j, a.shape), spread(j, a.shape)
        reduced = a - factors * spread(line_at(a, j, 1), a.shape, 0, 2)
        a = select(below & (column > current), reduced, select(below & eq(column, current), factors, a))
        pivots = select(eq(steps, spread(j, steps.shape)), spread(p, steps.shape, 0), pivots)
        return [a, order, pivots]

    order, pivots = b.iota((batch, m, 1), 1, np.int32), b.full(0, (batch, n), np.int32)
    panel, order, pivots = b.for_loop(min(m, n), [panel, order, pivots], step)
    return panel, b.reshape(order, (batch, m)), pivots


def _getrf(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's getrf: the packed factors L and U, the pivots (from 1), and info.

    They are computed by a kernel for large matrices, else panel by panel.
    """
    if has_kernel(a, thresholds.KERNEL_ROWS):
        factors, order = lu_kernel(a)
        return [factors, order + 1, _no_info(a)]
    batch, m, n = a.shape
    k = min(m, n)
    pivots = []
    for start in range(0, k, BLOCK):
        stop = min(start + BLOCK, k)
        panel = b.slice_(a, [0, start, start], [batch, m, stop])
        # P A = L U for the panel; the rows of the other columns get the same order, and those to the right are solved and updated.
        panel, order, pivot = _panel_lu(panel)
        pivots.append(pivot + start)
        before = take_rows(b.slice_(a, [0, start, 0], [batch, m, start]), order) if start else None
        parts = [panel] if before is None else [before, panel]
        if stop < n:
            right = take_rows(b.slice_(a, [0, start, stop], [batch, m, n]), order)
            size = stop - start
            square = b.slice_(panel, [0, 0, 0], [batch, size, size])
            top = b.matmul(invert_lower(square, unit=True), b.slice_(right, [0, 0, 0], [batch, size, n - stop]))
            column = [top]
            if stop < m:
                lower = b.slice_(panel, [0, size, 0], [batch, m - start, size])
                remaining = b.slice_(right, [0, size, 0], [batch, m - start, n - stop])
                column.append(remaining - b.matmul(lower, top))
            parts.append(b.concat(column, 1))
        columns = b.concat(parts, 2)
        a = b.concat([b.slice_(a, [0, 0, 0], [batch, start, n]), columns], 1) if start else columns
    return [a, b.concat(pivots, 1) + 1, _no_info(a)]


def _orgqr(op: ir.Operation, a: Val, taus: Val) -> list[Val]:
    """The result of LAPACK's orgqr: the first columns of Q, from packed factors and the factors tau."""
    return [orgqr(a, taus)]


# Jacobi rotations


def _halves(x: Val, dim: int) -> tuple[Val, Val]:
    """The first and the second half along a dimension."""
    n = x.shape[dim]
    return b.cut(x, dim, 0, n // 2), b.cut(x, dim, n // 2, n)


def _next_round(x: Val, dim: int) -> Val:
    """The array with its columns (dimension `dim`) permuted for the next round of rotations, which pair column i with n / 2 + i.

    As in a tournament, all columns but the first move on, so after n - 1 rounds every pair has met.
    """
    n = x.shape[dim]
    m = n // 2
    if m == 1:
        return x
    top, bottom = _halves(x, dim)
    part = lambda y, i, j: b.cut(y, dim, i, j)  # noqa: E731
    new_top = [part(top, 0, 1), part(bottom, 0, 1), part(top, 1, m - 1)]
    return b.concat([*new_top, part(bottom, 1, m), part(top, m - 1, m)], dim)


def _rotation(app: Val, aqq: Val, apq: Val) -> tuple[Val, Val]:
    """The rotation (c, s) that makes columns p and q orthogonal; c is real.

    The inner products of p and q are [[app, apq], [conj(apq), aqq]]. The new columns are c p - conj(s) q and s p + c q.
    """
    size = b.sqrt(squared(apq))
    idle = eq(size, 0.0)
    safe = select(idle, 1.0, size)
    theta = (aqq - app) / (2.0 * safe)
    t = 1.0 / (abs(theta) + b.sqrt(1.0 + theta * theta))
    t = select(idle, 0.0, select(theta < 0.0, -t, t))
    c = 1.0 / b.sqrt(1.0 + t * t)
    return c, scaled(apq, t * c / safe)


def _rotate(x: Val, c: Val, s: Val, dim: int) -> Val:
    """The columns of `x` (for dim 1, its conjugated rows) after rotations of the pairs (i, n / 2 + i) by cosines c and sines s."""
    p, q = _halves(x, dim)
    batch = 0
    c, s = (spread(v, p.shape, batch, dim) for v in (c, s))
    if dim == 1:
        s = conj(s)
    return b.concat([scaled(p, c) - conj(s) * q, scaled(q, c) + s * p], dim)


def _sweeps(is_done: Callable[..., Val], carry: list[Val], one_round: Callable[..., list[Val]], n: int) -> list[Val]:
    """The values of `carry` after sweeps of rounds of rotations, until `is_done` is true or there were too many sweeps.

    `one_round` computes the next values from the last ones; a sweep has n - 1 rounds.
    """

    def go_on(i: Val, *values: Val) -> Val:  # an i1: another sweep is needed and allowed
        return (i < MOST_SWEEPS) & ~is_done(*values)

    def sweep(i: Val, *values: Val) -> list[Val]:  # n - 1 rounds, in which each column meets all others
        return [i + 1, *b.for_loop(n - 1, list(values), lambda _, *v: one_round(*v))]

    return b.while_loop([b.full(0, (), np.int32), *carry], go_on, sweep)[1:]


def _eigh(a: Val) -> tuple[Val, Val]:
    """Eigenvalues in ascending order and eigenvectors of stacked Hermitian matrices, by Jacobi rotations of pairs of columns."""
    batch, size = a.shape[0], a.shape[2]
    n = size + size % 2 if size > 1 else size  # a single column needs no rotation
    a = b.pad(a, [0, 0, 0], [0, n - size, n - size])
    vectors = b.broadcast(b.constant(np.eye(n).astype(a.dtype)), a.shape, [1, 2])
    norm = b.reduce_sum(squared(a), [0, 1, 2]) if batch == 1 else b.reduce_sum(squared(a), [1, 2])
    bound = norm * float(np.finfo(a.dtype).eps) ** 2 * 0.01
    off = mask(~np.eye(n, dtype=bool), a)

    def done(a: Val, _: Val) -> Val:
        """An i1: all matrices are diagonal up to rounding."""
        off_diagonal = b.reduce_sum(select(off, squared(a), 0.0), [0, 1, 2] if batch == 1 else [1, 2])
        # NaN does not converge.
        return ~b.reduce_any(off_diagonal > bound, range(off_diagonal.rank)) if off_diagonal.rank else ~(off_diagonal > bound)

    def one_round(a: Val, vectors: Val) -> list[Val]:
        """Rotates the pairs of columns of this round, and exchanges the pairs."""
        top, bottom = _halves(real(diagonal_of(a)), 1)
        pairs = diagonal_of(b.cut(b.cut(a, 1, 0, n // 2), 2, n // 2, n))
        c, s = _rotation(top, bottom, pairs)
        a = _rotate(_rotate(a, c, s, 2), c, s, 1)
        vectors = _rotate(vectors, c, s, 2)
        return [_next_round(_next_round(a, 1), 2), _next_round(vectors, 2)]

    if n > 1:
        a, vectors = _sweeps(done, [a, vectors], one_round, n)
    values = b.cut(real(diagonal_of(a)), 1, 0, size)
    vectors = b.slice_(vectors, [0, 0, 0], [batch, size, size])
    return _ordered(values, vectors, descending=False)


def _ordered(values: Val, vectors: Val, descending: bool) -> tuple[Val, Val]:
    """The values of each row in ascending (or descending) order, and the columns of `vectors` in the same order."""
    key = -values if descending else values
    position = b.iota(values.shape, 1, np.int32)
    attributes = {"dimension": hlo.I64.encode(1), "is_stable": hlo.Bool.encode(True)}
    op = b.make("stablehlo.sort", [key, position], [key.type, position.type], attributes, regions=1)
    scalars = [tensor_type((), d) for d in (key.dtype, key.dtype, np.dtype(np.int32), np.dtype(np.int32))]
    b.fill_region(op.regions[0], scalars, lambda x, y, *_: x < y)
    key, order = map(Val, op.results)
    return (-key if descending else key), b.swap(take_rows(b.swap(vectors), order))


def _syevd(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's syevd, for Hermitian matrices of which one triangle is read: eigenvectors, eigenvalues, and info."""
    n = a.shape[2]
    lower = _letter(op, "uplo") == "L"
    triangle = np.tril(np.ones((n, n), bool), -1) if lower else np.triu(np.ones((n, n), bool), 1)
    half = select(mask(triangle, a), a, 0)
    diagonal = select(mask(np.eye(n, dtype=bool), a), as_like(real(a), a), 0)
    whole = half + adjoint(half) + diagonal
    if has_kernel(whole, 1):
        values, vectors = eigh_kernel(whole)
        return [vectors, values, _no_info(a)]
    inside, size = within_range(whole)
    values, vectors = _eigh(inside)
    return [vectors, values * spread(size, values.shape, 0), _no_info(a)]


def _svd(a: Val) -> tuple[Val, Val, Val]:
    """The singular value decomposition (u, s, v) of stacked square matrices a: rotations make the columns of a v orthogonal."""
    if has_kernel(a, 1):
        return svd_kernel(a)
    batch, size = a.shape[0], a.shape[2]
    n = size + size % 2 if size > 1 else size  # a single column needs no rotation
    a = b.pad(a, [0, 0, 0], [0, n - size, n - size])
    v = b.broadcast(b.constant(np.eye(n).astype(a.dtype)), a.shape, [1, 2])
    eps = float(np.finfo(a.dtype).eps)
    worst = b.full(math.inf, (), a.dtype.type(0).real.dtype)

    def one_round(worst: Val, a: Val, v: Val) -> list[Val]:
        """Makes the pairs of columns of this round orthogonal, and exchanges the pairs; `worst` is the largest cosine so far."""
        p, q = _halves(a, 2)
        pp, qq = b.reduce_sum(squared(p), [1]), b.reduce_sum(squared(q), [1])
        pq = b.reduce_sum(conj(p) * q, [1])
        sizes = b.sqrt(pp) * b.sqrt(qq)
        cosine = select(eq(sizes, 0.0), 0.0, b.sqrt(squared(pq)) / select(eq(sizes, 0.0), 1.0, sizes))
        worst = b.maximum(worst, b.reduce_with("stablehlo.maximum", cosine, 0.0, [0, 1]))
        c, s = _rotation(pp, qq, pq)
        a, v = (_next_round(_rotate(x, c, s, 2), 2) for x in (a, v))
        return [worst, a, v]

    def go_on(i: Val, worst: Val, *_: Val) -> Val:  # an i1: another sweep is needed and allowed
        return (i < MOST_SWEEPS) & (worst > 4.0 * eps * math.sqrt(n))

    def sweep(i: Val, worst: Val, a: Val, v: Val) -> list[Val]:  # n - 1 rounds, in which each column meets all others
        start = splat(0.0, worst)
        return [i + 1, *b.for_loop(n - 1, [start, a, v], lambda _, *x: one_round(*x))]

    if n > 1:
        _, _, a, v = b.while_loop([b.full(0, (), np.int32), worst, a, v], go_on, sweep)
    a, v = (b.slice_(x, [0, 0, 0], [batch, size, size]) for x in (a, v))  # a sweep brings each column back to its index
    norms = b.sqrt(b.reduce_sum(squared(a), [1]))
    s, both = _ordered(norms, b.concat([a, v], 1), descending=True)
    a, v = b.cut(both, 1, 0, size), b.cut(both, 1, size, 2 * size)
    scale = select(eq(s, 0.0), 0.0, 1.0 / select(eq(s, 0.0), 1.0, s))
    return _complete(scaled(a, spread(scale, a.shape, 0, 2))), s, v


def _complete(u: Val) -> Val:
    """Orthonormal columns from nearly orthonormal ones, some of which may be zero; orthonormal columns do not change."""
    packed, taus = geqrf(u)
    q = orgqr(packed, taus)
    diagonal = diagonal_of(packed)
    size = b.sqrt(squared(diagonal))
    is_zero = size < 0.5  # the diagonal of R is about 1 in modulus, or 0 for a column of zeros
    phase = select(is_zero, 1, scaled(diagonal, 1.0 / select(is_zero, 1.0, size)))
    return q * spread(phase, q.shape, 0, 2)


def _gesdd(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's gesdd: `a`, the singular values, left and right vectors, and info.

    A large square matrix is decomposed by a kernel, others by a QR factorisation and Jacobi rotations.
    """
    m, n = a.shape[1:]
    mode = _letter(op, "mode")
    wide = m < n
    inside, size = within_range(a)
    tall = adjoint(inside) if wide else inside
    rows, columns = tall.shape[1:]
    if rows == columns and has_kernel(a, 1):
        u, s, v = svd_kernel(a)
        return [a, s, u, adjoint(v), _no_info(a)]
    packed, taus = geqrf(tall)
    square = b.cut(packed, 1, 0, columns)
    upper = select(mask(np.triu(np.ones((columns, columns), bool)), square), square, 0)
    u, s, v = _svd(upper)
    s = s * spread(size, s.shape, 0)
    if mode == "N":
        others = [b.full(0, Val(r).shape, Val(r).dtype) for r in list(op.results)[2:4]]
        return [a, s, *others, _no_info(a)]
    width = rows if mode == "A" else columns
    reflectors = packed if width == columns else b.pad(packed, [0, 0, 0], [0, 0, width - columns])
    q = orgqr(reflectors, taus)
    left = b.matmul(b.cut(q, 2, 0, columns), u)
    if width > columns:
        left = b.concat([left, b.cut(q, 2, columns, width)], 2)
    if wide:
        return [a, s, v, adjoint(left), _no_info(a)]
    return [a, s, left, adjoint(v), _no_info(a)]


def _potrf(op: ir.Operation, a: Val) -> list[Val]:
    """The results of LAPACK's potrf: the Cholesky factor, and info (1 if a matrix is not positive definite)."""
    lower = _letter(op, "uplo") == "L"
    factor = cholesky_factor(a, lower)
    good = real(diagonal_of(factor)) > 0.0
    info = select(b.reduce_with("stablehlo.and", good, True, [1]), _no_info(a), 1)
    return [factor, info]


def _trsm(op: ir.Operation, a: Val, right: Val) -> list[Val]:
    """The result of BLAS' trsm: the solution of the triangular system with the matrix `a` and the right-hand side `right`."""
    transpose = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[_letter(op, "trans_x")]
    left, lower, unit = (_letter(op, key) == word for key, word in (("side", "L"), ("uplo", "L"), ("diag", "U")))
    return [solve_triangular(a, right, left, lower, unit, transpose)]


_ROUTINES: dict[str, Callable[..., list[Val]]] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _getrf,
    "geqrf": lambda op, a: geqrf(a),
    "geqp3": lambda op, *xs: geqp3(*xs),
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "geev": geev,
    "gees": gees,
    "gehrd": gehrd,
    "sytrd": sytrd,
    "hetrd": sytrd,
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
    "gtsv": lambda op, *xs: tridiagonal_solve(*xs),
}
