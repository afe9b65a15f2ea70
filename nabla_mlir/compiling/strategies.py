"""The strategies to compile a module: the forms in which IREE gets it, and the flags that avoid known faults.

IREE refuses some valid modules, and computes others wrongly. So a module is compiled in the fastest form first. If that is
refused, the next form is tried; each has fewer optimisations. Wrong numbers are found by `nabla_mlir.compiling.checking`, which
tries `STRATEGIES` in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.compiling.internals.kernel_library import KernelLibrary, take_kernels
from nabla_mlir.compiling.internals.libraries import Rewrite
from nabla_mlir.compiling.internals.phases import is_artifact, may_divide
from nabla_mlir.compiling.internals.transients import set_sizes
from nabla_mlir.compiling.separation import separate_control, separate_operations
from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.iree.internals.buffers import TRANSIENTS, is_marked
from nabla_mlir.passes.iree.scheduling.place_transients import PlaceTransientsPass
from nabla_mlir.passes.iree.scheduling.split_convolutions import is_wide
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.targets import Target, merge_flags

# At this optimisation level IREE drops assertions, so reads of state that was never written would not fail.
_STATEFUL = ("--iree-opt-strip-assertions=false",)


@dataclass(frozen=True)
class Program:
    """A legalised module as the compiler gets it.

    Attributes:
      text: the module.
      after_streams: a rewrite of the module after IREE's stream phase; it raises ValueError if it fails.
      library: the kernels for which the module has stubs.
    """

    text: str
    after_streams: Rewrite | None = None
    library: KernelLibrary | None = None


# From a legalised module, its target and all flags to the program; None if the form does not apply. The module may be changed
# unless the result is None.
Make = Callable[[ir.Module, Target, Sequence[str]], Program | None]


@dataclass(frozen=True)
class Form:
    """A form in which a legalised module is compiled.

    Args:
      name: its name in messages.
      why: the reason to try it, or its gain.
      make: writes a module in this form.
      schedule: False legalises the module without rewrites for speed.
    """

    name: str
    why: str
    make: Make
    schedule: bool = True


@dataclass(frozen=True)
class Strategy:
    """A strategy to compile a lowered module, before it is legalised.

    Args:
      name: its name in manifests and warnings.
      why: the reason to try it.
      separate: a function that puts barriers into a module; None for no barriers.
      schedule: False legalises the module without rewrites for speed.
    """

    name: str
    why: str
    separate: Callable[[ir.Module], None] | None = None
    schedule: bool = True


def required_flags(legal: ir.Module, target: Target) -> list[str]:
    """The flags of iree-compile that a legalised module requires: for state, and for wide convolutions."""
    flags: list[str] = []
    if target.for_wide_convolutions and any(is_wide(op) for op in nested(legal.operation)):
        flags += target.for_wide_convolutions
    if any(op.operation.name == "util.global" for op in legal.body.operations):
        flags += _STATEFUL
    return flags


def _with_library(legal: ir.Module, target: Target, flags: Sequence[str]) -> Program | None:
    """The program with kernels in a separate library, and intermediate values in one buffer; None if the module has no such form.

    `flags` are the additional flags of iree-compile.
    """
    arguments = merge_flags(target.flags(), list(flags))
    if not is_artifact(flags) or not may_divide(arguments) or (library := take_kernels(legal)) is None:
        return None
    after_streams = set_sizes if _place_transients(legal, target) else None
    return Program(str(legal), after_streams, library)


def _with_buffer(legal: ir.Module, target: Target, flags: Sequence[str]) -> Program | None:
    """The program with intermediate values in one buffer; None if the module has no such form."""
    return Program(str(legal), set_sizes) if is_artifact(flags) and _place_transients(legal, target) else None


def _place_transients(legal: ir.Module, target: Target) -> bool:
    """True if intermediate values are now in buffers that the next call reuses; they are put there in place."""
    if not target.kernel_bytes() or target.codegen.memory_of_results:
        return False
    Pipeline((PlaceTransientsPass(),)).run(legal, verify_each=False)
    return any(op.name == TRANSIENTS or is_marked(op) for op in nested(legal.operation))


def _whole(legal: ir.Module, target: Target, flags: Sequence[str]) -> Program:
    """The program of the module as it is, without locations; `target` and `flags` are not used.

    Without locations a moved line of the source hits the cache, and an artifact contains no paths.
    """
    return Program(str(legal))


# The forms in the order in which they are tried.
WHOLE = Form("rewrites for speed", "Most modules have few kernels and small values.", _whole)
FORMS = (
    Form("a separate library of kernels", "Kernels are compiled in parallel with the module, once for all modules.", _with_library),
    Form("a buffer for intermediate values", "The next call reuses their memory; see nabla-place-transients.", _with_buffer),
    WHOLE,
    Form("other forms", "IREE refuses some modules as nabla-schedule writes them; this form is slower.", _whole, schedule=False),
)
# The strategies in the order in which they are tried, if IREE reports a circular dependency, or if numbers are wrong.
FASTEST = Strategy("as chosen for the target", "It is the fastest.")
STRATEGIES = (
    FASTEST,
    Strategy(
        "with barriers around loops and branches", "IREE may put work before and after a branch into one part.", separate_control
    ),
    Strategy("without rewrites for speed", "A rewrite of nabla_mlir may be wrong.", schedule=False),
    Strategy("with each operation in a dispatch of its own", "A fusion of IREE may be wrong.", separate_operations, schedule=False),
)
