"""Conversion between compiled functions and files: the manifest of an artifact, and the StableHLO from which it was compiled."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import optree
from iree.compiler import ir

from nabla_mlir.base.pytree import TreeSpec as OptreeSpec
from nabla_mlir.base.pytree import flatten, flatten_like, unflatten
from nabla_mlir.compiling.checking import mode_for
from nabla_mlir.compiling.estimates import estimate
from nabla_mlir.compiling.reference_values import references_of
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.runtime.manifest import Argument, Code, EntryPoint, Leaf, Manifest
from nabla_mlir.runtime.named import VectorizedArray
from nabla_mlir.runtime.reference import Reference
from nabla_mlir.runtime.treespec import TreeSpec, vectorized_leaf
from nabla_mlir.staging.entry import Entry
from nabla_mlir.staging.specs import Spec
from nabla_mlir.table.vectorized import VectorizedTensor
from nabla_mlir.targets import Target
from nabla_mlir.targets.toolchain import compiler_version


@functools.cache
def _package_version() -> str:
    """The version of this package. The lookup takes more than a millisecond, so it runs once."""
    return metadata.version("nabla-mlir")


def tree_spec(spec: OptreeSpec) -> TreeSpec:
    """The record of the manifest that describes the structure `spec` of a pytree: its kind, children and keys.

    Example: {"w": leaf} gives TreeSpec("dict", (TreeSpec("leaf"),), ("w",)).
    """
    if spec.is_leaf():
        return TreeSpec("leaf")
    children = tuple(tree_spec(child) for child in spec.children())
    kind, keys = spec.type, tuple(spec.entries())
    if kind is type(None):
        return TreeSpec("none")
    if kind in (tuple, list):
        return TreeSpec(kind.__name__, children)
    if kind is not None and issubclass(kind, dict):
        return TreeSpec("dict", children, keys)
    assert kind is not None
    if kind in (VectorizedTensor, VectorizedArray):
        return vectorized_leaf(unflatten(spec, [None]).axes)
    if optree.is_namedtuple_class(kind):
        return TreeSpec("namedtuple", children, kind._fields, kind.__name__)  # type: ignore[attr-defined]  # a named tuple
    return TreeSpec("custom", children, tuple(map(_key_name, keys)), f"{kind.__module__}.{kind.__qualname__}")


def _key_name(key: Any) -> Any:
    """The key of a child of a custom node, in the form that a manifest stores.

    JAX's GetAttrKey, DictKey and SequenceKey become their name, key or index; other keys are unchanged.
    """
    return next((getattr(key, name) for name in ("name", "key", "idx") if hasattr(key, name)), key)


@dataclass(frozen=True)
class LiveTreeSpec(TreeSpec):
    """The structure of a pytree in the process that traced it, where the types of its custom nodes exist."""

    spec: Any = None

    def flatten(self, tree: Any, name: str = "tree") -> list[Any]:
        return flatten_like(self.spec, tree, name, "what was traced")

    def unflatten(self, leaves: Any) -> Any:
        return unflatten(self.spec, leaves)

    def __reduce__(self) -> Any:
        """A pickled form of the structure without the user's types, which any machine reads, also one without the compiler."""
        node = tree_spec(self.spec)
        return (LiveTreeSpec if _has_types(node) else TreeSpec), (
            node.kind,
            node.children,
            node.keys,
            node.type_name,
            node.axes,
            *([self.spec] if _has_types(node) else []),
        )


def _has_types(node: TreeSpec) -> bool:
    """True if a structure has nodes of types of the user, or vectorised arrays."""
    return node.kind in ("namedtuple", "custom", "vectorized") or any(map(_has_types, node.children))


def _live_tree_spec(spec: OptreeSpec) -> TreeSpec:
    """The structure of a pytree, with the types of its custom nodes. `spec` is the structure as optree stores it."""
    node = tree_spec(spec)
    return LiveTreeSpec(node.kind, node.children, node.keys, node.type_name, spec=spec)


