"""Policies for the residuals of reverse mode, under the names of `jax.ad_checkpoint`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.jax.jaxprs import equation
from nabla_mlir.transforms import checkpointing
from nabla_mlir.transforms.checkpointing import checkpoint_name as checkpoint_name
from nabla_mlir.transforms.checkpointing import checkpoint_policies as checkpoint_policies


def checkpoint(
    fun: Callable[..., Any], *, prevent_cse: bool = True, policy: Any = None, static_argnums: int | Sequence[int] = ()
) -> Callable[..., Any]:
    """A function whose intermediate values reverse mode recomputes instead of storing them: `nm.checkpoint` with JAX's policies.

    Args:
      fun: any function of pytrees of arrays.
      prevent_cse: True keeps the second computation separate from the first.
      policy: one of `jax.checkpoint_policies`, or a function ``policy(primitive, *avals, **params)`` that is true for the
        operations whose results may be stored. Its arguments are those of the equations of `jax.make_jaxpr`.
      static_argnums: positions of arguments that are not arrays.

    Example:
      >>> import nabla_mlir as nm
      >>> f = checkpoint(lambda x: nm.numpy.exp(nm.numpy.sin(x)), policy=lambda primitive, *_, **__: primitive.name == "sin")
      >>> float(nm.grad(f)(0.0))
      1.0
    """

    def chosen(op: ir.Operation) -> Any:
        """True if the policy stores the results of an operation; it gets the operation as an equation of `make_jaxpr`."""
        found = equation(op)
        return policy(found.primitive, *(v.aval for v in found.invars), **found.params)

    given = chosen if callable(policy) else policy
    return checkpointing.checkpoint(fun, prevent_cse=prevent_cse, policy=given, static_argnums=static_argnums)


remat = checkpoint
