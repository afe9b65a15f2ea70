"""Runs of the interpreter that call compiled code for expensive operations, and compare this code with the interpreter on slices.

A product is compared on some of its rows and columns. A loop runs 1, 2, 4, 8, ... iterations, and the first of each of these
groups is compared with one iteration of the interpreter on the same values. The other operations are interpreted as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.compiling.comparison import Arrays, Difference, compare
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.compiling.part_slices import cuts_of
from nabla_mlir.compiling.parts import LOOP, expensive_operations, module_of, outer_values
from nabla_mlir.compiling.strategies import FASTEST, Strategy
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter import OutOfStepsError
from nabla_mlir.interpreter.evaluations import evaluation_of
from nabla_mlir.interpreter.frames import Block, Body, Frame
from nabla_mlir.interpreter.rounding import AMPLITUDE, Perturbation
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.runtime import Executable
from nabla_mlir.runtime.array import Array
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.targets import Target

_CALLS = 2  # the number of calls of a part that are compared
_SECONDS = 20.0  # a loop of unknown length that runs longer may never end
_GROUP = 1 << 20  # the largest number of iterations after which the time is looked at
# A perturbed loop with this many times the iterations of the longest plain one, plus this many more, is decided by rounding.
_LONGER, _MORE = 10, 1000
_RUNS_OF_CONDITIONS = 32


def _count(n: int, noun: str) -> str:
    """The number with its noun: "1 loop", "2 loops"."""
    return f"{n} {noun}{'s' * (n != 1)}"


class PartDiffersError(Exception):
    """A compiled part has other numbers than the interpreter.

    Args:
      op: the operation.
      difference: the first difference; None if the compiled loop stops after another number of iterations than the interpreter.
    """

    def __init__(self, op: ir.Operation, difference: Difference | None):
        """The error with the operation, its line, and the difference as the message; the class describes the arguments."""
        line = source_of(op.location)
        where = f" at {line.filename}:{line.line}" if line else ""
        what = f": {difference}" if difference else ": the interpreter disagrees about the end of the loop"
        super().__init__(f"{op.name}{where}, compiled separately{what}")


class PartRuns:
    """Evaluations of the expensive operations of a module by compiled code, as an `Instead` of the interpreter.

    Args:
      module: a lowered module.
      target: what its parts are compiled for; this machine runs it.
      noise: the perturbation of the interpreter's runs. In perturbed runs, the parts perturb their values, too.
      strategy: the strategy by which the parts are compiled.

    Raises:
      CompileError: IREE refuses the parts.
    """

    def __init__(self, module: ir.Module, target: Target, noise: Perturbation, strategy: Strategy = FASTEST):
        """Compiles the expensive operations of the module as functions of their own; the class describes the arguments."""
        operations = expensive_operations(module)
        self._names = {op: f"part{i}" for i, op in enumerate(operations)}
        self.noise = noise
        self._calls = dict.fromkeys(self._names.values(), 0)
        self._products: set[str] = set()  # those that were compared
        self.iterations: dict[str, list[int]] = {}  # by loop: all of plain runs, those compared, the most of one call
        if operations:
            made = module_of({name: op for op, name in self._names.items()}, module)
            vmfb = compile_lowered(made, target, title="its parts", strategy=strategy)
            self._executable = Executable.load(vmfb, target.drivers[0])

    def __call__(self, op: ir.Operation, number: Callable[[ir.Value], int], block_of: Callable[[int], Block]) -> Body | None:
        """A function that evaluates an operation by compiled code instead of the interpreter; None if it is not expensive.

        Args:
          op: an operation of the module.
          number: the index of a value in a frame, the list of values of one run of the interpreter.
          block_of: the interpreted region of the operation with this index.
        """
        name = self._names.get(op)
        if name is None:
            return None
        if op.name != LOOP:
            return lambda _, xs: [self._product(name, op, *xs)]
        outer, condition, body = [number(v) for v in outer_values(op)], block_of(0), block_of(1)
        return lambda frame, carry: _Loop(self, name, op, frame, condition, body, [frame[i] for i in outer]).run(carry)

    def __str__(self) -> str:
        """The extent of the comparison as text: the number of compared products, and of compared iterations."""
        texts = []
        if self._products:
            texts.append(f"slices of {_count(len(self._products), 'product')}")
        if self.iterations:
            total, compared, _ = (sum(column) for column in zip(*self.iterations.values(), strict=True))
            texts.append(f"{compared} of {total} iterations of {_count(len(self.iterations), 'loop')}")
        return f"interpreted in parts ({' and '.join(texts)})" if texts else "interpreted as a whole"

    def call(self, name: str, arguments: list[Any]) -> list[Array]:
        """The results of the compiled part with this name, as device arrays."""
        device = self._executable.device
        return self._executable.function(name)([x if isinstance(x, Array) else Array.from_numpy(x, device) for x in arguments])

    def starts_check(self, name: str) -> bool:
        """True if a call of this part that begins now is to be compared; the first calls without noise are."""
        if self.noise.is_on:
            return False
        self._calls[name] += 1
        return self._calls[name] <= _CALLS

    def rerun(self, function: Callable[[], Arrays]) -> Callable[[int], Arrays]:
        """A function from the number of a perturbed run to the results of `function` in that run."""

        def run(k: int) -> Arrays:
            """Runs the function with noise from the seed k; afterwards the noise is off."""
            self.noise.seed([k])
            try:
                return function()
            finally:
                self.noise.seed(None)

        return run

    def _product(self, name: str, op: ir.Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The result of a compiled product `op` of x and y; the first results are compared with the interpreter.

        `name` is that of the part. Raises PartDiffersError if they differ.
        """
        (result,) = map(np.asarray, self.call(name, [x, y]))
        if self.starts_check(name):
            self._check_product(op, x, y, result)
            self._products.add(name)
        return result

    def _check_product(self, op: ir.Operation, x: np.ndarray, y: np.ndarray, result: np.ndarray) -> None:
        """Raises PartDiffersError if a slice of a product differs from the interpreter's result by more than rounding explains."""
        record = REGISTRY[op.name]
        parameters, evaluate = record.read(op), evaluation_of(record, op)
        assert evaluate is not None
        cuts = cuts_of(op.name, parameters, (x.ndim, y.ndim), result.shape)
        for a, b, got in [cut.parts(x, y, result) for cut in cuts] or [(x, y, result)]:
            wanted = evaluate(a, b, **parameters).astype(result.dtype, copy=False)

            def perturbed(a: np.ndarray = a, b: np.ndarray = b, wanted: np.ndarray = wanted) -> Arrays:
                """The interpreter's result with perturbations."""
                results = [wanted]
                self.noise(op, [a, b], results)
                return results

            if found := compare([got], [wanted], self.rerun(perturbed)).difference:
                raise PartDiffersError(op, found)


