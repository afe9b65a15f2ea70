"""The steps from traced IR to StableHLO to an artifact: the fixed pipelines, and the calls of the compiler."""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError
from nabla_mlir.base.log import logger
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.internals.kernel_library import KernelLibrary, take_kernels, with_kernels
from nabla_mlir.compiling.internals.libraries import Rewrite, before_code
from nabla_mlir.compiling.internals.phases import is_artifact, may_divide
from nabla_mlir.compiling.internals.transients import set_sizes
from nabla_mlir.compiling.limits import within
from nabla_mlir.compiling.progress import watch
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.passes.iree.faults.table import remedies_for
from nabla_mlir.passes.iree.internals.buffers import TRANSIENTS, is_marked
from nabla_mlir.passes.iree.scheduling.place_transients import PlaceTransientsPass
from nabla_mlir.passes.iree.scheduling.split_convolutions import is_wide
from nabla_mlir.passes.pipeline import ExpandTransformsPipeline, IreePipeline, LowerPipeline, Pipeline
from nabla_mlir.targets import Target, merge_flags

_LOG = logger("compile")
_LOWER, _EXPAND = (Pipeline(steps().passes()) for steps in (LowerPipeline, ExpandTransformsPipeline))

# At this optimisation level IREE drops assertions, so reads of state that was never written would not fail.
_STATEFUL = ("--iree-opt-strip-assertions=false",)


def clone_module(module: ir.Module) -> ir.Module:
    """A copy of the module."""
    with context(), ir.Location.unknown():
        copy = ir.Module.create()
        with ir.InsertionPoint(copy.body):
            for op in module.body.operations:
                op.operation.clone()
        for name in module.operation.attributes:
            copy.operation.attributes[name] = module.operation.attributes[name]
    return copy


def lower_module(module: ir.Module) -> None:
    """Expands all transforms in place; the result is plain StableHLO."""
    with watch(f"lowering {_name_of(module)}"):
        _LOWER.run(module)


def expand_module(module: ir.Module) -> None:
    """Expands all transforms in place; custom rules and the ends of differentiation stay."""
    _EXPAND.run(module)


def legalize(module: ir.Module, target: Target, schedule: bool = True) -> ir.Module:
    """A copy in which operations that IREE cannot compile, or compiles wrongly for the target, are replaced.

    With `schedule`, operations that IREE would make slow are replaced, too.
    """
    legal = clone_module(module)
    width = target.kernel_bytes() if schedule else 0
    Pipeline(IreePipeline(target=target.name, vector_bytes=width).passes()).run(legal, verify_each=False)
    return legal


def compile_lowered(
    module: ir.Module, target: Target, *, flags: Sequence[str] = (), cache: bool = True, title: str = "", schedule: bool = True
) -> bytes:
    """Legalises a lowered module for the target and compiles it.

    Args:
      title: the name of the module in messages.
      schedule: True also rewrites operations that IREE would make slow.
    """
    name, start = title or _name_of(module), time.perf_counter()
    with watch(f"compiling {name} for {target.name}"):
        limit = target.allowed_bytes()
        if limit is None:
            vmfb = _compile_lowered(module, target, flags, cache, schedule)
        else:
            attempts = (
                thresholds.LIMIT_ATTEMPTS if target.kernel_bytes() else 1
            )  # without a schedule, nothing is recomputed
            vmfb = within(clone_module(module), limit, attempts, lambda m: _compile_lowered(m, target, flags, cache, schedule))
    _LOG.info("%s for %s: %d bytes in %.2f s", name, target.name, len(vmfb), time.perf_counter() - start)
    return vmfb


def _name_of(module: ir.Module) -> str:
    """A name for a module: that of its first public function."""
    return next((name for name, op in functions_of(module.operation).items() if not is_private(op)), "a module")


