"""Sparsity rules of operations on windows: convolutions and window reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nabla_mlir.base import thresholds
from nabla_mlir.sparsity.operands import Operand, Shape, columns_of, fitted
from nabla_mlir.sparsity.relation import Relation, union

Padding = Sequence[tuple[int, int]]


def windows(
    x: Relation,
    out: Shape,
    sizes: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    base: Sequence[int],
    dilations: Sequence[int],
) -> Relation:
    """The pattern of an array of shape `out` in which each element depends on all elements of its window of `x`.

    Args:
      x: the pattern of the operand.
      out: the shape of the result.
      sizes, strides, padding: of the windows, for each axis.
      base: the dilation of the operand.
      dilations: the dilation of the windows.
    """
    if math.prod(out) * min(x.columns, x.widest * math.prod(sizes)) > thresholds.PATTERN_ENTRIES:
        # Too many pairs: each element depends on the whole of each axis that has windows.
        wide = [a for a, size in enumerate(sizes) if size > 1]
        return x.gathered(wide).broadcast(out, [a for a in range(len(out)) if a not in wide])
    x = x.padded([lo for lo, _ in padding], [hi for _, hi in padding], [d - 1 for d in base])
    for axis, (size, dilation) in enumerate(zip(sizes, dilations, strict=True)):
        x = _cover_window(x, axis, size, dilation)
    limits = [(n - 1) * s + 1 for n, s in zip(out, strides, strict=True)]
    return x.sliced([0] * len(out), limits, strides) if all(out) else Relation.none(out, x.columns)


def _cover_window(x: Relation, axis: int, size: int, dilation: int) -> Relation:
    """The pattern in which element i of an axis depends on what elements i, i + dilation, ... depend on; `size` of them.

    Windows are built by doubling their length.
    """
    length = 1
    while length < size:
        step = min(length, size - length)
        x = x.union(_shift_down(x, axis, step * dilation))
        length += step
    return x


def _shift_down(x: Relation, axis: int, distance: int) -> Relation:
    """The pattern in which element i of an axis has the dependences of element i + distance."""
    if distance >= x.shape[axis]:
        return Relation.none(x.shape, x.columns)
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    low[axis], high[axis] = -distance, distance
    return x.padded(low, high)


def reduce_window(
    xs: Sequence[Operand],
    outs: Sequence[Shape],
    window_dimensions: Any,
    window_strides: Any,
    base_dilations: Any,
    window_dilations: Any,
    padding: Padding,
    **_: Any,
) -> list[Relation]:
    """The patterns of window reductions: a result depends on the windows of all operands, and on their initial values.

    The first half of `xs` are the operands, the second half their initial values; `outs` are the shapes of the results.
    """
    ones = (1,) * len(outs[0])
    geometry = (
        window_dimensions,
        window_strides or ones,
        padding or ((0, 0),) * len(ones),
        base_dilations or ones,
        window_dilations or ones,
    )
    count = len(xs) // 2
    parts = [windows(x.relation, outs[0], *geometry) for x in xs[:count]]
    parts += [fitted(x.relation, outs[0]) for x in xs[count:]]
    return [union(parts, shape, columns_of(xs)) for shape in outs]


def select_and_scatter(
    xs: Sequence[Operand], outs: Sequence[Shape], window_dimensions: Any, window_strides: Any, **_: Any
) -> list[Relation]:
    """The pattern of a select_and_scatter: elements mix along the axes with windows."""
    operand, source, init = (x.relation for x in xs)
    strides = window_strides or (1,) * len(outs[0])
    wide = [a for a, (n, s) in enumerate(zip(window_dimensions, strides, strict=True)) if n > 1 or s > 1]
    wide += [a for a, (m, n) in enumerate(zip(source.shape, outs[0], strict=True)) if m != n and a not in wide]
    others = [a for a in range(len(outs[0])) if a not in wide]
    parts = [x.gathered(wide).broadcast(outs[0], others) for x in (operand, source)]
    return [union([*parts, fitted(init, outs[0])], outs[0], columns_of(xs))]


def convolution(
    xs: Sequence[Operand],
    outs: Sequence[Shape],
    dimension_numbers: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    window_reversal: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> list[Relation]:
    """The pattern of a convolution: an element depends on its window in all features of its group, and on its kernel."""
    image, kernel = (x.relation for x in xs)
    lhs, rhs, out = dimension_numbers
    space = list(range(len(lhs) - 2))
    sizes = [kernel.shape[rhs.index(s)] for s in space]
    ones = (1,) * len(space)
    shape = outs[0]
    found = []
    if not image.is_empty:
        order = [lhs.index("b"), lhs.index("f"), *(lhs.index(s) for s in space)]
        x = image.transposed(order)
        batch, features = x.shape[:2]
        # Groups become separate axes: (batch groups, batch, feature groups, features, space).
        x = x.reshaped(
            (batch_group_count, batch // batch_group_count, feature_group_count, features // feature_group_count, *x.shape[2:])
        )
        x = x.gathered([3])
        spatial = tuple(shape[out.index(s)] for s in space)
        x = windows(
            x,
            (*x.shape[:3], *spatial),
            (1, 1, 1, *sizes),
            (1, 1, 1, *(window_strides or ones)),
            ((0, 0),) * 3 + tuple(padding or ((0, 0),) * len(space)),
            (1, 1, 1, *(lhs_dilation or ones)),
            (1, 1, 1, *(rhs_dilation or ones)),
        )
        groups = batch_group_count * feature_group_count
        x = x.transposed([1, 0, 2, *range(3, 3 + len(space))])
        per_group = shape[out.index("f")] // groups
        wide = (*x.shape[:3], per_group, *spatial)
        x = x.broadcast(wide, [0, 1, 2, *range(4, 4 + len(space))])
        found.append(_order_axes(x.reshaped((x.shape[0], shape[out.index("f")], *spatial)), out, space))
    if not kernel.is_empty:
        y = kernel.gathered([rhs.index(s) for s in space] + [rhs.index("i")])
        found.append(y.broadcast(shape, [out.index("f")]))
    return [union(found, shape, columns_of(xs))]


def _order_axes(x: Relation, out: Sequence[Any], space: Sequence[int]) -> Relation:
    """The pattern of (batch, feature, *space) with its axes in the order of the dimension numbers `out`."""
    order: list[Any] = ["b", "f", *space]
    return x.transposed([order.index(d) for d in out])
