"""Checks of one artifact: compares the results of its entry points on this machine with those of the interpreter."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError, DeployError
from nabla_mlir.compiling.comparison import Arrays, Outcome, compare
from nabla_mlir.compiling.estimates import compilation_of, estimate
from nabla_mlir.compiling.part_runs import PartDiffersError, PartRuns
from nabla_mlir.compiling.reference_runs import ABSENT, TOO_LONG, Examples, ReferenceRuns, entries_of, reason_of
from nabla_mlir.compiling.strategies import FASTEST, Strategy
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.interpreter import Budget, OutOfStepsError
from nabla_mlir.interpreter.rounding import Perturbation
from nabla_mlir.ops.callbacks import calls_python
from nabla_mlir.runtime import Executable, time_limit
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.drawn import DRAWS, RARE_DRAWS
from nabla_mlir.runtime.interrupts import Interrupts
from nabla_mlir.runtime.manifest import Check
from nabla_mlir.targets import TARGETS, Target

Checks = dict[str, Check]  # by entry point
CHECKED, DIFFERS, NOT_CHECKED = "checked", "differs", "not checked"
# The order of the draws: large numbers saturate networks, and only definite matrices have factors.
_DRAWS = (DRAWS[1], DRAWS[0], *DRAWS[2:])
_DRAWS_OF_FACTORS = DRAWS
# LAPACK defines no factors of a matrix with an infinite entry: which entries are numbers depends on the order of its steps.
_RARE_DRAWS_OF_FACTORS = tuple(draw for draw in RARE_DRAWS if draw not in ("infinities", "NaN"))
_RANDOM = "on random arguments, "
_REST = 0.5  # the part of what the first draw leaves that further draws may take: their calls of compiled code cost time, too
_UNDECIDED, _NO_NUMBERS = "rounding decides its values", "its results are not numbers on random arguments"
# A compiled loop is stopped after this many seconds plus this many times the interpreter's time.
_SECONDS, _TIMES = 10.0, 100.0


def reason_not_to(module: ir.Module, target: Target) -> str:
    """The reason why a module cannot be checked on this machine; "" if it can."""
    if any(map(calls_python, nested(module.operation))):
        return "it calls functions of Python"
    try:
        TARGETS[target.name].found()
        TARGETS[target.name].check_fit(target.to_json())
    except (DeployError, OSError) as error:
        return f"its target does not run here ({error})"
    return ""


def check_artifact(
    module: ir.Module, target: Target, vmfb: bytes, examples: Examples | None = None, strategy: str = "", is_bounded: bool = True
) -> Checks:
    """The check of each entry point of an artifact, by name: its results are compared with the interpreter's, on this machine.

    They are compared on several draws of arguments, as far as the time allows, and on rare ones if a branch took only one side.

    Args:
      module: the lowered module from which it was compiled.
      target: what it was compiled for.
      vmfb: the artifact.
      examples: arguments by entry point; others get random ones.
      strategy: the name of the strategy by which it was compiled.
      is_bounded: True skips entry points whose check would cost more than a part of the compilation.
    """
    comparison = _Comparison(ReferenceRuns(module), target, vmfb, strategy)
    allowance = allowance_of(module)
    is_definite = comparison.runs.is_definite
    first, *others = _DRAWS_OF_FACTORS if is_definite else _DRAWS
    rare = _RARE_DRAWS_OF_FACTORS if is_definite else RARE_DRAWS
    checks = comparison.checks(examples or {}, first, allowance if is_bounded else None)
    allowance.steps *= _REST
    branches = comparison.runs.branches
    for draw in (*((first, *others) if examples else others), *rare):
        is_wrong = any(check.status == DIFFERS for check in checks.values())
        if is_wrong or (draw in RARE_DRAWS and not branches.one_sided):
            break
        if all(check.status == NOT_CHECKED for check in checks.values()):
            if draw in RARE_DRAWS:
                break
            allowance = allowance_of(module)
        found = comparison.checks({}, draw, allowance)
        if all(check.detail == TOO_LONG for check in found.values()):
            break
        checks = {name: _join_checks(check, found[name]) for name, check in checks.items()}
    return {name: _with_branches(check, branches.one_sided) for name, check in checks.items()}


def check_in_parts(
    module: ir.Module, target: Target, vmfb: bytes, examples: Examples | None = None, strategy: Strategy = FASTEST
) -> Checks:
    """The check of each entry point of an artifact, by name, against an interpreter with compiled expensive operations.

    These products and loops are compiled separately, by the strategy of the artifact, and compared with the interpreter on slices.

    Args:
      module, target, vmfb, examples: as for `check_artifact`.
      strategy: the strategy by which the artifact was compiled.
    """
    noise = Perturbation()
    try:
        parts = PartRuns(module, target, noise, strategy)
    except CompileError as error:
        return {name: Check(NOT_CHECKED, f"its parts do not compile ({error.message})") for name in entries_of(module)}
    comparison = _Comparison(ReferenceRuns(module, noise=noise, instead=parts), target, vmfb, strategy.name)
    first, *others = _DRAWS_OF_FACTORS if comparison.runs.is_definite else _DRAWS
    checks = comparison.checks(examples or {}, first, None)
    spent = comparison.runs.spent
    for draw in (first, *others) if examples else others:
        is_long = spent > thresholds.CHECK_IN_PARTS and any(check.status == CHECKED for check in checks.values())
        if is_long or any(check.status == DIFFERS for check in checks.values()):
            break
        found = comparison.checks({}, draw, None)
        spent += comparison.runs.spent
        checks = {name: _join_checks(check, found[name]) for name, check in checks.items()}
    in_parts = {
        name: replace(check, detail=f"{check.detail}; {parts}") for name, check in checks.items() if check.status == CHECKED
    }
    one_sided = comparison.runs.branches.one_sided
    return {name: _with_branches(check, one_sided) for name, check in (checks | in_parts).items()}


def _with_branches(check: Check, one_sided: int) -> Check:
    """The check, whose text then also says how many selections and branches of the module took only one side."""
    if check.status != CHECKED or not one_sided:
        return check
    what = "1 selection or branch of the module" if one_sided == 1 else f"{one_sided} selections and branches of the module"
    return replace(check, detail=f"{check.detail}; one side only of {what}")


def _join_checks(first: Check, second: Check) -> Check:
    """One check from those of an entry point on two sets of arguments; a difference wins, and one without numbers is ignored."""
    if second.status == NOT_CHECKED:
        return first
    if first.status == NOT_CHECKED or second.status == DIFFERS:
        return second
    other = second.detail.removeprefix(_RANDOM) if _RANDOM in first.detail else second.detail
    return replace(first, detail=f"{first.detail}, {other}", ratio=max(first.ratio, second.ratio))


class _Comparison:
    """The calls of an artifact and of the interpreter, on one set of arguments after the other."""

    def __init__(self, runs: ReferenceRuns, target: Target, vmfb: bytes, strategy: str):
        """Loads the artifact (`vmfb`) for comparisons with these runs of the interpreter; `strategy` is the name for the checks."""
        self.runs = runs
        self.executable = Executable.load(vmfb, target.drivers[0])
        self._start, self._strategy = self.executable, strategy
        self._interrupts = Interrupts("the code is wrong.")
        self._is_bounded: dict[str, bool] = {}  # by entry point: True if its loops end by themselves

    def checks(self, examples: Examples, draw: str, budget: Budget | None) -> Checks:
        """The check of each entry point on one set of arguments, by name.

        Args:
          examples: arguments by entry point; others are drawn.
          draw: the name of the random arguments, one of `DRAWS` and `RARE_DRAWS`.
          budget: from which what the interpreter takes is subtracted; None sets no limit.
        """
        if budget is not None:
            budget.steps -= self.runs.size * thresholds.DRAWN_ELEMENT / (1000 * thresholds.STEP)
        self.runs.set_arguments(examples, draw, budget)
        if self.runs.has_state:
            self.executable = self._start.clone()
        found = {}
        for name in self.runs.entries:
            found[name] = self._check(name)
            self.runs.branches.finish_run(found[name].status == CHECKED)
        return found

    def _check(self, name: str) -> Check:
        """The check of one entry point on the current arguments."""
        runs = 0

        def rerun(k: int) -> Arrays:
            """The interpreter's results in perturbed run number k."""
            nonlocal runs
            runs = max(runs, k + 1)
            return self.runs.perturbed(name, k)

        try:
            start = time.perf_counter()
            wanted = self.runs.call(name)
            seconds = time.perf_counter() - start
        except ABSENT as error:
            return Check(NOT_CHECKED, reason_of(error))
        except PartDiffersError as error:
            return Check(DIFFERS, str(error), np.inf, self._strategy, draw=self.runs.draw_of(name))
        try:
            outcome = compare(self._compiled_results(name, seconds, rerun), wanted, rerun)
        except OutOfStepsError:
            return Check(NOT_CHECKED, "rounding decides how long it runs")
        except DeployError as error:
            status = DIFFERS if self._interrupts.is_given_up else NOT_CHECKED
            ratio = np.inf if status == DIFFERS else 0.0
            return Check(status, error.message, ratio, self._strategy, draw=self.runs.draw_of(name))
        finally:
            self.runs.budget.charge(runs)
        return self._check_of(name, outcome)

    def _compiled_results(self, name: str, seconds: float, rerun: Callable[[int], Arrays]) -> list[np.ndarray]:
        """The results of the compiled code of an entry point for the current arguments.

        Code that can run forever if it is wrong gets a time limit, which is a multiple of the interpreter's `seconds`. `rerun`
        makes a perturbed run of the interpreter: it raises OutOfStepsError if rounding decides how long the program runs.
        """
        arguments = [Array.from_numpy(x, self.executable.device) for x in self.runs.inputs(name)]
        function = self.executable.function(name)
        if name not in self._is_bounded:
            self._is_bounded[name] = estimate(self.runs.entries[name]).is_bounded
        if self._is_bounded[name]:
            return [np.asarray(y) for y in function(arguments)]
        rerun(0)  # ends, unless rounding makes the program run forever
        with time_limit(_SECONDS + _TIMES * seconds):
            return [np.asarray(y) for y in self._interrupts.call(name, function, arguments)]

    def _check_of(self, name: str, outcome: Outcome) -> Check:
        """The check of an entry point from the outcome of the comparison: "differs", "checked", or "not checked".

        It is not checked if rounding decides most elements, or if most are NaN on random arguments.
        """
        strategy, is_example = self._strategy, name in self.runs.examples
        if outcome.difference is not None:
            difference = outcome.difference
            return Check(DIFFERS, str(difference), outcome.ratio, strategy, difference.result, self.runs.draw_of(name))
        if outcome.share < 0.5:
            return Check(NOT_CHECKED, _UNDECIDED)
        if outcome.numbers < 0.5 and not is_example:
            return Check(NOT_CHECKED, _NO_NUMBERS)
        detail = "on the arguments of a call" if is_example else f"{_RANDOM}{self.runs.draw}"
        part = "" if outcome.share == 1 else f"; rounding decides {1 - outcome.share:.0%} of the elements"
        return Check(CHECKED, detail + part, outcome.ratio, strategy)


def allowance_of(module: ir.Module) -> Budget:
    """The budget of a check in steps of the interpreter, a part of the time to compile the module.

    It covers two runs, one of which is perturbed.
    """
    functions = functions_of(module.operation).values()
    reading = thresholds.READ_OPERATION * sum(1 for function in functions for _ in nested(function))
    share = thresholds.CHECKING_SHARE * compilation_of(functions) - reading
    return Budget(max(share, 0.0) / thresholds.STEP, is_for_checks=True)
