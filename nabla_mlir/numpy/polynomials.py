"""Polynomials as vectors of coefficients, with the highest power first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import dynamic_shape
from nabla_mlir.numpy.creation import ones_like, zeros, zeros_like
from nabla_mlir.numpy.factorizations import eigvals
from nabla_mlir.numpy.filtering import convolve
from nabla_mlir.numpy.joining import concatenate, stack
from nabla_mlir.numpy.least_squares import lstsq
from nabla_mlir.numpy.operands import asarray, convert, in_one_dtype, inexact, tensor
from nabla_mlir.numpy.products import outer
from nabla_mlir.numpy.reductions import sum
from nabla_mlir.numpy.shapes import atleast_1d, flip
from nabla_mlir.numpy.systems import inv
from nabla_mlir.numpy.ufuncs import sqrt
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Tensor:
    """The value of a polynomial at each element of `x` by the Horner rule.

    Args:
      p: the coefficients along the first axis.
      x: the points at which the polynomial is evaluated.
      unroll: has no effect; the rule is always unrolled.

    Example:
      >>> polyval(np.array([1.0, 0.0, -1.0]), np.array([2.0, 3.0])).tolist()
      [3.0, 8.0]
    """
    p, x = in_one_dtype(p, x)
    out = zeros_like(x)
    for k in range(p.shape[0]):
        out = out * x + p[k]
    return out


@library
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """The sum of two polynomials."""
    a, b = _one_length(a1, a2)
    return a + b


@library
def polysub(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """The difference of two polynomials."""
    a, b = _one_length(a1, a2)
    return a - b


def _one_length(a1: Any, a2: Any) -> tuple[Tensor, Tensor]:
    """Two polynomials in one dtype, with zeros before the coefficients of the shorter one."""
    a, b = in_one_dtype(a1, a2)
    n = max(a.shape[0], b.shape[0])
    first, second = (concatenate([zeros((n - x.shape[0],), x.dtype), x]) if x.shape[0] < n else x for x in (a, b))
    return first, second


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Tensor:
    """The product of two polynomials.

    Args:
      a1, a2: the coefficients.
      trim_leading_zeros: True removes zeros before the first coefficient of both; this requires concrete arrays.

    Raises:
      TraceError: `trim_leading_zeros` is True, and an array is traced.

    Example:
      >>> polymul(np.array([1.0, 1.0]), np.array([1.0, -1.0])).tolist()
      [1.0, 0.0, -1.0]
    """
    if trim_leading_zeros:
        a1, a2 = _trimmed("polymul", a1), _trimmed("polymul", a2)
    return _polymul(a1, a2)


@library
def _polymul(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """The product of polynomials: the convolution of their coefficients."""
    a, b = inexacts_of(a1, a2)
    return convolve(a, b, mode="full")


def _trimmed(name: str, p: Any, shortest: int = 1) -> Any:
    """The concrete vector `p` without zeros before the first coefficient; `shortest` elements remain at least.

    `name` is the called function, for the error about a traced vector.
    """
    if isinstance(p, Tensor):
        dynamic_shape(name, "pass trim_leading_zeros=False.")
    found = np.flatnonzero(np.asarray(p))
    n = np.size(p)
    return atleast_1d(p)[min(int(found[0]) if found.size else n, n - shortest) :]


def inexacts_of(*xs: Any) -> tuple[Tensor, ...]:
    """The arrays `xs`, of at least one axis, in one floating-point dtype."""
    tensors = [inexact(atleast_1d(x)) for x in xs]
    dtype = np.result_type(*(t.dtype for t in tensors))
    return tuple(convert(t, dtype) for t in tensors)


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Tensor, Tensor]:
    """The quotient and remainder of two polynomials.

    Args:
      u: the dividend.
      v: the divisor, whose first coefficient is not 0.
      trim_leading_zeros: True removes zeros before the first coefficient of the remainder; this requires concrete arrays.

    Raises:
      TraceError: `trim_leading_zeros` is True, and an array is traced.

    Example:
      >>> [p.tolist() for p in polydiv(np.array([1.0, 3.0, 3.0]), np.array([1.0, 1.0]), trim_leading_zeros=True)]
      [[1.0, 2.0], [1.0]]
    """
    quotient, rest = _polydiv(u, v)
    return (quotient, _trimmed("polydiv", rest)) if trim_leading_zeros else (quotient, rest)


@library
def _polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """The quotient and the remainder of two polynomials by long division; leading zeros of the remainder stay."""
    u, v = inexacts_of(u, v)
    m, n = u.shape[0] - 1, v.shape[0] - 1
    quotient = []
    for k in range(max(m - n, 0) + (m >= n)):
        factor = u[k] / v[0]
        quotient.append(factor)
        u = u.at[k : k + n + 1].add(-factor * v)
    return (stack(quotient) if quotient else zeros((1,), u.dtype)), u


@library
def polyder(p: ArrayLike, m: Static[int] = 1) -> Tensor:
    """The m-th derivative of a polynomial.

    Example:
      >>> polyder(np.array([1.0, 2.0, 3.0])).tolist()
      [2.0, 2.0]
    """
    if m < 0:
        raise ShapeError(f"polyder requires an order of at least 0, got {m}.", where=user_frame())
    p = inexact(p)
    n = p.shape[0] - m
    if not m or n <= 0:
        return p if not m else zeros((0,), p.dtype)
    factors = [math.perm(n - 1 - k + m, m) for k in range(n)]
    return p[:n] * np.array(factors, p.dtype)


@library
def polyint(p: Any, m: Static[int] = 1, k: Any = None) -> Tensor:
    """The m-th integral of a polynomial; `k` are the constants, one for all or one for each integral."""
    if m < 0:
        raise ShapeError(f"polyint requires an order of at least 0, got {m}.", where=user_frame())
    p = inexact(p)
    constants = atleast_1d(np.zeros(1) if k is None else k)
    if constants.shape[0] not in (1, m):
        raise ShapeError(f"polyint requires one constant or {m}, got {constants.shape[0]}.", where=user_frame())
    for i in range(m):
        n, index = p.shape[0], i % constants.shape[0]
        constant = convert(tensor(constants)[index : index + 1], p.dtype)
        p = concatenate([p / np.arange(n, 0, -1).astype(p.dtype), constant])
    return p


@library
def poly(seq_of_zeros: Any) -> Tensor:
    """The coefficients of the polynomial with these zeros, or with the eigenvalues of a square matrix."""
    zeros_of = inexact(seq_of_zeros)
    zeros_of = eigvals(zeros_of) if zeros_of.ndim == 2 else atleast_1d(zeros_of)
    out = ones_like(zeros_of[:0], shape=(1,))
    for k in range(zeros_of.shape[0]):
        out = concatenate([out, zeros((1,), out.dtype)]) - concatenate([zeros((1,), out.dtype), out * zeros_of[k]])
    return out


def roots(p: Any, *, strip_zeros: bool | None = None) -> Tensor:
    """The zeros of a polynomial: the eigenvalues of its companion matrix.

    Args:
      p: the coefficients.
      strip_zeros: True ignores zeros before the first coefficient, as in NumPy; zeros after the last one are zeros of the
        polynomial. This requires a concrete array, because the number of zeros depends on values. None means True for
        concrete and False for traced arrays, whose first coefficient must not be 0.

    Raises:
      ShapeError: `p` is not a vector.
      TraceError: `strip_zeros` is True and `p` is traced.

    Example:
      >>> roots(np.array([0.0, 1.0, -3.0, 0.0])).real.tolist()
      [3.0, 0.0]
    """
    if np.ndim(p) != 1:
        raise ShapeError(f"roots requires a vector of coefficients, got shape {np.shape(p)}.", where=user_frame())
    if isinstance(p, Tensor):
        if strip_zeros:
            dynamic_shape("roots", "pass strip_zeros=False, and no zero as first coefficient.")
        return _roots(p, 0)
    if strip_zeros is False:
        return _roots(p, 0)
    (filled,) = np.nonzero(np.asarray(p))
    if not len(filled):
        return _roots(asarray(p)[:0], 0)
    return _roots(asarray(p)[filled[0] : filled[-1] + 1], int(np.shape(p)[0] - 1 - filled[-1]))


@library
def _roots(p: ArrayLike, at_zero: Static[int]) -> Tensor:
    """The zeros of a polynomial, followed by `at_zero` zeros."""
    found = _nonzero_roots(p)
    return concatenate([found, zeros((at_zero,), found.dtype)]) if at_zero else found


def _nonzero_roots(p: ArrayLike) -> Tensor:
    """The roots of a polynomial: the eigenvalues of the companion matrix; the first and the last coefficient must not be 0."""
    p = inexact(p)
    n = p.shape[0]
    if n < 2:
        return zeros((0,), np.promote_types(p.dtype, np.complex64))
    companion = concatenate([(-p[1:] / p[0])[None], convert(tensor(np.eye(n - 2, n - 1)), p.dtype)])
    return eigvals(companion)


@library
def vander(x: ArrayLike, N: Static[int | None] = None, increasing: bool = False) -> Tensor:
    """The powers of each element of a vector: columns x^(N-1), ..., x, 1, or in the opposite order."""
    x = tensor(x)
    if x.ndim != 1:
        raise ShapeError(f"vander requires a vector, got shape {x.shape}.", where=user_frame())
    columns = [ones_like(x)]
    for _ in range((x.shape[0] if N is None else N) - 1):
        columns.append(columns[-1] * x)
    out = stack(columns[: x.shape[0] if N is None else N], 1)
    return out if increasing else flip(out, 1)


@library
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: Static[int],
    rcond: Any = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The coefficients of the least-squares polynomial of degree `deg` through points.

    Args:
      x: the coordinates of the points, a vector.
      y: the values at the points, a vector, or a matrix with a column for each fit.
      deg: the degree.
      rcond: singular values below ``rcond * largest`` count as 0; None means n times the machine epsilon.
      full: True also returns the residuals, the rank, the singular values and `rcond`.
      w: the factors of the residuals before squaring.
      cov: True also returns the covariance of the coefficients; "unscaled" omits the variance of the residuals.

    Raises:
      ShapeError: `x` or `y` have a wrong number of axes, or different lengths.

    Example:
      >>> np.asarray(polyfit(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 7.0]), 2)).round(6).tolist()
      [1.0, 1.0, 1.0]
    """
    x, y = inexacts_of(x, y)
    if x.ndim != 1 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0] or not x.size:
        raise ShapeError(f"polyfit requires vectors of one length, got shapes {x.shape} and {y.shape}.", where=user_frame())
    rcond = x.shape[0] * float(np.finfo(x.dtype).eps) if rcond is None else rcond
    matrix, right = vander(x, deg + 1), y
    if w is not None:
        (weights,) = (convert(inexact(w), x.dtype),)
        matrix, right = matrix * weights[:, None], right * (weights[:, None] if y.ndim == 2 else weights)
    scale = sqrt(sum(matrix * matrix, 0))
    solution, residuals, rank, s = lstsq(matrix / scale, right, rcond)
    c = (solution.T / scale).T
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    base = inv(matrix.T @ matrix / outer(scale, scale)) / outer(scale, scale)
    if cov == "unscaled":
        factor: Any = 1.0
    else:
        if x.shape[0] <= deg + 1:
            raise ShapeError(f"polyfit with cov requires more than {deg + 1} points, got {x.shape[0]}.", where=user_frame())
        factor = residuals / (x.shape[0] - (deg + 1))
    return c, (base * factor if y.ndim == 1 else base[:, :, None] * factor)