def _compile_lowered(module: ir.Module, target: Target, flags: Sequence[str], cache: bool, schedule: bool = True) -> bytes:
    """Legalises and compiles a module; tries the strategies of `_WAYS` first, then without them, then without the schedule."""
    legal = legalize(module, target, schedule)
    if any(op.operation.name == "util.global" for op in legal.body.operations):
        flags = [*_STATEFUL, *flags]
    if target.for_wide_convolutions and any(is_wide(op) for op in nested(legal.operation)):
        flags = [*target.for_wide_convolutions, *flags]
    for way, attempt in _WAYS.items() if is_artifact(flags) else ():
        try:
            if (artifact := attempt(legal, target, flags, cache)) is not None:
                return artifact
        except CompileError as error:
            _LOG.warning("without %s, which IREE refuses: %s", way, error.message)
            legal = legalize(module, target, schedule)
    # Without locations: a moved source line must not miss the cache, and an artifact holds no paths.
    text = str(legal)
    try:
        return compile_legal(text, target, flags=flags, cache=cache)
    except CompileError as error:
        if (plain := _without_schedule(module, text, target, flags, cache)) is not None:
            warnings.warn(
                "IREE refuses this module as nabla-schedule writes it; it was compiled as it was before, which is right "
                f"but slower. Please report it: {error.message}", RuntimeWarning, stacklevel=3,
            )  # fmt: skip
            return plain
        if error.where is not None:
            raise
        # The second run has locations, so that the error shows the line of the user.
        text = legal.operation.get_asm(enable_debug_info=True)
        compile_module(text, target, flags=flags, cache=False)
        raise


def _compile_separately(legal: ir.Module, target: Target, flags: Sequence[str], cache: bool) -> bytes | None:
    """Compiles kernels in a separate library, and intermediate values in a separate buffer; None if there is no such library."""
    if not may_divide(merge_flags(target.flags(), list(flags))) or (library := take_kernels(legal)) is None:
        return None
    after_streams = set_sizes if _place_transients(legal, target) else None
    return compile_legal(str(legal), target, flags=flags, cache=cache, after_streams=after_streams, library=library)


def _compile_with_transients(legal: ir.Module, target: Target, flags: Sequence[str], cache: bool) -> bytes | None:
    """Compiles intermediate values in a separate buffer; None if that is not possible."""
    if not _place_transients(legal, target):
        return None
    return compile_legal(str(legal), target, flags=flags, cache=cache, after_streams=set_sizes)


# The strategies that rewrite a module between the steps, by name; each gets the module as it was legalised.
_WAYS = {"kernels compiled apart": _compile_separately, "a buffer for what is computed on the way": _compile_with_transients}


def _place_transients(legal: ir.Module, target: Target) -> bool:
    """Puts intermediate values into buffers that the next call reuses; returns True if the module has such a buffer."""
    if not target.kernel_bytes() or target.codegen.memory_of_results:
        return False
    Pipeline((PlaceTransientsPass(),)).run(legal, verify_each=False)
    return any(op.name == TRANSIENTS or is_marked(op) for op in nested(legal.operation))


def compile_legal(
    text: str,
    target: Target,
    *,
    flags: Sequence[str] = (),
    cache: bool = True,
    after_streams: Rewrite | None = None,
    library: KernelLibrary | None = None,
) -> bytes:
    """Compiles a legalised module; if IREE fails with a known fault, compiles again with flags that avoid it.

    Args:
      after_streams: a rewrite of the module after IREE's stream phase; it raises ValueError if it fails.
      library: the kernels for which the module has stubs.
    """

    def compile_with(flags: Sequence[str]) -> bytes:
        artifact = functools.partial(
            compile_module, text, target, flags=flags, cache=cache, in_steps=after_streams is not None or library is not None,
            before_code=functools.partial(before_code, after_streams, library=library),
        )  # fmt: skip
        return artifact() if library is None else with_kernels(library, artifact, target, flags, cache)

    try:
        return compile_with(flags)
    except CompileError as error:
        for remedy in remedies_for(str(error)):
            with contextlib.suppress(CompileError):
                return compile_with([*flags, *remedy])
        raise


def _without_schedule(
    module: ir.Module, schedule: str, target: Target, flags: Sequence[str], cache: bool
) -> bytes | None:
    """The module compiled without the rewrites for speed; None if they changed nothing, or if IREE refuses this module, too."""
    plain = str(legalize(module, target, schedule=False))
    if plain == schedule:
        return None
    try:
        return compile_module(plain, target, flags=flags, cache=cache)
    except CompileError:
        return None
