"""What a call of the interpreter consists of: values by number, blocks that have been read, and a budget of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Arrays = list[np.ndarray]


class OutOfStepsError(Exception):
    """A call has run more operations than it may."""


@dataclass(frozen=True)
class Cost:
    """The cost of the operations of a block, in the time of one operation on small arrays.

    Args:
      steps: of one call.
      perturbed: of one call whose results are perturbed.
    """

    steps: float
    perturbed: float


class Budget:
    """The steps that calls may still take. Every block is charged before it runs, in a loop for each iteration.

    Args:
      steps: in the time of one operation on small arrays.
      is_for_checks: a call is charged for a perturbed one too.
    """

    __slots__ = ("is_for_checks", "reserve", "steps")

    def __init__(self, steps: float, is_for_checks: bool = False):
        self.steps: float = steps
        self.is_for_checks = is_for_checks
        self.reserve = 0.0  # the steps of perturbed runs that calls were charged for

    def spend(self, cost: Cost, times: int = 1) -> None:
        """Raises OutOfStepsError if there are not so many steps left."""
        self.steps -= times * self._steps_of(cost)
        if self.is_for_checks:
            self.reserve += times * cost.perturbed
        if self.steps < 0:
            raise OutOfStepsError

    def foresee(self, cost: Cost, times: int) -> None:
        """Raises OutOfStepsError if there are not so many steps left, which will be spent one after the other."""
        if times * self._steps_of(cost) > self.steps:
            raise OutOfStepsError

    def settle(self, runs: int) -> None:
        """Charges the calls since the last settlement for so many perturbed runs, instead of the one that each was charged for."""
        self.steps += (1 - runs) * self.reserve
        self.reserve = 0.0

    def _steps_of(self, cost: Cost) -> float:
        return cost.steps + cost.perturbed if self.is_for_checks else cost.steps


class Frame(dict[int, np.ndarray]):
    """The values of a call, by number, and what it may spend; inside a map one for each entry, with its place."""

    __slots__ = ("budget", "place")
    budget: Budget | None
    place: dict[str, int]

    def __init__(self, budget: Budget | None, values: dict[int, np.ndarray] | None = None, place: dict[str, int] | None = None):
        super().__init__(values or {})
        self.budget, self.place = budget, place or {}


Step = Callable[[Frame], None]
Body = Callable[[Frame, Arrays], Arrays]  # of the values around a block, and its arguments


@dataclass(frozen=True)
class Collective:
    """An operation that reads every entry of an axis of the map around it."""

    operands: list[int]
    result: int
    axis: str
    evaluate: Callable[[list[np.ndarray], int], Arrays]  # of each entry's operand (none for an index), and their number

    def run(self, frames: Sequence[Frame]) -> None:
        """For each of the other axes' places, from the entries of this axis to what each of them gets."""
        groups: dict[tuple[tuple[str, int], ...], list[Frame]] = {}
        for frame in frames:
            others = tuple((name, i) for name, i in frame.place.items() if name != self.axis)
            groups.setdefault(others, []).append(frame)
        for group in groups.values():
            results = self.evaluate([frame[i] for frame in group for i in self.operands], len(group))
            for frame, result in zip(group, results, strict=True):
                frame[self.result] = result


class Block:
    """A block that has been read: a function of the values around it and its arguments."""

    arguments: list[int]
    steps: list[Step | Collective]
    results: list[int]
    cost: Cost

    def __init__(self, arguments: list[int], steps: list[Step | Collective], results: list[int], cost: Cost):
        self.arguments, self.steps, self.results, self.cost = arguments, steps, results, cost

    def __call__(self, frame: Frame, arguments: Arrays) -> Arrays:
        """Its results."""
        if frame.budget is not None:
            frame.budget.spend(self.cost)
        frame.update(zip(self.arguments, arguments, strict=True))
        for step in self.steps:
            step(frame)  # type: ignore[operator]  # collectives stand in maps alone
        return [frame[i] for i in self.results]

    def of_entries(self, frames: Sequence[Frame]) -> list[Arrays]:
        """The results for each entry of a map, whose frames have the arguments: all take each step before the next."""
        if frames and (budget := frames[0].budget) is not None:
            budget.spend(self.cost, len(frames))
        for step in self.steps:
            if isinstance(step, Collective):
                step.run(frames)
                continue
            for frame in frames:
                step(frame)
        return [[frame[i] for i in self.results] for frame in frames]
