"""Counted loops in the form in which IREE runs them fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.ops.elementwise import add, convert, multiply, subtract
from nabla_mlir.ops.logic import compare
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.rules.loops import Counter, find_counter
from nabla_mlir.table.regions import body_of, clone_body, emit_while, replace
from nabla_mlir.table.tensor import Tensor, full, wrap

INDEX = np.dtype(np.int32)


@register
@dataclass(frozen=True)
class CountLoopsPass(Pass):
    """Make each loop of known length count upwards from 0.

    IREE 3.13 computes the counter of a loop on the host only if it rises to a constant limit. Any other counter costs two
    transfers and two dispatches in every iteration.

    Example: tests/filecheck/passes/count_loops.mlir
    """

    name: ClassVar[str] = "nabla-count-loops"

    def run(self, module: ir.Operation) -> None:
        """Makes all loops of known length count upwards from 0, in place."""
        for op in nested_in_functions(module):
            if op.name == "stablehlo.while":
                _count_upwards(op)


def _count_upwards(op: ir.Operation) -> None:
    """Makes a loop count upwards from 0; does nothing if its number of iterations is not known."""
    counter = find_counter(op)
    if counter is None or counter.trips == 0:
        return
    with ir.InsertionPoint(op), op.location:
        others = [i for i in range(len(op.operands)) if i != counter.carry]
        limit = index(counter.trips)

        def body(carry: list[Tensor]) -> list[Tensor]:
            """The values after an iteration: the next count, and the other carries from the old body."""
            number, states = carry[0], carry[1:]
            following = iteration(op, counter, number, states)
            return [add(number, index(1)), *following]

        states = [wrap(op.operands[i]) for i in others]
        outs = emit_while([index(0), *states], lambda carry: compare(carry[0], limit, comparison_direction="LT"), body)
        results = dict(zip(others, outs[1:], strict=True))
        results[counter.carry] = value_of(op, counter, index(counter.trips))
        replace(op, [results[i] for i in range(len(op.operands))])


def iteration(op: ir.Operation, counter: Counter, number: Tensor, states: list[Tensor]) -> list[Tensor]:
    """The carries after iteration `number` of a loop, whose body is copied to the insertion point.

    Args:
      op: the loop.
      counter: the description of its counter.
      number: the number of the iteration, from 0.
      states: the carries before the iteration, without the counter; so are the returned ones.
    """
    arguments, ops, outputs = body_of(op.regions[1])
    others = [i for i in range(len(op.operands)) if i != counter.carry]
    mapping = {arguments[i]: s.value for i, s in zip(others, states, strict=True)}
    mapping[arguments[counter.carry]] = value_of(op, counter, number).value
    clone_body(ops, mapping)
    return [wrap(mapping.get(outputs[i], outputs[i])) for i in others]


def value_of(op: ir.Operation, counter: Counter, number: Tensor) -> Tensor:
    """The value of the original counter of the loop `op` in iteration `number`, from the description `counter`."""
    dtype = wrap(op.operands[counter.carry]).dtype
    value = number if dtype == INDEX else convert(number, dtype=dtype)
    start = full((), counter.start, dtype)
    if counter.step == -1:
        return subtract(start, value)
    if counter.step != 1:
        value = multiply(value, full((), counter.step, dtype))
    return add(start, value) if counter.start else value


def index(value: int) -> Tensor:
    """A constant in the dtype of the numbers of iterations."""
    return full((), value, INDEX)
