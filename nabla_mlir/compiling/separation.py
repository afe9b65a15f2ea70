"""Barriers around values, so that IREE does not fuse them and does not move operations across them."""

from __future__ import annotations

from collections.abc import Iterable

from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.stablehlo import BARRIERS, OPTIMIZATION_BARRIER, emit
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.table.regions import captures_of
from nabla_mlir.table.traits import CONSTANT, is_step, runs_regions


def separate_operations(module: ir.Module) -> None:
    """Passes each result in functions, loops and branches through a barrier, in place; no kernel then has two operations."""
    _put_barriers(r for op in nested(module.operation) if is_step(op) for r in op.results)


def separate_control(module: ir.Module) -> None:
    """Passes the operands, captures and results of loops and branches through barriers, in place.

    IREE 3.13 may put work before and after a branch into one part of the program ("circular dependency"). It does not if the values
    that cross the branch come from barriers.
    """
    control = [op for op in nested(module.operation) if runs_regions(op) and op.name != "func.func"]
    _put_barriers(dict.fromkeys(v for op in control for v in (*op.results, *op.operands, *captures_of(op))))


def _put_barriers(values: Iterable[ir.Value]) -> None:
    """Puts a barrier after each value, whose users then read its result: IREE computes the value at its position in the program."""
    with context(), ir.Location.unknown():
        for value in [*values]:
            owner = value.owner
            if isinstance(owner, ir.Block) or owner.name in (CONSTANT, *BARRIERS) or not is_static_tensor(value.type):
                continue
            with ir.InsertionPoint.after(owner):
                barrier = emit(OPTIMIZATION_BARRIER, [value], results=[value.type])
            value.replace_all_uses_except(barrier.results[0], barrier)
