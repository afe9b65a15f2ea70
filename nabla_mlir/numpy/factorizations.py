"""Factorisations of stacks of matrices: Cholesky, LU, QR, eigenvalues, singular values.

All are records: LAPACK routines under the names of JAX, which the compiler replaces by lowerings of nabla_mlir.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy.operands import convert, inexact
from nabla_mlir.ops import blocks, lapack
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops import sorting as so
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.gather import along_axis
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full, full_like

_INFO = np.dtype(np.int32)


class QRResult(NamedTuple):
    """The factors of `qr`."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Unsorted eigenvalues, and the eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


# ---------------------------------------------------------------- helpers
def matrices(name: str, x: ArrayLike) -> Tensor:
    """The array `x` as stacked matrices of f32, f64 or their complex dtypes; raises ShapeError for fewer than two axes."""
    x = inexact(x)
    if x.ndim < 2:
        raise ShapeError(f"{name} requires matrices (the last two axes), got shape {x.shape}.", where=user_frame())
    return x if x.dtype.kind == "c" or (x.dtype.itemsize >= 4 and x.dtype.kind == "f") else convert(x, np.float32)


def square(name: str, x: ArrayLike) -> Tensor:
    """The array `x` as stacked square matrices; raises ShapeError if they are not square. `name` is the caller, for errors."""
    x = matrices(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name} requires square matrices, got shape {x.shape}.", where=user_frame())
    return x


def letter(dtype: np.dtype) -> str:
    """The letter of a dtype in the names of LAPACK."""
    return {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}[dtype.str[1:]]


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype; a real dtype is returned unchanged."""
    return np.zeros((), dtype).real.dtype


def hermitian(x: Tensor) -> Tensor:
    """The Hermitian part (x + x^H) / 2."""
    return (x + la.adjoint(x)) * 0.5


def _one_triangle(x: Tensor, upper: bool) -> Tensor:
    """The upper or the lower triangle, with zeros in the other."""
    return la.tril(x, lower=not upper)


# ---------------------------------------------------------------- factorisations
@library
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Tensor:
    """The triangular factor L of positive definite matrices, ``a = L L^H`` (or ``a = U^H U`` if `upper`).

    Args:
      a: Hermitian positive definite matrices, shape (..., n, n). The factor of any other matrix is NaN.
      upper: True returns U instead of L.
      symmetrize_input: True factors (a + a^H) / 2, so that derivatives are symmetric as in JAX; False reads only one
        triangle.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> np.asarray(cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))).round(6).tolist()
      [[2.0, 0.0], [1.0, 2.0]]
    """
    a = square("cholesky", a)
    a = hermitian(a) if symmetrize_input else a
    return _one_triangle(la.cholesky(a, lower=not upper), upper)


def lu(a: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of P a = L U in one matrix (L without its unit diagonal), and the pivots of LAPACK, which start at 1."""
    pivots = (*a.shape[:-2], min(a.shape[-2:]))
    results = [(a.shape, a.dtype), (pivots, _INFO), (a.shape[:-2], _INFO)]
    packed, rows, _ = lapack.routine(f"lapack_{letter(a.dtype)}getrf_ffi", [a], results)
    return packed, rows


