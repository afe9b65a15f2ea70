"""Sums over long or strided axes on an NVIDIA GPU as kernels of all threads."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.gpu.sums import FOLDS, WARPS, Sums, sums_kernel
from nabla_mlir.passes.iree.internals.dispatches import call_kernel
from nabla_mlir.passes.iree.internals.triton_sources import triton_source
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.passes.iree.regions import single_operation

PATTERNS = Patterns()
_ELEMENTS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.int32): "i32"}
# The reduction of integers 0 and 1 that replaces a reduction of booleans.
_OF_MASKS = {"stablehlo.or": "stablehlo.maximum", "stablehlo.and": "stablehlo.minimum"}


@register
@dataclass(frozen=True)
class GpuSumsAsKernelsPass(PatternPass):
    """Replace sums, maxima and minima with few results, or over an axis whose elements are not neighbours, by kernels.

    IREE 3.13 gives each result one thread: the sum of 8 x 32 x 32 x 64 numbers over all but the last axis had 64 threads, and took
    1.6 ms; the kernel takes 4 microseconds.

    Example: tests/filecheck/passes/gpu_sums_as_kernels.mlir
    """

    name: ClassVar[str] = "nabla-gpu-sums-as-kernels"
    patterns: ClassVar[Patterns] = PATTERNS
    triton: int = 0  # the compute capability of the GPU


@PATTERNS.of("stablehlo.reduce")
def sums(op: ir.Operation, target: Target) -> Replacement:
    """A slow reduction as a call of a Triton kernel; None if IREE computes it fast, or no kernel has the operation and dtype.

    It is slow because IREE gives each result one thread.
    """
    values = operands(op)
    if len(values) != 2 or not values[0].static or (name := single_operation(op.regions[0])) is None:
        return None
    x, initial = values
    dims = hlo.I64Array.decode(op.attributes["dimensions"])
    if not _is_slow(x, dims):
        return None
    if x.dtype == np.bool_ and name in _OF_MASKS:
        folded = _folded(b.convert(x, np.int32), _OF_MASKS[name], dims)
        result = None if folded is None else b.ne(folded, 0)
    else:
        result = _folded(x, name, dims)
    if result is None:
        return None
    return b.binary(name, b.broadcast(initial, result.shape, []), result)


def _is_slow(x: Val, dims: list[int]) -> bool:
    """True for a large reduction for which IREE would use few threads, or whose terms are not neighbours in memory."""
    size, results = math.prod(x.shape), math.prod(n for d, n in enumerate(x.shape) if d not in dims)
    if size < thresholds.GPU_SUM or results == 0 or size >= 2**31:
        return False
    is_strided = x.rank - 1 not in dims and x.shape[-1] > 1
    return size >= 8 * results and (is_strided or results < thresholds.GPU_SUM_RESULTS)


def _folded(x: Val, name: str, dims: list[int], may_split: bool = True) -> Val | None:
    """A reduction without its initial value, as a call of a Triton kernel; None if no kernel has the operation and dtype.

    Args:
      x: the operand.
      name: the operation that combines elements, such as stablehlo.add.
      dims: the dimensions over which x is reduced.
      may_split: True if several blocks of threads may share one result, whose parts a second kernel combines.
    """
    element = _ELEMENTS.get(x.dtype)
    if element is None or (name, element[0]) not in FOLDS:
        return None
    sums = Sums.of(x.shape, dims, element, FOLDS[name, element[0]], may_split)
    digest = hashlib.sha256(repr(sums).encode()).hexdigest()[:8]
    count, inner = sums.axes.size(sums.axes.rows), sums.axes.size(sums.axes.inner)
    label = "sum" if name == "stablehlo.add" else name.removeprefix("stablehlo.")
    kernel = f"{label}_{count}x{inner}_{element}_{digest}"
    text = triton_source(kernel, sums_kernel(kernel, sums), sums.blocks, WARPS, 2, (True, False))
    results = [n for d, n in enumerate(x.shape) if d not in dims]
    parts = [sums.splits] if sums.splits > 1 else []
    type = ir.RankedTensorType.get([*results, *parts], ir.RankedTensorType(x.value.type).element_type)
    at = ir.InsertionPoint.current.block.owner.operation
    value = Val(call_kernel(kernel, text, [x.value], [type], at)[0])
    # IREE would compute the sum of the parts in the dispatch that reads it, with one thread for each result.
    return _folded(value, name, [len(results)], may_split=False) if parts else value
