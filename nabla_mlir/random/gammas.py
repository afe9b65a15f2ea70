"""Gamma-distributed numbers, and distributions that are computed from them.

All are differentiable by their parameters through implicit differentiation, as in JAX: the value of the distribution function
at the random number is constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import DTypeLike, ShapeLike
from nabla_mlir.numpy.axes import shape_of
from nabla_mlir.numpy.extrema import max
from nabla_mlir.numpy.reductions import sum
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.random.arguments import float_dtype, parameters, real, shape_for, shape_over, spread
from nabla_mlir.random.distributions import parametrized
from nabla_mlir.random.generator import exponentials, normals, split_in
from nabla_mlir.random.keys import Key, KeyArray, key_of, words_of
from nabla_mlir.random.rejection import gammas
from nabla_mlir.random.uniforms import signs
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.gradients import stop_gradient


@parametrized
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers with a density proportional to x**(a - 1) exp(-x) for x > 0.

    Args:
      key: a key.
      a: the parameter, above 0.
      shape: the shape of the result; None means the shape of `a`.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `a` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> gamma(nm.random.key(0), 2.0, (3,)).shape
      (3,)
    """
    return gammas(key, a)


@parametrized
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Logarithms of gamma-distributed numbers; accurate also where the numbers underflow. For a < 1 they differ from `gamma`.

    Args:
      key: a key.
      a: the parameter, above 0.
      shape: the shape of the result; None means the shape of `a`.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `a` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> loggamma(nm.random.key(0), 2.0, (3,)).shape
      (3,)
    """
    return gammas(key, a, is_log=True)


@parametrized
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers with a density proportional to x**(a - 1) (1 - x)**(b - 1) for 0 < x < 1.

    Args:
      key: a key.
      a: the first parameter, above 0.
      b: the second one, above 0.
      shape: the shape of the result; by default the parameters are broadcast.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: the parameters do not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> beta(nm.random.key(0), 2.0, 3.0, (3,)).shape
      (3,)
    """
    first, second = (gammas(k, x, is_log=True) for k, x in zip(split_in(key, 2), (a, b), strict=True))
    largest = stop_gradient(ew.maximum(first, second))
    first, second = (ew.exponential(x - largest) for x in (first, second))
    return first / (first + second)