def _safe_scale(a: Tensor) -> Tensor:
    """A scale for each matrix, a power of two, so that squares of its elements do not overflow or underflow."""
    size = ew.absolute(stop_gradient(a))
    largest = reduce(size, full((), 0, size.dtype), dimensions=(a.ndim - 2, a.ndim - 1), body="max")
    exponent = int(np.finfo(size.dtype).maxexp)
    # Squares are safe if the largest element is within 1 / high ... high; else it is multiplied by factor or 1 / factor.
    high, factor = 2.0 ** (exponent * 7 // 16), 2.0 ** (-exponent * 5 // 8)
    is_high = lg.compare(largest, full_like(largest, high), comparison_direction="GT")
    is_low = lg.compare(largest, full_like(largest, 1 / high), comparison_direction="LT")
    scale = lg.select(is_low, full_like(largest, 1 / factor), full_like(largest, 1))
    return reshaped(lg.select(is_high, full_like(largest, factor), scale), (*a.shape[:-2], 1, 1))


@library
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """The factors of ``a = Q R``: Q has orthonormal columns, and R is upper triangular.

    Derivatives require that the first min(m, n) columns of `a` are linearly independent.

    Args:
      a: matrices of shape (..., m, n); k = min(m, n).
      mode: "reduced" (Q of shape (..., m, k), R of (..., k, n)), "complete" (Q of (..., m, m), R of (..., m, n)) or
        "r" (only R, of (..., k, n)).

    Raises:
      ShapeError: `a` has fewer than two axes, or the mode is unknown.

    Example:
      >>> import numpy as np
      >>> q, r = qr(np.array([[3.0, 1.0], [4.0, 2.0]]))
      >>> bool(np.allclose(np.asarray(q) @ np.asarray(r), [[3, 1], [4, 2]]))
      True
    """
    if mode not in ("reduced", "complete", "r"):
        raise ShapeError(f"qr requires mode 'reduced', 'complete' or 'r', got {mode!r}.", where=user_frame())
    a = matrices("qr", a)
    (m, n), stack, kind = a.shape[-2:], a.shape[:-2], letter(a.dtype)
    k = min(m, n)
    scale = _safe_scale(a)
    a = a * convert(scale, a.dtype)
    packed, taus = lapack.routine(f"lapack_{kind}geqrf_ffi", [a], [(a.shape, a.dtype), ((*stack, k), a.dtype)])
    rows = m if mode == "complete" else k
    r = _one_triangle(blocks.block(packed, (0, rows), (0, n)), upper=True) * convert(1.0 / scale, a.dtype)
    if mode == "r":
        return r
    reflectors = blocks.padded(blocks.block(packed, (0, m), (0, k)), m, rows)
    maker = f"lapack_{kind}{'ungqr' if is_complex(a.dtype) else 'orgqr'}_ffi"
    (q,) = lapack.routine(maker, [reflectors, taus], [(reflectors.shape, a.dtype)])
    return QRResult(q, r)


@library
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> Any:
    """Eigenvalues (ascending) and orthonormal eigenvectors of Hermitian matrices: ``a V = V diag(w)``.

    The derivative of the eigenvectors is NaN if two eigenvalues are equal. See `matrix_function`.

    Args:
      a: Hermitian matrices, shape (..., n, n).
      UPLO: "L" or "U" reads only that triangle; None uses (a + a^H) / 2, so that derivatives are symmetric.
      symmetrize_input: False means "L" if UPLO is None.

    Raises:
      ShapeError: the matrices are not square, or UPLO is unknown.

    Example:
      >>> import numpy as np
      >>> np.asarray(eigh(np.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues).round(6).tolist()
      [1.0, 3.0]
    """
    vectors, values = _eigh("eigh", a, UPLO if symmetrize_input else UPLO or "L")
    return EighResult(values, vectors)


@library
def eigvalsh(a: ArrayLike, UPLO: str | None = None, *, symmetrize_input: bool = True) -> Tensor:
    """The eigenvalues of Hermitian matrices in ascending order; arguments and errors as for `eigh`.

    Example:
      >>> import numpy as np
      >>> np.asarray(eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))).round(6).tolist()
      [1.0, 3.0]
    """
    return _eigh("eigvalsh", a, UPLO if symmetrize_input else UPLO or "L")[1]


def _eigh(name: str, a: Any, uplo: str | None) -> tuple[Tensor, Tensor]:
    """The eigenvectors and the eigenvalues of Hermitian matrices; `uplo` names the triangle that is read, and None the mean of
    both.

    `name` is the caller, for errors.
    """
    if uplo not in (None, "L", "U"):
        raise ShapeError(f"{name} requires UPLO 'L', 'U' or None, got {uplo!r}.", where=user_frame())
    a = square(name, a)
    a = hermitian(a) if uplo is None else a
    values = (a.shape[:-1], real_dtype(a.dtype))
    routine = f"lapack_{letter(a.dtype)}{'heevd' if is_complex(a.dtype) else 'syevd'}_ffi"
    results = [(a.shape, a.dtype), values, (a.shape[:-2], _INFO)]
    return tuple(lapack.routine(routine, [a], results, mode="V", uplo=uplo or "L")[:2])  # type: ignore[return-value]


@library
def eig(a: ArrayLike) -> Any:
    """Complex eigenvalues and normalised eigenvectors of general matrices: ``a V = V diag(w)``.

    The derivatives require different eigenvalues.

    Args:
      a: matrices of shape (..., n, n).

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> np.asarray(eig(np.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues).tolist()
      [1j, -1j]
    """
    return EigResult(*_eig("eig", a, vectors=True))


@library
def eigvals(a: ArrayLike) -> Tensor:
    """The eigenvalues of general matrices, complex; arguments and errors as for `eig`.

    Example:
      >>> import numpy as np
      >>> np.asarray(eigvals(np.array([[0.0, 1.0], [-1.0, 0.0]]))).tolist()
      [1j, -1j]
    """
    return _eig("eigvals", a, vectors=False)[0]


def _eig(name: str, a: Any, vectors: bool) -> tuple[Tensor, Tensor]:
    """The complex eigenvalues and the right eigenvectors of general matrices; without `vectors`, the latter have no meaning.

    `name` is the caller, for errors.
    """
    a = square(name, a)
    kind = np.promote_types(a.dtype, np.complex64)
    values = (a.shape[:-1], a.dtype)
    count = 2 if a.dtype.kind == "f" else 1  # LAPACK returns the eigenvalues of a real matrix as two real arrays
    results = [*([values] * count), (a.shape, kind), (a.shape, kind), (a.shape[:-2], _INFO)]
    *parts, _, right, _ = lapack.routine(
        f"lapack_{letter(a.dtype)}geev_ffi", [a], results, compute_left="N", compute_right="V" if vectors else "N"
    )
    return ew.make_complex(*parts) if len(parts) == 2 else parts[0], right


@library
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False, *, algorithm: Any = None
) -> Any:
    """The factors of ``a = U diag(S) Vh``, with descending singular values.

    The derivatives of U and Vh require different singular values that are not zero; the derivatives of S always exist.

    Args:
      a: matrices of shape (..., m, n); k = min(m, n).
      full_matrices: True gives U with m columns and Vh with n rows; False gives k of both.
      compute_uv: False returns only S, of shape (..., k).
      hermitian: True computes the eigenvalues and eigenvectors of the Hermitian part of `a` instead.
      algorithm: has no effect; the library decides.

    Raises:
      ShapeError: `a` has fewer than two axes, or is not square although `hermitian` is True.

    Example:
      >>> import numpy as np
      >>> np.asarray(svd(np.array([[3.0, 0.0], [0.0, -4.0]])).S).round(6).tolist()
      [4.0, 3.0]
    """
    if hermitian:
        return _hermitian_svd(a, compute_uv)
    a = matrices("svd", a)
    (m, n), stack = a.shape[-2:], a.shape[:-2]
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    results = [
        (a.shape, a.dtype),
        ((*stack, k), real_dtype(a.dtype)),
        ((*stack, m, rows), a.dtype),
        ((*stack, columns, n), a.dtype),
        (stack, _INFO),
    ]
    mode = "N" if not compute_uv else "A" if full_matrices else "S"
    _, s, u, vh, _ = lapack.routine(f"lapack_{letter(a.dtype)}gesdd_ffi", [a], results, mode=mode)
    return SVDResult(u, s, vh) if compute_uv else s


