"""One iteration of a loop whose iterations differ only in the indices that they read and write, as input of trajectories.py."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.passes.dependence.values import Values
from nabla_mlir.passes.normalize.known_numbers import fold_of
from nabla_mlir.rules.loops import invariant_carries, step_of
from nabla_mlir.sparsity import structure
from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.table.regions import body_of, captures_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import is_elementwise

Array: TypeAlias = int | ir.Value  # the index of a carried value, or a value from outside


@dataclass
class Positions:
    """The flat indices of the elements of a window, in each iteration.

    Attributes:
      firsts: the index of the first element, for each iteration.
      offsets: the distances of all elements from the first.
    """

    firsts: np.ndarray
    offsets: np.ndarray


@dataclass
class Window:
    """A part of an array that an iteration reads or writes.

    Attributes:
      array: the array.
      positions: the indices of the elements, in each iteration.
      update: the written value; None for a read.
      is_joint: True if the old elements remain in the pattern, for example if the update is added to them.
      base: the first register of the read elements.
    """

    array: Array
    positions: Positions
    update: ir.Value | None
    is_joint: bool = False
    base: int = 0


class Iteration:
    """One iteration of a loop, for any number: its windows in order, and the patterns of the values between them.

    A register is a column after the columns of the analysis. There is one for each element that a window reads, and for
    each carried element outside the arrays of windows.

    Attributes:
      active: the indices of the carried values that depend on an input after the iteration.
      count: the number of iterations that follow.
      bases: the first register of each carried value.
      columns: the number of columns of the analysis and registers together.
    """

    def __init__(
        self,
        outer: Values,
        op: ir.Operation,
        state: Sequence[Relation],
        numbers: Sequence[np.ndarray | None],
        count: int,
        active: set[int],
    ):
        """Analyses one iteration.

        Args:
          outer: the analysis that has reached the loop.
          op: the loop.
          state: the patterns of the carried values before the iteration.
          numbers: their numbers, where they are known.
          count: the number of iterations that follow.
          active: the indices of the carried values that depend on an input before the iteration.
        """
        self.outer, self.state, self.count, self._now = outer, state, count, numbers
        self.arguments, self._body, self.ends = body_of(op.regions[1])
        self._captures = [v for v in captures_of(op) if v in outer.relations]
        self._order = {inner: k for k, inner in enumerate(self._body)}
        trajectories = [_numbers_over_iterations(op, i, number, count) for i, number in enumerate(numbers)]
        self._numbers = _Numbers(outer, self._order, dict(zip(self.arguments, trajectories, strict=True)), count)
        self._arrays: dict[ir.Value, Array] = {v: v for v in self._captures}
        self.buffers = {i for i in range(len(self.arguments)) if self._is_buffer(i)}
        self.windows = {inner: windows for inner in self._body if (windows := self._windows(inner))}
        self.bases: dict[int, int] = {}
        self.columns = outer.columns
        # Registers: first one for each carried element, then one for each element that a window reads.
        for i in sorted(active - self.buffers):
            self.bases[i], self.columns = self.columns, self.columns + math.prod(state[i].shape)
        for window in self.reads:
            window.base, self.columns = self.columns, self.columns + window.positions.offsets.size
        self._active = active
        self._values = self._analysis([None] * len(self.arguments))
        self.active = {i for i in range(len(self.ends)) if i not in self.buffers and not self.made(self.ends[i]).is_empty}
        self.active |= {w.array for w in self.writes if isinstance(w.array, int) and not self.update(w).is_empty}

    @property
    def reads(self) -> list[Window]:
        """The windows that are read."""
        return [w for windows in self.windows.values() for w in windows if w.update is None]

    @property
    def writes(self) -> list[Window]:
        """The windows that are written."""
        return [w for windows in self.windows.values() for w in windows if w.update is not None]

    @property
    def steps(self) -> int:
        """The number of elements that all iterations move."""
        sizes = sum(w.positions.offsets.size for w in (*self.reads, *self.writes))
        relations = [self.update(w) for w in self.writes] + [self.made(self.ends[i]) for i in self.bases]
        return self.count * (sizes + sum(r.entries for r in relations))

    def made(self, value: ir.Value) -> Relation:
        """The pattern of a value that the iteration computes: its registers and columns."""
        return self._values.of(value)

    def update(self, window: Window) -> Relation:
        """The pattern of the value that is written to a window."""
        assert window.update is not None
        return self.made(window.update)

    def is_steady(self) -> bool:
        """True if the next iterations differ from this one only in the indices of their windows.

        This holds if the patterns with the known numbers of this iteration equal those without numbers.
        """
        next_one = self._analysis(self._now)
        values = [*(w.update for w in self.writes if w.update is not None), *(self.ends[i] for i in self.bases)]
        return all(self.made(v).equals(next_one.of(v)) for v in values)

    def _analysis(self, numbers: Sequence[np.ndarray | None]) -> Values:
        """The patterns of the values of one iteration, for the known numbers of the carried values (None for unknown ones)."""
        inner = self.outer.inside(self.columns)
        inner.relations = {v: self.outer.of(v).among(self.columns) for v in self._captures}
        inner.bind(self.arguments, numbers)
        for i, base in self.bases.items():
            inner.relations[self.arguments[i]] = Relation.identity(self.state[i].shape, self.columns, base)
        for op in self._body:
            windows = self.windows.get(op)
            if windows is None:
                inner.visit(op)
            elif windows[0].update is None and (not isinstance(windows[0].array, int) or windows[0].array in self._active):
                shape = shape_and_dtype(op.results[0].type)[0]
                inner.relations[op.results[0]] = Relation.identity(shape, self.columns, windows[0].base)
        return inner

    # ---------------------------------------------------------------- windows

    def _is_buffer(self, index: int) -> bool:
        """True if iterations access the carried array `index` by windows only, and each version is read before the next is written.

        A carried array that is a buffer needs no registers, and all its versions share one array.
        """
        value = self.arguments[index]
        if not is_differentiable(shape_and_dtype(value.type)[1]):
            return False
        versions = [value]
        while True:
            users = [(use.owner.operation, use.operand_number) for use in value.uses]
            inside = [(op, k) for op, k in users if op in self._order]
            writers = [op for op, _ in inside if not self._is_read(op)]
            if any(k != self._operand(op) for op, k in inside):
                return False
            if not writers:
                break
            if len(writers) > 1 or len(inside) < len(users) or any(self._order[op] > self._order[writers[0]] for op, _ in inside):
                return False
            value = writers[0].results[0]
            versions.append(value)
        # The last version must be the next value of this carry, and nothing else may return it.
        if self.ends[index] != value or len(users) > len(inside) + 1:
            return False
        self._arrays.update(dict.fromkeys(versions, index))
        return True

    def _is_read(self, op: ir.Operation) -> bool:
        """True if the operation reads a window (`dynamic_slice`)."""
        return _rule(op) is structure.dynamic_slice

    def _operand(self, op: ir.Operation) -> int | None:
        """The index of the operand whose windows the operation reads or writes; None if their indices are not known."""
        if _rule(op) in _WINDOWS:
            return None if self._positions(op) is None else 0
        k = next((k for k in (0, 1) if len(op.operands) == 2 and self._writers_in_sum(op.operands[k])), None)
        return None if k is None or not _is_joint(op) else 1 - k  # the other operand: operand k has the updates

    def _writers_in_sum(self, value: ir.Value) -> list[ir.Operation]:
        """The operations that write the windows of a sum such as `update_slice(0, a, i) + update_slice(0, b, j)`; else none.

        Such a sum is constant outside the windows.
        """
        op = made_by(value)
        if op is None or op not in self._order or len(list(value.uses)) > 1:
            return []
        if _rule(op) is structure.dynamic_update_slice:
            return [op] if self._positions(op) is not None and self._is_constant(op.operands[0]) else []
        parts = [self._writers_in_sum(v) for v in op.operands] if _is_joint(op) else [[]]
        return [part for each in parts for part in each] if all(parts) else []

    def _is_constant(self, value: ir.Value) -> bool:
        """True if a value depends neither on an input of the analysis nor on a carried value."""
        op = made_by(value)
        if op is None or op not in self._order:
            return value not in self.arguments and value not in self.outer.relations
        return all(self._is_constant(v) for v in op.operands)

    def _windows(self, op: ir.Operation) -> list[Window]:
        """The windows of arrays that an operation reads or writes."""
        k = self._operand(op) if len(op.operands) else None
        array = None if k is None else self._arrays.get(op.operands[k])
        if k is None or array is None or (isinstance(array, ir.Value) and not self._is_read(op)):
            return []
        writers = [op] if _rule(op) in _WINDOWS else self._writers_in_sum(op.operands[1 - k])
        positions = [(writer, self._positions(writer)) for writer in writers]
        return [Window(array, elements, _update_of(writer), writer != op) for writer, elements in positions if elements is not None]

    @functools.cache  # noqa: B019  # the object lives as long as its analysis
    def _positions(self, op: ir.Operation) -> Positions | None:
        """The elements of the window of an operation in each iteration; None if the start indices are not known."""
        update = _update_of(op)
        sizes = shape_and_dtype(op.results[0].type if update is None else update.type)[0]
        shape = shape_and_dtype(op.operands[0].type)[0]
        starts = [self._numbers.of(v) for v in list(op.operands)[1 if update is None else 2 :]]
        firsts, offsets, stride = np.zeros(self.count, np.int64), np.zeros((), np.int64), 1
        # Flat index of element (k_0, k_1, ...) of the window: the sum of stride * (start + k) over all axes.
        for start, size, n in reversed(list(zip(starts, sizes, shape, strict=True))):
            if start is None and size != n:
                return None
            if start is not None:
                firsts += stride * np.clip(start.astype(np.int64), 0, n - size)
            offsets = stride * np.arange(size).reshape(-1, *[1] * offsets.ndim) + offsets
            stride *= n
        return Positions(firsts, offsets.reshape(-1))


_WINDOWS = (structure.dynamic_slice, structure.dynamic_update_slice)


def _rule(op: ir.Operation) -> Any:
    """The pattern rule of an operation, which identifies reads and writes of windows; None without a rule."""
    record = REGISTRY.get(op.name)
    return None if record is None else record.pattern


def _is_joint(op: ir.Operation) -> bool:
    """True if each element of the result, and of its derivative, depends on the elements at the same index of both operands."""
    record = REGISTRY.get(op.name)
    return record is not None and record.elementwise and record.partials is not None and len(op.operands) == 2


def _update_of(op: ir.Operation) -> ir.Value | None:
    """The value that an operation writes to a window; None for a read."""
    return op.operands[1] if _rule(op) is structure.dynamic_update_slice else None


def _numbers_over_iterations(op: ir.Operation, index: int, number: np.ndarray | None, count: int) -> np.ndarray | None:
    """The numbers of the carried integer `index` in this and the following iterations, one for each iteration.

    The result is None if the value changes otherwise than by a fixed step.

    Args:
      op: the loop.
      index: the index of the carried value.
      number: its number in this iteration; None if it is not known.
      count: the number of iterations.
    """
    step = 0 if index in invariant_carries(op) else step_of(op, index)
    if step is None or number is None or number.shape or number.dtype.kind not in "iu":
        return None
    return (int(number) + step * np.arange(count)).astype(number.dtype)


class _Numbers:
    """The numbers of integers in the body of a loop, in all iterations at once.

    They are known if the counters of the loop and constants determine them.
    """

    def __init__(self, outer: Values, body: Mapping[ir.Operation, int], numbers: Mapping[ir.Value, np.ndarray | None], count: int):
        self._outer, self._body, self._count = outer, body, count
        self._numbers = dict(numbers)

    def of(self, value: ir.Value) -> np.ndarray | None:
        """The numbers of a value, with the iterations as first axis; None if they are not known."""
        if value not in self._numbers:
            self._numbers[value] = self._computed(value)
        return self._numbers[value]

    def _computed(self, value: ir.Value) -> np.ndarray | None:
        """The numbers of a value, by folding the operation that computes it for all iterations; None if that is not possible."""
        op = made_by(value)
        if op is None or op not in self._body or not len(op.operands):
            number = self._outer.number(value)
            return None if number is None else np.broadcast_to(number, (self._count, *number.shape))
        fold, (shape, _) = fold_of(op), shape_and_dtype(value.type)
        xs = [self.of(v) for v in op.operands]
        if fold is None or any(x is None for x in xs):
            return None
        if is_elementwise(op) and not shape and all(x is not None and x.ndim == 1 for x in xs):
            return np.broadcast_to(fold(op, *xs), (self._count,))
        if self._count * math.prod(shape) > thresholds.PATTERN_MOVES:
            return None
        return np.stack([np.asarray(fold(op, *parts)) for parts in zip(*xs, strict=True)])
