"""Reductions over whole axes: `reduce` with any body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.base.errors import DtypeError, RuleMissingError, user_frame
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.dialects.types import is_float, tensor_type
from nabla_mlir.ops.elementwise import convert
from nabla_mlir.ops.logic import compare
from nabla_mlir.ops.shape import concatenate, element_count, expand, reduce_sum, reshape, sliced, transpose
from nabla_mlir.sparsity import structure as patterns
from nabla_mlir.table.batching import all_prefixed, batch_ops, prefixed, shifted, with_axis
from nabla_mlir.table.forward import jvp_by_decomposition
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import REGISTRY, OpDef, Region, add_any
from nabla_mlir.table.rules import ZERO, Batch, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, booleans, integers
from nabla_mlir.table.tensor import Tensor, full

# The combiners that have a name. Every other body is a parameter of class Region.
COMBINERS = {
    "add": "stablehlo.add",
    "mul": "stablehlo.multiply",
    "max": "stablehlo.maximum",
    "min": "stablehlo.minimum",
    "and": "stablehlo.and",
    "or": "stablehlo.or",
    "xor": "stablehlo.xor",
}
_NAMES = {v: k for k, v in COMBINERS.items()}


def identity_of(combiner: str, dtype: np.dtype) -> Any:
    """The neutral element of a combiner, such as 0 of "add", or -inf of "max"; -1 has all bits set."""
    if combiner in ("add", "or", "xor"):
        return False if dtype.kind == "b" else 0
    if combiner == "mul":
        return 1
    if combiner == "and":
        return True if dtype.kind == "b" else -1
    if dtype.kind == "b":
        return combiner == "min"
    if dtype.kind == "c":
        raise DtypeError(f"{COMBINERS[combiner]} requires real numbers to have a neutral element, got {dtype}.", where=user_frame())
    if is_float(dtype) and not np.isnan(np.asarray(np.inf, dtype)):
        return -np.inf if combiner == "max" else np.inf
    if is_float(dtype):  # some 8-bit formats have no infinities
        info = limits_of(dtype)
        return float(info.min if combiner == "max" else info.max)
    info = np.iinfo(dtype)
    return int(info.min if combiner == "max" else info.max)


def emit_combiner(region: ir.Region, combiner: str, operands: Sequence[Tensor]) -> None:
    """Fills a region with ``(a, b) -> combiner(a, b)`` for scalars of the first operand's dtype, such as "add"; "set" returns b."""
    scalar = tensor_type((), operands[0].dtype)
    block = ir.Block.create_at_start(region, [scalar, scalar], [ir.Location.unknown()] * 2)
    with ir.InsertionPoint(block):
        a, b = block.arguments
        out = b if combiner == "set" else stablehlo.emit(COMBINERS[combiner], [a, b]).results[0]
        stablehlo.emit("stablehlo.return", [out], results=[])


def read_combiner(region: ir.Region) -> str | None:
    """The name of the combiner in a region; None if the body has no name."""
    block = region.blocks[0]
    if len(block.arguments) != 2:
        return None
    a, b = block.arguments
    first, *rest = (op.operation for op in block.operations)
    if not rest:
        return "set" if first.operands[0] == b else None
    output = rest[0]
    if len(rest) != 1 or output.operands[0] != first.results[0]:
        return None
    if {first.operands[0], first.operands[-1]} != {a, b} or first.results[0].type != a.type:
        return None
    return _NAMES.get(first.name)


def _result(*operands: Tensor, dimensions: Sequence[int], body: Any) -> list[Any]:
    """The shape and dtype of each result of a reduction along `dimensions`; `operands` are the arrays, then their initial
    values.
    """
    inputs = operands[: len(operands) // 2]
    return [
        (tuple(n for d, n in enumerate(x.shape) if d not in set(dimensions)), i.dtype)
        for x, i in zip(inputs, operands[len(inputs) :], strict=True)
    ]


def _jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, dimensions: tuple[int, ...], body: Any) -> Sequence[MaybeZero]:
    """The tangents of a reduction: sums and extrema have formulas; other bodies are differentiated as a balanced tree.

    `xs` are the arrays, then their initial values, and `body` is a name such as "add", or a region. `outs` are the results.
    """
    count = len(xs) // 2
    if all(isinstance(t, Zero) for t in tangents):
        return [ZERO] * count
    if count > 1 or body not in ("add", "max", "min", "and", "or", "xor"):
        return jvp_by_decomposition(tree)(outs, xs, tangents, dimensions=dimensions, body=body)
    x, _ = xs
    t, t_init = tangents
    if body == "add":
        total = ZERO if isinstance(t, Zero) else reduce_sum(t, dimensions)
        return [add_any(total, expand_scalar(t_init, outs[0]))]
    if body in ("max", "min"):
        if not isinstance(t_init, Zero) or isinstance(t, Zero):
            return jvp_by_decomposition(tree)(outs, xs, tangents, dimensions=dimensions, body=body)
        return [_extremum_tangent(outs[0], x, t, dimensions)]
    return [ZERO]


