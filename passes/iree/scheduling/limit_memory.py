"""Recomputation of values, so that a function needs no more live bytes than its limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import functions_of, last_of, made_by
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead, is_pure
from nabla_mlir.passes.iree.scheduling.rematerialization import Plan, Step, rematerialized
from nabla_mlir.rules.cost import cost_of
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import bytes_of, is_elementwise, is_free, is_reduction, runs_regions

LIMIT = "nabla.memory_limit"  # the attribute of a function with its limit in bytes
_FLOPS_OF_A_BYTE = 4  # the number of operations in the time in which one byte is moved
_ALL = 1 << 62  # a limit that every program meets


@register
@dataclass(frozen=True)
class LimitMemoryPass(Pass):
    """Recompute values where a function states in `nabla.memory_limit` how many bytes may be live at once.

    Operations stay in their order; `scheduling/rematerialization.py` chooses the values that are recomputed. IREE must not
    merge the second computation with the first, or start it at once. So the second computation reads a copy of its smallest
    operand, and this copy depends on a late value (a zero made from the late value is subtracted). The bytes are an estimate: an
    elementwise value that one such operation, or one sum, reads once counts as fused.

    Example: tests/filecheck/passes/limit_memory.mlir
    """

    name: ClassVar[str] = "nabla-limit-memory"

    def run(self, module: ir.Operation) -> None:
        """Rewrites each function that has a limit of memory, in place, so that it stays within the limit as far as possible."""
        for func in functions_of(module).values():
            if LIMIT in func.attributes:
                limit = ir.IntegerAttr(func.attributes[LIMIT]).value
                del func.attributes[LIMIT]
                _Program(func.regions[0].blocks[0]).limit(limit)


def set_limits(module: ir.Operation, limits: Mapping[str, int]) -> None:
    """Sets the memory limits of functions of a module as attributes; `limits` has the bytes for each function name."""
    functions = functions_of(module)
    for name, limit in limits.items():
        functions[name].attributes[LIMIT] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), limit)


def held_at_once(func: ir.Operation) -> list[ir.Value]:
    """The values of a function that are live when most bytes are, the largest value first; without arguments."""
    program = _Program(func.regions[0].blocks[0])
    values = [program.values[number] for number in program.plan(_ALL).held]
    return sorted(values, key=bytes_of, reverse=True)


class _Program:
    """A block as steps: operations whose results are in memory, each with the operations that are fused into it."""

    def __init__(self, block: ir.Block):
        """Reads a block as steps, with the values that each step reads and writes; operations that IREE fuses are no steps."""
        self.block, self.end = block, last_of(block)
        self.values: list[ir.Value] = []  # the values in memory
        self.numbers: dict[ir.Value, int] = {}
        self.roots: dict[ir.Value, tuple[ir.Value, ...]] = {}  # for each value, the values in memory from which it is computed
        self.ops: list[ir.Operation] = []
        self.steps: list[Step] = []
        for argument in block.arguments:
            self._store(argument)
        for op in (o.operation for o in block.operations):
            roots = self._roots_of(op)
            if op == self.end:
                break
            if _is_fused(op):
                self.roots[op.results[0]] = roots
                continue
            for result in op.results:
                self._store(result)
            self.ops.append(op)
            self.steps.append(Step(self._numbers(roots), self._numbers(op.results), _work(op), _repeats(op, roots)))

    def plan(self, limit: int) -> Plan:
        """The plan of recomputations with which at most `limit` bytes are live."""
        return rematerialized(self.steps, [_size(v) for v in self.values], self._numbers(self._roots_of(self.end)), limit)

    def limit(self, limit: int) -> None:
        """Rewrites the block so that at most `limit` bytes are live at once, as far as possible."""
        recomputed = self.plan(limit).recomputed
        if not recomputed:
            return
        current: dict[ir.Value, ir.Value] = {}
        for number, op in enumerate([*self.ops, self.end]):
            with ir.InsertionPoint(op), op.location:
                if number in recomputed:
                    self._repeat(recomputed[number], number, current)
                self._rename(op, current)
        erase_dead([o.operation for o in self.block.operations][:-1])  # without the terminator

    def _store(self, value: ir.Value) -> None:
        """Gives the next number to a value, which is in memory."""
        self.numbers[value] = len(self.values)
        self.values.append(value)
        self.roots[value] = (value,)

    def _numbers(self, values: Sequence[ir.Value]) -> tuple[int, ...]:
        """The numbers of values in memory."""
        return tuple(map(self.numbers.__getitem__, values))

    def _roots_of(self, op: ir.Operation) -> tuple[ir.Value, ...]:
        """The values in memory that an operation reads, directly or through operations that are fused into it."""
        return tuple(dict.fromkeys(root for value in reads_of(op) for root in self.roots.get(value, ())))

    def _repeat(self, numbers: Sequence[int], now: int, current: dict[ir.Value, ir.Value]) -> None:
        """Repeats the steps `numbers` before step `now`; `current` maps each value to its latest copy, and gets the new copies."""
        late = _Late(self.ops[:now], current)
        results: set[ir.Value] = set()
        for number in numbers:
            op, names = self.ops[number], dict(current)
            roots = [self.values[i] for i in self.steps[number].reads]
            # A step that reads no new copy would be merged with its first computation: it reads a late copy of an operand.
            if not results.intersection(roots):
                root = min(filter(_is_number, roots), key=bytes_of)
                names[root] = late.copy(current.get(root, root))
            copy = op.clone()
            with ir.InsertionPoint(copy):
                self._rename(copy, names)
            current.update(zip(op.results, copy.results, strict=True))
            results.update(op.results)

    def _rename(self, op: ir.Operation, names: Mapping[ir.Value, ir.Value]) -> None:
        """Makes an operation read copies instead of the values that `names` maps to them.

        Operations that are fused into this operation are repeated so that they read the copies.
        """
        copies: dict[ir.Value, ir.Value] = {}

        def renamed(value: ir.Value) -> ir.Value:
            """The copy that replaces a value; the value itself if it does not depend on a copied one."""
            if value in self.numbers:
                return names.get(value, value)
            if value not in copies and any(root in names for root in self.roots.get(value, ())):
                operands = [renamed(operand) for operand in value.owner.operation.operands]
                copy = value.owner.operation.clone()
                for i, operand in enumerate(operands):
                    copy.operands[i] = operand
                copies[value] = copy.results[0]
            return copies.get(value, value)

        for i, operand in enumerate(op.operands):
            op.operands[i] = renamed(operand)


class _Late:
    """Copies of values that cannot be computed before the last of some operations has ended."""

    def __init__(self, ops: Sequence[ir.Operation], current: Mapping[ir.Value, ir.Value]):
        self.ops, self.current = ops, current
        self.copies: dict[ir.Value, ir.Value] = {}

    def copy(self, value: ir.Value) -> ir.Value:
        """A copy of a value in memory that waits for the operations of this object; each value is copied once."""
        if value not in self.copies:
            x = Val(value)
            zero = b.broadcast(b.convert(self._zero, x.dtype), x.shape, ())
            self.copies[value] = b.stored(b.binary("stablehlo.subtract", x, zero)).value
        return self.copies[value]

    @cached_property
    def _zero(self) -> Val:
        """A zero from the sign bit of a number, by two right shifts; only LLVM sees that it is always zero."""
        value = next(v for op in reversed(self.ops) for v in op.results if _is_number(v))
        x = Val(self.current.get(value, value))
        x = b.reshape(b.slice_(x, [0] * x.rank, [1] * x.rank), ())
        bits = b.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
        for _ in range(2):
            bits = b.binary("stablehlo.shift_right_logical", bits, b.splat(8 * bits.dtype.itemsize - 1, bits))
        return bits


def _is_number(value: ir.Value) -> bool:
    """True for a static array of real numbers with at least one element."""
    return is_static_tensor(value.type) and bytes_of(value) > 0 and Val(value).dtype.kind in "fiu"


def _is_fused(op: ir.Operation) -> bool:
    """True if the result needs no memory: IREE computes the result in its only reader, or in all readers if `op` is free."""
    if len(op.results) != 1 or not is_static_tensor(op.results[0].type):
        return False
    readers = [use.owner for use in op.results[0].uses]
    return is_free(op) or (is_elementwise(op) and len(readers) == 1 and (is_elementwise(readers[0]) or is_reduction(readers[0])))


def _repeats(op: ir.Operation, roots: Sequence[ir.Value]) -> bool:
    """True if an operation may be repeated: it is static, pure, runs no regions, and reads a number from memory (`roots`)."""
    is_static = all(is_static_tensor(result.type) for result in op.results)
    return is_static and any(map(_is_number, roots)) and is_pure(op) and not runs_regions(op)


def _size(value: ir.Value) -> int:
    """The bytes of a value that is made in the block; 0 for arguments, and if they are not known."""
    return bytes_of(value) if made_by(value) is not None and is_static_tensor(value.type) else 0


def _work(op: ir.Operation) -> int:
    """The estimated time of an operation, in floating-point operations and at least 1; a moved byte counts as several."""
    cost = cost_of(op)
    return max(1, cost.flops + _FLOPS_OF_A_BYTE * cost.bytes)
