"""Reductions over sliding windows.

Windows are reduced axis by axis, the last axis first, which preserves the order of the elements. Along one axis,
windows are combined from strided slices; wide windows by doubling, so a cumulative operation over n elements needs
about log(n) operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import I64Array, Padding
from nabla_mlir.ops.logic import compare, select
from nabla_mlir.ops.reduction import apply_body, combine, emit_combiner, expand_scalar, identity_of, read_combiner
from nabla_mlir.ops.shape import pad, reshape, sliced
from nabla_mlir.sparsity import windows as patterns
from nabla_mlir.table.batching import all_prefixed, batch_by_decomposition
from nabla_mlir.table.forward import jvp_by_decomposition
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import OpDef, Params, add_any
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, booleans
from nabla_mlir.table.tensor import Tensor, full, full_like, splat_of

Shape = tuple[int, ...]
Values = list[Tensor]
Combine = Callable[[Values, Values], Values]
FEW = 8  # windows of up to this many elements are combined from one slice per element

_GEOMETRY = ("window_strides", "base_dilations", "window_dilations", "padding")


def spread(n: int, dilation: int) -> int:
    """The extent of n elements with a distance of `dilation` between neighbours."""
    return 0 if n == 0 else (n - 1) * dilation + 1


def positions(n: int, window: int, stride: int, dilation: int = 1) -> int:
    """The number of windows that fit into n elements."""
    return 0 if n < spread(window, dilation) or n == 0 else (n - spread(window, dilation)) // stride + 1


def geometry_of(op: ir.Operation) -> Params:
    """Default strides, dilations and padding for the attributes that a window operation does not have."""
    rank = len(I64Array.decode(op.attributes["window_dimensions"]))
    trivial: Params = dict.fromkeys(_GEOMETRY[:3], (1,) * rank) | {"padding": ((0, 0),) * rank}
    return {name: value for name, value in trivial.items() if name not in op.attributes}


# ---------------------------------------------------------------- folding windows


def padded(x: Tensor, value: Tensor, base_dilations: Shape, padding: Sequence[tuple[int, int]]) -> Tensor:
    """The array with `value` between and around its elements; `x` itself if there is no padding."""
    if not any(low or high for low, high in padding) and all(d == 1 for d in base_dilations):
        return x
    low, high = zip(*padding, strict=True)
    return pad(x, value, edge_padding_low=low, edge_padding_high=high, interior_padding=tuple(d - 1 for d in base_dilations))


def fold(values: Values, windows: Shape, strides: Shape, dilations: Shape, join: Combine) -> Values:
    """Combines each window of `values` (which are padded already) into one element by `join`; returns the arrays of these elements.

    `windows`, `strides` and `dilations` have one number for each axis. `join` combines two lists of arrays, element by element.
    """
    for axis in reversed(range(len(windows))):
        window, stride, dilation = windows[axis], strides[axis], dilations[axis]
        if window > 1 or stride > 1:
            values = _fold_axis(values, axis, window, stride, dilation, join)
    return values


def _fold_axis(values: Values, axis: int, window: int, stride: int, dilation: int, join: Combine) -> Values:
    """The windows along one axis of the arrays `values`, each combined by `join`: element by element, separately, or by
    doubling.
    """
    count = positions(values[0].shape[axis], window, stride, dilation)
    if count == 0:
        return [_select_along(v, axis, 0, 0) for v in values]
    if window <= FEW:
        return _join_tree([[_select_along(v, axis, k * dilation, count, stride) for v in values] for k in range(window)], join)
    if dilation == 1 and (count == 1 or stride >= window):
        return _fold_separately(values, axis, count, window, stride, join)
    return _fold_wide(values, axis, count, window, stride, dilation, join)


def _select_along(x: Tensor, axis: int, start: int, count: int, stride: int = 1) -> Tensor:
    """Selects `count` elements along one axis, with a distance of `stride`."""
    return sliced(x, axis, start, start + spread(count, stride), stride)


def _join_tree(items: list[Values], join: Combine) -> Values:
    """The items, lists of arrays, joined pairwise by `join` until one is left."""
    while len(items) > 1:
        pairs = [join(a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = pairs + items[2 * len(pairs) :]
    return items[0]


def _fold_separately(values: Values, axis: int, count: int, window: int, stride: int, join: Combine) -> Values:
    """Combines `count` windows along `axis` that do not overlap; returns the arrays of their results.

    Each window becomes a row of a new axis, which is halved until one element is left. `values` are arrays of one shape, and `join`
    combines two lists of arrays elementwise.
    """
    stride = max(stride, window) if count > 1 else window
    rows = []
    for v in values:
        v = _select_along(v, axis, 0, (count - 1) * stride + window)
        missing = [(0, stride - window if a == axis else 0) for a in range(v.ndim)]
        v = padded(v, full((), 0, v.dtype), (1,) * v.ndim, missing)
        rows.append(reshape(v, shape=(*v.shape[:axis], count, stride, *v.shape[axis + 1 :])))
    n, rest, leftovers = window, [_select_along(v, axis + 1, 0, window) for v in rows], []
    while n > 1:
        half = n // 2
        if n % 2:  # the last element is joined after the others are reduced
            leftovers.append([_select_along(v, axis + 1, n - 1, 1) for v in rest])
        even, odd = ([_select_along(v, axis + 1, k, half, 2) for v in rest] for k in (0, 1))
        rest, n = join(even, odd), half
    for last in reversed(leftovers):
        rest = join(rest, last)
    return [reshape(v, shape=(*v.shape[: axis + 1], *v.shape[axis + 2 :])) for v in rest]


def _fold_wide(values: Values, axis: int, count: int, window: int, stride: int, dilation: int, join: Combine) -> Values:
    """Combines `count` wide windows along `axis` by doubling: `run` holds at each index the combination of the next `length`
    elements.

    A window is composed of runs of lengths 1, 2, 4, ...: the ones among the bits of its size. Example: 13 elements are 1 + 4 + 8.
    `values` are arrays of one shape, and `join` combines two lists of arrays elementwise.
    """
    run, length, offset, total = values, 1, 0, None
    while True:
        if window & length:
            part = [_select_along(v, axis, offset * dilation, count, stride) for v in run]
            total = part if total is None else join(total, part)
            offset += length
        if offset == window:
            assert total is not None
            return total
        rest = run[0].shape[axis] - length * dilation
        run = join([_select_along(v, axis, 0, rest) for v in run], [_select_along(v, axis, length * dilation, rest) for v in run])
        length *= 2


def folded(
    xs: Sequence[Tensor],
    *,
    window_dimensions: Shape,
    window_strides: Shape,
    base_dilations: Shape,
    window_dilations: Shape,
    padding: Any,
    body: Any,
) -> Values:
    """The results of `reduce_window`, by slices and by the body on whole arrays; `xs` are the arrays, then their initial values.

    `body` is a name such as "add", or a region.
    """
    count = len(xs) // 2
    inits = list(xs[count:])
    values = [padded(x, i, base_dilations, padding) for x, i in zip(xs[:count], inits, strict=True)]
    join = lambda low, high: combine(body, low, high)  # noqa: E731
    values = fold(values, window_dimensions, window_strides, window_dilations, join)
    if isinstance(body, str) and splat_of(inits[0]) == identity_of(body, inits[0].dtype):
        return values
    return join([expand_scalar(i, v) for i, v in zip(inits, values, strict=True)], values)


# ---------------------------------------------------------------- reduce_window


def _result(*xs: Tensor, window_dimensions: Shape, body: Any, **geometry: Any) -> list[Any]:
    """The shape and dtype of each result of a window reduction; `xs` are the arrays, then their initial values."""
    count = len(xs) // 2
    strides, bases, dilations, around = (geometry[name] for name in _GEOMETRY)
    shape = tuple(
        positions(spread(n, b) + sum(p), w, s, d)
        for n, w, s, b, d, p in zip(xs[0].shape, window_dimensions, strides, bases, dilations, around, strict=True)
    )
    return [(shape, i.dtype) for i in xs[count:]]


def _jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, body: Any, **params: Any) -> Sequence[MaybeZero]:
    """The tangents of a window reduction: a sum, the tangent of the selected element, or those of its decomposition.

    `xs` are the arrays, then their initial values, and `body` is a name such as "add", or a region. `outs` are the results.
    """
    count = len(xs) // 2
    if all(isinstance(t, Zero) for t in tangents) or body in ("and", "or", "xor"):
        return [ZERO] * count
    if count == 1 and body == "add":
        return [_sum_tangent(xs, tangents, params)]
    if count == 1 and body in ("max", "min") and isinstance(tangents[1], Zero) and isinstance(tangents[0], Tensor):
        return [_extremum_tangent(xs, tangents[0], body, params)]
    return jvp_by_decomposition(folded)(outs, xs, tangents, body=body, **params)


def _sum_tangent(xs: Sequence[Tensor], tangents: Sequence[MaybeZero], params: Params) -> MaybeZero:
    """The tangent of a sum over windows; `tangents` are those of the array and the initial value, `params` those of the
    operation.
    """
    (x, _), (t, t_init) = xs, tangents
    total: MaybeZero = ZERO
    if not isinstance(t, Zero):
        total = reduce_window(t, full((), 0, t.dtype), body="add", **params)
    if isinstance(t_init, Zero):
        return total
    # The initial value is also the padding: it counts once, and once more for each position of the window in the padding.
    counts = reduce_window(full_like(x, 1), full((), 0, x.dtype), body="add", **params)
    entries = full_like(counts, 1 + int(np.prod(params["window_dimensions"]))) - counts
    return add_any(total, expand_scalar(t_init, counts) * entries)


def _extremum_tangent(xs: Sequence[Tensor], t: Tensor, body: str, params: Params) -> Tensor:
    """The tangent of each window's extremum ("max" or "min"): the tangent in `t` of the first element of xs[0] that attains it."""
    x, init = xs
    wins = "GE" if body == "max" else "LE"
    values = [
        padded(x, init, params["base_dilations"], params["padding"]),
        padded(t, full((), 0, t.dtype), params["base_dilations"], params["padding"]),
    ]
    join = chooser(wins)
    values = fold(values, params["window_dimensions"], params["window_strides"], params["window_dilations"], join)
    if splat_of(init) != identity_of(body, init.dtype):
        values = join([expand_scalar(init, values[0]), full_like(values[1], 0)], values)  # type: ignore[list-item]
    return values[1]


