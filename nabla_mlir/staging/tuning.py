"""Tuning: several forms of a module for a CPU are compiled, timed on this machine, and compared."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import CompileError, DeployError, TargetError
from nabla_mlir.compiling.checking import compile_unchecked
from nabla_mlir.compiling.strategies import Strategy
from nabla_mlir.runtime import Executable, Function
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.timing import median
from nabla_mlir.staging.specs import Spec
from nabla_mlir.targets import CPU, Target

# Forms that may be faster, by name: fields of the target, and additional flags. Each was the fastest for some module.
FORMS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "default": ({}, ()),
    "without nabla-schedule": ({"schedule": False}, ()),
    "data tiling": ({}, ("--iree-opt-data-tiling", "--iree-dispatch-creation-data-tiling")),
    "larger workgroups": ({}, ("--iree-llvmcpu-distribution-size=256",)),
    "less fusion": ({}, ("--iree-dispatch-creation-fuse-multi-use=false",)),
}
_SECONDS = 0.05  # the time for which each function is called
_TOLERANCES = {"float32": 1e-3, "complex64": 1e-3, "float64": 1e-9, "complex128": 1e-9}


@dataclass(frozen=True)
class Trial:
    """The trial of one form on one driver: the seconds of a call of all functions, or the reason why it was rejected."""

    form: str
    driver: str
    seconds: float = 0.0
    refused: str = ""


@dataclass(frozen=True)
class Tuned:
    """The fastest form: its strategy and artifact, its target and driver, and all trials."""

    code: tuple[Strategy, bytes]
    target: CPU
    driver: str
    trials: tuple[Trial, ...]


def tune(module: ir.Module, functions: Mapping[str, Sequence[Spec]], target: Target, flags: Sequence[str], cache: bool) -> Tuned:
    """Compiles a lowered module in each form, and returns the fastest one whose results agree with the default.

    Args:
      module: plain StableHLO.
      functions: the arguments of each function, in an order in which they may be called.
      target: the CPU of this machine.
      flags: additional flags of iree-compile, for all forms.
      cache: True reads artifacts from the cache, and stores them there.

    Raises:
      TargetError: the target is not a CPU.
      CompileError: the default form cannot be compiled.
    """
    if not isinstance(target, CPU):
        raise TargetError(f"tuning requires a target of kind cpu, got {target.name}.", help="compile it without tuning.")
    trials: list[Trial] = []
    code: dict[str, tuple[tuple[Strategy, bytes], CPU]] = {}
    reference: list[np.ndarray] | None = None
    for form, (changes, more) in FORMS.items():
        variant = replace(target, options=(*target.options, *more), **changes)
        try:
            code[form] = compile_unchecked(module, variant, flags=flags, cache=cache), variant
        except CompileError as error:
            if form == "default":
                raise
            trials.append(Trial(form, "", refused=error.message.splitlines()[0]))
            _print_trial(trials[-1])
            continue
        for driver in target.drivers:
            seconds, results, reason = _time_functions(code[form][0][1], functions, driver)
            reference = results if reference is None and not reason else reference
            reason = reason or _difference(results, reference or [])
            trials.append(Trial(form, driver, seconds, reason))
            _print_trial(trials[-1])
    usable = [t for t in trials if not t.refused]
    best = min(usable, key=lambda t: t.seconds) if usable else Trial("default", "")
    return Tuned(*code[best.form], best.driver, tuple(trials))


def _time_functions(vmfb: bytes, functions: Mapping[str, Sequence[Spec]], driver: str) -> tuple[float, list[np.ndarray], str]:
    """The sum of the median times of the functions in seconds, the arrays of their results, and "" or the error that ended a call.

    `vmfb` is the compiled module, `functions` maps the name of each function to the specs of its arguments, and `driver` is IREE's.
    After an error, the time is 0 and the list is empty.
    """
    executable = Executable.load(vmfb, driver)
    total, results = 0.0, list[np.ndarray]()
    for name, specs in functions.items():
        call, rng = executable.function(name), np.random.default_rng(0)
        arguments = [Array.from_numpy(_random_numbers(rng, spec), executable.device) for spec in specs]
        try:
            results += [np.asarray(r) for r in call(arguments)]
            total += median(functools.partial(_call_and_wait, executable, call, arguments), _SECONDS)
        except DeployError as error:
            return 0.0, [], error.message.splitlines()[0]
    return total, results, ""


def _call_and_wait(executable: Executable, call: Function, arguments: list[Array]) -> None:
    """Calls the compiled function, and waits until its results are computed."""
    call(arguments)
    executable.wait()


def _random_numbers(rng: np.random.Generator, spec: Spec) -> np.ndarray:
    """Random numbers of a type; zeros for integers and truth values. `spec` is the shape and dtype."""
    numbers = rng.normal(size=spec.shape) * 0.1
    return np.asarray(numbers if spec.dtype.kind in "fcV" else np.zeros(spec.shape)).astype(spec.dtype)


def _difference(results: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> str:
    """The reason why arrays `results` differ from the arrays `reference` by more than rounding; "" if they agree."""
    for result, expected in zip(results, reference, strict=True):
        exact, other = expected.astype(np.complex128), result.astype(np.complex128)
        both = np.isfinite(exact) & np.isfinite(other)
        bound = _TOLERANCES.get(expected.dtype.name, 0.1 if expected.dtype.kind in "fV" else 0.0)  # 0.1 for narrow floats
        distance = np.linalg.norm(other[both] - exact[both])
        if (np.isfinite(exact) != np.isfinite(other)).any() or distance > bound * np.linalg.norm(exact[both]):
            return f"its results differ by {distance:.1e}"
    return ""


def _print_trial(trial: Trial) -> None:
    """Prints a trial as a line on a terminal, and nothing if the output is piped."""
    if sys.stderr.isatty():
        what = f"not used: {trial.refused}" if trial.refused else f"{trial.seconds * 1e6:,.1f} µs"
        print(f"  {trial.form:24} {trial.driver:12} {what}", file=sys.stderr)
