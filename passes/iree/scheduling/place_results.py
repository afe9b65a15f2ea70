"""Results of entry points in separate memory, which the device can reuse after they are dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.arguments import OUTPUT, attribute_of, is_writable
from nabla_mlir.dialects.builder import Val, bitcast, signless
from nabla_mlir.dialects.regions import functions_of, last_of, made_by, nested
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.internals.buffers import PLACED, buffers_of, placed_in
from nabla_mlir.passes.iree.internals.dispatches import added_to
from nabla_mlir.rules.copies import overwritten
from nabla_mlir.table.traits import bytes_of


@register
@dataclass(frozen=True)
class PlaceResultsPass(Pass):
    """Put each large result of an entry point into memory of the device's allocator, and small ones of large programs, too.

    By default, IREE 3.13 takes them from a pool of slabs of 64 MiB. A pool of threads (local-task) searches the slab used last
    and four others, and only memory that the program itself frees returns a slab to these. Results that the caller drops later
    are not found again, and each round of them takes new slabs. Allocators count their memory, and `runtime.pooled` has one
    that reuses it.

    - All memory is allocated before anything runs; otherwise each allocation would cut the program.
    - Returned arguments, and constants, stay where they are.
    - So do small results of small programs: a live result pins a slab that would have no space for much else.
    - A buffer to which dispatches add until it is a result is in this memory from the beginning; otherwise it would be copied.
    - A value written into a donated argument (`iree.abi.consume`) stays there without a copy.

    Example: tests/filecheck/passes/place_results.mlir
    """

    name: ClassVar[str] = "nabla-place-results"

    def run(self, module: ir.Operation) -> None:
        """Puts the large results of all entry points into separate memory."""
        for func in entries_of(module):
            _place_outputs(func)


def entries_of(module: ir.Operation) -> list[ir.Operation]:
    """The public functions of a module."""
    return [func for func in functions_of(module).values() if "sym_visibility" not in func.attributes]


def _place_outputs(func: ir.Operation) -> None:
    """Puts the large results of a function, except those in arguments, into new buffers of the device's allocator."""
    block = func.regions[0].blocks[0]
    end = last_of(block)
    outputs = _results_in_arguments(func)
    least = 1 if bytes_of_values(func) >= thresholds.PLACED_PROGRAM else thresholds.PLACED_RESULT
    positions = [
        i
        for i, value in enumerate(end.operands)
        if i not in outputs and _is_placed(value, least) and not _is_in_donated(func, value)
    ]
    if not positions:
        return
    with func.location:
        with ir.InsertionPoint.at_block_begin(block):
            buffers = buffers_of([bytes_of(end.operands[i]) for i in positions])
        with ir.InsertionPoint(end):
            for i, buffer in zip(positions, buffers, strict=True):
                first = _added_to(end.operands[i])
                if first is None:
                    end.operands[i] = _written_to(Val(end.operands[i]), buffer).value
                    continue
                # The value to which dispatches add must be in the buffer from the beginning.
                with ir.InsertionPoint.after(made_by(first)):
                    alias = _written_to(Val(first), buffer).value
                first.replace_all_uses_except(alias, made_by(alias))


def _added_to(result: ir.Value) -> ir.Value | None:
    """The first value to which dispatches add in place until it is the result; None if there is none."""
    value, first = result, None
    while (maker := made_by(value)) is not None:
        if maker.name == "stablehlo.reshape":
            value = maker.operands[0]
        elif (onto := added_to(maker)) is not None and value == maker.results[0]:
            value = first = onto
        else:
            break
    return first if maker is not None and maker.name != PLACED else None


def _results_in_arguments(func: ir.Operation) -> set[int]:
    """The indices of the results that are written to the memory of an argument."""
    marks = [attribute_of(func, i, OUTPUT) for i in range(len(func.regions[0].blocks[0].arguments))]
    return {ir.IntegerAttr(mark).value for mark in marks if mark is not None}


def _is_in_donated(func: ir.Operation, value: ir.Value) -> bool:
    """True if the result `value` is a donated argument of the function, after writes to parts of it."""
    argument = overwritten(value)
    return argument is not None and is_writable(func, argument.arg_number)


def _is_placed(value: ir.Value, least: int) -> bool:
    """True if a result gets a buffer: it has at least `least` bytes, and is neither an argument nor a constant."""
    maker = made_by(value)
    return maker is not None and maker.name != "stablehlo.constant" and _is_static(value) and bytes_of(value) >= least


def bytes_of_values(func: ir.Operation) -> int:
    """The bytes of all values of a function; values in loops count once."""
    return sum(bytes_of(value) for op in nested(func) for value in op.results if _is_static(value))


def _is_static(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and value.type.has_static_shape


def _written_to(value: Val, buffer: ir.Value) -> Val:
    """The value as the content of the buffer, in which it is computed."""
    if value.dtype.kind == "u":  # the buffer holds the bits as signless integers
        return bitcast(_written_to(signless(value), buffer), value.dtype)
    return Val(placed_in(value.value, buffer))
