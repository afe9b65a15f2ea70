"""What a large program computes on the way in one buffer, which the next call finds again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.dialects.regions import last_of, made_by, nested
from nabla_mlir.dialects.stablehlo import OPTIMIZATION_BARRIER, emit
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.scheduling.place_results import buffers_of, bytes_of_values, entries_of
from nabla_mlir.table.registry import REGISTRY

TRANSIENTS = "hal.tensor.transients"
UNKNOWN = 0x6E61626C61  # stands for the size of the buffer, which IREE knows once it has laid out what is in it
_APART = ("util.global.load", "util.global.store", "util.optimization_barrier", "func.call")


@register
@dataclass(frozen=True)
class PlaceTransientsPass(Pass):
    """Let what a large entry point computes on the way be in one buffer of the device's allocator.

    By itself IREE 3.13 takes it from a pool of threads (local-task), which asks the system for whatever has more than 64
    MiB, anew in each call: the first touch of its pages is a tenth to a third of the time of memory-bound programs.
    `runtime.pooled` has an allocator that gives the same memory again. Functions with loops or branches of the host, calls,
    state or barriers stay as they are.

    The size of the buffer is not known here: `compiling.transients.sized` puts it in the place of `UNKNOWN`, between
    the two steps of a compilation.
    Example: tests/filecheck/passes/place_transients.mlir
    """

    name: ClassVar[str] = "nabla-place-transients"

    def run(self, module: ir.Operation) -> None:
        for func in entries_of(module):
            _place(func)


def _place(func: ir.Operation) -> None:
    if bytes_of_values(func) < thresholds.PLACED_TRANSIENTS or any(map(_divides, nested(func))):
        return
    block = func.regions[0].blocks[0]
    end = last_of(block)
    places = [i for i, value in enumerate(end.operands) if made_by(value) is not None and _is_signless(value)]
    if not places:
        return
    with func.location:
        with ir.InsertionPoint.at_block_begin(block):
            (buffer,) = buffers_of([UNKNOWN])
        with ir.InsertionPoint(end):
            for i in places:
                value = end.operands[i]
                end.operands[i] = emit(TRANSIENTS, [value, buffer], results=[value.type]).results[0]


def _divides(op: ir.Operation) -> bool:
    """Whether IREE allocates more than once for a function with this operation.

    In a loop or a branch of the host the buffers of its turns would be one, and values that it carries written over; what
    is kept from call to call leads to allocations of other functions; between barriers it allocates anew, and no two of
    these allocations would share memory.
    """
    record = REGISTRY.get(op.name)
    return op.name in (OPTIMIZATION_BARRIER, *_APART) or (record is not None and bool(record.runs))


def _is_signless(value: ir.Value) -> bool:
    return shape_and_dtype(value.type)[1].kind in "fi"
