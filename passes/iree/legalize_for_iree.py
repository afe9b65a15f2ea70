"""The last pass before IREE: every operation that IREE gets wrong or cannot compile, in terms of ones it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Recording, Val, recording
from nabla_mlir.dialects.regions import nested
from nabla_mlir.errors import PassError, RuleMissingError
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults import (  # each module registers its patterns
    indexing,  # noqa: F401
    misc,  # noqa: F401
    reductions,  # noqa: F401
    scatter,  # noqa: F401
    sort,  # noqa: F401
    top_k,  # noqa: F401
)
from nabla_mlir.passes.iree.faults.aliasing import forget_unique_indices, hold_loop_results, separate_buffers
from nabla_mlir.passes.iree.faults.fusion import separate_parts, separate_uses
from nabla_mlir.passes.iree.faults.loops import legalize_loop
from nabla_mlir.passes.iree.linalg import (
    factorizations,  # noqa: F401
    lapack,  # noqa: F401
)
from nabla_mlir.passes.iree.math import (
    arithmetic,  # noqa: F401
    chlo,  # noqa: F401
    complex,  # noqa: F401
    fft,  # noqa: F401
    gamma,  # noqa: F401
)
from nabla_mlir.passes.iree.pattern import PATTERNS, Replacement, Target
from nabla_mlir.passes.iree.target import for_target
from nabla_mlir.targets import TARGETS


@register
@dataclass(frozen=True)
class LegalizeForIreePass(Pass):
    """Replace what IREE 3.13 computes wrongly or cannot compile by operations that it does right.

    Each replacement is a pattern in one of the modules of passes/iree, with the fact about IREE that it
    answers. Types of results never change. It is the last pass: the decompositions are made for the compiler, and
    differentiating or batching them would be slow or wrong.
    Example: tests/filecheck/passes/legalize_for_iree.mlir
    """

    name: ClassVar = "nabla-legalize-for-iree"
    target: Target = "cpu"  # kind of device that the module is compiled for: cpu, vulkan or cuda
    vector_bytes: int = 0  # width of a CPU's vector registers, for which large factorisations are kernels; 0: products

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise PassError(f"{self.name} requires a target of {', '.join(TARGETS)}, got {self.target!r}.")

    def run(self, module: ir.Module) -> None:
        """Rewrites `module` in place."""
        for op in [o for o in nested(module.operation) if o.name == "stablehlo.while"]:
            legalize_loop(op)
        with recording() as record, for_target(self.target, self.vector_bytes):
            found: list[ir.Operation] = []
            calls: list[ir.Operation] = []

            def collect(op: ir.Operation) -> ir.WalkResult:
                name = op.name
                if name in PATTERNS:
                    found.append(op.operation)
                elif name == "func.call":
                    calls.append(op.operation)
                return ir.WalkResult.ADVANCE

            # Post-order, so that the body of a reduction is legal before the reduction itself is rewritten.
            module.operation.walk(collect, ir.WalkOrder.POST_ORDER)
            _refuse_recursion(calls)
            for op in found:
                self._legalize(op, record)
        separate_uses(module.operation)
        separate_parts(module.operation)
        separate_buffers(module.operation)
        if self.target == "cpu":
            forget_unique_indices(module.operation)
        else:
            hold_loop_results(module.operation)

    def _legalize(self, op: ir.Operation, record: Recording) -> None:
        worklist = [(op.name, op)]
        while worklist:
            name, op = worklist.pop()
            for rewrite in PATTERNS[name]:
                record.created.clear()
                with ir.InsertionPoint(op), op.location:
                    new = rewrite(op, self.target)
                if new is not None:
                    _replace(op, new)
                    # The last one made is looked at first: bodies before the operations that own them.
                    worklist += [made for made in record.created if made[0] in PATTERNS]
                    break


def _refuse_recursion(calls: Sequence[ir.Operation]) -> None:
    """The compiler never ends on a function that calls itself."""
    graph: dict[str, dict[str, ir.Operation]] = {}
    for call in calls:
        function = call.parent
        while function.name != "func.func":
            function = function.parent
        caller = function.attributes["sym_name"].value
        graph.setdefault(caller, {})[call.attributes["callee"].value] = call
    # Functions that call none are removed until none is left; in what remains there is a cycle.
    while graph:
        ended = [caller for caller, callees in graph.items() if not any(c in graph for c in callees)]
        if not ended:
            caller, callees = next(iter(graph.items()))
            place = next(call for callee, call in callees.items() if callee in graph)
            raise RuleMissingError(
                f"func.call requires functions without recursion, got @{caller} at {place.location}."
            )
        for caller in ended:
            del graph[caller]


def _replace(op: ir.Operation, new: Replacement) -> None:
    values: Sequence[Val] = [new] if isinstance(new, Val) else new or []
    for old, value in zip(op.results, values, strict=True):
        if old.type != value.type:
            raise PassError(f"legalizing {op.name} requires a result of type {old.type}, got {value.type}.")
        old.replace_all_uses_with(value.value)
    op.erase()
