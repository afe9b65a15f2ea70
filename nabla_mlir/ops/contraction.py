"""Products of tensors: dot_general. Convolution has its own file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import DotDims, Raw
from nabla_mlir.dialects.types import element_dtype
from nabla_mlir.ops.shape import move_axis, transpose
from nabla_mlir.sparsity import products as patterns
from nabla_mlir.table.batching import shifted
from nabla_mlir.table.kinds import contraction
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.rules import Tensors
from nabla_mlir.table.samples import Case
from nabla_mlir.table.tensor import Tensor

Dims = dict[str, tuple[int, ...]]


def dims(
    lhs_contract: Sequence[int], rhs_contract: Sequence[int], lhs_batch: Sequence[int] = (), rhs_batch: Sequence[int] = ()
) -> Dims:
    """The dimension numbers of a dot_general, as a dict, with these contracting and batching axes.

    `lhs` and `rhs` are the two factors.
    """
    return dict(zip(DotDims.lists, (tuple(lhs_batch), tuple(rhs_batch), tuple(lhs_contract), tuple(rhs_contract)), strict=True))


def free(ndim: int, batch: Sequence[int], contract: Sequence[int]) -> tuple[int, ...]:
    """The axes of an operand that are neither batching nor contracting."""
    return tuple(d for d in range(ndim) if d not in batch and d not in contract)


def _result(lhs: Tensor, rhs: Tensor, dot_dimension_numbers: Dims, dtype: np.dtype, **_: Any) -> list[Any]:
    """A list with the shape and the dtype of a product; its axes are the batching axes, the free axes of lhs, the free axes of rhs.

    `dot_dimension_numbers` maps names of StableHLO, such as "lhs_contracting_dimensions", to axes.
    """
    lb, rb, lc, rc = (dot_dimension_numbers[f] for f in DotDims.lists)
    shape = [lhs.shape[d] for d in lb] + [lhs.shape[d] for d in free(lhs.ndim, lb, lc)]
    shape += [rhs.shape[d] for d in free(rhs.ndim, rb, rc)]
    return [(tuple(shape), np.dtype(dtype))]


def _transpose(
    cts: Tensors, i: int, xs: Tensors, dot_dimension_numbers: Dims, dtype: np.dtype, precision_config: Any, algorithm: Any
) -> Tensor:
    """The cotangent of factor `i` of `xs` (mine): the product of the other factor with the cotangent of the result, cts[0].

    The axes of the result of a dot_general are: batch, free of lhs, free of rhs. The new product contracts the free axes of the
    other factor. The axes of the new product are batch, free axes of mine, contracted axes of the other; or these in another order,
    if that saves a transposition. Example: for y = A @ x with i = 1, the cotangent of x is A^T @ ct.
    """
    ct = cts[0]
    lb, rb, lc, rc = (dot_dimension_numbers[f] for f in DotDims.lists)
    if i == 0:
        mine, other = xs
        mb, ob, mc, oc = lb, rb, lc, rc
        ct_mine = tuple(range(len(lb), len(lb) + mine.ndim - len(mb) - len(mc)))
        ct_other = tuple(range(len(lb) + len(ct_mine), ct.ndim))
    else:
        other, mine = xs
        ob, mb, oc, mc = lb, rb, lc, rc
        ct_other = tuple(range(len(lb), len(lb) + other.ndim - len(ob) - len(oc)))
        ct_mine = tuple(range(len(lb) + len(ct_other), ct.ndim))
    other_free = free(other.ndim, ob, oc)
    batch = tuple(range(len(lb)))
    mine_free = free(mine.ndim, mb, mc)
    # The contracted axes of `other` are in its own order in the result; this is the order of the paired axes of `mine`.
    mine_contract = tuple(mc[k] for k in np.argsort(oc)) if oc else ()
    params = {"dtype": mine.dtype, "precision_config": precision_config, "algorithm": algorithm}
    other_first = (*mb, *mine_contract, *mine_free)
    if other_first == tuple(range(mine.ndim)):
        return dot_general(other, ct, dot_dimension_numbers=dims(other_free, ct_other, ob, batch), **params)
    out = dot_general(ct, other, dot_dimension_numbers=dims(ct_other, other_free, batch, ob), **params)
    order = (*mb, *mine_free, *mine_contract)  # the axis of `mine` at each index of the result
    if order == tuple(range(mine.ndim)):
        return out
    return transpose(out, permutation=tuple(int(k) for k in np.argsort(order)))


def _batch(xs: Tensors, mapped: Sequence[bool], size: int, dot_dimension_numbers: Dims, **params: Any) -> list[Tensor]:
    """The product for all `size` entries of a map; `mapped` is True for each factor of `xs` that has the mapped axis first.

    The mapped axis becomes a batching axis of both factors, or a free axis of the mapped one.
    """
    lhs, rhs = xs
    lb, rb, lc, rc = (dot_dimension_numbers[f] for f in DotDims.lists)
    if mapped[0] and mapped[1]:
        numbers = dims(shifted(lc), shifted(rc), (0, *shifted(lb)), (0, *shifted(rb)))
        return [dot_general(lhs, rhs, dot_dimension_numbers=numbers, **params)]
    # An unmapped factor keeps its shape: the mapped axis is a free axis of the other factor.
    if mapped[0]:
        out = dot_general(lhs, rhs, dot_dimension_numbers=dims(shifted(lc), rc, shifted(lb), rb), **params)
        return [move_axis(out, len(lb), 0)]
    numbers = dims(lc, shifted(rc), lb, shifted(rb))
    lhs_free = lhs.ndim - len(lb) - len(lc)
    rhs_free = rhs.ndim - 1 - len(rb) - len(rc)
    if lhs_free and not rhs_free and not _has_factor_params(lhs, rhs, params):
        # A shared matrix times mapped vectors: with the factors exchanged the mapped axis leads by itself.
        exchange = dims(shifted(rc), lc, shifted(rb), lb)
        return [move_axis(dot_general(rhs, lhs, dot_dimension_numbers=exchange, **params), len(lb), 0)]
    out = dot_general(lhs, rhs, dot_dimension_numbers=numbers, **params)
    return [move_axis(out, len(lb) + lhs_free, 0)]


def _has_factor_params(lhs: Tensor, rhs: Tensor, params: Any) -> bool:
    """True if the factors may not be exchanged: an algorithm is set for each factor, or the dtypes differ."""
    return params.get("algorithm") is not None or lhs.dtype != rhs.dtype


def _flops(outs: Tensors, xs: Tensors, dot_dimension_numbers: Dims, **_: Any) -> int:
    axes = dot_dimension_numbers["lhs_contracting_dimensions"]
    return 2 * outs[0].size * math.prod(xs[0].shape[d] for d in axes)


dot_general: OpDef = contraction(
    "stablehlo.dot_general",
    pattern=patterns.dot_general,
    doc="Sum of products over the contracting axes; batching axes are paired.",
    flops=_flops,
    attributes={"dot_dimension_numbers": DotDims, "precision_config": Raw, "algorithm": Raw},
    defaults={"precision_config": None, "algorithm": None},
    result=_result,
    result_params=lambda op: {"dtype": element_dtype(op.results[0].type)},
    transpose=_transpose,
    batch=_batch,
    sample=[
        Case(((2, 3), (3, 4)), {"dot_dimension_numbers": dims((1,), (0,)), "dtype": None}, numpy=np.matmul),
        Case(((3, 2), (4, 3)), {"dot_dimension_numbers": dims((0,), (1,)), "dtype": None}, numpy=lambda a, b: a.T @ b.T),
        Case(((3,), (3,)), {"dot_dimension_numbers": dims((0,), (0,)), "dtype": None}, numpy=np.dot),
        Case(((2, 3), (3,)), {"dot_dimension_numbers": dims((1,), (0,)), "dtype": None}, numpy=np.dot),
        Case(((2,), (3,)), {"dot_dimension_numbers": dims((), ()), "dtype": None}, numpy=np.outer),
        Case(
            ((2, 3, 4), (5, 2, 4)),
            {"dot_dimension_numbers": dims((2,), (2,), (0,), (1,)), "dtype": None},
            numpy=lambda a, b: np.einsum("bij,kbj->bik", a, b),
        ),
        Case(
            ((3, 2, 4), (4, 5, 2)),
            {"dot_dimension_numbers": dims((1, 2), (2, 0)), "dtype": None},
            numpy=lambda a, b: np.einsum("ijk,klj->il", a, b),
        ),
        Case(
            ((2, 3, 4, 2), (4, 2, 3, 5)),
            {"dot_dimension_numbers": dims((2,), (0,), (1, 3), (2, 1)), "dtype": None},
            numpy=lambda a, b: np.einsum("ibjc,jcbk->bcik", a, b),
        ),
        Case(((2, 0), (0, 3)), {"dot_dimension_numbers": dims((1,), (0,)), "dtype": None}, numpy=np.matmul),
    ],
)
