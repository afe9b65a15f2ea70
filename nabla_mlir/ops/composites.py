"""Operations that are defined by others: older products, batch normalisation, selection of rows, map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.stablehlo import I64, Codec, I64Array, Raw, String
from nabla_mlir.dialects.types import element_dtype, shape_and_dtype, tensor_type
from nabla_mlir.ops.contraction import dims as dot_dims
from nabla_mlir.ops.contraction import dot_general
from nabla_mlir.ops.einsum import contract, lengths_of, ordered, parse, sum_out, without_repeats
from nabla_mlir.ops.elementwise import rsqrt
from nabla_mlir.ops.gather import gather, gather_dims
from nabla_mlir.ops.reduction import apply_body
from nabla_mlir.ops.shape import broadcast_in_dim, expand, reduce_sum, reshape
from nabla_mlir.table.kinds import composite
from nabla_mlir.table.registry import REGISTRY, OpDef, Region
from nabla_mlir.table.samples import Case, integers, reals
from nabla_mlir.table.tensor import Tensor

Shape = tuple[int, ...]
F32 = Codec(lambda v: ir.FloatAttr.get(ir.F32Type.get(context()), float(v), loc=ir.Location.unknown(context())), lambda a: a.value)


# ---------------------------------------------------------------- broadcast, dot, einsum


def _broadcast(xs: Sequence[Tensor], *, broadcast_sizes: Shape) -> list[Tensor]:
    shape = (*broadcast_sizes, *xs[0].shape)
    return [expand(xs[0], shape, tuple(range(len(broadcast_sizes))))]


broadcast: OpDef = composite(
    "stablehlo.broadcast",
    doc="The operand repeated along new leading axes.",
    define=_broadcast,
    moves=True,
    free=True,
    instructions=1,
    attributes={"broadcast_sizes": I64Array},
    result=lambda x, broadcast_sizes: [((*broadcast_sizes, *x.shape), x.dtype)],
    sample=[Case(((3,),), {"broadcast_sizes": (2, 1)}, numpy=lambda x: np.broadcast_to(x, (2, 1, 3)))],
)


def _dtype_of_result(op: ir.Operation) -> dict[str, Any]:
    return {"dtype": element_dtype(op.results[0].type)}


def _dot(xs: Sequence[Tensor], *, dtype: np.dtype, **params: Any) -> list[Tensor]:
    numbers = dot_dims((xs[0].ndim - 1,), (0,))
    return [dot_general(*xs, dot_dimension_numbers=numbers, dtype=np.dtype(dtype), **params)]


dot: OpDef = composite(
    "stablehlo.dot",
    doc="The product of matrices and vectors.",
    define=_dot,
    attributes={"precision_config": Raw},
    defaults={"precision_config": None},
    result=lambda x, y, dtype, **_: [(x.shape[:-1] + y.shape[1:], np.dtype(dtype))],
    result_params=_dtype_of_result,
    sample=[Case(shapes, {"dtype": None}, numpy=np.dot) for shapes in (((2, 3), (3, 4)), ((2, 3), (3,)), ((3,), (3,)))],
)


def einsum_of(xs: Sequence[Tensor], *, einsum_config: str, dtype: Any = None) -> list[Tensor]:
    """The result of `stablehlo.einsum` or `stablehlo.unary_einsum`, by other operations.

    `einsum_config` has the subscripts, such as "ij,jk->ik".
    """
    terms, output = parse(einsum_config, [x.shape for x in xs], arrow=True)
    parts = [without_repeats(x, term) for x, term in zip(xs, terms, strict=True)]
    if len(parts) == 1:
        return [ordered(*sum_out(*parts[0], output), output)]
    (a, la), (b, lb) = parts
    return [ordered(*contract(a, la, b, lb, output, None if dtype is None else np.dtype(dtype)), output)]


def _einsum_shape(config: str, shapes: Sequence[Shape]) -> Shape:
    """The shape of the result of an einsum with the subscripts `config`, for operands of these shapes.

    Example: "ij,jk->ik" with (2, 3) and (3, 4) gives (2, 4).
    """
    terms, output = parse(config, shapes, arrow=True)
    sizes = lengths_of(config, terms, shapes)
    return tuple(sizes[c] for c in output)


def _einsum_result(x: Tensor, y: Tensor, einsum_config: str, dtype: Any) -> list[Any]:
    if x.dtype != y.dtype:
        raise DtypeError(f"einsum requires operands of one dtype, got {x.dtype} and {y.dtype}.", where=user_frame())
    return [(_einsum_shape(einsum_config, [x.shape, y.shape]), np.dtype(dtype))]


einsum: OpDef = composite(
    "stablehlo.einsum",
    doc="The product of two tensors by Einstein's convention.",
    define=einsum_of,
    attributes={"einsum_config": String},
    result=_einsum_result,
    result_params=_dtype_of_result,
    sample=[
        Case(shapes, {"einsum_config": config, "dtype": None}, numpy=lambda x, y, c=config: np.einsum(c, x, y))
        for config, shapes in (
            ("ij,jk->ki", ((2, 3), (3, 4))),
            ("bij,bj->bi", ((2, 3, 4), (2, 4))),
            ("i,j->ij", ((2,), (3,))),
            ("ij,ij->", ((2, 3), (2, 3))),
        )
    ],
)
unary_einsum: OpDef = composite(
    "stablehlo.unary_einsum",
    doc="Transposition, diagonal and sums by Einstein's convention.",
    define=einsum_of,
    attributes={"einsum_config": String},
    result=lambda x, einsum_config: [(_einsum_shape(einsum_config, [x.shape]), x.dtype)],
    sample=[],  # no compiler accepts it; the importer rewrites it, and its tests are there
)


# ---------------------------------------------------------------- batch normalisation


def _over_features(v: Tensor, x: Tensor, feature_index: int) -> Tensor:
    """A vector with one number for each feature, broadcast to the shape of x."""
    return broadcast_in_dim(v, shape=x.shape, broadcast_dimensions=(feature_index,))


def _others(x: Tensor, feature_index: int) -> tuple[int, ...]:
    """The axes of x except the feature axis."""
    return tuple(d for d in range(x.ndim) if d != feature_index)


def _mean(x: Tensor, feature_index: int) -> Tensor:
    """The mean of x for each feature."""
    axes = _others(x, feature_index)
    return reduce_sum(x, axes) / float(math.prod(x.shape[d] for d in axes))


def _normalize(xs: Sequence[Tensor], *, epsilon: float, feature_index: int) -> list[Tensor]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset in a list, where `xs` are x, scale, offset, mean and variance.

    The last four are vectors over the features, which are axis `feature_index` of x.
    """
    x, scale, offset, mean, variance = xs
    factor = scale * rsqrt(variance + epsilon)
    deviation = x - _over_features(mean, x, feature_index)
    return [deviation * _over_features(factor, x, feature_index) + _over_features(offset, x, feature_index)]


