"""Scatters for GPUs, which IREE would compute by one thread."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.aliasing import computed, copy_numbers
from nabla_mlir.passes.iree.faults.products_in_parts import sum_dtype
from nabla_mlir.passes.iree.pattern import operands
from nabla_mlir.passes.iree.regions import single_operation
from nabla_mlir.passes.iree.scheduling.split_sums import can_be_summed

_DIMS = ("scatter_dims_to_operand_dims", "inserted_window_dims", "update_window_dims")


@register
@dataclass(frozen=True)
class SumUpdatesPass(Pass):
    """Replace a scatter that adds rows by a sum for each row of the array, over all updates of that row.

    `y[m, c] = x[m, c] + sum over n of (u[n, c] if i[n] == m else 0)`. IREE 3.13 runs a scatter whose indices may be equal on one
    thread of a GPU, element by element: 50,000 rows of 64 numbers take an H100 96 ms. The sum reads each update once for each
    row, always in the same order. It is chosen where `_takes_less` estimates that it takes less time.

    Example: tests/filecheck/passes/sum_updates.mlir
    """

    name: ClassVar[str] = "nabla-sum-updates"

    def run(self, module: ir.Operation) -> None:
        """Replaces scatters that add rows by sums, in place."""
        numbers = copy_numbers(module)
        for op in nested_in_functions(module):
            if op.name != "stablehlo.scatter" or not _adds_rows(op):
                continue
            with ir.InsertionPoint(op), op.location:
                x, indices, updates = operands(op)
                op.results[0].replace_all_uses_with(_sums(x, indices, updates, numbers).value)
            op.erase()


def _adds_rows(op: ir.Operation) -> bool:
    """True if a scatter adds whole rows, and a sum takes less time."""
    values = operands(op)
    if len(values) != 3 or single_operation(op.regions[0]) != "stablehlo.add" or not all(v.static for v in values):
        return False
    if not can_be_summed(values[0].dtype):
        return False
    dims = hlo.ScatterDims.decode(op.attributes["scatter_dimension_numbers"])
    x, indices, updates = values
    window = [*range(updates.rank - x.rank + 1, updates.rank)]
    # One index selects a row: axis 0 is indexed, and the window has all other axes.
    if [[*dims[name]] for name in _DIMS] != [[0], [0], window]:
        return False
    is_whole = updates.shape[len(updates.shape) - len(window) :] == x.shape[1:]
    return is_whole and dims["index_vector_dim"] >= indices.rank - 1 and _takes_less(x, updates)


def _takes_less(x: Val, updates: Val) -> bool:
    """True if the masked sum is estimated to take less time than a scatter of `updates` onto x by one thread."""
    width = math.prod(x.shape[1:])
    count = math.prod(updates.shape) // max(width, 1)
    one_thread = count * (thresholds.SERIAL_UPDATE + thresholds.SERIAL_ELEMENT * width)
    return 0 < math.prod(x.shape) * count < one_thread * thresholds.PARALLEL_CHOICES


def _sums(x: Val, indices: Val, updates: Val, numbers: Iterator[int]) -> Val:
    """The rows of x, each plus the updates whose index is its number, as a masked sum over all updates.

    `numbers` yields a new number in each call, with which IREE is prevented from merging the values of different scatters.
    """
    rows, width, count = x.shape[0], math.prod(x.shape[1:]), math.prod(indices.shape)
    space = (count, rows, width)
    # Each scatter has its all_rows mask, because IREE would write a shared one to memory.
    updated_rows = Val(computed(b.reshape(indices, (count,)).value, next(numbers)))
    all_rows = Val(computed(b.iota((rows,), 0, updated_rows.dtype).value, next(numbers)))
    update_rows = b.broadcast(b.convert(b.reshape(updates, (count, width)), sum_dtype(x.dtype)), space, [0, 2])
    masked = b.select(b.eq(b.broadcast(updated_rows, space, [0]), b.broadcast(all_rows, space, [1])), update_rows, 0)
    return b.convert(b.convert(x, sum_dtype(x.dtype)) + b.reshape(b.reduce_sum(masked, [0]), x.shape), x.dtype)
