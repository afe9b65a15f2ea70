"""Sums of rows at given indices on an NVIDIA GPU as kernels of all threads; IREE computes a scatter with one thread."""

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
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.faults.scatter import normal_form, window_of
from nabla_mlir.passes.iree.gpu import row_sums
from nabla_mlir.passes.iree.gpu.row_sums import INFINITY, INVALID, NEGATIVE, POSITIVE, WARPS, RowSums
from nabla_mlir.passes.iree.internals.dispatches import call_kernel
from nabla_mlir.passes.iree.internals.triton_sources import triton_source
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.passes.iree.regions import single_operation

PATTERNS = Patterns()
_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@register
@dataclass(frozen=True)
class GpuScattersAsKernelsPass(PatternPass):
    """Add rows to the rows of an array that indices name, in kernels in Triton's dialect, with the same bits in every call.

    Gradients of embeddings and sums over segments are such sums. IREE 3.13 computes them one after another: a graph network with
    50,000 edges took 56 ms, and takes 2.

    Example: tests/filecheck/passes/gpu_scatters_as_kernels.mlir
    """

    name: ClassVar[str] = "nabla-gpu-scatters-as-kernels"
    patterns: ClassVar[Patterns] = PATTERNS
    triton: int = 0  # the compute capability of the GPU


@PATTERNS.of("stablehlo.scatter")
def sums_of_rows(op: ir.Operation, target: Target) -> Replacement:
    """A scatter that adds rows as calls of kernels, or None if it has another form, or is small.

    IREE would compute a scatter with one thread.
    """
    values = operands(op)
    if len(values) != 3 or not all(v.static for v in values) or single_operation(op.regions[0]) != "stablehlo.add":
        return None
    x, indices, updates = values
    is_float, is_integer = x.dtype in _FLOATS or x.dtype.name == "bfloat16", x.dtype in (np.int32, np.int64)
    if not (is_float or is_integer) or indices.dtype not in (np.int32, np.int64):
        return None
    size = math.prod(updates.shape)
    if size < thresholds.GPU_SCATTER or size * thresholds.GPU_SCATTER_REST < math.prod(x.shape):
        return None
    dims = hlo.ScatterDims.decode(op.attributes["scatter_dimension_numbers"])
    window = window_of(dims, values)
    form = normal_form(op, values, dims, window)
    count = len(form.index_map)
    if sorted(form.index_map) != list(range(count)) or window != (*[1] * count, *x.shape[count:]):
        return None
    order = [form.index_map.index(d) for d in range(count)]
    columns = [b.slice_(form.indices, [0, k], [form.indices.shape[0], k + 1]) for k in order]
    index = b.concat(columns, 1)
    width = math.prod(x.shape[count:])
    sums = RowSums(x.shape[:count], width, index.shape[0], f"i{8 * index.dtype.itemsize}")
    rows = b.reshape(form.updates[0], (sums.count, width))
    flat = (math.prod(sums.positions), width)
    base = b.reshape(form.operands[0], flat)
    if is_integer:
        result = _call("integers", sums, [index, rows], base)
    else:
        result = b.convert(_float_sums(sums, index, b.convert(rows, np.float32), b.convert(base, np.float32)), x.dtype)
    return b.reshape(result, x.shape)


def _float_sums(sums: RowSums, index: Val, rows: Val, base: Val) -> Val:
    """The array `base` plus the sums of `rows` at the index vectors `index`; the bits do not depend on the order of addition.

    The sums are sums of integers: fixed-point numbers, scaled by the largest number. Bits of the sum mark NaN and infinities.
    """
    largest = _call("largest", sums, [index, rows], b.full(0, base.shape, np.int32))
    total = _call("fixed", sums, [index, rows, largest], b.full(0, base.shape, np.int64))
    # The bits of the float 2^(exponent of the largest number - exponent(sums)), which is the value of the last digit.
    power = b.convert((largest >> 23) - (row_sums.exponent(sums) - 1023), np.int64)
    scale = b.bitcast(power << 52, np.float64)
    finite = b.convert(total, np.float64) * scale
    is_nan = b.ne(total & INVALID, 0) | b.eq(total & (POSITIVE | NEGATIVE), POSITIVE | NEGATIVE)
    infinite = b.select(b.eq(total, POSITIVE), b.splat(np.inf, finite), b.splat(-np.inf, finite))
    special = b.select(is_nan, b.splat(np.nan, finite), infinite)
    result = b.select(largest < INFINITY, finite, special) + b.convert(base, np.float64)
    return b.convert(result, np.float32)


def _call(kind: str, sums: RowSums, arguments: list[Val], onto: Val) -> Val:
    """The array `onto`, updated in place by the kernel `kind`, a function of row_sums.py; the kernel only reads `arguments`."""
    sizes = "x".join(map(str, (*sums.positions, sums.width, sums.count)))
    element = str(ir.RankedTensorType(onto.value.type).element_type)
    name = f"row_sums_{kind}_{sizes}_{sums.index}_{element}"
    write = getattr(row_sums, kind)
    body = write(name, sums, element) if kind == "integers" else write(name, sums)
    read_only = (*[True] * len(arguments), False)
    text = triton_source(name, body, sums.blocks, WARPS, 1, read_only)
    at = ir.InsertionPoint.current.block.owner.operation
    values = [v.value for v in arguments]
    return Val(call_kernel(name, text, values, [onto.value.type], at, onto=onto.value)[0])
