"""Linear algebra with the names and semantics of `numpy.linalg`, differentiable to any order and batched.

Matrices are the last two axes; all axes in front of them are stacked. Factorisations are in `factorizations.py`;
here is what is made of them, and norms.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.control import fori_loop
from nabla_mlir.custom import custom_jvp
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.eager import library
from nabla_mlir.errors import ShapeError, user_frame
from nabla_mlir.implicit import custom_linear_solve
from nabla_mlir.numpy import reductions as red
from nabla_mlir.numpy.common import Axis, Shape, axes_of, convert, inexact, reshaped, transposed
from nabla_mlir.numpy.creation import diagonal as diagonal_of
from nabla_mlir.numpy.factorizations import cholesky as cholesky
from nabla_mlir.numpy.factorizations import eigh as eigh
from nabla_mlir.numpy.factorizations import eigvalsh as eigvalsh
from nabla_mlir.numpy.factorizations import lu, matrices, real_dtype, square
from nabla_mlir.numpy.factorizations import qr as qr
from nabla_mlir.numpy.factorizations import svd as svd
from nabla_mlir.numpy.factorizations import svdvals as svdvals
from nabla_mlir.numpy.products import cross as cross
from nabla_mlir.numpy.products import matmul as matmul
from nabla_mlir.numpy.products import outer as outer
from nabla_mlir.numpy.products import tensordot as tensordot
from nabla_mlir.numpy.products import trace as trace
from nabla_mlir.numpy.products import vecdot as vecdot
from nabla_mlir.numpy.shape import matrix_transpose as matrix_transpose
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import lapack
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.promotion import broadcast_shapes, broadcast_to
from nabla_mlir.ops.tensor import Tensor, constant, full, full_like
from nabla_mlir.vectorized import per_entry

_FORWARD: dict[str, Any] = {"left_side": True, "lower": True, "unit_diagonal": True, "transpose_a": "NO_TRANSPOSE"}
_BACKWARD: dict[str, Any] = {"left_side": True, "lower": False, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE"}


class SlogdetResult(NamedTuple):
    """The sign of a determinant (of a complex one: its phase) and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


# ---------------------------------------------------------------- words
def _stacked(x: Tensor, stack: Shape, rank: int = 2) -> Tensor:
    """`x`, whose last `rank` axes are a matrix or vector, with these axes in front."""
    return broadcast_to(x, (*stack, *x.shape[x.ndim - rank :]))


def _columns(b: Tensor, is_vector: bool) -> Tensor:
    return reshaped(b, (*b.shape, 1)) if is_vector else b


def _check_rows(name: str, a: Tensor, b: Tensor) -> None:
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"{name} requires right-hand sides with as many rows as the matrix, got {a.shape} and {b.shape}.",
            where=user_frame(), help="a vector is one right-hand side; stack several as columns.",
        )  # fmt: skip


def _with_diagonal(values: Tensor) -> Tensor:
    """Matrices with these vectors on their diagonal."""
    n = values.shape[-1]
    wide = sh.broadcast_in_dim(values, shape=(*values.shape, n), broadcast_dimensions=tuple(range(values.ndim)))
    return la.on_diagonal(wide)


def _scaled(x: Tensor, by: Tensor) -> Tensor:
    """The columns of `x` times the entries of `by`."""
    return x * reshaped(convert(by, x.dtype), (*by.shape[:-1], 1, by.shape[-1]))


