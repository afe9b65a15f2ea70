"""Aliasing: the operations that write to a buffer, the values that share one buffer, and copies to separate buffers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import arith, tensor

from nabla_mlir.dialects.builder import Val, complex_, imag, real
from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import constant_attribute, constant_splat, emit
from nabla_mlir.dialects.types import element_type, shape_and_dtype, tensor_type
from nabla_mlir.passes.iree.internals.barriers import HOST_BARRIER, behind_barrier


def computed(value: ir.Value, number: int) -> ir.Value:
    """A copy of a value in a separate buffer, in a form that IREE does not recognise as a constant.

    Args:
      value: the value.
      number: a number that no other copy in the module has, because IREE merges equal copies.
    """
    shape, dtype = shape_and_dtype(value.type)
    maker = made_by(value)
    if maker is not None and maker.name in _FOLDED and is_constant(value):  # for example complex numbers from constant parts
        parts = [computed(part, number) for part in maker.operands]
        copy = maker.clone().operation
        for i, part in enumerate(parts):
            copy.operands[i] = part
        return copy.results[0]
    splat = constant_splat(maker) if maker is not None and maker.name == "stablehlo.constant" else None
    if splat is not None:
        return _hidden_splat(splat, shape, dtype, number)
    if dtype.kind == "c":
        return complex_(*(Val(computed(part(Val(value)).value, number)) for part in (real, imag))).value
    # As bits, because arithmetic changes NaNs and subnormal numbers.
    bits = np.dtype(f"i{dtype.itemsize}")
    plain = value if dtype.kind in "biu" else _bitcast(value, bits)
    scalar = _hidden_splat(0, shape, dtype if dtype.kind in "biu" else bits, number)
    same = emit("stablehlo.or", [plain, scalar]).results[0]
    return same if dtype.kind in "biu" else _bitcast(same, dtype)


def _bitcast(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """The bits of a value as another dtype of the same width."""
    type = tensor_type(shape_and_dtype(value.type)[0], dtype)
    return emit("stablehlo.bitcast_convert", [value], results=[type]).results[0]


def is_constant(value: ir.Value) -> bool:
    """True if IREE can fold the value to a constant."""
    return constant_key(value) is not None


def _hidden_splat(value: complex, shape: tuple[int, ...], dtype: np.dtype, number: int) -> ir.Value:
    """An array filled with one number, which IREE does not recognise as a constant.

    The number passes a barrier as a host scalar; a barrier on the device would divide the program.
    """
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        parts = [_hidden_splat(x, shape, part, number) for x in (value.real, value.imag)]
        return emit("stablehlo.complex", parts, results=[tensor_type(shape, dtype)]).results[0]
    bits = np.array(value).astype(dtype).view(f"i{dtype.itemsize}")
    if dtype in (np.float32, np.float64) and not bits:
        return _filled(arith.ConstantOp(element_type(dtype), 0.0).result, shape, number)
    # The host has no other floats, no unsigned numbers and no truth values, and treats -0.0 as 0.0.
    whole = _filled(arith.ConstantOp(element_type(bits.dtype), int(bits)).result, shape, number)
    name = "stablehlo.convert" if dtype.kind == "b" else "stablehlo.bitcast_convert"
    return emit(name, [whole], results=[tensor_type(shape, dtype)]).results[0] if bits.dtype != dtype else whole


def copy_numbers(module: ir.Operation) -> Iterator[int]:
    """An iterator over integers that no copy by `computed` in the module has as its number yet."""
    makers = [made_by(op.operands[1]) for op in nested_in_functions(module) if op.name == HOST_BARRIER and len(op.operands) == 2]
    yield from itertools.count(1 + max((ir.IntegerAttr(op.attributes["value"]).value for op in makers if op), default=-1))


def _filled(scalar: ir.Value, shape: tuple[int, ...], number: int) -> ir.Value:
    """A tensor of this shape filled with a scalar.

    A barrier hides the scalar together with `number`, so that IREE merges no two of these tensors.
    """
    from iree.compiler.dialects import linalg  # rarely needed, and an eighth of nabla-opt's start time

    mark = arith.ConstantOp(ir.IntegerType.get_signless(32), number).result
    opaque, _ = behind_barrier([scalar, mark])
    return linalg.fill(opaque, outs=[tensor.EmptyOp(shape, scalar.type).result])


# IREE folds these operations on constants before it lays out buffers; this is a fact about IREE, not about the
# operations.
_FOLDED = ("stablehlo.complex", "stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert")


def constant_key(value: ir.Value) -> object:
    """A key of a constant, or of a value that IREE folds to a constant: equal for equal constants. None for other values."""
    op = made_by(value)
    if op is None:
        return None
    if op.name == "stablehlo.constant":
        return constant_attribute(op)
    if op.name not in _FOLDED:
        return None
    parts = tuple(constant_key(v) for v in op.operands)
    if any(part is None for part in parts):  # not `in`: an attribute cannot be compared with None
        return None
    return (op.name, value.type, parts)
