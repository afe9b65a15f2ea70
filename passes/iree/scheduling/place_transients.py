"""The intermediate values of a large program in one buffer, which the next call reuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import last_of, made_by, nested
from nabla_mlir.dialects.stablehlo import OPTIMIZATION_BARRIER
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.internals.barriers import HOST_BARRIER
from nabla_mlir.passes.iree.internals.buffers import UNKNOWN, buffers_of, mark, with_transients
from nabla_mlir.passes.iree.scheduling.place_results import bytes_of_values, entries_of
from nabla_mlir.table.registry import REGISTRY

#  State that lives between calls leads to allocations by other functions. Between barriers IREE allocates separately,
# and these allocations would not share memory.
_SEPARATE = ("util.global.load", "util.global.store", "func.call")
_BARRIERS = (HOST_BARRIER, OPTIMIZATION_BARRIER)


@register
@dataclass(frozen=True)
class PlaceTransientsPass(Pass):
    """Put the intermediate values of a large entry point into one buffer of the device's allocator.

    By default, IREE 3.13 takes them from a pool of threads (local-task), which asks the system for values above 64 MiB in each
    call. The first touch of these pages is a tenth to a third of the time of memory-bound programs. `runtime.pooled` has an
    allocator that returns the same memory again. Functions with calls, state, barriers or branches on the host stay as they are.

    The size of the buffer is not known here. `compiling.internals.transients.set_sizes` replaces `UNKNOWN` by it, between the
    two steps of a compilation. Functions with loops are only marked: the size of their carries is known after IREE's stream
    phase, where `compiling.internals.arena` lays out the buffer.

    Example: tests/filecheck/passes/place_transients.mlir
    """

    name: ClassVar[str] = "nabla-place-transients"

    def run(self, module: ir.Operation) -> None:
        for func in entries_of(module):
            _place_values(func)


def _place_values(func: ir.Operation) -> None:
    """Puts the intermediate values of one function into a buffer, or marks the function for the arena."""
    operations = nested(func)
    if bytes_of_values(func) < thresholds.PLACED_TRANSIENTS or any(op.name in _SEPARATE for op in operations):
        return
    kinds = set(map(_region_kind, operations))
    if "loop" in kinds:
        mark(func)
        return
    # A kind other than "" is a choice: the host runs branches.
    if kinds != {""} or any(op.name in _BARRIERS for op in operations):
        return
    block = func.regions[0].blocks[0]
    end = last_of(block)
    positions = [i for i, value in enumerate(end.operands) if made_by(value) is not None and _is_signless(value)]
    if not positions:
        return
    with func.location:
        with ir.InsertionPoint.at_block_begin(block):
            (buffer,) = buffers_of([UNKNOWN])
        with ir.InsertionPoint(end):
            for i in positions:
                end.operands[i] = with_transients(end.operands[i], buffer)


def _region_kind(op: ir.Operation) -> str:
    """The word "loop" or "choice" if the host runs the regions of an operation, else "".

    In one buffer, the values that loop iterations carry would be overwritten, and each branch would need its own space.
    """
    record = REGISTRY.get(op.name)
    return "" if record is None else record.runs


def _is_signless(value: ir.Value) -> bool:
    """True for real floating-point numbers and signed integers."""
    return shape_and_dtype(value.type)[1].kind in "fi"
