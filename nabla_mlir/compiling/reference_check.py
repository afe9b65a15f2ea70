"""Checks of one artifact: compares the results of its entry points on this machine with those of the interpreter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError, DeployError
from nabla_mlir.compiling.comparison import CLOSE, Arrays, Outcome, apparent_error, compare, number_share
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
# The order of the draws: only large numbers show most overflows. Numbers around 1 saturate networks, but only definite matrices
# have factors.
_DRAWS = (DRAWS[1], DRAWS[3], DRAWS[2], DRAWS[0])
_DRAWS_OF_FACTORS = DRAWS
_IN_TEXTS = ("", DRAWS[1], DRAWS[0], *DRAWS[2:], *RARE_DRAWS)  # "" are the arguments of a call
# LAPACK defines no factors of a matrix with an infinite entry: which entries are numbers depends on the order of its steps.
_RARE_DRAWS_OF_FACTORS = tuple(draw for draw in RARE_DRAWS if draw not in ("infinities", "NaN"))
_RANDOM = "on random arguments, "
_REST = 0.5  # the part of what the first draw leaves that further draws may take: their calls of compiled code cost time, too
_PENDING = "only perturbed runs can decide"
_UNDECIDED, _NO_NUMBERS = "rounding decides its values", "its results are not numbers on random arguments"
# If rounding has explained an apparent error, perturbed runs exceed the budget again only for one of so many times the size.
_TIMES_AS_FAR = 16.0
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


def _draws_of(runs: ReferenceRuns) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the draws in their order, and of the rare draws."""
    return (_DRAWS_OF_FACTORS, _RARE_DRAWS_OF_FACTORS) if runs.is_definite else (_DRAWS, RARE_DRAWS)


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
    is_definite, branches = comparison.runs.is_definite, comparison.runs.branches
    draws, rare = _draws_of(comparison.runs)
    first, others = draws[0], draws if examples else draws[1:]
    sets = {"" if examples else first: comparison.checks(examples or {}, first, allowance if is_bounded else None)}
    allowance.steps *= _REST
    for k, draw in enumerate((*others, *rare)):
        checks = _joined(sets)
        is_wrong = any(check.status == DIFFERS for check in checks.values())
        if is_wrong or (draw in RARE_DRAWS and not branches.one_sided):
            break
        is_open = all(check.status == NOT_CHECKED for check in checks.values())
        if is_open:
            if draw in RARE_DRAWS:
                break
            allowance = allowance_of(module)
        # Only perturbed runs show the free choices of factorisations.
        allowance.is_plain = not (is_open or is_definite)
        found = comparison.checks({}, draw, allowance, later=max(len(others) - 1 - k, 0))
        if all(check.detail == TOO_LONG for check in found.values()):
            break
        sets[draw] = found
    return {name: _with_branches(check, branches.one_sided) for name, check in _joined(sets).items()}


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
    branches = comparison.runs.branches
    draws, rare = _draws_of(comparison.runs)
    first, others = draws[0], draws if examples else draws[1:]
    sets = {"" if examples else first: comparison.checks(examples or {}, first, None)}
    spent = comparison.runs.spent
    for draw in (*others, *rare):
        statuses = {check.status for check in _joined(sets).values()}
        is_long = spent > thresholds.CHECK_IN_PARTS and CHECKED in statuses
        is_useless = draw in RARE_DRAWS and not (branches.one_sided and CHECKED in statuses)
        if is_long or is_useless or DIFFERS in statuses:
            break
        sets[draw] = comparison.checks({}, draw, None)
        spent += comparison.runs.spent
    checks = _joined(sets)
    in_parts = {
        name: replace(check, detail=f"{check.detail}; {parts}") for name, check in checks.items() if check.status == CHECKED
    }
    return {name: _with_branches(check, branches.one_sided) for name, check in (checks | in_parts).items()}


def _with_branches(check: Check, one_sided: int) -> Check:
    """The check, whose text then also says how many selections and branches of the module took only one side."""
    if check.status != CHECKED or not one_sided:
        return check
    what = "1 selection or branch of the module" if one_sided == 1 else f"{one_sided} selections and branches of the module"
    return replace(check, detail=f"{check.detail}; one side only of {what}")


def _joined(sets: Mapping[str, Checks]) -> Checks:
    """One check for each entry point, by name, from its checks on several sets of arguments, each by the name of the draw."""
    first, *others = sorted(sets, key=_IN_TEXTS.index)
    checks = sets[first]
    for draw in others:
        checks = {name: _join_checks(check, sets[draw][name]) for name, check in checks.items()}
    return checks


def _join_checks(first: Check, second: Check) -> Check:
    """One check from those of an entry point on two sets of arguments; a difference wins, and one without numbers is ignored."""
    if second.status == NOT_CHECKED or first.status == DIFFERS:
        return first
    if first.status == NOT_CHECKED or second.status == DIFFERS:
        return second
    other = second.detail.removeprefix(_RANDOM) if _RANDOM in first.detail else second.detail
    return replace(first, detail=f"{first.detail}, {other}", ratio=max(first.ratio, second.ratio))