def chooser(wins: Any) -> Combine:
    """A function of two lists of values that returns one of them: the list whose first value wins.

    If both win, it returns the first list. `wins` is the direction of a comparison, or a body.
    """

    def join(low: Values, high: Values) -> Values:
        first = holds(wins, low[0], high[0])
        return [select(first, a, b) for a, b in zip(low, high, strict=True)]

    return join


def holds(wins: Any, a: Tensor, b: Tensor) -> Tensor:
    """A mask: True where `a` wins against `b`. `wins` is the direction of a comparison, or a body."""
    if isinstance(wins, str):
        return compare(a, b, comparison_direction=wins)
    arguments = [reshape(v, shape=(v.size,)) for v in (a, b)]
    return reshape(apply_body(wins, arguments, a.size)[0], shape=a.shape)


def _transpose(
    cts: Tensors,
    i: int,
    xs: Tensors,
    *,
    body: Any,
    window_dimensions: Shape,
    window_strides: Shape,
    base_dilations: Shape,
    window_dilations: Shape,
    padding: Any,
) -> MaybeZero:
    """The cotangent of the operand xs[0] of a window sum: for each element, the sum of the cotangents of the windows that contain
    it.

    That is a window sum of the dilated cotangent. `cts` are the cotangents of the results.
    """
    ct, x = cts[0], xs[0]
    if 0 in (ct.size, x.size):
        return full_like(x, 0)
    new_padding = []
    for k, window in enumerate(window_dimensions):
        extent = spread(window, window_dilations[k])
        low = extent - 1 - padding[k][0]
        room = spread(x.shape[k], base_dilations[k]) + extent - 1
        new_padding.append((low, room - spread(ct.shape[k], window_strides[k]) - low))
    return reduce_window(
        ct,
        full((), 0, ct.dtype),
        body="add",
        window_dimensions=window_dimensions,
        window_strides=base_dilations,
        base_dilations=window_strides,
        window_dilations=window_dilations,
        padding=tuple(new_padding),
    )


