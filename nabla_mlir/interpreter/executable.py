"""An interpreted module with the interface of an executable of the runtime: functions, a device, state."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DeployError, OutOfMemoryError
from nabla_mlir.base.locks import new_lock
from nabla_mlir.base.progress import running
from nabla_mlir.dialects.context import bytecode_of, parse_module
from nabla_mlir.interpreter.blocks import Watch, functions
from nabla_mlir.interpreter.frames import Budget
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device, device
from nabla_mlir.runtime.ending import Gate, stop_at_exit
from nabla_mlir.runtime.executable import Recipe
from nabla_mlir.runtime.transfer import check_storage, fill


class InterpretedFunction:
    """A function that takes arrays, and memory for its results, as `nabla_mlir.runtime.executable.Function` does."""

    name: str
    device: Device

    def __init__(self, executable: InterpretedExecutable, name: str):
        self._executable, self.name, self.device = executable, name, executable.device

    def __call__(self, arguments: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results of a call; the last `storage` of the arguments are memory to which they are written. `types` is not used.

        Raises:
          DeployError: the memory cannot be written; a function of a state is called before that is set.
          OutOfMemoryError: there is no memory for what it computes.
        """
        inputs, targets = arguments[: len(arguments) - storage], arguments[len(arguments) - storage :]
        check_storage(self.name, targets, inputs, self.device)
        try:
            results, version = self._executable.call(self.name, [np.asarray(x) for x in arguments])
        except MemoryError as error:
            raise OutOfMemoryError(self.name, error) from None
        if storage:
            return [self._filled(target, y, version) for target, y in zip(targets, results, strict=True)]
        arrays = [Array.from_numpy(y, self.device) for y in results]
        for array in arrays:
            array.version = version
        return arrays

    def _filled(self, target: Any, result: np.ndarray, version: int | None) -> Array:
        """The array `target` after `result` has been copied to its memory; it gets the version of the module's state.

        `target` is an array of this package, or a NumPy array, which `fill` writes.
        """
        if type(target) is Array:
            ctypes.memmove(target.numpy().ctypes.data, np.ascontiguousarray(result).ctypes.data, result.nbytes)
            return fill(target, target, version)
        return fill(target, Array.from_numpy(result, self.device), version)


class InterpretedExecutable:
    """A module with its own state; its calls run one after the other.

    Args:
      module: StableHLO, with regions of `ad` and `batch`, and global variables.
      watch: called after each operation, with its operands and results.
      budget: the number of steps that its calls may take; None for no limit.
    """

    driver = "interpreter"

    def __init__(self, module: ir.Operation, watch: Watch | None = None, budget: Budget | None = None):
        """Prepares the functions of a module; `watch` sees the results of operations, and `budget` limits the time."""
        self._module, self._watch, self._budget = module, watch, budget
        self._functions = functions(module, watch)
        self._lock: threading.Lock | Gate = new_lock()
        stop_at_exit(self)
        self.device: Device = device("local-sync")

    @property
    def state(self) -> Mapping[str, Any]:
        """The values of the global variables, by name."""
        return self._functions.state

    def function(self, name: str) -> InterpretedFunction:
        """The function of the executable with a name.

        Raises:
          DeployError: no function has this name.
          RuleMissingError: the interpreter does not know one of its operations.
        """
        if name not in self._functions.operations:
            raise DeployError(f"function requires one of {', '.join(self._functions.operations)}, got {name!r}.")
        self._functions[name]  # which reads it
        return InterpretedFunction(self, name)

    def call(self, name: str, arguments: list[np.ndarray]) -> tuple[list[np.ndarray], int | None]:
        """The results of the function `name`, and the version of the module's state; None if the function does not use the state.

        Raises:
          OutOfStepsError: the budget is spent; the state does not change.
        """
        with self._lock, running(f"interpreting {name}"):
            results = self._functions[name](arguments, self._budget)
        version = int(results.pop()) if self._functions.has_version(name) else None
        return results, version

    def clone(self) -> InterpretedExecutable:
        """The same module with fresh state."""
        return InterpretedExecutable(self._module, self._watch, self._budget)

    def wait(self) -> None:
        """Returns at once: every call has already ended."""

    def on(self, driver: Any) -> InterpretedExecutable:
        """The executable itself, because there is no other device."""
        return self.clone()

    @property
    def digest(self) -> str:
        """The SHA-256 of the module's text."""
        return hashlib.sha256(str(self._module).encode()).hexdigest()

    def recipe(self) -> Recipe:
        """A function and its arguments that create this executable in another process, with fresh state and without a budget."""
        return _executable_of, (bytecode_of(self._module), self._watch)

    def __reduce__(self) -> Recipe:
        return self.recipe()


def _executable_of(bytecode: bytes, watch: Watch | None) -> InterpretedExecutable:
    return InterpretedExecutable(parse_module(bytecode).operation, watch)
