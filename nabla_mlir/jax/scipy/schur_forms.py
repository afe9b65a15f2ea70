"""The Schur form of matrices, the Hessenberg form, and applications: functions of matrices, the Sylvester equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy import factorizations as fa
from nabla_mlir.numpy import forms
from nabla_mlir.numpy.creation import diagonal
from nabla_mlir.numpy.indexing import take
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert, tensor
from nabla_mlir.numpy.padding import pad
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.systems import solve, triangular_solve
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.blocks import padded
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import library
from nabla_mlir.table.promotion import broadcast_shapes, broadcast_to
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.control import fori_loop
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.implicit import custom_linear_solve
from nabla_mlir.transforms.linear import jvp
from nabla_mlir.transforms.vectorized import per_vectorized_entry

_NARROW = np.int8  # the dtype of constants, which promote to the dtype of any floating-point operand


# ---------------------------------------------------------------- forms
@library
def schur(a: Any, output: str = "real") -> tuple[Tensor, Tensor]:
    """The factors of ``a = Z T Z^H``: T is upper triangular, with 2 x 2 blocks if it is real, and Z is unitary.

    The function has no derivative, as in JAX.

    Args:
      a: matrices of shape (..., n, n).
      output: "real" gives T in the dtype of `a`, with a block for each pair of conjugate eigenvalues; "complex" gives no blocks.

    Raises:
      ShapeError: the matrices are not square, or `output` is unknown.

    Example:
      >>> t, z = schur(np.array([[1.0, 2.0], [3.0, 4.0]]))
      >>> bool(np.allclose(z @ t @ z.T, [[1, 2], [3, 4]])), round(abs(float(t[1, 0])), 6)
      (True, 0.0)
    """
    if output not in ("real", "complex"):
        raise ShapeError(f"schur requires output 'real' or 'complex', got {output!r}.", where=user_frame())
    a = fa.square("schur", a)
    return forms.schur(_complex(a) if output == "complex" else a)


@library
def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Returns H of ``a = Q H Q^H``, which is zero below its first subdiagonal; with `calc_q` also the unitary Q.

    The function has no derivative.

    Args:
      a: matrices of shape (..., n, n).
      calc_q: True returns Q too.
      overwrite_a, check_finite: have no effect.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> h, q = hessenberg(np.ones((3, 3)), calc_q=True)
      >>> float(h[2, 0]), bool(np.allclose(q @ h @ q.T, 1))
      (0.0, True)
    """
    a = fa.square("hessenberg", a)
    n = a.shape[-1]
    if n < 3:
        return (a, la.identity_like(a)) if calc_q else a
    packed, taus = forms.hessenberg(a)
    h = where(np.tri(n, k=-2, dtype=bool), 0, packed)
    if not calc_q:
        return h
    inner = forms.householder_product(packed[..., 1:, :-1], taus)
    corner = la.identity_like(a) * convert(tensor(np.eye(1, n)[0][:, None]), a.dtype)
    return h, padded(inner, n, n, before=True) + corner


@library
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """Converts a real Schur form (`T` and `Z` of `schur`) to the complex form, whose T is triangular.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> t, z = rsf2csf(*schur(np.array([[0.0, 1.0], [-1.0, 0.0]])))
      >>> np.diagonal(t).imag.round(6).tolist()
      [1.0, -1.0]
    """
    t, z = _complex(fa.square("rsf2csf", T)), _complex(fa.square("rsf2csf", Z))
    dtype, n = np.result_type(t.dtype, z.dtype), t.shape[-1]
    t, z = convert(t, dtype), convert(z, dtype)
    if n < 2:
        return t, z
    values = diagonal(t, axis1=-2, axis2=-1)
    below, above = (diagonal(t, offset=k, axis1=-2, axis2=-1) for k in (-1, 1))
    before, after = values[..., :-1], values[..., 1:]
    bound = float(np.finfo(dtype).eps) * (ew.absolute(before) + ew.absolute(after))
    is_block = ew.absolute(below) > bound
    half = (before - after) * 0.5
    offset = half + ew.sqrt(half * half + above * below)  # an eigenvalue minus the second element of the diagonal
    length = ew.sqrt(ew.absolute(offset) ** 2 + ew.absolute(below) ** 2)
    length = convert(where(is_block, length, 1), dtype)
    cosine, sine = where(is_block, offset / length, 1), where(is_block, below / length, 0)
    ones = cosine[..., :1] * 0 + 1
    on = concatenate([ew.conj(cosine), ones], -1) * concatenate([ones, cosine], -1)
    rotation = _on_diagonal(on, 0) + _on_diagonal(sine, 1) - _on_diagonal(sine, -1)
    t = matmul(matmul(rotation, t), la.adjoint(rotation))
    return where(np.tri(n, k=-1, dtype=bool), 0, t), matmul(z, la.adjoint(rotation))


