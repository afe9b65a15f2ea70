"""Derivatives with JAX's zeros for values without derivative: arrays of dtype `float0` where nabla_mlir has None."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.staging.positions import is_one, positions
from nabla_mlir.staging.specs import FLOAT0, as_spec
from nabla_mlir.transforms import gradients, linear


def _filled(slopes: Any, primals: Any) -> Any:
    """The derivatives `slopes` with a zero of dtype `float0` for each leaf of `primals` without a derivative."""
    leaves, spec = pytree.flatten(primals)
    found = pytree.flatten_like(spec, slopes, "a derivative", "its primal")
    return pytree.unflatten(spec, [_zero(x) if y is None else y for x, y in zip(leaves, found, strict=True)])


def _zero(x: Any) -> Any:
    """The zero of dtype `float0` with the shape of x, or None if x has a differentiable dtype."""
    spec = as_spec(x)
    return None if is_differentiable(spec.dtype) else np.zeros(spec.shape, FLOAT0)


def _emptied(slopes: Any) -> Any:
    """The derivatives with None in place of each zero of dtype `float0`."""
    leaves, spec = pytree.flatten(slopes)
    return pytree.unflatten(spec, [None if getattr(x, "dtype", None) == FLOAT0 else x for x in leaves])


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    max_residual_bytes: int | None = None,
) -> Callable[..., Any]:
    """The function ``x -> (fun(x), df/dx)``, see `nm.value_and_grad`; with `allow_int`, the derivative by an integer is a `float0`.

    Example:
      >>> value_and_grad(lambda x: 2.0 * x, allow_int=True)(3)[1].dtype == FLOAT0
      True
    """
    both = gradients.value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, max_residual_bytes=max_residual_bytes)

    @functools.wraps(fun)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        """The value of the function, and its gradient, in which integers have zeros of dtype `float0`."""
        value, slopes = both(*args, **kwargs)
        if not allow_int:
            return value, slopes
        wrt = [args[i] for i in positions("grad", argnums, len(args))]
        return value, _filled(slopes, wrt[0] if is_one(argnums) else tuple(wrt))

    return value_and_grad_f


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    max_residual_bytes: int | None = None,
) -> Callable[..., Any]:
    """The function ``x -> df/dx``, see `nm.grad`; with `allow_int`, the derivative by an integer is a `float0`.

    Example:
      >>> float(grad(lambda x: x * x)(3.0))
      6.0
    """
    if not allow_int:
        return gradients.grad(fun, argnums, has_aux, holomorphic, max_residual_bytes=max_residual_bytes)
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, max_residual_bytes=max_residual_bytes)

    @functools.wraps(fun)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, slopes = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return grad_f


def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """The pair ``(fun(x), df/dx t)``, see `nm.jvp`; the tangents of integers are zeros of `float0`.

    Example:
      >>> jvp(lambda x: x + 1, (3,), (np.zeros((), FLOAT0),))[1].dtype == FLOAT0
      True
    """
    out, slopes, *aux = linear.jvp(fun, primals, [_emptied(t) for t in tangents], has_aux)
    return out, _filled(slopes, out), *aux


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value and the pullback, see `nm.vjp`; the cotangents of integers are zeros of `float0`.

    Example:
      >>> [ct.dtype == FLOAT0 for ct in vjp(lambda x, i: x[i], np.ones(2, np.float32), 1)[1](1.0)]
      [False, True]
    """
    out, pull, *aux = linear.vjp(fun, *primals, has_aux=has_aux)

    @functools.wraps(fun)
    def pullback(cotangent: Any) -> Any:
        return _filled(pull(_emptied(cotangent)), primals)

    return out, pullback, *aux


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value and the linear function, see `nm.linearize`; the tangents of integers are zeros of `float0`.

    Example:
      >>> float(linearize(lambda x: x * x, 3.0)[1](1.0))
      6.0
    """
    out, push, *aux = linear.linearize(fun, *primals, has_aux=has_aux)

    @functools.wraps(fun)
    def pushforward(*tangents: Any) -> Any:
        return _filled(push(*map(_emptied, tangents)), out)

    return out, pushforward, *aux