def dirichlet(key: Key, alpha: Any, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Vectors of positive numbers with the sum 1 and a density proportional to the product of x[i]**(alpha[i] - 1).

    Args:
      key: a key.
      alpha: the parameters, above 0: a vector or a stack of them.
      shape: the shape of the stack of vectors; that of the stack of `alpha` if not given.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `alpha` has no axis, or its stack does not broadcast.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> dirichlet(nm.random.key(0), np.ones(4), (3,)).shape
      (3, 4)
    """
    dtype = float_dtype("dirichlet", dtype)
    (alpha,) = parameters("dirichlet", dtype, alpha)
    if not alpha.ndim:
        raise ShapeError("dirichlet requires a vector of parameters, got a scalar.", where=user_frame())
    stack = shape_over("dirichlet", shape, tuple(alpha.shape[:-1]))
    return _dirichlet(key_of("dirichlet", key), alpha, (*stack, alpha.shape[-1]), dtype)


@library
def _dirichlet(key: Any, alpha: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Vectors of a Dirichlet distribution: gamma-distributed numbers with the parameters `alpha`, divided by their sum, from
    logarithms.
    """
    logs = gammas(words_of(key), *spread("dirichlet", (alpha,), dtype, shape), is_log=True)
    if not logs.size:
        return logs
    parts = ew.exponential(logs - stop_gradient(max(logs, -1, keepdims=True)))
    return parts / sum(parts, -1, keepdims=True)


@parametrized
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """The sum of the squares of `df` normal numbers: twice a gamma-distributed number with the parameter df / 2.

    Args:
      key: a key.
      df: the degrees of freedom, above 0.
      shape: the shape of the result; None means the shape of `df`.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `df` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> chisquare(nm.random.key(0), 3.0, (3,)).shape
      (3,)
    """
    return _chisquares(key, df)


def _chisquares(key: KeyArray, df: Tensor) -> Tensor:
    """Twice a gamma-distributed number with the parameter df / 2."""
    return ew.exponential(gammas(key, df / 2.0, is_log=True)) * 2.0


@parametrized
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers of the F distribution: the ratio of two `chisquare` numbers, each divided by its degrees of freedom.

    Args:
      key: a key.
      dfnum: the degrees of freedom of the numerator, above 0.
      dfden: the degrees of freedom of the denominator, above 0.
      shape: the shape of the result; by default the parameters are broadcast.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: the parameters do not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> f(nm.random.key(0), 3.0, 5.0, (3,)).shape
      (3,)
    """
    of_below, of_above = split_in(key, 2)
    return (_chisquares(of_above, dfnum) / dfnum) / (_chisquares(of_below, dfden) / dfden)


@parametrized
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Random numbers of the Student distribution: a normal number divided by the root of a `chisquare` number over `df`.

    Args:
      key: a key.
      df: the degrees of freedom, above 0.
      shape: the shape of the result; None means the shape of `df`.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `df` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> t(nm.random.key(0), 3.0, (3,)).shape
      (3,)
    """
    first, second = split_in(key, 2)
    half = df / 2.0
    return normals(first, shape, dtype) * ew.sqrt(half / gammas(second, half))


def generalized_normal(key: Key, p: Any, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Tensor:
    """Random numbers with a density proportional to exp(-abs(x)**p).

    Args:
      key: a key.
      p: the exponent, above 0; it broadcasts to the shape.
      shape: the shape of the result.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `p` does not broadcast to the shape.

    Example:
      >>> import nabla_mlir as nm
      >>> generalized_normal(nm.random.key(0), 2.0, (3,)).shape
      (3,)
    """
    name = "generalized_normal"
    dtype = float_dtype(name, dtype)
    (p,) = parameters(name, dtype, p)
    return _generalized_normal(key_of(name, key), p, shape_for(name, shape_of(name, shape), p), dtype)


@library
def _generalized_normal(key: Any, p: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Numbers of `generalized_normal` for the parameters and the shape of a user."""
    return _generalized_normals(words_of(key), *spread("generalized_normal", (p,), dtype, shape))


def _generalized_normals(key: KeyArray, p: Tensor) -> Tensor:
    """Numbers with the density exp(-|x|**p): the 1/p-th power of gamma-distributed numbers with the parameter 1/p, with
    random signs.
    """
    first, second = split_in(key, 2)
    power = 1.0 / p
    return signs(second, p.shape, p.dtype) * ew.power(gammas(first, power), power)


def ball(key: Key, d: int, p: Any = 2.0, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Tensor:
    """Uniformly distributed vectors whose p-norm is below 1 (Barthe et al. 2005).

    Args:
      key: a key.
      d: the number of elements of a vector.
      p: the order of the norm, above 0.
      shape: the shape of the stack of vectors.
      dtype: the real dtype of the result; None means the default float dtype.

    Raises:
      DtypeError: the dtype is not real floating point; ShapeError: `d` is not a length, or `p` is not a scalar.

    Example:
      >>> import nabla_mlir as nm
      >>> ball(nm.random.key(0), 2, shape=(3,)).shape
      (3, 2)
    """
    dtype = float_dtype("ball", dtype)
    (p,) = parameters("ball", dtype, p)
    result_shape = (*shape_of("ball", shape), *shape_of("ball", (d,)))
    return _ball(
        key_of("ball", key), p, shape_for("ball", result_shape[:-1] if not np.shape(p) else (), p) + result_shape[-1:], dtype
    )


@library
def _ball(key: Any, p: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
    """Uniform points in the unit ball of the p-norm.

    They are vectors of generalized normal numbers, divided by the p-norm of the vector with one exponential number more.
    """
    first, second = split_in(words_of(key), 2)
    p = real("ball", p, dtype)
    x = _generalized_normals(first, broadcast_to(p, shape))
    norm = sum(ew.power(ew.absolute(x), broadcast_to(p, shape)), -1) + exponentials(second, shape[:-1], dtype)
    return x / ew.power(norm, broadcast_to(1.0 / p, norm.shape))[..., None]
