"""The interpreter as a target: `lowered.compile(nm.Interpreter())` gives a module that is called like a compiled one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nabla_mlir.base.errors import TargetError
from nabla_mlir.interpreter.blocks import Watch
from nabla_mlir.targets import Target


@dataclass(frozen=True)
class Interpreter(Target):
    """NumPy on this host, one operation after the other: any stage runs at once, without a compiler.

    A traced stage runs with its maps as they stand, entry after entry, whatever nabla-vmap makes of them; what it says of
    derivatives is expanded. For tests of passes, and to look at values: `watch` is called after each operation.

    Args:
      watch: ``(operation, operands, results)``: an `ir.Operation` (its name is ``operation.name``) and lists of arrays. It
        may call ``breakpoint()``.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> def show(op, operands, results):
      ...     print(op.name, *operands, "->", *results)
      >>> lowered = nm.trace(lambda x: x * x + x, nm.spec(), name="f").lower()
      >>> float(lowered.compile(nm.Interpreter(watch=show))(np.float32(3)))
      stablehlo.multiply 3.0 3.0 -> 9.0
      stablehlo.add 9.0 3.0 -> 12.0
      12.0
    """

    watch: Watch | None = field(default=None, compare=False)

    name: ClassVar[str] = "interpreter"
    drivers: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def found(cls) -> Sequence[str]:
        return [f"NumPy {np.__version__}"]

    @classmethod
    def check_fit(cls, data: Mapping[str, Any]) -> None:
        """It runs everywhere that programs are made."""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name}

    def flags(self) -> list[str]:
        """Raises TargetError: the interpreter has no flags, because it does not compile.

        Raises:
          TargetError: always.
        """
        raise TargetError("the interpreter requires no compiler, and has no flags.", help="compile for nm.CPU().")
