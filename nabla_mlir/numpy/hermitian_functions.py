"""Functions of Hermitian matrices by eigenvalues, which are differentiable also for equal eigenvalues.

The derivative of V f(W) V^H contains divided differences of f; the derivative of the eigenvectors would divide by differences
of eigenvalues (Daleckii and Krein 1965; Higham 2008, "Functions of Matrices", theorem 3.11). If eigenvalues are close, a
divided difference is computed as a series in the derivatives of f.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.factorizations import eigh, hermitian, square
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert
from nabla_mlir.numpy.products import matmul
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.custom import custom_vjp
from nabla_mlir.transforms.linear import jvp

Function = Callable[[Any], Any]


@library
def matrix_function(f: Static[Function], a: ArrayLike) -> Tensor:
    """Returns ``V f(W) V^H`` for Hermitian ``a = V W V^H``.

    It has two derivatives for equal eigenvalues; higher derivatives are NaN there.

    Args:
      f: an elementwise function of real numbers that is smooth at the eigenvalues.
      a: matrices of shape (..., n, n); the function uses (a + a^H) / 2.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> import nabla_mlir as nm
      >>> from nabla_mlir import numpy as nnp
      >>> np.asarray(matrix_function(nnp.exp, np.zeros((2, 2)))).round(6).tolist()
      [[1.0, 0.0], [0.0, 1.0]]
      >>> nm.grad(lambda a: matrix_function(nnp.exp, a).sum())(np.zeros((2, 2))).round(6).tolist()
      [[1.0, 1.0], [1.0, 1.0]]
    """
    return _value(f, hermitian(square("matrix_function", a)))


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _value(f: Function, a: Tensor) -> Tensor:
    """``V f(W) V^H``, with derivatives of its own: those of eigenvectors do not exist for equal eigenvalues."""
    w, v = eigh(a)
    return matmul(v * convert(_row(f(w)), v.dtype), la.adjoint(v))


def _value_fwd(f: Function, a: Tensor) -> tuple[Tensor, Tensor]:
    return _value(f, a), a


def _value_bwd(f: Function, a: Tensor, ct: Tensor) -> tuple[Tensor]:
    return (la.matrix_transpose(_slope(f, a, la.matrix_transpose(ct))),)


_value.defvjp(_value_fwd, _value_bwd)


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _slope(f: Function, a: Tensor, e: Tensor) -> Tensor:
    """The derivative of f(A), at A = `a`, in the direction `e`; this linear map is self-adjoint.

    In the basis of eigenvectors, it multiplies each element of `e` by the divided difference of f for two eigenvalues.
    """
    w, v = eigh(a)
    inner = matmul(matmul(la.adjoint(v), e), v)
    return matmul(matmul(v, inner * convert(_first(f, _column(w), _row(w), _scale(w, 2)), v.dtype)), la.adjoint(v))


def _slope_fwd(f: Function, a: Tensor, e: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    return _slope(f, a, e), (a, e)


def _slope_bwd(f: Function, residuals: tuple[Tensor, Tensor], ct: Tensor) -> tuple[Tensor, Tensor]:
    """The cotangents of the matrix and of the direction of a first derivative of f(A).

    `residuals` are these two, and `ct` is the cotangent of the derivative.
    """
    a, e = residuals
    transpose = la.matrix_transpose(ct)
    return tuple(la.matrix_transpose(x) for x in (_curvature(f, a, e, transpose), _slope(f, a, transpose)))  # type: ignore[return-value]


_slope.defvjp(_slope_fwd, _slope_bwd)


def _curvature(f: Function, a: Tensor, e: Tensor, h: Tensor) -> Tensor:
    """The second derivative of f(A), at the Hermitian matrix A = `a`, in the directions `e` and `h`.

    In the basis of eigenvectors, it is the sum over k of w_ikj (e_ik h_kj + h_ik e_kj); w are second divided differences of `f`.
    """
    w, v = eigh(a)
    inner_e, inner_h = (matmul(matmul(la.adjoint(v), x), v) for x in (e, h))
    n, batch = w.shape[-1], w.shape[:-1]
    i, k, j = (reshaped(w, (*batch, *(n if axis == d else 1 for d in range(3)))) for axis in range(3))
    weights = convert(_second(f, i, k, j, _scale(w, 3)), v.dtype)

    def chained(x: Tensor, y: Tensor) -> Tensor:
        """The sum over k of weights_ikj x_ik y_kj."""
        return (weights * reshaped(x, (*batch, n, n, 1)) * reshaped(y, (*batch, 1, n, n))).sum(axis=-2)

    return matmul(matmul(v, chained(inner_e, inner_h) + chained(inner_h, inner_e)), la.adjoint(v))


# ---------------------------------------------------------------- divided differences
def derivative(f: Function, order: int) -> Function:
    """The derivative, of this order, of an elementwise function f, by forward mode."""
    return f if order == 0 else lambda x: jvp(derivative(f, order - 1), (x,), (full_like(x, 1),))[1]


def _scale(w: Tensor, rank: int) -> Tensor:
    """The largest absolute eigenvalue of each matrix, with `rank` axes; rounding errors of eigenvalues scale with it."""
    largest = stop_gradient(abs(w).max(-1))
    return reshaped(largest, (*largest.shape, *[1] * rank))


def _near(f: Function, x: Tensor, middle: Tensor, y: Tensor, scale: Tensor, order: int) -> Tensor:
    """True where a divided difference is computed by its series: the numbers are close, or rounding errors would dominate.

    The second case requires smooth derivatives up to this order between the numbers; this excludes the kink of abs(w) and the
    pole of log(w).

    Args:
      f: the function.
      x, middle, y: two numbers and their midpoint.
      scale: the largest absolute eigenvalue, with which rounding errors grow.
      order: the order of the divided difference: 1 or 2.
    """
    x, middle, y = (stop_gradient(v) for v in (x, middle, y))
    size = where(abs(x) > abs(y), abs(x), abs(y))
    is_double = x.dtype.itemsize == 8
    close = abs(x - y) <= scale * ((1e-6 if is_double else 3e-3) if order == 1 else (1e-4 if is_double else 3e-2))
    for k in range(1, order + 1):
        slopes = [derivative(f, k)(v) for v in (x, middle, y)]
        bend = abs(slopes[0] + slopes[2] - 2.0 * slopes[1])
        close = close & (bend <= (abs(slopes[0]) + abs(slopes[2])) * (1e-6 if is_double else 1e-3))
    return close | (abs(x - y) <= size * _share(x, 2.0 * order - 1.0))


def _first(f: Function, x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """``(f(x) - f(y)) / (x - y)``; for close numbers, f' at the midpoint plus the next term of the series."""
    x, y = x + y * 0.0, y + x * 0.0  # broadcast to one shape
    middle, half = (x + y) * 0.5, (x - y) * 0.5
    near = _near(f, x, middle, y, scale, 1)
    series = derivative(f, 1)(middle) + derivative(f, 3)(middle) * (half * half) * (1 / 6)
    return where(near, series, (f(x) - f(y)) / where(near, 1.0, x - y))


