"""Normal numbers, and distributions that are computed from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import DTypeLike, ShapeLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy import linalg
from nabla_mlir.numpy.axes import Shape, shape_of
from nabla_mlir.numpy.logic import clip
from nabla_mlir.numpy.operands import common_dtype, convert, inexact_dtype
from nabla_mlir.numpy.products import einsum
from nabla_mlir.numpy.special_values import nextafter
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.shape import reduce_sum
from nabla_mlir.random.arguments import float_dtype, parameters, real, shape_for, shape_over, spread
from nabla_mlir.random.distributions import parametrized, standard
from nabla_mlir.random.generator import between, fractions, normals, split_in
from nabla_mlir.random.keys import Key, KeyArray, key_of, words_of
from nabla_mlir.random.uniforms import signs
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import as_tensor, broadcast_to
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.gradients import stop_gradient

_FACTORS = ("cholesky", "eigh", "svd")


def normal(key: Key, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Tensor:
    """Random numbers with the density exp(-x**2 / 2) / sqrt(2 pi), of mean 0 and variance 1.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the dtype of the result; None means the default float dtype. In a complex dtype, both parts have the variance 1/2.

    Raises:
      DtypeError: the dtype is not floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> normal(nm.random.key(0), (2,), "f64").round(4).tolist()
      [-0.2058, -0.7848]
    """
    return _normal(key_of("normal", key), shape_of("normal", shape), float_dtype("normal", dtype, complex=True))


@library
def _normal(key: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Numbers of `normal`."""
    return _normals(words_of(key), shape, dtype)


def _normals(keys: KeyArray, shape: Shape, dtype: np.dtype) -> Tensor:
    """Normal numbers for each key and each index of a shape; the parts of complex numbers have the variance 1/2."""
    if not is_complex(dtype):
        return normals(keys, shape, dtype)
    part = np.zeros((), dtype).real.dtype
    parts = (normals(k, shape, part) / float(np.sqrt(2).astype(part)) for k in split_in(keys, 2))
    return ew.make_complex(*parts)


@parametrized
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Normal numbers in (lower, upper), by the inverse error function of uniform numbers between its values at the bounds.

    Args:
      key: a key.
      lower: the lower bound.
      upper: the upper bound.
      shape: the shape of the result; by default the bounds are broadcast.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: the bounds do not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> truncated_normal(nm.random.key(0), -2.0, 2.0, (3,)).shape
      (3,)
    """
    root = float(np.sqrt(2).astype(dtype))
    x = between(key, shape, ew.erf(lower / root), ew.erf(upper / root), dtype)
    # Rounding may give a bound itself, so the results are clipped to the numbers next to the bounds.
    inside = (nextafter(stop_gradient(x), full_like(x, sign)) for x, sign in ((lower, np.inf), (upper, -np.inf)))
    return clip(ew.erf_inv(x) * root, *inside)


def lognormal(key: Key, sigma: Any = 1.0, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """exp(sigma x) for normal numbers x.

    Args:
      key: a key.
      sigma: the standard deviation of the logarithm.
      shape: the shape of the result; None means the shape of `sigma`.
      dtype: the dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not floating point; ShapeError: `sigma` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> lognormal(nm.random.key(0), 0.5, (3,)).shape
      (3,)
    """
    dtype = float_dtype("lognormal", dtype, complex=True)
    (sigma,) = parameters("lognormal", np.zeros((), dtype).real.dtype, sigma)
    return _lognormal(key_of("lognormal", key), sigma, shape_for("lognormal", shape, sigma), dtype)


@library
def _lognormal(key: Any, sigma: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """The exponentials of normal numbers times sigma."""
    (sigma,) = spread("lognormal", (sigma,), dtype, shape)
    return ew.exponential(_normals(words_of(key), shape, dtype) * sigma)


@standard
def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Tensor:
    """The length of a vector of three normal numbers, with the density sqrt(2 / pi) x**2 exp(-x**2 / 2) for x >= 0.

    Args:
      key: a key.
      shape: the shape of the result.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point.

    Example:
      >>> import nabla_mlir as nm
      >>> maxwell(nm.random.key(0), (3,)).shape
      (3,)
    """
    return _lengths(key, shape, dtype)


def _lengths(keys: KeyArray, shape: Shape, dtype: np.dtype) -> Tensor:
    """The lengths of vectors of three normal numbers."""
    x = normals(keys, (*shape, 3), dtype)
    return ew.sqrt(reduce_sum(x * x, (len(shape),)))


def double_sided_maxwell(key: Key, loc: Any, scale: Any, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Tensor:
    """loc + scale x, where x has the distribution of `maxwell` and a random sign.

    Args:
      key: a key.
      loc: the centre.
      scale: a factor.
      shape: the shape of the numbers for each parameter; the axes of the parameters follow, as in JAX.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: the parameters do not broadcast together.

    Example:
      >>> import nabla_mlir as nm
      >>> double_sided_maxwell(nm.random.key(0), 0.0, 1.0, (3,)).shape
      (3,)
    """
    name = "double_sided_maxwell"
    dtype = float_dtype(name, dtype)
    loc, scale = parameters(name, dtype, loc, scale)
    inner = shape_for(name, None, loc, scale)
    return _double_sided_maxwell(key_of(name, key), loc, scale, ((shape_of(name, shape) or inner) + inner), dtype)


@library
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Maxwell numbers with random signs, times `scale`, plus `loc`."""
    loc, scale = spread("double_sided_maxwell", (loc, scale), dtype, shape)
    first, second = split_in(words_of(key), 2)
    return signs(second, shape, dtype) * _lengths(first, shape, dtype) * scale + loc


