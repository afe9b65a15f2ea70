"""Loops of Python, whose steps a trace repeats, as counted loops."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import blocks_in_functions
from nabla_mlir.dialects.stablehlo import constant_array
from nabla_mlir.ops.elementwise import add, multiply, subtract
from nabla_mlir.ops.logic import compare
from nabla_mlir.ops.shape import broadcast_in_dim, concatenate, dynamic_slice, reshape, sliced
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead_in
from nabla_mlir.passes.roll.blocks import Blocks, Carried, Constants, Outer, Own, Position, Source, blocks_of, readers_of
from nabla_mlir.passes.roll.items import Items
from nabla_mlir.passes.roll.periods import runs
from nabla_mlir.rules.tapes import INDEX, empty_tape, read_row, write_row
from nabla_mlir.table.regions import captures_of, emit_while
from nabla_mlir.table.registry import clone_op
from nabla_mlir.table.tensor import Tensor, constant, full, wrap
from nabla_mlir.table.traits import CONSTANT


@register
@dataclass(frozen=True)
class RollLoopsPass(Pass):
    """Write equal consecutive blocks of operations as one counted loop, if there are many.

    A loop of Python in a traced function leaves such blocks, and IREE needs more than proportional time for them. A block may
    read values of earlier blocks, which the loop carries; values from outside that are the same for all blocks; constants that
    differ, which become the rows of one constant; and slices that differ in their start. Results that are read after the blocks
    become rows of an array. Blocks that read other values, such as the weights of a layer, stay as they are. The gradient of a
    loop reads the rows of its forward loop, so it is rolled after it. Nested loops are rolled from the inside.

    Example: tests/filecheck/passes/roll_loops.mlir
    """

    name: ClassVar[str] = "nabla-roll-loops"
    repetitions: int = thresholds.ROLLED_REPETITIONS  # the smallest number of blocks, at least 3
    operations: int = thresholds.ROLLED_OPERATIONS  # the smallest number of operations that a loop must have less

    def run(self, module: ir.Operation) -> None:
        """Rewrites runs of equal blocks as counted loops, in place."""
        for block in blocks_in_functions(module):
            while self._roll(block):
                pass

    def _roll(self, block: ir.Block) -> bool:
        """True after at least one run of the block became a loop; runs that overlap with it are left for the next call."""
        operations = [op.operation for op in block.operations]
        if len(operations) <= self.operations:
            return False
        items = Items(operations)
        progress = False
        for run in runs(items.forms, self.repetitions):
            if (blocks := blocks_of(items, run, self.repetitions, self.operations)) is not None:
                _Loop(blocks).replace()
                progress = True
        if progress:
            erase_dead_in(block)
        return progress


def repeated_operations(function: ir.Operation) -> int:
    """An upper bound of the number of operations of a function that rolling removes.

    It compares operations by name and result types only, so it is fast.
    """
    (block,) = function.regions[0].blocks
    operations = [op.operation for op in block.operations]
    if len(operations) <= thresholds.ROLLED_OPERATIONS:
        return 0
    end = total = 0
    numbers: dict[Hashable, int] = {}
    forms = [(op.name, *(r.type for r in op.results)) for op in operations if op.name != CONSTANT]
    found = runs([numbers.setdefault(form, len(numbers)) for form in forms], thresholds.ROLLED_REPETITIONS)
    for run in sorted(found, key=lambda run: run.start + run.length):
        if run.start >= end and run.length - run.period >= thresholds.ROLLED_OPERATIONS:
            end = run.start + run.length
            total += run.length - run.period
    return total


class _Loop:
    """The counted loop that replaces equal consecutive blocks."""

    def __init__(self, blocks: Blocks) -> None:
        """Fixes the order of the carried values and of the tapes of the loop."""
        self._blocks = blocks
        self._carried = list(blocks.carried)
        self._rows = list(blocks.rows)
        self._stacks: dict[Constants, Tensor] = {}  # for constants that differ, one with a row for each block
        self._first = blocks.items.ops[blocks.start : blocks.start + blocks.period]

    def replace(self) -> None:
        """Emits the loop after the blocks, and erases them."""
        blocks = self._blocks
        after = ir.InsertionPoint.after(blocks.items.ops[blocks.start + blocks.length - 1])
        with after, self._first[0].location:
            for source in {s: None for sources in blocks.sources for s in sources}:
                if isinstance(source, Constants):
                    self._stacks[source] = _stacked(source)
            count = full((), blocks.count, INDEX)
            inits = [full((), 0, INDEX), *map(self._first_value, self._carried)]
            inits += [empty_tape(blocks.count, wrap(blocks.result(position, 0))) for position in self._rows]
            outs = emit_while(inits, lambda carry: compare(carry[0], count, comparison_direction="LT"), self._body)
        n = 1 + len(self._carried)
        for source, out in zip(self._carried, outs[1:n], strict=True):
            # A value that is carried over m blocks ends as the result of the block m before the end.
            blocks.result(source.position, blocks.count - len(source.first)).replace_all_uses_with(out.value)
        for position, tape in zip(self._rows, outs[n:], strict=True):
            _read_rows(tape, {i: blocks.result(position, i) for i in blocks.rows[position]}, blocks)
        blocks.items.erase(blocks.start, blocks.length)

    def _first_value(self, source: Carried) -> Tensor:
        """The initial value of the carry for `source`: the value that the first block reads; zeros if no block reads one."""
        value, like = source.first[0], wrap(self._blocks.result(source.position, 0))
        return full(like.shape, 0, like.dtype) if value is None else wrap(value)

    def _body(self, carry: list[Tensor]) -> Sequence[Tensor]:
        """The values of the loop after an iteration, which this function emits: the counter, carried values, and tapes.

        A tape is an array that gets a row in each iteration.
        """
        counter, tapes = carry[0], carry[1 + len(self._carried) :]
        before = dict(zip(self._carried, carry[1:], strict=False))  # the tapes follow
        results: dict[Position, Tensor] = {}

        def value_of(source: Source) -> Tensor:
            """The value that an operation in the loop reads from this source."""
            match source:
                case Own(position):
                    return results[position]
                case Carried():
                    return before[source]
                case Outer(value):
                    return wrap(value)
                case Constants(ops):
                    return _row(self._stacks[source], counter, wrap(ops[0].results[0]))

        for k, op in enumerate(self._first):
            with op.location:
                operands = [value_of(source) for source in self._blocks.sources[k]]
                for j, result in enumerate(self._step(k, op, operands, counter)):
                    results[k, j] = result
        after = [value_of(source.next()) for source in self._carried]
        rows = [write_row(tape, results[position], counter) for position, tape in zip(self._rows, tapes, strict=True)]
        return [add(counter, full((), 1, INDEX)), *after, *rows]

    def _step(self, k: int, op: ir.Operation, operands: list[Tensor], counter: Tensor) -> list[Tensor]:
        """The results of operation number k of a block in the loop, from the values `operands` that it reads."""
        if k in self._blocks.starts:
            starts = [_start(axis, counter) for axis in self._blocks.starts[k]]
            return [dynamic_slice(*operands, *starts, slice_sizes=wrap(op.results[0]).shape)]
        n = len(op.operands)  # the values that its regions capture follow
        captured = captures_of(op) if len(op.regions) else []
        new = clone_op(op, {old: x.value for old, x in zip(captured, operands[n:], strict=True)})
        for i, x in enumerate(operands[:n]):  # one value may be two operands with different sources
            new.operands[i] = x.value
        return [wrap(r) for r in new.results]


def _stacked(source: Constants) -> Tensor:
    """One constant with the constants of all blocks as rows; a row is a scalar if each constant has equal elements."""
    arrays = [constant_array(op) for op in source.ops]
    if all(x.size and not any(x.strides) for x in arrays):  # without strides, all elements are one number
        arrays = [x.flat[:1].reshape(()) for x in arrays]
    return constant(np.stack(arrays))


def _row(stack: Tensor, counter: Tensor, like: Tensor) -> Tensor:
    """The row `counter` of a stack of constants, in the shape of `like`."""
    row = read_row(stack, counter)
    return row if row.shape == like.shape else broadcast_in_dim(row, shape=like.shape, broadcast_dimensions=())


def _start(starts: Sequence[int], counter: Tensor) -> Tensor:
    """The start of a slice along one axis as a function of the counter, from the starts in all iterations."""
    first, step = starts[0], starts[1] - starts[0]
    if any(start != first + step * i for i, start in enumerate(starts)):
        return read_row(constant(np.array(starts, INDEX)), counter)
    if step == 0:
        return full((), first, INDEX)
    moved = counter if abs(step) == 1 else multiply(counter, full((), abs(step), INDEX))
    if step < 0:
        return subtract(full((), first, INDEX), moved)
    return add(moved, full((), first, INDEX)) if first else moved


def _read_rows(tape: Tensor, results: dict[int, ir.Value], blocks: Blocks) -> None:
    """Replaces results of blocks by rows of a tape, each read directly before its first reader.

    Args:
      tape: an array with a row for each block.
      results: the replaced results, by number of block.
      blocks: the blocks.
    """
    parts: dict[ir.Value, int] = {}
    joins: dict[ir.Value, ir.Operation] = {}  # by first result, because the hash of an operation changes with its operands
    for i, result in results.items():
        readers = blocks.readers_outside(result)
        first = functools.reduce(lambda a, b: b if b.is_before_in_block(a) else a, readers)
        with ir.InsertionPoint(first), first.location:
            part = sliced(tape, 0, i, i + 1)
            row = reshape(part, shape=tape.shape[1:])
        parts[part.value] = i
        result.replace_all_uses_with(row.value)
        for reader in readers:
            if reader.name == "stablehlo.reshape" and wrap(reader.results[0]).shape == part.shape:
                reader.results[0].replace_all_uses_with(part.value)
                joins |= {r.results[0]: r for r in readers_of(part.value) if r.name == "stablehlo.concatenate"}
    for join in joins.values():
        _join_rows(tape, join, parts)


def _join_rows(tape: Tensor, join: ir.Operation, parts: dict[ir.Value, int]) -> None:
    """Writes consecutive rows of a tape as one slice, where they are neighbours in the concatenation `join` along the first axis.

    Args:
      tape: the tape.
      join: the concatenation.
      parts: the row number of each operand that is a row of the tape.
    """
    dimension = concatenate.read(join)["dimension"]
    if dimension != 0:
        return
    with ir.InsertionPoint(join), join.location:
        operands: list[Tensor] = []
        start = end = 0
        for value in join.operands:
            i = parts.get(value)
            if i is not None and start < end == i:
                operands.pop()  # the slice before is emitted again, one row longer
            elif i is not None:
                start = i
            end = 0 if i is None else i + 1
            operands.append(wrap(value) if i is None else sliced(tape, 0, start, end))
        joined = concatenate(*operands, dimension=0) if len(operands) > 1 else operands[0]
    join.results[0].replace_all_uses_with(joined.value)
