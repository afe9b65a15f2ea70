"""Systems of linear equations, inverses and determinants; matrices are the last two axes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy import extrema
from nabla_mlir.numpy import reductions as red
from nabla_mlir.numpy.axes import Shape
from nabla_mlir.numpy.creation import diagonal as diagonal_of
from nabla_mlir.numpy.factorizations import lu, square
from nabla_mlir.numpy.operands import convert, inexact
from nabla_mlir.numpy.products import matmul
from nabla_mlir.ops import blocks, lapack
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.gather import rows_at
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import library
from nabla_mlir.table.promotion import broadcast_shapes, broadcast_to
from nabla_mlir.table.tensor import Tensor, constant, full, full_like
from nabla_mlir.transforms.control import cond, fori_loop
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.implicit import custom_linear_solve
from nabla_mlir.transforms.linear import jvp
from nabla_mlir.transforms.vectorized import per_vectorized_entry

_FORWARD: dict[str, Any] = {"left_side": True, "lower": True, "unit_diagonal": True, "transpose_a": "NO_TRANSPOSE"}
_BACKWARD: dict[str, Any] = {"left_side": True, "lower": False, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE"}


class SlogdetResult(NamedTuple):
    """The sign of a determinant (for complex numbers the phase) and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


# ---------------------------------------------------------------- helpers
def _stacked(x: Tensor, stack: Shape, rank: int = 2) -> Tensor:
    """Adds the leading axes `stack` to `x`, whose last `rank` axes are a matrix or vector."""
    return broadcast_to(x, (*stack, *x.shape[x.ndim - rank :]))


def _columns(b: Tensor, is_vector: bool) -> Tensor:
    """Right-hand sides as columns: a vector is a matrix with one column."""
    return reshaped(b, (*b.shape, 1)) if is_vector else b


def _check_rows(name: str, a: Tensor, b: Tensor) -> None:
    """Raises ShapeError if the right-hand sides `b` and the matrix `a` have different numbers of rows; `name` is the called
    function.
    """
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"{name} requires right-hand sides with as many rows as the matrix, got {a.shape} and {b.shape}.",
            where=user_frame(),
            help="a vector is one right-hand side; stack several as columns.",
        )


def scaled(x: Tensor, by: Tensor) -> Tensor:
    """Multiplies the columns of `x` by the elements of `by`."""
    return x * reshaped(convert(by, x.dtype), (*by.shape[:-1], 1, by.shape[-1]))


# ---------------------------------------------------------------- systems of equations
@library
def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = True,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """Solves ``op(a) X = b`` (or ``X op(a) = b``) for a triangular matrix; op may transpose and conjugate.

    Args:
      a: matrices of shape (..., n, n); only one triangle is read.
      b: right-hand sides of shape (..., n, k) (if not `left_side`: (..., k, n)), or one vector of shape (n,).
      left_side: True if `a` is on the left of X.
      lower: True reads the lower triangle, False the upper one.
      transpose_a: True transposes `a`.
      conjugate_a: True conjugates `a`.
      unit_diagonal: True replaces the diagonal by ones.

    Raises:
      ShapeError: the matrices are not square, or the shapes do not fit.

    Example:
      >>> import numpy as np
      >>> triangular_solve(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True).tolist()
      [1.0, 2.0]
    """
    a, b = (inexact(x) for x in (a, b))
    a, b = (convert(x, np.promote_types(a.dtype, b.dtype)) for x in (a, b))
    a, is_vector = square("triangular_solve", a), b.ndim == 1
    b = (_columns(b, True) if left_side else reshaped(b, (1, b.size))) if is_vector else b
    _check_rows("triangular_solve", a, b if left_side else la.matrix_transpose(b))
    stack = broadcast_shapes("triangular_solve", [a.shape[:-2], b.shape[:-2]])
    a = ew.conj(a) if conjugate_a and is_complex(a.dtype) else a
    x = la.triangular_solve(
        _stacked(a, stack),
        _stacked(b, stack),
        left_side=left_side,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a="TRANSPOSE" if transpose_a else "NO_TRANSPOSE",
    )
    return reshaped(x, (*stack, a.shape[-1])) if is_vector else x


