"""Pytrees under the names of `jax.tree_util`; `tree` has the same functions without the prefix."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import optree

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import TreeError, user_frame
from nabla_mlir.base.pytree import register_dataclass as register_dataclass
from nabla_mlir.jax.tree_keys import DictKey as DictKey
from nabla_mlir.jax.tree_keys import FlattenedIndexKey as FlattenedIndexKey
from nabla_mlir.jax.tree_keys import GetAttrKey as GetAttrKey
from nabla_mlir.jax.tree_keys import KeyEntry as KeyEntry
from nabla_mlir.jax.tree_keys import KeyPath, OwnKey, key_of
from nabla_mlir.jax.tree_keys import SequenceKey as SequenceKey
from nabla_mlir.jax.tree_keys import keystr as keystr
from nabla_mlir.random.keys import KeyArray

T = TypeVar("T", bound=type)
PyTreeDef = pytree.TreeSpec
Leaf = Callable[[Any], bool] | None
_UNSET = object()


# ---------------------------------------------------------------- flattening
def _flatten(tree: Any, is_leaf: Leaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree without conversion, and its structure; an array of keys is one leaf, as in JAX."""
    is_key = lambda x: isinstance(x, KeyArray) or (is_leaf is not None and is_leaf(x))  # noqa: E731
    return pytree.flatten_as_is(tree, is_key)


_flatten_like: Callable[..., list[Any]] = functools.partial(pytree.flatten_like, as_arrays=False)


def tree_flatten(tree: Any, is_leaf: Leaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree and its structure; None is an empty container.

    Args:
      tree: nested containers.
      is_leaf: a function that is True for further nodes that count as leaves.

    Example:
      >>> tree_flatten({"b": 1, "a": (2, None)})[0]
      [2, 1]
    """
    return _flatten(tree, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The pytree of a structure with these leaves; raises TreeError if their number is wrong."""
    try:
        return pytree.unflatten(treedef, list(leaves))
    except ValueError as error:
        raise TreeError(
            f"tree_unflatten requires as many leaves as the structure {treedef} has, got {error}.", where=user_frame()
        ) from None


def tree_leaves(tree: Any, is_leaf: Leaf = None) -> list[Any]:
    """The leaves of a pytree."""
    return _flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Leaf = None) -> PyTreeDef:
    """The structure of a pytree."""
    return _flatten(tree, is_leaf)[1]


def all_leaves(iterable: Iterable[Any], is_leaf: Leaf = None) -> bool:
    """True if each of the values is a leaf itself."""
    return all(len(leaves) == 1 and leaves[0] is x for x in iterable for leaves in [tree_leaves(x, is_leaf)])


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """True for the structure of a leaf."""
    return bool(treedef.is_leaf())


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of a node."""
    return list(treedef.children())


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees."""
    return optree.treespec_tuple(tuple(treedefs), namespace=pytree.NAMESPACE)


# ---------------------------------------------------------------- functions of all leaves
def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Leaf = None) -> Any:
    """The tree of ``f(leaf, *others)``; the other leaves have the same path in the other trees.

    Args:
      f: a function with one argument for each tree.
      tree: the first tree.
      *rest: trees whose structure begins with that of the first.
      is_leaf: a function that is True for further nodes that count as leaves.

    Raises:
      TreeError: the structures differ.

    Example:
      >>> tree_map(lambda a, b: a + b, {"x": 1}, {"x": 2})
      {'x': 3}
    """
    leaves, spec = _flatten(tree, is_leaf)
    others = [_flatten_like(spec, other, "tree_map", "the first tree") for other in rest]
    return pytree.unflatten(spec, [f(*each) for each in zip(leaves, *others, strict=True)])


