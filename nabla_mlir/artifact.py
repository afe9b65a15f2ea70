"""Between compiled functions and files: the manifest of what they offer, and the StableHLO they were made from."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optree
from iree.compiler import ir

from nabla_mlir.array import dtype_named
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.estimates import estimate
from nabla_mlir.manifest import Argument, Code, EntryPoint, Leaf, Manifest
from nabla_mlir.named import VectorizedArray
from nabla_mlir.ops.vectorized import VectorizedTensor
from nabla_mlir.pytree import TreeSpec as OptreeSpec
from nabla_mlir.pytree import flatten, unflatten
from nabla_mlir.storage import Artifact, save_artifact
from nabla_mlir.toolchain import compiler_version
from nabla_mlir.tracing import Spec
from nabla_mlir.treespec import TreeSpec, vectorized_leaf

if TYPE_CHECKING:
    from nabla_mlir.stages import Compiled, Entry, Lowered


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
    if kind in (VectorizedTensor, VectorizedArray):
        return vectorized_leaf(unflatten(spec, [None]).axes)
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


def manifest_of(*compiled: Compiled) -> Manifest:
    """The manifest of a module that was compiled for one or more targets."""
    first = compiled[0]
    functions = {op.attributes["sym_name"].value: op.operation for op in first.module.body.operations}
    return Manifest(
        tuple(entry_point(entry, functions[entry.name]) for entry in first.entries),
        tuple(Code(c.target.to_json()) for c in compiled),
        iree=compiler_version(),
        nabla_mlir=metadata.version("nabla-mlir"),
    )


def save_compiled(compiled: Sequence[Compiled], path: str | Path) -> Path:
    """Writes an artifact with its manifest and its StableHLO; returns the path that loads it."""
    bytecode = io.BytesIO()
    compiled[0].module.operation.write_bytecode(bytecode)
    return save_artifact(path, [c.vmfb for c in compiled], manifest_of(*compiled), bytecode.getvalue())


def load_lowered(artifact: Artifact) -> Lowered:
    """The module that an artifact was compiled from. Raises DeployError if it is not there."""
    from nabla_mlir.stages import Lowered

    module = parse_module(artifact.stablehlo())
    return Lowered(module, tuple(_entry(e) for e in artifact.manifest.entry_points))


def _entry(described: EntryPoint) -> Entry:
    """The entry point that `entry_point` described."""
    from nabla_mlir.stages import Entry

    leaves = [leaf for argument in described.arguments for leaf in argument.leaves]
    trees = tuple(a.tree.unflatten(range(len(a.leaves))) for a in described.arguments)
    result = described.result.unflatten(range(len(described.result_leaves)))
    return Entry(
        described.name, tuple(a.name for a in described.arguments), flatten(trees)[1], tuple(map(_spec, leaves)),
        flatten(result)[1], tuple(map(_spec, described.result_leaves)), described.doc,
    )  # fmt: skip


def _spec(leaf: Leaf) -> Spec:
    return Spec(leaf.shape, dtype_named(leaf.dtype))