# ---------------------------------------------------------------- systems of equations
@library
def triangular_solve(
    a: Any, b: Any, *, left_side: bool = True, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Tensor:  # fmt: skip
    """X with ``op(a) X = b`` (or ``X op(a) = b``) for a triangular matrix, where op may transpose and conjugate.

    Args:
      a: matrices of shape (..., n, n), of which one triangle is read.
      b: right-hand sides of shape (..., n, k) (if not `left_side`: (..., k, n)), or one vector of shape (n,).
      left_side: whether `a` stands on the left of X.
      lower: which triangle is read.
      transpose_a: whether `a` is transposed.
      conjugate_a: whether `a` is conjugated.
      unit_diagonal: whether the diagonal counts as ones and is not read.

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
        _stacked(a, stack), _stacked(b, stack), left_side=left_side, lower=lower, unit_diagonal=unit_diagonal,
        transpose_a="TRANSPOSE" if transpose_a else "NO_TRANSPOSE",
    )  # fmt: skip
    return reshaped(x, (*stack, a.shape[-1])) if is_vector else x


@library
def solve(a: Any, b: Any) -> Tensor:
    """X with ``a X = b``, by LU with row exchanges. Where `a` is singular the result is not finite.

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
    x = _solution(a, _stacked(b, broadcast_shapes("solve", [a.shape[:-2], b.shape[:-2]])))
    return reshaped(x, x.shape[:-1]) if is_vector else x


@per_entry  # so that the axes of vectorised matrices come before those of right-hand sides
def _solution(a: Tensor, b: Tensor) -> Tensor:
    """Differentiated by the equation: the factors serve the derivatives of every order, and have none themselves."""
    packed, pivots = lu(stop_gradient(a))  # before it is repeated for a stack of right-hand sides
    packed, pivots = _stacked(packed, b.shape[:-2]), _stacked(pivots, b.shape[:-2], 1)

    def found(_: Any, right: Tensor) -> Tensor:
        rows = lapack.exchanged_rows(right, pivots)
        return la.triangular_solve(packed, la.triangular_solve(packed, rows, **_FORWARD), **_BACKWARD)

    def found_transposed(_: Any, right: Tensor) -> Tensor:
        turned = {"transpose_a": "TRANSPOSE"}
        rows = la.triangular_solve(packed, right, **{**_BACKWARD, **turned})
        return lapack.exchanged_rows(la.triangular_solve(packed, rows, **{**_FORWARD, **turned}), pivots, back=True)

    return custom_linear_solve(lambda x: matmul(a, x), b, found, found_transposed)


@library
def inv(a: Any) -> Tensor:
    """The inverse of square matrices, shape (..., n, n). Raises ShapeError if they are not square.

    Example:
      >>> import numpy as np
      >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
      [[0.5, 0.0], [0.0, 0.25]]
    """
    a = square("inv", a)
    return solve(a, la.identity_like(a))


@library
def pinv(a: Any, rcond: float | None = None) -> Tensor:
    """The pseudo-inverse; singular values below ``rcond * largest`` count as zero.

    With C = A V and B = U^H A, of the singular vectors that count, A = C M^-1 B near where it is evaluated, so
    ``pinv(A) = pinv(B) M pinv(C)``, whose factors have full rank. That form supplies the derivatives, which are those
    at constant rank (Golub and Pereyra 1973); the value is that of the singular value decomposition.

    Args:
      a: matrices of shape (..., m, n).
      rcond: 10 max(m, n) times the machine epsilon if None.

    Raises:
      ShapeError: `a` has fewer than two axes.

    Example:
      >>> import numpy as np
      >>> np.asarray(pinv(np.array([[2.0], [0.0]]))).round(6).tolist()
      [[0.5, 0.0]]
    """
    a = matrices("pinv", a)
    if not a.size:
        return la.adjoint(a)
    rcond = 10 * max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rcond is None else rcond
    u, s, vh = (stop_gradient(x) for x in svd(stop_gradient(a), full_matrices=False))
    counts = ew.compare(s, broadcast_to(_largest(s) * rcond, s.shape), comparison_direction="GT")
    one = full_like(s, 1)
    mask, apart = (ew.select(counts, x, y) for x, y in ((one, full_like(s, 0)), (full_like(s, 0), one)))
    value = la.matmul(_scaled(la.adjoint(vh), mask / ew.select(counts, s, one)), la.adjoint(u))
    u, v = _scaled(u, mask), _scaled(la.adjoint(vh), mask)
    rest = _with_diagonal(convert(apart, a.dtype))
    c, b = la.matmul(a, v), la.matmul(la.adjoint(u), a)
    left = la.adjoint(solve(la.matmul(b, la.adjoint(b)) + rest, b))
    right = solve(la.matmul(la.adjoint(c), c) + rest, la.adjoint(c))
    smooth = la.matmul(la.matmul(left, la.matmul(b, v)), right)
    return value + (smooth - stop_gradient(smooth))


def _largest(s: Tensor) -> Tensor:
    """The first of descending singular values, with an axis of size 1 in its place."""
    return red.max(s, -1, keepdims=True)


@library
def matrix_rank(a: Any, rtol: float | None = None) -> Tensor:
    """The number of singular values above ``rtol * largest`` (max(m, n) times the machine epsilon if None).

    Example:
      >>> import numpy as np
      >>> int(matrix_rank(np.array([[1.0, 2.0], [2.0, 4.0]])))
      1
    """
    a = matrices("matrix_rank", a)
    rtol = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
    s = svdvals(a)
    return red.count_nonzero(ew.compare(s, broadcast_to(_largest(s) * rtol, s.shape), comparison_direction="GT"), -1)


# ---------------------------------------------------------------- determinants
@library
def slogdet(a: Any) -> Any:
    """The sign and the logarithm of the absolute value of determinants, by LU with row exchanges.

    Args:
      a: matrices of shape (..., n, n). Of a singular one the sign is 0 and the logarithm -inf.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> sign, logabs = slogdet(np.array([[0.0, 2.0], [3.0, 0.0]]))
      >>> float(sign), round(float(np.exp(logabs)), 6)
      (-1.0, 6.0)
    """
    return SlogdetResult(*_slogdet(square("slogdet", a)))


@custom_jvp
def _slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    packed, pivots = lu(a)
    diagonal = diagonal_of(packed, axis1=-2, axis2=-1)
    size = ew.absolute(diagonal)
    direction = diagonal / convert(size, a.dtype) if is_complex(a.dtype) else ew.sign(diagonal)
    sign = red.prod(direction, -1) * convert(_parity(pivots), a.dtype)
    return sign, red.sum(ew.log(size), -1)


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> Any:
    """With t = trace(a^-1 a'), the logarithm moves by the real part of t and the sign by i Im(t) sign."""
    (a,), (da,) = primals, tangents
    sign, size = _slogdet(a)
    t = red.sum(la.matrix_transpose(_solution(a, la.identity_like(a))) * da, (-2, -1))
    if not is_complex(a.dtype):
        return (sign, size), (full_like(sign, 0), t)
    return (sign, size), (sign * ew.make_complex(full_like(size, 0), ew.imag(t)), ew.real(t))


def _parity(pivots: Tensor) -> Tensor:
    """1 or -1, as the number of exchanges is even or odd."""
    n = pivots.shape[-1]
    places = broadcast_to(constant(np.arange(1, n + 1, dtype=pivots.dtype)), pivots.shape)
    moved = ew.compare(pivots, places, comparison_direction="NE")
    return red.prod(ew.select(moved, full_like(pivots, -1), full_like(pivots, 1)), -1)


@library
def det(a: Any) -> Tensor:
    """Determinants: up to 3 x 3 by their formula (whose derivatives hold for singular matrices too), else by LU.

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
    packed, pivots = lu(a)
    return red.prod(diagonal_of(packed, axis1=-2, axis2=-1), -1) * convert(_parity(pivots), a.dtype)


def _by_formula(a: Tensor) -> Tensor:
    """Expansion along the first row."""
    n, stack = a.shape[-1], a.shape[:-2]
    if n == 0:
        return full(stack, 1, a.dtype)
    total = None
    for j in range(n):
        entry = reshaped(lapack.block(a, (0, 1), (j, j + 1)), stack)
        others = [lapack.block(a, (1, n), (k, k + 1)) for k in range(n) if k != j]
        rest = _by_formula(sh.concatenate(*others, dimension=a.ndim - 1)) if others else full_like(entry, 1)
        term = entry * rest
        total = term if total is None else total - term if j % 2 else total + term
    return total  # type: ignore[return-value]  # n > 0


# ---------------------------------------------------------------- functions of matrices
@library
def matrix_power(a: Any, n: int) -> Tensor:
    """``a @ a @ ... @ a``, n factors, by repeated squaring; of the inverse if n < 0.

    Args:
      a: matrices of shape (..., m, m).
      n: a static integer.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> matrix_power(np.array([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
      [[1.0, 5.0], [0.0, 1.0]]
    """
    a, n = square("matrix_power", a), operator.index(n)
    if n < 0:
        a, n = inv(a), -n
    result, power = None, a
    while n:
        if n & 1:
            result = power if result is None else la.matmul(result, power)
        n >>= 1
        power = la.matmul(power, power) if n else power
    return la.identity_like(a) if result is None else result


# Coefficients of the diagonal Pade approximants of exp, and the 1-norm up to which they reach machine precision
# (Higham 2005, "The scaling and squaring method for the matrix exponential revisited").
_PADE = {4: (7, 3.925724783138660), 8: (13, 5.371920351148152)}
_SQUARINGS = 16


@library
def expm(a: Any) -> Tensor:
    """The matrix exponential, by scaling and squaring of a Pade approximant.

    Args:
      a: matrices of shape (..., n, n); where the 1-norm is above 3e5 (f64) or 2e5 (f32) the result is NaN.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> np.asarray(expm(np.array([[0.0, 1.0], [0.0, 0.0]]))).round(6).tolist()
      [[1.0, 1.0], [0.0, 1.0]]
    """
    a = square("expm", a)
    real = real_dtype(a.dtype)
    degree, reach = _PADE[real.itemsize]
    size = red.max(red.sum(ew.absolute(stop_gradient(a)), -2), -1) if a.size else full(a.shape[:-2], 0, real)
    # The first power of two that is large enough, found by counting those that are too small.
    too_small = [ew.compare(size, full_like(size, reach * 2.0**k), comparison_direction="GT")
                 for k in range(_SQUARINGS + 1)]  # fmt: skip
    factor = full_like(size, 1)
    for above in too_small[:_SQUARINGS]:
        factor = ew.select(above, factor * 0.5, factor)
    factor = ew.select(too_small[_SQUARINGS], full_like(size, math.nan), factor)
    wide = lambda v: broadcast_to(reshaped(v, (*v.shape, 1, 1)), a.shape)  # noqa: E731
    result = _pade(a * convert(wide(factor), a.dtype), degree)

    def square_again(i: Any, carry: Any) -> Any:
        result, factor = carry
        more = ew.compare(factor, full_like(factor, 1), comparison_direction="LT")
        squared = ew.select(wide(more), la.matmul(result, result), result)
        return squared, ew.select(more, factor + factor, factor)

    return fori_loop(0, _SQUARINGS, square_again, (result, factor))[0]


def _pade(a: Tensor, degree: int) -> Tensor:
    """The approximant inv(V - U) (V + U), U its odd and V its even part."""
    f = math.factorial
    numbers = [f(2 * degree - k) * f(degree) / (f(2 * degree) * f(k) * f(degree - k)) for k in range(degree + 1)]
    identity, squared = la.identity_like(a), la.matmul(a, a)
    powers = [identity, squared]
    while len(powers) <= degree // 2:
        powers.append(la.matmul(powers[-1], squared))
    odd, even = (_combination(numbers[start::2], powers) for start in (1, 0))
    odd = la.matmul(a, odd)
    return solve(even - odd, even + odd)


def _combination(numbers: Sequence[float], powers: Sequence[Tensor]) -> Tensor:
    total = powers[0] * numbers[0]
    for number, power in zip(numbers[1:], powers[1:], strict=False):
        total = total + power * number
    return total


# ---------------------------------------------------------------- norms
@library
def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors or matrices. Where a root is taken of 0 the derivative is 0.

    Args:
      x: an array.
      ord: for vectors any number: ``sum(|x|**ord)**(1/ord)``, with the limits inf, -inf and 0 (the number of non-zeros);
        for matrices 1, -1, inf, -inf (sums of columns or rows), 2, -2 (singular values), "fro" or "nuc". None is 2 for
        vectors and "fro" for matrices.
      axis: one axis of vectors or two of matrices; None takes all of `x`, flattened if `ord` is None.
      keepdims: whether reduced axes stay with size 1.

    Raises:
      ShapeError: there is no such norm, or `axis` names neither one axis nor two.

    Example:
      >>> import numpy as np
      >>> float(norm(np.array([3.0, 4.0])))
      5.0
    """
    x = inexact(x)
    axes = axes_of("norm", axis, x.ndim)
    if axis is None and ord is None:
        out = _root(red.sum(_squares(x), axes))
    elif len(axes) == 1:
        out = _vector_norm(x, ord, axes[0])
    elif len(axes) == 2:
        out = _matrix_norm(x, ord, axes)
    else:
        raise ShapeError(f"norm requires one axis or two, got {axes} of shape {x.shape}.", where=user_frame())
    return red.keep(out, x.shape, axes) if keepdims else out


def _squares(x: Tensor) -> Tensor:
    return ew.real(x) * ew.real(x) + ew.imag(x) * ew.imag(x) if is_complex(x.dtype) else x * x


def _root(x: Tensor, p: float = 2) -> Tensor:
    """The p-th root, whose derivative at 0 is taken to be 0."""
    at_zero = ew.compare(x, full_like(x, 0), comparison_direction="EQ")
    safe = ew.select(at_zero, full_like(x, 1), x)
    return ew.select(at_zero, full_like(x, 0), ew.sqrt(safe) if p == 2 else ew.power(safe, full_like(x, 1 / p)))


def _vector_norm(x: Tensor, ord: Any, axis: int) -> Tensor:
    if ord is None or ord == 2:
        return _root(red.sum(_squares(x), axis))
    if isinstance(ord, str):
        raise ShapeError(f"norm requires a number as the order of a vector norm, got {ord!r}.", where=user_frame())
    size = ew.absolute(x)
    if math.isinf(ord):
        return (red.max if ord > 0 else red.min)(size, axis)
    if ord == 0:
        return convert(red.count_nonzero(x, axis), size.dtype)
    if ord == 1:
        return red.sum(size, axis)
    return _root(red.sum(ew.power(size, full_like(size, ord)), axis), ord)


def _matrix_norm(x: Tensor, ord: Any, axes: Sequence[int]) -> Tensor:
    rows, columns = axes
    if ord in (None, "fro"):
        return _root(red.sum(_squares(x), (rows, columns)))
    x = transposed(x, (*(d for d in range(x.ndim) if d not in axes), rows, columns))
    if ord in (1, -1, math.inf, -math.inf):
        return (red.max if ord > 0 else red.min)(red.sum(ew.absolute(x), -2 if abs(ord) == 1 else -1), -1)
    if ord == "nuc":
        return red.sum(svdvals(x), -1)
    if ord in (2, -2):
        return (red.max if ord > 0 else red.min)(svdvals(x), -1)
    raise ShapeError(f"norm requires 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc' for matrices, got {ord!r}.",
                     where=user_frame())  # fmt: skip


@library
def cond(a: Any, p: Any = None) -> Tensor:
    """The condition number ``norm(a, p) * norm(inv(a), p)``; the ratio of singular values if `p` is None, 2 or -2.

    Example:
      >>> import numpy as np
      >>> round(float(cond(np.array([[4.0, 0.0], [0.0, 2.0]]))), 6)
      2.0
    """
    a = matrices("cond", a)
    if p in (None, 2, -2):
        s = svdvals(a)
        ratio = red.max(s, -1) / red.min(s, -1)
        return 1.0 / ratio if p == -2 else ratio
    return norm(a, p, (-2, -1)) * norm(inv(a), p, (-2, -1))
