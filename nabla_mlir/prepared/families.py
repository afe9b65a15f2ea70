"""The families of prepared matrices: Hessians and Jacobians, defined by their products."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.staging.positions import Argnums, is_one, positions
from nabla_mlir.staging.stages import trace
from nabla_mlir.transforms.arguments import with_arguments
from nabla_mlir.transforms.curvature import Product, hessian_product
from nabla_mlir.transforms.gradients import grad
from nabla_mlir.transforms.linear import pullback, pushed


@dataclass(frozen=True)
class Family:
    """A kind of matrix A(x), defined by its products.

    Attributes:
      product: ``(x, v, *data) -> (by-products, A v)``.
      direct: entry points without v, which are functions of (x, *data).
      derivative_of: the function with the derivative A, for a check by finite differences.
      transposed: the specs of the argument of Aᵀ, if Aᵀ is another map; `product` then accepts and returns pairs.
    """

    product: Product
    direct: dict[str, Callable[..., Any]] = field(default_factory=dict)
    derivative_of: Callable[..., Any] | None = None
    transposed: Any = None


def of_x(f: Callable[..., Any], argnums: Argnums, data: int) -> tuple[Callable[..., Any], list[str]]:
    """The function f as a function g of (x, *data), and the names of the arguments of g for error messages.

    x is the argument of f at `argnums`, or a tuple of the arguments there; `data` is the number of the other arguments. Example:
    for ``f(a, w, b)``, argnums=1 and data=2, g is ``g(w, a, b)``, with the names w, a, b.
    """
    count = data + len(positions("a prepared product", argnums, None))
    numbers = positions("a prepared product", argnums, count)
    try:
        names = [p.name for p in inspect.signature(f).parameters.values() if p.kind != p.VAR_POSITIONAL][:count]
    except (TypeError, ValueError):
        names = []
    names += [f"arg{i}" for i in range(len(names), count)]
    rest = [i for i in range(count) if i not in numbers]

    def g(x: Any, *data: Any) -> Any:
        """The value of f; its arguments are put back in their original order."""
        values = with_arguments((None,) * count, rest, data)  # None at the positions of x, which the next call fills
        return f(*with_arguments(tuple(values), numbers, (x,) if is_one(argnums) else x))

    others = [names[i] for i in rest]
    several = "x" if "x" not in others else "point"
    return g, [names[numbers[0]] if is_one(argnums) else several, *others]


def hessian_family(g: Callable[..., Any]) -> Family:
    """The family of Hessians of a scalar function of (x, *data)."""
    return Family(hessian_product(g), {"value": g, "gradient": grad(g)}, grad(g))


def jacobian_family(g: Callable[..., Any], x_spec: Any, data_specs: Sequence[Any]) -> Family:
    """The family of Jacobians of a function of (x, *data), of which `x_spec` and `data_specs` are pytrees of specs."""
    out = trace(g, x_spec, *data_specs).entries[0]

    def product(x: Any, vs: Any, *data: Any) -> Any:
        """The by-products, which are the value, and the pair of products J v and Jᵀ u for the pair `vs` = (v, u)."""
        v, u = vs
        value, jv = pushed(lambda y: g(y, *data), (x,), (v,), False)
        _, pull = pullback(lambda y: g(y, *data), (x,), False)
        return {"value": value}, (jv, pull(u)[0])

    return Family(product, {"value": g}, g, transposed=pytree.unflatten(out.out_spec, out.outputs))
