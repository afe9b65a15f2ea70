"""Gradients, and `stop_gradient`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, ShapeError, TreeError, check_function, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects import ad
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.stablehlo import I64
from nabla_mlir.dialects.types import is_complex, is_differentiable
from nabla_mlir.ops.autodiff import stop_gradient as stop_gradient_op
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.positions import Argnums, is_one, positions
from nabla_mlir.staging.tracing import results_of, trace_region
from nabla_mlir.table.promotion import as_tensor, is_scalar
from nabla_mlir.table.regions import MAX_RESIDUAL_BYTES
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.table.vectorized import whole, with_axes
from nabla_mlir.transforms.arguments import active_arguments, differentiable, own, specs_of, with_arguments
from nabla_mlir.transforms.vectorized import entrywise


def value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    max_residual_bytes: int | None = None,
    vectorized: str = "union",
) -> Callable[..., Any]:
    """The function ``x -> (fun(x), df/dx)``, by reverse mode.

    Args:
      fun: a function whose result is a floating-point scalar; with `has_aux`, a pair of the scalar and any other value.
      argnums: the positional argument(s) to differentiate; a sequence gives a tuple of gradients.
      has_aux: True if `fun` returns ``(value, aux)``; the new function then returns ``((value, aux), gradient)``.
      holomorphic: True if `fun` is complex-differentiable. It is needed for a complex result, and arguments must be complex
        then. The gradient of a real result by a complex argument x + iy is df/dx - i df/dy, as in JAX: the conjugate of the
        direction of steepest ascent.
      allow_int: True allows integers and truth values among the arguments. They have no derivative; the result is None.
      max_residual_bytes: the bytes that may be stored for each loop of `fun` without a limit of its own (`while_loop`).
      vectorized: the meaning of the gradient for vectorised tensors (see `nm.vectorize`). With "union", each entry of the
        result is differentiated separately; every gradient carries all axes of the result, in its order, and nothing is
        summed, except over axes that `fun` itself names. With "parameter", the sum over all entries is differentiated; a
        gradient has the axes of its argument. A function that removes named axes (`nm.devectorize`) is always differentiated
        as with "parameter".

    Raises:
      ShapeError: the result is not a scalar.
      DtypeError: an argument or the result is not floating-point, or the result is complex without `holomorphic`.

    Example:
      >>> import nabla_mlir as nm
      >>> value, slope = nm.value_and_grad(lambda x: x ** 2)(3.0)
      >>> float(value), float(slope)
      (9.0, 6.0)
    """
    check_function("value_and_grad", fun)
    positions("value_and_grad", argnums, None)

    def run(*args: Any, **kwargs: Any) -> Any:
        return _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, max_residual_bytes, args, kwargs)

    call = entrywise("grad", run, vectorized)
    return functools.wraps(fun)(lambda *args, **kwargs: call(*args, **kwargs))


def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    max_residual_bytes: int | None = None,
    vectorized: str = "union",
) -> Callable[..., Any]:
    """The gradient of a scalar function, as a function of the same arguments: ``x -> df/dx``.

    The arguments are those of `value_and_grad`. With `has_aux` it returns ``(gradient, aux)``.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.grad(nm.grad(lambda x: x ** 3))(2.0))
      12.0
    """
    check_function("grad", fun)
    positions("grad", argnums, None)
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, max_residual_bytes, vectorized)

    @functools.wraps(fun)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        """The gradient of the function, or (gradient, aux) with `has_aux`."""

        def run(*args: Any, **kwargs: Any) -> Any:
            value, gradient = both(*args, **kwargs)
            return (gradient, value[1]) if has_aux else gradient

        return staged(run)(*args, **kwargs)

    return grad_f


def _value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    max_residual_bytes: int | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The pair of the value and the gradient of `f` at `args`; with `has_aux`, the value is the pair of value and aux.

    The parameters are those of `value_and_grad`; `args` and `kwargs` are the arguments of `f`.
    """
    wrt, leaves, spec = active_arguments("grad", args, argnums)
    paths = pytree.paths(spec)
    positions = [i for i, x in enumerate(leaves) if not allow_int or is_differentiable(as_tensor(x).dtype)]
    tensors = [differentiable("grad", leaves[i], paths[i], holomorphic, real=False) for i in positions]
    box: dict[str, Any] = {}

    def body(*inner: Tensor) -> list[Any]:
        """The scalar result of `f` and the leaves of aux; `inner` are new values for the leaves at `positions`."""
        values = {**dict(enumerate(leaves)), **dict(zip(positions, inner, strict=True))}
        arguments = pytree.unflatten(spec, [values[i] for i in range(len(leaves))])
        out = f(*with_arguments(own(args), wrt, arguments), **own(kwargs))  # `own` copies tensors, because `f` may assign to them
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TreeError(
                    f"has_aux requires that the function returns (value, aux), got {type(out).__name__}.", where=user_frame()
                )
            out, aux = out
            aux_leaves, box["aux"] = pytree.flatten(aux)
        else:
            aux_leaves = []
        return [_scalar(out, holomorphic), *(as_tensor(a) for a in aux_leaves)]

    block, holder, outs = trace_region(body, specs_of(tensors), "the function given to grad", True, tensors)
    if max_residual_bytes is not None:
        _bound_loops(holder, max_residual_bytes)
    seed = full(whole(outs[0]).shape, 1, outs[0].dtype)
    op = ad.VjpOp.build([t.value for t in tensors], [seed.value], block, range(len(tensors)), [0]).op
    results = results_of(op, [*outs, *tensors])
    slopes = dict(zip(positions, results[len(outs) :], strict=True))
    gradients = pytree.unflatten(spec, [slopes.get(i) for i in range(len(leaves))])
    gradients = gradients[0] if is_one(argnums) else gradients
    value = with_axes(results[0], outs[0].axes)
    value.weak = outs[0].weak
    return ((value, pytree.unflatten(box["aux"], results[1 : len(outs)])) if has_aux else value), gradients


