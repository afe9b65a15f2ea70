"""Textual pipelines of our passes and MLIR's: parsed, printed, and run in MLIR's own PassManager."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from iree.compiler import ir, passmanager  # type: ignore[attr-defined]  # not in the stubs

from nabla_mlir.base.errors import PassError
from nabla_mlir.base.locks import after_fork, new_lock
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.passes.base import PASSES, PIPELINES, NamedPipeline, Pass, Step, register_pipeline, similar_names
from nabla_mlir.passes.canonicalize_batch import CanonicalizeBatchPass
from nabla_mlir.passes.dce import DcePass
from nabla_mlir.passes.expand import ExpandPass
from nabla_mlir.passes.explain_batch import ExplainBatchPass
from nabla_mlir.passes.hoist_products import HoistProductsPass
from nabla_mlir.passes.inline_calls import InlineCallsPass
from nabla_mlir.passes.inline_rules import InlineRulesPass
from nabla_mlir.passes.iree.pipeline import IreePipeline as IreePipeline  # the import registers its passes
from nabla_mlir.passes.iree.scheduling.place_transients import PlaceTransientsPass
from nabla_mlir.passes.jvp import JvpPass
from nabla_mlir.passes.normalize.normalize import NormalizePass
from nabla_mlir.passes.outside import run_pass
from nabla_mlir.passes.remove_stop_gradient import RemoveStopGradientPass
from nabla_mlir.passes.simplify.simplify import SimplifyPass
from nabla_mlir.passes.sparsity import SparsityPass
from nabla_mlir.passes.specialize import SpecializePass
from nabla_mlir.passes.split.split import SplitPass
from nabla_mlir.passes.stack_products import StackProductsPass
from nabla_mlir.passes.transform import TransformPass
from nabla_mlir.passes.verify import VerifyLoweredPass, VerifyPass
from nabla_mlir.passes.vjp import VjpPass
from nabla_mlir.passes.vmap import VmapPass

# Passes that belong to no pipeline; the modules of the pipelines register the others.
ALONE = (
    ExplainBatchPass,
    InlineCallsPass,
    JvpPass,
    NormalizePass,
    PlaceTransientsPass,
    SparsityPass,
    SpecializePass,
    SplitPass,
    TransformPass,
    VjpPass,
    VmapPass,
)

_EXPAND = (
    Step(VerifyPass, "MLIR does not know the conditions of ad and batch operations, and later passes rely on them."),
    Step(DcePass, "An operation whose result nothing reads need not be differentiated or mapped."),
    Step(CanonicalizeBatchPass, "A merged map is expanded once, and a map that does not vary is not expanded."),
    Step(ExpandPass, "It leaves no transform for the later passes."),
)
_SIMPLIFY = Step(SimplifyPass, "Derivatives leave zeros, ones, and shapes that cancel.")


@register_pipeline
@dataclass(frozen=True)
class ExpandTransformsPipeline(NamedPipeline):
    """Expand all transforms, but leave custom rules and `stop_gradient`: for modules that other modules call."""

    name: ClassVar[str] = "nabla-expand-transforms"
    steps: ClassVar[tuple[Step, ...]] = (*_EXPAND, _SIMPLIFY)


@register_pipeline
@dataclass(frozen=True)
class LowerPipeline(NamedPipeline):
    """Lower a traced or imported module to plain StableHLO. `lower()` runs this pipeline."""

    name: ClassVar[str] = "nabla-lower"
    steps: ClassVar[tuple[Step, ...]] = (
        *_EXPAND,
        Step(InlineRulesPass, "No derivative is left that would need the rules of a function."),
        Step(RemoveStopGradientPass, "No derivative is left that it would end."),
        _SIMPLIFY,
        Step(HoistProductsPass, "Loops are simplified, so the pass sees what each iteration computes."),
        Step(StackProductsPass, "A product that was hoisted out of a loop need not be summed after it."),
        Step(VerifyLoweredPass, "The compiler would crash on a remaining operation of ad or batch."),
    )


@dataclass(frozen=True)
class Pipeline:
    """A sequence of passes: each is one of nabla_mlir, or the text of one of MLIR. Named pipelines stand for their passes.

    Example:
      >>> str(Pipeline.parse("builtin.module(nabla-vmap,cse)"))
      'builtin.module(nabla-vmap,cse)'
    """

    passes: tuple[Pass | str, ...]

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Reads ``builtin.module(name{option=value ...},name,...)``; the outer operation may be left out.

        Raises:
          PassError: the text is not a pipeline, or names a pass or an option that does not exist.
        """
        inner = text.strip()
        if inner.startswith("builtin.module("):
            if not inner.endswith(")"):
                raise PassError(f"a pipeline requires balanced parentheses, got {text!r}.")
            inner = inner[len("builtin.module(") : -1]
        return Pipeline(tuple(p for item in _split_items(inner, text) if item for p in _parse_item(item)))

    def __str__(self) -> str:
        """The text of the pipeline, from which `parse` makes an equal one."""
        return f"builtin.module({','.join(_print_pass(p) for p in self.passes)})"

    def manager(self, wrap: Callable[[Pass], Callable[..., None]] | None = None) -> passmanager.PassManager:
        """MLIR's pass manager with these passes. Must be called with the context entered."""
        pm = passmanager.PassManager("builtin.module")
        for item in self.passes:
            if isinstance(item, str):
                pm.add(item)
                continue
            pm.add(wrap(item) if wrap else _callable(item), name=type(item).__name__, argument=item.name)
        return pm

    def run(self, module: ir.Operation, verify_each: bool = True) -> None:
        """Runs the passes on `module`; verifies it after each pass, or only at the end.

        Raises:
          NablaError: a pass of nabla_mlir reported an error.
          PassError: MLIR reported an error.
        """
        with _collector.waits(), context(), ir.Location.unknown():
            try:
                manager = self.manager()
                manager.enable_verifier(verify_each)
                manager.run(module.operation)
                if not verify_each:
                    module.operation.verify()
            except ir.MLIRError as error:
                raise pass_error(error, str(self)) from None


