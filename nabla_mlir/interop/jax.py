"""Functions of JAX as functions of nabla_mlir, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.regions import nested
from nabla_mlir.errors import ImportIRError
from nabla_mlir.exchange import readable
from nabla_mlir.interop.jax_calls import Part
from nabla_mlir.interop.jax_function import function as function
from nabla_mlir.interop.jax_rules import Importer
from nabla_mlir.interop.stablehlo import imported


def from_jax(function: Callable[..., Any], *specs: Any) -> Callable[..., Any]:
    """A JAX function, for arguments of given shapes and dtypes, as a function that every transform here accepts.

    The lowered program is imported, and with it what JAX differentiates by a rule: `jax.custom_jvp`, `jax.custom_vjp`,
    `jax.lax.stop_gradient`, `jax.lax.custom_linear_solve` and what is made of them, such as `jax.nn.relu` and
    `jnp.linalg.solve`. A program that JAX lowered elsewhere (`from_stablehlo` of `jax.export`'s) holds no rules: it is
    differentiated as it stands. The results come flat, as JAX's tree flattens them: one bare, several as a tuple.

    Args:
      function: any function that `jax.jit` accepts.
      specs: for each argument an array, or anything with a shape and a dtype; pytrees of them are flattened.

    Raises:
      ImportIRError: JAX is not installed, or the program holds something that cannot be imported; it is named.
      RuleMissingError: when it is differentiated, and a rule could not be imported: one that uses arguments of a function
        around it, that fails, or that makes rules within each other more than six deep, or one on other code in
        itself more than twice.

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
    abstract = [jax.tree.map(lambda x: jax.ShapeDtypeStruct(readable(x).shape, readable(x).dtype), spec) for spec in specs]
    module = Importer().module(Part(function, lambda: abstract))
    calls = [op for op in nested(module.operation) if op.name == "stablehlo.custom_call"]
    callbacks = {name for op in calls if "callback" in (name := hlo.String.decode(op.attributes["call_target_name"]))}
    if callbacks:
        raise ImportIRError(f"from_jax requires a program without callbacks to Python, got {', '.join(sorted(callbacks))}.",
                            help="leave out what prints or checks; EQX_ON_ERROR=nan does so for Equinox and Diffrax.")  # fmt: skip
    return imported(module, "main")
