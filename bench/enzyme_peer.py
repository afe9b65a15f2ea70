"""Enzyme-JAX as a peer: the workloads of JAX, differentiated by the passes of Enzyme on their StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frameworks import jax_framework
from workload import Workload


def enzyme_calls(workload: Workload, args: tuple[Any, ...], v: Any) -> dict[str, Callable[[], Any]]:
    """The function, its gradient and its Hessian-vector product, jitted."""
    import jax
    from enzyme_ad.jax import JaXPipeline, enzyme_jax_ir

    enzyme = enzyme_jax_ir(pipeline_options=JaXPipeline())
    function = enzyme(workload.function(jax_framework()))
    gradient = enzyme(jax.grad(function))  # wrapped a second time, because in 0.0.16 a jvp of the plain gradient raises a KeyError

    def hvp(x: Any, v: Any, *rest: Any) -> Any:
        return jax.jvp(lambda x: gradient(x, *rest), (x,), (v,))[1]

    x, direction, rest = (jax.tree.map(jax.device_put, tree) for tree in (args[0], v, args[1:]))
    inputs = {"value": (x, *rest), "gradient": (x, *rest), "hvp": (x, direction, *rest)}
    functions = {"value": jax.jit(function), "gradient": jax.jit(jax.grad(function)), "hvp": jax.jit(hvp)}
    return {name: lambda f=f, xs=inputs[name]: jax.block_until_ready(f(*xs)) for name, f in functions.items()}