def expand_scalar(t: MaybeZero, like: Tensor) -> MaybeZero:
    """The scalar tangent `t` repeated to the shape of `like`; a structural zero stays one."""
    if isinstance(t, Zero) or t.shape == like.shape:
        return t
    return expand(t, like.shape, tuple(range(like.ndim)))


def _extremum_tangent(y: Tensor, x: Tensor, t: Tensor, dimensions: tuple[int, ...]) -> MaybeZero:
    """The tangent of the extremum y of x along `dimensions`: the mean of the tangents of all elements that attain it; NaN where y
    is NaN.
    """
    ties = convert(compare(x, expand(y, x.shape, dimensions), comparison_direction="EQ"), dtype=x.dtype)
    share = ties * expand(1.0 / reduce_sum(ties, dimensions), x.shape, dimensions)
    return reduce_sum(t * share, dimensions)


def tree(xs: Sequence[Tensor], dimensions: tuple[int, ...], body: Any) -> list[Tensor]:
    """The results of a reduction as a balanced tree: the body is applied to two halves as whole vectors, log2(n) times.

    `xs` are the arrays, then their initial values, and `body` is a name such as "add", or a region. This defines the derivative of
    every reduction that is neither a sum nor an extremum. It does not divide, so a product with zero factors has an exact
    derivative.
    """
    count = len(xs) // 2
    inputs, inits = xs[:count], xs[count:]
    axes = tuple(d for d in range(inputs[0].ndim) if d not in set(dimensions))
    order = (*dimensions, *axes)
    shape = tuple(inputs[0].shape[d] for d in axes)
    n = element_count(tuple(inputs[0].shape[d] for d in dimensions))
    values = [_flatten_reduced(x, order, (n, *shape)) for x in inputs]
    # An initial value is a scalar, or has one axis: the mapped axis, which is the first axis of the result.
    start = [expand(i, (1, *shape), tuple(d for d in range(len(shape) + 1) if not 1 <= d <= i.ndim)) for i in inits]
    while n > 1:
        half = n // 2
        low, high = ([sliced(v, 0, a, b) for v in values] for a, b in ((0, half), (half, 2 * half)))
        pairs = combine(body, low, high)
        if n % 2:
            pairs = [concatenate(c, sliced(v, 0, n - 1, n), dimension=0) for c, v in zip(pairs, values, strict=True)]
        values, n = pairs, half + n % 2
    final = combine(body, start, values) if n else start
    return [reshape(v, shape=shape) for v in final]


