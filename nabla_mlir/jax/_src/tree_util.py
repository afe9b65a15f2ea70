"""The table of pytree nodes, under its private name: it has the classes as keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import optree

from nabla_mlir.base import pytree


class _Entry(NamedTuple):
    """The function that flattens a node to its children, as JAX's registry stores it."""

    to_iter: Any
    from_iter: Any


class _Registry(Mapping[type, _Entry]):
    """The table of the registered node classes, with the functions that flatten and rebuild their nodes."""

    def _entries(self) -> dict[type, Any]:
        """The entries of optree's registry by class."""
        registry: Any = optree.register_pytree_node
        return dict(registry.get(namespace=pytree.NAMESPACE))

    def __getitem__(self, cls: type) -> _Entry:
        entry = self._entries()[cls]
        return _Entry(lambda node: tuple(entry.flatten_func(node)[:2]), entry.unflatten_func)

    def __iter__(self) -> Iterator[type]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())


_registry: _Registry = _Registry()
