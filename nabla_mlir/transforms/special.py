"""Special derivatives: the diagonal of a Hessian and its sum, transposes, custom gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import check_function
from nabla_mlir.base.typing import PyTree
from nabla_mlir.ops.shape import reduce_sum, reshaped
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.positions import positions
from nabla_mlir.staging.specs import as_spec
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.arguments import differentiable
from nabla_mlir.transforms.custom import custom_vjp
from nabla_mlir.transforms.linear import pullback, pushed
from nabla_mlir.transforms.unit_vectors import checked_batch_size, over_unit_vectors, shown
from nabla_mlir.transforms.vectorized import per_vectorized_entry
from nabla_mlir.transforms.vectorized_trees import leaves_of


def _along_axes(
    what: str, fun: Callable[..., Any], argnums: int, batch_size: int | None, args: Any, kwargs: Any
) -> tuple[list[Any], Any, list[Tensor]]:
    """The second derivatives of the results along all unit vectors of the argument at position `argnums`.

    `what` is the name of the transform, `batch_size` is the number of unit vectors at once, and `args` and `kwargs` are the
    arguments of `fun`.

    Returns:
      For each leaf of the argument, the results with the axis of the unit vectors in front; the structure of the argument; its
      leaves.
    """
    (position,) = positions(what, argnums, len(args))
    leaves, spec = pytree.flatten(args[position])
    point = [differentiable(what, leaf, path) for leaf, path in zip(leaves, pytree.paths(spec), strict=True)]

    def along(k: int, v: Tensor) -> Any:
        """The second derivative of `fun` along the vector `v` in leaf `k` of the argument."""

        def restricted(x: Tensor) -> Any:
            """The result of `fun` for the value x of leaf `k`; the other leaves and arguments stay."""
            inner = pytree.unflatten(spec, [x if j == k else y for j, y in enumerate(point)])
            return fun(*args[:position], inner, *args[position + 1 :], **kwargs)

        return pushed(lambda x: pushed(restricted, (x,), (v,), False)[1], (point[k],), (v,), False)[1]

    rows = []
    for k, x in enumerate(point):
        outs, out_spec = over_unit_vectors(functools.partial(along, k), x, batch_size)
        rows.append(pytree.unflatten(out_spec, outs))
    return rows, spec, point


def hessian_diagonal(fun: Callable[..., Any], argnums: int = 0, batch_size: int | None = None) -> Callable[..., Any]:
    """The second derivatives d²f/dx_i² of a scalar function, in the shape of its argument, each by forward mode twice.

    If the Hessian is sparse, `nm.sparse.hessian(fun)(x).diagonal()` needs only as many products as its colouring has colours.

    Args:
      fun: a function with a scalar result.
      argnums: the position of the argument, a pytree.
      batch_size: the number of unit vectors that are mapped over at once. By default, as many as need up to a gibibyte
        (`thresholds.UNIT_VECTOR_MEMORY`).

    Raises:
      ShapeError: `batch_size` is below 1.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.hessian_diagonal(lambda x: (x**3).sum() + x[0] * x[1])(np.array([1.0, 2.0])).tolist()
      [6.0, 12.0]
    """
    check_function("hessian_diagonal", fun)
    size = checked_batch_size("hessian_diagonal", batch_size)

    def run(*args: Any, **kwargs: Any) -> Any:
        rows, spec, point = _along_axes("hessian_diagonal", fun, argnums, size, args, kwargs)
        return pytree.unflatten(spec, [reshaped(row, x.shape) for row, x in zip(rows, point, strict=True)])

    return shown("hessian_diagonal", staged(per_vectorized_entry(run)))


def laplacian(fun: Callable[..., Any], argnums: int = 0, batch_size: int | None = None) -> Callable[..., Any]:
    """The sum of the second derivatives d²f/dx_i² over all elements of an argument, for each result.

    Args:
      fun: a function whose results are pytrees of arrays.
      argnums: the position of the argument, a pytree.
      batch_size: the number of unit vectors that are mapped over at once. By default, as many as need up to a gibibyte
        (`thresholds.UNIT_VECTOR_MEMORY`).

    Raises:
      ShapeError: `batch_size` is below 1.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> float(nm.laplacian(lambda x: (x**3).sum() + x[0] * x[1])(np.array([1.0, 2.0])))
      18.0
    """
    check_function("laplacian", fun)
    size = checked_batch_size("laplacian", batch_size)

    def run(*args: Any, **kwargs: Any) -> Any:
        """The sum of the second derivatives of each result along all unit vectors of all leaves of the argument."""
        rows, _, _ = _along_axes("laplacian", fun, argnums, size, args, kwargs)
        leaves = [leaves_of(row) for row in rows]  # the sums of a tensor with named axes are of each entry
        sums = [[reduce_sum(part, (0,)) for part in parts] for parts, _ in leaves]
        total = sums[0]
        for more in sums[1:]:
            total = [a + b for a, b in zip(total, more, strict=True)]
        return pytree.unflatten(leaves[0][1], total)

    return shown("laplacian", staged(per_vectorized_entry(run)))


def linear_transpose(fun: Callable[..., Any], *primals: PyTree, reduce_axes: tuple[()] = ()) -> Callable[..., Any]:
    """The transpose of a linear function, from a cotangent of its result to a tuple of cotangents of its arguments.

    Args:
      fun: a linear function.
      *primals: arrays, or objects with their shapes and dtypes; their numbers are not used.
      reduce_axes: must be empty.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.linear_transpose(lambda x: 2.0 * x, np.ones(2))(np.array([1.0, 3.0]))[0].tolist()
      [2.0, 6.0]
    """
    leaves, spec = pytree.flatten(primals)
    specs = [as_spec(leaf) for leaf in leaves]

    def run(ct: Any) -> Any:
        zeros = pytree.unflatten(spec, [full(s.shape, 0, s.dtype) for s in specs])
        return pullback(fun, zeros, False)[1](ct)

    return staged(run)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that returns its value and its pullback, which maps a cotangent to those of the arguments.

    Args:
      fun: a function from arguments to ``(value, pullback)``; the pullback of several arguments returns a tuple.

    Example:
      >>> import nabla_mlir as nm
      >>> f = nm.custom_gradient(lambda x: (x**2, lambda ct: 10.0 * ct))
      >>> float(f(3.0)), float(nm.grad(f)(3.0))
      (9.0, 10.0)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        """The value of `fun`, with the function that `fun` returns as its reverse mode."""
        rule = custom_vjp(lambda *inner: fun(*inner, **kwargs)[0])

        def backward(residuals: Any, ct: Any) -> Any:  # the cotangents of all arguments, which are the residuals
            cts = fun(*residuals, **kwargs)[1](ct)
            return cts if isinstance(cts, tuple) else (cts,)

        rule.defvjp(lambda *inner: (fun(*inner, **kwargs)[0], inner), backward)
        return rule(*args)

    return functools.wraps(fun)(lambda *args, **kwargs: staged(call)(*args, **kwargs))


def linear_call(fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any) -> Any:
    """The result of ``fun(residual_args, linear_args)``, which is linear in the latter, with a custom transpose.

    Forward mode calls `fun` with tangents. Reverse mode calls `fun_transpose` with cotangents; its derivatives call `fun`.

    Args:
      fun: a function from residuals and linear arguments to a pytree.
      fun_transpose: a function from residuals and cotangents of that pytree to a pytree like `linear_args`.
      residual_args: arguments by which neither function is differentiated. Their derivative is zero, and so is that of captured
        values of an enclosing trace.
      linear_args: a pytree of floating-point arrays.

    Example:
      >>> import nabla_mlir as nm
      >>> half = lambda x: linear_call(lambda r, x: x / r, lambda r, ct: 10.0 * ct / r, 2.0, x)
      >>> float(half(3.0)), float(nm.grad(half)(3.0))
      (1.5, 5.0)
    """
    forth, back = custom_vjp(fun), custom_vjp(fun_transpose)
    for own, other in ((forth, back), (back, forth)):
        own.defvjp(
            lambda residuals, x, own=own: (own(residuals, x), residuals),
            lambda residuals, ct, other=other: (None, other(residuals, ct)),
        )
    return staged(lambda residuals, x: forth(residuals, x))(residual_args, linear_args)
