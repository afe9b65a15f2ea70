"""Sparse second-order matrices for optimisers: Gauss-Newton, and the Hessian of a Lagrangian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.sparse.derivatives import hessian, jacobian
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.transforms.vectorized import per_vectorized_entry


def gauss_newton(
    model: Callable[..., Any], loss: Callable[..., Any] | None = None, *, kind: str = "auto", order: str | Sequence[int] = "best"
) -> Callable[..., Any]:
    """The Gauss-Newton matrix Jᵀ H J as a `SparseMatrix`, from the derivatives of the coloring of J.

    J is the Jacobian of ``out = model(x, *data)`` and H the Hessian of ``loss(out, *data)`` with respect to `out`. Both are
    sparse, and so is their product, whose terms are known when it is traced. It needs only the products of J; products of
    Jᵀ H J would be more in number, and each more expensive.

    Args:
      model: a function of pytrees of arrays, such as the residuals of a problem.
      loss: a scalar function of the result of the model and the data; by default half the sum of squares, with H = I.
      kind, order: those of the coloring of J, as in `jacobian`.

    Returns:
      A function ``(x, *data) -> SparseMatrix``.

    Raises:
      PatternError: the product has too many terms, or as in `jacobian`.
      DtypeError: x or a result is not floating-point.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> matrix = nm.sparse.gauss_newton(lambda x: x[1:] - x[:-1] ** 2)(np.array([1.0, 2.0, 3.0]))
      >>> matrix.to_dense().tolist()
      [[4.0, -2.0, 0.0], [-2.0, 17.0, -4.0], [0.0, -4.0, 1.0]]
    """

    def call(x: Any, *data: Any) -> Any:
        """The sparse matrix J^T H J at `x`, with the Jacobian J of the model and the Hessian H of
        the loss; J^T J without a loss.
        """
        j = jacobian(model, kind=kind, order=order)(x, *data)
        if loss is None:
            return j.T @ j
        h = hessian(lambda out: loss(out, *data))(model(x, *data))
        return j.T @ (h @ j)

    return staged(per_vectorized_entry(call))


def lagrangian(f: Callable[..., Any], constraints: Callable[..., Any]) -> Callable[..., Any]:
    """The function ``(x, sigma, weights, *data) -> sigma f + Σ weights · constraints``, both of x and the data.

    The multipliers `sigma` and `weights` are arguments, so one pattern and one program of its derivatives serve all their values.
    `nm.sparse_hessian_module` makes an artifact of it.

    Args:
      f: a scalar function.
      constraints: a function with the same arguments that returns a pytree of arrays; the multipliers are a pytree like it.

    Raises:
      ShapeError: the multipliers have other shapes than the constraints.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> L = nm.sparse.lagrangian(lambda x: (x * x).sum(), lambda x: x[:1] * x[1:])
      >>> float(L(np.array([1.0, 2.0]), 3.0, np.array([4.0])))
      23.0
    """

    def call(x: Any, sigma: Any, weights: Any, *data: Any) -> Any:
        """The Lagrangian sigma * f(x) + sum(weights * constraints(x))."""
        values, spec = pytree.flatten(constraints(x, *data))
        factors = pytree.flatten_like(spec, weights, "the multipliers", "the constraints")
        total = sigma * f(x, *data)
        for value, factor, path in zip(values, factors, pytree.paths(spec), strict=True):
            tensor = as_tensor(factor)
            if tensor.shape != value.shape:
                raise ShapeError(
                    f"a Lagrangian requires multipliers of shape {tuple(value.shape)}, got {tensor.shape} at result{path}.",
                    where=user_frame(),
                    help="there is one for each element of the constraints.",
                )
            total = total + (tensor * value).sum()
        return total

    return staged(per_vectorized_entry(call))


def lagrangian_hessian(
    f: Callable[..., Any], constraints: Callable[..., Any], *, kind: str = "star", order: str | Sequence[int] = "best"
) -> Callable[..., Any]:
    """The Hessian of a Lagrangian, sigma ∇²f + Σ weights · ∇²constraints, as a `SparseMatrix`.

    One pattern and one coloring hold for all multipliers, zeros included, as interior-point solvers need it.

    Args:
      f, constraints: as in `lagrangian`.
      kind, order: as in `hessian`.

    Returns:
      A function ``(x, sigma, weights, *data) -> SparseMatrix``.

    Raises:
      ShapeError: the multipliers have other shapes than the constraints.
      PatternError, DtypeError: as in `hessian`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.sparse.lagrangian_hessian(lambda x: (x * x).sum(), lambda x: x[:1] * x[1:])
      >>> H(np.array([1.0, 2.0]), 3.0, np.array([4.0])).to_dense().tolist()
      [[6.0, 4.0], [4.0, 6.0]]
    """
    return hessian(lagrangian(f, constraints), kind=kind, order=order)
