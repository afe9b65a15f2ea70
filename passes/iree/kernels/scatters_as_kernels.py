"""Large sums of rows at given indices as kernels; IREE would compute them element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.faults.scatter import NormalForm, normal_form, window_of
from nabla_mlir.passes.iree.kernels.call import call, form_of, has_form
from nabla_mlir.passes.iree.kernels.scatter import RowSums, groups_for, scatter_text
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.passes.iree.regions import single_operation

PATTERNS = Patterns()


@register
@dataclass(frozen=True)
class ScattersAsKernelsPass(PatternPass):
    """Add many rows to the rows of an array that indices name, in a kernel: gradients of embeddings, sums over segments.

    100,000 rows of 64 numbers took 35 ms, and take 4 in the kernel, which adds whole vectors of a row and checks the range of an
    index where it reads it. A sum of few rows onto an existing array remains an update in place.

    Example: tests/filecheck/passes/scatters_as_kernels.mlir
    """

    name: ClassVar[str] = "nabla-scatters-as-kernels"
    patterns: ClassVar[Patterns] = PATTERNS
    vector_bytes: int = 64  # width of the CPU's vector registers


@PATTERNS.of("stablehlo.scatter")
def sums_of_rows(op: ir.Operation, target: Target) -> Replacement:
    """A scatter that adds rows at given indices as a call of a kernel; None for another or a small scatter.

    IREE adds one element after another, and indices out of range would also have to be clamped before.
    """
    values = operands(op)
    if len(values) != 3 or op.parent.name != "func.func" or not all(v.static for v in values):
        return None
    x, indices, updates = values
    if indices.dtype == np.uint64:  # kernels have no such type
        return None
    size = math.prod(updates.shape)
    if not has_form(x) or size < thresholds.SCATTER_AS_KERNEL or single_operation(op.regions[0]) != "stablehlo.add":
        return None
    is_onto_zeros = _is_zero(x)
    if not is_onto_zeros and size < math.prod(x.shape):
        return None
    dims = hlo.ScatterDims.decode(op.attributes["scatter_dimension_numbers"])
    window = window_of(dims, values)
    form = normal_form(op, values, dims, window)
    positions = len(form.index_map)
    if sorted(form.index_map) != list(range(positions)) or window != (*[1] * positions, *x.shape[positions:]):
        return None
    return _call(form, is_onto_zeros)


def _call(form: NormalForm, is_onto_zeros: bool) -> Val:
    """The result of the kernel that adds the rows of updates of a scatter in normal form at its indices."""
    (x,), (updates,), order = form.operands, form.updates, [form.index_map.index(d) for d in range(len(form.index_map))]
    # The columns of the indices in the order of the axes of the operand.
    columns = [b.slice_(form.indices, [0, k], [form.indices.shape[0], k + 1]) for k in order]
    indices, positions, count = b.concat(columns, 1), x.shape[: len(order)], form.indices.shape[0]
    width, rows = math.prod(x.shape[len(order) :]), math.prod(positions)
    kind = f"i{8 * indices.dtype.itemsize}"
    sums = RowSums(positions, width, count, kind, is_onto_zeros, groups_for(width, form_of(x)))
    sizes = "x".join(map(str, (*positions, width, count)))
    name = f"scatter_{'zeros_' if is_onto_zeros else ''}{sizes}_{kind}_{form_of(x).element}"
    text, results = scatter_text(name, sums, form_of(x))
    arguments = [indices, b.reshape(updates, (count, width)), *([] if is_onto_zeros else [b.reshape(x, (rows, width))])]
    (result,) = call(name, text, arguments, results)
    return b.reshape(result, x.shape)


def _is_zero(x: Val) -> bool:
    """True for a constant of zeros, or broadcasts of one."""
    maker = made_by(x.value)
    while maker is not None and maker.name == "stablehlo.broadcast_in_dim":
        maker = made_by(maker.operands[0])
    return maker is not None and maker.name == "stablehlo.constant" and hlo.constant_splat(maker) == 0
