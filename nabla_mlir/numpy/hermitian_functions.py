"""Functions of Hermitian matrices, by their eigenvalues, differentiable where these are equal too.

The derivative of V f(W) V^H holds divided differences of f where that of the eigenvectors alone would divide by the distance
of eigenvalues (Daleckii and Krein 1965; Higham 2008, "Functions of Matrices", theorem 3.11). Where eigenvalues are close, a
divided difference is a series in the derivatives of f.
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
    """``V f(W) V^H`` for Hermitian ``a = V W V^H``, with two derivatives where eigenvalues are equal; further ones are NaN there.

    Args:
      f: a function of real numbers, elementwise and smooth at the eigenvalues.
      a: matrices of shape (..., n, n), of which (a + a^H) / 2 is used.

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
    w, v = eigh(a)
    return matmul(v * convert(_row(f(w)), v.dtype), la.adjoint(v))


def _value_fwd(f: Function, a: Tensor) -> tuple[Tensor, Tensor]:
    return _value(f, a), a


def _value_bwd(f: Function, a: Tensor, ct: Tensor) -> tuple[Tensor]:
    return (la.matrix_transpose(_slope(f, a, la.matrix_transpose(ct))),)


_value.defvjp(_value_fwd, _value_bwd)


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _slope(f: Function, a: Tensor, e: Tensor) -> Tensor:
    """The derivative of `_value` in the direction `e`; it is its own adjoint."""
    w, v = eigh(a)
    inner = matmul(matmul(la.adjoint(v), e), v)
    return matmul(matmul(v, inner * convert(_first(f, _column(w), _row(w), _scale(w, 2)), v.dtype)), la.adjoint(v))


def _slope_fwd(f: Function, a: Tensor, e: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    return _slope(f, a, e), (a, e)


def _slope_bwd(f: Function, residuals: tuple[Tensor, Tensor], ct: Tensor) -> tuple[Tensor, Tensor]:
    a, e = residuals
    transpose = la.matrix_transpose(ct)
    return tuple(la.matrix_transpose(x) for x in (_curvature(f, a, e, transpose), _slope(f, a, transpose)))  # type: ignore[return-value]


_slope.defvjp(_slope_fwd, _slope_bwd)


def _curvature(f: Function, a: Tensor, e: Tensor, h: Tensor) -> Tensor:
    """The second derivative of `_value` in the directions `e` and `h`."""
    w, v = eigh(a)
    inner_e, inner_h = (matmul(matmul(la.adjoint(v), x), v) for x in (e, h))
    n, stack = w.shape[-1], w.shape[:-1]
    i, k, j = (reshaped(w, (*stack, *(n if axis == d else 1 for d in range(3)))) for axis in range(3))
    weights = convert(_second(f, i, k, j, _scale(w, 3)), v.dtype)

    def chained(x: Tensor, y: Tensor) -> Tensor:
        return (weights * reshaped(x, (*stack, n, n, 1)) * reshaped(y, (*stack, 1, n, n))).sum(axis=-2)

    return matmul(matmul(v, chained(inner_e, inner_h) + chained(inner_h, inner_e)), la.adjoint(v))


# ---------------------------------------------------------------- divided differences
def _derivative(f: Function, order: int) -> Function:
    return f if order == 0 else lambda x: jvp(_derivative(f, order - 1), (x,), (full_like(x, 1),))[1]


def _scale(w: Tensor, rank: int) -> Tensor:
    """The largest absolute eigenvalue of each matrix, with `rank` axes: eigenvalues have errors of its rounding."""
    largest = stop_gradient(abs(w).max(-1))
    return reshaped(largest, (*largest.shape, *[1] * rank))


def _near(f: Function, x: Tensor, middle: Tensor, y: Tensor, scale: Tensor, order: int) -> Tensor:
    """True for two numbers that are close relative to themselves, or so close that a quotient shows their rounding errors.

    The latter only where the derivatives up to this order are seen to be smooth between them: not at the kink of abs(w)
    or next to the pole of log(w).
    """
    x, middle, y = (stop_gradient(v) for v in (x, middle, y))
    size = where(abs(x) > abs(y), abs(x), abs(y))
    is_double = x.dtype.itemsize == 8
    close = abs(x - y) <= scale * ((1e-6 if is_double else 3e-3) if order == 1 else (1e-4 if is_double else 3e-2))
    for k in range(1, order + 1):
        slopes = [_derivative(f, k)(v) for v in (x, middle, y)]
        bend = abs(slopes[0] + slopes[2] - 2.0 * slopes[1])
        close = close & (bend <= (abs(slopes[0]) + abs(slopes[2])) * (1e-6 if is_double else 1e-3))
    return close | (abs(x - y) <= size * _share(x, 2.0 * order - 1.0))


def _first(f: Function, x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """``(f(x) - f(y)) / (x - y)``; of close ones f' in the middle, with the next term of the series."""
    x, y = x + y * 0.0, y + x * 0.0
    middle, half = (x + y) * 0.5, (x - y) * 0.5
    near = _near(f, x, middle, y, scale, 1)
    series = _derivative(f, 1)(middle) + _derivative(f, 3)(middle) * (half * half) * (1 / 6)
    return where(near, series, (f(x) - f(y)) / where(near, 1.0, x - y))


def _second(f: Function, x: Tensor, y: Tensor, z: Tensor, scale: Tensor) -> Tensor:
    """The divided difference of three numbers, by those of two at the ends of the longest distance."""
    x, y, z = x + (y + z) * 0.0, y + (x + z) * 0.0, z + (x + y) * 0.0
    low = where(x < y, where(x < z, x, z), where(y < z, y, z))
    high = where(x > y, where(x > z, x, z), where(y > z, y, z))
    middle, mean = x + y + z - low - high, (x + y + z) * (1 / 3)
    near = _near(f, low, (low + high) * 0.5, high, scale, 2)
    spread = (x - mean) * (x - mean) + (y - mean) * (y - mean) + (z - mean) * (z - mean)
    series = _derivative(f, 2)(mean) * 0.5 + _derivative(f, 4)(mean) * spread * (1 / 48)
    quotient = (_first(f, low, middle, scale) - _first(f, middle, high, scale)) / where(near, 1.0, low - high)
    return where(near, series, quotient)


def _share(x: Tensor, factor: float) -> float:
    """Relative distances up to which a series is exacter than a quotient: errors are share^4, and eps / share."""
    return factor * (1e-3 if x.dtype.itemsize == 8 else 3e-2)


def _row(w: Tensor) -> Tensor:
    return reshaped(w, (*w.shape[:-1], 1, w.shape[-1]))


def _column(w: Tensor) -> Tensor:
    return reshaped(w, (*w.shape, 1))
