"""Legalisation of the matrix factorisations of StableHLO, and of products in them."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.iree.linalg.dense import cholesky_kernel, has_kernel, triangular_kernel
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()


BLOCK = 32  # the size of a diagonal block, which is factored row by row; everything else is matrix products


def adjoint(x: Val) -> Val:
    """The conjugate transposes of stacked matrices."""
    return b.swap(b.conj(x))


def leading(x: Val) -> Val:
    """The array with all dimensions but the last two merged into one."""
    return b.reshape(x, (int(np.prod(x.shape[:-2])), *x.shape[-2:]))


def _block(x: Val, rows: tuple[int, int], columns: tuple[int, int]) -> Val:
    """The block of each matrix between two rows and two columns."""
    return b.slice_(x, [0, rows[0], columns[0]], [x.shape[0], rows[1], columns[1]])


def _zeros(x: Val, rows: int, columns: int) -> Val:
    """A stack of zero matrices with these sizes, as many matrices as in x."""
    return b.full(0, (x.shape[0], rows, columns), x.dtype)


def mask(keep: np.ndarray, like: Val) -> Val:
    """The boolean matrix `keep` as a constant, repeated for each matrix of the stack `like`."""
    return b.broadcast(b.constant(keep), like.shape, [1, 2])


def invert_lower(lower: Val, unit: bool = False) -> Val:
    """The inverses of stacked lower triangular matrices (batch x n x n); elements above the diagonal are not read.

    By doubling: let X be the inverses of the diagonal blocks of size s, and C the part below them within the blocks of
    size 2 s. Then X - X C X is the inverse of the blocks of size 2 s.
    """
    n = lower.shape[-1]
    row, column = np.indices((n, n))
    diagonal = mask(row == column, lower)

    def below(size: int) -> Val:
        """The part C for blocks of this size, with zeros elsewhere."""
        within = (row // (2 * size) == column // (2 * size)) & (row // size > column // size)
        return b.select(mask(within, lower), lower, 0.0)

    # With ones on the diagonal the first step multiplies by the identity, which does not compile on Vulkan.
    inverse = b.select(diagonal, b.splat(1, lower), -below(1)) if unit else b.select(diagonal, 1.0 / lower, 0.0)
    size = 2 if unit else 1
    while size < n:
        inverse = inverse - b.matmul(inverse, b.matmul(below(size), inverse))
        size *= 2
    return inverse


def solve_lower(lower: Val, right: Val, unit: bool = False) -> Val:
    """X with L X = right, for stacks of lower triangular matrices L (batch x n x n). All diagonal blocks are inverted at once."""
    batch, n = lower.shape[0], lower.shape[-1]
    bounds = [(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK)]
    blocks = [_block(lower, interval, interval) for interval in bounds]
    missing = BLOCK - blocks[-1].shape[-1]
    if len(blocks) > 1 and missing:  # the last block is padded to the size of the others, with ones on the diagonal
        size = BLOCK - missing
        corner = b.broadcast(b.constant(np.eye(missing).astype(lower.dtype)), (batch, missing, missing), [1, 2])
        corner = b.pad(corner, [0, size, size], [0, 0, 0])
        blocks[-1] = b.pad(blocks[-1], [0, 0, 0], [0, missing, missing]) + corner
    inverses = invert_lower(b.concat(blocks, 0), unit)
    solutions: list[Val] = []
    for i, (start, stop) in enumerate(bounds):
        size = stop - start
        inverse = b.slice_(inverses, [i * batch, 0, 0], [(i + 1) * batch, size, size])
        rhs = _block(right, (start, stop), (0, right.shape[-1]))
        if solutions:
            # Block row i: L_ii X_i = right_i - sum over j < i of L_ij X_j.
            rhs = rhs - b.matmul(_block(lower, (start, stop), (0, start)), b.concat(solutions, 1))
        solutions.append(b.matmul(inverse, rhs))
    return b.concat(solutions, 1)


def _cholesky_block(a: Val) -> Val:
    """The lower Cholesky factor of small stacked matrices, one column per iteration; only the lower part of `a` is read."""
    n = a.shape[-1]
    row, column = b.iota(a.shape, 1, np.int32), b.iota(a.shape, 2, np.int32)

    def step(j: Val, a: Val) -> list[Val]:
        """Computes column j of the Cholesky factor, and subtracts its outer product from the columns to the right.

        With pivot = a[j, j]: column j becomes a[:, j] / sqrt(pivot), and a[i, k] -= a[i, j] conj(a[k, j]) for the columns k > j.
        """
        zero = b.full(0, (), np.int32)
        pivot = b.dynamic_slice(a, [zero, j, j], (a.shape[0], 1, 1))
        root = b.broadcast(b.sqrt(b.reshape(b.real(pivot), (a.shape[0],))), (a.shape[0], n), [0])
        below = b.reshape(b.dynamic_slice(a, [zero, zero, j], (a.shape[0], n, 1)), (a.shape[0], n))
        below = below / root if a.dtype.kind != "c" else b.complex_(b.real(below) / root, b.imag(below) / root)
        rows, columns = b.broadcast(below, a.shape, [0, 1]), b.broadcast(b.conj(below), a.shape, [0, 2])
        current = b.broadcast(j, a.shape, [])
        after = b.select(column > current, a - rows * columns, a)
        return [b.select(b.eq(column, current), rows, after)]

    (a,) = b.for_loop(n, [a], step)
    return b.select(row >= column, a, 0.0)


def cholesky_factor(a: Val, lower: bool) -> Val:
    """L with L L^H = A, from the lower part of A; if not `lower`, L^H from the upper part."""
    if has_kernel(a, thresholds.KERNEL_ROWS):
        return cholesky_kernel(a, lower)
    return _cholesky_lower(a) if lower else adjoint(_cholesky_lower(adjoint(a)))


def _cholesky_lower(a: Val) -> Val:
    """The lower Cholesky factor of stacked matrices (batch x n x n); only the lower part of `a` is read.

    For each panel of BLOCK columns: subtract the product of the earlier panels, factor the diagonal block, and solve
    for the rows below.
    """
    n = a.shape[-1]
    panels: list[Val] = []  # from their diagonal block on
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        panel = _block(a, (start, n), (start, stop))
        if panels:
            before = [_block(p, (start - BLOCK * i, n - BLOCK * i), (0, BLOCK)) for i, p in enumerate(panels)]
            column = b.concat(before, 2)
            panel = panel - b.matmul(column, adjoint(_block(column, (0, stop - start), (0, start))))
        factor = _cholesky_block(_block(panel, (0, stop - start), (0, stop - start)))
        if stop < n:
            below = b.matmul(_block(panel, (stop - start, n - start), (0, stop - start)), adjoint(invert_lower(factor)))
            factor = b.concat([factor, below], 1)
        panels.append(factor)
    whole = [b.concat([_zeros(p, BLOCK * i, p.shape[-1]), p], 1) if i else p for i, p in enumerate(panels)]
    return b.concat(whole, 2)


@PATTERNS.of("stablehlo.cholesky")
def cholesky(op: ir.Operation, target: Target) -> Replacement:
    """The Cholesky factor, computed by a kernel or by products and loops, because IREE does not compile the operation."""
    (a,) = operands(op)
    lower = "lower" in op.attributes and hlo.Bool.decode(op.attributes["lower"])
    if 0 in a.shape:
        return a
    return b.reshape(cholesky_factor(leading(a), lower), a.shape)


@PATTERNS.of("stablehlo.triangular_solve")
def triangular_solve(op: ir.Operation, target: Target) -> Replacement:
    """The solution of a triangular system, by a kernel or by products and loops: IREE does not compile the operation."""
    a, right = operands(op)
    left, lower, unit = (hlo.Bool.decode(op.attributes[name]) for name in ("left_side", "lower", "unit_diagonal"))
    transpose = hlo.enum("transpose").decode(op.attributes["transpose_a"])
    if 0 in right.shape:
        return right
    return b.reshape(solve_triangular(leading(a), leading(right), left, lower, unit, transpose), right.shape)


def solve_triangular(a: Val, right: Val, left: bool, lower: bool, unit: bool, transpose: str) -> Val:
    """The solutions X of op(a) X = right, or of X op(a) = right if not `left`, for stacked matrices.

    op is the transformation `transpose`: NO_TRANSPOSE, TRANSPOSE or ADJOINT. Only the lower triangles of `a` are read, or the upper
    ones if not `lower`; if `unit`, their diagonals count as ones.
    """
    if transpose == "ADJOINT":
        a = b.conj(a)
    transposed = transpose != "NO_TRANSPOSE"
    if not left:
        right, transposed = b.swap(right), not transposed
    if has_kernel(a, thresholds.KERNEL_ROWS):
        result = triangular_kernel(a, right, lower, transposed, unit)
        return result if left else b.swap(result)
    if transposed:
        a, lower = b.swap(a), not lower
    if not lower:  # reversing both dimensions makes an upper matrix lower
        a, right = b.reverse(a, [1, 2]), b.reverse(right, [1])
    result = solve_lower(a, right, unit)
    if not lower:
        result = b.reverse(result, [1])
    return result if left else b.swap(result)
