"""Reductions of sliding windows, and the scatter to a selected element of each.

A window reduction is folded axis by axis, the last first, which keeps the order of the elements. Along one axis the
windows are combined from strided slices; wide ones by doubling, so that a cumulative operation over n elements takes
of the order of log(n) operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.stablehlo import I64Array, Padding
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.errors import RuleMissingError, user_frame
from nabla_mlir.ops.elementwise import compare, logical_and, logical_not, logical_or, select
from nabla_mlir.ops.reduction import (
    COMBINERS,
    apply_body,
    combine,
    emit_combiner,
    expand_scalar,
    identity_of,
    read_combiner,
    reduce_sum,
)
from nabla_mlir.ops.shape import pad, reshape, slice_
from nabla_mlir.table.batching import all_prefixed, batch_by_decomposition
from nabla_mlir.table.forward import jvp_by_decomposition
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import REGISTRY, ZERO, MaybeZero, Params, Zero, add_any, materialize
from nabla_mlir.table.samples import Case, booleans, reals
from nabla_mlir.table.tensor import Tensor, full, full_like, splat_of
from nabla_mlir.table.traits import ONE_BY_ONE

Shape = tuple[int, ...]
Values = list[Tensor]
Combine = Callable[[Values, Values], Values]
FEW = 8  # windows of up to so many elements are combined from as many slices

_GEOMETRY = ("window_strides", "base_dilations", "window_dilations", "padding")


def spread(n: int, dilation: int) -> int:
    """The extent of n elements that stand `dilation` apart."""
    return 0 if n == 0 else (n - 1) * dilation + 1


def positions(n: int, window: int, stride: int, dilation: int = 1) -> int:
    """How many windows fit into n elements."""
    return 0 if n < spread(window, dilation) or n == 0 else (n - spread(window, dilation)) // stride + 1


def geometry_of(op: ir.Operation) -> Params:
    """Strides, dilations and padding of a window operation; those that are absent are trivial."""
    rank = len(I64Array.decode(op.attributes["window_dimensions"]))
    trivial: Params = dict.fromkeys(_GEOMETRY[:3], (1,) * rank) | {"padding": ((0, 0),) * rank}
    return {name: value for name, value in trivial.items() if name not in op.attributes}


# ---------------------------------------------------------------- folding windows


def padded(x: Tensor, value: Tensor, base_dilations: Shape, padding: Sequence[tuple[int, int]]) -> Tensor:
    """`x` with `value` between and around its elements; `x` itself where there is nothing to add."""
    if not any(low or high for low, high in padding) and all(d == 1 for d in base_dilations):
        return x
    low, high = zip(*padding, strict=True)
    return pad(x, value, edge_padding_low=low, edge_padding_high=high,
               interior_padding=tuple(d - 1 for d in base_dilations))  # fmt: skip


def fold(values: Values, windows: Shape, strides: Shape, dilations: Shape, join: Combine) -> Values:
    """Each window of `values` (padded) combined into one element."""
    for axis in reversed(range(len(windows))):
        window, stride, dilation = windows[axis], strides[axis], dilations[axis]
        if window > 1 or stride > 1:
            values = _fold_axis(values, axis, window, stride, dilation, join)
    return values


def _fold_axis(values: Values, axis: int, window: int, stride: int, dilation: int, join: Combine) -> Values:
    count = positions(values[0].shape[axis], window, stride, dilation)
    if count == 0:
        return [_along(v, axis, 0, 0) for v in values]
    if window <= FEW:
        return _tree([[_along(v, axis, k * dilation, count, stride) for v in values] for k in range(window)], join)
    if dilation == 1 and (count == 1 or stride >= window):
        return _fold_apart(values, axis, count, window, stride, join)
    return _fold_wide(values, axis, count, window, stride, dilation, join)


def _along(x: Tensor, axis: int, start: int, count: int, stride: int = 1) -> Tensor:
    """`count` elements along one axis, `stride` apart."""
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, start + spread(count, stride), stride
    if limits == list(x.shape) and not start and stride == 1:
        return x
    return slice_(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(strides))


def _tree(items: list[Values], join: Combine) -> Values:
    while len(items) > 1:
        pairs = [join(a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = pairs + items[2 * len(pairs) :]
    return items[0]


def _fold_apart(values: Values, axis: int, count: int, window: int, stride: int, join: Combine) -> Values:
    """Windows that do not overlap are an axis of their own, which is halved until it is gone."""
    stride = max(stride, window) if count > 1 else window
    rows = []
    for v in values:
        v = _along(v, axis, 0, (count - 1) * stride + window)
        missing = [(0, stride - window if a == axis else 0) for a in range(v.ndim)]
        v = padded(v, full((), 0, v.dtype), (1,) * v.ndim, missing)
        rows.append(reshape(v, shape=(*v.shape[:axis], count, stride, *v.shape[axis + 1 :])))
    n, rest, leftovers = window, [_along(v, axis + 1, 0, window) for v in rows], []
    while n > 1:
        half = n // 2
        if n % 2:  # the last element waits until the others are one
            leftovers.append([_along(v, axis + 1, n - 1, 1) for v in rest])
        even, odd = ([_along(v, axis + 1, k, half, 2) for v in rest] for k in (0, 1))
        rest, n = join(even, odd), half
    for last in reversed(leftovers):
        rest = join(rest, last)
    return [reshape(v, shape=(*v.shape[: axis + 1], *v.shape[axis + 2 :])) for v in rest]


def _fold_wide(values: Values, axis: int, count: int, window: int, stride: int, dilation: int, join: Combine) -> Values:
    """`run` holds at each place the combination of `length` elements from there on; the bits of window choose."""
    run, length, done, total = values, 1, 0, None
    while True:
        if window & length:
            part = [_along(v, axis, done * dilation, count, stride) for v in run]
            total = part if total is None else join(total, part)
            done += length
        if done == window:
            assert total is not None
            return total
        rest = run[0].shape[axis] - length * dilation
        run = join([_along(v, axis, 0, rest) for v in run], [_along(v, axis, length * dilation, rest) for v in run])
        length *= 2


def folded(
    xs: Sequence[Tensor], *, window_dimensions: Shape, window_strides: Shape, base_dilations: Shape,
    window_dilations: Shape, padding: Any, body: Any,
) -> Values:  # fmt: skip
    """What defines `reduce_window`."""
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
    count = len(xs) // 2
    strides, bases, dilations, around = (geometry[name] for name in _GEOMETRY)
    shape = tuple(
        positions(spread(n, b) + sum(p), w, s, d)
        for n, w, s, b, d, p in zip(xs[0].shape, window_dimensions, strides, bases, dilations, around, strict=True)
    )
    return [(shape, i.dtype) for i in xs[count:]]


def _jvp(outs: Any, xs: Any, tangents: Any, *, body: Any, **params: Any) -> list[MaybeZero]:
    count = len(xs) // 2
    if all(isinstance(t, Zero) for t in tangents) or body in ("and", "or", "xor"):
        return [ZERO] * count
    if count == 1 and body == "add":
        return [_sum_tangent(xs, tangents, params)]
    if count == 1 and body in ("max", "min") and isinstance(tangents[1], Zero):
        return [_extremum_tangent(xs, tangents[0], body, params)]
    return jvp_by_decomposition(folded)(outs, xs, tangents, body=body, **params)


def _sum_tangent(xs: Any, tangents: Any, params: Params) -> MaybeZero:
    (x, _), (t, t_init) = xs, tangents
    total: MaybeZero = ZERO
    if not isinstance(t, Zero):
        total = reduce_window(t, full((), 0, t.dtype), body="add", **params)
    if isinstance(t_init, Zero):
        return total
    # init also stands between and around the elements: it enters once, and once for each place that holds no element.
    held = reduce_window(full_like(x, 1), full((), 0, x.dtype), body="add", **params)
    entered = full_like(held, 1 + int(np.prod(params["window_dimensions"]))) - held
    return add_any(total, expand_scalar(t_init, held) * entered)


def _extremum_tangent(xs: Any, t: Tensor, body: str, params: Params) -> Tensor:
    """The tangent of the first element of each window that attains its extremum."""
    x, init = xs
    wins = "GE" if body == "max" else "LE"
    values = [padded(x, init, params["base_dilations"], params["padding"]),
              padded(t, full((), 0, t.dtype), params["base_dilations"], params["padding"])]  # fmt: skip
    join = _chooser(wins)
    values = fold(values, params["window_dimensions"], params["window_strides"], params["window_dilations"], join)
    if splat_of(init) != identity_of(body, init.dtype):
        values = join([expand_scalar(init, values[0]), full_like(values[1], 0)], values)  # type: ignore[list-item]
    return values[1]


def _chooser(wins: Any) -> Combine:
    """Of two tuples the one whose first value wins; the first of them if both do."""

    def join(low: Values, high: Values) -> Values:
        first = _holds(wins, low[0], high[0])
        return [select(first, a, b) for a, b in zip(low, high, strict=True)]

    return join


def _holds(wins: Any, a: Tensor, b: Tensor) -> Tensor:
    if isinstance(wins, str):
        return compare(a, b, comparison_direction=wins)
    arguments = [reshape(v, shape=(v.size,)) for v in (a, b)]
    return reshape(apply_body(wins, arguments, a.size)[0], shape=a.shape)


def _transpose(
    cts: Any, i: int, xs: Any, *, body: Any, window_dimensions: Shape, window_strides: Shape, base_dilations: Shape,
    window_dilations: Shape, padding: Any,
) -> MaybeZero:  # fmt: skip
    """Each element receives the sum of the windows that hold it: a window sum of the spread cotangent."""
    ct, x = cts[0], xs[0]
    if 0 in (ct.size, x.size):
        return full_like(x, 0)
    around = []
    for k, window in enumerate(window_dimensions):
        extent = spread(window, window_dilations[k])
        low = extent - 1 - padding[k][0]
        room = spread(x.shape[k], base_dilations[k]) + extent - 1
        around.append((low, room - spread(ct.shape[k], window_strides[k]) - low))
    return reduce_window(
        ct, full((), 0, ct.dtype), body="add", window_dimensions=window_dimensions, window_strides=base_dilations,
        base_dilations=window_strides, window_dilations=window_dilations, padding=tuple(around),
    )  # fmt: skip


def _prefixed_geometry(params: Params) -> Params:
    return {k: v if k in ("body", "select", "scatter") else ((0, 0), *v) if k == "padding" else (1, *v)
            for k, v in params.items()}  # fmt: skip


def _batch(xs: Any, mapped: Any, size: int, **params: Any) -> list[Tensor]:
    count = len(xs) // 2
    if any(mapped[count:]):
        return batch_by_decomposition(folded)(xs, mapped, size, **params)
    inputs = all_prefixed(xs[:count], mapped[:count], size)
    return list(reduce_window.apply([*inputs, *xs[count:]], _prefixed_geometry(params)))


def window_params(rank: int, **given: Any) -> Params:
    """Parameters of a window operation in which nothing is padded or dilated."""
    ones = (1,) * rank
    return {"window_dimensions": ones, "window_strides": ones, "base_dilations": ones, "window_dilations": ones,
            "padding": ((0, 0),) * rank, **given}  # fmt: skip


def _numpy(ufunc: Any, **params: Any) -> Any:
    """The definition, one window after the other."""

    def run(x: Any, init: Any) -> Any:
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
            where = tuple(slice(i * s, i * s + spread(w, d), d)
                          for i, s, w, d in zip(at, strides, windows, dilations, strict=True))  # fmt: skip
            out[at] = ufunc.reduce(x[where].ravel(), initial=init)
        return out

    return run


_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "and": np.logical_and,
           "or": np.logical_or}  # fmt: skip


def _sample(shape: Shape, body: str, domain: Any = None, init: Any = "neutral", **given: Any) -> Case:
    params = window_params(len(shape), **given)
    dtype = np.dtype(bool if domain is not None else float)
    start = np.asarray(identity_of(body, dtype), dtype) if init == "neutral" else init
    return Case((shape, ()), {**params, "body": body}, (domain,), (None, start), numpy=_numpy(_UFUNCS[body], **params))


reduce_window = general(
    "stablehlo.reduce_window", doc="The elements of each sliding window combined into one, starting from init.",
    reduces=True, flops=lambda outs, xs, window_dimensions, **_: sum(y.size for y in outs) * math.prod(window_dimensions),
    attributes={"window_dimensions": I64Array, "window_strides": I64Array, "base_dilations": I64Array,
                "window_dilations": I64Array, "padding": Padding},
    regions=("body",), emit_region=emit_combiner, read_region=read_combiner,
    result=_result, result_params=geometry_of, jvp=_jvp, transpose=_transpose, batch=_batch,
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
)  # fmt: skip


# ---------------------------------------------------------------- select_and_scatter


def _emit_body(region: ir.Region, word: str, operands: Sequence[Tensor]) -> None:
    if word in COMBINERS:
        emit_combiner(region, word, operands)
        return
    scalar = tensor_type((), operands[0].dtype)
    block = ir.Block.create_at_start(region, [scalar, scalar], [ir.Location.unknown()] * 2)
    with ir.InsertionPoint(block):
        a, b = (Tensor(v) for v in block.arguments)
        first = compare(a, b, comparison_direction=word)
        stablehlo.emit("stablehlo.return", [first.value], results=[])


def _read_body(region: ir.Region) -> str | None:
    named = read_combiner(region)
    if named is not None:
        return named
    ops = [op.operation for op in region.blocks[0].operations]
    arguments = list(region.blocks[0].arguments)
    if len(ops) != 2 or ops[0].name != "stablehlo.compare" or list(ops[0].operands) != arguments:
        return None
    params = compare.read(ops[0])
    return None if params["compare_type"] == "TOTALORDER" else params["comparison_direction"]


def _chosen(
    x: Tensor, payload: Tensor, *, select: Any, window_dimensions: Shape, window_strides: Shape, padding: Any
) -> Tensor:
    """For each window the payload at the element that is selected; padding is never selected."""
    ones = (1,) * x.ndim
    zero = lambda v: full((), 0, v.dtype)  # noqa: E731
    values = [padded(v, zero(v), ones, padding) for v in (x, payload)]
    join = _chooser(select)
    if any(low > 0 or high > 0 for low, high in padding):
        inside = padded(full(x.shape, True, np.dtype(bool)), full((), False, np.dtype(bool)), ones, padding)
        values.append(inside)
        join = _chooser_inside(select)
    return fold(values, window_dimensions, window_strides, ones, join)[1]


def _chooser_inside(wins: Any) -> Combine:
    def join(low: Values, high: Values) -> Values:
        first = logical_and(low[2], logical_or(logical_not(high[2]), _holds(wins, low[0], high[0])))
        values = [select(first, a, b) for a, b in zip(low[:2], high[:2], strict=True)]
        return [*values, logical_or(low[2], high[2])]

    return join


def _scatter_linear(xs: Any, scatter: Any, **_: Any) -> tuple[int, ...]:
    return (1, 2) if scatter == "add" else ()


def _scatter_jvp(outs: Any, xs: Any, tangents: Any, **params: Any) -> list[MaybeZero]:
    x, source, init = xs
    if isinstance(tangents[1], Zero) and isinstance(tangents[2], Zero):
        return [ZERO]
    if params["scatter"] != "add":
        raise RuleMissingError(
            "the derivative of select_and_scatter requires that scatter adds, got another body.", where=user_frame()
        )
    return [select_and_scatter(x, materialize(tangents[1], source), materialize(tangents[2], init), **params)]


def _scatter_transpose(cts: Any, i: int, xs: Any, *, scatter: Any, **params: Any) -> Tensor:
    if i == 2:
        return reduce_sum(cts[0], tuple(range(cts[0].ndim)))
    return _chosen(xs[0], cts[0], **params)


def _scatter_batch(xs: Any, mapped: Any, size: int, **params: Any) -> list[Tensor]:
    x, source = all_prefixed(xs[:2], mapped[:2], size)
    shifted = _prefixed_geometry(params)
    init, scatter = xs[2], params["scatter"]
    if not mapped[2]:
        return [select_and_scatter(x, source, init, **shifted)]
    if not isinstance(scatter, str):
        raise RuleMissingError("vmap of select_and_scatter requires a named scatter for an init per entry.",
                               where=user_frame())  # fmt: skip
    out = select_and_scatter(x, source, full((), identity_of(scatter, init.dtype), init.dtype), **shifted)
    start = REGISTRY["stablehlo.broadcast_in_dim"](init, shape=out.shape, broadcast_dimensions=(0,))
    return combine(scatter, [start], [out])


def _scatter_numpy(**params: Any) -> Any:
    def run(x: Any, source: Any, init: Any) -> Any:
        out = np.full(x.shape, init)
        lows = [low for low, _ in params["padding"]]
        for at in np.ndindex(*source.shape):
            starts = [i * s - low for i, s, low in zip(at, params["window_strides"], lows, strict=True)]
            places = [tuple(np.add(starts, offset)) for offset in np.ndindex(*params["window_dimensions"])]
            places = [p for p in places if all(0 <= i < n for i, n in zip(p, x.shape, strict=True))]
            out[max(places, key=lambda p: x[p])] += source[at]
        return out

    return run


def _scatter_sample(shape: Shape, source: Shape, **given: Any) -> Case:
    params = {k: v for k, v in window_params(len(shape), **given).items() if "dilations" not in k}
    return Case((shape, source, ()), {**params, "select": "GE", "scatter": "add"}, (reals(),),
                numpy=_scatter_numpy(**params))  # fmt: skip


select_and_scatter = general(
    "stablehlo.select_and_scatter",
    doc="Elements of source combined into the element of their window of the operand that `select` prefers.",
    instructions=ONE_BY_ONE,
    attributes={"window_dimensions": I64Array, "window_strides": I64Array, "padding": Padding},
    regions=("select", "scatter"), emit_region=_emit_body, read_region=_read_body,
    result=lambda x, source, init, **_: [(x.shape, x.dtype)],
    result_params=lambda op: {k: v for k, v in geometry_of(op).items() if "dilations" not in k},
    jvp=_scatter_jvp, linear=_scatter_linear, transpose=_scatter_transpose, batch=_scatter_batch,
    sample=[
        _scatter_sample((4, 6), (2, 3), window_dimensions=(2, 2), window_strides=(2, 2)),
        _scatter_sample((5, 5), (3, 2), window_dimensions=(3, 3), window_strides=(2, 2), padding=((1, 1), (0, 0))),
        _scatter_sample((7,), (7,), window_dimensions=(3,), padding=((1, 1),)),
    ],
)  # fmt: skip
