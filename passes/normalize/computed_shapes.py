"""Operations with shapes as operands become operations with static shapes, if the shapes are known at import."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, ImportIRError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.stablehlo import ConvDims, GatherDims, I64Array
from nabla_mlir.dialects.types import dtype_of, shape_and_dtype
from nabla_mlir.ops.convolution import conv_params, convolution
from nabla_mlir.ops.shape import broadcast_in_dim, pad, reshape, slice_
from nabla_mlir.passes.normalize.known_numbers import known
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import Tensor, constant, full, wrap


def is_dynamic(type: ir.Type) -> bool:
    """True for a tensor with an unknown size."""
    return isinstance(type, ir.RankedTensorType) and not type.has_static_shape


def numbers_of(op: ir.Operation, index: int) -> tuple[int, ...]:
    """The elements of an operand, which must be known."""
    number = known(op.operands[index])
    if number is None:
        raise ImportIRError(
            f"importing requires shapes that are constants, got a computed operand {index} of {op.name}.",
            where=source_of(op.location),
        )
    return tuple(int(n) for n in number.ravel())


def _static(make: Callable[..., Tensor]) -> Callable[[ir.Operation], list[ir.Value]]:
    def rewrite(op: ir.Operation) -> list[ir.Value]:
        try:
            return [make(op, wrap(op.operands[0])).value]
        except DtypeError as error:
            raise ImportIRError(
                f"importing requires static shapes, got {op.operands[0].type} at {op.name}.", where=source_of(op.location)
            ) from error

    return rewrite


def _shape(op: ir.Operation, index: int) -> tuple[int, ...]:
    """The shape of the result, from its type or else from an operand."""
    type = op.results[0].type
    return numbers_of(op, index) if is_dynamic(type) else tuple(type.shape)


def _dynamic_broadcast(op: ir.Operation, x: Tensor) -> Tensor:
    dims = I64Array.decode(op.attributes["broadcast_dimensions"])
    return broadcast_in_dim(x, shape=_shape(op, 1), broadcast_dimensions=dims)


def _dynamic_iota(op: ir.Operation) -> list[ir.Value]:
    dtype = dtype_of(op.results[0].type.element_type)
    iota = REGISTRY["stablehlo.iota"]
    return [iota(shape=_shape(op, 0), dtype=dtype, iota_dimension=op.attributes["iota_dimension"].value).value]


def _empty(op: ir.Operation) -> list[ir.Value]:
    """The operand, because the elements are arbitrary."""
    shape, dtype = shape_and_dtype(op.results[0].type)
    return [full(shape, 0, dtype).value]


def _dynamic_pad(op: ir.Operation, x: Tensor) -> Tensor:
    low, high, interior = (numbers_of(op, i) for i in (2, 3, 4))
    return pad(x, wrap(op.operands[1]), edge_padding_low=low, edge_padding_high=high, interior_padding=interior)


def _dynamic_gather(op: ir.Operation, x: Tensor) -> Tensor:
    return REGISTRY["stablehlo.gather"](
        x,
        wrap(op.operands[1]),
        dimension_numbers=GatherDims.decode(op.attributes["dimension_numbers"]),
        slice_sizes=numbers_of(op, 2),
        indices_are_sorted="indices_are_sorted" in op.attributes and bool(op.attributes["indices_are_sorted"].value),
    )


def _dynamic_conv(op: ir.Operation, x: Tensor) -> Tensor:
    padding = numbers_of(op, 2)
    params = conv_params(x.ndim - 2) | {"precision_config": None}
    params |= {k: c.decode(op.attributes[k]) for k, c in convolution.attributes.items() if k in op.attributes}
    params["dimension_numbers"] = ConvDims.decode(op.attributes["dimension_numbers"])
    params["padding"] = tuple(zip(padding[::2], padding[1::2], strict=True))
    return convolution(x, wrap(op.operands[1]), dtype=dtype_of(op.results[0].type.element_type), **params)


def _dynamic_slice(op: ir.Operation, x: Tensor) -> Tensor:
    start, limit, strides = (numbers_of(op, i) for i in (1, 2, 3))
    return slice_(x, start_indices=start, limit_indices=limit, strides=strides)


def _dimension_size(op: ir.Operation, x: Tensor) -> Tensor:
    return constant(np.asarray(x.shape[op.attributes["dimension"].value], np.int32))


def _set_size(op: ir.Operation, x: Tensor) -> Tensor:
    size, dimension = numbers_of(op, 1)[0], op.attributes["dimension"].value
    if size != x.shape[dimension]:
        raise ImportIRError(
            f"importing requires static shapes, got {op.name} of axis {dimension} to {size}.", where=source_of(op.location)
        )
    return x


COMPUTED_SHAPES: dict[str, Callable[[ir.Operation], list[ir.Value] | None]] = {
    "tensor.empty": _empty,
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.dynamic_broadcast_in_dim": _static(_dynamic_broadcast),
    "stablehlo.dynamic_reshape": _static(lambda op, x: reshape(x, shape=_shape(op, 1))),
    "stablehlo.dynamic_pad": _static(_dynamic_pad),
    "stablehlo.dynamic_gather": _static(_dynamic_gather),
    "stablehlo.dynamic_conv": _static(_dynamic_conv),
    "stablehlo.real_dynamic_slice": _static(_dynamic_slice),
    "stablehlo.get_dimension_size": _static(_dimension_size),
    "stablehlo.set_dimension_size": _static(_set_size),
}
