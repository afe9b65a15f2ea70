"""Trees of arrays without optree: the structure of arguments and results as JSON, and flattening by it.

The JSON of a node is one of

    "*"                                              a leaf
    null                                             None, which has no leaves
    {"tuple": [child, ...]}   {"list": [child, ...]}
    {"dict": [[key, child], ...]}                    sorted by key
    {"namedtuple": "Name", "fields": [[field, child], ...]}
    {"custom": "module.Type", "entries": [[entry, child], ...]}
    {"vectorized": [[axis name, size], ...]}         an array with named axes, which lead

As an argument, a namedtuple may be any namedtuple or dict with these fields; as a result it is a namedtuple. A custom
node (such as a registered dataclass) may be a dict or an object with these attributes; as a result it is a dict,
because the type itself may not exist where an artifact is deployed.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nabla_mlir.base.errors import TreeError, user_frame
from nabla_mlir.base.locks import cached_property
from nabla_mlir.runtime.named import VectorizedArray

_SEQUENCES = {"tuple": tuple, "list": list}
_CONTAINERS = (type(None), tuple, list, dict)
_MISSING = object()


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree.

    Args:
      kind: leaf, none, tuple, list, dict, namedtuple, custom or vectorized.
      children: the structures below.
      keys: the key of each child, for the kinds that have keys.
      type_name: the name of a namedtuple or custom type.
      axes: the named axes of a vectorized array and their sizes.

    Example:
      >>> spec = TreeSpec.from_json({"dict": [["b", "*"], ["w", {"tuple": ["*", None]}]]})
      >>> spec.paths("params")
      ["params['b']", "params['w'][0]"]
      >>> spec.unflatten([1, 2])
      {'b': 1, 'w': (2, None)}
    """

    kind: str
    children: tuple[TreeSpec, ...] = ()
    keys: tuple[Any, ...] = ()
    type_name: str = ""
    axes: tuple[tuple[str, int], ...] = ()

    @cached_property
    def num_leaves(self) -> int:
        """The number of leaves of the tree."""
        return 1 if self.kind == "leaf" else sum(child.num_leaves for child in self.children)

    def paths(self, name: str = "") -> list[str]:
        """The path of each leaf in Python syntax, below `name`."""
        if self.kind == "leaf":
            return [name]
        return [path for key, child in self._items() for path in child.paths(name + self._step(key))]

    def collect(self, tree: Any, leaves: list[Any]) -> bool:
        """True if the tree certainly has this structure; its leaves are then appended to `leaves`. False if `flatten` must decide.

        This is the fast path of a call, for trees of the usual types; after False, `leaves` may have some of the leaves.
        """
        kind = self.kind
        if kind == "leaf":
            leaves.append(tree)
            return type(tree) not in _CONTAINERS
        if kind == "dict":
            if type(tree) is not dict or len(tree) != len(self.keys):
                return False
            pairs = zip(self.keys, self.children, strict=True)
            return all(key in tree and child.collect(tree[key], leaves) for key, child in pairs)
        if kind == "none":
            return tree is None
        is_named = kind == "namedtuple" and isinstance(tree, tuple) and getattr(tree, "_fields", None) == self.keys
        if is_named or (kind in _SEQUENCES and type(tree) is _SEQUENCES[kind] and len(tree) == len(self.children)):
            return all(child.collect(item, leaves) for item, child in zip(tree, self.children, strict=True))
        return False

    def flatten(self, tree: Any, name: str = "tree") -> list[Any]:
        """The leaves of a tree that has this structure.

        Args:
          tree: the tree.
          name: the name of the tree in errors.

        Raises:
          TreeError: the structure differs; the message names each difference and shows both structures.
        """
        leaves: list[Any] = []
        problems: list[str] = []
        self._flatten(tree, name, leaves, problems)
        if not problems:
            return leaves
        lines = [*problems[:8], *([f"and {len(problems) - 8} more"] if len(problems) > 8 else [])]
        message = f"{name} requires the structure {self}, got {describe(tree)}."
        is_list = self.kind == "leaf" and isinstance(tree, (list, tuple))
        advice = f"np.array(x) is the array of the {type(tree).__name__} x." if is_list else ""
        raise TreeError("\n    ".join([message, *lines]), where=user_frame(), help=advice)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The tree of this structure with these leaves.

        Raises:
          TreeError: their number is wrong.
        """
        if len(leaves) != self.num_leaves:
            raise TreeError(f"unflatten requires {self.num_leaves} leaves for {self}, got {len(leaves)}.")
        return self._unflatten(iter(leaves))

    def to_json(self) -> Any:
        """The structure as JSON values."""
        pairs = [[key, child.to_json()] for key, child in zip(self.keys, self.children, strict=False)]
        match self.kind:
            case "leaf":
                return "*"
            case "none":
                return None
            case "tuple" | "list":
                return {self.kind: [child.to_json() for child in self.children]}
            case "dict":
                return {"dict": pairs}
            case "vectorized":
                return {"vectorized": [list(axis) for axis in self.axes]}
            case "namedtuple":
                return {"namedtuple": self.type_name, "fields": pairs}
        return {"custom": self.type_name, "entries": pairs}

    @staticmethod
    def from_json(data: Any) -> TreeSpec:
        """The structure from the JSON values that `to_json` returned.

        Raises:
          TreeError: the JSON is none of the forms above.
        """
        if data == "*":
            return LEAF
        if data is None:
            return NONE
        try:
            for kind in _SEQUENCES:
                if kind in data:
                    return TreeSpec(kind, tuple(TreeSpec.from_json(child) for child in data[kind]))
            if "vectorized" in data:
                return vectorized_leaf((name, size) for name, size in data["vectorized"])
            for kind, children in (("dict", "dict"), ("namedtuple", "fields"), ("custom", "entries")):
                if kind in data:
                    keys = tuple(key for key, _ in data[children])
                    specs = tuple(TreeSpec.from_json(child) for _, child in data[children])
                    return TreeSpec(kind, specs, keys, "" if kind == "dict" else data[kind])
        except (TypeError, KeyError, ValueError):
            pass
        raise TreeError(f"a tree specification requires a known form, got {data!r}.")

    def __str__(self) -> str:
        """The structure in Python syntax, with a star for each leaf: ``{'w': (*, None)}``."""
        items = [str(child) for child in self.children]
        match self.kind:
            case "leaf":
                return "*"
            case "none":
                return "None"
            case "tuple":
                return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
            case "list":
                return f"[{', '.join(items)}]"
            case "dict":
                return "{" + ", ".join(f"{key!r}: {c}" for key, c in zip(self.keys, items, strict=True)) + "}"
            case "vectorized":
                return f"* vectorized over {dict(self.axes)}"
        fields = ", ".join(f"{key}={c}" for key, c in zip(self.keys, items, strict=True))
        return f"{self.type_name.rpartition('.')[2]}({fields})"

    def _items(self) -> Iterator[tuple[Any, TreeSpec]]:
        """The key (or index) of each child, with the child."""
        return zip(self.keys or range(len(self.children)), self.children, strict=True)

    def _step(self, key: Any) -> str:
        """The text of one step of a path: ``.name`` or ``['key']``."""
        return f".{key}" if self.kind in ("namedtuple", "custom", "vectorized") and isinstance(key, str) else f"[{key!r}]"

    def _flatten(self, tree: Any, path: str, leaves: list[Any], problems: list[str]) -> None:
        """Appends the leaves of a tree to `leaves`, and its differences from this structure to `problems`, texts with a path."""
        if self.kind == "leaf":
            if tree is None or isinstance(tree, (tuple, list, dict, VectorizedArray)):
                problems.append(f"{path} requires an array, got {describe(tree)}")
            leaves.append(tree)
            return
        values = self._children_of(tree, path, problems)
        if values is None:
            return
        for (key, child), value in zip(self._items(), values, strict=True):
            if value is not _MISSING:
                child._flatten(value, path + self._step(key), leaves, problems)

    def _children_of(self, tree: Any, path: str, problems: list[str]) -> list[Any] | None:
        """The values below the root of a tree, in the order of the children; a key that it does not have gives `_MISSING`.

        The result is None if the root has another type or length. Such differences, and missing or unexpected keys, are added to
        `problems` as text that begins with `path`.
        """
        if self.kind == "none":
            if tree is not None:
                problems.append(f"{path} requires None, got {describe(tree)}")
            return []
        if self.kind in _SEQUENCES:
            fits = type(tree) is _SEQUENCES[self.kind]
            if fits and len(tree) == len(self.children):
                return list(tree)
            got = f"{self.kind} of {len(tree)}" if fits else describe(tree)
            problems.append(f"{path} requires a {self.kind} of {len(self.children)}, got {got}")
            return None
        if self.kind == "vectorized":
            if getattr(tree, "axes", ()) == self.axes:
                return [tree.data]
            problems.append(f"{path} requires {self}, got {describe(tree)}")
            return None
        values = tree
        if self.kind == "namedtuple" and isinstance(tree, tuple) and hasattr(tree, "_fields"):
            values = dict(zip(tree._fields, tree, strict=True))
        elif self.kind == "custom" and not isinstance(tree, dict) and all(hasattr(tree, str(k)) for k in self.keys):
            values = {key: getattr(tree, str(key)) for key in self.keys}
        if not isinstance(values, dict):
            problems.append(f"{path} requires a {self.type_name or self.kind}, got {describe(tree)}")
            return None
        problems.extend(f"{path}{self._step(key)} is missing" for key in self.keys if key not in values)
        problems.extend(f"{path}{self._step(key)} is unexpected" for key in values if key not in self.keys)
        return [values.get(key, _MISSING) for key in self.keys]

    def _unflatten(self, leaves: Iterator[Any]) -> Any:
        """The tree of this structure with the next leaves of the iterator."""
        if self.kind == "leaf":
            return next(leaves)
        if self.kind == "none":
            return None
        children = [child._unflatten(leaves) for child in self.children]
        if self.kind in _SEQUENCES:
            return _SEQUENCES[self.kind](children)
        if self.kind == "namedtuple":
            return _named_tuple(self.type_name, self.keys)(*children)
        if self.kind == "vectorized":
            return VectorizedArray(children[0], self.axes)
        return dict(zip(self.keys, children, strict=True))


LEAF = TreeSpec("leaf")
NONE = TreeSpec("none")


def vectorized_leaf(axes: Iterable[tuple[str, int]]) -> TreeSpec:
    """The structure of an array with these named axes."""
    return TreeSpec("vectorized", (LEAF,), ("data",), axes=tuple(axes))


def spec_of(tree: Any) -> TreeSpec:
    """The structure of a tree of tuples, lists, dicts, namedtuples, vectorized arrays and None; other values are leaves.

    Example:
      >>> print(spec_of({"w": (1, 2), "b": None}))
      {'b': None, 'w': (*, *)}
    """
    if tree is None:
        return NONE
    if isinstance(tree, dict):
        keys = tuple(sorted(tree, key=lambda key: (type(key).__name__, key)))
        return TreeSpec("dict", tuple(spec_of(tree[key]) for key in keys), keys)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return TreeSpec("namedtuple", tuple(map(spec_of, tree)), tuple(tree._fields), type(tree).__name__)
    if isinstance(tree, (tuple, list)):
        return TreeSpec("tuple" if isinstance(tree, tuple) else "list", tuple(map(spec_of, tree)))
    if isinstance(tree, VectorizedArray):
        return vectorized_leaf(tree.axes)
    return LEAF


def describe(tree: Any) -> str:
    """The structure of a value for an error; a lone leaf is named by its type."""
    spec = spec_of(tree)
    return str(spec) if spec.kind != "leaf" else type(tree).__name__


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> type:
    """A class of namedtuples with the last part of this dotted name; it is made once for each name and fields."""
    return namedtuple(name.rpartition(".")[2], fields)
