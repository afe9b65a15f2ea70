"""Pytrees: nested containers of arrays, flattened by optree."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import optree

from nabla_mlir.base.errors import ExchangeError, TreeError, user_frame
from nabla_mlir.base.exchange import readable

NAMESPACE = "nabla_mlir"
T = TypeVar("T", bound=type)

TreeSpec = optree.PyTreeSpec


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a pytree and its structure; None is an empty container, and a value for which `is_leaf` is true is a leaf.

    Arrays of other systems become NumPy's, on the same memory.
    """
    leaves, spec = flatten_any(tree, is_leaf)
    if _reenter is not None:
        leaves, spec = _reenter(tree, is_leaf) or (leaves, spec)
    return [readable(leaf) for leaf in leaves], spec


_reenter: Callable[[Any, Any], tuple[list[Any], TreeSpec] | None] | None = None


def set_reenter(reenter: Callable[[Any, Any], tuple[list[Any], TreeSpec] | None]) -> None:
    """Says what a tree is where functions run on entries of the arrays in it: its leaves and structure, or None for itself."""
    global _reenter
    _reenter = reenter


def flatten_any(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The same with the leaves as they are, arrays of other systems too."""
    return optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)


def flatten_as_is(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves as they are and the structure, for functions of trees that do not compute with the leaves.

    `is_leaf` is True for nodes that are taken as leaves.
    """
    traced = None if _reenter is None else _reenter(tree, is_leaf)
    return flatten_any(tree, is_leaf) if traced is None else traced


def unflatten(spec: TreeSpec, leaves: Sequence[Any]) -> Any:
    """The pytree of a structure with these leaves."""
    return optree.tree_unflatten(spec, leaves)


def is_own(spec: TreeSpec) -> bool:
    """True for one container of a class that `register_node` knows."""
    return spec.kind == optree.PyTreeKind.CUSTOM and all(child.is_leaf() for child in spec.children())


def has_own_nodes(spec: TreeSpec) -> bool:
    """True if the structure has nodes of classes that `register_node` knows."""
    return spec.kind == optree.PyTreeKind.CUSTOM or any(map(has_own_nodes, spec.children()))


def maker(tree: Any) -> tuple[Callable[[Any, Any], Any], Any]:
    """The function that makes a container from its metadata and children, and the metadata."""
    _, metadata, _, unflatten_node = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    return unflatten_node, metadata


def paths(spec: TreeSpec) -> list[str]:
    """The path of each leaf as text, such as ``['w'][0]``."""
    return ["".join(_step(entry) for entry in accessor) for accessor in spec.accessors()]


def names(spec: TreeSpec) -> list[str]:
    """The name of each leaf, such as ``w.0``: the keys of its path, with dots between them; "" for a tree that is one leaf."""
    return [".".join(map(_key, accessor)) for accessor in spec.accessors()]


def _key(entry: Any) -> str:
    return str(entry.field if isinstance(entry, optree.NamedTupleEntry) else entry.entry)


def _step(entry: Any) -> str:
    """One step of a path, `entry` of optree, in Python syntax, such as `.weight` or `['w']`."""
    if isinstance(entry, (optree.GetAttrEntry, optree.DataclassEntry)):
        return f".{entry.entry}" if isinstance(entry.entry, (str, int)) else str(entry.entry)
    return f"[{entry.entry!r}]"


def flatten_like(spec: TreeSpec, tree: Any, what: str, like: str, as_arrays: bool = True) -> list[Any]:
    """The leaves of `tree`, which must have the structure `spec`; None may stand for a leaf.

    Args:
      spec: the structure.
      tree: the tree.
      what, like: the names of both in the message of an error.
      as_arrays: False leaves arrays of other systems as they are.

    Raises:
      TreeError: the structures differ; the message shows both.
    """
    try:
        return [readable(leaf) if as_arrays else leaf for leaf in spec.flatten_up_to(tree)]
    except ExchangeError:
        raise
    except (ValueError, TypeError):
        got = optree.tree_structure(tree, namespace=NAMESPACE)
        missing, other = (", ".join(p for p in paths(a) if p not in paths(b)) for a, b in ((spec, got), (got, spec)))
        advice = [f"it lacks {missing}"] * bool(missing) + [f"it has {other}, which {like} lacks"] * bool(other)
        raise TreeError(
            f"{what} requires the structure of {like}, got {got} instead of {spec}.",
            where=user_frame(),
            help=f"{'; '.join(advice)}." if advice else "",
        ) from None


def broadcast_prefix(prefix: Any, spec: TreeSpec, what: str) -> list[Any]:
    """One value for each leaf of `spec`, from a prefix of the tree: an int or None at a node counts for all leaves below it.

    Raises:
      TreeError: `prefix` is not a prefix of the tree.
    """
    try:
        return _spread(prefix, spec)
    except ValueError:
        raise TreeError(f"{what} requires a prefix of the structure {spec}, got {prefix!r}.", where=user_frame()) from None


def _spread(prefix: Any, spec: TreeSpec) -> list[Any]:
    """One value for each leaf of `spec`, from the tree `prefix`, whose leaves stand for whole subtrees.

    Example: (0, None) for a spec of ((x, y), z) gives [0, 0, None]. Raises ValueError if the structures differ.
    """
    # Not optree.broadcast_prefix: None is a value here and an empty node there.
    if prefix is None or optree.tree_is_leaf(prefix, namespace=NAMESPACE):
        return [prefix] * spec.num_leaves
    children, _, entries, _ = optree.tree_flatten_one_level(prefix, namespace=NAMESPACE)
    if spec.type is not type(prefix) or list(entries) != spec.entries():
        raise ValueError
    return [value for child, below in zip(children, spec.children(), strict=True) for value in _spread(child, below)]


def register_node(
    cls: type, flatten_node: Callable[[Any], Any], unflatten_node: Callable[[Any, Any], Any], has_names: bool = True
) -> None:
    """Makes a class a pytree node.

    Args:
      cls: the class.
      flatten_node, unflatten_node: the functions are those of `optree.register_pytree_node`.
      has_names: whether the children are attributes, or have only numbers.
    """
    entry = optree.GetAttrEntry if has_names else optree.FlattenedEntry
    with warnings.catch_warnings():  # a named tuple with its own functions is what the caller wants
        warnings.filterwarnings("ignore", "PyTree type", UserWarning)
        optree.register_pytree_node(cls, flatten_node, unflatten_node, path_entry_type=entry, namespace=NAMESPACE)


def register_dataclass(
    nodetype: T, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None, drop_fields: Sequence[str] = ()
) -> T:
    """Class decorator: makes a dataclass a pytree node whose children are its fields.

    Args:
      nodetype: the dataclass; for another class, `data_fields` and `meta_fields` name all attributes.
      data_fields: the fields that are children; if not given all, but those of `meta_fields` and those made by
        ``dataclasses.field(metadata={"static": True})``.
      meta_fields: the fields that are part of the structure; their values can be hashed and compared.
      drop_fields: fields that are neither, and have their defaults in a tree that is rebuilt.

    Example:
      >>> @register_dataclass
      ... @dataclasses.dataclass
      ... class Point:
      ...     x: float
      ...     y: float
      >>> flatten(Point(1.0, 2.0))[0]
      [1.0, 2.0]

    Raises:
      TreeError: the fields are not those of the class, or it is no dataclass and they are not given.
    """
    all_fields = dataclasses.fields(nodetype) if dataclasses.is_dataclass(nodetype) else ()
    fields = {f.name: f for f in all_fields if f.name not in drop_fields}
    if dataclasses.is_dataclass(nodetype):
        _check_fields(nodetype, fields, data_fields, meta_fields)
    elif data_fields is None or meta_fields is None:
        raise TreeError(
            f"register_dataclass requires a dataclass, or data_fields and meta_fields, got {nodetype.__name__}.", where=user_frame()
        )
    meta = (
        tuple(meta_fields)
        if meta_fields is not None
        else tuple(n for n, f in fields.items() if f.metadata.get("static") and n not in (data_fields or ()))
    )
    names = tuple(data_fields) if data_fields is not None else tuple(n for n in fields if n not in meta)

    def flatten_node(node: Any) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
        """The children of a node, the values of its static fields, and the names of the children."""
        return tuple(getattr(node, n) for n in names), tuple(getattr(node, n) for n in meta) or None, names

    def unflatten_node(aux: Any, children: Any) -> Any:
        """The node with these children and static fields."""
        node: Any = object.__new__(nodetype)  # children may be anything while a tree is rebuilt: no __post_init__
        for f in all_fields:
            if f.name in drop_fields:
                default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
                object.__setattr__(node, f.name, default)
        for name, value in [*zip(names, children, strict=True), *zip(meta, aux or (), strict=True)]:
            object.__setattr__(node, name, value)
        return node

    register_node(nodetype, flatten_node, unflatten_node)
    return nodetype


def _check_fields(cls: type, fields: Mapping[str, Any], data: Sequence[str] | None, meta: Sequence[str] | None) -> None:
    """Raises TreeError unless the names `data` and `meta` together name each of the fields `fields` of the class once."""
    if both := sorted(set(data or ()) & set(meta or ())):
        raise TreeError(
            f"register_dataclass requires each field once, got {both} in data_fields and meta_fields.", where=user_frame()
        )
    given = {*(data or ()), *(meta or ())}
    if unknown := sorted(given - set(fields)):
        raise TreeError(f"register_dataclass requires fields of {cls.__name__}, got {unknown}.", where=user_frame())
    missing = [name for name, field in fields.items() if field.init and name not in given]
    if data is not None and meta is not None and missing:
        raise TreeError(
            f"register_dataclass requires all fields of {cls.__name__}, got none of {missing}.",
            where=user_frame(),
            help="name them in data_fields, meta_fields or drop_fields.",
        )


def advice_for(leaf: Any) -> str:
    """The advice for a leaf that is a container but no node of pytrees; "" for other values."""
    if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
        return f"decorate {type(leaf).__name__} with nm.register_dataclass, which makes its fields arguments and results."
    if type(leaf).__module__ == "builtins" or isinstance(leaf, np.ufunc) or hasattr(leaf, "shape"):
        return ""
    name = type(leaf).__name__
    return f"pass the arrays of {name}, for example as a dict; nm.jax.tree_util.register_pytree_node makes {name} a node of trees."


def is_array(x: Any) -> bool:
    """True for values that hold numbers: tensors, device arrays, NumPy arrays and scalars."""
    return (
        isinstance(x, (np.ndarray, np.generic))
        or hasattr(x, "__nabla_tensor__")
        or (
            hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type)  # NumPy's scalar types have both
        )
    )