def _second(f: Function, x: Tensor, y: Tensor, z: Tensor, scale: Tensor) -> Tensor:
    """The second divided difference of f at x, y and z: that of the first ones for low and middle, and for middle and high.

    It divides by the largest of the three distances. Points that are near, measured by `scale`, get a Taylor series.
    """
    x, y, z = x + (y + z) * 0.0, y + (x + z) * 0.0, z + (x + y) * 0.0  # broadcast to one shape
    low = where(x < y, where(x < z, x, z), where(y < z, y, z))
    high = where(x > y, where(x > z, x, z), where(y > z, y, z))
    middle, mean = x + y + z - low - high, (x + y + z) * (1 / 3)
    near = _near(f, low, (low + high) * 0.5, high, scale, 2)
    square_distances = (x - mean) * (x - mean) + (y - mean) * (y - mean) + (z - mean) * (z - mean)
    series = derivative(f, 2)(mean) * 0.5 + derivative(f, 4)(mean) * square_distances * (1 / 48)
    quotient = (_first(f, low, middle, scale) - _first(f, middle, high, scale)) / where(near, 1.0, low - high)
    return where(near, series, quotient)


def _share(x: Tensor, factor: float) -> float:
    """The relative distance below which the series is more accurate: the errors are share^4 and eps / share."""
    return factor * (1e-3 if x.dtype.itemsize == 8 else 3e-2)


def _row(w: Tensor) -> Tensor:
    """Vectors as matrices with one row."""
    return reshaped(w, (*w.shape[:-1], 1, w.shape[-1]))


def _column(w: Tensor) -> Tensor:
    """Vectors as matrices with one column."""
    return reshaped(w, (*w.shape, 1))
