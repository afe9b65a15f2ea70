"""Pytrees under the names of `jax.tree`."""

from __future__ import annotations

import dataclasses
from typing import Any

from nabla_mlir.jax.tree_util import tree_all as all
from nabla_mlir.jax.tree_util import tree_broadcast as broadcast
from nabla_mlir.jax.tree_util import tree_flatten as flatten
from nabla_mlir.jax.tree_util import tree_flatten_with_path as flatten_with_path
from nabla_mlir.jax.tree_util import tree_leaves as leaves
from nabla_mlir.jax.tree_util import tree_leaves_with_path as leaves_with_path
from nabla_mlir.jax.tree_util import tree_map as map
from nabla_mlir.jax.tree_util import tree_map_with_path as map_with_path
from nabla_mlir.jax.tree_util import tree_reduce as reduce
from nabla_mlir.jax.tree_util import tree_reduce_associative as reduce_associative
from nabla_mlir.jax.tree_util import tree_structure as structure
from nabla_mlir.jax.tree_util import tree_transpose as transpose
from nabla_mlir.jax.tree_util import tree_unflatten as unflatten


def static(*, metadata: dict[str, Any] | None = None, **options: Any) -> Any:
    """A field of a dataclass that is part of the structure of a tree: `dataclasses.field` with ``{"static": True}`` as metadata.

    Example:
      >>> static(default=3).metadata["static"]
      True
    """
    return dataclasses.field(metadata={"static": True, **(metadata or {})}, **options)


__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
