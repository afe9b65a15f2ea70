"""Convolution in full: any dimension numbers, strides, padding, dilations, window reversal and groups.

Rules read the dimension numbers as axis positions: (batch, feature, *spatial) for `lhs` and `out`, and (output feature,
input feature, *spatial) for `rhs`. In local names, l, r and o are the operands and the result, followed by b, f, s, o or i
for the axis: `lb` is the batch axis of lhs, `ri` the input-feature axis of rhs. Both transposes are convolutions, too, with
these roles exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import I64, BoolArray, ConvDims, I64Array, Padding, Raw
from nabla_mlir.dialects.types import element_dtype
from nabla_mlir.ops.elementwise import convert
from nabla_mlir.ops.shape import move_axis, reshape, reverse
from nabla_mlir.ops.windows import spread
from nabla_mlir.sparsity import windows as patterns
from nabla_mlir.table.kinds import contraction
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.rules import Tensors
from nabla_mlir.table.samples import Case
from nabla_mlir.table.tensor import Tensor, full_like

Positions = tuple[int, ...]
# The two named axes of lhs, rhs and result: batch and feature, output and input feature, batch and feature.
_LETTERS = (("b", "f"), ("o", "i"), ("b", "f"))


def positions(dimension_numbers: Any) -> tuple[Positions, ...]:
    """For lhs, rhs and result: the positions of the two named axes and of each spatial axis.

    `dimension_numbers` has a tuple of names for each of them. Example: ("b", 0, 1, "f") for lhs gives (0, 3, 1, 2).
    """
    return tuple(
        tuple(dims.index(key) for key in (*letters, *range(len(dims) - 2)))
        for dims, letters in zip(dimension_numbers, _LETTERS, strict=True)
    )


def numbers(*sides: Positions) -> Any:
    """The dimension numbers with these positions of lhs, rhs and result."""
    out = []
    for own_axes, letters in zip(sides, _LETTERS, strict=True):
        keys: list[Any] = [None] * len(own_axes)
        for position, key in zip(own_axes, (*letters, *range(len(own_axes) - 2)), strict=True):
            keys[position] = key
        out.append(tuple(keys))
    return tuple(out)


def _result_params(op: Any) -> dict[str, Any]:
    """The dtype of the result, and the default values of absent attributes."""
    trivial = conv_params(op.results[0].type.rank - 2)
    del trivial["dimension_numbers"]
    return {name: value for name, value in trivial.items() if name not in op.attributes} | {
        "dtype": element_dtype(op.results[0].type)
    }


def _result(
    lhs: Tensor,
    rhs: Tensor,
    *,
    dimension_numbers: Any,
    window_strides: Positions,
    padding: Any,
    lhs_dilation: Positions,
    rhs_dilation: Positions,
    batch_group_count: int,
    dtype: np.dtype,
    **_: Any,
) -> list[Any]:
    """The shape and dtype of the result of a convolution."""
    (lb, _lf, *ls), (ro, _ri, *rs), (ob, of, *os) = positions(dimension_numbers)
    shape = [0] * lhs.ndim
    shape[ob], shape[of] = lhs.shape[lb] // batch_group_count, rhs.shape[ro]
    for k, position in enumerate(os):
        room = spread(lhs.shape[ls[k]], lhs_dilation[k]) + sum(padding[k])
        window = spread(rhs.shape[rs[k]], rhs_dilation[k])
        shape[position] = 0 if room < window or room <= 0 else (room - window) // window_strides[k] + 1
    return [(tuple(shape), np.dtype(dtype))]


# ---------------------------------------------------------------- axes folded into others


def _merge(x: Tensor, source: int, target: int) -> Tensor:
    """The array with axis `source` folded into axis `target`, as its slower part; both are positions in the shape of `x`.

    Example: shape (2, 3, 5), source 0, target 2 gives shape (3, 10).
    """
    target -= target > source
    x = move_axis(x, source, target)
    return reshape(x, shape=(*x.shape[:target], x.shape[target] * x.shape[target + 1], *x.shape[target + 2 :]))


def _split(x: Tensor, axis: int, outer: int) -> Tensor:
    """Splits `axis` into two axes (outer, inner)."""
    return reshape(x, shape=(*x.shape[:axis], outer, x.shape[axis] // outer, *x.shape[axis + 1 :]))


def _fold(x: Tensor, axis: int, groups: int) -> Tensor:
    """The array with its leading axis folded into `axis`, which is numbered without the leading one.

    If `axis` has groups, each group of the result holds the group of every entry: (groups, entries, elements of a group).
    """
    if groups == 1:
        return _merge(x, 0, axis + 1)
    size = x.shape[0]
    x = move_axis(_split(x, axis + 1, groups), 0, axis + 1)  # ..., groups, size, inner, ...
    return reshape(x, shape=(*x.shape[:axis], groups * size * x.shape[axis + 2], *x.shape[axis + 3 :]))


def _unfold(x: Tensor, axis: int, groups: int, size: int) -> Tensor:
    """The array with a leading axis of `size` entries, taken out of `axis`, which holds (groups, size, rest); (groups, rest) stay
    there.
    """
    inner = x.shape[axis] // (groups * size)
    x = reshape(x, shape=(*x.shape[:axis], groups, size, inner, *x.shape[axis + 1 :]))
    x = move_axis(x, axis + 1, 0)
    return reshape(x, shape=(size, *x.shape[1 : axis + 1], groups * inner, *x.shape[axis + 3 :]))


# ---------------------------------------------------------------- transposes


def _transpose(cts: Tensors, i: int, xs: Tensors, **params: Any) -> Tensor:
    """The cotangent of operand `i` of `xs`, in its dtype, from the cotangent cts[0] of the result; zeros if an array is empty."""
    ct, mine, other = cts[0], xs[i], xs[1 - i]
    if 0 in (ct.size, mine.size, other.size):
        return full_like(mine, 0)
    if other.dtype != ct.dtype:
        other = convert(other, dtype=ct.dtype)
    params |= {"dtype": ct.dtype}
    out = _lhs_cotangent(ct, mine, other, **params) if i == 0 else _rhs_cotangent(ct, other, mine, **params)
    return out if out.dtype == mine.dtype else convert(out, dtype=mine.dtype)


def _lhs_cotangent(
    ct: Tensor,
    lhs: Tensor,
    rhs: Tensor,
    *,
    dimension_numbers: Any,
    window_strides: Positions,
    padding: Any,
    lhs_dilation: Positions,
    rhs_dilation: Positions,
    window_reversal: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Tensor:
    """The cotangent of lhs: a convolution of the cotangent `ct`, dilated by the strides, with the reversed kernel.

    The parameters are those of the convolution.
    """
    left, (ro, ri, *rs), out = positions(dimension_numbers)
    groups = max(feature_group_count, batch_group_count)
    if groups > 1:  # the groups move from the output features of the kernel to its input features
        split = _split(rhs, ro, groups)
        source, target = ro, ri + (ri > ro)
        rhs = _merge(split, source, target)
    new_padding = []
    for k, s in enumerate(rs):
        window = spread(rhs.shape[s], rhs_dilation[k])
        low = window - 1 - padding[k][0]
        room = spread(lhs.shape[left[2 + k]], lhs_dilation[k]) + window - 1
        new_padding.append((low, room - spread(ct.shape[out[2 + k]], window_strides[k]) - low))
    x = convolution(
        ct,
        rhs,
        dimension_numbers=numbers(out, (ri, ro, *rs), left),
        window_strides=lhs_dilation,
        padding=tuple(new_padding),
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        window_reversal=tuple(not r for r in window_reversal),
        feature_group_count=groups,
        batch_group_count=1,
        **params,
    )
    if batch_group_count > 1:  # the groups move from the features of the result to its batch
        lb, lf = left[:2]
        x = _merge(_split(x, lf, groups), lf, lb + (lb > lf))
    return x


def _rhs_cotangent(
    ct: Tensor,
    lhs: Tensor,
    rhs: Tensor,
    *,
    dimension_numbers: Any,
    window_strides: Positions,
    padding: Any,
    lhs_dilation: Positions,
    rhs_dilation: Positions,
    window_reversal: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Tensor:
    """The cotangent of rhs: a convolution of lhs with the cotangent `ct` as the window; batch and features exchange their roles.

    The parameters are those of the convolution.
    """
    (lb, lf, *ls), (ro, ri, *rs), (ob, of, *os) = positions(dimension_numbers)
    new_padding = []
    for k, s in enumerate(rs):
        low = padding[k][0]
        room = spread(rhs.shape[s], rhs_dilation[k]) + spread(ct.shape[os[k]], window_strides[k]) - 1
        new_padding.append((low, room - spread(lhs.shape[ls[k]], lhs_dilation[k]) - low))
    kernel = convolution(
        lhs,
        ct,
        dimension_numbers=numbers((lf, lb, *ls), (of, ob, *os), (ri, ro, *rs)),
        window_strides=rhs_dilation,
        padding=tuple(new_padding),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        window_reversal=(False,) * len(rs),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        **params,
    )
    axes = tuple(s for s, r in zip(rs, window_reversal, strict=True) if r)
    return reverse(kernel, dimensions=axes) if axes else kernel


# ---------------------------------------------------------------- batch


def _batch(xs: Tensors, mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
    """The convolution for all `size` entries of a map; `mapped` is True for each operand of `xs` that has the mapped axis first.

    One mapped operand: the axis joins the batch of lhs, or the output features of rhs. Two mapped operands: each entry becomes one
    more group.
    """
    lhs, rhs = xs
    (lb, lf, *_), (ro, *_), (ob, of, *_) = positions(params["dimension_numbers"])
    features, batches = params["feature_group_count"], params["batch_group_count"]
    if mapped[0] and mapped[1]:
        group = "batch_group_count" if batches > 1 else "feature_group_count"
        lhs = _merge(lhs, 0, 1 + (lb if batches > 1 else lf))
        out = convolution(lhs, _merge(rhs, 0, 1 + ro), **{**params, group: size * params[group]})
        return [_unfold(out, of, 1, size)]
    if mapped[0]:
        return [_unfold(convolution(_fold(lhs, lb, batches), rhs, **params), ob, 1, size)]
    groups = max(features, batches)
    return [_unfold(convolution(lhs, _fold(rhs, ro, groups), **params), of, groups, size)]


# ---------------------------------------------------------------- samples


def _numpy(**params: Any) -> Any:
    """A function of NumPy for the convolution with these parameters, as the reference of a sample."""

    def run(lhs: Any, rhs: Any) -> Any:
        """The convolution: both operands are dilated and padded, and split into groups; each group is a product of windows."""
        left, right, own_axes = positions(params["dimension_numbers"])
        x, w = lhs.transpose(left), rhs.transpose(right)  # n i *spatial, o i *window
        for axis, (low, high) in enumerate(params["padding"], 2):
            x = _dilate(x, axis, params["lhs_dilation"][axis - 2], low, high)
            w = _dilate(w, axis, params["rhs_dilation"][axis - 2], 0, 0)
            w = np.flip(w, axis) if params["window_reversal"][axis - 2] else w
        features, batches = params["feature_group_count"], params["batch_group_count"]
        xs = np.split(x, features, 1) if features > 1 else np.split(x, batches, 0)
        ws = np.split(w, max(features, batches), 0)
        parts = [_windows_product(a, b, params["window_strides"]) for a, b in zip(xs, ws, strict=True)]
        return np.concatenate(parts, 1).transpose(np.argsort(own_axes))

    return run


def _dilate(x: Any, axis: int, dilation: int, low: int, high: int) -> Any:
    """x with zeros between its elements and around them along an axis; a negative padding removes elements."""
    holes = np.zeros((*x.shape[:axis], spread(x.shape[axis], dilation), *x.shape[axis + 1 :]), x.dtype)
    holes[(slice(None),) * axis + (slice(None, None, dilation),)] = x
    pads = [(0, 0)] * x.ndim
    pads[axis] = (max(low, 0), max(high, 0))
    padded = np.pad(holes, pads)
    return padded.take(range(max(-low, 0), padded.shape[axis] + min(high, 0)), axis)


def _windows_product(x: Any, w: Any, strides: Positions) -> Any:
    """The convolution of the images `x` with the kernels `w`, one product of NumPy for each position of the window."""
    counts = [max(0, (n - k) // s + 1) for n, k, s in zip(x.shape[2:], w.shape[2:], strides, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *counts), np.result_type(x, w))
    axes = tuple(range(1, x.ndim))
    for at in np.ndindex(*counts):
        here = tuple(slice(i * s, i * s + k) for i, s, k in zip(at, strides, w.shape[2:], strict=True))
        out[(slice(None), slice(None), *at)] = np.tensordot(x[(slice(None), slice(None), *here)], w, (axes, axes))
    return out


def conv_params(rank: int, **params: Any) -> dict[str, Any]:
    """Parameters of a convolution with `rank` spatial axes: batch and features lead, and there is no dilation."""
    spatial = tuple(range(rank))
    lead = ("b", "f", *spatial)
    return {
        "dimension_numbers": (lead, ("o", "i", *spatial), lead),
        "window_strides": (1,) * rank,
        "padding": ((0, 0),) * rank,
        "lhs_dilation": (1,) * rank,
        "rhs_dilation": (1,) * rank,
        "window_reversal": (False,) * rank,
        "feature_group_count": 1,
        "batch_group_count": 1,
        **params,
    }


def _sample(lhs: Sequence[int], rhs: Sequence[int], **changes: Any) -> Case:
    """A sample with operands of these shapes, and with some parameters changed.

    `lhs` and `rhs` are shapes of images and kernels.
    """
    params = conv_params(len(lhs) - 2, **changes)
    return Case((tuple(lhs), tuple(rhs)), {**params, "dtype": None}, numpy=_numpy(**params))


_NHWC = (("b", 0, 1, "f"), (0, 1, "i", "o"), ("b", 0, 1, "f"))
_MIXED = ((1, "f", 0, "b"), ("i", 1, "o", 0), ("f", 0, "b", 1))


def _flops(outs: Tensors, xs: Tensors, dimension_numbers: Any, **_: Any) -> int:
    kernel = xs[1].shape
    features = positions(dimension_numbers)[1][0]
    return 2 * outs[0].size * math.prod(kernel) // max(kernel[features], 1)


convolution: OpDef = contraction(
    "stablehlo.convolution",
    pattern=patterns.convolution,
    doc="Sums of products of the windows of lhs with the kernel rhs.",
    flops=_flops,
    attributes={
        "dimension_numbers": ConvDims,
        "window_strides": I64Array,
        "padding": Padding,
        "lhs_dilation": I64Array,
        "rhs_dilation": I64Array,
        "window_reversal": BoolArray,
        "feature_group_count": I64,
        "batch_group_count": I64,
        "precision_config": Raw,
    },
    defaults={"precision_config": None},
    result=_result,
    result_params=_result_params,
    transpose=_transpose,
    batch=_batch,
    sample=[
        _sample((2, 3, 6), (4, 3, 3)),
        _sample((2, 2, 7), (3, 2, 2), window_strides=(2,), padding=((1, 2),), rhs_dilation=(3,)),
        _sample((1, 2, 4), (3, 2, 3), padding=((-1, 4),), lhs_dilation=(2,), window_reversal=(True,)),
        _sample((2, 5, 6, 2), (3, 2, 2, 3), dimension_numbers=_NHWC, padding=((1, 1), (0, 1)), window_strides=(2, 1)),
        _sample((4, 2, 5, 3), (2, 3, 2, 2), dimension_numbers=_MIXED, rhs_dilation=(2, 1), window_reversal=(True, False)),
        _sample((2, 4, 5), (6, 2, 2), feature_group_count=2, padding=((0, 1),)),
        _sample((1, 3, 5), (6, 1, 2), feature_group_count=3, window_strides=(2,)),
        _sample((4, 2, 5), (6, 2, 3), batch_group_count=2, padding=((2, -1),), lhs_dilation=(2,), window_strides=(3,)),
        _sample((4, 3, 5, 4), (2, 2, 2, 6), dimension_numbers=_NHWC, feature_group_count=2, window_reversal=(False, True)),
        _sample((1, 2, 3, 3, 4), (2, 2, 2, 1, 2), padding=((1, 0), (0, 0), (0, 1)), window_strides=(1, 2, 2)),
        _sample((2, 3), (4, 3)),
        _sample((1, 2, 2), (2, 2, 3)),
    ],
)
