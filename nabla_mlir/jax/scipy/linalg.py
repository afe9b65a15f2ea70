"""Linear algebra under the names of `scipy.linalg`, as thin wrappers of `numpy.linalg`; matrices are the last two axes.

Parameters such as `check_finite` and `overwrite_a` are accepted and have no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.jax.scipy.matrices import block_diag as block_diag
from nabla_mlir.jax.scipy.matrices import circulant as circulant
from nabla_mlir.jax.scipy.matrices import companion as companion
from nabla_mlir.jax.scipy.matrices import convolution_matrix as convolution_matrix
from nabla_mlir.jax.scipy.matrices import dft as dft
from nabla_mlir.jax.scipy.matrices import fiedler as fiedler
from nabla_mlir.jax.scipy.matrices import fiedler_companion as fiedler_companion
from nabla_mlir.jax.scipy.matrices import hadamard as hadamard
from nabla_mlir.jax.scipy.matrices import hankel as hankel
from nabla_mlir.jax.scipy.matrices import helmert as helmert
from nabla_mlir.jax.scipy.matrices import hilbert as hilbert
from nabla_mlir.jax.scipy.matrices import invhilbert as invhilbert
from nabla_mlir.jax.scipy.matrices import invpascal as invpascal
from nabla_mlir.jax.scipy.matrices import leslie as leslie
from nabla_mlir.jax.scipy.matrices import pascal as pascal
from nabla_mlir.jax.scipy.matrices import toeplitz as toeplitz
from nabla_mlir.jax.scipy.schur_forms import funm as funm
from nabla_mlir.jax.scipy.schur_forms import hessenberg as hessenberg
from nabla_mlir.jax.scipy.schur_forms import rsf2csf as rsf2csf
from nabla_mlir.jax.scipy.schur_forms import schur as schur
from nabla_mlir.jax.scipy.schur_forms import solve_sylvester as solve_sylvester
from nabla_mlir.jax.scipy.schur_forms import sqrtm as sqrtm
from nabla_mlir.numpy import factorizations as fa
from nabla_mlir.numpy import matrix_functions, systems
from nabla_mlir.numpy.creation import zeros
from nabla_mlir.numpy.forms import qr as factors
from nabla_mlir.numpy.indexing import take_along_axis
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert, inexact, inexacts, tensor
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.ufuncs import real
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops.elementwise import conj
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.linear import jvp


# ---------------------------------------------------------------- systems
@library
def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Tensor:
    """Solves ``op(a) X = b`` for a triangular matrix; see `numpy.linalg.triangular_solve`.

    Args:
      a: matrices of shape (..., n, n); only one triangle is read.
      b: right-hand sides of shape (..., n, k), or one vector of shape (n,).
      trans: 0 or "N" for the matrix, 1 or "T" for its transpose, 2 or "C" for its adjoint.
      lower: True reads the lower triangle, False the upper one.
      unit_diagonal: True replaces the diagonal by ones.
      overwrite_b, debug, check_finite: have no effect.

    Raises:
      ShapeError: `trans` is unknown, or the shapes do not fit.

    Example:
      >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True).tolist()
      [1.0, 2.0]
    """
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ShapeError(f"solve_triangular requires trans 0, 1, 2, 'N', 'T' or 'C', got {trans!r}.", where=user_frame())
    return systems.triangular_solve(
        a, b, lower=lower, transpose_a=trans not in (0, "N"), conjugate_a=trans in (2, "C"), unit_diagonal=unit_diagonal
    )


@library
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Tensor:
    """Solves ``a X = b``; ``assume_a="pos"`` uses the Cholesky factor of one triangle of `a`.

    Raises:
      ShapeError: `assume_a` is none of "gen", "sym", "her" and "pos".
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ShapeError(f"solve requires assume_a gen, sym, her or pos, got {assume_a!r}.", where=user_frame())
    return systems.solve(a, b) if assume_a != "pos" else cho_solve(cho_factor(a, lower), b)


