"""Convolutions that IREE computes wrongly or refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.types import is_narrow, tensor_type
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, attributes_of, on_signed_numbers, operands

PATTERNS = Patterns()

F32 = np.dtype(np.float32)


@PATTERNS.of("stablehlo.convolution")
def unsigned(op: ir.Operation, target: Target) -> Replacement:
    """A convolution of unsigned integers on signed integers with the same bits, because IREE does not compile it."""
    return on_signed_numbers(op)


@PATTERNS.of("stablehlo.convolution")
def convolution(op: ir.Operation, target: Target) -> Replacement:
    """A convolution in another form: in f32, of a padded operand, with a reversed kernel, or one convolution for each group.

    The result is None if no fault of IREE applies. The faults: narrow floats are rounded after every addition, and a
    convolution of them with one kernel for each channel is refused. On Vulkan the results of grouped convolutions are zero. A
    depthwise kernel is not reversed by window_reversal, other tiles for a GPU are not either, and a kernel whose length is a
    multiple of a tile does not compile; so kernels are reversed before the convolution. A convolution with complex padding
    crashes the compiler; so complex values are padded before the convolution.
    """
    x, kernel = operands(op)
    result = Val(op.results[0])
    attributes = attributes_of(op)
    if result.dtype.kind == "c" and x.static:
        x = _padded(x, attributes)
        if x.value != op.operands[0]:
            return Val(b.make(op.name, [x, kernel], [op.results[0].type], attributes).results[0])
    is_refused = _has_one_kernel_for_each_channel(x, kernel, attributes)
    # Without narrow_convolutions IREE chooses a wrong tile shape. Barriers are needed: it would fuse the conversions.
    if is_narrow(x.dtype) and (is_refused or not target.narrow_convolutions):
        wide = [b.stored(b.convert(v, F32)) for v in (x, kernel)]
        wide_op = b.make(op.name, wide, [b.like(result, F32)], attributes)
        return b.convert(Val(wide_op.results[0]), result.dtype)
    if is_narrow(result.dtype):
        wide_op = b.make(op.name, [x, kernel], [b.like(result, F32)], attributes)
        return b.convert(Val(wide_op.results[0]), result.dtype)
    reversed_axes = (
        [k for k, r in enumerate(hlo.BoolArray.decode(attributes["window_reversal"])) if r]
        if "window_reversal" in attributes
        else []
    )
    positions = hlo.ConvDims.decode(attributes["dimension_numbers"])[1]
    is_long = kernel.static and any(kernel.shape[positions.index(k)] > thresholds.PATCH_WINDOW for k in reversed_axes)
    is_grouped = hlo.I64.decode(attributes["feature_group_count"]) > 1
    if reversed_axes and (is_long or is_grouped or not target.reversed_windows):
        kernel = b.reverse(kernel, [positions.index(k) for k in reversed_axes])
        kernel = b.stored(kernel) if is_long else kernel
        attributes["window_reversal"] = hlo.BoolArray.encode([False] * (len(positions) - 2))
        return Val(b.make(op.name, [x, kernel], [op.results[0].type], attributes).results[0])
    if target.grouped_convolutions or not x.static:
        return None
    lhs, rhs, out = hlo.ConvDims.decode(attributes["dimension_numbers"])
    groups = hlo.I64.decode(attributes["feature_group_count"])
    batches = hlo.I64.decode(attributes["batch_group_count"])
    depthwise = groups == x.shape[lhs.index("f")]
    count = max(groups, batches)
    if count == 1 or (depthwise and batches == 1):
        return None
    attributes |= {name: hlo.I64.encode(1) for name in ("feature_group_count", "batch_group_count")}
    split_axis = lhs.index("f" if groups > 1 else "b")
    feature_axis = out.index("f")
    parts = []
    for i in range(count):
        left = _part(x, split_axis, i, count)
        right = _part(kernel, rhs.index("o"), i, count)
        shape = [s // count if d == feature_axis else s for d, s in enumerate(result.shape)]
        parts.append(Val(b.make(op.name, [left, right], [tensor_type(shape, result.dtype)], attributes).results[0]))
    return b.concat(parts, feature_axis)


def _has_one_kernel_for_each_channel(x: Val, kernel: Val, attributes: dict[str, ir.Attribute]) -> bool:
    """True if each channel of `x` has its own kernel and becomes one channel."""
    lhs, rhs, _ = hlo.ConvDims.decode(attributes["dimension_numbers"])
    groups = hlo.I64.decode(attributes["feature_group_count"])
    return groups > 1 and groups == x.shape[lhs.index("f")] == kernel.shape[rhs.index("o")]


def _padded(x: Val, attributes: dict[str, ir.Attribute]) -> Val:
    """The operand of a convolution, padded at the edges and between elements; the padding is removed from `attributes`."""
    positions = hlo.ConvDims.decode(attributes["dimension_numbers"])[0]
    spatial = [positions.index(k) for k in range(x.rank - 2)]
    amounts = {"padding": hlo.Padding, "lhs_dilation": hlo.I64Array}
    params = {name: codec.decode(attributes.pop(name)) for name, codec in amounts.items() if name in attributes}
    low, high, interior = ([0] * x.rank for _ in range(3))
    for k, d in enumerate(spatial):
        low[d], high[d] = params.get("padding", [(0, 0)] * x.rank)[k]
        interior[d] = params.get("lhs_dilation", [1] * x.rank)[k] - 1
    return b.pad(x, low, high, interior)


def _part(x: Val, dim: int, i: int, count: int) -> Val:
    """Part number i of `count` equal parts of x along a dimension."""
    size = x.shape[dim] // count
    return b.cut(x, dim, i * size, (i + 1) * size)


@register
@dataclass(frozen=True)
class LegalizeConvolutionsPass(PatternPass):
    """Rewrite the convolutions that IREE computes wrongly or refuses.

    These are convolutions of unsigned and narrow numbers, of complex numbers with padding, with a reversed kernel, and in
    groups on Vulkan.

    Example: tests/filecheck/passes/legalize_convolutions.mlir
    """

    name: ClassVar[str] = "nabla-legalize-convolutions"
    patterns: ClassVar[Patterns] = PATTERNS