def _on_diagonal(values: Tensor, k: int) -> Tensor:
    """Matrices with the vectors `values` on the k-th diagonal, and zeros elsewhere."""
    low, high = max(-k, 0), max(k, 0)
    square = values[..., None] * np.eye(values.shape[-1], dtype=_NARROW)
    return pad(square, [(0, 0)] * (values.ndim - 1) + [(low, high), (high, low)])


def _complex(x: Tensor) -> Tensor:
    return convert(x, np.result_type(x.dtype, np.complex64))


# ---------------------------------------------------------------- Sylvester's equation
@library
def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Tensor:
    """Solves ``A X + X B = C`` by the Schur forms of A and B; NaN if an eigenvalue of A plus one of B is near zero.

    Derivatives of every order solve the same equation (Bartels and Stewart 1972).

    Args:
      A: matrices of shape (..., m, m).
      B: matrices of shape (..., n, n).
      C: right-hand sides of shape (..., m, n).
      method: "schur" or "eigen"; both are computed by Schur forms.
      tol: the smallest accepted sum of eigenvalues.

    Raises:
      ShapeError: the shapes do not fit, or the method is unknown.

    Example:
      >>> solve_sylvester(np.eye(2), np.eye(2), np.array([[2.0, 4.0], [6.0, 8.0]])).round(6).tolist()
      [[1.0, 2.0], [3.0, 4.0]]
    """
    a, b, c = fa.square("solve_sylvester", A), fa.square("solve_sylvester", B), fa.matrices("solve_sylvester", C)
    if method not in ("schur", "eigen") or c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"solve_sylvester requires method 'schur' or 'eigen' and C of shape (..., m, n), got {method!r}, "
            f"{a.shape}, {b.shape} and {c.shape}.",
            where=user_frame(),
        )
    dtype = np.result_type(a.dtype, b.dtype, c.dtype)
    stack = broadcast_shapes("solve_sylvester", [x.shape[:-2] for x in (a, b, c)])
    a, b, c = (broadcast_to(convert(x, dtype), (*stack, *x.shape[-2:])) for x in (a, b, c))
    return _sylvester(a, b, c, tol)


@per_vectorized_entry
def _sylvester(a: Tensor, b: Tensor, c: Tensor, tol: float) -> Tensor:
    """The solution of A X + X B = C as a linear solve, so that derivatives of every order solve the equation, too.

    NaN if the sum of an eigenvalue of A and one of B is below `tol`.
    """
    left, right = (schur(stop_gradient(x), "complex") for x in (a, b))
    sums = diagonal(left[0], axis1=-2, axis2=-1)[..., :, None] + diagonal(right[0], axis1=-2, axis2=-1)[..., None, :]
    is_solvable = (ew.absolute(sums) >= tol).all((-2, -1), keepdims=True)

    def solution(_: Any, c: Tensor) -> Tensor:
        """The solution for the right-hand side c, by the Schur forms."""
        return _by_forms(left, right, c, is_solvable)

    def of_transpose(_: Any, c: Tensor) -> Tensor:
        """The solution Y of Aᵀ Y + Y Bᵀ = c: its transpose solves B Yᵀ + Yᵀ A = cᵀ."""
        return la.matrix_transpose(_by_forms(right, left, la.matrix_transpose(c), is_solvable))

    return custom_linear_solve(lambda x: matmul(a, x) + matmul(x, b), c, solution, of_transpose)


