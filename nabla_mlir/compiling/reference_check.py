"""One artifact against the reference interpreter: each entry point is called here, and NumPy runs it too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.compiling.comparison import Arrays, Outcome, compare
from nabla_mlir.compiling.estimates import estimate, work_of
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.dialects.types import is_complex, is_float, shape_and_dtype
from nabla_mlir.errors import DeployError, RuleMissingError
from nabla_mlir.interpreter import Budget, OutOfStepsError
from nabla_mlir.interpreter.executable import InterpretedExecutable
from nabla_mlir.interpreter.rounding import Perturbation
from nabla_mlir.ops.callbacks import calls_python
from nabla_mlir.runtime import Executable
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.manifest import Check
from nabla_mlir.targets import TARGETS, Target

Examples = Mapping[str, Arrays]  # the arguments of entry points by name
CHECKED, DIFFERS, NOT_CHECKED = "checked", "differs", "not checked"
# Routines whose results are not unique, but for what is made of them: signs of eigenvectors, bases of their spaces.
_NOT_UNIQUE = ("potrf", "geqrf", "geqp3", "orgqr", "ungqr", "syevd", "heevd", "gesdd", "geev", "gees", "gehrd", "sytrd", "hetrd")
_DRAWS = ("numbers around 1", "small numbers of both signs")


Checks = dict[str, Check]  # by entry point


def entries_of(module: ir.Module) -> dict[str, ir.Operation]:
    """The functions that others may call by name, those first that write the state which others read."""
    found = {name: op for name, op in functions_of(module.operation).items() if not is_private(op)}
    return dict(sorted(found.items(), key=lambda item: not _writes_state(item[1])))


def _writes_state(function: ir.Operation) -> bool:
    return any(op.name == "util.global.store" for op in nested(function))


def reason_not_to(module: ir.Module, target: Target, is_bounded: bool) -> str:
    """Why a module cannot be checked here; "" if it can.

    Args:
      is_bounded: a check may cost only a part of the compilation.
    """
    if any(map(calls_python, nested(module.operation))):
        return "it calls functions of Python"
    if is_bounded and not all(estimate(op).is_bounded for op in entries_of(module).values()):
        return "its values decide how long it runs"
    try:
        TARGETS[target.name].found()
        TARGETS[target.name].check_fit(target.to_json())
    except (DeployError, OSError) as error:
        return f"its target does not run here ({error})"
    return ""


def check_artifact(
    module: ir.Module, target: Target, vmfb: bytes, examples: Examples | None = None, strategy: str = "", is_bounded: bool = True
) -> Checks:  # fmt: skip
    """Compares the entry points of an artifact with the interpreter, on this machine.

    Args:
      module: the lowered module that it was compiled from.
      examples: arguments by entry point; others get random ones.
      strategy: the name of the strategy by which it was compiled.
      is_bounded: leave out what would cost more than a part of the compilation.
    """
    checks: Checks = {}
    for draw in _DRAWS:
        run = _Comparison(module, target, vmfb, examples or {}, draw, is_bounded)
        checks = {name: run.check(name, strategy) for name in run.entries}
        if all(check.detail != _UNDECIDED for check in checks.values()):
            break
    return checks


_UNDECIDED = "rounding decides its values"


class _Comparison:
    """The calls of an artifact and of the interpreter on one set of arguments."""

    def __init__(
        self, module: ir.Module, target: Target, vmfb: bytes, examples: Examples, draw: str, is_bounded: bool
    ):  # fmt: skip
        self.module, self.draw, self.examples = module, draw, examples
        self.entries = entries_of(module)
        self.inputs: dict[str, list[np.ndarray]] = {}
        self.budget = _budget(module) if is_bounded else None
        self.executable = Executable.load(vmfb, target.drivers[0])
        self.interpreter = InterpretedExecutable(module.operation, budget=self.budget)
        self.wanted: dict[str, list[np.ndarray]] = {}
        self.runs: dict[int, dict[str, list[np.ndarray]]] = {}

    def check(self, name: str, strategy: str) -> Check:
        """Compares the results of an entry point."""
        try:
            if self.budget is not None:
                self.budget.spend(thresholds.INTERPRETED_WORK * work_of(self.entries[name]) / thresholds.STEP)
            self.inputs[name] = self._arguments(name)  # only now: those of a large program take time
            self.wanted[name] = self.interpreter.call(name, self.inputs[name])[0]
            arguments = [Array.from_numpy(x, self.executable.device) for x in self.inputs[name]]
            got = [np.asarray(y) for y in self.executable.function(name)(arguments)]
        except OutOfStepsError:
            return Check(NOT_CHECKED, "the interpreter would take too long")
        except MemoryError:
            return Check(NOT_CHECKED, "there is no memory for the interpreter's values")
        except (RuleMissingError, DeployError) as error:
            return Check(NOT_CHECKED, error.message)
        outcome = compare(got, self.wanted[name], lambda k: self._perturbed(k)[name])
        return self._check_of(name, outcome, strategy)

    def _arguments(self, name: str) -> list[np.ndarray]:
        return [*self.examples[name]] if name in self.examples else random_arguments(self.entries[name], name, self.draw)

    def _check_of(self, name: str, outcome: Outcome, strategy: str) -> Check:
        if outcome.difference is not None:
            if _is_not_unique(self.module):
                return Check(NOT_CHECKED, "the factors of a matrix are not unique")
            return Check(DIFFERS, str(outcome.difference), outcome.ratio, strategy, outcome.difference.result)
        if outcome.share < 0.5:
            return Check(NOT_CHECKED, _UNDECIDED)
        arguments = "the arguments of a call" if name in self.examples else f"random arguments, {self.draw}"
        return Check(CHECKED, f"on {arguments}", outcome.ratio, strategy)

    def _perturbed(self, k: int) -> dict[str, list[np.ndarray]]:
        """The results of all entry points so far in a perturbed run: of a state they are called in order."""
        if k not in self.runs or len(self.runs[k]) < len(self.wanted):
            noise = Perturbation(k)
            other = InterpretedExecutable(self.module.operation, noise)
            self.runs[k] = {n: other.call(n, [noise.perturbed(x) for x in self.inputs[n]])[0] for n in self.wanted}
        return self.runs[k]


def random_arguments(function: ir.Operation, name: str, draw: str = _DRAWS[0]) -> list[np.ndarray]:
    """An argument of each type of a function, the same for each name and draw."""
    rng = np.random.default_rng([*name.encode()])
    types = [shape_and_dtype(argument.type) for argument in function.regions[0].blocks[0].arguments]
    return [_random(rng, shape, dtype, draw) for shape, dtype in types]


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, draw: str) -> np.ndarray:
    if not is_float(dtype) and not is_complex(dtype):
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    low, high = (0.2, 0.9) if draw == _DRAWS[0] else (-1.0, 1.0)
    scale = 1.0 if draw == _DRAWS[0] else float(max(shape, default=1)) ** -0.5
    x = scale * rng.uniform(low, high, shape)
    return np.asarray(x + 1j * scale * rng.uniform(low, high, shape) if is_complex(dtype) else x).astype(dtype)


def _budget(module: ir.Module) -> Budget:
    """The steps that one interpretation may take: a part of what compiling the module takes, by its size."""
    operations = sum(1 for op in functions_of(module.operation).values() for _ in nested(op))
    whole = thresholds.CHECKED_MODULE + thresholds.CHECKED_OPERATION * operations
    return Budget(thresholds.CHECKING_SHARE * whole / thresholds.STEP / thresholds.CHECKED_RUNS)


def _is_not_unique(module: ir.Module) -> bool:
    if any(op.name == "stablehlo.cholesky" for op in nested(module.operation)):
        return True  # of a matrix that is not positive definite, some elements are NaN: which ones is nobody's rule
    targets = [str(op.attributes["call_target_name"]) for op in nested(module.operation) if op.name == "stablehlo.custom_call"]
    return any(routine in target for target in targets for routine in _NOT_UNIQUE)
