"""The sides of selections and branches that runs of the interpreter have chosen."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.interpreter.frames import Arrays

_SELECT, _BRANCHES = "stablehlo.select", ("stablehlo.case", "stablehlo.if")


class Branches:
    """Notes which sides of the selections and branches of a program runs choose, as a watch of the interpreter.

    A side that no compared run has chosen has not been checked.
    """

    def __init__(self) -> None:
        self._new: dict[ir.Operation, set[int]] = {}  # chosen since the last `finish_run`
        self._seen: dict[ir.Operation, set[int]] = {}  # of what lacks a side
        self._complete: set[ir.Operation] = set()

    def __call__(self, op: ir.Operation, operands: Arrays, results: Arrays) -> None:
        """Adds the values of the predicate of a selection or a branch to those that occurred; `operands` and `results` are the
        operation's arrays.
        """
        if (op.name == _SELECT or op.name in _BRANCHES) and op not in self._complete:
            self._new.setdefault(op, set()).update(np.unique(operands[0]).astype(int).tolist())

    def finish_run(self, is_compared: bool) -> None:
        """Ends a run of the program; the branches that it took count only if its results were compared."""
        for op, sides in self._new.items():
            seen = self._seen.setdefault(op, set())
            if is_compared:
                seen |= sides
            if len(seen) >= (2 if op.name == _SELECT else len(op.regions)):
                del self._seen[op]
                self._complete.add(op)
        self._new = {}

    @property
    def one_sided(self) -> int:
        """The number of selections and branches that were run, and of which not all sides are checked."""
        return len(self._seen)