@parametrized
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers with the inverse normal density sqrt(1 / (2 pi x**3)) exp(-(x - mean)**2 / (2 mean**2 x)).

    Args:
      key: a key.
      mean: the mean of the distribution.
      shape: the shape of the result; None means the shape of `mean`.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `mean` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> wald(nm.random.key(0), 2.0, (3,)).shape
      (3,)
    """
    first, second = split_in(key, 2)
    v, z = normals(first, shape, dtype), fractions(second, shape, dtype)
    y, square = v * v, mean * mean
    root = ew.sqrt(mean * y * 4.0 + square * (y * y))
    x = mean + square * y / 2.0 - mean / 2.0 * root
    # Selects the smaller of two roots with its probability (Michael et al. 1976).
    return lg.select(lg.compare(z, mean / (mean + x), comparison_direction="LE"), x, square / x)


def multivariate_normal(
    key: Key, mean: Any, cov: Any, shape: ShapeLike | None = None, dtype: DTypeLike | None = None, method: str = "cholesky"
) -> Any:
    """Random vectors mean + A x, where x is normal and A A^T = cov.

    Args:
      key: a key.
      mean: the mean, a vector or a stack of vectors.
      cov: the covariance, a positive definite matrix or a stack; a semidefinite matrix needs the method "eigh" or "svd".
      shape: the shape of the stack of vectors; by default the stacks of the parameters are broadcast.
      dtype: the dtype of the normal numbers; None means the dtype of the parameters.
      method: the factorisation that gives A: "cholesky", "eigh" or "svd".

    Raises:
      ShapeError: the parameters do not fit each other or the shape; DtypeError: the dtype is not real floating point;
        TraceError: the method is unknown.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> multivariate_normal(nm.random.key(0), np.zeros(2), np.eye(2), (3,)).shape
      (3, 2)
    """
    name = "multivariate_normal"
    if method not in _FACTORS:
        raise TraceError(f"{name} requires a method among {', '.join(_FACTORS)}, got {method!r}.", where=user_frame())
    common = inexact_dtype(common_dtype([mean, cov]))
    dtype = float_dtype(name, common if dtype is None else dtype)
    mean, cov = parameters(name, common, mean, cov)
    if mean.ndim < 1 or tuple(cov.shape[-2:]) != 2 * tuple(mean.shape[-1:]):
        raise ShapeError(
            f"{name} requires a mean of shape (..., n) and a covariance of shape (..., n, n), got "
            f"{tuple(mean.shape)} and {tuple(cov.shape)}.",
            where=user_frame(),
        )
    stack = shape_over(name, shape, tuple(mean.shape[:-1]), tuple(cov.shape[:-2]))
    return _multivariate_normal(key_of(name, key), mean, cov, stack, dtype, common, method)


@library
def _multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Static[Any], dtype: np.dtype, common: np.dtype, method: str
) -> Tensor:
    """Vectors of a normal distribution: the mean plus a factor of the covariance times normal vectors.

    `common` is the dtype of both parameters, and `method` names the factorisation.
    """
    mean, cov = (real("multivariate_normal", x, common) for x in (mean, cov))
    x = normals(words_of(key), (*shape, mean.shape[-1]), dtype)
    return mean + einsum("...ij,...j->...i", _factor(cov, method), x)


def _factor(cov: Tensor, method: str) -> Tensor:
    """A matrix F with F Fᵀ = cov, by "cholesky", "eigh" or "svd"."""
    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = linalg.eigh(cov)
    else:
        vectors, values, _ = linalg.svd(cov)
    return vectors * ew.sqrt(values)[..., None, :]


def orthogonal(key: Key, n: int, shape: ShapeLike = (), dtype: DTypeLike | None = None, m: int | None = None) -> Tensor:
    """Uniformly distributed (Haar measure) orthogonal matrices; unitary matrices for a complex dtype.

    Args:
      key: a key.
      n: the number of rows.
      shape: the shape of the stack of matrices.
      dtype: the dtype of the result; None means the default float dtype.
      m: the number of columns; None means n. If it differs from n, the shorter of rows and columns is orthonormal.

    Raises:
      DtypeError: the dtype is not floating point; ShapeError: a length is not an integer, or negative.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> q = orthogonal(nm.random.key(0), 3)
      >>> bool(np.allclose(q @ q.T, np.eye(3), atol=1e-6))
      True
    """
    rows, columns = shape_of("orthogonal", (n, n if m is None else m))
    dtype = float_dtype("orthogonal", dtype, complex=True)
    return _orthogonal(key_of("orthogonal", key), rows, columns, shape_of("orthogonal", shape), dtype)


@library
def _orthogonal(key: Any, rows: int, columns: int, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Uniformly distributed orthogonal matrices: the factor Q of a normal matrix, with the signs that make it uniform."""
    x = _normals(words_of(key), (*shape, max(rows, columns), min(rows, columns)), dtype)
    q, r = linalg.qr(x)
    diagonal = linalg.diagonal(r)
    phase = ew.sign(diagonal)  # these signs make the factors unique
    q = q * broadcast_to(convert(as_tensor(phase), dtype)[..., None, :], q.shape)
    return q.mT if rows < columns else q