def _train(xs: Sequence[Tensor], *, epsilon: float, feature_index: int) -> list[Tensor]:
    """The batch normalisation of x by the mean and variance of the batch, this mean, and this variance; `xs` are x, scale and
    offset.
    """
    x, scale, offset = xs
    mean = _mean(x, feature_index)
    deviation = x - _over_features(mean, x, feature_index)
    variance = _mean(deviation * deviation, feature_index)
    params: dict[str, Any] = {"epsilon": epsilon, "feature_index": feature_index}
    return [*_normalize([x, scale, offset, mean, variance], **params), mean, variance]


def _train_gradient(xs: Sequence[Tensor], *, epsilon: float, feature_index: int) -> list[Tensor]:
    """The cotangents of x, scale and offset of a batch normalisation; `xs` are x, scale, mean, variance and the result's
    cotangent.
    """
    x, scale, mean, variance, ct = xs
    axes = _others(x, feature_index)
    inverse = rsqrt(variance + epsilon)
    normal = (x - _over_features(mean, x, feature_index)) * _over_features(inverse, x, feature_index)
    scale_ct, offset_ct = reduce_sum(ct * normal, axes), reduce_sum(ct, axes)
    count = float(math.prod(x.shape[d] for d in axes))
    x_ct = ct - _over_features(offset_ct / count, x, feature_index)
    x_ct = x_ct - normal * _over_features(scale_ct / count, x, feature_index)
    return [x_ct * _over_features(scale * inverse, x, feature_index), scale_ct, offset_ct]


