"""The operations of `jax.lax` as primitives, each made when it is first used."""

from __future__ import annotations

import functools

from nabla_mlir.jax import lax
from nabla_mlir.jax.primitives import Primitive

# Operations with functions inside are names alone: `bind` raises an error.
_CONTROL = (
    *("call", "closed_call", "cond", "core_call", "custom_jvp_call", "custom_vjp_call", "jit", "pjit", "remat"),
    *("scan", "while", "xla_call"),
)


@functools.cache
def primitive(name: str) -> Primitive | None:
    """The primitive with a name, such as "add", or None if `jax.lax` has no such operation."""
    made = Primitive(name)
    function = getattr(lax, name, None)
    if function is not None and name not in _CONTROL:
        made.def_impl(function)
    return made if function is not None or name in _CONTROL else None