def _hermitian_svd(a: ArrayLike, compute_uv: bool) -> Any:
    """The singular value decomposition of a Hermitian matrix, from its eigenvalues w and eigenvectors V.

    S = abs(w) in descending order, U = V, and Vh = sign(w) V^H. Without `compute_uv`, S alone.
    """
    vectors, values = _eigh("svd", a, None)
    size = ew.absolute(values)
    axis = size.ndim - 1
    positions = sh.iota(shape=size.shape, dtype=_INFO, iota_dimension=axis)
    _, order = so.sort(stop_gradient(size), positions, dimension=axis, is_stable=True, comparator="GT")
    size, sign = (along_axis(v, order, axis) for v in (size, ew.sign(values)))
    if not compute_uv:
        return size
    u = along_axis(vectors, sh.expand(order, vectors.shape, (axis,)), axis + 1)
    return SVDResult(u, size, la.adjoint(u * sh.expand(convert(sign, u.dtype), u.shape, (axis,))))


@library
def svdvals(a: ArrayLike) -> Tensor:
    """The singular values of matrices in descending order, shape (..., min(m, n)).

    Example:
      >>> import numpy as np
      >>> np.asarray(svdvals(np.array([[3.0, 0.0], [0.0, -4.0]]))).round(6).tolist()
      [4.0, 3.0]
    """
    return svd(a, compute_uv=False)