def prefixed_geometry(params: Params) -> Params:
    """The parameters of the same windows, with one more leading axis that has windows of size 1."""
    return {k: v if k in ("body", "select", "scatter") else ((0, 0), *v) if k == "padding" else (1, *v) for k, v in params.items()}


def _batch(xs: Tensors, mapped: Sequence[bool], size: int, **params: Any) -> Sequence[Tensor]:
    """The window reduction for all `size` entries of a map: the mapped axis is one more axis with windows of size 1.

    `mapped` is True for each operand that has this axis first.
    """
    count = len(xs) // 2
    if any(mapped[count:]):
        return batch_by_decomposition(folded)(xs, mapped, size, **params)
    inputs = all_prefixed(xs[:count], mapped[:count], size)
    return list(reduce_window.apply([*inputs, *xs[count:]], prefixed_geometry(params)))


def window_params(rank: int, **params: Any) -> Params:
    """Parameters of a window operation without padding or dilation."""
    ones = (1,) * rank
    return {
        "window_dimensions": ones,
        "window_strides": ones,
        "base_dilations": ones,
        "window_dilations": ones,
        "padding": ((0, 0),) * rank,
        **params,
    }


def _numpy(ufunc: Any, **params: Any) -> Any:
    """A function of NumPy with one window after the other, as the reference of a sample."""

    def run(x: Any, init: Any) -> Any:
        """The reduction of each window of the dilated and padded array `x`, starting from `init`."""
        for axis, (base, (low, high)) in enumerate(zip(params["base_dilations"], params["padding"], strict=True)):
            wide = np.full((*x.shape[:axis], spread(x.shape[axis], base), *x.shape[axis + 1 :]), init)
            wide[(slice(None),) * axis + (slice(None, None, base),)] = x
            edges = [(max(low, 0), max(high, 0)) if a == axis else (0, 0) for a in range(x.ndim)]
            wide = np.pad(wide, edges, constant_values=init)
            x = wide.take(range(max(-low, 0), wide.shape[axis] + min(high, 0)), axis)
        windows, strides, dilations = (params[k] for k in ("window_dimensions", "window_strides", "window_dilations"))
        shape = tuple(map(positions, x.shape, windows, strides, dilations))
        out = np.zeros(shape, x.dtype)
        for at in np.ndindex(*shape):
            where = tuple(slice(i * s, i * s + spread(w, d), d) for i, s, w, d in zip(at, strides, windows, dilations, strict=True))
            out[at] = ufunc.reduce(x[where].ravel(), initial=init)
        return out

    return run