def _by_forms(left: Any, right: Any, c: Tensor, is_solvable: Tensor) -> Tensor:
    """The solution of A X + X B = C, from the Schur forms `left` and `right`, (T, Z), of A and B; NaN unless it is solvable."""
    (r, u), (s, v) = left, right
    y = _triangular_sylvester(r, s, matmul(matmul(la.adjoint(u), _complex(c)), v))
    x = matmul(matmul(u, y), la.adjoint(v))
    return where(is_solvable, x if is_complex(c.dtype) else ew.real(x), np.nan)


def _triangular_sylvester(r: Tensor, s: Tensor, f: Tensor) -> Tensor:
    """The solution of R Y + Y S = F for upper triangular R and S (`r` and `s`), column after column.

    Column j solves (R + S[j, j]) Y[:, j] = F[:, j] - the sum over k < j of Y[:, k] S[k, j].
    """
    columns, unit = np.arange(f.shape[-1]), np.eye(r.shape[-1], dtype=_NARROW)

    def step(j: Any, y: Tensor) -> Tensor:
        """The solution `y` with column j, which is computed from the columns before it."""
        column = _column(s, j)
        right = _column(f, j) - matmul(y, column)
        new = triangular_solve(r + unit * _row(column, j), right)
        return where(columns == j, new, y)

    return fori_loop(0, f.shape[-1], step, f * 0)


def _column(x: Tensor, j: Any) -> Tensor:
    return take(x, reshaped(tensor(j), (1,)), axis=-1)


def _row(x: Tensor, j: Any) -> Tensor:
    return take(x, reshaped(tensor(j), (1,)), axis=-2)


# ---------------------------------------------------------------- functions of matrices
def sqrtm(A: Any, blocksize: int = 1) -> Tensor:
    """The complex matrix X with ``X X = A`` whose eigenvalues have no negative real part (Björck and Hammarling 1983).

    Its derivative solves ``X X' + X' X = A'``. A singular matrix may have no root; then the result is not finite.

    Args:
      A: matrices of shape (..., n, n).
      blocksize: has no effect.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> sqrtm(np.array([[4.0, 1.0], [0.0, 9.0]])).real.round(6).tolist()
      [[2.0, 0.2], [0.0, 3.0]]
    """
    return _sqrtm(A)


@library
def _sqrtm(a: Any) -> Tensor:
    return _root(fa.square("sqrtm", a))