@library
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The triangular factor of positive definite matrices: the lower one if `lower`, else the upper one.

    Only that triangle of `a` is read, so the derivative by the elements of the other triangle is 0.

    Example:
      >>> cholesky(np.array([[4.0, 9.0], [2.0, 5.0]]), lower=True).tolist()
      [[2.0, 0.0], [1.0, 2.0]]
    """
    return fa.cholesky(a, upper=not lower, symmetrize_input=False)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """The arguments of `cho_solve`: the triangular factor, and True if it is the lower one."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Solves ``a X = b`` with the factor of `a` that `cho_factor` returns.

    Example:
      >>> cho_solve(cho_factor(np.array([[4.0]])), np.array([8.0])).tolist()
      [2.0]
    """
    c, lower = c_and_lower
    first, last = (0, 2) if lower else (2, 0)
    return solve_triangular(c, solve_triangular(c, b, first, lower), last, lower)


@library
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """The arguments of `lu_solve`: L and U in one matrix, and the row exchanges as indices from 0."""
    packed, pivots = fa.lu(fa.matrices("lu_factor", a))
    return packed, pivots - 1


@library
def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Tensor:
    """Solves ``a X = b`` (trans 1: the transpose, 2: the adjoint) with the result of `lu_factor` for `a`."""
    packed, pivots = lu_and_piv
    packed, right = inexact(packed), inexact(b)
    is_vector = right.ndim == 1
    right = reshaped(right, (right.size, 1)) if is_vector else right
    order = _row_order(tensor(pivots), packed.shape[-2])
    rows = lambda x, at: take_along_axis(x, reshaped(at, (*at.shape, 1)), -2)  # noqa: E731
    if not trans:
        x = systems.triangular_solve(packed, rows(right, order), lower=True, unit_diagonal=True)
        x = systems.triangular_solve(packed, x)
    else:
        x = systems.triangular_solve(packed, right, transpose_a=True, conjugate_a=trans == 2)
        x = systems.triangular_solve(packed, x, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=trans == 2)
        x = rows(x, order.argsort())
    return reshaped(x, x.shape[:-1]) if is_vector else x


def _row_order(pivots: Tensor, n: int) -> Tensor:
    """The permutation of n rows that results from the row exchanges in `pivots`, which are counted from 0."""
    positions = tensor(np.arange(n, dtype=np.int32))
    order = positions + reshaped(pivots[..., :1] * 0, (*pivots.shape[:-1], 1))
    for k in range(pivots.shape[-1]):
        other, element_k = pivots[..., k : k + 1], order[..., k : k + 1]
        # Exchanges the elements at k and at pivots[k].
        element_other = where(positions == other, order, 0).sum(-1, keepdims=True, dtype=order.dtype)
        order = where(positions == other, element_k, where(positions == k, element_other, order))
    return order


@library
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Tensor, ...]:
    """The factors of ``a = P L U``, or ``P L`` and U.

    Example:
      >>> [f.tolist() for f in lu(np.array([[0.0, 1.0], [2.0, 0.0]]), permute_l=True)]
      [[[0.0, 1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]]
    """
    a = fa.matrices("lu", a)
    packed, pivots = fa.lu(a)
    m, k = a.shape[-2], min(a.shape[-2:])
    low = la.tril(packed[..., :, :k], lower=True)
    low = where(np.eye(m, k, dtype=bool), 1.0, low)
    high = la.tril(packed[..., :k, :], lower=False)
    order = _row_order(pivots - 1, m)
    positions = tensor(np.arange(m, dtype=np.int32)[:, None])
    # The matrix P: row `order[k]` of P has its 1 in column k.
    exchange = convert(reshaped(order, (*order.shape[:-1], 1, m)) == positions, a.dtype)
    return (matmul(exchange, low), high) if permute_l else (exchange, low, high)


@library
def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The inverse of square matrices."""
    return systems.inv(a)


@library
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Determinants."""
    return systems.det(a)


# ---------------------------------------------------------------- factorisations
@library
def qr(
    a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False, check_finite: bool = True
) -> Any:
    """The factors of ``a = Q R``: "full", "economic", or only R ("r"); with `pivoting` also the column order p.

    The factors with `pivoting` are those of ``a[:, p] = Q R``, where the diagonal of R descends.

    Raises:
      ShapeError: the mode is unknown.
    """
    words = {"full": "complete", "economic": "reduced", "r": "r"}
    if mode not in words:
        raise ShapeError(f"qr requires mode full, economic or r, got {mode!r}.", where=user_frame())
    if pivoting:
        q, r, order = factors(a, pivoting=True, full_matrices=mode == "full")
        return (r, order) if mode == "r" else (q, r, order)
    out = fa.qr(a, words[mode])
    return (out,) if mode == "r" else tuple(out)


@library
def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Tensor, ...]:
    """Returns ``c Q`` ("right") or ``Q c`` ("left") for the economic ``a = Q R``, and R; with `pivoting` also the column order.

    Args:
      a: matrices of shape (..., m, n); k = min(m, n).
      c: matrices of shape (..., p, m) or (..., k, p), or a vector of m or k elements.
      mode: "right" or "left".
      pivoting: True permutes the columns: ``a[:, p] = Q R``.
      conjugate: True conjugates Q.
      overwrite_a, overwrite_c: have no effect.

    Raises:
      ShapeError: the mode is unknown, or `c` does not fit.

    Example:
      >>> np.asarray(qr_multiply(np.array([[3.0], [4.0]]), np.array([3.0, 4.0]))[0]).round(6).tolist()
      [-5.0]
    """
    a, c = fa.matrices("qr_multiply", a), inexact(c)
    q, r, *order = factors(a, pivoting=pivoting, full_matrices=False)
    rows = q.shape[-2] if mode == "right" else q.shape[-1]
    if mode not in ("right", "left") or (c.shape[-1] if mode == "right" or c.ndim == 1 else c.shape[-2]) != rows:
        raise ShapeError(
            f"qr_multiply requires mode 'right' or 'left' and a length of {rows} there, got {mode!r} and {c.shape}.",
            where=user_frame(),
        )
    q = conj(q) if conjugate and is_complex(q.dtype) else q
    return (matmul(c, q) if mode == "right" else matmul(q, c)), r, *order


@library
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The factors U, s and Vh of matrices, or only s."""
    return tuple(fa.svd(a, full_matrices)) if compute_uv else fa.svd(a, compute_uv=False)


@library
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Returns eigenvalues and eigenvectors of Hermitian matrices; with a positive definite `b`, those of ``a v = w b v``.

    Only one triangle of `a` and of `b` is read: the lower one, or the upper one if `lower` is False.

    Raises:
      ShapeError: `eigvals` is not None, or `type` is not 1.
    """
    if eigvals is not None or type != 1:
        raise ShapeError(f"eigh requires eigvals=None and type=1, got {eigvals} and {type}.", where=user_frame())
    if b is None:
        values, vectors = fa.eigh(a, "L" if lower else "U")
    else:
        a, b = inexacts("eigh", a, b)
        factor = fa.cholesky(la.symmetric_part(b, lower), symmetrize_input=False)
        half = systems.triangular_solve(factor, la.symmetric_part(a, lower), lower=True)
        # L^-1 a L^-H for b = L L^H has the same eigenvalues.
        inner = la.adjoint(systems.triangular_solve(factor, la.adjoint(half), lower=True))
        values, vectors = fa.eigh(inner)
        vectors = systems.triangular_solve(factor, vectors, lower=True, transpose_a=True, conjugate_a=True)
    return values if eigvals_only else (values, vectors)


@library
def eigh_tridiagonal(
    d: Any, e: Any, *, eigvals_only: bool = False, select: str = "a", select_range: Static[Any] = None, tol: Any = None
) -> Any:
    """The eigenvalues and eigenvectors of a Hermitian tridiagonal matrix.

    Args:
      d: the diagonal, whose imaginary parts are not read.
      e: the elements above the diagonal; their conjugates are below it.
      eigvals_only: True returns only the eigenvalues.
      select: "a" returns all, "i" those from the first to the last index of `select_range`.
      select_range: two indices.
      tol: has no effect.

    Raises:
      ShapeError: `select` is unknown, its range is missing, or the lengths do not fit.

    Example:
      >>> eigh_tridiagonal(np.array([2.0, 2.0]), np.array([1j]), eigvals_only=True).round(6).tolist()
      [1.0, 3.0]
    """
    on, off_diagonal = inexact(d), inexact(e)
    if (select, select_range is None) not in (("a", True), ("i", False)) or off_diagonal.shape[0] != on.shape[0] - 1:
        raise ShapeError(
            f"eigh_tridiagonal requires select='a', or 'i' and select_range, and n - 1 off-diagonal elements for n, got "
            f"{select!r}, {select_range}, {on.shape} and {off_diagonal.shape}.",
            where=user_frame(),
        )
    n = on.shape[0]
    matrix = real(on) * np.eye(n, dtype=fa.real_dtype(on.dtype))
    high = reshaped(off_diagonal, (n - 1, 1)) * np.eye(n - 1, n, 1, dtype=off_diagonal.dtype)
    high = concatenate([high, zeros((1, n), high.dtype)])
    values, vectors = fa.eigh(matrix + high + la.adjoint(high))
    if select_range is not None:
        first, last = select_range
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return values if eigvals_only else (values, vectors)


@library
def polar(a: Any, side: str = "right", *, method: str = "svd") -> tuple[Tensor, Tensor]:
    """The factors of ``a = U P`` ("right") or ``a = P U`` ("left"): orthonormal, and positive semidefinite."""
    u, s, vh = fa.svd(a, full_matrices=False)
    unitary = matmul(u, vh)
    if side not in ("right", "left"):
        raise ShapeError(f"polar requires side 'right' or 'left', got {side!r}.", where=user_frame())
    values = reshaped(convert(s, u.dtype), (*s.shape[:-1], 1, s.shape[-1]))
    return unitary, matmul(la.adjoint(vh) * values, vh) if side == "right" else matmul(u * values, la.adjoint(u))


# ---------------------------------------------------------------- functions of matrices
@library
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Tensor:
    """The exponential of matrices."""
    return matrix_functions.expm(A)


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The exponential of a matrix and its derivative in a direction, or only the derivative."""
    value, tangent = jvp(matrix_functions.expm, (A,), (E,))
    return (value, tangent) if compute_expm else tangent
