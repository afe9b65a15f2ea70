"""Functions on shapes and dtypes instead of numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import check_function
from nabla_mlir.base.typing import PyTree
from nabla_mlir.staging.positions import bind_static
from nabla_mlir.staging.specs import Spec, as_spec, spec
from nabla_mlir.staging.stages import Traced, entry_name_of, trace
from nabla_mlir.staging.tracing import is_tracing, trace_function, trace_region
from nabla_mlir.table.promotion import as_tensor


class _OfSpecs(type):
    """The type of a class whose calls return a `Spec`, and which has each `Spec` as an instance."""

    def __call__(cls, shape: Any, dtype: Any, *, sharding: Any = None, weak_type: bool = False, vma: Any = None) -> Spec:
        made = spec(shape, dtype)
        return Spec(made.shape, made.dtype, weak_type) if weak_type else made

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Spec)


class ShapeDtypeStruct(metaclass=_OfSpecs):
    """The shape and the dtype of an array: `spec` under the name of JAX. There is one device, so a sharding changes nothing.

    Example:
      >>> ShapeDtypeStruct((2,), "float32").shape, isinstance(spec(2), ShapeDtypeStruct)
      ((2,), True)
    """

    @staticmethod
    def like(x: Any) -> Spec:
        """The shape and the dtype of an array."""
        return as_spec(x)


def eval_shape(fun: Callable[..., Any], *args: PyTree, **kwargs: PyTree) -> PyTree:
    """The shapes and dtypes of the results of a function. Nothing is computed.

    Args:
      fun: a function of pytrees of arrays. Its results may also be objects of `nm.spec`.
      *args, **kwargs: arrays, or objects with their shape and dtype, such as `nm.spec`.

    Example:
      >>> import nabla_mlir as nm
      >>> print(eval_shape(lambda x: x.sum(0), nm.spec((2, 3), "f64")))
      float64[3]
    """
    check_function("eval_shape", fun)
    leaves, in_spec = pytree.flatten((args, kwargs))
    trees: dict[str, Any] = {}

    def flat(*tensors: Any) -> list[Any]:
        """The results of `fun` that are tensors, for the leaves `tensors` of its arguments; a result that is a Spec is left
        out.

        Stores the structure of all results as `trees["spec"]`, and their specs as `trees["specs"]`.
        """
        inner_args, inner_kwargs = pytree.unflatten(in_spec, tensors)
        outs, trees["spec"] = pytree.flatten(fun(*inner_args, **inner_kwargs))
        tensors_out = [out if isinstance(out, Spec) else as_tensor(out) for out in outs]
        trees["specs"] = [Spec(out.shape, out.dtype) for out in tensors_out]
        return [out for out in tensors_out if not isinstance(out, Spec)]

    specs = [as_spec(leaf) for leaf in leaves]
    if is_tracing():
        trace_region(flat, specs, "the function given to eval_shape")
    else:
        trace_function(flat, specs, "main")
    return pytree.unflatten(trees["spec"], trees["specs"])


def make_jaxpr(fun: Callable[..., Any], static_argnums: int | tuple[int, ...] = ()) -> Callable[..., Traced]:
    """A function that traces `fun` for its arguments. Its result prints as IR; see `nm.trace`.

    Args:
      fun: a function of pytrees of arrays.
      static_argnums: positions of arguments that are not arrays.

    Example:
      >>> "stablehlo.sine" in str(make_jaxpr(lambda x: __import__("nabla_mlir").numpy.sin(x))(1.0))
      True
    """

    @functools.wraps(fun)
    def make(*args: Any, **kwargs: Any) -> Traced:
        """The traced program for these arguments; arguments at `static_argnums` are constants of it."""
        dynamic, rest = bind_static("make_jaxpr", fun, args, static_argnums)
        return trace(dynamic, *rest, name=entry_name_of(fun), **kwargs)

    return make
