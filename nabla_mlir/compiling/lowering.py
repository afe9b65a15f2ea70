"""The steps from traced IR to StableHLO to an artifact: the fixed pipelines, and the calls of the compiler."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError
from nabla_mlir.base.log import logger, warn
from nabla_mlir.base.progress import watch
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.internals.kernel_library import with_kernels
from nabla_mlir.compiling.internals.libraries import before_code
from nabla_mlir.compiling.internals.machine_code import put_machine_code
from nabla_mlir.compiling.limits import within
from nabla_mlir.compiling.strategies import FASTEST, FORMS, WHOLE, Form, Program, Strategy, required_flags
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.passes.iree.faults.table import remedies_for
from nabla_mlir.passes.pipeline import ExpandTransformsPipeline, IreePipeline, LowerPipeline, Pipeline
from nabla_mlir.passes.verify import OWN_DIALECTS
from nabla_mlir.targets import Target

_LOG = logger("compile")
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_LOWER, _EXPAND = (Pipeline(steps().passes()) for steps in (LowerPipeline, ExpandTransformsPipeline))


def clone_module(module: ir.Module) -> ir.Module:
    """A copy of the module in the same context."""
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
    """A copy of the module for IREE: operations that IREE cannot compile, or compiles wrongly for the target, are replaced.

    With `schedule`, operations that IREE would make slow are replaced, too.
    """
    legal = clone_module(module)
    width = target.kernel_bytes() if schedule else 0
    triton = target.triton_capability() if schedule else 0
    Pipeline(IreePipeline(target=target.name, vector_bytes=width, triton=triton).passes()).run(legal, verify_each=False)
    return legal


def compile_lowered(
    module: ir.Module,
    target: Target,
    *,
    flags: Sequence[str] = (),
    cache: bool = True,
    title: str = "",
    strategy: Strategy = FASTEST,
) -> bytes:
    """The artifact (.vmfb) of a lowered module, legalised and compiled for the target by a strategy.

    Args:
      module: the module.
      target: the target.
      flags: additional flags of iree-compile.
      cache: True reads the artifact from the cache, and stores it there.
      title: the name of the module in messages.
      strategy: the strategy, which says how the module is separated and legalised.

    Raises:
      CompileError: IREE refuses the module.
    """
    name, start = title or _name_of(module), time.perf_counter()
    schedule = strategy.schedule
    if strategy.separate is not None:
        module = clone_module(module)
        strategy.separate(module)
    with watch(f"compiling {name} for {target.name}"):
        limit = target.allowed_bytes()
        if limit is None:
            vmfb = _compile_lowered(module, target, flags, cache, schedule)
        else:
            # Another attempt helps only if a pass recomputes values to save memory: LimitMemoryPass, a step of the schedule. The
            # pass needs a strategy with the schedule, and a target with vector registers for which schedules are written.
            attempts = thresholds.LIMIT_ATTEMPTS if schedule and target.kernel_bytes() else 1
            # `within` writes the limits of its attempts into the module; the module of the caller stays unchanged.
            vmfb = within(clone_module(module), limit, attempts, lambda m: _compile_lowered(m, target, flags, cache, schedule))
    _LOG.info("%s for %s: %d bytes in %.2f s", name, target.name, len(vmfb), time.perf_counter() - start)
    return vmfb


def _name_of(module: ir.Module) -> str:
    """The name of the first public function of a module, which names the module in messages."""
    return next((name for name, op in functions_of(module.operation).items() if not is_private(op)), "a module")


def _compile_lowered(module: ir.Module, target: Target, flags: Sequence[str], cache: bool, schedule: bool = True) -> bytes:
    """The artifact of a module, compiled in the first of `FORMS` that IREE accepts.

    Args:
      module, target, flags, cache, schedule: the arguments of `compile_lowered`.

    Raises:
      CompileError: IREE refuses all forms; the error is that of the whole module, with the user's line.
    """
    original = _with_kernels(module, target, schedule, cache)
    flags = [*required_flags(original, target), *flags]
    legal: ir.Module | None = original
    errors: dict[Form, CompileError] = {}
    refused = ""  # the whole module, once it is refused
    for form in FORMS:
        if legal is None or not form.schedule:
            legal = _with_kernels(module, target, schedule and form.schedule, cache)
        if (program := form.make(legal, target, flags)) is None or program.text == refused:
            continue
        try:
            artifact = compile_program(program, target, flags=flags, cache=cache)
        except CompileError as error:
            errors[form] = error
            if form is WHOLE:
                refused = program.text  # a later form with the same text would fail, too
            else:
                _LOG.warning("without %s, which IREE refuses: %s", form.name, error.message)
                legal = None  # the next form gets a new legalised module
            continue
        if WHOLE in errors:
            warn(
                "IREE refuses this module as nabla-schedule writes it; it was compiled as it was before, which is right "
                f"but slower. Please report it: {errors[WHOLE].message}"
            )
        return artifact
    _refuse_unknown(original)
    if errors[WHOLE].where is None:
        # Another run has locations, so that its error shows the line of the user.
        text = legalize(module, target, schedule).operation.get_asm(enable_debug_info=True)
        compile_module(text, target, flags=flags, cache=False)
    raise errors[WHOLE]


def _refuse_unknown(legal: ir.Module) -> None:
    """Raises CompileError if the legalised module has an operation of an unknown dialect: IREE crashes on it without a message."""
    with context() as known:
        for op in nested(legal.operation):
            if not known.is_registered_operation(op.name) and not op.name.startswith(OWN_DIALECTS):
                raise CompileError(
                    f"compiling requires operations that IREE knows, got {op.name}.",
                    where=source_of(op.location),
                    help="a pattern in passes/iree writes it with other operations: `Add an operation` in CONTRIBUTING.md.",
                )


def _with_kernels(module: ir.Module, target: Target, schedule: bool, cache: bool) -> ir.Module:
    """The legalised module, with machine code in place of kernels in Triton's dialect; without such kernels if Triton refuses one.

    `schedule` is as in `legalize`; with `cache`, machine code is read from the cache and stored there.
    """
    if (name := target.missing_compiler()) and any(op.name in _PRODUCTS for op in nested(module.operation)):
        warn(
            f"{name} is not installed: products and convolutions run without fast kernels, up to 10 times slower. "
            f"Install nabla-mlir[{target.name}], or write {type(target).__name__}(triton=False)."
        )
    legal = legalize(module, target, schedule)
    try:
        put_machine_code(legal, target, cache)
    except CompileError as error:
        warn(f"compiled without kernels for tensor cores, slower: {error.message}")
        return legalize(module, target, schedule=False)
    return legal


def compile_program(program: Program, target: Target, *, flags: Sequence[str] = (), cache: bool = True) -> bytes:
    """The artifact of a legalised module; if IREE fails by a known fault, the flags that avoid the fault are added.

    `program` has the module and its rewrites, and `flags` are additional flags of iree-compile.
    """

    def compile_with(flags: Sequence[str]) -> bytes:
        """The artifact with these flags, and with separately compiled kernels if the program has a library."""
        rewrite, library = program.after_streams, program.library
        artifact = functools.partial(
            compile_module,
            program.text,
            target,
            flags=flags,
            cache=cache,
            in_steps=rewrite is not None or library is not None,
            before_code=functools.partial(before_code, rewrite, library=library),
        )
        return artifact() if library is None else with_kernels(library, artifact, target, flags, cache)

    try:
        return compile_with(flags)
    except CompileError as error:
        for remedy in remedies_for(error.fault):
            with contextlib.suppress(CompileError):
                return compile_with([*flags, *remedy])
        raise
