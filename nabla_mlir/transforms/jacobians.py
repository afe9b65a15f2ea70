"""Jacobians, Hessians and Hessian-vector products: maps over the unit vectors, never loops."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir import pytree
from nabla_mlir.eager import staged
from nabla_mlir.errors import TraceError, user_frame
from nabla_mlir.ops.elementwise import compare, convert
from nabla_mlir.ops.shape import iota, reshape
from nabla_mlir.ops.tensor import Tensor, full
from nabla_mlir.transforms.arguments import Argnums, active_arguments, differentiable, with_arguments
from nabla_mlir.transforms.gradients import grad
from nabla_mlir.transforms.linear import linearized, pullback, pushed
from nabla_mlir.transforms.vectorize import vmap
from nabla_mlir.vectorized import per_entry


def _basis(x: Tensor) -> Tensor:
    """The unit vectors of the space of `x`: shape (x.size, *x.shape). Never a loop over them."""
    n = x.size
    if n == 1:
        return full((1, *x.shape), 1, x.dtype)
    rows = iota(shape=(n, n), dtype=np.dtype(np.int32), iota_dimension=0)
    columns = iota(shape=(n, n), dtype=np.dtype(np.int32), iota_dimension=1)
    return reshape(convert(compare(rows, columns, comparison_direction="EQ"), dtype=x.dtype), shape=(n, *x.shape))


def jacfwd(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of `f` in forward mode: one vmap of jvp over the unit vectors of each argument leaf.

    Returns:
      A function whose result has, for each result leaf of shape S and argument leaf of shape A, a leaf of shape
      S + A; trees nest in that order. The emitted code does not grow with the sizes.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.jacfwd(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
      [[2.0, 0.0], [0.0, 4.0]]
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, leaves, spec = active_arguments("jacfwd", args, argnums)
        tensors = [differentiable("jacfwd", x, p) for x, p in zip(leaves, pytree.paths(spec), strict=True)]

        def g(*inner: Any) -> Any:
            return f(*with_arguments(args, chosen, pytree.unflatten(spec, inner)), **kwargs)

        out, push = linearized(g, tuple(tensors), has_aux)
        columns = []
        for k, x in enumerate(tensors):

            def along(v: Tensor, k: int = k) -> Any:
                return push(*(v if j == k else None for j in range(len(tensors))))

            columns.append(vmap(along, out_axes=-1)(_basis(x)))
        per_out = [pytree.flatten(c)[0] for c in columns]
        out_spec = pytree.flatten(columns[0])[1]
        rows = []
        for j in range(out_spec.num_leaves):
            blocks = [reshape(c[j], shape=(*c[j].shape[:-1], *x.shape)) for c, x in zip(per_out, tensors, strict=True)]
            rows.append(_by_argument(pytree.unflatten(spec, blocks), argnums))
        jacobian = pytree.unflatten(out_spec, rows)
        return (jacobian, out[1]) if has_aux else jacobian

    return functools.wraps(f)(lambda *args, **kwargs: staged(per_entry(run))(*args, **kwargs))


def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of `f` in reverse mode: one vmap of the pullback over the unit vectors of each result leaf.

    The result is laid out as that of `jacfwd`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.jacrev(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
      [[2.0, 0.0], [0.0, 4.0]]
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, leaves, spec = active_arguments("jacrev", args, argnums)
        tensors = [differentiable("jacrev", x, p) for x, p in zip(leaves, pytree.paths(spec), strict=True)]

        def g(*inner: Any) -> Any:
            return f(*with_arguments(args, chosen, pytree.unflatten(spec, inner)), **kwargs)

        out, pull = pullback(g, tuple(tensors), has_aux)
        value = out[0] if has_aux else out
        outs, out_spec = pytree.flatten(value)
        rows = []
        for k, y in enumerate(outs):
            differentiable("the result of jacrev", y, pytree.paths(out_spec)[k])

            def along(ct: Tensor, k: int = k) -> Any:
                return pull(pytree.unflatten(out_spec, [ct if j == k else None for j in range(len(outs))]))

            cts = pytree.flatten(vmap(along)(_basis(y)))[0]
            blocks = [reshape(ct, shape=(*y.shape, *x.shape)) for ct, x in zip(cts, tensors, strict=True)]
            rows.append(_by_argument(pytree.unflatten(spec, blocks), argnums))
        jacobian = pytree.unflatten(out_spec, rows)
        return (jacobian, out[1]) if has_aux else jacobian

    return functools.wraps(f)(lambda *args, **kwargs: staged(per_entry(run))(*args, **kwargs))


def _by_argument(blocks: tuple[Any, ...], argnums: Argnums) -> Any:
    return blocks[0] if isinstance(argnums, int) else blocks


_MODES = {"fwd": jacfwd, "rev": jacrev}


def hessian(f: Callable[..., Any], argnums: Argnums = 0, mode: str = "fwd_rev") -> Callable[..., Any]:
    """The Hessian of a scalar function: the Jacobian of the Jacobian.

    Args:
      mode: outer and inner mode: "fwd_rev" (the default, and the cheapest), "rev_rev", "rev_fwd" or "fwd_fwd".

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0])).tolist()
      [[6.0, 0.0], [0.0, 12.0]]
    """
    outer, _, inner = mode.partition("_")
    if outer not in _MODES or inner not in _MODES:
        raise TraceError(
            f"hessian requires mode fwd_rev, rev_rev, rev_fwd or fwd_fwd, got {mode!r}.", where=user_frame()
        )
    return _MODES[outer](_MODES[inner](f, argnums), argnums)


def hvp(f: Callable[..., Any], argnums: int = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The Hessian-vector product ``(x, v) -> (d²f/dx²) v``: forward mode over the gradient.

    Args:
      f: a scalar function of x and further arguments.
      argnums: the position of x among the arguments of `f`.
      has_aux: whether `f` returns ``(value, aux)``; aux is dropped.

    Returns:
      A function of ``(x, v, *rest)``: x and v are pytrees of one structure, `rest` are the other arguments of `f`
      in order.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.hvp(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]), np.array([1.0, 1.0])).tolist()
      [6.0, 12.0]
    """

    def hvp_f(x: Any, v: Any, *rest: Any, **kwargs: Any) -> Any:
        def run(x: Any, v: Any, *rest: Any, **kwargs: Any) -> Any:
            def gradient(x: Any) -> Any:
                args = [*rest[:argnums], x, *rest[argnums:]]
                out = grad(f, argnums, has_aux)(*args, **kwargs)
                return out[0] if has_aux else out

            return pushed(gradient, (x,), (v,), False)[1]

        return staged(per_entry(run))(x, v, *rest, **kwargs)

    hvp_f.__name__, hvp_f.__doc__ = getattr(f, "__name__", "hvp"), getattr(f, "__doc__", None)
    hvp_f.__signature__ = _hvp_signature(f, argnums)  # type: ignore[attr-defined]
    return hvp_f


def _hvp_signature(f: Callable[..., Any], argnums: int) -> inspect.Signature:
    """(x, v, *rest) with the names that `f` gives to x and the rest, so that artifacts have good argument names."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if not argnums < len(parameters):
        return inspect.Signature.from_callable(lambda x, v, *rest, **kwargs: None)
    rest = parameters[:argnums] + parameters[argnums + 1 :]
    taken = {p.name for p in parameters}
    v = "v" if "v" not in taken else "vector"
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = [parameters[argnums].replace(default=inspect.Parameter.empty, kind=kind), inspect.Parameter(v, kind)]
    required = [p.replace(default=inspect.Parameter.empty) for p in rest]
    return inspect.Signature([*first, *required])
