"""Import of functions of JAX as functions of nabla_mlir, and export to JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.base.errors import ImportIRError, check_function
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.regions import nested
from nabla_mlir.interop.jax_calls import Part
from nabla_mlir.interop.jax_function import function as function
from nabla_mlir.interop.jax_rules import Importer
from nabla_mlir.interop.stablehlo import imported


def from_jax(function: Callable[..., Any], *specs: PyTree) -> Callable[..., Any]:
    """A JAX function as a function that every transform accepts, for arguments of given shapes and dtypes.

    The lowered program is imported, together with custom rules: `jax.custom_jvp`, `jax.custom_vjp`, `jax.lax.stop_gradient`,
    `jax.lax.custom_linear_solve` and functions that use them, such as `jax.nn.relu` and `jnp.linalg.solve`. A program that JAX
    lowered elsewhere (`jax.export`, imported by `from_stablehlo`) has no rules; its operations are differentiated. The results
    are flat, in the order of JAX's tree: a single result as it is, several as a tuple.

    Args:
      function: any function that `jax.jit` accepts.
      specs: for each argument an array, or an object with a shape and a dtype; pytrees of them are flattened.

    Raises:
      ImportIRError: JAX is not installed, or an operation cannot be imported; the message names it.
      RuleMissingError: at its differentiation, if a rule could not be imported. Such a rule uses arguments of an enclosing
        function, fails, nests rules more than six deep, or contains itself with other code more than twice.

    Example:
      >>> import nabla_mlir as nm, jax.numpy as jnp  # doctest: +SKIP
      >>> f = nm.from_jax(jnp.sin, nm.spec((), "float32"))  # doctest: +SKIP
      >>> float(nm.grad(f)(0.0))  # doctest: +SKIP
      1.0
    """
    try:
        import jax
    except ImportError:
        raise ImportIRError("from_jax requires JAX, got an environment without it.", help="pip install jax") from None
    check_function("from_jax", function)
    abstract = [jax.tree.map(lambda x: jax.ShapeDtypeStruct(readable(x).shape, readable(x).dtype), spec) for spec in specs]
    module = Importer().module(Part(function, lambda: abstract))
    calls = [op for op in nested(module.operation) if op.name == "stablehlo.custom_call"]
    callbacks = {name for op in calls if "callback" in (name := hlo.String.decode(op.attributes["call_target_name"]))}
    if callbacks:
        raise ImportIRError(
            f"from_jax requires a program without callbacks to Python, got {', '.join(sorted(callbacks))}.",
            help="leave out what prints or checks; EQX_ON_ERROR=nan does so for Equinox and Diffrax.",
        )
    return imported(module, "main")
