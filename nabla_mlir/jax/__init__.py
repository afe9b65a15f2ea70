"""The names of JAX, with JAX's meaning: `import nabla_mlir.jax as jax, nabla_mlir.jax.numpy as jnp` ports a program.

The framework itself is `import nabla_mlir as nm`; docs/jax_names.md lists what exists here and what does not. `__init__.pyi`
lists the names of `jax` itself, each of which is imported when it is first used.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import nabla_mlir.numpy  # noqa: F401  (gives tensors and arrays their methods)
from nabla_mlir.base.names import imported, no_attribute, public_names
from nabla_mlir.jax.mirrored import mirrored

_HOMES = public_names(__file__)
# The modules whose functions get the arrays of users, or return functions that do. `jit` does it at a call that is not repeated.
_MIRRORED = {home for home in _HOMES.values() if home.startswith("nabla_mlir.transforms")} | {
    *("nabla_mlir.jax.ad_checkpoint", "nabla_mlir.jax.differentiation", "nabla_mlir.jax.jaxprs", "nabla_mlir.staging.abstract")
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Imports a name of `jax` when it is first used, and keeps it."""
    if name not in _HOMES:
        raise no_attribute("module 'nabla_mlir.jax'", name, sys.modules[__name__])
    value = imported(__name__, _HOMES[name], name)
    if _HOMES[name] in _MIRRORED and isinstance(value, types.FunctionType):
        value = mirrored(value, __name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
