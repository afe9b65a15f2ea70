"""nabla-mlir verify: whether an artifact is whole, fits this machine, and computes what it should."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nabla_mlir.errors import DeployError, NablaError
from nabla_mlir.runtime import Module, load
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.runtime.fitting import check_fit
from nabla_mlir.runtime.manifest import Code, EntryPoint, Leaf
from nabla_mlir.runtime.storage import Artifact

Row = tuple[str, str, str]  # what was checked, "ok", "failed" or "skipped", and the details
# Of the larger of 1 and the largest element: two compilations of one program add up in different orders.
_TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-4, "complex64": 2e-4}


def verify(path: str, target: str | None = None) -> Iterator[Row]:
    """Checks an artifact, and yields a row for each thing that was checked.

    The files are read and compared with their checksums; each target is held against this machine; what runs here is
    called on inputs made from a fixed seed, and its results are compared with those of the StableHLO in the artifact,
    compiled for a generic CPU (without the compiler it is only seen whether it runs, with finite results).

    Raises:
      DeployError: there is no artifact, or its manifest is damaged.
    """
    artifact = Artifact(path)
    yield "manifest", "ok", f"schema {artifact.manifest.schema}, {len(artifact.manifest.entry_points)} entry points"
    for code in artifact.manifest.code:
        yield _row(f"file {code.file}", functools.partial(_size, artifact.vmfb, code))
    if artifact.manifest.stablehlo:
        yield _row("file of StableHLO", functools.partial(_size, artifact.stablehlo))
    codes = [c for c in artifact.manifest.code if target is None or c.is_for(target)]
    fitting = []
    for code in codes:
        try:
            check_fit(code.target)
        except DeployError as error:
            yield f"target {code.label}", "skipped", error.message
        else:
            fitting.append(code)
            yield f"target {code.label}", "ok", "fits this machine"
    if not fitting:
        yield "self check", "failed", f"no target of {len(codes)} fits this machine"
        return
    reference, why = _reference(artifact)
    for code in fitting:
        yield from _self_check(path, code, reference, why)


def _row(what: str, check: Callable[[], str]) -> Row:
    try:
        return what, "ok", check()
    except NablaError as error:
        return what, "failed", error.message


def _size(reader: Callable[..., bytes], *arguments: Any) -> str:
    return f"{len(reader(*arguments))} bytes"


def _reference(artifact: Artifact) -> tuple[Any, str]:
    """The StableHLO of the artifact compiled for any CPU, or None and the reason."""
    if not artifact.manifest.stablehlo:
        return None, "saved without StableHLO"
    if importlib.util.find_spec("iree.compiler") is None:
        return None, "no compiler here"
    from nabla_mlir.staging.stages import Lowered
    from nabla_mlir.targets import CPU

    try:
        compiled = Lowered.restore(artifact.stablehlo(), artifact.manifest).compile(CPU("generic", reassociate=False))
    except NablaError as error:
        return None, error.message.splitlines()[0]
    return compiled.entry, ""


def _self_check(path: str, code: Code, reference: Any, why: str) -> Iterator[Row]:
    try:
        module = load(path, target=code.label)
    except NablaError as error:
        yield f"load {code.label}", "failed", error.message
        return
    # Twice: functions of a state fail until another one has set it.
    for last in (False, True):
        for name, entry in module.entry_points.items():
            row = _row(f"{name} on {code.label}", functools.partial(_call, module, entry, reference, why))
            if last:
                yield row


def _call(module: Module, entry: EntryPoint, reference: Any, why: str) -> str:
    arguments = _inputs(entry)
    got = _flat(entry, module[entry.name](*arguments))
    for leaf, value in zip(entry.result_leaves, got, strict=True):
        if value.shape != leaf.shape:
            raise DeployError(f"{leaf.name} requires {leaf}, got shape {value.shape}.")
    if reference is None:
        finite = all(np.isfinite(v.astype(complex)).all() for v in got)
        return f"runs, {'finite' if finite else 'not finite'} results; not compared: {why}"
    reference_leaves = _flat(entry, reference(entry.name)(*arguments))
    worst = max((_error(a, b) for a, b in zip(got, reference_leaves, strict=True)), default=0.0)
    limit = max((_TOLERANCE.get(leaf.dtype, 2e-2) for leaf in entry.result_leaves), default=0.0)
    if not worst <= limit:
        raise DeployError(f"requires the numbers of its StableHLO, got a relative error of {worst:.1e}.")
    return f"agrees with its StableHLO (relative error {worst:.0e})"


def _error(got: np.ndarray, reference: np.ndarray) -> float:
    """The largest difference, relative to the larger of 1 and the largest element; NaN and infinities must match."""
    if got.size == 0:
        return 0.0
    a, b = got.astype(complex), reference.astype(complex)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return float("inf")
    return float(np.abs(a - b, where=finite, out=np.zeros(a.shape)).max() / max(1.0, np.abs(b[finite]).max(initial=0)))


def _inputs(entry: EntryPoint) -> list[Any]:
    """An argument of each, from a seed that the name of the entry point decides."""
    rng = np.random.default_rng([*entry.name.encode()])
    return [argument.tree.unflatten([_random(leaf, rng) for leaf in argument.leaves]) for argument in entry.arguments]


def _random(leaf: Leaf, rng: np.random.Generator) -> np.ndarray:
    dtype = dtype_named(leaf.dtype)
    if dtype.kind in "biu":
        return rng.integers(0, 2, leaf.shape).astype(dtype)
    return rng.uniform(0.2, 0.9, leaf.shape).astype(np.float32).astype(dtype)


def _flat(entry: EntryPoint, results: Any) -> list[np.ndarray]:
    return [np.asarray(value) for value in entry.result.flatten(results, "result")]