@custom_jvp
def _root(a: Tensor) -> Tensor:
    """The square root of a matrix, from its Schur form, column after column.

    For T = U²: column j of U above the diagonal solves (U + U[j, j]) U[:, j] = T[:, j] with the columns before it.
    """
    t, z = _triangular(a)
    rows, columns, unit = np.arange(t.shape[-1])[:, None], np.arange(t.shape[-1]), np.eye(t.shape[-1], dtype=_NARROW)

    def step(j: Any, u: Tensor) -> Tensor:
        """The square root `u` with column j above the diagonal; infinite where the root does not exist."""
        system = u + unit * _row(_column(u, j), j)
        is_zero = (unit == 1) & (system == 0)
        new = triangular_solve(where(is_zero, 1, system), where(rows < j, _column(t, j), 0))
        new = where(is_zero.any(-1, keepdims=True) & (new != 0), np.inf, new)
        return where((columns == j) & (rows < j), new, u)

    root = fori_loop(0, t.shape[-1], step, where(unit == 1, ew.sqrt(t), 0))
    return matmul(matmul(z, root), la.adjoint(z))


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> Any:
    """The square root X of a matrix, and its tangent Y, the solution of X Y + Y X = da."""
    (a,), (da,) = primals, tangents
    x = _root(a)
    return x, solve_sylvester(x, x, da, tol=0.0)


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """Returns ``func`` of a matrix as a complex matrix, by the Parlett recurrence in the Schur form; eigenvalues must differ.

    Derivatives are those of ``V f(w) V^-1`` with the eigenvalues w and the eigenvectors V.

    Args:
      A: matrices of shape (..., n, n).
      func: a function of arrays, element by element, which is called with the eigenvalues.
      disp: False returns an estimate of the relative error too.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> funm(np.array([[1.0, 1.0], [0.0, 2.0]]), lambda x: x * x).real.round(6).tolist()
      [[1.0, 3.0], [0.0, 4.0]]
    """

    @custom_jvp
    def value(a: Tensor) -> tuple[Tensor, Tensor]:
        """The function of the matrix, and the estimate of the error."""
        return _parlett(a, func)

    @value.defjvp
    def value_jvp(primals: Any, tangents: Any) -> Any:
        """The results of `value`, and their tangents: those of the formula with eigenvectors, and 0 for the error."""

        def by_vectors(a: Tensor) -> Tensor:
            """The function of A = V diag(w) V^-1 by eigenvectors: V diag(func(w)) V^-1."""
            w, v = fa.eig(a)
            return la.adjoint(solve(la.adjoint(v), la.adjoint(v * func(w)[..., None, :])))

        result, error = value(*primals)
        return (result, error), (jvp(by_vectors, primals, tangents)[1], error * 0)

    @library
    def of_matrix(a: Any) -> Any:
        """The results of `value` for square matrices; raises ShapeError for others."""
        return value(fa.square("funm", a))

    result, error = of_matrix(A)
    return result if disp else (result, error)


def _triangular(a: Tensor) -> tuple[Tensor, Tensor]:
    """The complex Schur form of a matrix.

    Real eigenvalues of a real matrix have the imaginary part 0, because its sign selects the root.
    """
    return schur(a) if is_complex(a.dtype) else rsf2csf(*schur(a))


def _parlett(a: Tensor, func: Callable[[Any], Any]) -> tuple[Tensor, Tensor]:
    """The function `func` of the matrix `a` by the Parlett recurrence, and SciPy's estimate of the relative error.

    See Golub and Van Loan, algorithm 9.1.1.
    """
    t, z = _triangular(a)
    n, eps = t.shape[-1], float(np.finfo(t.dtype).eps)
    rows, columns, unit = np.arange(n)[:, None], np.arange(n), np.eye(n, dtype=_NARROW)
    values = diagonal(t, axis1=-2, axis2=-1)

    def step(j: Any, f: Tensor) -> Tensor:
        """The matrix `f` with column j above the diagonal, which is computed from the columns before it.

        F T = T F gives (T - T[j, j]) F[:, j] = F T[:, j] - F[j, j] T[:, j].
        """
        system = t - unit * _row(_column(t, j), j)
        system = where((unit == 1) & (system == 0), 1, system)
        column = _column(t, j)
        right = matmul(f, column) - _row(_column(f, j), j) * column
        new = triangular_solve(system, where(rows < j, right, 0))
        return where((columns == j) & (rows < j), new, f)

    f = fori_loop(0, n, step, where(unit == 1, convert(func(values), t.dtype)[..., None, :], 0))
    result = matmul(matmul(z, f), la.adjoint(z))
    # SciPy's estimate: the size of T above the diagonal times eps, divided by the smallest distance of two eigenvalues.
    gaps = ew.absolute(values[..., :, None] - values[..., None, :])
    least = where((columns > rows) & (gaps > 0), gaps, ew.absolute(values[..., :1, None])).min((-2, -1))
    least = where(least > 0, least, eps)
    size = where(columns > rows, ew.absolute(t), 0).sum(-2).max(-1)
    error = where(size * eps / least < eps, eps, where(size * eps / least > 1, 1, size * eps / least))
    return result, error
