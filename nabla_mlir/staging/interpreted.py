"""A stage that the interpreter runs, with the interface of a compiled one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nabla_mlir.base.errors import TargetError, user_frame
from nabla_mlir.base.locks import cached_property
from nabla_mlir.dialects.context import bytecode_of
from nabla_mlir.interpreter.executable import InterpretedExecutable
from nabla_mlir.interpreter.target import Interpreter
from nabla_mlir.runtime import Module
from nabla_mlir.runtime.manifest import Manifest, Memory
from nabla_mlir.staging.artifact import manifest_of
from nabla_mlir.staging.compiled import Compiled


@dataclass(frozen=True, repr=False)
class Interpreted(Compiled):
    """A stage that is called like a compiled one. It has no code that could be saved.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> traced = nm.trace(nm.vmap(lambda x: x * x), nm.spec(2, "f64"), name="square")
      >>> traced.compile(nm.Interpreter())(np.array([1.0, 2.0])).tolist()
      [1.0, 4.0]
    """

    def _title(self) -> str:
        return "Module that NumPy interprets"

    @cached_property
    def memory(self) -> dict[str, Memory]:
        """An empty mapping: the memory of calls is not known."""
        return {}

    @cached_property
    def manifest(self) -> Manifest:
        """The descriptions of the entry points."""
        return manifest_of(self.module, self.entries, [self.code], live=True)

    @cached_property
    def loaded(self) -> Module:
        """The stage in the form of a loaded artifact, with its own state."""
        assert isinstance(self.target, Interpreter)
        executable = InterpretedExecutable(self.module.operation, self.target.watch)
        return Module(executable, self.manifest, self.code, lambda: bytecode_of(self.module))

    @cached_property
    def driver(self) -> str:
        """The interpreter."""
        return InterpretedExecutable.driver

    def save(self, path: str | Path) -> Path:
        """Raises TargetError, because an interpreted stage has no code that could be saved.

        Raises:
          TargetError: always.
        """
        raise TargetError(
            "save requires code for a target, got a stage that is interpreted.",
            where=user_frame(),
            help="compile it for nm.CPU() and save that, or use save_mlir.",
        )