_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "and": np.logical_and, "or": np.logical_or}


def _sample(shape: Shape, body: str, domain: Any = None, init: Any = "neutral", **changes: Any) -> Case:
    """A test case of a window reduction: an array of `shape` and an initial value, which is neutral for `body` if it is not given.

    `changes` are parameters that differ from a window of size 1.
    """
    params = window_params(len(shape), **changes)
    dtype = np.dtype(bool if domain is not None else float)
    start = np.asarray(identity_of(body, dtype), dtype) if init == "neutral" else init
    return Case((shape, ()), {**params, "body": body}, (domain,), (None, start), numpy=_numpy(_UFUNCS[body], **params))


reduce_window: OpDef = general(
    "stablehlo.reduce_window",
    pattern=patterns.reduce_window,
    doc="The elements of each sliding window combined into one, starting from init.",
    reduces=True,
    flops=lambda outs, xs, window_dimensions, **_: sum(y.size for y in outs) * math.prod(window_dimensions),
    attributes={
        "window_dimensions": I64Array,
        "window_strides": I64Array,
        "base_dilations": I64Array,
        "window_dilations": I64Array,
        "padding": Padding,
    },
    regions=("body",),
    emit_region=emit_combiner,
    read_region=read_combiner,
    decomposition=folded,
    result=_result,
    result_params=geometry_of,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    linear=lambda xs, body, **_: (0,) if body == "add" and len(xs) == 2 else (),
    sample=[
        _sample((2, 6), "add", window_dimensions=(1, 3), window_strides=(1, 2), padding=((0, 0), (1, 1))),
        _sample((5, 4), "add", init=None, window_dimensions=(2, 2), window_strides=(2, 1)),
        _sample((9,), "add", window_dimensions=(9,), padding=((8, 0),)),
        _sample((6,), "add", window_dimensions=(2,), window_dilations=(3,), base_dilations=(2,), padding=((-1, 2),)),
        _sample((5, 6), "max", window_dimensions=(3, 3), window_strides=(2, 2), padding=((1, 1), (0, 1))),
        _sample((12,), "max", window_dimensions=(10,), padding=((9, 0),)),
        _sample((23,), "min", window_dimensions=(11,), window_strides=(12,)),
        _sample((7,), "min", window_dimensions=(2,), window_dilations=(3,), base_dilations=(2,), window_strides=(3,)),
        _sample((13,), "mul", window_dimensions=(13,), padding=((12, 0),)),
        _sample((4, 3), "mul", init=None, window_dimensions=(2, 2)),
        _sample((4,), "max", init=np.array(0.1), window_dimensions=(2,), padding=((1, 0),)),
        _sample((6,), "and", booleans(), window_dimensions=(3,)),
        _sample((6,), "or", booleans(), window_dimensions=(2,), window_strides=(2,)),
    ],
)
