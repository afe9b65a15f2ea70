"""The operations of `jax.lax` as primitives, under the names of `jax.extend.core.primitives`: ``add_p.bind(x, y)`` adds.

Those with functions inside, such as `while_p`, have names alone: `bind` raises an error.
"""

from __future__ import annotations

from nabla_mlir.jax.operations import primitive
from nabla_mlir.jax.primitives import Primitive


def __getattr__(name: str) -> Primitive:
    """The primitive for a name such as `add_p`."""
    made = primitive(name.removesuffix("_p")) if name.endswith("_p") else None
    if made is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return made