@library
def solve(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Solves ``a X = b`` by LU with row exchanges. If `a` is singular, the result is not finite.

    Args:
      a: matrices of shape (..., n, n).
      b: right-hand sides of shape (..., n, k), or one vector of shape (n,).

    Raises:
      ShapeError: the matrices are not square, or the shapes do not fit.

    Example:
      >>> import numpy as np
      >>> np.asarray(solve(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([3.0, 4.0]))).round(6).tolist()
      [1.0, 1.0]
    """
    a, b = (inexact(x) for x in (a, b))
    a, b = (convert(x, np.promote_types(a.dtype, b.dtype)) for x in (a, b))
    a, is_vector = square("solve", a), b.ndim == 1
    b = _columns(b, is_vector)
    _check_rows("solve", a, b)
    b = _stacked(b, broadcast_shapes("solve", [a.shape[:-2], b.shape[:-2]]))
    x = _solution(a, b) if a.size and b.size else full_like(b, 0)
    return reshaped(x, x.shape[:-1]) if is_vector else x


@per_vectorized_entry  # the axes of vectorised matrices come before those of right-hand sides
def _solution(a: Tensor, b: Tensor) -> Tensor:
    """The solution of a x = b; derivatives of every order solve with the same factors, which are not differentiated."""
    packed, pivots = lu(stop_gradient(a))  # factored before `a` is repeated for a stack of right-hand sides
    order = _stacked(lapack.row_order(pivots, a.shape[-1]), b.shape[:-2], 1)
    packed = _stacked(packed, b.shape[:-2])

    def solved(_: Any, right: Tensor) -> Tensor:
        """The solution for the right-hand sides `right`, by forward and backward substitution."""
        rows = rows_at(right, order)
        return la.triangular_solve(packed, la.triangular_solve(packed, rows, **_FORWARD), **_BACKWARD)

    def solved_transposed(_: Any, right: Tensor) -> Tensor:
        """The solution with the transpose of `a`, by the same factors in the opposite order."""
        option = {"transpose_a": "TRANSPOSE"}
        rows = la.triangular_solve(packed, right, **{**_BACKWARD, **option})
        return rows_at(la.triangular_solve(packed, rows, **{**_FORWARD, **option}), lapack.inverse_order(order))

    return custom_linear_solve(lambda x: matmul(a, x), b, solved, solved_transposed)


@library
def inv(a: ArrayLike) -> Tensor:
    """The inverse of square matrices, shape (..., n, n). Raises ShapeError if they are not square.

    Example:
      >>> import numpy as np
      >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
      [[0.5, 0.0], [0.0, 0.25]]
    """
    a = square("inv", a)
    return solve(a, la.identity_like(a))


# ---------------------------------------------------------------- determinants
@library
def slogdet(a: ArrayLike, *, method: str | None = None) -> Any:
    """The sign and the logarithm of the absolute value of determinants, by LU with row exchanges.

    Args:
      a: matrices of shape (..., n, n). A singular matrix gives the sign 0 and the logarithm -inf.
      method: "lu" or "qr" of JAX; LU is used for both.

    Raises:
      ShapeError: the matrices are not square, or the method is unknown.

    Example:
      >>> import numpy as np
      >>> sign, logabs = slogdet(np.array([[0.0, 2.0], [3.0, 0.0]]))
      >>> float(sign), round(float(np.exp(logabs)), 6)
      (-1.0, 6.0)
    """
    if method not in (None, "lu", "qr"):
        raise ShapeError(f"slogdet requires method 'lu' or 'qr', got {method!r}.", where=user_frame())
    return SlogdetResult(*_slogdet(square("slogdet", a)))


@custom_jvp
def _slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    """The sign and the logarithm of the determinant, from the diagonal of U and the row exchanges."""
    packed, pivots = lu(a)
    diagonal = diagonal_of(packed, axis1=-2, axis2=-1)
    size = ew.absolute(diagonal)
    direction = diagonal / convert(size, a.dtype) if is_complex(a.dtype) else ew.sign(diagonal)
    sign = red.prod(direction, -1) * convert(_parity(pivots), a.dtype)
    return sign, red.sum(ew.log(size), -1)


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    """The sign and the logarithm of the determinant, and their tangents.

    With t = trace(a^-1 a'), the tangent of the logarithm is Re(t), and that of the sign is i Im(t) sign.
    """
    (a,), (da,) = primals, tangents
    sign, size = _slogdet(a)
    t = red.sum(la.matrix_transpose(_solution(a, la.identity_like(a))) * da, (-2, -1))
    if not is_complex(a.dtype):
        return (sign, size), (full_like(sign, 0), t)
    return (sign, size), (sign * ew.make_complex(full_like(size, 0), ew.imag(t)), ew.real(t))


def _parity(pivots: Tensor) -> Tensor:
    """1 if the number of row exchanges is even, -1 if it is odd."""
    n = pivots.shape[-1]
    positions = broadcast_to(constant(np.arange(1, n + 1, dtype=pivots.dtype)), pivots.shape)
    exchanges = lg.compare(pivots, positions, comparison_direction="NE")
    return red.prod(lg.select(exchanges, full_like(pivots, -1), full_like(pivots, 1)), -1)


@library
def det(a: ArrayLike) -> Tensor:
    """Determinants: by their formula up to 3 x 3, else by LU. Derivatives are correct for singular matrices too.

    Args:
      a: matrices of shape (..., n, n).

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> float(det(np.array([[1.0, 2.0], [3.0, 4.0]])))
      -2.0
    """
    a = square("det", a)
    if a.shape[-1] <= 3:
        return _by_formula(a)
    return _det(a)


@custom_jvp
def _det(a: Tensor) -> Tensor:
    """The determinant: the product of the diagonal of U, with the sign of the row exchanges."""
    packed, pivots = lu(a)
    return red.prod(diagonal_of(packed, axis1=-2, axis2=-1), -1) * convert(_parity(pivots), a.dtype)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
    """The determinant and its tangent by the Jacobi formula: the trace of ``adj(a) a'``."""
    (a,), (da,) = primals, tangents
    return _det(a), red.sum(la.matrix_transpose(_adjugate(a)) * da, (-2, -1))


@custom_jvp
def _adjugate(a: Tensor) -> Tensor:
    """``det(a) a^-1``, also for singular matrices: it is continuous, so a pivot of 0 may be replaced by a tiny number."""
    packed, pivots = lu(a)
    diagonal = diagonal_of(packed, axis1=-2, axis2=-1)
    size = ew.absolute(diagonal)
    largest = extrema.max(size, -1, keepdims=True)
    eps = float(np.finfo(a.dtype).eps)
    tiny = lg.select(lg.compare(largest, full_like(largest, 0), comparison_direction="EQ"), full_like(largest, 1), largest) * eps**2
    is_zero = lg.compare(size, full_like(size, 0), comparison_direction="EQ")
    change = lg.select(is_zero, broadcast_to(tiny, size.shape), full_like(size, 0))
    packed = packed + scaled(la.identity_like(a), change)
    det = red.prod(diagonal + convert(change, a.dtype), -1) * convert(_parity(pivots), a.dtype)
    rows = rows_at(la.identity_like(a), lapack.row_order(pivots, a.shape[-1]))
    inverse = la.triangular_solve(packed, la.triangular_solve(packed, rows, **_FORWARD), **_BACKWARD)
    return inverse * reshaped(det, (*det.shape, 1, 1))


_MOST_ROWS = 12  # the largest matrix for the polynomial, whose terms cancel in large matrices


@_adjugate.defjvp
def _adjugate_jvp(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
    """The adjugate matrix, and its tangent ``(trace(adj a') I - adj a') a^-1``.

    Near singular matrices, where this formula cancels, the tangent is the derivative of a polynomial.
    """
    (a,), (da,) = primals, tangents
    adjugate = _adjugate(a)
    size = ew.absolute(diagonal_of(lu(stop_gradient(a))[0], axis1=-2, axis2=-1))
    bound = extrema.max(size, -1) * (float(np.finfo(a.dtype).eps) ** 0.5 if a.shape[-1] <= _MOST_ROWS else 0.0)
    singular = lg.compare(extrema.min(size, -1), bound, comparison_direction="LE")
    singular = broadcast_to(reshaped(singular, (*singular.shape, 1, 1)), a.shape)

    product = la.matmul(adjugate, da)
    trace = red.sum(diagonal_of(product, axis1=-2, axis2=-1), -1)
    inner = la.identity_like(a) * reshaped(trace, (*trace.shape, 1, 1)) - product
    regular = la.matmul(inner, inv(lg.select(singular, la.identity_like(a), a)))

    def with_singular_ones() -> Tensor:
        """The tangent with the polynomial's derivative for matrices near singular ones; NaN if there are too many rows."""
        many = a.shape[-1] > _MOST_ROWS
        other = full_like(a, np.nan) * da if many else jvp(_adjugate_polynomial, (a,), (da,))[1]
        return lg.select(singular, other, regular)

    return adjugate, cond(red.any(singular), with_singular_ones, lambda: regular)


def _adjugate_polynomial(a: Tensor) -> Tensor:
    """The adjugate of a matrix of any rank, by products and sums of matrices (Faddeev and Le Verrier)."""
    n, one = a.shape[-1], la.identity_like(a)
    scale = stop_gradient(extrema.max(ew.absolute(a), (-2, -1), keepdims=True))
    is_zero = lg.compare(scale, full_like(scale, 0), comparison_direction="EQ")
    scale = convert(lg.select(is_zero, full_like(scale, 1), scale), a.dtype)
    unit = a / scale

    def step(k: Tensor, total: Tensor) -> Tensor:
        """One step of Faddeev and Le Verrier: M_(k+1) = A M_k - trace(A M_k) / (k + 1) I."""
        product = la.matmul(unit, total)
        trace = red.sum(diagonal_of(product, axis1=-2, axis2=-1), -1)
        return product - one * reshaped(trace / (convert(k, a.dtype) + 1.0), (*trace.shape, 1, 1))

    total = fori_loop(0, n - 1, step, one)
    return total * (-1.0) ** (n - 1) * ew.power(scale, full_like(scale, n - 1))


def _by_formula(a: Tensor) -> Tensor:
    """The determinants of stacked matrices by expansion along the first row, for few rows."""
    n, stack = a.shape[-1], a.shape[:-2]
    if n == 0:
        return full(stack, 1, a.dtype)
    total = None
    for j in range(n):
        entry = reshaped(blocks.block(a, (0, 1), (j, j + 1)), stack)
        others = [blocks.block(a, (1, n), (k, k + 1)) for k in range(n) if k != j]
        minor = _by_formula(sh.concatenate(*others, dimension=a.ndim - 1)) if others else full_like(entry, 1)
        term = entry * minor
        total = term if total is None else total - term if j % 2 else total + term
    return total  # type: ignore[return-value]  # n > 0
