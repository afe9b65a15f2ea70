"""Programs that are run by NumPy at once, since to compile them would take longer than all their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.compiling.estimates import estimate
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.errors import RuleMissingError
from nabla_mlir.interpreter import Function, interpreted
from nabla_mlir.runtime.array import Array


class Immediate:
    """A function of arrays that NumPy runs, with the results in arrays of the host."""

    def __init__(self, function: Function):
        self.function = function

    def __call__(self, inputs: Sequence[Any], *_: Any) -> list[Array]:
        return [Array.from_numpy(y) for y in self.function([np.asarray(x) for x in inputs])]


def immediate(module: ir.Module, name: str) -> Immediate | None:
    """A lowered function as NumPy runs it; None if it is much work, or has an operation that the interpreter does not know.

    Args:
      module: of plain StableHLO.
      name: the function's.
    """
    cost = estimate(functions_of(module.operation)[name])
    if cost.shared + cost.serial > thresholds.IMMEDIATE or cost.dispatches > thresholds.IMMEDIATE_STEPS:
        return None
    try:
        return Immediate(interpreted(module.operation, name))
    except RuleMissingError:
        return None
