"""Prepared products that answer at once: they are interpreted until compiling them pays off.

The state then moves from the interpreter to the compiled code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import RuleMissingError, TraceError, user_frame
from nabla_mlir.base.locks import new_lock
from nabla_mlir.dialects.context import bytecode_of
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.interpreter import OutOfStepsError
from nabla_mlir.interpreter.executable import InterpretedExecutable
from nabla_mlir.interpreter.target import Interpreter
from nabla_mlir.prepared import modules
from nabla_mlir.runtime import Module
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.executable import Recipe, Runnable
from nabla_mlir.staging.compiled import Bundle, Compiled
from nabla_mlir.staging.execution import Execution, allowance
from nabla_mlir.staging.interpreted import Interpreted
from nabla_mlir.staging.stages import Lowered
from nabla_mlir.targets import Target

_MOVE = "update"  # the function that sets the whole state from a point


class InstantExecutable:
    """A prepared module with its own state; NumPy runs it at first, then compiled code.

    Args:
      stage: the stage, which is compiled when that pays off.
    """

    def __init__(self, stage: Lowered):
        """Starts with the interpreter, for a stage that is compiled when that pays off."""
        self._stage = stage
        operations = functions_of(stage.module.operation)
        self._budget, self._moving = allowance(operations.values()), new_lock()
        self._executable: Runnable = InterpretedExecutable(stage.module.operation, budget=self._budget)
        self._updates = 0  # the number of updates before the state moved to compiled code
        self._point: list[np.ndarray] = []  # the point of the interpreter's state, which the module itself need not store

    @property
    def driver(self) -> str:
        """The driver of the compiled code, if it has been compiled; else that of the interpreter."""
        return self._executable.driver

    @property
    def device(self) -> Device:
        """The host."""
        return self._executable.device

    def function(self, name: str) -> Callable[..., list[Array]]:
        """A function of the executable, which chooses in each call whether it is interpreted or runs as compiled code.

        Raises:
          DeployError: it does not exist (when it is called).
          RuleMissingError: it must be interpreted, and has an operation that NumPy does not have (when it is called).
        """
        return functools.partial(self._call, name)

    def _call(self, name: str, *call: Any) -> list[Array]:
        """The results of the function `name`, by the interpreter until its budget of steps is used up, and then by compiled code.

        `call` has what a function of an executable accepts: the arguments, the number of them that are storage for results, and
        their types. Results have the version of the state, which counts on through the change to compiled code.
        """
        with self._moving:  # otherwise the state could belong to another thread's point
            if isinstance(self._executable, InterpretedExecutable):
                try:
                    return self._interpreted(self._executable, name, *call)
                except (OutOfStepsError, RuleMissingError):
                    if self._budget is None:
                        raise
                    self._compile(self._executable)
        results = self._executable.function(name)(*call)
        for array in results:
            if array.version is not None:
                array.version += self._updates
        return results

    def _interpreted(
        self, interpreter: InterpretedExecutable, name: str, arguments: Sequence[Any], storage: int = 0, types: Any = None
    ) -> list[Array]:
        """The results of a function by the interpreter; stores the point of an update, to which compiled code is moved later.

        Args:
          interpreter: the module in the interpreter, with its state.
          name: the function.
          arguments: its arguments; the last `storage` ones are arrays to which results are written.
          storage: their number.
          types: the element types of the arguments, if they are known.
        """
        results = interpreter.function(name)(arguments, storage, types)
        if name in (_MOVE, f"{_MOVE}_into"):
            self._point = [np.array(x) for x in arguments[: len(arguments) - storage]]
        return results

    def _compile(self, interpreter: InterpretedExecutable) -> None:
        """Replaces the interpreter by compiled code with the same state: the code is updated to the interpreter's point."""
        executable = self._stage.compile().loaded.executable
        if interpreter.state.get("version"):
            executable.function(_MOVE)(self._point)
            self._updates = int(interpreter.state["version"]) - 1
        self._executable, self._point = executable, []

    def wait(self) -> None:
        """Returns when all earlier calls have ended."""
        self._executable.wait()

    def clone(self) -> InstantExecutable:
        """The same module with fresh state."""
        return InstantExecutable(self._stage)

    def on(self, driver: str | Device) -> InstantExecutable:
        """The same module with fresh state; it chooses its device itself."""
        return self.clone()

    @property
    def digest(self) -> str:
        """The digest of the stage."""
        return self._stage.digest

    def recipe(self) -> Recipe:
        """A function and its arguments that make the module in another process, with fresh state, interpreted at first."""
        return InstantExecutable, (self._stage,)

    def __reduce__(self) -> Recipe:
        """The recipe, for pickle."""
        return self.recipe()


def load_prepared(source: Any, maker: str, point: tuple[Any, ...], target: str | Target | None, **options: Any) -> Module:
    """A module that runs in this process. `source` is a compiled stage, another stage, or a function.

    `maker` is the name of the function that makes a stage of a function, with `options` as keyword arguments. `point` has the
    arguments of the function, or specs of them. Without a target
    it runs like functions outside `jit`: it is interpreted until compiling pays off.
    """
    source = _stage_of(source, maker, point, options)
    if isinstance(source, Module):
        return source
    if target is None and Execution.mode != "compile":
        stage = Interpreted(source.module, source.entries, b"", Interpreter())
        return Module(InstantExecutable(source), stage.manifest, stage.code, lambda: bytecode_of(source.module))
    return source.compile(target or "cpu").loaded


def load_compiled(source: Any, maker: str, point: tuple[Any, ...], target: str | Target | None, **options: Any) -> Module:
    """A module of compiled code in this process; the arguments are those of `load_prepared`, which would interpret it first.

    For long work, where the first interpreted calls do not pay. Only `Execution.mode` "interpret" without a target interprets it.
    """
    source = _stage_of(source, maker, point, options)
    if isinstance(source, Module):
        return source
    return source.compile(target or (Interpreter() if Execution.mode == "interpret" else "cpu")).loaded


def _stage_of(source: Any, maker: str, point: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The stage of a prepared product, from a function, a stage or a bundle; of a compiled stage, its module with fresh state.

    Args:
      source: one of these; raises TraceError for anything else.
      maker: the name of the function of `prepared.modules` that makes a stage from a function, such as "hvp_module".
      point: the arguments of the function, or specs of them.
      options: the keyword arguments of the maker.
    """
    if isinstance(source, Bundle):
        source = source.here
    if isinstance(source, Compiled):
        return source.loaded.clone()
    if isinstance(source, Lowered):
        return source
    if not callable(source):
        raise TraceError(
            f"an operator requires a function, a stage or an artifact, got {type(source).__name__}.", where=user_frame()
        )
    return getattr(modules, maker)(source, *point, **options)
