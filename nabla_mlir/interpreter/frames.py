"""The parts of a call of the interpreter: *frames* with the values of a call by number, blocks that have been read, and a budget of
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Arrays = list[np.ndarray]


class OutOfStepsError(Exception):
    """A call has run more operations than its budget allows."""


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
    """The number of steps that calls may still take. Every block is charged before it runs; in a loop once per iteration.

    Args:
      steps: in units of the time of one operation on small arrays.
      is_for_checks: also charge the cost of a perturbed call.

    If `is_plain` is set, perturbed calls are charged only when they are made.
    """

    __slots__ = ("is_for_checks", "is_plain", "reserve", "steps")

    def __init__(self, steps: float, is_for_checks: bool = False):
        self.steps: float = steps
        self.is_for_checks, self.is_plain = is_for_checks, False
        self.reserve = 0.0  # the steps of one perturbed run of the calls since the last charge

    def spend(self, cost: Cost, times: int = 1) -> None:
        """Subtracts the cost of some blocks; raises OutOfStepsError if no steps are left."""
        self.steps -= times * self._steps_of(cost)
        if self.is_for_checks:
            self.reserve += times * cost.perturbed
        if self.steps < 0:
            raise OutOfStepsError

    def foresee(self, cost: Cost, times: int) -> None:
        """Raises OutOfStepsError if the budget does not suffice for `times` runs; charges nothing.

        `cost` is the cost of one run.
        """
        if times * self._steps_of(cost) > self.steps:
            raise OutOfStepsError

    def charge(self, runs: int) -> None:
        """Charges the calls since the last charge for this number of perturbed runs; unless `is_plain`, one was charged before."""
        self.steps += ((0 if self.is_plain else 1) - runs) * self.reserve
        if runs or not self.is_plain:  # a later perturbed run repeats the calls that had none
            self.reserve = 0.0

    def _steps_of(self, cost: Cost) -> float:
        return cost.steps + cost.perturbed if self.is_for_checks and not self.is_plain else cost.steps


class Frame(dict[int, np.ndarray]):
    """The values of a call by their numbers, and the budget; each entry of a map has a separate frame with its index."""

    __slots__ = ("budget", "position")
    budget: Budget | None
    position: dict[str, int]

    def __init__(self, budget: Budget | None, values: dict[int, np.ndarray] | None = None, position: dict[str, int] | None = None):
        super().__init__(values or {})
        self.budget, self.position = budget, position or {}


Step = Callable[[Frame], None]
Body = Callable[[Frame, Arrays], Arrays]  # a function of outer values and the arguments of the block


@dataclass(frozen=True)
class Collective:
    """An operation that reads all entries along one axis of the surrounding map."""

    operands: list[int]
    result: int
    axis: str
    evaluate: Callable[[list[np.ndarray], int], Arrays]  # from the operands of all entries and their number

    def run(self, frames: Sequence[Frame]) -> None:
        """Stores the results of the collective in the frames of all entries.

        The frames are grouped by their indices on the other axes of the map, and each group is computed together.
        """
        groups: dict[tuple[tuple[str, int], ...], list[Frame]] = {}
        for frame in frames:
            others = tuple((name, i) for name, i in frame.position.items() if name != self.axis)
            groups.setdefault(others, []).append(frame)
        for group in groups.values():
            results = self.evaluate([frame[i] for frame in group for i in self.operands], len(group))
            for frame, result in zip(group, results, strict=True):
                frame[self.result] = result


class Block:
    """A block that has been read: a function of outer values and its arguments."""

    arguments: list[int]
    steps: list[Step | Collective]
    results: list[int]
    cost: Cost

    def __init__(self, arguments: list[int], steps: list[Step | Collective], results: list[int], cost: Cost):
        self.arguments, self.steps, self.results, self.cost = arguments, steps, results, cost

    def __call__(self, frame: Frame, arguments: Arrays) -> Arrays:
        """The results of the block for `arguments`; `frame` holds the values of the enclosing blocks, and gets those of this
        block.
        """
        if frame.budget is not None:
            frame.budget.spend(self.cost)
        frame.update(zip(self.arguments, arguments, strict=True))
        for step in self.steps:
            step(frame)  # type: ignore[operator]  # collectives stand in maps alone
        return [frame[i] for i in self.results]

    def of_entries(self, frames: Sequence[Frame]) -> list[Arrays]:
        """The results of the block for each entry of a map, whose values `frames` hold.

        All entries run one step before they run the next one, so that a collective reads the values of all.
        """
        if frames and (budget := frames[0].budget) is not None:
            budget.spend(self.cost, len(frames))
        for step in self.steps:
            if isinstance(step, Collective):
                step.run(frames)
                continue
            for frame in frames:
                step(frame)
        return [[frame[i] for i in self.results] for frame in frames]