class _Loop:
    """One call of a loop, in groups of 1, 1, 2, 4, ... iterations.

    Args:
      runs: the evaluations of all parts.
      name: the name of the part.
      frame: the interpreter's values around the loop.
      condition, body: the regions of the loop, interpreted.
      outer: the values that the regions capture.
    """

    def __init__(
        self, runs: PartRuns, name: str, op: ir.Operation, frame: Frame, condition: Block, body: Block, outer: list[np.ndarray]
    ):
        """Prepares a call of the loop; `run` makes it."""
        self._runs, self._name, self._op, self._frame = runs, name, op, frame
        self._condition, self._body, self._outer = condition, body, outer
        self._types = [shape_and_dtype(v.type) for v in op.results]

    def run(self, carry: list[np.ndarray]) -> list[np.ndarray]:
        """The values of the carries at the end of the loop, from those at its start.

        Groups of 1, 1, 2, 4, ... iterations run as compiled code. The first iteration of each is also interpreted, if the call is
        to be compared.

        Raises:
          PartDiffersError: compiled code and the interpreter disagree about an iteration, or about the end.
          OutOfStepsError: the loop goes on for too long.
        """
        noise, is_compared = self._runs.noise, self._runs.starts_check(self._name)
        counts = self._runs.iterations.setdefault(self._name, [0, 0, 0])
        seed, units = noise.draw_seed(), AMPLITUDE if noise.is_on else 0.0
        limit = _LONGER * counts[2] + _MORE if noise.is_on else np.inf
        end = np.inf if find_counter(self._op) else time.monotonic() + _SECONDS
        values: list[Any] = list(carry)
        done = compared = 0
        while True:
            if is_compared:
                compared += self._check_iteration(values)
            group = min(max(done, 1), _GROUP)
            values, count = self._run_iterations(values, group, seed, units)
            done += count
            if done > limit or time.monotonic() > end:
                raise OutOfStepsError
            if count < group:
                break
        last = [np.asarray(v).reshape(shape) for v, (shape, _) in zip(values, self._types, strict=True)]
        if is_compared:
            self._check_condition(last, goes_on=False)
        if not noise.is_on:
            counts[:] = counts[0] + done, counts[1] + compared, max(counts[2], done)
        return last

    def _run_iterations(self, values: list[Any], group: int, seed: int = 0, units: float = 0.0) -> tuple[list[Any], int]:
        """The carries after at most `group` iterations of the compiled loop, and the number of iterations that it made.

        `values` has the carries before; `seed` and `units` are those of the noise, without which units is 0.
        """
        scalars = [np.asarray(group, np.int32), np.asarray(seed, np.int32), np.asarray(units, np.float32)]
        *after, count = self._runs.call(self._name, [*values, *self._outer, *scalars])
        return after, int(np.asarray(count))

    def _check_iteration(self, values: list[Any]) -> int:
        """The number of compiled iterations that were compared with the interpreter: 1, or 0 if the loop ends at once.

        `values` has the carries before the iteration. Raises PartDiffersError if the results differ.
        """
        compiled, count = self._run_iterations(values, 1)
        before = [np.asarray(v) for v in values]
        self._check_condition(before, goes_on=count == 1)
        if count:
            runs, noise = self._runs, self._runs.noise
            wanted = self._body(self._frame, before)
            rerun = runs.rerun(lambda: self._body(self._frame, [noise.perturbed(x) for x in before]))
            if found := compare([*map(np.asarray, compiled)], wanted, rerun).difference:
                raise PartDiffersError(self._op, found)
        return count

    def _check_condition(self, values: list[np.ndarray], goes_on: bool) -> None:
        """Raises PartDiffersError if the interpreter disagrees that the loop goes on (or ends), and no perturbed run agrees.

        `values` has the carries.
        """
        if bool(self._condition(self._frame, values)[0]) == goes_on:
            return
        noise = self._runs.noise
        rerun = self._runs.rerun(lambda: self._condition(self._frame, [noise.perturbed(x) for x in values]))
        if not any(bool(rerun(k)[0]) == goes_on for k in range(_RUNS_OF_CONDITIONS)):
            raise PartDiffersError(self._op, None)
