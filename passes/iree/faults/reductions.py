"""Legalisation of reductions, windows, convolutions and batch normalisation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from iree.compiler import ir
from iree.compiler.ir import BF16Type, F16Type

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, select
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_float, tensor_type
from nabla_mlir.errors import RuleMissingError
from nabla_mlir.passes.iree.pattern import Replacement, Target, attributes_of, operands, pattern
from nabla_mlir.passes.iree.regions import apply_elementwise, is_elementwise, single_operation

F32 = np.dtype(np.float32)


def _is_narrow(dtype: np.dtype) -> bool:
    return is_float(dtype) and dtype.itemsize <= 2


@pattern("stablehlo.reduce", "stablehlo.reduce_window")
def narrow_sum(op: ir.Operation, target: Target) -> Replacement:
    """Sums and products of narrow floats are rounded after every term."""
    if len(op.operands) != 2 or op.results[0].type.element_type not in _narrow_types():
        return None
    body = single_operation(op.regions[0])
    if body not in ("stablehlo.add", "stablehlo.multiply"):
        return None
    values = [b.convert(v, F32) for v in operands(op)]
    type = tensor_type(tuple(op.results[0].type.shape), F32) if Val(op.results[0]).static else None
    if type is None:
        type = b.like(Val(op.results[0]), F32)
    attributes = attributes_of(op)
    made = b.make(op.name, values, [type], attributes, regions=1, final=True)
    b.fill_region(made.regions[0], [tensor_type((), F32)] * 2, lambda x, y: b.binary(body, x, y))
    return b.convert(Val(made.results[0]), Val(op.results[0]).dtype)


@pattern("stablehlo.convolution", "stablehlo.reverse")
def unsigned(op: ir.Operation, target: Target) -> Replacement:
    """No unsigned integers compile; the signed ones of the same bits have results of the same bits."""
    result = Val(op.results[0])
    if result.dtype.kind != "u":
        return None
    values = [b.bitcast(v, f"i{v.dtype.itemsize}") for v in operands(op)]
    signed = b.make(op.name, values, [b.like(result, f"i{result.dtype.itemsize}")], attributes_of(op)).results[0]
    return b.bitcast(Val(signed), result.dtype)


_TRUTH = {"or": "maximum", "add": "maximum", "maximum": "maximum", "and": "minimum", "multiply": "minimum",
          "minimum": "minimum"}  # fmt: skip


@pattern("stablehlo.reduce_window")
def windows_of_other_numbers(op: ir.Operation, target: Target) -> Replacement:
    """Windows over all elements before do not compile for truth values and sums of unsigned integers.

    They are windows of 32-bit integers, and of signed integers of the same bits.
    """
    body = single_operation(op.regions[0])
    if len(op.operands) != 2 or body is None:
        return None
    values, result = operands(op), Val(op.results[0])

    def windows(values: Sequence[Val], body: str) -> Val:
        made = b.make(op.name, values, [b.like(result, values[0].dtype)], attributes_of(op), regions=1)
        b.fill_region(made.regions[0], [v.type for v in (values[1], values[1])], lambda x, y: b.binary(body, x, y))
        return Val(made.results[0])

    kind, word = result.dtype.kind, body.removeprefix("stablehlo.")
    if kind == "b" and word in _TRUTH:
        return b.ne(windows([b.convert(v, np.int32) for v in values], f"stablehlo.{_TRUTH[word]}"), 0)
    if kind == "u" and word in ("add", "multiply"):
        return b.bitcast(windows([b.bitcast(v, f"i{v.dtype.itemsize}") for v in values], body), result.dtype)
    return None


@pattern("stablehlo.reduce_window")
def complex_windows(op: ir.Operation, target: Target) -> Replacement:
    """Padded ones do not compile for complex128: the two parts are padded beforehand."""
    if len(op.operands) != 2 or Val(op.operands[0]).dtype.kind != "c" or not Val(op.operands[0]).static:
        return None
    x, initial = operands(op)
    padding = hlo.Padding.decode(op.attributes["padding"]) if "padding" in op.attributes else [(0, 0)] * x.rank
    low, high = zip(*padding, strict=True)
    interior = [n - 1 for n in _spatial(x.rank, op.attributes, "base_dilations")]
    if not any([*low, *high, *interior]):
        return None
    padded = b.complex_(*(b.pad(part(x), low, high, interior, part(initial)) for part in (b.real, b.imag)))
    made = b.copy(op, [padded, initial])
    for name in {"padding", "base_dilations"} & set(attributes_of(op)):
        del made.attributes[name]
    return Val(made.results[0])


@pattern("stablehlo.reduce")
def sum_of_products(op: ir.Operation, target: Target) -> Replacement:
    """A CPU does not compile the sum over rows and columns of a product with a vector, one factor for each column.

    The sum over the rows, which the vector lacks, is taken first.
    """
    dims = list(op.attributes["dimensions"])
    if target != "cpu" or len(dims) < 2 or len(op.operands) != 2 or single_operation(op.regions[0]) != "stablehlo.add":
        return None
    x, initial = operands(op)
    product = made_by(x.value)
    if product is None or product.name != "stablehlo.multiply":
        return None
    for factor in product.operands:
        vector = _axes_of_vector(factor)
        rows = [d for d in dims if d not in vector]
        if vector and rows and len(rows) < len(dims):
            columns = [d - sum(r < d for r in rows) for d in dims if d in vector]
            return b.reduce([b.reduce_sum(x, rows)], [initial], columns, lambda a, c: a + c)[0]
    return None


def _axes_of_vector(value: ir.Value) -> set[int]:
    """The axes along which a value is not copied; none if it is no broadcast, which may be reordered or reshaped."""
    axis = {d: d for d in range(len(value.type.shape))}  # of the value, by that of what it is made of
    while (maker := made_by(value)) is not None and maker.operands:
        source = maker.operands[0]
        if maker.name == "stablehlo.broadcast_in_dim":
            return {axis[d] for d in maker.attributes["broadcast_dimensions"] if d in axis}
        if maker.name == "stablehlo.transpose":
            permutation = list(maker.attributes["permutation"])
            axis = {permutation[d]: at for d, at in axis.items()}
        elif maker.name == "stablehlo.reshape":
            before, after = ([d for d, n in enumerate(v.type.shape) if n != 1] for v in (source, value))
            if [source.type.shape[d] for d in before] != [value.type.shape[d] for d in after]:
                return set()
            axis = {d: axis[e] for d, e in zip(before, after, strict=True) if e in axis}
        elif [v.type for v in maker.operands] != [value.type]:  # but elementwise, of one tensor
            return set()
        value = source
    return set()


@pattern("stablehlo.reduce_window")
def separate_windows(op: ir.Operation, target: Target) -> Replacement:
    """Fused with what is pooled, windows overflow the stack of a CPU: those side by side are a reduction.

    Their transpose, windows of sums that see one element each, repeats the elements.
    """
    x = Val(op.operands[0])
    body = single_operation(op.regions[0])
    if len(op.operands) != 2 or not x.static or body is None:
        return None
    window, strides, dilation, spread = (
        _spatial(x.rank, op.attributes, name)
        for name in ("window_dimensions", "window_strides", "window_dilations", "base_dilations")
    )
    padding = hlo.Padding.decode(op.attributes["padding"]) if "padding" in op.attributes else ((0, 0),) * x.rank
    parts = [part for w in window for part in (("place", "offset") if w > 1 else ("place",))]
    offsets = [d for d, part in enumerate(parts) if part == "offset"]
    ones = [1] * x.rank
    if (strides, dilation, spread) == (window, ones, ones) and not any(map(any, padding)):
        if any(n % w for n, w in zip(x.shape, window, strict=True)):
            return None
        shape = [m for n, w in zip(x.shape, window, strict=True) for m in ((n // w, w) if w > 1 else (n,))]
        return b.reduce([b.reshape(x, shape)], [Val(op.operands[1])], offsets, lambda y, z: b.binary(body, y, z))[0]
    initial = made_by(op.operands[1])
    is_sum = body == "stablehlo.add" and initial is not None and initial.name == "stablehlo.constant"
    if not is_sum or hlo.constant_splat(initial) != 0:
        return None
    if (strides, dilation, spread) == (ones, ones, window) and all(p == (w - 1,) * 2 for p, w in zip(padding, window, strict=True)):
        shape = [m for n, w in zip(x.shape, window, strict=True) for m in ((n, w) if w > 1 else (n,))]
        places = [d for d in range(len(shape)) if d not in offsets]
        return b.reshape(b.broadcast(x, shape, places), [n * w for n, w in zip(x.shape, window, strict=True)])
    return None


# From so many terms on, a sum is taken in two levels.
_LONG = 1 << 13
_VECTOR = 16  # elements; rows of any other length are added up three times slower


@pattern("stablehlo.reduce")
def long_sum(op: ir.Operation, target: Target) -> Replacement:
    """A CPU adds up one term after the other, on one core: 10⁶ squares in f32 are 8e-4 off; in two levels 1e-6."""
    if target != "cpu" or len(op.operands) != 2 or single_operation(op.regions[0]) != "stablehlo.add":
        return None
    x, initial = operands(op)
    dims = list(op.attributes["dimensions"])
    if not (x.static and is_float(x.dtype) and dims):
        return None
    axis = max(dims, key=lambda d: x.shape[d])
    length = x.shape[axis]
    if length < _LONG:
        return None
    width = _near_root(length)
    whole = length // width * width
    body = b.cut(x, axis, 0, whole)
    body = b.reshape(body, (*x.shape[:axis], whole // width, width, *x.shape[axis + 1 :]))
    inner = b.reduce_sum(body, [axis + 1])
    total = b.reduce([inner], [initial], dims, lambda a, c: a + c)[0]
    if whole == length:
        return total
    return total + b.reduce_sum(b.cut(x, axis, whole, length), dims)


def _near_root(n: int) -> int:
    """A divisor of n within a factor of 4 of its root, of whole vectors if there is one, or else the root rounded down."""
    root = math.isqrt(n)
    divisors = [d for d in range(max(root // 4, 2), 4 * root + 1) if n % d == 0]
    return min(divisors, key=lambda d: (d % _VECTOR != 0, abs(math.log(d / root))), default=root)


def _narrow_types() -> tuple[ir.Type, ...]:
    return BF16Type.get(context()), F16Type.get(context())


def _spatial(count: int, attributes: ir.OpAttributeMap, name: str, default: int = 1) -> list[int]:
    return list(attributes[name]) if name in attributes else [default] * count


@pattern("stablehlo.convolution")
def convolution(op: ir.Operation, target: Target) -> Replacement:
    """Narrow floats are rounded after every addition; on Vulkan grouped ones are all zeros.

    A depthwise kernel is not turned round where window_reversal asks for it, and no other tiles for a GPU: it is turned
    round beforehand. Complex values are padded beforehand too: the padding of a convolution kills the compiler.
    """
    x, kernel = operands(op)
    result = Val(op.results[0])
    attributes = attributes_of(op)
    if result.dtype.kind == "c" and x.static:
        x = _padded(x, attributes)
        if x.value != op.operands[0]:
            return Val(b.make(op.name, [x, kernel], [op.results[0].type], attributes).results[0])
    if target == "cuda" and _is_narrow(x.dtype):  # tiled with a wrong shape, also if fused with the conversions
        wide = [b.stored(b.convert(v, F32)) for v in (x, kernel)]
        made = b.make(op.name, wide, [b.like(result, F32)], attributes)
        return b.convert(Val(made.results[0]), result.dtype)
    if _is_narrow(result.dtype):
        made = b.make(op.name, [x, kernel], [b.like(result, F32)], attributes)
        return b.convert(Val(made.results[0]), result.dtype)
    turned = [k for k, r in enumerate(hlo.BoolArray.decode(attributes["window_reversal"])) if r] \
        if "window_reversal" in attributes else []  # fmt: skip
    if turned and (target != "cpu" or hlo.I64.decode(attributes["feature_group_count"]) > 1):
        places = hlo.ConvDims.decode(attributes["dimension_numbers"])[1]
        kernel = b.reverse(kernel, [places.index(k) for k in turned])
        attributes["window_reversal"] = hlo.BoolArray.encode([False] * (len(places) - 2))
        return Val(b.make(op.name, [x, kernel], [op.results[0].type], attributes).results[0])
    if target != "vulkan" or not x.static:
        return None
    lhs, rhs, out = hlo.ConvDims.decode(attributes["dimension_numbers"])
    groups = hlo.I64.decode(attributes["feature_group_count"])
    batches = hlo.I64.decode(attributes["batch_group_count"])
    depthwise = groups == x.shape[lhs.index("f")]
    count = max(groups, batches)
    if count == 1 or (depthwise and batches == 1):
        return None
    attributes |= {name: hlo.I64.encode(1) for name in ("feature_group_count", "batch_group_count")}
    split = lhs.index("f" if groups > 1 else "b")
    feature = out.index("f")
    parts = []
    for i in range(count):
        left = _part(x, split, i, count)
        right = _part(kernel, rhs.index("o"), i, count)
        shape = [s // count if d == feature else s for d, s in enumerate(result.shape)]
        parts.append(Val(b.make(op.name, [left, right], [tensor_type(shape, result.dtype)], attributes).results[0]))
    return b.concat(parts, feature)


def _padded(x: Val, attributes: dict[str, ir.Attribute]) -> Val:
    """The operand of a convolution with its padding, which is taken out of the attributes, and what lies between."""
    places = hlo.ConvDims.decode(attributes["dimension_numbers"])[0]
    spatial = [places.index(k) for k in range(x.rank - 2)]
    amounts = {"padding": hlo.Padding, "lhs_dilation": hlo.I64Array}
    given = {name: codec.decode(attributes.pop(name)) for name, codec in amounts.items() if name in attributes}
    low, high, interior = ([0] * x.rank for _ in range(3))
    for k, d in enumerate(spatial):
        low[d], high[d] = given.get("padding", [(0, 0)] * x.rank)[k]
        interior[d] = given.get("lhs_dilation", [1] * x.rank)[k] - 1
    return b.pad(x, low, high, interior)


def _part(x: Val, dim: int, i: int, count: int) -> Val:
    size = x.shape[dim] // count
    return b.cut(x, dim, i * size, (i + 1) * size)


@pattern("stablehlo.select_and_scatter")
def select_and_scatter(op: ir.Operation, target: Target) -> Replacement:
    """Windows that overlap do not compile, and in others the last of equal elements is selected, not the first.

    For each offset in the window, a strided slice holds the operand there; a running choice finds the offset that
    each window selects, and what it selects goes back through the transpose of that slice.
    """
    x, source, initial = operands(op)
    rank = x.rank
    window = _spatial(rank, op.attributes, "window_dimensions")
    strides = _spatial(rank, op.attributes, "window_strides")
    padding = hlo.Padding.decode(op.attributes["padding"]) if "padding" in op.attributes else ((0, 0),) * rank
    choose, combine = op.regions
    if not (is_elementwise(choose) and is_elementwise(combine)):
        raise RuleMissingError(f"stablehlo.select_and_scatter requires elementwise bodies, got {op.location}.")
    padded = b.pad(x, [p[0] for p in padding], [p[1] for p in padding])
    offsets = list(itertools.product(*(range(w) for w in window)))

    def view(v: Val, offset: Sequence[int]) -> Val:
        limits = [o + (n - 1) * s + 1 for o, n, s in zip(offset, source.shape, strides, strict=True)]
        return b.slice_(v, offset, limits, strides)

    padding_free = not any(p != (0, 0) for p in padding)
    inside = None if padding_free else _inside(x.shape, padding)
    best, chosen, found = view(padded, offsets[0]), b.full(0, source.shape, np.int32), None
    if inside is not None:
        found = view(inside, offsets[0])
    for i, offset in enumerate(offsets[1:], start=1):
        value = view(padded, offset)
        keep = apply_elementwise(choose, [best, value])[0]
        if found is not None and inside is not None:
            valid = view(inside, offset)
            keep = (keep & found) | ~valid
            found = found | valid
        best = select(keep, best, value)
        chosen = select(keep, chosen, i)
    result = b.broadcast(initial, x.shape, [])
    adds = single_operation(combine) == "stablehlo.add"
    for i, offset in enumerate(offsets):
        here = b.eq(chosen, i)
        low = [o - p[0] for o, p in zip(offset, padding, strict=True)]
        inner = [s - 1 for s in strides]
        used = [(n - 1) * s + 1 for n, s in zip(source.shape, strides, strict=True)]
        high = [d - u - lo for d, u, lo in zip(x.shape, used, low, strict=True)]
        update = b.pad(select(here, source, 0), low, high, inner)
        if adds:
            result = result + update
        else:
            mask = b.pad(here, low, high, inner, value=False)
            result = select(mask, apply_elementwise(combine, [result, update])[0], result)
    return result


def _inside(shape: Sequence[int], padding: Sequence[tuple[int, int]]) -> Val:
    """True in the operand, false in its padding."""
    return b.pad(b.full(True, shape, b.BOOL), [p[0] for p in padding], [p[1] for p in padding], value=False)


@pattern("stablehlo.batch_norm_grad")
def batch_norm_grad(op: ir.Operation, target: Target) -> Replacement:
    """Does not compile."""
    x, scale, mean, variance, grad = operands(op)
    feature = hlo.I64.decode(op.attributes["feature_index"])
    epsilon = op.attributes["epsilon"].value
    others = [d for d in range(x.rank) if d != feature]
    count = math.prod(x.shape[d] for d in others)
    spread = lambda v: b.broadcast(v, x.shape, [feature])  # noqa: E731
    inverse = 1.0 / b.sqrt(variance + epsilon)
    centred = x - spread(mean)
    grad_sum = b.reduce_sum(grad, others)
    grad_centred = b.reduce_sum(grad * centred, others)
    slope = spread(grad_centred * inverse * inverse * (1.0 / count))
    grad_x = spread(scale * inverse) * (grad - spread(grad_sum * (1.0 / count)) - centred * slope)
    return [grad_x, grad_centred * inverse, grad_sum]
