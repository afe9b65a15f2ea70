"""Short stacks as selections by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import blocks_in_functions
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class StacksAsChoicesPass(Pass):
    """Write each short stack as a selection by index, which fuses with its neighbours.

    IREE copies each part of a stack separately. 200 steps of a Runge-Kutta method on pairs (`orbit` in bench/workloads.py): 1700
    µs, and 1010 µs with selections.

    Example: tests/filecheck/passes/stacks_as_choices.mlir
    """

    name: ClassVar[str] = "nabla-stacks-as-choices"

    def run(self, module: ir.Operation) -> None:
        """Replaces short stacks in all blocks by selections, in place."""
        for block in blocks_in_functions(module):
            _choose(block)


def _choose(block: ir.Block) -> None:
    """Replaces the short concatenations of a block by selections between their parts.

    For example, concatenate(a, b) of two rows becomes select(index <= 0, a, b), where index is the number of the row.
    """
    for op in [op.operation for op in block.operations if op.operation.name == "stablehlo.concatenate"]:
        result, parts = Val(op.results[0]), [Val(v) for v in op.operands]
        dim = hlo.I64.decode(op.attributes["dimension"])
        if not result.static or not 1 < len(parts) <= thresholds.CHOSEN_PARTS or any(p.shape[dim] != 1 for p in parts):
            continue
        if math.prod(result.shape[dim + 1 :]) > thresholds.COPIED_PART:
            continue
        with ir.InsertionPoint(op), op.location:
            index = b.iota(result.shape, dim, np.int32)
            values = [
                b.broadcast(b.reshape(p, _without(p.shape, dim)), result.shape, _without(range(result.rank), dim)) for p in parts
            ]
            out = values[-1]
            for i in reversed(range(len(parts) - 1)):
                out = b.select(index <= i, values[i], out)
        op.results[0].replace_all_uses_with(out.value)
        op.erase()


def _without(items: Sequence[int], position: int) -> tuple[int, ...]:
    """The items without the one at index `position`."""
    return (*items[:position], *items[position + 1 :])