def _train_numpy(x: Any, scale: Any, offset: Any) -> Any:
    """The batch normalisation of the sample in NumPy: feature axis 1, epsilon 0.125."""
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    wide = lambda v: v[:, None]  # noqa: E731
    return [(x - wide(mean)) / np.sqrt(wide(variance) + 0.125) * wide(scale) + wide(offset), mean, variance]


def _gradient_numpy(x: Any, scale: Any, mean: Any, variance: Any, ct: Any) -> Any:
    """The cotangents of the batch normalisation of the sample in NumPy: feature axis 1, epsilon 0.125, 8 elements per feature."""
    wide = lambda v: v[:, None]  # noqa: E731
    inverse = 1 / np.sqrt(variance + 0.125)
    normal = (x - wide(mean)) * wide(inverse)
    s, o = (ct * normal).sum((0, 2)), ct.sum((0, 2))
    return [wide(scale * inverse) * (ct - wide(o) / 8 - normal * wide(s) / 8), s, o]


_NORM: dict[str, Any] = {"attributes": {"epsilon": F32, "feature_index": I64}}
_PARAMS = {"epsilon": 0.125, "feature_index": 1}
_POSITIVE = (None, None, None, reals(0.5, 2))


def _norm_results(x: Tensor, scale: Tensor, *_: Tensor, **__: Any) -> list[Any]:
    return [(x.shape, x.dtype), (scale.shape, scale.dtype), (scale.shape, scale.dtype)]


batch_norm_training: OpDef = composite(
    "stablehlo.batch_norm_training",
    doc="Normalisation over all axes but one; also returns the mean and the variance.",
    define=_train,
    result=_norm_results,
    multi=True,
    **_NORM,
    sample=[Case(((2, 3, 4), (3,), (3,)), _PARAMS, numpy=_train_numpy)],
)
batch_norm_inference: OpDef = composite(
    "stablehlo.batch_norm_inference",
    doc="Normalisation with a mean and a variance that are operands.",
    define=_normalize,
    result=lambda x, *_, **__: [(x.shape, x.dtype)],
    **_NORM,
    sample=[
        Case(
            ((2, 3, 4), (3,), (3,), (3,), (3,)),
            _PARAMS,
            (*_POSITIVE[:3], None, reals(0.5, 2)),
            numpy=lambda x, s, o, m, v: (x - m[:, None]) / np.sqrt(v[:, None] + 0.125) * s[:, None] + o[:, None],
        )
    ],
)
batch_norm_grad: OpDef = composite(
    "stablehlo.batch_norm_grad",
    doc="The cotangents of batch_norm_training for a cotangent of its first result.",
    define=_train_gradient,
    result=_norm_results,
    multi=True,
    **_NORM,
    sample=[Case(((2, 3, 4), (3,), (3,), (3,), (2, 3, 4)), _PARAMS, _POSITIVE, numpy=_gradient_numpy)],
)


# ---------------------------------------------------------------- rows, bodies


