"""Products with approximations of the Hessian: Gauss-Newton, Fisher and empirical Fisher matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.ops.elementwise import exponential, tanh
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.shape import reduce_sum, reshape
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.gradients import value_and_grad
from nabla_mlir.transforms.linear import pullback, pushed
from nabla_mlir.transforms.vectorized import per_vectorized_entry

Byproducts = dict[str, Any]
# (x, v, *data) -> (the by-products, such as the value and the gradient; the product)
Product = Callable[..., tuple[Byproducts, Any]]


def hessian_product(f: Callable[..., Any]) -> Product:
    """The function (x, v) -> H v for a scalar function, with its value and gradient, by forward mode over both."""

    def product(x: Any, v: Any, *data: Any) -> tuple[Byproducts, Any]:
        """The value and the gradient at `x` as a dict, and the product of the Hessian with `v`; `data` are further arguments."""
        both = lambda y: value_and_grad(f)(y, *data)  # noqa: E731
        (value, gradient), (_, hv) = pushed(both, (x,), (v,), False)
        return {"value": value, "gradient": gradient}, hv

    return product


def gauss_newton_product(model: Callable[..., Any], loss: Callable[..., Any]) -> Product:
    """The function (x, v) -> Jᵀ H_loss J v, with the value and the gradient of the loss of the model."""

    def product(x: Any, v: Any, *data: Any) -> tuple[Byproducts, Any]:
        """The loss and its gradient at `x` as a dict, and J^T H J v.

        J is the Jacobian of the model, and H is the Hessian of the loss by the model's outputs.
        """
        out, jv = pushed(lambda y: model(y, *data), (x,), (v,), False)
        both = lambda o: value_and_grad(loss)(o, *data)  # noqa: E731
        (value, slope), (_, slope_tangent) = pushed(both, (out,), (jv,), False)
        _, pull = pullback(lambda y: model(y, *data), (x,), False)
        return {"value": value, "gradient": pull(slope)[0]}, pull(slope_tangent)[0]

    return product


def fisher_product(model: Callable[..., Any], distribution: str) -> Product:
    """The function (x, v) -> Jᵀ F J v, with the parameters of the distribution that the model returns."""
    if not isinstance(distribution, str) or distribution not in DISTRIBUTIONS:
        got = repr(distribution) if isinstance(distribution, str) else f"a {type(distribution).__name__}"
        raise TraceError(
            f"a Fisher product requires a distribution among {', '.join(DISTRIBUTIONS)}, got {got}.",
            where=user_frame(),
            help="it is the second argument, before the point: the model returns the parameters of this distribution.",
        )
    information = DISTRIBUTIONS[distribution]

    def product(x: Any, v: Any, *data: Any) -> tuple[Byproducts, Any]:
        """The model's outputs at `x` as a dict, and J^T F J v, with the model's Jacobian J and the information matrix F of its
        outputs.
        """
        out, jv = pushed(lambda y: model(y, *data), (x,), (v,), False)
        _, pull = pullback(lambda y: model(y, *data), (x,), False)
        outs, spec = pytree.flatten(out)
        slope_tangent = [information(o, t) for o, t in zip(outs, pytree.flatten(jv)[0], strict=True)]
        return {"value": out}, pull(pytree.unflatten(spec, slope_tangent))[0]

    return product


def empirical_fisher_product(losses: Callable[..., Any]) -> Product:
    """The function (x, v) -> Jᵀ J v / n for the losses of n samples, with the mean of the losses and its gradient."""

    def product(x: Any, v: Any, *data: Any) -> tuple[Byproducts, Any]:
        """The mean loss and its gradient at `x` as a dict, and J^T J v / n, with the Jacobian J of the n losses."""
        each, jv = pushed(lambda y: losses(y, *data), (x,), (v,), False)
        if not isinstance(each, Tensor) or each.ndim != 1:
            got = f"shape {each.shape}" if isinstance(each, Tensor) else type(each).__name__
            raise ShapeError(
                f"an empirical Fisher product requires a vector with the loss of each sample, got {got}.", where=user_frame()
            )
        _, pull = pullback(lambda y: losses(y, *data), (x,), False)
        share = full(each.shape, 1.0 / each.size, each.dtype)
        return {"value": reduce_sum(each, (0,)) / each.size, "gradient": pull(share)[0]}, pull(jv * share)[0]

    return product


def _over_last(x: Tensor, body: str, init: float) -> Tensor:
    """A reduction of the last axis, which remains with size 1."""
    result = reduce(x, full((), init, x.dtype), dimensions=(x.ndim - 1,), body=body)
    return reshape(result, shape=(*x.shape[:-1], 1))


def _categorical(logits: Tensor, t: Tensor) -> Tensor:
    """The Fisher information of a categorical distribution times `t`; the logits are in the last axis."""
    if not logits.ndim:
        raise ShapeError("a categorical distribution requires logits with an axis of classes, got a scalar.", where=user_frame())
    shifted = exponential(logits - _over_last(logits, "max", -float("inf")))
    p = shifted / _over_last(shifted, "add", 0.0)
    return p * (t - _over_last(p * t, "add", 0.0))


def _bernoulli(logits: Tensor, t: Tensor) -> Tensor:
    """The Fisher information p (1 - p) of Bernoulli distributions with these logits, times `t`."""
    p = 0.5 * (1.0 + tanh(0.5 * logits))
    return p * (1.0 - p) * t


# The Fisher information of one sample in its natural parameters, times a vector.
DISTRIBUTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "gaussian": lambda mean, t: t,
    "categorical": _categorical,
    "bernoulli": _bernoulli,
    "poisson": lambda log_rate, t: exponential(log_rate) * t,
}


def _public(product: Product, name: str) -> Callable[..., Any]:
    """The public function `name` of `product`: it returns only the vector, without the value and the gradient."""

    def call(x: Any, v: Any, *data: Any) -> Any:  # the product with v at x; `data` are further arguments
        run = lambda x, v, *data: product(x, v, *data)[1]  # noqa: E731
        return staged(per_vectorized_entry(run, run))(x, v, *data)

    call.__name__ = name
    return call


def ggnvp(model: Callable[..., Any], loss: Callable[..., Any]) -> Callable[..., Any]:
    """The Gauss-Newton product ``(x, v, *data) -> Jᵀ H J v``.

    J is the Jacobian of ``out = model(x, *data)`` and H the Hessian of ``loss(out, *data)`` with respect to `out`.
    It equals the Hessian-vector product if the model is linear, and is positive semidefinite if the loss is convex.

    Args:
      model: any function of x and data; its result is a pytree of arrays.
      loss: a scalar function of that result and the data.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> product = nm.ggnvp(lambda x: x * x, lambda out: (out * out).sum() / 2)
      >>> product(np.array([1.0, 2.0]), np.array([1.0, 1.0])).tolist()
      [4.0, 16.0]
    """
    return _public(gauss_newton_product(model, loss), "ggnvp")


def fishervp(model: Callable[..., Any], distribution: str) -> Callable[..., Any]:
    """The Fisher product ``(x, v, *data) -> Jᵀ F J v``, summed over all samples.

    Args:
      model: a function that returns the natural parameters of a distribution for each sample.
      distribution: "gaussian" (means, of variance 1), "categorical" (logits in the last axis), "bernoulli" (logits)
        or "poisson" (logarithms of rates); F is its Fisher information, an expectation over the distribution itself.

    Raises:
      TraceError: there is no such distribution.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.fishervp(lambda x: 2.0 * x, "gaussian")(np.array([1.0, 2.0]), np.array([1.0, 3.0])).tolist()
      [4.0, 12.0]
    """
    return _public(fisher_product(model, distribution), "fishervp")


def empirical_fishervp(losses: Callable[..., Any]) -> Callable[..., Any]:
    """The empirical Fisher product ``(x, v, *data) -> 1/n Σ g_i g_iᵀ v``, g_i being the gradient of sample i.

    Args:
      losses: ``(x, *data) -> vector of the losses of the n samples``.

    Raises:
      ShapeError: the result is not a vector.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> rows = np.array([[1.0, 0.0], [0.0, 2.0]])
      >>> nm.empirical_fishervp(lambda x, rows: rows @ x)(np.ones(2), np.ones(2), rows).tolist()
      [0.5, 2.0]
    """
    return _public(empirical_fisher_product(losses), "empirical_fishervp")