def tree_reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _UNSET, is_leaf: Leaf = None) -> Any:
    """Combines the leaves from the left, starting from `initializer` if it is given."""
    leaves = tree_leaves(tree, is_leaf)
    return functools.reduce(function, leaves) if initializer is _UNSET else functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _UNSET, is_leaf: Leaf = None
) -> Any:
    """Combines the leaves by an associative function, as a balanced tree of calls."""
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is _UNSET:
            raise TreeError("tree_reduce_associative requires a leaf or an identity, got neither.", where=user_frame())
        return identity
    while len(values) > 1:
        pairs = [operation(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[2 * len(pairs) :]
    return values[0]


def tree_all(tree: Any, *, is_leaf: Leaf = None) -> bool:
    """True if all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: Leaf = None) -> Any:
    """Repeats each leaf of a prefix for all leaves of the subtree at its position in the full tree."""
    leaves, spec = _flatten(prefix_tree, is_leaf)
    parts = _flatten_like(spec, full_tree, "tree_broadcast", "its prefix")
    return pytree.unflatten(spec, [tree_map(lambda _, x=x: x, part) for x, part in zip(leaves, parts, strict=True)])


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """Exchanges the two structures of a tree of trees: ``outer(inner(leaf))`` becomes ``inner(outer(leaf))``.

    Args:
      outer_treedef: the outer structure.
      inner_treedef: the inner structure; None means the structure of the first part.
      pytree_to_transpose: the tree.

    Raises:
      TreeError: the tree has another structure.

    Example:
      >>> tree_transpose(tree_structure([0, 0]), tree_structure({"a": 0}), [{"a": 1}, {"a": 2}])
      {'a': [1, 2]}
    """
    leaves, whole = _flatten(pytree_to_transpose)
    n = inner_treedef.num_leaves if inner_treedef is not None else 0
    if inner_treedef is not None and n and pytree.has_own_nodes(whole) and len(leaves) == outer_treedef.num_leaves * n:
        # A class may keep the structure of what is in it as its metadata, which then differs from that in outer_treedef.
        rows, inner = [leaves[i : i + n] for i in range(0, len(leaves), n)], inner_treedef
    else:
        parts = _flatten_like(outer_treedef, pytree_to_transpose, "tree_transpose", "outer_treedef")
        inner = tree_structure(parts[0]) if inner_treedef is None else inner_treedef
        rows = [_flatten_like(inner, part, "tree_transpose", "inner_treedef") for part in parts]
    return pytree.unflatten(inner, [pytree.unflatten(outer_treedef, column) for column in zip(*rows, strict=True)])


# ---------------------------------------------------------------- paths
def _without_paths(tree: Any, is_leaf: Callable[[KeyPath, Any], bool]) -> Callable[[Any], bool]:
    """A predicate of nodes for one flattening of the tree, from a predicate `is_leaf` of paths and nodes.

    It must be called with the nodes in the order of the flattening.
    """
    answers: list[bool] = []
    nodes: list[tuple[KeyPath, Any]] = [((), tree)]
    while nodes:
        path, node = nodes.pop()
        answers.append(is_leaf(path, node))
        if not answers[-1] and not isinstance(node, KeyArray):
            children, spec = _flatten(node, functools.partial(operator.is_not, node))
            below = [] if spec.is_leaf() else [(*path, key_of(accessor[0])) for accessor in spec.accessors()]
            nodes += reversed(list(zip(below, children, strict=False)))
    order = iter(answers)
    return lambda _: next(order)


def tree_flatten_with_path(
    tree: Any, is_leaf: Any = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves with their paths, and the structure.

    Args:
      tree: nested containers.
      is_leaf: a function of a node that is True for further nodes that count as leaves.
      is_leaf_takes_path: True passes the path of the node to `is_leaf`, before the node.

    Example:
      >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"w": [1, 2]})[0]]
      [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    if is_leaf_takes_path and is_leaf is not None:
        is_leaf = _without_paths(tree, is_leaf)
    leaves, spec = _flatten(tree, is_leaf)
    paths = [tuple(key_of(entry) for entry in accessor) for accessor in spec.accessors()]
    return list(zip(paths, leaves, strict=True)), spec


def tree_leaves_with_path(tree: Any, is_leaf: Any = None, is_leaf_takes_path: bool = False) -> list[tuple[KeyPath, Any]]:
    """The leaves with their paths."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Any = None, is_leaf_takes_path: bool = False) -> Any:
    """The tree of `tree_map`, with the path as the first argument of the function."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [_flatten_like(spec, other, "tree_map_with_path", "the first tree") for other in rest]
    return pytree.unflatten(spec, [f(*pair, *each) for pair, *each in zip(pairs, *others, strict=True)])


# ---------------------------------------------------------------- custom nodes
def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Any, Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Makes a class a pytree node.

    Args:
      nodetype: the class.
      flatten_func: a function from a node to ``(children, aux)``; aux must be hashable and comparable.
      unflatten_func: a function from ``(aux, children)`` to a node.
      flatten_with_keys_func: a function from a node to ``((key, child) pairs, aux)``.

    Example:
      >>> class Pair:
      ...     def __init__(self, a, b): self.a, self.b = a, b
      >>> register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
      >>> tree_leaves(Pair(1, [2, 3]))
      [1, 2, 3]
    """

    def flatten(node: Any) -> tuple[Any, Any, Any]:
        """The children of a node, its auxiliary data, and the keys of the children (None without `flatten_with_keys_func`). Raises
        TreeError if the flatten function returns something else.
        """
        if flatten_with_keys_func is None:
            children, aux = flatten_func(node)
            if not isinstance(children, Iterable):
                raise TreeError(
                    f"the flatten function of {nodetype.__name__} requires to return (children, aux) with children that can be "
                    f"iterated, got {(children, aux)}.",
                    where=user_frame(),
                )
            return tuple(children), aux, None
        pairs, aux = flatten_with_keys_func(node)
        keys, children = zip(*pairs, strict=True) if pairs else ((), ())
        return children, aux, tuple(OwnKey(key) if type(key) is str else key for key in keys)

    pytree.register_node(nodetype, flatten, unflatten_func, has_names=flatten_with_keys_func is not None)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Any, Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Makes a class a pytree node whose children have keys; see `register_pytree_node`."""
    register_pytree_node(nodetype, flatten_func or flatten_with_keys, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: T) -> T:
    """Class decorator: registers a class with the methods ``tree_flatten(self)`` and ``tree_unflatten(cls, aux, children)``."""
    node: Any = cls
    register_pytree_node(cls, lambda x: x.tree_flatten(), node.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: T) -> T:
    """Class decorator: registers a class with ``tree_flatten_with_keys(self)`` and ``tree_unflatten(cls, aux, children)``."""
    node: Any = cls
    register_pytree_node(cls, lambda x: x.tree_flatten(), node.tree_unflatten, lambda x: x.tree_flatten_with_keys())
    return cls


def register_static(cls: T) -> T:
    """Class decorator: registers a node without leaves; the object, which must be hashable, is part of the structure."""
    register_pytree_node(cls, lambda x: ((), x), lambda aux, _: aux)
    return cls


class PyTreeRegistry:
    """The classes that are pytree nodes, under the name of JAX."""

    def flatten_one_level(self, x: Any) -> tuple[Iterable[Any], Any] | None:
        """The children of a node and its metadata; None for a leaf."""
        if x is None or tree_structure(x, is_leaf=lambda y: y is not x).is_leaf():
            return None if x is not None else ((), None)
        children, metadata, _, _ = optree.tree_flatten_one_level(x, namespace=pytree.NAMESPACE)
        return children, metadata

    register_node = staticmethod(register_pytree_node)


default_registry: PyTreeRegistry = PyTreeRegistry()


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The children of a node, and its metadata.

    Raises:
      TreeError: it is a leaf.

    Example:
      >>> flatten_one_level((1, [2]))[0]
      [1, [2]]
    """
    found = default_registry.flatten_one_level(tree)
    if found is None:
        raise TreeError(f"flatten_one_level requires a node, got {type(tree).__name__}, which is a leaf.", where=user_frame())
    return list(found[0]), found[1]


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of a node with their keys, and its metadata.

    Raises:
      TreeError: it is a leaf.

    Example:
      >>> flatten_one_level_with_keys({"b": 1, "a": 2})[0]
      [(DictKey(key='a'), 2), (DictKey(key='b'), 1)]
    """
    children, metadata = flatten_one_level(tree)
    accessors = tree_structure(tree, is_leaf=lambda x: x is not tree).accessors()
    metadata = tuple(metadata) if isinstance(tree, dict) else metadata
    return [(key_of(accessor[0]), child) for accessor, child in zip(accessors, children, strict=True)], metadata


def is_tree_node(typ: type) -> bool:
    """True for the class of a node: a container of Python, a namedtuple, or a class that was registered.

    Example:
      >>> is_tree_node(dict), is_tree_node(set)
      (True, False)
    """
    is_namedtuple = issubclass(typ, tuple) and hasattr(typ, "_fields")
    registered: Any = optree.register_pytree_node.get  # type: ignore[attr-defined,unused-ignore]
    return is_namedtuple or typ in registered(namespace=pytree.NAMESPACE)


@dataclass(frozen=True)
class _Whole:
    """A `functools.partial` as a plain function, so that a `Partial` of it does not take over its arguments."""

    partial: functools.partial[Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.partial(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.partial == (other.partial if isinstance(other, _Whole) else other)

    def __hash__(self) -> int:
        return hash(self.partial)


class Partial(functools.partial[Any]):
    """`functools.partial` as a pytree: its arguments are the children, the function is part of the structure.

    Example:
      >>> tree_leaves(Partial(pow, 2.0))
      [2.0]
      >>> Partial(functools.partial(pow, 2.0), 3.0).args
      (3.0,)
    """

    def __new__(cls, func: Any, /, *args: Any, **keywords: Any) -> Partial:
        """A partial application; that of a `functools.partial` leaves its arguments where they are."""
        return super().__new__(cls, _Whole(func) if type(func) is functools.partial else func, *args, **keywords)


def _make_partial(function: Any, children: Any) -> Partial:
    args, keywords = children
    return Partial(function, *args, **keywords)


register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func), _make_partial)
