"""Cholesky factorisation and triangular solves, and helpers for the rules of linear algebra.

Matrices are the last two axes; all axes in front of them are stacked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import Bool, enum
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.ops.contraction import dims, dot_general
from nabla_mlir.ops.elementwise import conj, convert
from nabla_mlir.ops.logic import compare, select
from nabla_mlir.ops.shape import broadcast_in_dim, iota, move_axis, reshape, transpose
from nabla_mlir.sparsity import operands, products
from nabla_mlir.table.batching import prefixed
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, Domain, reals
from nabla_mlir.table.tensor import Tensor, full, full_like

# ---------------------------------------------------------------- matrices


def matrix_transpose(x: Tensor) -> Tensor:
    """Exchanges the last two axes."""
    return transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def adjoint(x: Tensor) -> Tensor:
    """The conjugate of the transpose."""
    result = matrix_transpose(x)
    return conj(result) if is_complex(x.dtype) else result


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """The product of stacked matrices."""
    stack = tuple(range(x.ndim - 2))
    return dot_general(x, y, dot_dimension_numbers=dims((x.ndim - 1,), (y.ndim - 2,), stack, stack), dtype=x.dtype)


def diagonal_mask(rows: int, columns: int, k: int = 0, direction: str = "EQ") -> Tensor:
    """A mask that compares row + k with column: EQ is the k-th diagonal, GE is on and below it, LT is above it.

    It is computed, not a constant: a large constant would be part of each artifact.
    """
    shape, index, k = (rows, columns), np.dtype(np.int32), max(-rows, min(k, columns))
    row, column = (iota(shape=shape, dtype=index, iota_dimension=axis) for axis in (0, 1))
    return compare(row + k if k else row, column, comparison_direction=direction)


def mask_like(x: Tensor, direction: str = "EQ", k: int = 0) -> Tensor:
    """A mask in the shape of the stacked matrices `x`: True where row + k and column compare in `direction`; "EQ" is the
    diagonal.
    """
    rows, columns = x.shape[-2:]
    mask = diagonal_mask(rows, columns, k, direction)
    return broadcast_in_dim(mask, shape=x.shape, broadcast_dimensions=(x.ndim - 2, x.ndim - 1))


def masked(x: Tensor, direction: str, k: int = 0) -> Tensor:
    """The elements of `x` for which row + k compares with column in this direction (see `diagonal_mask`); 0 elsewhere.

    Elements that are NaN or infinite become exactly 0, too.
    """
    return select(mask_like(x, direction, k), x, full_like(x, 0))


def on_diagonal(x: Tensor) -> Tensor:
    """The diagonal of `x`, zeros elsewhere."""
    return masked(x, "EQ")


def unit_vectors(shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """The unit vectors of arrays of a shape, stacked along a leading axis; a Jacobian maps over them."""
    n = math.prod(shape)
    if n == 1:
        return full((1, *shape), 1, dtype)
    return reshape(convert(diagonal_mask(n, n), dtype=dtype), shape=(n, *shape))


def identity_like(x: Tensor) -> Tensor:
    """Unit matrices of the shape and dtype of `x`."""
    return select(mask_like(x), full_like(x, 1), full_like(x, 0))


def tril(x: Tensor, lower: bool = True, *, diagonal: float = 1.0) -> Tensor:
    """One triangle of `x`, with its diagonal multiplied by `diagonal`."""
    if diagonal not in (0, 1):
        x = x * select(mask_like(x), full_like(x, diagonal), full_like(x, 1))
    if diagonal:
        return masked(x, "GE" if lower else "LE")
    return masked(x, "GT" if lower else "LT")


def symmetric_part(x: Tensor, lower: bool) -> Tensor:
    """The Hermitian matrix with the same triangle as `x`, as a routine sees `x` that reads only this triangle."""
    half = tril(x, lower, diagonal=0.5)
    return half + adjoint(half)


# ---------------------------------------------------------------- triangular_solve

# The form of the matrix in the transpose of a real solve.
_TRANSPOSED = {"NO_TRANSPOSE": "TRANSPOSE", "TRANSPOSE": "NO_TRANSPOSE"}


def _solve_jvp(
    outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str
) -> list[MaybeZero]:
    """The forward rule: op(A) X = B gives op(A) X' = B' - op(A') X, one more solve. Only the triangle of A' that is read counts.

    `xs` are the operands, `tangents` their tangents, and `outs` the results.
    """
    a, (da, db), x = xs[0], tangents, outs[0]
    params: dict[str, Any] = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal}
    params["transpose_a"] = transpose_a
    right: MaybeZero = db
    if not isinstance(da, Zero):
        triangle = tril(da, lower, diagonal=0.0 if unit_diagonal else 1.0)
        triangle = {"NO_TRANSPOSE": lambda v: v, "TRANSPOSE": matrix_transpose, "ADJOINT": adjoint}[transpose_a](triangle)
        product = matmul(triangle, x) if left_side else matmul(x, triangle)
        right = -product if isinstance(db, Zero) else db - product
    return [ZERO if isinstance(right, Zero) else triangular_solve(a, right, **params)]


def _solve_transpose(cts: Tensors, i: int, xs: Tensors, *, transpose_a: str, **params: Any) -> Tensor:
    """The cotangent of the right-hand sides xs[1]: a solve with the transposed matrix, for the cotangent cts[0] of the solution."""
    a = xs[0]
    if transpose_a == "ADJOINT":  # the transpose of inv(A^H) is inv(conj(A))
        return triangular_solve(conj(a) if is_complex(a.dtype) else a, cts[0], transpose_a="NO_TRANSPOSE", **params)
    return triangular_solve(a, cts[0], transpose_a=_TRANSPOSED[transpose_a], **params)


def _solve_batch(xs: Tensors, mapped: Sequence[bool], size: int, *, left_side: bool, **params: Any) -> list[Tensor]:
    """The solutions for all `size` entries of a map; `mapped` is True for each of matrix and right-hand side with the mapped axis.

    If all entries share one matrix, the entries become more right-hand sides.
    """
    a, b = xs
    if mapped[0]:
        b = b if mapped[1] else prefixed(b, size)
        return [triangular_solve(a, b, left_side=left_side, **params)]
    free = b.ndim - 1 if left_side else b.ndim - 2
    wide = move_axis(b, 0, free - 1)
    n = wide.shape[free]
    solution = triangular_solve(a, _merge_axes(wide, free - 1), left_side=left_side, **params)
    at = free - 1
    return [move_axis(reshape(solution, shape=(*solution.shape[:at], size, n, *solution.shape[at + 1 :])), at, 0)]


def _merge_axes(x: Tensor, axis: int) -> Tensor:
    """The array with `axis` and the next axis as one axis."""
    return reshape(x, shape=(*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))


def _solve_numpy(*, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str) -> Any:
    """A function of NumPy for a triangular solve, as the reference of a sample."""

    def run(a: Any, b: Any) -> Any:
        """The solution of one triangular system by NumPy."""
        a = np.tril(a) if lower else np.triu(a)
        if unit_diagonal:
            a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
        a = a if transpose_a == "NO_TRANSPOSE" else np.swapaxes(a, -1, -2)
        a = a.conj() if transpose_a == "ADJOINT" else a
        if left_side:
            return np.linalg.solve(a, b)
        return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)

    return run


def _solve_sample(shapes: Any, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str) -> Case:
    params: dict[str, Any] = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal}
    params["transpose_a"] = transpose_a
    return Case(shapes, params, (reals(0.5, 2),), numpy=_solve_numpy(**params))


triangular_solve: OpDef = general(
    "stablehlo.triangular_solve",
    pattern=products.triangular_solve,
    doc="The solution X of op(a) X = b or X op(a) = b for a triangular matrix a.",
    sequential=True,
    flops=lambda outs, xs, **_: xs[0].shape[-1] * outs[0].size,
    attributes={"left_side": Bool, "lower": Bool, "unit_diagonal": Bool, "transpose_a": enum("transpose")},
    result=lambda a, b, **_: [(b.shape, b.dtype)],
    jvp=_solve_jvp,
    linear=(1,),
    transpose=_solve_transpose,
    batch=_solve_batch,
    sample=[
        _solve_sample(((3, 3), (3, 2)), True, True, False, "NO_TRANSPOSE"),
        _solve_sample(((3, 3), (2, 3)), False, True, False, "TRANSPOSE"),
        _solve_sample(((2, 3, 3), (2, 3, 2)), True, False, False, "ADJOINT"),
        _solve_sample(((3, 3), (2, 3)), False, False, True, "NO_TRANSPOSE"),
        _solve_sample(((3, 3), (3, 1)), True, False, True, "TRANSPOSE"),
    ],
)


# ---------------------------------------------------------------- cholesky


def cholesky_tangent(factor: Tensor, dx: Tensor, lower: bool) -> Tensor:
    """The tangent of a Cholesky factor (Murray 2016): L phi(inv(L) A' inv(L)^H).

    phi(X) is the lower triangle of X with half of its diagonal.

    Args:
      factor: L, or its adjoint if not `lower`; its other triangle is not read.
      dx: the tangent of A, of which only one triangle is read.
      lower: True if the factor is L.
    """
    low = tril(factor, lower)
    low = low if lower else adjoint(low)
    solve = {"lower": True, "unit_diagonal": False}
    inner = triangular_solve(low, symmetric_part(dx, lower), left_side=True, transpose_a="NO_TRANSPOSE", **solve)
    inner = triangular_solve(low, inner, left_side=False, transpose_a="ADJOINT", **solve)
    out = matmul(low, tril(inner, diagonal=0.5))
    return out if lower else adjoint(out)


def _cholesky_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, lower: bool) -> list[MaybeZero]:
    dx = tangents[0]
    return [ZERO if isinstance(dx, Zero) else cholesky_tangent(outs[0], dx, lower)]


@dataclass(frozen=True)
class Definite(Domain):
    """Positive definite matrices. They are not symmetric, because only one triangle is read."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        x = rng.uniform(-1, 1, shape)
        return (x + 3 * shape[-1] * np.eye(shape[-1])).astype(dtype)


def _cholesky_numpy(lower: bool) -> Any:
    """A function of matrices that returns NumPy's Cholesky factors, of the lower or the upper triangle."""

    def run(x: Any) -> Any:
        x = x if lower else np.swapaxes(x, -1, -2)
        factor = np.linalg.cholesky(x)
        return factor if lower else np.swapaxes(factor, -1, -2)

    return run


cholesky: OpDef = general(
    "stablehlo.cholesky",
    pattern=operands.trailing(2),
    doc="The triangular factor of a positive definite matrix; one triangle is read.",
    sequential=True,
    flops=lambda outs, xs, **_: xs[0].shape[-1] * xs[0].size // 3,
    attributes={"lower": Bool},
    result=lambda x, lower: [(x.shape, x.dtype)],
    defaults={"lower": False},
    jvp=_cholesky_jvp,
    batch=lambda xs, mapped, size, lower: [cholesky(xs[0], lower=lower)],
    sample=[
        Case((shape,), {"lower": lower}, (Definite(0, 0),), numpy=_cholesky_numpy(lower))
        for shape, lower in (((3, 3), True), ((2, 3, 3), False))
    ],
)
