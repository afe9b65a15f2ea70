"""Loops whose iterations differ only in the indices that they read and write, such as scans: patterns element by element.

The module analyses one iteration: from which elements is each written element computed? Then every iteration
moves sets of columns between the elements at its own indices, which are computed for all iterations at once. So the
time is proportional to the elements that are read and written and to the runs of columns, not to the operations of
every iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import PatternError
from nabla_mlir.passes.dependence.iterations import Iteration, Window
from nabla_mlir.passes.dependence.values import Values
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.sparsity.rows import Rows
from nabla_mlir.sparsity.runs import Runs, Union, rows_of, runs_of


def after_iterations(
    outer: Values, op: ir.Operation, state: Sequence[Relation], numbers: Sequence[np.ndarray | None], iterations: int, exactly: bool
) -> list[Relation] | None:
    """The patterns of the carried values at the end of a counted loop, from their patterns after some iterations.

    Args:
      outer: the analysis that has reached the loop.
      op: the loop.
      state: the current patterns of the carried values.
      numbers: the current numbers of the carried values, if they are known.
      iterations: the number of iterations that are already analysed.
      exactly: return None instead of patterns with too many entries.

    Returns:
      The patterns. None if the iterations are not counted, differ in more than indices, or move too many elements.
    """
    counter = find_counter(op)
    if counter is None or counter.trips <= iterations:
        return None
    active = {i for i, r in enumerate(state) if not r.is_empty}
    while not (iteration := Iteration(outer, op, state, numbers, counter.trips - iterations, active)).active <= active:
        active |= iteration.active
    try:
        if iteration.steps > thresholds.PATTERN_MOVES or (exactly and not iteration.is_steady()):
            return None
        return _Trajectory(iteration).end()
    except PatternError:
        return None


class _Trajectory:
    """All iterations of a loop, run one after the other on sets of columns instead of numbers.

    Each element of an array, and each register of an iteration, holds the set of columns on which it depends (`Runs`).
    """

    def __init__(self, iteration: Iteration):
        """Sets the registers and the arrays to their sets before the first iteration."""
        self._iteration, self._union, self._base = iteration, Union(), iteration.outer.columns
        self._order, self._ranks = self._columns()
        self._registers: list[Runs] = [()] * (iteration.columns - self._base)
        for i, base in iteration.bases.items():
            self._put(base, self._sets(iteration.state[i]))
        arrays = {w.array for w in (*iteration.reads, *iteration.writes)}
        self._arrays = {a: self._sets(iteration.state[a] if isinstance(a, int) else iteration.outer.of(a)) for a in arrays}

    def end(self) -> list[Relation]:
        """The patterns of the carried values after the last iteration."""
        windows = [w for part in self._iteration.windows.values() for w in part]
        moves = [self._read(w) if w.update is None else self._write(w) for w in windows]
        moves.append(self._carry())
        for number in range(self._iteration.count):
            for move in moves:
                move(number)
        return [self._relation(i, r) for i, r in enumerate(self._iteration.state)]

    def _relation(self, index: int, before: Relation) -> Relation:
        """The pattern of the carried value `index` after the last iteration; `before` if no iteration changes it."""
        size = math.prod(before.shape)
        base = self._iteration.bases.get(index)
        sets = self._arrays.get(index) if base is None else self._registers[base - self._base : base - self._base + size]
        if sets is None:
            return before
        return Relation.of_rows(before.shape, rows_of(sets, self._base, self._order))

    # ---------------------------------------------------------------- moves

    def _read(self, window: Window) -> Callable[[int], None]:
        """A function of the iteration that copies the sets of a window from its array to the registers."""
        array, firsts, offsets = self._arrays[window.array], window.positions.firsts.tolist(), window.positions.offsets.tolist()
        base = window.base

        def move(number: int) -> None:
            """Copies the sets of the window of iteration `number`."""
            first = firsts[number]
            self._put(base, [array[first + k] for k in offsets])

        return move

    def _write(self, window: Window) -> Callable[[int], None]:
        """A function of the iteration that computes the sets of a written value and stores them in the window of its array."""
        array, firsts, offsets = self._arrays[window.array], window.positions.firsts.tolist(), window.positions.offsets.tolist()
        values, union, is_joint = self._sets_of(self._iteration.update(window)), self._union, window.is_joint

        def move(number: int) -> None:
            """Stores the sets of the window of iteration `number`."""
            first = firsts[number]
            for k, runs in zip(offsets, values(), strict=True):
                array[first + k] = union([array[first + k], runs]) if is_joint else runs

        return move

    def _carry(self) -> Callable[[int], None]:
        """A function of the iteration that moves the sets of all carried values to the next iteration."""
        values = {base: self._sets_of(self._iteration.made(self._iteration.ends[i])) for i, base in self._iteration.bases.items()}

        def move(_: int) -> None:
            """Computes the new sets of all carried values, then stores them."""
            for base, sets in [(base, sets()) for base, sets in values.items()]:
                self._put(base, sets)

        return move

    def _put(self, base: int, sets: list[Runs]) -> None:
        """Stores sets of columns in the registers from number `base` on."""
        self._registers[base - self._base : base - self._base + len(sets)] = sets

    def _sets_of(self, relation: Relation) -> Callable[[], list[Runs]]:
        """A function that computes the column set of each element of an array, whose pattern `relation` has registers and columns.

        Equal rows of the pattern are computed once.
        """
        rows = relation.rows
        lines = [tuple(line) for line in np.split(rows.indices, rows.offsets[1:-1])] if rows.count else []
        distinct = {line: k for k, line in enumerate(dict.fromkeys(lines))}
        line_numbers = [distinct[line] for line in lines]
        # An entry of a row below `_base` is a column; one from `_base` on is a register, whose set is read in each iteration.
        sources = [[int(k) - self._base for k in line if k >= self._base] for line in distinct]
        fixed = [self._runs([int(k) for k in line if k < self._base]) for line in distinct]
        registers, union = self._registers, self._union

        def sets() -> list[Runs]:
            """The set of each element: the union of its registers' sets and of its columns."""
            new = [union([registers[k] for k in source] + runs) for source, runs in zip(sources, fixed, strict=True)]
            return [new[k] for k in line_numbers]

        return sets

    # ---------------------------------------------------------------- columns

    def _runs(self, columns: list[int]) -> list[Runs]:
        """The set of the given columns as runs of ranks, in a list of one set; an empty list for no columns."""
        if not columns:
            return []
        return runs_of(Rows(np.array([0, len(columns)]), np.array(columns), self._base), self._ranks)

    def _sets(self, relation: Relation) -> list[Runs]:
        """The set of columns of each element of a pattern, as runs of ranks."""
        return runs_of(relation.rows, self._ranks)

    def _columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The order in which the sets list the columns, and the rank of each column in it.

        Columns that the iterations read one after the other are neighbours, so that their sets are few runs.
        """
        lists = []
        for window in self._iteration.reads:
            array, iteration = window.array, self._iteration
            rows = (iteration.state[array] if isinstance(array, int) else iteration.outer.of(array)).rows
            for offset in window.positions.offsets:
                part = rows.take(window.positions.firsts + offset)
                lists.append(part.indices)
        positions, first = np.unique(np.concatenate([*lists, np.arange(self._base)]), return_index=True)
        order = positions[np.argsort(first)]
        ranks = np.empty(self._base, np.int64)
        ranks[order] = np.arange(self._base)
        return order, ranks
