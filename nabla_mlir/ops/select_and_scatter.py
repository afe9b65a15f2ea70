"""select_and_scatter adds each source element to one selected element of its window: the reverse mode of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError, user_frame
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.stablehlo import I64Array, Padding
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.ops.logic import compare, logical_and, logical_not, logical_or, select
from nabla_mlir.ops.reduction import COMBINERS, combine, emit_combiner, identity_of, read_combiner
from nabla_mlir.ops.shape import reduce_sum
from nabla_mlir.ops.windows import (
    Combine,
    Shape,
    Values,
    chooser,
    fold,
    geometry_of,
    holds,
    padded,
    prefixed_geometry,
    window_params,
)
from nabla_mlir.sparsity import windows as patterns
from nabla_mlir.table.batching import all_prefixed
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import REGISTRY, OpDef, materialize
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, reals
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.table.traits import ONE_BY_ONE


def _emit_body(region: ir.Region, word: str, operands: Sequence[Tensor]) -> None:
    """Fills a region with the combiner `word`, such as "add", or with a comparison if `word` is a direction such as "GE"."""
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
    """The name of the combiner, or the direction of the comparison, in a region; None for another body."""
    combiner = read_combiner(region)
    if combiner is not None:
        return combiner
    ops = [op.operation for op in region.blocks[0].operations]
    arguments = list(region.blocks[0].arguments)
    if len(ops) != 2 or ops[0].name != "stablehlo.compare" or list(ops[0].operands) != arguments:
        return None
    params = compare.read(ops[0])
    return None if params["compare_type"] == "TOTALORDER" else params["comparison_direction"]


def _select_payload(
    x: Tensor, payload: Tensor, *, select: Any, window_dimensions: Shape, window_strides: Shape, padding: Any
) -> Tensor:
    """For each window of x, the element of `payload` at the position that `select` chooses in x; padding is never chosen."""
    ones = (1,) * x.ndim
    zero = lambda v: full((), 0, v.dtype)  # noqa: E731
    values = [padded(v, zero(v), ones, padding) for v in (x, payload)]
    join = chooser(select)
    if any(low > 0 or high > 0 for low, high in padding):
        inside = padded(full(x.shape, True, np.dtype(bool)), full((), False, np.dtype(bool)), ones, padding)
        values.append(inside)
        join = _chooser_inside(select)
    return fold(values, window_dimensions, window_strides, ones, join)[1]


def _chooser_inside(wins: Any) -> Combine:
    """A function that chooses between two candidates, of which one may be padding; `wins` is the direction of the comparison."""

    def join(low: Values, high: Values) -> Values:
        """The selected one of two candidates, each a key, a value and a flag; the flag is False for padding, which never wins.

        `low` and `high` are lists of these three.
        """
        first = logical_and(low[2], logical_or(logical_not(high[2]), holds(wins, low[0], high[0])))
        values = [select(first, a, b) for a, b in zip(low[:2], high[:2], strict=True)]
        return [*values, logical_or(low[2], high[2])]

    return join


def _linear(xs: Sequence[Tensor], scatter: Any, **_: Any) -> tuple[int, ...]:
    return (1, 2) if scatter == "add" else ()


def _jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, **params: Any) -> list[MaybeZero]:
    """The tangent of the result: the scatter of the source's tangent; the selection does not change with the operand x.

    `xs` are the operands and `tangents` their tangents.
    """
    x, source, init = xs
    if isinstance(tangents[1], Zero) and isinstance(tangents[2], Zero):
        return [ZERO]
    if params["scatter"] != "add":
        raise RuleMissingError(
            "the derivative of select_and_scatter requires that scatter adds, got another body.", where=user_frame()
        )
    return [select_and_scatter(x, materialize(tangents[1], source), materialize(tangents[2], init), **params)]


def _transpose(cts: Tensors, i: int, xs: Tensors, *, scatter: Any, **params: Any) -> Tensor:
    """The cotangent of the source: the result's cotangent at the selected elements; or of the initial value (i = 2): its sum.

    `xs` are the operands and `cts` the cotangents of the results.
    """
    if i == 2:
        return reduce_sum(cts[0], tuple(range(cts[0].ndim)))
    return _select_payload(xs[0], cts[0], **params)


def _batch(xs: Tensors, mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
    """The result for all `size` entries of a map: the mapped axis is one more axis with windows of size 1.

    `mapped` is True for each operand that has this axis first.
    """
    x, source = all_prefixed(xs[:2], mapped[:2], size)
    shifted = prefixed_geometry(params)
    init, scatter = xs[2], params["scatter"]
    if not mapped[2]:
        return [select_and_scatter(x, source, init, **shifted)]
    if not isinstance(scatter, str):
        raise RuleMissingError("vmap of select_and_scatter requires a named scatter for an init per entry.", where=user_frame())
    out = select_and_scatter(x, source, full((), identity_of(scatter, init.dtype), init.dtype), **shifted)
    start = REGISTRY["stablehlo.broadcast_in_dim"](init, shape=out.shape, broadcast_dimensions=(0,))
    return combine(scatter, [start], [out])


def _numpy(**params: Any) -> Any:
    """A function of NumPy with one window after the other, as the reference of a sample."""

    def run(x: Any, source: Any, init: Any) -> Any:
        """The initial value everywhere, plus each element of `source` at the largest element of its window in `x`."""
        out = np.full(x.shape, init)
        lows = [low for low, _ in params["padding"]]
        for at in np.ndindex(*source.shape):
            starts = [i * s - low for i, s, low in zip(at, params["window_strides"], lows, strict=True)]
            positions = [tuple(np.add(starts, offset)) for offset in np.ndindex(*params["window_dimensions"])]
            positions = [p for p in positions if all(0 <= i < n for i, n in zip(p, x.shape, strict=True))]
            out[max(positions, key=lambda p: x[p])] += source[at]
        return out

    return run


def _sample(shape: Shape, source: Shape, **changes: Any) -> Case:
    params = {k: v for k, v in window_params(len(shape), **changes).items() if "dilations" not in k}
    return Case((shape, source, ()), {**params, "select": "GE", "scatter": "add"}, (reals(),), numpy=_numpy(**params))


select_and_scatter: OpDef = general(
    "stablehlo.select_and_scatter",
    pattern=patterns.select_and_scatter,
    doc="Each element of source is combined into the element of its window of the operand that `select` prefers.",
    instructions=ONE_BY_ONE,
    attributes={"window_dimensions": I64Array, "window_strides": I64Array, "padding": Padding},
    regions=("select", "scatter"),
    comparators=("select",),
    emit_region=_emit_body,
    read_region=_read_body,
    result=lambda x, source, init, **_: [(x.shape, x.dtype)],
    result_params=lambda op: {k: v for k, v in geometry_of(op).items() if "dilations" not in k},
    jvp=_jvp,
    linear=_linear,
    transpose=_transpose,
    batch=_batch,
    sample=[
        _sample((4, 6), (2, 3), window_dimensions=(2, 2), window_strides=(2, 2)),
        _sample((5, 5), (3, 2), window_dimensions=(3, 3), window_strides=(2, 2), padding=((1, 1), (0, 0))),
        _sample((7,), (7,), window_dimensions=(3,), padding=((1, 1),)),
    ],
)
