"""Operations with shapes as operands become operations with static shapes, if the shapes are known at import."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, ImportedShapeError, ImportIRError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.dialects.stablehlo import ConvDims, GatherDims, I64Array, String, array_of
from nabla_mlir.dialects.types import dtype_of, element_dtype, shape_and_dtype, tensor_type
from nabla_mlir.ops.convolution import conv_params, convolution
from nabla_mlir.ops.shape import broadcast_in_dim, pad, reshape, slice_, sliced
from nabla_mlir.passes.normalize.known_numbers import arguments_of, known
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import Tensor, constant, full, wrap


def is_dynamic(type: ir.Type) -> bool:
    """True for a tensor with an unknown size."""
    return isinstance(type, ir.RankedTensorType) and not type.has_static_shape


def numbers_of(op: ir.Operation, index: int) -> tuple[int, ...]:
    """The elements of operand `index` as ints. Raises ImportIRError if they are not known during the import."""
    number = known(op.operands[index])
    if number is None:
        raise _unknown(op, index)
    return tuple(int(n) for n in number.ravel())


def _unknown(op: ir.Operation, index: int) -> ImportIRError:
    """The error for a size that depends on the elements of an array."""
    arguments = sorted(arguments_of(op.operands[index]))
    advice = "sizes may be computed from constants and from the sizes of arguments only; give the result a fixed size."
    if arguments:
        words = ", ".join(map(str, arguments))
        advice = f"it depends on the number in argument {words}: give that as a Python integer, which is not traced."
    return ImportIRError(
        f"importing requires shapes that are constants, got a computed operand {index} of {op.name}.",
        where=source_of(op.location),
        help=advice,
    )


def _static(make: Callable[..., Tensor]) -> Callable[[ir.Operation], list[ir.Value]]:
    """The pattern that replaces an operation by the tensor `make(operation, first operand)` of static shape.

    The pattern raises ImportIRError for a first operand of dynamic shape.
    """

    def rewrite(op: ir.Operation) -> list[ir.Value]:
        """The values that replace the results of the operation; raises ImportIRError if its type is not static."""
        try:
            return [make(op, wrap(op.operands[0])).value]
        except DtypeError as error:
            raise ImportIRError(
                f"importing requires static shapes, got {op.operands[0].type} at {op.name}.", where=source_of(op.location)
            ) from error

    return rewrite


def sizes_of(op: ir.Operation, index: int) -> tuple[int, ...]:
    """The elements of operand `index`, which must be known sizes. Raises an error for negative ones."""
    sizes = numbers_of(op, index)
    if any(n < 0 for n in sizes):
        raise ImportedShapeError(
            f"importing requires sizes of 0 or more, got {sizes} as operand {index} of {op.name}.", where=source_of(op.location)
        )
    return sizes


def result_type(op: ir.Operation, result: int, index: int) -> ir.Type:
    """The static type of result number `result`, from the sizes in operand `index`."""
    type, sizes = op.results[result].type, sizes_of(op, index)
    fits = len(sizes) == type.rank and all(type.is_dynamic_dim(i) or type.get_dim_size(i) == n for i, n in enumerate(sizes))
    if not fits:
        raise ImportedShapeError(
            f"importing requires sizes that fit {type}, got {sizes} as operand {index} of {op.name}.", where=source_of(op.location)
        )
    return tensor_type(sizes, element_dtype(type))


def _shape(op: ir.Operation, index: int) -> tuple[int, ...]:
    """The static shape of the result, from its type, or else from the sizes in operand `index`."""
    type = op.results[0].type
    return tuple((result_type(op, 0, index) if is_dynamic(type) else type).shape)


def _dynamic_broadcast(op: ir.Operation, x: Tensor) -> Tensor:
    """The broadcast of `x` to the static shape of the result."""
    dims = I64Array.decode(op.attributes["broadcast_dimensions"])
    return broadcast_in_dim(x, shape=_shape(op, 1), broadcast_dimensions=dims)


def _dynamic_iota(op: ir.Operation) -> list[ir.Value]:
    """The iota of the static shape that the operand has."""
    dtype = dtype_of(op.results[0].type.element_type)
    iota = REGISTRY["stablehlo.iota"]
    return [iota(shape=_shape(op, 0), dtype=dtype, iota_dimension=op.attributes["iota_dimension"].value).value]


def _empty(op: ir.Operation) -> list[ir.Value]:
    """Zeros for `tensor.empty`, whose elements are arbitrary."""
    shape, dtype = shape_and_dtype(op.results[0].type)
    return [full(shape, 0, dtype).value]


def _dynamic_pad(op: ir.Operation, x: Tensor) -> Tensor:
    """The pad of `x` by the known numbers in the operands."""
    low, high, interior = (numbers_of(op, i) for i in (2, 3, 4))
    return pad(x, wrap(op.operands[1]), edge_padding_low=low, edge_padding_high=high, interior_padding=interior)


def _dynamic_gather(op: ir.Operation, x: Tensor) -> Tensor:
    """The gather from `x` with the known sizes in the last operand."""
    return REGISTRY["stablehlo.gather"](
        x,
        wrap(op.operands[1]),
        dimension_numbers=GatherDims.decode(op.attributes["dimension_numbers"]),
        slice_sizes=sizes_of(op, 2),
        indices_are_sorted="indices_are_sorted" in op.attributes and bool(op.attributes["indices_are_sorted"].value),
    )


def _dynamic_conv(op: ir.Operation, x: Tensor) -> Tensor:
    """The convolution of `x` with the known padding in the last operand."""
    padding = numbers_of(op, 2)
    params = conv_params(x.ndim - 2) | {"precision_config": None}
    params |= {k: c.decode(op.attributes[k]) for k, c in convolution.attributes.items() if k in op.attributes}
    params["dimension_numbers"] = ConvDims.decode(op.attributes["dimension_numbers"])
    params["padding"] = tuple(zip(padding[::2], padding[1::2], strict=True))
    return convolution(x, wrap(op.operands[1]), dtype=dtype_of(op.results[0].type.element_type), **params)


def _dynamic_slice(op: ir.Operation, x: Tensor) -> Tensor:
    """The slice of `x` for known starts and limits, or of known sizes at a computed start."""
    if known(op.operands[1]) is None and (extent := _extent(op)) is not None:
        return _moving_slice(op, x, extent)
    start, limit, strides = (numbers_of(op, i) for i in (1, 2, 3))
    return slice_(x, start_indices=start, limit_indices=limit, strides=strides)


def _extent(op: ir.Operation) -> ir.Value | None:
    """The value `sizes` of a slice from `start` to `start + sizes`, as `jax.export` writes it; None for other slices."""
    start, limit = op.operands[1], made_by(op.operands[2])
    if limit is None or limit.name != "stablehlo.add" or start not in list(limit.operands):
        return None
    return limit.operands[1 - list(limit.operands).index(start)]


def _moving_slice(op: ir.Operation, x: Tensor, extent: ir.Value) -> Tensor:
    """The slice of known sizes (`extent`) at a computed start; the slice must lie within the array."""
    sizes = known(extent)
    if sizes is None:
        raise _unknown(op, 2)
    starts = wrap(op.operands[1])
    if any(stride != 1 for stride in numbers_of(op, 3)):
        raise ImportIRError(
            f"importing requires strides of 1 for a slice with a computed start, got {numbers_of(op, 3)} of {op.name}.",
            where=source_of(op.location),
        )
    scalars = [reshape(sliced(starts, 0, i, i + 1), shape=()) for i in range(x.ndim)]
    return REGISTRY["stablehlo.dynamic_slice"](x, *scalars, slice_sizes=tuple(int(n) for n in sizes))


def dynamic_bitcast(op: ir.Operation) -> list[ir.Value]:
    """The bits of a value as elements of another dtype.

    If the widths differ, a last axis for the parts is added, or removed.
    """
    return _static(_bitcast)(op)


def _bitcast(op: ir.Operation, x: Tensor) -> Tensor:
    """The bits of `x` as elements of the dtype of the result; see `dynamic_bitcast`."""
    dtype = element_dtype(op.results[0].type)
    ratio = x.dtype.itemsize / dtype.itemsize
    shape = x.shape if ratio == 1 else (*x.shape, int(ratio)) if ratio > 1 else x.shape[:-1]
    return REGISTRY["stablehlo.bitcast_convert"](x, shape=shape, dtype=dtype)


def _dimension_size(op: ir.Operation, x: Tensor) -> Tensor:
    """The size of an axis of `x` as an i32 constant."""
    return constant(np.asarray(x.shape[op.attributes["dimension"].value], np.int32))


def _set_size(op: ir.Operation, x: Tensor) -> Tensor:
    """The operand of `set_dimension_size`, if the size is the one that the axis has. Raises ImportIRError for another size."""
    size, dimension = numbers_of(op, 1)[0], op.attributes["dimension"].value
    if size != x.shape[dimension]:
        raise ImportIRError(
            f"importing requires static shapes, got {op.name} of axis {dimension} to {size}.", where=source_of(op.location)
        )
    return x


# By operation, or target of a custom call: the indices of the operands that must be known; negative ones count from the end.
_SHAPE_OPERANDS: dict[str, tuple[int, ...]] = {
    "stablehlo.dynamic_iota": (0,),
    "stablehlo.dynamic_broadcast_in_dim": (1,),
    "stablehlo.dynamic_reshape": (1,),
    "stablehlo.dynamic_pad": (2, 3, 4),
    "stablehlo.dynamic_gather": (2,),
    "stablehlo.dynamic_conv": (2,),
    "stablehlo.set_dimension_size": (1,),
    "shape_assertion": (0,),
    "stablehlo.dynamic_top_k": (1,),
    "stablehlo.dynamic_rng_bit_generator": (1,),
    "stablehlo.dynamic_reduce_window": (-5, -4, -3, -2, -1),
}
SHAPES = "indices_of_shape_operands"  # of a custom call: the operands that are the shapes of its results


def shape_operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation whose numbers decide the shape of its result."""
    if op.name == "stablehlo.real_dynamic_slice":
        extent = _extent(op)
        return list(op.operands)[1:] if extent is None else [extent, op.operands[3]]
    name = target_of(op) if op.name == "stablehlo.custom_call" else op.name
    indices = [*_SHAPE_OPERANDS.get(name, ()), *(shape_indices(op) if SHAPES in op.attributes else ())]
    return [op.operands[i] for i in indices]


def shape_indices(op: ir.Operation) -> tuple[int, ...]:
    """The indices of the operands of a custom call that are the shapes of its results."""
    return tuple(int(i) for i in array_of(op.attributes[SHAPES]))


def target_of(op: ir.Operation) -> str:
    """The name of the routine that a custom call calls."""
    return str(String.decode(op.attributes["call_target_name"]))


def size_arguments(function: ir.Operation) -> tuple[int, ...]:
    """The indices of the arguments whose numbers are sizes of other values, as in modules of `jax2tf`."""
    indices: set[int] = set()
    for op in nested(function):
        for operand in shape_operands(op):
            indices |= arguments_of(operand)
    return tuple(sorted(indices))


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
