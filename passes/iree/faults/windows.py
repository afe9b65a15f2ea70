"""Windows that IREE refuses, computes on the stack, or selects from wrongly."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, select
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.ops.reduction import COMBINERS, identity_of
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, attributes_of, operands
from nabla_mlir.passes.iree.regions import apply_elementwise, is_elementwise, single_operation

PATTERNS = Patterns()


_TRUTH = {"or": "maximum", "add": "maximum", "maximum": "maximum", "and": "minimum", "multiply": "minimum", "minimum": "minimum"}


@PATTERNS.of("stablehlo.reduce_window")
def windows_of_other_numbers(op: ir.Operation, target: Target) -> Replacement:
    """Windows of truth values and unsigned integers on signed integers; None for others. IREE does not compile cumulative ones.

    Truth values become 32-bit integers. Unsigned integers become signed integers of the same width; flipping the first bit gives
    them the same order.
    """
    body = single_operation(op.regions[0])
    if len(op.operands) != 2 or body is None:
        return None
    values, result = operands(op), Val(op.results[0])
    kind, combiner = result.dtype.kind, body.removeprefix("stablehlo.")
    if kind == "b" and combiner in _TRUTH:
        return b.ne(_windows(op, [b.convert(v, np.int32) for v in values], f"stablehlo.{_TRUTH[combiner]}"), 0)
    if kind != "u":
        return None
    signed = np.dtype(f"i{result.dtype.itemsize}")
    first = int(np.iinfo(signed).min) if combiner in ("maximum", "minimum") else 0
    in_order = lambda v: b.binary("stablehlo.xor", v, first) if first else v  # noqa: E731
    return b.bitcast(in_order(_windows(op, [in_order(b.bitcast(v, signed)) for v in values], body)), result.dtype)


def _windows(op: ir.Operation, values: Sequence[Val], body: str, **changes: ir.Attribute) -> Val:
    """The result of the window operation `op` on other values, with the operation `body` as body and some changed attributes."""
    attributes = attributes_of(op) | changes
    window_op = b.make(op.name, values, [b.like(Val(op.results[0]), values[0].dtype)], attributes, regions=1)
    b.fill_region(window_op.regions[0], [values[1].type] * 2, lambda x, y: b.binary(body, x, y))
    return Val(window_op.results[0])


@PATTERNS.of("stablehlo.reduce_window")
def initial_value_of_a_scan(op: ir.Operation, target: Target) -> Replacement:
    """A cumulative window whose initial value is not neutral, as two that start with the neutral element; None for others.

    IREE ignores the initial value, and starts the scan with the neutral element. The padding consists of initial values, too: one
    more scan, over an array of initial values in reverse direction, computes its share. So the result combines two scans that start
    with the neutral element.
    """
    body = single_operation(op.regions[0])
    x, result = Val(op.operands[0]), Val(op.results[0])
    record_name = {name: record_name for record_name, name in COMBINERS.items()}.get(body or "")
    if body is None or record_name is None or len(op.operands) != 2:
        return None
    if not x.static or result.dtype.kind in "bc" or x.shape != result.shape:
        return None
    window = _spatial(x.rank, op.attributes, "window_dimensions")
    padding = hlo.Padding.decode(op.attributes["padding"]) if "padding" in op.attributes else ((0, 0),) * x.rank
    axes = [d for d, w in enumerate(window) if w > 1]
    if len(axes) != 1 or window[axes[0]] != x.shape[axes[0]]:
        return None
    if sum(padding[axes[0]]) != window[axes[0]] - 1 or 0 not in padding[axes[0]]:
        return None
    neutral = identity_of(record_name, x.dtype)
    initial = Val(op.operands[1])
    maker = made_by(initial.value)
    if maker is not None and maker.name == "stablehlo.constant" and hlo.constant_splat(maker) == neutral:
        return None
    start = b.full(neutral, (), x.dtype)
    opposite = hlo.Padding.encode([(high, low) for low, high in padding])
    return b.binary(
        body, _windows(op, [x, start], body), _windows(op, [b.broadcast(initial, x.shape, []), start], body, padding=opposite)
    )


@PATTERNS.of("stablehlo.reduce_window")
def complex_windows(op: ir.Operation, target: Target) -> Replacement:
    """Windows of complex numbers that are padded before, by parts; None for others. IREE does not compile padded complex128."""
    if len(op.operands) != 2 or Val(op.operands[0]).dtype.kind != "c" or not Val(op.operands[0]).static:
        return None
    x, initial = operands(op)
    padding = hlo.Padding.decode(op.attributes["padding"]) if "padding" in op.attributes else [(0, 0)] * x.rank
    low, high = zip(*padding, strict=True)
    interior = [n - 1 for n in _spatial(x.rank, op.attributes, "base_dilations")]
    if not any([*low, *high, *interior]):
        return None
    padded = b.complex_(*(b.pad(part(x), low, high, interior, part(initial)) for part in (b.real, b.imag)))
    copy = b.copy(op, [padded, initial])
    for name in {"padding", "base_dilations"} & set(attributes_of(op)):
        del copy.attributes[name]
    return Val(copy.results[0])


@PATTERNS.of("stablehlo.reduce_window")
def separate_windows(op: ir.Operation, target: Target) -> Replacement:
    """Windows that do not overlap as a reduction, or their transpose as a broadcast; None for other windows.

    If IREE fuses windows with the computation of their operand, they overflow the stack of a CPU. For example, windows of 2x2 in
    8x8 become a reduction of 4x2x4x2 over its second and last axis. The transpose of such windows repeats elements.
    """
    x = Val(op.operands[0])
    body = single_operation(op.regions[0])
    if len(op.operands) != 2 or not x.static or body is None:
        return None
    window, strides, dilation, base_dilation = (
        _spatial(x.rank, op.attributes, name)
        for name in ("window_dimensions", "window_strides", "window_dilations", "base_dilations")
    )
    padding = hlo.Padding.decode(op.attributes["padding"]) if "padding" in op.attributes else ((0, 0),) * x.rank
    # Each axis with a window becomes two axes, (windows, elements of a window); these are the second ones.
    parts = [part for w in window for part in (("window", "offset") if w > 1 else ("window",))]
    offsets = [d for d, part in enumerate(parts) if part == "offset"]
    ones = [1] * x.rank
    if (strides, dilation, base_dilation) == (window, ones, ones) and not any(map(any, padding)):
        if any(n % w for n, w in zip(x.shape, window, strict=True)):
            return None
        shape = [m for n, w in zip(x.shape, window, strict=True) for m in ((n // w, w) if w > 1 else (n,))]
        return b.reduce([b.reshape(x, shape)], [Val(op.operands[1])], offsets, lambda y, z: b.binary(body, y, z))[0]
    initial = made_by(op.operands[1])
    is_sum = body == "stablehlo.add" and initial is not None and initial.name == "stablehlo.constant"
    if not is_sum or hlo.constant_splat(initial) != 0:
        return None
    if (strides, dilation, base_dilation) == (ones, ones, window) and all(
        p == (w - 1,) * 2 for p, w in zip(padding, window, strict=True)
    ):
        shape = [m for n, w in zip(x.shape, window, strict=True) for m in ((n, w) if w > 1 else (n,))]
        positions = [d for d in range(len(shape)) if d not in offsets]
        return b.reshape(b.broadcast(x, shape, positions), [n * w for n, w in zip(x.shape, window, strict=True)])
    return None


@PATTERNS.of("stablehlo.select_and_scatter")
def select_and_scatter(op: ir.Operation, target: Target) -> Replacement:
    """A select_and_scatter as selections between strided slices, one slice for each offset in the window.

    IREE does not compile overlapping windows, and selects the last of equal elements, not the first. For each offset in the window,
    a strided slice holds the elements at that offset. A running selection finds the selected offset of each window, and the source
    is added through the transpose of that slice.
    """
    x, source, initial = operands(op)
    rank = x.rank
    window = _spatial(rank, op.attributes, "window_dimensions")
    strides = _spatial(rank, op.attributes, "window_strides")
    padding = hlo.Padding.decode(op.attributes["padding"]) if "padding" in op.attributes else ((0, 0),) * rank
    choose, combine = op.regions
    if not (is_elementwise(choose) and is_elementwise(combine)):
        raise RuleMissingError(f"stablehlo.select_and_scatter requires elementwise bodies, got {op.location}.")
    offsets = list(itertools.product(*(range(w) for w in window)))

    def view(v: Val, offset: Sequence[int]) -> Val:
        """The elements of v at one offset in each window: a strided slice."""
        limits = [o + (n - 1) * s + 1 for o, n, s in zip(offset, source.shape, strides, strict=True)]
        return b.slice_(v, offset, limits, strides)

    position = _selected(x, padding, [functools.partial(view, offset=offset) for offset in offsets], choose)
    result = b.broadcast(initial, x.shape, [])
    adds = single_operation(combine) == "stablehlo.add"
    for i, offset in enumerate(offsets):
        is_selected = b.eq(position, i)
        low = [o - p[0] for o, p in zip(offset, padding, strict=True)]
        inner = [s - 1 for s in strides]
        extents = [(n - 1) * s + 1 for n, s in zip(source.shape, strides, strict=True)]
        high = [d - u - lo for d, u, lo in zip(x.shape, extents, low, strict=True)]
        update = b.pad(select(is_selected, source, 0), low, high, inner)
        if adds:
            result = result + update
        else:
            mask = b.pad(is_selected, low, high, inner, value=False)
            result = select(mask, apply_elementwise(combine, [result, update])[0], result)
    return result


def _selected(x: Val, padding: Sequence[tuple[int, int]], views: Sequence[Callable[[Val], Val]], choose: ir.Region) -> Val:
    """The index of the element that `choose` selects in each window; `views[i]` returns element i of all windows.

    The elements of the padding, given by its sizes before and after each axis, are never selected.
    """
    padded = b.pad(x, [p[0] for p in padding], [p[1] for p in padding])
    inside = _inside(x.shape, padding) if any(p != (0, 0) for p in padding) else None
    best = views[0](padded)
    position, is_found = b.full(0, best.shape, np.int32), None if inside is None else views[0](inside)
    for i, view in enumerate(views[1:], start=1):
        value = view(padded)
        keep = apply_elementwise(choose, [best, value])[0]
        if is_found is not None and inside is not None:  # padding is never selected
            valid = view(inside)
            keep = (keep & is_found) | ~valid
            is_found = is_found | valid
        best = select(keep, best, value)
        position = select(keep, position, i)
    return position


def _inside(shape: Sequence[int], padding: Sequence[tuple[int, int]]) -> Val:
    """An array of booleans in the shape of the padded operand: True for elements of the operand, False in the padding."""
    return b.pad(b.full(True, shape, b.BOOL), [p[0] for p in padding], [p[1] for p in padding], value=False)


def _spatial(count: int, attributes: ir.OpAttributeMap, name: str, default: int = 1) -> list[int]:
    """The list of numbers in an attribute, one for each axis; `count` times the default if the attribute is missing."""
    return list(attributes[name]) if name in attributes else [default] * count