def _index_select(xs: Sequence[Tensor], *, dim: int, batch_dims: int) -> list[Tensor]:
    """The slices of x along `dim` at the indices, as `torch.index_select` returns them, by a gather; `xs` are x and the indices.

    The first `batch_dims` axes of both belong together.
    """
    x, index = xs
    free = index.ndim - batch_dims
    batch = tuple(range(batch_dims))
    windows = tuple(d for d in range(x.ndim) if d != dim and d >= batch_dims)
    numbers = gather_dims(
        offset_dims=tuple(d if d < dim else d - 1 + free for d in windows),
        collapsed_slice_dims=(dim,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
        start_index_map=(dim,),
        index_vector_dim=index.ndim,
    )
    sizes = tuple(n if d in windows else 1 for d, n in enumerate(x.shape))
    return [gather(x, index, dimension_numbers=numbers, slice_sizes=sizes)]


def _index_select_shape(x: Tensor, index: Tensor, dim: int, batch_dims: int) -> Shape:
    """The shape of an index_select; raises ShapeError if the axes do not fit."""
    if not 0 <= batch_dims <= dim < x.ndim or x.shape[:batch_dims] != index.shape[:batch_dims]:
        raise ShapeError(
            f"torch_index_select requires an axis of {x.shape} after {batch_dims} axes that the index {index.shape} has "
            f"too, got {dim}.",
            where=user_frame(),
        )
    return (*x.shape[:dim], *index.shape[batch_dims:], *x.shape[dim + 1 :])


torch_index_select: OpDef = composite(
    "stablehlo.torch_index_select",
    doc="The slices of the operand along `dim` at the positions in an index array.",
    define=_index_select,
    attributes={"dim": I64, "batch_dims": I64},
    result=lambda x, i, dim, batch_dims: [(_index_select_shape(x, i, dim, batch_dims), x.dtype)],
    sample=[
        Case(((3, 4), (5,)), {"dim": 1, "batch_dims": 0}, (None, integers(0, 3)), numpy=lambda x, i: x[:, i]),
        Case(
            ((2, 4, 3), (2, 5)),
            {"dim": 1, "batch_dims": 1},
            (None, integers(0, 3)),
            numpy=lambda x, i: np.stack([a[j] for a, j in zip(x, i, strict=True)]),
        ),
    ],
)


def _map(xs: Sequence[Tensor], *, dimensions: Shape, computation: Any) -> list[Tensor]:
    """The result of `computation` on each element of the operands `xs`: a named operation on whole arrays, or a region that is
    batched.
    """
    if not isinstance(computation, Region):
        return [REGISTRY[computation](*xs)]
    shape, size = xs[0].shape, xs[0].size
    outs = apply_body(computation, [reshape(x, shape=(size,)) for x in xs], size)
    return [reshape(y, shape=shape) for y in outs]


def _emit_scalar(region: ir.Region, name: str, operands: Sequence[Tensor]) -> None:
    """Fills a region with the operation `name` on scalars of the operands' dtypes."""
    types = [tensor_type((), x.dtype) for x in operands]
    block = ir.Block.create_at_start(region, types, [ir.Location.unknown()] * len(types))
    with ir.InsertionPoint(block):
        y = REGISTRY[name](*(Tensor(a) for a in block.arguments))
        stablehlo.emit("stablehlo.return", [y.value], results=[])


map_: OpDef = composite(
    "stablehlo.map",
    doc="A function of scalars applied to each element.",
    define=_map,
    attributes={"dimensions": I64Array},
    regions=("computation",),
    emit_region=_emit_scalar,
    decomposition=_map,
    result=lambda *xs, dimensions, computation: [(xs[0].shape, _map_dtype(xs, computation))],
    sample=[Case(((3, 2), (3, 2)), {"dimensions": (0, 1), "computation": "stablehlo.multiply"}, numpy=np.multiply)],
)


def _map_dtype(xs: Sequence[Tensor], computation: Any) -> np.dtype:
    """The dtype of the result of a map: that which the region `computation` returns, or that of the operands for a named
    operation.
    """
    if not isinstance(computation, Region):
        return xs[0].dtype
    *_, last = computation.source.blocks[0].operations
    return shape_and_dtype(last.operation.operands[0].type)[1]
