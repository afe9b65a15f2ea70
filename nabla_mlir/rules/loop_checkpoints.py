"""Reverse mode of a counted loop under a bound on memory: the states that are stored, and the order of the work.

The iterations are divided into pieces. The pullback of a piece runs it forward once more and fills tapes of the length
of the piece. The states at which pieces start are stored in a few slots; other states are recomputed from the nearest
slot. With a slot for every piece this is periodic checkpointing (one more forward run). With fewer slots it is binomial
checkpointing (Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation", 1992).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import ShapeError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.ops.elementwise import add
from nabla_mlir.ops.logic import compare
from nabla_mlir.rules.tapes import INDEX, read_row, write_row
from nabla_mlir.table.regions import emit_while
from nabla_mlir.table.tensor import Tensor, constant, full

START, WORK = 0, 1  # two more slots: the first state, and a slot for steps that store nothing
SHORTEST = 2  # the fewest iterations in a piece: IREE 3.13 does not run a loop that reads tapes of one row


@dataclass(frozen=True)
class Plan:
    """The division of a loop of `trips` iterations into pieces of `length`, with `slots` stored states."""

    trips: int
    length: int
    slots: int

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return -(-self.trips // self.length)

    @property
    def repetitions(self) -> int:
        """The largest number of times that an iteration runs forward, not counting the runs that fill tapes."""
        if self.slots == 0:
            return self.pieces - 1
        return next(r for r in range(self.pieces) if math.comb(self.slots + r, self.slots) >= self.pieces)


def choose_plan(op: ir.Operation, trips: int, row: int, state: int, bound: int) -> Plan:
    """The plan with the fewest repetitions whose states and tapes fit into `bound` bytes; among equals, that with the fewest
    pieces.

    Args:
      op: the loop, for the error.
      trips: the number of its iterations.
      row: the bytes of the tapes for one iteration.
      state: the bytes of one state.
      bound: the bytes that all states and tapes together may take.

    Raises:
      ShapeError: the bound is smaller than one row and the states that any plan needs.
    """
    least = SHORTEST * row + 2 * state
    if bound < least:
        raise ShapeError(
            f"reverse mode of a loop requires max_residual_bytes of at least {least} (two states of {state} bytes and "
            f"{SHORTEST} iterations of {row}), got {bound}.",
            where=source_of(op.location),
        )
    longest = min(trips, (bound - 2 * state) // max(row, 1))
    lengths = sorted({round(n) for n in np.geomspace(min(SHORTEST, longest), longest, 64)})
    plans = []
    for length in lengths:
        pieces = -(-trips // length)
        slots = (bound - length * row) // max(state, 1) - 2
        plans.append(Plan(trips, length, min(slots, pieces - 1)))
    return min(plans, key=lambda plan: (plan.repetitions, plan.pieces))


def schedule(plan: Plan) -> list[tuple[int, int, int, int, int]]:
    """The steps of a plan: (slot to start from, its iteration, iteration to run to, slot to store, end of the piece).

    A step that only stores a state has an empty piece: its end is its start. The other steps pull a piece back. A range
    of pieces is split where both parts need the same number of repetitions.
    """

    def step(slot: int, low: int, high: int, store: int, backward: bool) -> tuple[int, int, int, int, int]:
        """A step that runs from the start of piece `low` to that of piece `high`, and pulls this piece back if `backward`."""
        first, stop = low * plan.length, high * plan.length
        return slot, first, stop, store, min(stop + plan.length, plan.trips) if backward else stop

    steps = []
    # A range of pieces low ... high - 1, the slot with the state at its start, and the number of free slots.
    work = [(0, plan.pieces, START, plan.slots)]
    while work:
        low, high, slot, free = work.pop()
        count = high - low
        if count == 1 or free == 0:
            steps += [step(slot, low, i, WORK, True) for i in reversed(range(low, high))]
            continue
        repetitions = Plan(count, 1, free).repetitions
        middle = low + min(count - 1, -(-count * repetitions // (repetitions + free)))
        store = WORK + 1 + plan.slots - free  # the first free slot
        steps.append(step(slot, low, middle, store, False))
        work += [(low, middle, slot, free), (middle, high, store, free - 1)]
    return steps


# See `run_plan`.
Advance = Callable[[Sequence[Tensor], Tensor, Tensor], Sequence[Tensor]]
PullPiece = Callable[[Sequence[Tensor], Tensor, Tensor, Sequence[Tensor]], Sequence[Tensor]]


def run_plan(plan: Plan, inits: Sequence[Tensor], cts: Sequence[Tensor], advance: Advance, pull_piece: PullPiece) -> list[Tensor]:
    """Emits one loop over the steps of a plan; returns the cotangents at its end.

    Args:
      inits: the first state.
      cts: the cotangents at the end of the loop.
      advance: ``(state, first, stop) -> state`` runs iterations first ... stop - 1.
      pull_piece: ``(state, first, stop, cts) -> cts`` pulls back these iterations, from the state at `first`.
    """
    table = constant(np.asarray(schedule(plan), INDEX))
    steps = table.shape[0]
    slots = [full((plan.slots + 2, *x.shape), 0, x.dtype) for x in inits]
    slots = [write_row(s, x, full((), START, INDEX)) for s, x in zip(slots, inits, strict=True)]
    n = len(slots)

    def body(carry: list[Tensor]) -> list[Tensor]:
        """One step of the plan: restores a state, runs forward to a piece, stores the state, and pulls the cotangents back through
        the piece.

        `carry` is the number of the step, the stored states, and the cotangents.
        """
        step, states, cts = carry[0], carry[1 : n + 1], carry[n + 1 :]
        row = read_row(table, step)
        source, first, stop, target, end = (read_row(row, full((), k, INDEX)) for k in range(5))
        state = advance([read_row(s, source) for s in states], first, stop)
        states = [write_row(s, x, target) for s, x in zip(states, state, strict=True)]
        return [add(step, full((), 1, INDEX)), *states, *pull_piece(state, stop, end, cts)]

    def condition(carry: list[Tensor]) -> Tensor:
        return compare(carry[0], full((), steps, INDEX), comparison_direction="LT")

    return emit_while([full((), 0, INDEX), *slots, *cts], condition, body)[n + 1 :]
