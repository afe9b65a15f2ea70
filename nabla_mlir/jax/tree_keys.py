"""The keys of paths in pytrees, under the names of `jax.tree_util`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import optree


@dataclass(frozen=True)
class DictKey:
    """A key of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class SequenceKey:
    """A position in a list or a tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """The index of a child of a node whose children have no names."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"

    def __hash__(self) -> int:
        return hash((FlattenedIndexKey, self.key))  # not that of a position


KeyEntry = Any
KeyPath = tuple[Any, ...]


def key_of(entry: Any) -> Any:
    """The key of JAX for an entry of a path of optree."""
    if isinstance(entry, (optree.NamedTupleEntry, optree.GetAttrEntry, optree.DataclassEntry)):
        if type(entry.entry) not in (str, int):
            return entry.entry  # a key that the class defines
        return GetAttrKey(entry.field if isinstance(entry, optree.NamedTupleEntry) else str(entry.entry))
    if isinstance(entry, optree.MappingEntry):
        return DictKey(entry.entry)
    return SequenceKey(entry.entry) if isinstance(entry, optree.SequenceEntry) else FlattenedIndexKey(entry.entry)


class OwnKey(str):
    """A key of a child that its class defines as a text, which is no name of an attribute."""

    __slots__ = ()


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text, such as ``['w'][0]``, or ``w/0`` for ``simple=True, separator="/"``."""
    if not simple:
        return separator.join(map(str, keys))
    names = [next(iter(vars(k).values())) if hasattr(k, "__dataclass_fields__") else k for k in keys]
    return separator.join(map(str, names))