def _flatten_reduced(x: Tensor, order: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    """The array with its axes in `order`, the reduced ones first, and then in `shape`, in which these are one axis."""
    x = x if order == tuple(range(x.ndim)) else transpose(x, permutation=order)
    return x if x.shape == shape else reshape(x, shape=shape)


def combine(body: Any, low: Sequence[Tensor], high: Sequence[Tensor]) -> list[Tensor]:
    """The body of a reduction, a name such as "add" or a region, applied to whole arrays `low` and `high`, element by element."""
    if isinstance(body, str):
        return [REGISTRY[COMBINERS[body]](low[0], high[0])]
    shape = low[0].shape
    size = element_count(shape)
    arguments = [reshape(v, shape=(size,)) for v in (*low, *high)]
    outs = apply_body(body, arguments, size)
    return [reshape(v, shape=shape) for v in outs]


def apply_body(body: Region, arguments: Sequence[Tensor], size: int) -> list[Tensor]:
    """The results of a region on scalars, applied to each element of vectors of length `size`.

    `arguments` are the vectors, one for each argument of the region `body`.
    """
    block = body.source.blocks[0]
    ops = [op.operation for op in block.operations]
    batch = Batch(size, dict(zip(block.arguments, arguments, strict=True)), dict(body.captures))
    batch_ops(ops[:-1], batch)
    return [with_axis(batch, v) for v in ops[-1].operands]


def _transpose(cts: Tensors, i: int, xs: Tensors, dimensions: tuple[int, ...], body: Any) -> MaybeZero:
    """The cotangent of the operand of a sum (i = 0): copies; or of the initial value (i = 1): the sum of the result's cotangent.

    `xs` are the operands and `cts` the cotangents of the results.
    """
    if body != "add" or len(xs) != 2:
        raise RuleMissingError("transposing stablehlo.reduce requires a sum, got another body.", where=user_frame())
    if i == 1:
        return reduce_sum(cts[0], tuple(range(cts[0].ndim)))
    return expand(cts[0], xs[0].shape, dimensions)


def _batch(xs: Tensors, mapped: Sequence[bool], size: int, dimensions: tuple[int, ...], body: Any) -> list[Tensor]:
    """The reduction for all `size` entries of a map; `mapped` is True for each operand that has the mapped axis first."""
    count = len(xs) // 2
    inputs, inits = xs[:count], xs[count:]
    if any(mapped[count:]):
        return _batch_mapped_init(xs, mapped, size, dimensions, body)
    inputs = all_prefixed(inputs, mapped[:count], size)
    return list(reduce.apply([*inputs, *inits], {"dimensions": shifted(dimensions), "body": body}))


def _batch_mapped_init(xs: Tensors, mapped: Sequence[bool], size: int, dimensions: tuple[int, ...], body: Any) -> list[Tensor]:
    """The reduction for all `size` entries, with one initial value for each entry, which is combined with the result of the
    reduction.

    The specification allows that the initial value is used at any position.
    """
    count = len(xs) // 2
    if not isinstance(body, str):
        return tree(all_prefixed(xs, mapped, size), shifted(dimensions), body)
    x = xs[0] if mapped[0] else prefixed(xs[0], size)
    neutral = full((), identity_of(body, x.dtype), x.dtype)
    total = reduce(x, neutral, dimensions=shifted(dimensions), body=body)
    init = expand(xs[count], total.shape, tuple(range(1, total.ndim)))
    return [REGISTRY[COMBINERS[body]](init, total)]


reduce: OpDef = general(
    "stablehlo.reduce",
    pattern=patterns.reduce,
    doc="The elements along `dimensions` combined into one, starting from init.",
    reduces=True,
    attributes={"dimensions": I64Array},
    regions=("body",),
    emit_region=emit_combiner,
    read_region=read_combiner,
    decomposition=tree,
    result=_result,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    linear=lambda xs, dimensions, body: (0, 1) if body == "add" and len(xs) == 2 else (),
    sample=[
        Case(((2, 3, 4), ()), {"dimensions": (1,), "body": "add"}, values=(None, np.array(0.0)), numpy=lambda x, i: x.sum(1)),
        Case(((2, 3, 4), ()), {"dimensions": (0, 2), "body": "add"}, numpy=lambda x, i: x.sum((0, 2)) + i),
        Case(((2, 3), ()), {"dimensions": (1,), "body": "mul"}, numpy=lambda x, i: x.prod(1) * i),
        Case(((2, 5), ()), {"dimensions": (0,), "body": "mul"}, values=(None, np.array(1.0)), numpy=lambda x, i: x.prod(0)),
        Case(((2, 3), ()), {"dimensions": (1,), "body": "max"}, values=(None, np.array(-np.inf)), numpy=lambda x, i: x.max(1)),
        Case(((2, 3), ()), {"dimensions": (0, 1), "body": "min"}, values=(None, np.array(np.inf)), numpy=lambda x, i: x.min()),
        Case(((2, 3), ()), {"dimensions": (1,), "body": "and"}, (booleans(),), (None, np.array(True)), numpy=lambda x, i: x.all(1)),
        Case(((2, 3), ()), {"dimensions": (1,), "body": "or"}, (booleans(),), (None, np.array(False)), numpy=lambda x, i: x.any(1)),
        Case(
            ((2, 3), ()),
            {"dimensions": (1,), "body": "xor"},
            (integers(),),
            (None, np.array(0, np.int32)),
            numpy=lambda x, i: np.bitwise_xor.reduce(x, 1),
        ),
        Case(((0, 3), ()), {"dimensions": (0,), "body": "add"}, values=(None, np.array(0.0)), numpy=lambda x, i: x.sum(0)),
    ],
)
