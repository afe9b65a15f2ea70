"""Which operations write to a buffer, which values are one buffer, and how a value gets one of its own."""

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

_BARRIER = "util.optimization_barrier"  # of a scalar of the host, and the number of the copy


def computed(value: ir.Value, number: int) -> ir.Value:
    """The same values in a buffer of their own, as something that IREE does not know to be constant.

    Args:
      number: one that no other copy in the module has, since IREE merges equal ones.
    """
    shape, dtype = shape_and_dtype(value.type)
    maker = made_by(value)
    if maker is not None and maker.name in _FOLDED and is_constant(value):  # of complex parts for instance
        parts = [computed(part, number) for part in maker.operands]
        again = maker.clone().operation
        for i, part in enumerate(parts):
            again.operands[i] = part
        return again.results[0]
    splat = constant_splat(maker) if maker is not None and maker.name == "stablehlo.constant" else None
    if splat is not None:
        return _hidden_splat(splat, shape, dtype, number)
    if dtype.kind == "c":
        return complex_(*(Val(computed(part(Val(value)).value, number)) for part in (real, imag))).value
    # As bits: arithmetic changes NaNs, and numbers that are subnormal.
    bits = np.dtype(f"i{dtype.itemsize}")
    plain = value if dtype.kind in "biu" else _as(value, bits)
    scalar = _hidden_splat(0, shape, dtype if dtype.kind in "biu" else bits, number)
    same = emit("stablehlo.or", [plain, scalar]).results[0]
    return same if dtype.kind in "biu" else _as(same, dtype)


def _as(value: ir.Value, dtype: np.dtype) -> ir.Value:
    type = tensor_type(shape_and_dtype(value.type)[0], dtype)
    return emit("stablehlo.bitcast_convert", [value], results=[type]).results[0]


def is_constant(value: ir.Value) -> bool:
    """True if IREE can fold what the value is made of to a constant."""
    return constant_key(value) is not None


def _hidden_splat(value: complex, shape: tuple[int, ...], dtype: np.dtype, number: int) -> ir.Value:
    """A number everywhere. It passes a barrier as a scalar of the host: one of the device would cut the program."""
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        parts = [_hidden_splat(x, shape, part, number) for x in (value.real, value.imag)]
        return emit("stablehlo.complex", parts, results=[tensor_type(shape, dtype)]).results[0]
    bits = np.array(value).astype(dtype).view(f"i{dtype.itemsize}")
    if dtype in (np.float32, np.float64) and not bits:
        return _filled(arith.ConstantOp(element_type(dtype), 0.0).result, shape, number)
    # The host has no other floats, unsigned numbers or truth values, and takes -0.0 for 0.0.
    whole = _filled(arith.ConstantOp(element_type(bits.dtype), int(bits)).result, shape, number)
    name = "stablehlo.convert" if dtype.kind == "b" else "stablehlo.bitcast_convert"
    return emit(name, [whole], results=[tensor_type(shape, dtype)]).results[0] if bits.dtype != dtype else whole


def copy_numbers(module: ir.Operation) -> Iterator[int]:
    """Numbers for `computed` that no copy in the module has by now."""
    makers = [made_by(op.operands[1]) for op in nested_in_functions(module) if op.name == _BARRIER and len(op.operands) == 2]
    yield from itertools.count(
        1 + max((ir.IntegerAttr(op.attributes["value"]).value for op in makers if op), default=-1)
    )


def _filled(scalar: ir.Value, shape: tuple[int, ...], number: int) -> ir.Value:
    from iree.compiler.dialects import linalg  # an eighth of the time in which nabla-opt starts, and rarely needed

    mark = arith.ConstantOp(ir.IntegerType.get_signless(32), number).result
    opaque, _ = emit(_BARRIER, [scalar, mark], results=[scalar.type, mark.type]).results
    return linalg.fill(opaque, outs=[tensor.EmptyOp(shape, scalar.type).result])


# With a constant operand, IREE makes constants of these before it lays out buffers: a fact of IREE, not of the operations.
_FOLDED = ("stablehlo.complex", "stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert")


def constant_key(value: ir.Value) -> object:
    """What is equal for values that are equal constants, also where IREE is the one that folds them; else None."""
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
