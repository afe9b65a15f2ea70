"""Prepared products that answer at once: interpreted until compiling them pays, when their state moves over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.interpreter import OutOfStepsError
from nabla_mlir.interpreter.executable import InterpretedExecutable
from nabla_mlir.interpreter.target import Interpreter
from nabla_mlir.prepared import modules
from nabla_mlir.runtime import Module
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device
from nabla_mlir.runtime.executable import Runnable
from nabla_mlir.staging.artifact import bytecode_of
from nabla_mlir.staging.compiled import Compiled
from nabla_mlir.staging.execution import Execution, allowance, steps_of
from nabla_mlir.staging.interpreted import Interpreted
from nabla_mlir.staging.stages import Lowered
from nabla_mlir.targets import Target

_MOVE = "update"  # the function that sets the whole state, from the point that the state holds


class InstantExecutable:
    """A prepared module with a state of its own, run by NumPy at first, then by compiled code.

    Args:
      stage: what is compiled when that pays.
    """

    def __init__(self, stage: Lowered):
        self._stage = stage
        operations = functions_of(stage.module.operation)
        work = {name: steps_of(operation) for name, operation in operations.items()}
        self._interpreted = InterpretedExecutable(stage.module.operation, budget=allowance(operations.values()), work=work)
        self._compiled: Runnable | None = None
        self._updates = 0  # what the version of the compiled state is behind
        self._functions: dict[str, Callable[..., list[Array]]] = {}

    @property
    def driver(self) -> str:
        """That of the compiled code, if it has been compiled."""
        return (self._compiled or self._interpreted).driver

    @property
    def device(self) -> Device:
        """The host."""
        return (self._compiled or self._interpreted).device

    def function(self, name: str) -> Callable[..., list[Array]]:
        """The function of that name. Raises DeployError if there is none."""
        if name not in self._functions:
            by_numpy = self._interpreted.function(name)
            self._functions[name] = lambda *call: self._call(name, by_numpy, call)
        return self._functions[name]

    def _call(self, name: str, by_numpy: Callable[..., list[Array]], call: tuple[Any, ...]) -> list[Array]:
        if self._compiled is None:
            try:
                return by_numpy(*call)
            except OutOfStepsError:
                self._compile()
        assert self._compiled is not None
        results = self._compiled.function(name)(*call)
        for array in results:
            if array.version is not None:
                array.version += self._updates
        return results

    def _compile(self) -> None:
        compiled = self._stage.compile().loaded.executable
        state = self._interpreted.state
        if state["version"]:
            points = sorted((int(name.removeprefix("point_")), x) for name, x in state.items() if name.startswith("point_"))
            compiled.function(_MOVE)([x for _, x in points])
            self._updates = int(state["version"]) - 1
        self._compiled = compiled

    def wait(self) -> None:
        """Returns when all calls so far have ended."""
        (self._compiled or self._interpreted).wait()

    def clone(self) -> InstantExecutable:
        """The same module with fresh state."""
        return InstantExecutable(self._stage)

    def on(self, driver: str | Device) -> InstantExecutable:
        """The same with fresh state; where it runs is its own choice."""
        return self.clone()


def load_prepared(source: Any, maker: str, point: tuple[Any, ...], target: str | Target | None, **options: Any) -> Module:
    """A compiled stage, a stage, or a function of which `maker` makes one, as a module in this process.

    Without a target it runs as functions outside `jit` do: interpreted until compiling it pays.
    """
    if isinstance(source, Compiled):
        return source.loaded.clone()  # whose state is its own
    if not isinstance(source, modules.Prepared):
        source = getattr(modules, maker)(source, *point, **options)
    if target is None and Execution.mode != "compile":
        stage = Interpreted(source.module, source.entries, b"", Interpreter())
        return Module(InstantExecutable(source), stage.manifest, stage.code, lambda: bytecode_of(source.module))
    return source.compile(target or "cpu").loaded
