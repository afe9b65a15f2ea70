"""Pytrees: nested containers of arrays, flattened by optree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import optree

from nabla_mlir.errors import ExchangeError, TreeError, user_frame
from nabla_mlir.exchange import readable

NAMESPACE = "nabla_mlir"
T = TypeVar("T", bound=type)

TreeSpec = optree.PyTreeSpec


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a pytree and its structure; None is an empty container, and what `is_leaf` says a leaf.

    Arrays of other systems become NumPy's, on the same memory.
    """
    leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    return [readable(leaf) for leaf in leaves], spec


def unflatten(spec: TreeSpec, leaves: Sequence[Any]) -> Any:
    """The pytree of a structure with these leaves."""
    return optree.tree_unflatten(spec, leaves)


def paths(spec: TreeSpec) -> list[str]:
    """The place of each leaf as text, such as ``['w'][0]``."""
    return ["".join(_step(entry) for entry in accessor) for accessor in spec.accessors()]


def _step(entry: Any) -> str:
    if isinstance(entry, (optree.GetAttrEntry, optree.DataclassEntry)):
        return f".{entry.entry}"
    return f"[{entry.entry!r}]"


def flatten_like(spec: TreeSpec, tree: Any, what: str, like: str) -> list[Any]:
    """The leaves of `tree`, which must have the structure `spec`; None may stand for a leaf.

    Raises:
      TreeError: the structures differ; the message shows both.
    """
    try:
        return [readable(leaf) for leaf in spec.flatten_up_to(tree)]
    except ExchangeError:
        raise
    except (ValueError, TypeError):
        raise TreeError(
            f"{what} requires the structure of {like}, got {optree.tree_structure(tree, namespace=NAMESPACE)}"
            f" instead of {spec}.", where=user_frame(),
        ) from None  # fmt: skip


def broadcast_prefix(prefix: Any, spec: TreeSpec, what: str) -> list[Any]:
    """One value per leaf of `spec` from a prefix of that tree (an int or None at a node holds for all below).

    Raises:
      TreeError: `prefix` is not a prefix of the tree.
    """
    try:
        return _spread(prefix, spec)
    except ValueError:
        raise TreeError(
            f"{what} requires a prefix of the structure {spec}, got {prefix!r}.", where=user_frame()
        ) from None


def _spread(prefix: Any, spec: TreeSpec) -> list[Any]:
    # Not optree.broadcast_prefix: None is a value here and an empty node there.
    if prefix is None or optree.tree_is_leaf(prefix, namespace=NAMESPACE):
        return [prefix] * spec.num_leaves
    children, _, entries, _ = optree.tree_flatten_one_level(prefix, namespace=NAMESPACE)
    if spec.type is not type(prefix) or list(entries) != spec.entries():
        raise ValueError
    return [value for child, below in zip(children, spec.children(), strict=True) for value in _spread(child, below)]


def register_node(cls: type, flatten_node: Callable[[Any], Any], unflatten_node: Callable[[Any, Any], Any]) -> None:
    """Makes a class a pytree node; the functions are those of `optree.register_pytree_node`."""
    optree.register_pytree_node(
        cls, flatten_node, unflatten_node, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE
    )


def register_dataclass(cls: T) -> T:
    """Class decorator: makes a dataclass a pytree node whose children are its fields.

    Example:
      >>> @register_dataclass
      ... @dataclasses.dataclass
      ... class Point:
      ...     x: float
      ...     y: float
      >>> flatten(Point(1.0, 2.0))[0]
      [1.0, 2.0]
    """
    names = [f.name for f in dataclasses.fields(cls)]

    def flatten_node(node: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(node, n) for n in names), None, tuple(names)

    def unflatten_node(_: Any, children: Any) -> Any:
        node: Any = object.__new__(cls)  # children may be anything while a tree is rebuilt: no __post_init__
        for name, child in zip(names, children, strict=True):
            object.__setattr__(node, name, child)
        return node

    register_node(cls, flatten_node, unflatten_node)
    return cls


def advice_for(leaf: Any) -> str:
    """What to do about a container that is no node: "" for anything else."""
    if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
        return f"decorate {type(leaf).__name__} with nm.register_dataclass, which makes its fields arguments and results."
    return ""


def is_array(x: Any) -> bool:
    """True for what holds numbers: tensors, device arrays, NumPy arrays and scalars."""
    return isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "__nabla_tensor__") or (
        hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type)  # NumPy's scalar types have both
    )  # fmt: skip
