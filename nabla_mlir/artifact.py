"""From a compiled function to files: the manifest of what it offers."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optree
from iree.compiler import ir

from nabla_mlir.estimates import estimate
from nabla_mlir.manifest import Argument, EntryPoint, Leaf, Manifest, save_artifact
from nabla_mlir.pytree import TreeSpec as OptreeSpec
from nabla_mlir.toolchain import compiler_version
from nabla_mlir.treespec import TreeSpec

if TYPE_CHECKING:
    from nabla_mlir.stages import Compiled, Entry


def tree_spec(spec: OptreeSpec) -> TreeSpec:
    """The structure of a pytree as the manifest writes it."""
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
    if optree.is_namedtuple_class(kind):
        return TreeSpec("namedtuple", children, kind._fields, kind.__name__)  # type: ignore[attr-defined]  # a named tuple
    return TreeSpec("custom", children, keys, f"{kind.__module__}.{kind.__qualname__}")


def entry_point(entry: Entry, function: ir.Operation) -> EntryPoint:
    """An entry point, which is `function` in the lowered module, as the manifest describes it."""
    arguments, start = [], 0
    for name, child in zip(entry.arguments, entry.in_spec.children(), strict=True):
        stop = start + child.num_leaves
        leaves = _leaves(entry.input_names[start:stop], entry.inputs[start:stop])
        arguments.append(Argument(name, tree_spec(child), leaves))
        start = stop
    results = _leaves(entry.output_names, entry.outputs)
    return EntryPoint(entry.name, tuple(arguments), tree_spec(entry.out_spec), results, entry.doc,
                      estimate=estimate(function))  # fmt: skip


def _leaves(names: Any, specs: Any) -> tuple[Leaf, ...]:
    return tuple(Leaf(name, spec.shape, spec.dtype.name) for name, spec in zip(names, specs, strict=True))


def manifest_of(compiled: Compiled) -> Manifest:
    """The manifest of a compiled module."""
    functions = {op.attributes["sym_name"].value: op.operation for op in compiled.module.body.operations}
    return Manifest(
        tuple(entry_point(entry, functions[entry.name]) for entry in compiled.entries),
        compiled.target.to_json(),
        iree=compiler_version(),
        nabla_mlir=metadata.version("nabla-mlir"),
    )


def save_compiled(compiled: Compiled, path: str | Path) -> Path:
    """Writes the artifact and its manifest beside it; returns the path of the artifact."""
    return save_artifact(path, compiled.vmfb, manifest_of(compiled))[0]
