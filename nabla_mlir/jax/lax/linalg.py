"""Factorisations under the names and with the parameters of `jax.lax.linalg`; results have the order of JAX."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.jax.lax.polar import qdwh as qdwh
from nabla_mlir.numpy import factorizations as fa
from nabla_mlir.numpy import logic, reductions, systems
from nabla_mlir.numpy.creation import arange
from nabla_mlir.numpy.extrema import argmax
from nabla_mlir.numpy.forms import hessenberg as hessenberg
from nabla_mlir.numpy.forms import householder_product as householder_product
from nabla_mlir.numpy.forms import ormqr as ormqr
from nabla_mlir.numpy.forms import qr as qr
from nabla_mlir.numpy.forms import schur as schur
from nabla_mlir.numpy.forms import tridiagonal as tridiagonal
from nabla_mlir.numpy.indexing import take_along_axis
from nabla_mlir.numpy.joining import stack
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert, inexact, tensor
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.shapes import matrix_transpose
from nabla_mlir.numpy.special_values import isfinite
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import lapack
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular factor of positive definite matrices."""
    return fa.cholesky(x, symmetrize_input=symmetrize_input)


@library
def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: Static[Any] = None,
    implementation: Any = None,
) -> tuple[Tensor, Tensor]:
    """The eigenvectors, as columns, and the sorted eigenvalues of Hermitian matrices.

    Args:
      x: matrices of shape (..., n, n).
      lower: the triangle that is read if `symmetrize_input` is False.
      symmetrize_input: True uses (x + x^H) / 2.
      sort_eigenvalues, implementation: have no effect.
      subset_by_index: the first eigenvalue that is returned, and the one after the last.

    Example:
      >>> np.asarray(eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))[1]).round(6).tolist()
      [1.0, 3.0]
    """
    values, vectors = fa.eigh(x, None if symmetrize_input else "L" if lower else "U")
    low, high = subset_by_index or (0, values.shape[-1])
    return vectors[..., low:high], values[..., low:high]


class EighImplementation(enum.Enum):
    """The algorithms of `eigh` in JAX, which have no effect here."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """The libraries of `eig` in JAX, which have no effect here."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class SvdAlgorithm(enum.Enum):
    """The algorithms of `svd` in JAX, which have no effect here."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


@library
def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    implementation: Any = None,
    use_magma: Any = None,
    enable_eigvec_derivs: bool = False,
) -> tuple[Tensor, ...]:
    """The eigenvalues of general matrices, then the left and the right eigenvectors as columns, as requested.

    A left eigenvector u satisfies ``u^H x = w u^H``. All have length one, and their largest entries are real. The left ones are
    rows of the inverse of the right ones, so they exist if the right ones are independent.

    Args:
      x: matrices of shape (..., n, n).
      compute_left_eigenvectors, compute_right_eigenvectors: the eigenvectors that are returned.
      implementation, use_magma, enable_eigvec_derivs: have no effect; eigenvectors always have derivatives.

    Example:
      >>> w, u, v = eig(np.array([[1.0, 1.0], [0.0, 2.0]]))
      >>> w.real.tolist(), np.asarray(u.real).round(4).tolist()
      ([1.0, 2.0], [[0.7071, 0.0], [-0.7071, 1.0]])
    """
    if not (compute_left_eigenvectors or compute_right_eigenvectors):
        return (fa.eigvals(x),)
    values, right = fa.eig(x)
    out = (values, _scaled_columns(la.adjoint(systems.inv(right)))) if compute_left_eigenvectors else (values,)
    return (*out, right) if compute_right_eigenvectors else out


def _scaled_columns(v: Tensor) -> Tensor:
    """The columns of the complex matrices `v`, scaled to length one and to a real largest entry."""
    size = ew.absolute(stop_gradient(v))
    largest = take_along_axis(v, argmax(size, -2, keepdims=True), -2)
    length = ew.sqrt(reductions.fold(ew.real(v * ew.conj(v)), (v.ndim - 2,), "add", keepdims=True))
    return v * (ew.conj(largest) / convert(ew.absolute(largest) * length, v.dtype))


@library
def svd(
    x: Any, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: Static[Any] = None, algorithm: Any = None
) -> Any:
    """The factors U, s and Vh of matrices, or s alone; `algorithm` has no effect.

    `subset_by_index` is the index of the first singular value that is returned, and the one after the last.
    """
    if subset_by_index is not None:
        low, high = subset_by_index
        u, s, vh = fa.svd(x, full_matrices=False)
        return (u[..., low:high], s[..., low:high], vh[..., low:high, :]) if compute_uv else s[..., low:high]
    return tuple(fa.svd(x, full_matrices)) if compute_uv else fa.svd(x, compute_uv=False)


@library
def lu(x: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The factors of ``x[p] = L U`` in one matrix, the row exchanges as indices from 0, and the permutation p.

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
        # Exchanges the elements at k and at pivots[k].
        element_k, element_other = (
            order[..., k : k + 1],
            where(positions == other, order, 0).sum(-1, keepdims=True, dtype=order.dtype),
        )
        order = where(positions == other, element_k, where(positions == k, element_other, order))
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
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Tensor:
    """Solves ``T X = b`` for tridiagonal matrices, which are given by three diagonals of length n.

    Args:
      dl: the elements below the diagonal; the first one is not used.
      d: the diagonal.
      du: the elements above the diagonal; the last one is not used.
      b: right-hand sides of shape (..., n, k).
      perturb_singular: True adds the machine epsilon, relative to the largest element, to the diagonal of matrices that are
        singular. Their solutions are then large but finite.

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
    x = _tridiagonal_solution(below, on, above, right)
    if not perturb_singular:
        return x
    singular = logic.logical_not(reductions.all(isfinite(x), (-2, -1)))
    largest = reductions.fold(ew.absolute(stop_gradient(stack([below, on, above]))), (0, on.ndim), "max", keepdims=True)[0]
    change = where(largest == 0, 1, largest) * float(np.finfo(dtype).eps)
    on = on + where(singular[..., None], convert(change, dtype), 0)
    return _tridiagonal_solution(below, on, above, right)


def _tridiagonal_solution(below: Tensor, on: Tensor, above: Tensor, right: Tensor) -> Tensor:
    """The solution of tridiagonal systems with these diagonals and right-hand sides, by LAPACK's routine gtsv, without checks."""
    results = [*((v.shape, v.dtype) for v in (below, on, above, right)), (right.shape[:-2], np.dtype(np.int32))]
    name = f"lapack_{fa.letter(on.dtype)}gtsv_ffi"
    return lapack.routine(name, [below, on, above, right], results, stack=right.ndim - 2)[3]