class _PostponedError(Exception):
    """A comparison needs a perturbed run, and the budget is kept for other sets of arguments."""


class _Comparison:
    """The calls of an artifact and of the interpreter, on one set of arguments after the other."""

    def __init__(self, runs: ReferenceRuns, target: Target, vmfb: bytes, strategy: str):
        """Loads the artifact (`vmfb`) for comparisons with these runs of the interpreter; `strategy` is the name for the checks."""
        self.runs = runs
        self.executable = Executable.load(vmfb, target.drivers[0])
        self._start, self._strategy = self.executable, strategy
        self._interrupts = Interrupts("the code is wrong.")
        self._is_bounded: dict[str, bool] = {}  # by entry point: True if its loops end by themselves
        self._costs: dict[str, float] = {}  # the steps of a plain call of each entry point
        self._kept = 0.0  # the steps of plain calls for which the budget is kept
        self._explained = CLOSE  # the largest apparent error that perturbed runs beyond the budget have explained

    def checks(self, examples: Examples, draw: str, budget: Budget | None, later: int = 0) -> Checks:
        """The check of each entry point on one set of arguments, by name.

        Args:
          examples: arguments by entry point; others are drawn.
          draw: the name of the random arguments, one of `DRAWS` and `RARE_DRAWS`.
          budget: from which what the interpreter takes is subtracted; None sets no limit.
          later: the number of other sets for which a plain budget is kept: it pays for a perturbed run only if enough is left.
        """
        drawing = self.runs.size * thresholds.DRAWN_ELEMENT / (1000 * thresholds.STEP)
        if budget is not None:
            budget.steps -= drawing
        self._kept = sum(self._costs.values()) + later * (drawing + sum(self._costs.values()))
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
        runs, budget = 0, self.runs.budget
        before, reserve = budget.steps, budget.reserve

        def rerun(k: int) -> Arrays:
            """The interpreter's results in perturbed run number k."""
            nonlocal runs
            if budget.is_plain and not is_urgent and budget.steps - (k + 1) * budget.reserve < self._kept:
                raise _PostponedError
            runs = max(runs, k + 1)
            return self.runs.perturbed(name, k)

        is_urgent = False  # True if the results are so far apart that the check is not postponed
        try:
            start = time.perf_counter()
            wanted = self.runs.call(name)
            seconds = time.perf_counter() - start
        except ABSENT as error:
            return Check(NOT_CHECKED, reason_of(error))
        except PartDiffersError as error:
            return Check(DIFFERS, str(error), np.inf, self._strategy, draw=self.runs.draw_of(name))
        self._kept -= self._costs.get(name, 0.0)  # this plain call is done, so its steps are no longer kept
        self._costs[name] = before - budget.steps - (0.0 if budget.is_plain else budget.reserve - reserve)
        try:
            got = self._compiled_results(name, seconds, rerun)
            try:
                outcome = compare(got, wanted, rerun)
            except _PostponedError:
                distance = apparent_error(got, wanted)
                is_urgent = distance > self._explained
                outcome = compare(got, wanted, rerun) if is_urgent else _coarse_outcome(distance, wanted)
                self._explained = max(self._explained, _TIMES_AS_FAR * distance if is_urgent else 0.0)
        except _PostponedError:
            return Check(NOT_CHECKED, _PENDING)
        except OutOfStepsError:
            return Check(NOT_CHECKED, "rounding decides how long it runs")
        except DeployError as error:
            status = DIFFERS if self._interrupts.is_given_up else NOT_CHECKED
            ratio = np.inf if status == DIFFERS else 0.0
            return Check(status, error.message, ratio, self._strategy, draw=self.runs.draw_of(name))
        finally:
            budget.charge(min(runs, 1))  # more are rare, and then other sets of arguments should decide
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


def _coarse_outcome(distance: float, wanted: Arrays) -> Outcome:
    """The outcome of a comparison without perturbed runs, from the apparent error `distance`; it never calls code wrong.

    Raises _PostponedError if the results are not close.
    """
    if distance > CLOSE:
        raise _PostponedError
    return Outcome(None, distance / CLOSE, 1.0, number_share(wanted))


def allowance_of(module: ir.Module) -> Budget:
    """The budget of a check in steps of the interpreter, a part of the time to compile the module.

    It covers two runs, one of which is perturbed.
    """
    functions = functions_of(module.operation).values()
    reading = thresholds.READ_OPERATION * sum(1 for function in functions for _ in nested(function))
    share = thresholds.CHECKING_SHARE * compilation_of(functions) - reading
    return Budget(max(share, 0.0) / thresholds.STEP, is_for_checks=True)
