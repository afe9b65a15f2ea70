"""The driver of patterns: it applies each pattern to its operations, and to the operations that patterns create."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.builder import FINAL, Recording, Val, recording
from nabla_mlir.dialects.locations import named
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, require_target
from nabla_mlir.passes.iree.pattern import Pattern, Patterns, Replacement, Target
from nabla_mlir.passes.iree.target import for_target
from nabla_mlir.targets import TARGETS, Codegen


@dataclass(frozen=True)
class TargetPass(Pass):
    """A pass that depends on the kind of device."""

    target: str = "cpu"  # the kind of device: cpu, vulkan or cuda

    def __post_init__(self) -> None:
        require_target(self, self.target)

    @property
    def codegen(self) -> Codegen:
        """The operations that IREE compiles rightly for the target."""
        return TARGETS[self.target].codegen


@dataclass(frozen=True)
class PatternPass(TargetPass):
    """A pass that applies patterns until none of them matches. The types of results never change."""

    patterns: ClassVar[Patterns] = Patterns()

    def run(self, module: ir.Operation) -> None:
        """Applies the patterns to all operations, in place."""
        with for_target(self.codegen, getattr(self, "vector_bytes", 0)):
            rewrite(module, self.patterns, self.codegen)


def rewrite(module: ir.Operation, patterns: Patterns, target: Target) -> None:
    """Applies patterns to the operations of a module, and to the operations that they create, except those marked final.

    `target` describes which operations IREE compiles rightly.
    """
    by_name = patterns.by_name
    # Inner operations come first: the body of a reduction is legal before the reduction is rewritten.
    ops = [op for op in nested_in_functions(module) if op.name in by_name and FINAL not in op.attributes]
    with recording() as record:
        for op in ops:
            _legalize(op, by_name, target, record)


def _legalize(op: ir.Operation, by_name: dict[str, list[Pattern]], target: Target, record: Recording) -> None:
    """Applies the patterns in `by_name` (by name of operation) to one operation, then to the operations that they create.

    `record` has the operations that a pattern creates.
    """
    worklist = [(op.name, op)]
    while worklist:
        name, op = worklist.pop()
        for pattern in by_name[name]:
            record.created.clear()
            with ir.InsertionPoint(op), op.location:
                new = pattern(op, target)
            if new is not None:
                location = named("legalize", op.location, pattern.__name__)
                for _, part in record.created:
                    part.location = location
                _replace(op, new)
                # The operation that was created last is examined first: bodies before the operations that own them.
                worklist += [entry for entry in record.created if entry[0] in by_name]
                break


def _replace(op: ir.Operation, new: Replacement) -> None:
    """Replaces the results of an operation by the values `new` of a pattern, of the same types, and erases the operation."""
    values: Sequence[Val] = [new] if isinstance(new, Val) else new or []
    for old, value in zip(op.results, values, strict=True):
        if old.type != value.type:
            raise PassError(f"legalizing {op.name} requires a result of type {old.type}, got {value.type}.")
        old.replace_all_uses_with(value.value)
    op.erase()