class _Collector:
    """Pauses Python's collector of reference cycles while passes run, because it would visit all objects several times."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._running = 0  # the number of running pipelines, in all threads
        self._was_enabled = False

    @contextlib.contextmanager
    def waits(self) -> Iterator[None]:
        """A context that pauses the collector until no pipeline runs: passes create almost no cycles."""
        with self._lock:
            if self._running == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._resume()

    def forget_threads(self) -> None:
        """Resets the count in a forked process, where the pipelines of other threads never end."""
        if self._running:
            self._running = 0
            self._resume()

    def _resume(self) -> None:
        """Starts the collector again if no pipeline runs, and if it ran before."""
        if self._running == 0 and self._was_enabled:
            gc.enable()


_collector = _Collector()
after_fork(_collector.forget_threads)


def _callable(item: Pass) -> Callable[..., None]:
    """The pass as a function of an operation and unused data, as MLIR's pass manager calls it."""

    def run(op: Any, _: Any) -> None:
        with context(), ir.Location.unknown():
            run_pass(item, op.operation)

    return run


def pass_error(error: ir.MLIRError, what: str) -> PassError:
    """An MLIR error as a `PassError`, with its diagnostics; `what` is the subject of the message."""
    diagnostics = error.error_diagnostics
    text = "; ".join(d.message for d in diagnostics) or str(error)
    where = source_of(diagnostics[0].location) if diagnostics else None
    return PassError(f"{what} requires valid IR, got an error: {text}", where=where)


def _split_items(text: str, whole: str) -> list[str]:
    """The items of a list that commas separate, except commas inside braces or parentheses; `whole` is for the message."""
    items, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += 1 if c in "{(" else -1 if c in "})" else 0
        if c == "," and depth == 0:
            items.append(text[start:i].strip())
            start = i + 1
    if depth:
        raise PassError(f"a pipeline requires balanced parentheses and braces, got {whole!r}.")
    return [*items, text[start:].strip()]


def _parse_item(text: str) -> tuple[Pass | str, ...]:
    """The passes that one item of a pipeline's text names, such as `nabla-vmap` or `canonicalize{max-iterations=2}`.

    A pass of MLIR remains a text. Raises PassError for an unknown pass.
    """
    match = re.fullmatch(r"([\w.-]+)(?:\{(.*)\})?", text, re.S)
    cls = match and (PASSES.get(match[1]) or PIPELINES.get(match[1]))
    if not match or cls is None:
        if text.startswith("nabla-"):
            names = sorted((*PASSES, *PIPELINES))
            alike = similar_names(text)
            question = f"did you mean {' or '.join(alike)}?" if alike else f"known: {', '.join(names)}"
            raise PassError(f"a pipeline requires passes that exist, got {text!r}.", help=question)
        _check_foreign(text)
        return (text,)
    item = cls(**dict(_parse_option(cls, o) for o in (match[2] or "").split()))
    return item.passes() if isinstance(item, NamedPipeline) else (item,)


def _check_foreign(text: str) -> None:
    """Raises PassError unless MLIR knows the pass that the text names."""
    with context():
        try:
            passmanager.PassManager.parse(f"builtin.module({text})")
        except (ValueError, ir.MLIRError) as error:
            ours = next((name for name in re.findall(r"[\w-]+", text) if name in PASSES or name in PIPELINES), None)
            advice = f"{ours} runs on the module: 'builtin.module({ours})'." if ours else ""
            raise PassError(f"a pipeline requires passes that exist, got {text!r}: {error}", help=advice) from None


def _parse_option(cls: type[Pass | NamedPipeline], text: str) -> tuple[str, Any]:
    """The name of a field of a pass and its value, from text such as `innermost-only=true`. Raises PassError for a wrong one."""
    key, separator, value = text.partition("=")
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)}
    if key not in fields or not separator:
        raise PassError(f"{cls.name} requires options among {sorted(fields)}, got {text!r}.")
    kind = str(fields[key].type)
    try:
        return fields[key].name, _READERS[kind](value)
    except (KeyError, ValueError):
        raise PassError(f"{cls.name} requires a value of type {kind} for {key}, got {value!r}.") from None


def _read_bool(text: str) -> bool:
    """True for the text true, False for false; KeyError for others."""
    return {"true": True, "false": False}[text]


def _read_ints(text: str) -> tuple[int, ...]:
    """The integers in a text such as `1,2`."""
    return tuple(int(part) for part in text.split(",") if part)


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": _read_bool,
    "int": int,
    "str": str,
    "Target": str,
    "tuple[int, ...]": _read_ints,
}


def _print_pass(item: Pass | str) -> str:
    """The text of a pass, with the options that differ from their defaults."""
    if isinstance(item, str):
        return item
    options = [
        f"{f.name.replace('_', '-')}={_print_value(getattr(item, f.name))}"
        for f in dataclasses.fields(item)
        if getattr(item, f.name) != f.default
    ]
    return item.name + (f"{{{' '.join(options)}}}" if options else "")


def _print_value(value: Any) -> str:
    """The text of an option's value: `true`, `3`, or `1,2` for a tuple."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
