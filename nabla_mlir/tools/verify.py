"""nabla-mlir verify: checks that an artifact is complete, fits this machine, and computes the correct results."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DeployError, NablaError
from nabla_mlir.runtime import Module, load
from nabla_mlir.runtime.fitting import check_fit
from nabla_mlir.runtime.manifest import Code, EntryPoint
from nabla_mlir.runtime.reference import Reference, call, compare, in_order
from nabla_mlir.runtime.storage import Artifact

Row = tuple[str, str, str]  # the subject, "ok", "failed" or "skipped", and the details


def verify(path: str, target: str | None = None) -> Iterator[Row]:
    """Checks an artifact, and yields a row (name, result, details) for each check.

    The files are compared with their checksums, and each target with this machine. Code that runs here is called on the
    arguments for which the artifact contains the interpreter's results, and compared with these. If the compiler is
    installed, the results are also compared with the interpreter's current results for the StableHLO in the artifact.

    Raises:
      DeployError: the artifact does not exist, or its manifest is damaged.
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
    current, why = _references(artifact)
    for code in fitting:
        yield from _self_check(path, code, current, why)


def _row(what: str, check: Callable[[], str]) -> Row:
    """The row of a check: "ok" with its text, or "failed" with the message of its error."""
    try:
        return what, "ok", check()
    except NablaError as error:
        return what, "failed", error.message


def _size(reader: Callable[..., bytes], *arguments: Any) -> str:
    return f"{len(reader(*arguments))} bytes"


def _references(artifact: Artifact) -> tuple[dict[str, Reference], str]:
    """The interpreter's results for the StableHLO of the artifact, and ""; or an empty dict and the reason."""
    if not artifact.manifest.stablehlo:
        return {}, "it was saved without StableHLO"
    if importlib.util.find_spec("iree.compiler") is None:
        return {}, "there is no compiler here"
    from nabla_mlir.compiling.reference_values import references_of
    from nabla_mlir.staging.stages import Lowered

    try:
        return references_of(Lowered.restore(artifact.stablehlo(), artifact.manifest).module), ""
    except NablaError as error:
        return {}, error.message.splitlines()[0]


def _self_check(path: str, code: Code, current: dict[str, Reference], why: str) -> Iterator[Row]:
    """Yields the rows for the code of one target: each entry point is called, and compared with reference values.

    Args:
      path: the artifact.
      code: the code of the target.
      current: reference values that were computed now from the StableHLO, by entry point.
      why: the reason why there are none, or "".
    """
    try:
        module = load(path, target=code.label)
    except NablaError as error:
        yield f"load {code.label}", "failed", error.message
        return
    entries = [e if e.reference else replace(e, reference=current.get(e.name)) for e in module.manifest.entry_points]
    if not any(e.reference for e in entries):  # no order is known: functions that read state fail before another sets it
        for entry in entries:
            with contextlib.suppress(NablaError):
                call(module, entry, None)
    for entry in in_order(entries):
        carried = module.entry_points[entry.name].reference
        check = functools.partial(_outcome_of_comparison, module, entry, carried, current.get(entry.name), why)
        yield _row(f"{entry.name} on {code.label}", check)


def _outcome_of_comparison(
    module: Module, entry: EntryPoint, carried: Reference | None, current: Reference | None, why: str
) -> str:
    """The outcome of comparisons of an entry point's results with reference values, as text.

    `carried` are the values in the artifact, and `current` those computed now from its StableHLO, each None if there are none;
    `why` is the reason why there are no current ones. `module` is the loaded artifact.
    """
    results = call(module, entry, entry.reference)
    words = []
    for reference, what in ((carried, "the interpreter"), (current, "its StableHLO")):
        if reference is not None and not reference.absence:
            got = results if reference.draw == (entry.reference or reference).draw else call(module, entry, reference)
            ratio = compare(entry, reference, got)
            for other in () if module.manifest.state else reference.others:
                ratio = max(ratio, compare(entry, other, call(module, entry, other)))
            words.append(f"agrees with {what} ({ratio:.1g} of what rounding explains)")
    if words:
        return ", ".join(words)
    is_finite = all(np.isfinite(v.astype(complex)).all() for v in results)
    reason = carried.absence if carried is not None else f"it carries no reference values, and {why or 'its StableHLO gives none'}"
    return f"runs, {'finite' if is_finite else 'not finite'} results; not compared: {reason}"