def entry_point(entry: Entry, function: ir.Operation, live: bool = False) -> EntryPoint:
    """The description of an entry point in the manifest.

    Args:
      entry: the entry point.
      function: its operation in the lowered module.
      live: True if the structures know the types of their custom nodes, which a file cannot store.
    """
    structure = _live_tree_spec if live else tree_spec
    arguments, start = [], 0
    outputs = len(entry.inputs) - entry.storage
    for name, child in zip(entry.arguments, entry.in_spec.children(), strict=True):
        stop = start + child.num_leaves
        leaves = _leaves(entry.input_names[start:stop], entry.inputs[start:stop])
        arguments.append(Argument(name, structure(child), leaves, bool(entry.storage) and start >= outputs))
        start = stop
    results = _leaves(entry.output_names, entry.outputs)
    return EntryPoint(
        entry.name,
        tuple(arguments),
        structure(entry.out_spec),
        results,
        entry.doc,
        estimate=estimate(function),
        sparsity=entry.sparsity,
    )


def _leaves(names: Any, specs: Any) -> tuple[Leaf, ...]:
    """The descriptions of leaves with these names and types."""
    return tuple(Leaf(name, spec.shape, spec.dtype.name) for name, spec in zip(names, specs, strict=True))


def manifest_of(module: ir.Module, entries: Sequence[Entry], codes: Sequence[Code], live: bool = False) -> Manifest:
    """The manifest of a module that was compiled for one or more targets.

    Args:
      module: the module, with a function for each entry.
      entries: the entry points, with their names and the specs of their arguments and results.
      codes: one record for each target, which describes its machine code.
      live: True if the manifest is used in this process only and never saved.
    """
    functions = functions_of(module.operation)
    state = [op.operation for op in module.body.operations if op.operation.name == "util.global"]
    types = [ir.TypeAttr(op.attributes["type"]).value for op in state]
    tensors = [shape_and_dtype(type) for type in types if isinstance(type, ir.RankedTensorType)]
    return Manifest(
        tuple(entry_point(entry, functions[entry.name], live) for entry in entries),
        tuple(codes),
        iree=compiler_version(),
        nabla_mlir=_package_version(),
        state=bool(state),
        state_bytes=sum(Leaf("", shape, dtype.name).nbytes for shape, dtype in tensors),
    )


def with_references(manifest: Manifest, module: ir.Module, target: Target) -> Manifest:
    """The manifest with the interpreter's results on random arguments, so that other machines can compare their results.

    With checking off for `target`, each entry point gets a note instead. `module` is the program that the interpreter runs.
    """
    mode = mode_for(target)
    if mode == "off":
        references = {e.name: Reference(absence="checking was off") for e in manifest.entry_points}
    else:
        references = references_of(module, is_bounded=mode != "always")
    entries = tuple(replace(e, reference=references[e.name]) for e in manifest.entry_points)
    return replace(manifest, entry_points=entries)


def entry_of(entry_point: EntryPoint) -> Entry:
    """The entry point of a stage that the manifest's `entry_point` describes; the inverse of the function `entry_point`."""
    leaves = [leaf for argument in entry_point.arguments for leaf in argument.leaves]
    trees = tuple(a.tree.unflatten(range(len(a.leaves))) for a in entry_point.arguments)
    result = entry_point.result.unflatten(range(len(entry_point.result_leaves)))
    return Entry(
        entry_point.name,
        tuple(a.name for a in entry_point.arguments),
        flatten(trees)[1],
        tuple(map(_spec, leaves)),
        flatten(result)[1],
        tuple(map(_spec, entry_point.result_leaves)),
        entry_point.doc,
        sum(len(a.leaves) for a in entry_point.arguments if a.output),
        entry_point.sparsity,
    )


def _spec(leaf: Leaf) -> Spec:
    return Spec(leaf.shape, dtype_named(leaf.dtype))
