"""Factorisations under the names and with the parameters of `jax.lax.linalg`; results have the order of JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.jax.lax.polar import qdwh as qdwh
from nabla_mlir.numpy import factorizations as fa
from nabla_mlir.numpy import systems
from nabla_mlir.numpy.creation import arange
from nabla_mlir.numpy.forms import hessenberg as hessenberg
from nabla_mlir.numpy.forms import householder_product as householder_product
from nabla_mlir.numpy.forms import ormqr as ormqr
from nabla_mlir.numpy.forms import qr as qr
from nabla_mlir.numpy.forms import schur as schur
from nabla_mlir.numpy.forms import tridiagonal as tridiagonal
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert, inexact, tensor
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.shapes import matrix_transpose
from nabla_mlir.ops import lapack
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular factor of positive definite matrices."""
    return fa.cholesky(x, symmetrize_input=symmetrize_input)


@library
def eigh(x: Any, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True) -> tuple[Tensor, Tensor]:
    """Returns the eigenvectors, as columns, and the sorted eigenvalues of Hermitian matrices.

    Example:
      >>> np.asarray(eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))[1]).round(6).tolist()
      [1.0, 3.0]
    """
    values, vectors = fa.eigh(x, None if symmetrize_input else "L" if lower else "U")
    return vectors, values


@library
def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The factors U, s and Vh of matrices, or s alone."""
    return tuple(fa.svd(x, full_matrices)) if compute_uv else fa.svd(x, compute_uv=False)


@library
def lu(x: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the factors of ``x[p] = L U`` in one matrix, the row exchanges as indices from 0, and the permutation p.

    Example:
      >>> lu(np.array([[0.0, 1.0], [2.0, 0.0]]))[2].tolist()
      [1, 0]
    """
    a = fa.matrices("lu", x)
    packed, pivots = fa.lu(a)
    pivots = pivots - 1
    return packed, pivots, lu_pivots_to_permutation(pivots, a.shape[-2])


@library
def lu_pivots_to_permutation(pivots: Any, permutation_size: Static[int]) -> Tensor:
    """The permutation of rows that results from row exchanges; indices start at 0."""
    exchanges = tensor(pivots)
    order = broadcast_to(tensor(np.arange(permutation_size, dtype=exchanges.dtype)), (*exchanges.shape[:-1], permutation_size))
    positions = arange(permutation_size)
    for k in range(exchanges.shape[-1]):
        other = exchanges[..., k : k + 1]
        mine, theirs = order[..., k : k + 1], where(positions == other, order, 0).sum(-1, keepdims=True, dtype=order.dtype)
        order = where(positions == other, mine, where(positions == k, theirs, order))
    return order


@library
def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """X with ``X op(a) = b``, or ``op(a) X = b`` if `left_side`; see `numpy.linalg.triangular_solve`."""
    return systems.triangular_solve(
        a, b, left_side=left_side, lower=lower, transpose_a=transpose_a, conjugate_a=conjugate_a, unit_diagonal=unit_diagonal
    )


@library
def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Tensor:
    """``alpha a a^T + beta c``; the result is always the full matrix."""
    a, c = inexact(a_matrix), inexact(c_matrix)
    return matmul(a, matrix_transpose(a)) * alpha + c * beta


@library
def cholesky_update(r_matrix: Any, w_vector: Any) -> Tensor:
    """The upper factor of ``R^T R + w w^T`` for the upper factor R."""
    r, w = inexact(r_matrix), inexact(w_vector)
    if r.ndim != 2 or w.shape != r.shape[:1] or is_complex(r.dtype):
        raise ShapeError(
            f"cholesky_update requires a real matrix and a vector of its length, got shapes {r.shape} and {w.shape}.",
            where=user_frame(),
        )
    return fa.cholesky(matmul(matrix_transpose(r), r) + w[:, None] * w, upper=True)


@library
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any) -> Tensor:
    """Solves ``T X = b`` for tridiagonal matrices, which are given by three diagonals of length n.

    Args:
      dl: the elements below the diagonal; the first one is not used.
      d: the diagonal.
      du: the elements above the diagonal; the last one is not used.
      b: right-hand sides of shape (..., n, k).

    Raises:
      ShapeError: the lengths differ.

    Example:
      >>> z, o = np.zeros(2), np.ones(2)
      >>> tridiagonal_solve(z, 2 * o, z, np.ones((2, 1))).tolist()
      [[0.5], [0.5]]
    """
    below, on, above, right = (inexact(v) for v in (dl, d, du, b))
    if not below.shape == on.shape == above.shape or right.shape[:-1] != on.shape:
        raise ShapeError(
            f"tridiagonal_solve requires three diagonals of one shape and right-hand sides with it, got "
            f"{below.shape}, {on.shape}, {above.shape} and {right.shape}.",
            where=user_frame(),
        )
    dtype = np.result_type(below.dtype, on.dtype, above.dtype, right.dtype)
    below, on, above, right = (convert(v, dtype) for v in (below, on, above, right))
    shapes = [(v.shape, dtype) for v in (below, on, above, right)]
    results = [*shapes, (right.shape[:-2], np.dtype(np.int32))]
    return lapack.routine(f"lapack_{fa.letter(dtype)}gtsv_ffi", [below, on, above, right], results, stack=right.ndim - 2)[3]
