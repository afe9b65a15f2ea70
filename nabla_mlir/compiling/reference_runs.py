"""The interpreter's results of the entry points of a module, on drawn arguments or examples, with and without perturbation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DeployError, RuleMissingError
from nabla_mlir.compiling.comparison import Arrays
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter import Budget, Instead, OutOfStepsError, functions
from nabla_mlir.interpreter.branches import Branches
from nabla_mlir.interpreter.choices import routine_of
from nabla_mlir.interpreter.rounding import Perturbation
from nabla_mlir.runtime.drawn import DRAWS, FORM, drawn

Examples = Mapping[str, Arrays]  # the arguments of entry points, by name
_ENDLESS = 1e15  # steps; small numbers can still be subtracted from it
_PLAIN = -1  # the number of the unperturbed run
TOO_LONG = "the interpreter would take too long"
# The errors of a call for which the interpreter has no results.
ABSENT = (OutOfStepsError, MemoryError, RuleMissingError, DeployError)
# A perturbed run with this many times the steps of the plain run, plus this many more, has a loop that rounding
# decides.
_LONGER, _MORE = 10.0, 1000.0


def entries_of(module: ir.Module) -> dict[str, ir.Operation]:
    """The public functions by name; those that write state come first, because others read it."""
    found = {name: op for name, op in functions_of(module.operation).items() if not is_private(op)}
    return dict(sorted(found.items(), key=lambda item: not _writes_state(item[1])))


def _writes_state(function: ir.Operation) -> bool:
    """True if the function stores to a global variable of its module."""
    return any(op.name == "util.global.store" for op in nested(function))


def reason_of(error: Exception) -> str:
    """The reason why the interpreter has no results, from the error of a call (one of `ABSENT`)."""
    if isinstance(error, OutOfStepsError):
        return TOO_LONG
    if isinstance(error, MemoryError):
        return "there is no memory for the interpreter's values"
    return str(getattr(error, "message", error))


def factorises(module: ir.Module) -> bool:
    """True if a module contains a factorisation. Its square arguments are drawn positive definite, so that factors exist."""
    return any(map(routine_of, nested(module.operation)))


class ReferenceRuns:
    """The interpreter's calls of entry points on one set of arguments. Entry points that share a state are called in order.

    Args:
      module: a lowered module.
      examples: arguments by entry point; others are drawn.
      draw: one of `DRAWS`.
      budget: the steps that the plain calls may take; None sets no limit.
      noise: the perturbation of perturbed runs; None makes one.
      instead: the evaluation of operations that are not interpreted.
    """

    def __init__(
        self,
        module: ir.Module,
        examples: Examples | None = None,
        draw: str = DRAWS[0],
        budget: Budget | None = None,
        noise: Perturbation | None = None,
        instead: Instead | None = None,
    ):
        """Compiles the functions of the module for the interpreter, and sets the first arguments; see the class."""
        self.module = module
        self.entries, self.is_definite = entries_of(module), factorises(module)
        self._noise, self.branches = noise or Perturbation(), Branches()
        self._functions = functions(module.operation, self._watch, instead)  # compiled once for all runs
        self._start = dict(self._functions.state)
        self.set_arguments(examples, draw, budget)

    def set_arguments(self, examples: Examples | None = None, draw: str = DRAWS[0], budget: Budget | None = None) -> None:
        """Sets the arguments of the next runs, and resets the state of the module to its first value.

        Args:
          examples: arguments by entry point; others are drawn.
          draw: the name of the random arguments, one of `DRAWS` and `RARE_DRAWS`.
          budget: the steps that the plain calls may take; None sets no limit.
        """
        self.examples, self.draw = examples or {}, draw
        self._given = dict(self.examples)  # the arguments by entry point, drawn when they are first needed
        self.budget = budget or Budget(_ENDLESS)
        self._first = self.budget.steps
        self._states: dict[int, dict[str, Any]] = {}  # of each run
        self._inputs: dict[str, list[np.ndarray]] = {}  # of entry points that have been called
        self._results: dict[tuple[str, int], list[np.ndarray]] = {}

    def _watch(self, op: ir.Operation, operands: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Perturbs the results of an operation that has just run, in perturbed runs; records selected branches in plain ones."""
        (self._noise if self._noise.is_on else self.branches)(op, operands, results)

    @property
    def has_state(self) -> bool:
        """True if a call may read what another one wrote."""
        return bool(self._start)

    @property
    def spent(self) -> float:
        """The steps of the interpreter in the plain calls on these arguments."""
        return self._first - self.budget.steps

    @property
    def size(self) -> int:
        """The number of elements of the arguments of all entry points."""
        return sum(math.prod(shape) for name in self.entries for shape, _ in self._types(name))

    def _types(self, name: str) -> list[tuple[tuple[int, ...], np.dtype]]:
        """The shape and dtype of each argument of an entry point."""
        return [shape_and_dtype(argument.type) for argument in self.entries[name].regions[0].blocks[0].arguments]

    def draw_of(self, name: str) -> str:
        """The name of the draw of an entry point's arguments; "" if they are those of an example."""
        return "" if name in self.examples else self.draw

    def inputs(self, name: str) -> list[np.ndarray]:
        """The arguments of an entry point in new memory, because a function may write to its arguments."""
        if name not in self._given:
            self._given[name] = drawn(self._types(name), name, self.draw, self.is_definite, FORM)
        return [np.array(x) for x in self._given[name]]

    def call(self, name: str) -> list[np.ndarray]:
        """The results of an entry point in the interpreter, on its current arguments and without perturbation.

        Raises:
          OutOfStepsError: the budget is used up.
        """
        if self.budget.steps < 0:  # large arguments are not even drawn
            raise OutOfStepsError
        self._inputs[name] = self.inputs(name)
        try:
            return self._call(name, _PLAIN, self._inputs[name], self.budget)
        except BaseException:
            del self._inputs[name]
            raise

    def perturbed(self, name: str, k: int) -> list[np.ndarray]:
        """The results of an entry point in perturbed run number `k`; results of a run are computed once.

        The entry points that were called before it run first, because it may read state that they write.

        Raises:
          OutOfStepsError: rounding decides the number of iterations of a loop.
        """
        budget = Budget(_LONGER * self.spent + _MORE)
        for entry, inputs in self._inputs.items():
            if (entry, k) not in self._results:
                self._noise.seed([k, *entry.encode()])
                try:
                    self._results[entry, k] = self._call(entry, k, [*map(self._noise.perturbed, inputs)], budget)
                finally:
                    self._noise.seed(None)
        return self._results[name, k]

    def _call(self, name: str, run: int, inputs: list[np.ndarray], budget: Budget) -> list[np.ndarray]:
        """The results of an entry point, called with the state that its run has reached, without the version of the state.

        `run` is the number of a perturbed run, or `_PLAIN`; the state after the call is stored for the next call of this run.
        """
        state = self._functions.state
        state.clear()
        state.update(self._states.get(run, self._start))
        results = self._functions[name](inputs, budget)
        self._states[run] = dict(state)
        return results[:-1] if self._functions.has_version(name) else results
