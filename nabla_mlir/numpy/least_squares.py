"""Least-squares solutions, and linear systems of tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import axes_of
from nabla_mlir.numpy.factorizations import matrices, svd
from nabla_mlir.numpy.operands import convert, inexact
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.pseudo_inverses import pseudo_inverse, significant
from nabla_mlir.numpy.reductions import count_nonzero, sum
from nabla_mlir.numpy.shapes import transpose
from nabla_mlir.numpy.systems import inv, solve
from nabla_mlir.numpy.ufuncs import absolute, square
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def lstsq(a: ArrayLike, b: ArrayLike, rcond: Any = None, *, numpy_resid: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The x that minimises ``norm(b - a x)``; if several do, the one with the smallest norm.

    Args:
      a: a matrix of shape (m, n).
      b: right-hand sides of shape (m,) or (m, k).
      rcond: singular values below ``rcond * largest`` count as 0; None means max(m, n) times the machine epsilon.
      numpy_resid: must be False, because the shape of the residuals would depend on values.

    Returns:
      x, the squared norms of the residuals, the rank of `a`, and its singular values.

    Raises:
      ShapeError: `a` is not a matrix, or `b` has another number of rows.

    Example:
      >>> x, residuals, rank, s = lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
      >>> np.asarray(x).round(6).tolist(), int(rank)
      ([2.0], 1)
    """
    a, b = matrices("lstsq", a), inexact(b)
    if a.ndim != 2 or b.ndim not in (1, 2) or b.shape[0] != a.shape[0] or numpy_resid:
        raise ShapeError(
            f"lstsq requires a matrix, as many rows on the right, and numpy_resid=False, got {a.shape}, {b.shape} and "
            f"{numpy_resid}.",
            where=user_frame(),
        )
    dtype = np.promote_types(a.dtype, b.dtype)
    a, b = convert(a, dtype), convert(b, dtype)
    right = reshaped(b, (b.shape[0], 1)) if b.ndim == 1 else b
    bound = max(a.shape) * float(np.finfo(dtype).eps) if rcond is None or (isinstance(rcond, float) and rcond < 0) else rcond
    u, s, vh = svd(a, full_matrices=False)
    x = matmul(pseudo_inverse(a, u, s, vh, bound), right)
    residuals = sum(square(absolute(right - matmul(a, x))), 0)
    return reshaped(x, (a.shape[1],)) if b.ndim == 1 else x, residuals, count_nonzero(significant(s, bound)), s


@library
def tensorsolve(a: Any, b: Any, axes: Static[Any] = None) -> Tensor:
    """Solves ``tensordot(a, x, x.ndim) = b``: the first axes of `a` are those of `b`, the others those of x.

    Args:
      a: an array of shape ``b.shape + x.shape`` with ``x.size == b.size``.
      b: the right-hand side.
      axes: axes of `a` that are first moved to the end.

    Raises:
      ShapeError: the numbers of elements differ.

    Example:
      >>> tensorsolve(np.eye(4).reshape(2, 2, 4), np.ones((2, 2))).tolist()
      [1.0, 1.0, 1.0, 1.0]
    """
    a, b = inexact(a), inexact(b)
    if axes is not None:
        back = axes_of("tensorsolve", axes, a.ndim)
        a = transpose(a, tuple(d for d in range(a.ndim) if d not in back) + back)
    rest = a.shape[b.ndim :]
    if math.prod(rest) != b.size or a.size != b.size**2:
        raise ShapeError(
            f"tensorsolve requires as many unknowns as equations, got shapes {a.shape} and {b.shape}.", where=user_frame()
        )
    return reshaped(solve(reshaped(a, (b.size, b.size)), reshaped(b, (b.size,))), rest)


@library
def tensorinv(a: ArrayLike, ind: Static[int] = 2) -> Tensor:
    """The inverse of an array as a linear map: the first `ind` axes are those of the result, the others of the argument.

    Raises:
      ShapeError: the products of the lengths differ.
    """
    a = inexact(a)
    results, arguments = a.shape[:ind], a.shape[ind:]
    n = math.prod(results)
    if ind <= 0 or n != math.prod(arguments):
        raise ShapeError(
            f"tensorinv requires as many elements before as after axis {ind}, got shape {a.shape}.", where=user_frame()
        )
    return reshaped(inv(reshaped(a, (n, n))), (*arguments, *results))
