"""Counted loops in the form in which IREE runs them fast.

IREE 3.13 keeps the counter of a loop on the host only if it rises to a constant limit; any other costs two transfers and
two dispatches in every iteration. And it copies a whole carry in every iteration that updates a row of it, so that
tapes of n rows cost n * n; blocks of about sqrt(n) rows, filled by an inner loop and then written at once, cost n ** 1.5,
and blocks of blocks n ** (4 / 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.ops.elementwise import add, compare, convert, multiply, subtract
from nabla_mlir.ops.loops import Counter, find_counter
from nabla_mlir.ops.regions import body_of, clone_body, emit_while, replace
from nabla_mlir.ops.shape import concatenate, dynamic_update_slice, reshape
from nabla_mlir.ops.tapes import Tape, tape_of
from nabla_mlir.ops.tensor import Tensor, full, wrap

INDEX = np.dtype(np.int32)
MIN_TRIPS = 16  # below, whole tapes are as small as blocks
DEEP_TRIPS = 256  # from here on, blocks are made of blocks
REST = 10  # the rows that a loop for iterations that are left over is worth


def legalize_loop(op: ir.Operation) -> None:
    """Counts a loop upwards from 0, and fills its tapes in blocks; leaves it alone if its trips are not known."""
    counter = find_counter(op)
    if counter is None or counter.trips == 0:
        return
    tapes = []
    if counter.trips >= MIN_TRIPS:
        tapes = [t for i in range(len(op.operands)) if (t := tape_of(op, i, counter)) is not None]
    with ir.InsertionPoint(op), op.location:
        _Loop(op, counter, tapes).emit()


def extents(trips: int) -> tuple[int, ...]:
    """The trips of nested loops whose product is `trips`, or as little less as their balance allows.

    Example:
      >>> extents(50), extents(53), extents(5000)
      ((5, 10), (4, 13), (10, 20, 25))
    """
    return _factors(trips, 3 if trips >= DEEP_TRIPS else 2)


def _factors(trips: int, levels: int) -> tuple[int, ...]:
    if levels == 1:
        return (trips,)
    root = round(trips ** (1 / levels))
    candidates = [(n, *_factors(trips // n, levels - 1)) for n in range(max(2, root // 2), 2 * root + 1)]
    return min(candidates, key=lambda nest: (_rows_copied(trips, nest), nest))


def _rows_copied(trips: int, nest: tuple[int, ...]) -> int:
    left = trips - math.prod(nest)
    return sum(nest) + (left + REST if left else 0)


class _Loop:
    """One loop that is rewritten: its states (carries that are neither the counter nor a tape), and its tapes."""

    def __init__(self, op: ir.Operation, counter: Counter, tapes: Sequence[Tape]):
        self.op, self.counter, self.tapes = op, counter, tapes
        others = {counter.carry, *(t.carry for t in tapes)}
        self.states = [i for i in range(len(op.operands)) if i not in others]
        self.dtype = wrap(op.operands[counter.carry]).dtype

    def emit(self) -> None:
        """Emits the new loop and replaces the old one."""
        states = [wrap(self.op.operands[i]) for i in self.states]
        found, tapes = self._blocked(states) if self.tapes else (self._whole(states), [])
        results = dict(zip(self.states, found, strict=True))
        results.update((t.carry, rows) for t, rows in zip(self.tapes, tapes, strict=True))
        results[self.counter.carry] = self._value(_index(self.counter.trips))
        replace(self.op, [results[i] for i in range(len(self.op.operands))])

    def _whole(self, states: Sequence[Tensor]) -> list[Tensor]:
        limit = _index(self.counter.trips)

        def body(carry: list[Tensor]) -> list[Tensor]:
            return [_next(carry[0]), *self._iteration(carry[0], carry[1:])[0]]

        return emit_while([_index(0), *states], lambda carry: _less(carry[0], limit), body)[1:]

    def _blocked(self, states: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """All iterations, the last ones in a loop of their own if the nested ones leave some over."""
        nest = extents(self.counter.trips)
        done = math.prod(nest)
        new, rows = self._nested(_index(0), states, nest)
        if done == self.counter.trips:
            return new, rows
        new, rest = self._nested(_index(done), new, (self.counter.trips - done,))
        parts = [(a, b) if t.direction > 0 else (b, a) for t, a, b in zip(self.tapes, rows, rest, strict=True)]
        return new, [concatenate(a, b, dimension=0) for a, b in parts]

    def _nested(
        self, first: Tensor, states: Sequence[Tensor], nest: tuple[int, ...]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Iterations from `first` on, by nested loops of these trips: the states behind them, and the rows of the tapes."""
        trips, inner = nest[0], nest[1:]
        stride, n = math.prod(inner), len(states)
        blanks = [full((trips * stride, *r.shape), 0, r.dtype) for r in (wrap(t.row) for t in self.tapes)]

        def body(carry: list[Tensor]) -> list[Tensor]:
            k, now, rows = carry[0], carry[1 : n + 1], carry[n + 1 :]
            offset = multiply(k, _index(stride)) if inner else k
            number = add(first, offset)
            if inner:
                new, blocks = self._nested(number, now, inner)
            else:
                new, values = self._iteration(number, now)
                blocks = [reshape(v, shape=(1, *v.shape)) for v in values]
            from_end = subtract(_index((trips - 1) * stride), offset)
            places = [offset if t.direction > 0 else from_end for t in self.tapes]
            filled = [
                dynamic_update_slice(r, b, p, *([_index(0)] * (r.ndim - 1)))
                for r, b, p in zip(rows, blocks, places, strict=True)
            ]
            return [_next(k), *new, *filled]

        results = emit_while([_index(0), *states, *blanks], lambda carry: _less(carry[0], _index(trips)), body)
        return results[1 : n + 1], results[n + 1 :]

    def _iteration(self, number: Tensor, states: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Emits iteration `number` (from 0): the next states, and the rows for the tapes."""
        arguments, ops, returned = body_of(self.op.regions[1])
        mapping = {arguments[i]: s.value for i, s in zip(self.states, states, strict=True)}
        mapping[arguments[self.counter.carry]] = self._value(number).value
        left_out = {returned[t.carry] for t in self.tapes}
        clone_body([o for o in ops if not any(r in left_out for r in o.results)], mapping)
        rows = [wrap(mapping.get(t.row, t.row)) for t in self.tapes]
        return [wrap(mapping.get(returned[i], returned[i])) for i in self.states], rows

    def _value(self, number: Tensor) -> Tensor:
        """The counter in iteration `number`."""
        value = number if self.dtype == INDEX else convert(number, dtype=self.dtype)
        start = full((), self.counter.start, self.dtype)
        if self.counter.step == -1:
            return subtract(start, value)
        if self.counter.step != 1:
            value = multiply(value, full((), self.counter.step, self.dtype))
        return add(start, value) if self.counter.start else value


def _index(value: int) -> Tensor:
    return full((), value, INDEX)


def _next(i: Tensor) -> Tensor:
    return add(i, _index(1))


def _less(a: Tensor, b: Tensor) -> Tensor:
    return compare(a, b, comparison_direction="LT")
