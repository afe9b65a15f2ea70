"""A plan of values to drop and recompute, so that a program needs no more live memory than a limit."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nabla_mlir.base import thresholds


@dataclass(frozen=True)
class Step:
    """A step of a program: the values that it reads and makes, its work (at least 1), and True if it may be repeated."""

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    work: int = 1
    repeats: bool = True


@dataclass(frozen=True)
class Plan:
    """The steps that are repeated before each step, in order; the peak of live bytes, and the values that are live then."""

    recomputed: dict[int, list[int]]
    peak: int
    held: frozenset[int]


def rematerialized(steps: Sequence[Step], sizes: Sequence[int], results: Iterable[int], limit: int) -> Plan:
    """A plan that needs at most `limit` live bytes, as far as possible.

    Steps run in their order. If a new value has no room, others are dropped: the one with the least work of
    recomputation, divided by its bytes and by the number of steps until its next reader. The heuristic is that of
    dynamic tensor rematerialization (Kirisame et al., ICLR 2021), which uses the last reader, because it does not know
    the next one.

    Args:
      steps: the steps of the program.
      sizes: the bytes of each value. Values that no step makes are always live, and do not count.
      results: the values that must be live at the end.
      limit: the limit in bytes.

    Example:
      A chain of four steps, whose values are read again on the way back. With room for four values the first one is
      recomputed.

      >>> forward = [Step((i,), (i + 1,)) for i in range(4)]
      >>> back = [Step((4, 3), (5,)), Step((5, 2), (6,)), Step((6, 1), (7,))]
      >>> rematerialized(forward + back, [1] * 8, [7], limit=9).peak
      5
      >>> plan = rematerialized(forward + back, [1] * 8, [7], limit=4)
      >>> plan.peak, plan.recomputed
      (4, {6: [0]})
    """
    return _Run(steps, sizes, frozenset(results), limit).plan()


@dataclass
class _Run:
    """A simulated run of a program. Steps and values are given by their numbers; `held` has the live values."""

    steps: Sequence[Step]
    sizes: Sequence[int]
    results: frozenset[int]
    limit: float
    held: set[int] = field(default_factory=set)
    bytes: int = 0
    peak: int = 0
    at_peak: frozenset[int] = frozenset()
    makers: dict[int, int] = field(default_factory=dict)  # from each value to the step that makes it
    readers: dict[int, list[int]] = field(default_factory=dict)  # from each value to the steps that read it, in order

    def plan(self) -> Plan:
        """Simulates the steps in order; values that the limit drops are recomputed before their next reader."""
        for number, step in enumerate(self.steps):
            for value in step.makes:
                self.makers[value], self.readers[value] = number, []
            for value in dict.fromkeys(step.reads):
                if value in self.readers:
                    self.readers[value].append(number)
        recomputed: dict[int, list[int]] = {}
        count = 0
        for now, step in enumerate(self.steps):
            missing = self._missing(step.reads)
            # While a step is repeated, the values that later steps of `missing` read stay live.
            for i, number in enumerate(missing):
                self._run_step(number, now, {*step.reads, *(v for later in missing[i:] for v in self.steps[later].reads)})
            if missing:
                recomputed[now] = missing
                count += len(missing)
            self._run_step(now, now, set(step.reads))
            for value in (v for n in (*missing, now) for v in (*self.steps[n].reads, *self.steps[n].makes)):
                if self._next_reader(value, now) == math.inf:
                    self._forget(value)
            if count > thresholds.REMATERIALIZED * len(self.steps):
                self.limit = math.inf  # too much work is useless: from here on values stay live
        return Plan(recomputed, self.peak, self.at_peak)

    def _missing(self, values: Iterable[int]) -> list[int]:
        """The steps to repeat, in order, before all of `values` are live: those that make them, and their operands, if not live."""
        found: set[int] = set()
        work = list(values)
        while work:
            value = work.pop()
            maker = self.makers.get(value)
            if maker is not None and maker not in found and value not in self.held:
                found.add(maker)
                work += self.steps[maker].reads
        return sorted(found)

    def _run_step(self, number: int, now: int, operands: set[int]) -> None:
        """Simulates a step: drops values until its results fit, or no value may be dropped; then makes the results live.

        Args:
          number: the number of the step.
          now: the step of the program that is due: `number` itself, or a later step, for which step `number` is repeated.
          operands: the values that must not be dropped.
        """
        values = [value for value in self.steps[number].makes if value not in self.held]
        size = sum(self.sizes[v] for v in values)
        while self.bytes + size > self.limit and (dropped := self._cheapest(now, operands)) is not None:
            self._forget(dropped)
            reader = self._next_reader(dropped, now)
            # The value is recomputed before step `reader`. Its operands count as read there: values without readers are dropped.
            for value in {v for n in self._missing([dropped]) for v in self.steps[n].reads if v in self.held}:
                bisect.insort(self.readers[value], int(reader))
        self.held |= set(values)
        self.bytes += size
        if self.bytes > self.peak:
            self.peak, self.at_peak = self.bytes, frozenset(self.held)

    def _cheapest(self, now: int, operands: set[int]) -> int | None:
        """The value to drop before step `now`; None if no value may be dropped. Values in `operands` stay.

        It has the least work of recomputation, divided by its bytes and by the number of steps until its next reader.
        """
        best, least = None, math.inf
        for cost, value in sorted(self._forgettable(now, operands)):
            if cost >= least:
                break  # the cost of its own step is a lower bound
            steps = [self.steps[n] for n in self._missing(self.steps[self.makers[value]].reads)]
            own_work = self.steps[self.makers[value]].work
            cost *= sum((step.work for step in steps), own_work) / own_work
            if cost < least and all(step.repeats for step in steps):
                best, least = value, cost
        return best

    def _forgettable(self, now: int, operands: set[int]) -> Iterator[tuple[float, int]]:
        """The values that may be dropped before step `now`, each after its cost if all operands for its recomputation are live.

        Values in `operands` are left out.
        """
        for value in self.held:
            step, size = self.steps[self.makers[value]], self.sizes[value]
            reader = self._next_reader(value, now)
            if value in operands or value in self.results or not step.repeats or size * thresholds.FORGOTTEN < self.limit:
                continue
            if reader < math.inf:
                yield step.work / (size * (reader - now)), value

    def _next_reader(self, value: int, now: int) -> float:
        """The number of the next step after `now` that reads a value; infinity if there is none. Results are read at the end."""
        if value in self.results:
            return len(self.steps)
        readers = self.readers.get(value, [])
        position = bisect.bisect_right(readers, now)
        return readers[position] if position < len(readers) else math.inf

    def _forget(self, value: int) -> None:
        """Drops a value if it is live."""
        if value in self.held:
            self.held.remove(value)
            self.bytes -= self.sizes[value]