def _bound_loops(holder: ir.Operation, max_residual_bytes: int) -> None:
    """Sets the bound `max_residual_bytes` of stored bytes for each loop inside `holder` that has none."""
    for op in nested(holder):
        if op.name == "stablehlo.while" and MAX_RESIDUAL_BYTES not in op.attributes:
            op.attributes[MAX_RESIDUAL_BYTES] = I64.encode(max_residual_bytes)


def _result_help(out: Any) -> str:
    """Advice for the error that the result `out` of a function is no scalar."""
    if out is None:
        return "add a return to the function."
    if callable(out):
        return "call what the function returns: x.sum() rather than x.sum."
    return "use jacrev for several results, or has_aux=True for additional ones."


def _scalar(out: Any, holomorphic: bool) -> Tensor:
    """The result `out` of a function as a scalar tensor; raises an error if it is no scalar or has no gradient."""
    leaves, _ = pytree.flatten(out)
    if len(leaves) != 1 or not (pytree.is_array(out) or is_scalar(out)):
        raise ShapeError(
            f"grad requires a function with one scalar result, got {type(out).__name__}.",
            where=user_frame(),
            help=_result_help(out),
        )
    tensor = as_tensor(out)
    if tensor.shape != ():
        raise ShapeError(
            f"grad requires a scalar result, got shape {tensor.shape}.",
            where=user_frame(),
            help="reduce it (sum, mean); use jacrev for a matrix, or vmap(grad(f)) for the derivative of each element.",
        )
    if not is_differentiable(tensor.dtype):
        raise DtypeError(f"grad requires a result of floating point, got {tensor.dtype}.", where=user_frame())
    if is_complex(tensor.dtype) and not holomorphic:
        raise DtypeError(
            f"grad requires a real result, got {tensor.dtype}.",
            where=user_frame(),
            help="take the real part or the modulus, or pass holomorphic=True, or use vjp.",
        )
    if holomorphic and not is_complex(tensor.dtype):
        raise DtypeError(
            f"grad with holomorphic=True requires a complex result, got {tensor.dtype}.",
            where=user_frame(),
            help="leave holomorphic out: the result is real.",
        )
    return tensor


def stop_gradient(x: PyTree) -> PyTree:
    """The value, with a derivative of zero. It applies to every leaf of a pytree.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.grad(lambda x: x * nm.stop_gradient(x))(3.0))
      3.0
    """

    def run(x: Any) -> Any:
        leaves, spec = pytree.flatten(x)
        return pytree.unflatten(spec, [stop_gradient_op(as_tensor(leaf)) for leaf in leaves])

    return staged(run)(x)
