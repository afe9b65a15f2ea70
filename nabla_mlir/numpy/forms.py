"""QR with pivots, products of reflections, the Schur form, and the reductions to Hessenberg and tridiagonal form.

The Schur form and the reductions have no derivative, because they are not unique and no convention fixes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy import factorizations as fa
from nabla_mlir.numpy.operands import inexact, tensor
from nabla_mlir.ops import blocks, lapack
from nabla_mlir.ops import linalg as la
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor


@library
def householder_product(a: ArrayLike, taus: Any) -> Tensor:
    """The product of Householder reflections; the columns of `a` below its diagonal and the factors `taus` store them."""
    x, factors = inexact(a), inexact(taus)
    maker = f"lapack_{fa.letter(x.dtype)}{'ungqr' if is_complex(x.dtype) else 'orgqr'}_ffi"
    (q,) = lapack.routine(maker, [x, factors], [(x.shape, x.dtype)])
    return q


@library
def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Tensor, ...]:
    """The factors Q and R; with `pivoting` also p of ``x[:, p] = Q R``, so that the diagonal of R descends.

    Example:
      >>> [f.shape for f in qr(np.ones((3, 2)), full_matrices=False)]
      [(3, 2), (2, 2)]
    """
    if not pivoting:
        return tuple(fa.qr(x, "complete" if full_matrices else "reduced"))
    a = fa.matrices("qr", x)
    (m, n), stack, kind = a.shape[-2:], a.shape[:-2], fa.letter(a.dtype)
    k = min(m, n)
    order = tensor(np.zeros((*stack, n), np.int32))
    results = [(a.shape, a.dtype), ((*stack, n), np.dtype(np.int32)), ((*stack, k), a.dtype)]
    packed, positions, taus = lapack.routine(f"lapack_{kind}geqp3_ffi", [a, order], results)
    rows = m if full_matrices else k
    r = la.tril(blocks.block(packed, (0, rows), (0, n)), lower=False)
    reflectors = blocks.padded(blocks.block(packed, (0, m), (0, k)), m, rows)
    return householder_product(reflectors, taus), r, positions - 1


@library
def schur(x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: None = None) -> Any:
    """The factors T and Z of ``x = Z T Z^H``, or only T; see `scipy.linalg.schur`. It has no derivative.

    Raises:
      ShapeError: the matrices are not square, or sorted eigenvalues are requested.

    Example:
      >>> abs(schur(np.array([[2.0, 1.0], [0.0, 1.0]]), compute_schur_vectors=False)).tolist()
      [[2.0, 1.0], [0.0, 1.0]]
    """
    a = fa.square("schur", x)
    if sort_eig_vals or select_callable is not None:
        raise ShapeError("schur requires sort_eig_vals=False and select_callable=None, got others.", where=user_frame())
    if not a.size:
        return (a, a) if compute_schur_vectors else a
    matrix, numbers, status = (a.shape, a.dtype), (a.shape[:-1], a.dtype), (a.shape[:-2], np.dtype(np.int32))
    eigenvalues = [numbers] if is_complex(a.dtype) else [numbers, numbers]  # for a real matrix the real and the imaginary parts
    # The results of gees: T, Z, the eigenvalues, the count of sorted eigenvalues, and info, which is 1 without convergence.
    # T and Z are NaN then, so info is not read.
    results = [matrix, matrix, *eigenvalues, status, status]
    t, z, *_ = lapack.routine(f"lapack_{fa.letter(a.dtype)}gees_ffi", [a], results, mode="V", sort="N")
    return (t, z) if compute_schur_vectors else t


@library
def hessenberg(a: ArrayLike) -> tuple[Tensor, Tensor]:
    """The Hessenberg form with the reflections below it, as LAPACK packs them, and their factors. No derivative.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> [x.shape for x in hessenberg(np.ones((3, 3)))]
      [(3, 3), (2,)]
    """
    x = fa.square("hessenberg", a)
    n = x.shape[-1]
    results = [(x.shape, x.dtype), ((*x.shape[:-2], n - 1), x.dtype), (x.shape[:-2], np.dtype(np.int32))]
    packed, taus, _ = lapack.routine(f"lapack_{fa.letter(x.dtype)}gehrd_ffi", [x], results, low=1, high=n)
    return packed, taus


@library
def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The tridiagonal form of Hermitian matrices, as LAPACK packs it: (packed, diagonal, off-diagonal, taus). No derivative.

    `packed` has the vectors of the reflections outside of the three diagonals, and `taus` has their factors.

    Args:
      a: Hermitian matrices of shape (..., n, n).
      lower: True reads and writes the lower triangle, False the upper one.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> [x.shape for x in tridiagonal(np.eye(3))]
      [(3, 3), (3,), (2,), (2,)]
    """
    x = fa.square("tridiagonal", a)
    stack, n, real = x.shape[:-2], x.shape[-1], fa.real_dtype(x.dtype)
    results = [(x.shape, x.dtype), ((*stack, n), real), ((*stack, n - 1), real), ((*stack, n - 1), x.dtype)]
    name = f"lapack_{fa.letter(x.dtype)}{'hetrd' if is_complex(x.dtype) else 'sytrd'}_ffi"
    status = (stack, np.dtype(np.int32))  # LAPACK's info, which is always 0 and not returned
    packed, diagonal, off_diagonal, taus, _ = lapack.routine(name, [x], [*results, status], uplo="L" if lower else "U")
    return packed, diagonal, off_diagonal, taus


@library
def ormqr(a: ArrayLike, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Tensor:
    """Q times `c` (`c` times Q if not `left`) for the Q of reflections below the diagonal of `a`; `transpose` uses Q^H.

    Example:
      >>> ormqr(np.zeros((2, 1)), np.zeros(1), np.array([[1.0], [2.0]])).tolist()
      [[1.0], [2.0]]
    """
    x, factors, other = inexact(a), inexact(taus), inexact(c)
    m = x.shape[-2]
    q = householder_product(blocks.padded(blocks.block(x, (0, m), (0, factors.shape[-1])), m, m), factors)
    q = la.adjoint(q) if transpose else q
    return la.matmul(q, other) if left else la.matmul(other, q)
