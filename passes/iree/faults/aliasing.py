"""Buffers that IREE would share although several operations write to them, or free them."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import arith, linalg, tensor

from nabla_mlir.dialects.builder import Val, complex_, held, imag, real
from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.dialects.stablehlo import constant_attribute, constant_splat, emit
from nabla_mlir.dialects.types import element_type, shape_and_dtype, tensor_type
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.table.traits import updated

Write = tuple[ir.Operation, int]  # an operation that updates its operand of this index in place


def separate_buffers(module: ir.Operation) -> None:
    """Computes each constant that is updated for that update alone, where equal constants have other uses.

    IREE 3.13 merges equal constants and lets scatters and dynamic_update_slices change the one buffer in place: what
    else reads it, another update or the caller, sees the changed values (a wrong number, silently), or the compiler
    stops with "'stream.yield' op used resource not listed in explicit captures". An optimization_barrier of the whole
    constant is no cure; one of a scalar that it is computed from is.
    """
    writes: dict[object, list[Write]] = {}
    uses: dict[object, int] = {}
    for op in nested(module):
        if op.name == "stablehlo.constant":
            key = constant_attribute(op)
            uses[key] = uses.get(key, 0) + sum(1 for _ in op.results[0].uses)
        for i in updated(op):
            key = _constant_key(op.operands[i])
            if key is not None:
                writes.setdefault(key, []).append((op, i))
    shared = [write for key, group in writes.items() if max(uses.get(key, 0), len(group)) > 1 for write in group]
    for number, (op, i) in enumerate(shared):
        with ir.InsertionPoint(op), op.location:
            op.operands[i] = computed(op.operands[i], number)


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
    splatted = constant_splat(maker) if maker is not None and maker.name == "stablehlo.constant" else None
    if splatted is not None:
        return _hidden_splat(splatted, shape, dtype, number)
    if dtype.kind == "c":
        return complex_(*(Val(computed(part(Val(value)).value, number)) for part in (real, imag))).value
    # As bits: arithmetic changes NaNs, and numbers that are subnormal.
    bits = np.dtype(f"i{dtype.itemsize}")
    plain = value if dtype.kind in "biu" else _as(value, bits)
    hidden = _hidden_splat(0, shape, dtype if dtype.kind in "biu" else bits, number)
    same = emit("stablehlo.or", [plain, hidden]).results[0]
    return same if dtype.kind in "biu" else _as(same, dtype)


def _as(value: ir.Value, dtype: np.dtype) -> ir.Value:
    type = tensor_type(shape_and_dtype(value.type)[0], dtype)
    return emit("stablehlo.bitcast_convert", [value], results=[type]).results[0]


def is_constant(value: ir.Value) -> bool:
    """True if IREE can fold what the value is made of to a constant."""
    return _constant_key(value) is not None


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
    filled = _filled(arith.ConstantOp(element_type(bits.dtype), int(bits)).result, shape, number)
    name = "stablehlo.convert" if dtype.kind == "b" else "stablehlo.bitcast_convert"
    return emit(name, [filled], results=[tensor_type(shape, dtype)]).results[0] if bits.dtype != dtype else filled


def _filled(scalar: ir.Value, shape: tuple[int, ...], number: int) -> ir.Value:
    mark = arith.ConstantOp(ir.IntegerType.get_signless(32), number).result
    hidden, _ = emit("util.optimization_barrier", [scalar, mark], results=[scalar.type, mark.type]).results
    return linalg.fill(hidden, outs=[tensor.EmptyOp(shape, scalar.type).result])


_FOLDED = ("stablehlo.complex", "stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert")


def _constant_key(value: ir.Value) -> object:
    """What is equal for values that are equal constants, also where IREE is the one that folds them; else None."""
    op = made_by(value)
    if op is None:
        return None
    if op.name == "stablehlo.constant":
        return constant_attribute(op)
    if op.name not in _FOLDED:
        return None
    parts = tuple(_constant_key(v) for v in op.operands)
    if any(part is None for part in parts):  # not `in`: an attribute cannot be compared with None
        return None
    return (op.name, value.type, parts)


def hold_loop_results(module: ir.Operation) -> None:
    """Puts what a loop that may take no step returns behind a barrier.

    IREE 3.13 lets the results of two such loops that one dispatch reads leave in one transient buffer, that of their
    initial values, and frees it once for each: "Vulkan transient buffer has already been queued for deallocation".
    """
    for loop in [op for op in nested(module) if op.name == "stablehlo.while"]:
        counter = find_counter(loop)
        if counter is not None and counter.trips > 0:
            continue
        with ir.InsertionPoint.after(loop), loop.location:
            for result in loop.results:
                uses = [(use.owner, use.operand_number) for use in result.uses]
                value = held(Val(result)).value if uses else result
                for user, i in uses:
                    user.operands[i] = value


def forget_unique_indices(module: ir.Operation) -> None:
    """Lets no scatter say that its indices are unique.

    IREE 3.13 then distributes the scatter otherwise than what it is fused with, and may stop with "write affecting
    operations on global resources are restricted to workgroup distributed contexts" (a gather, a product, a scatter).
    """

    def visit(op: ir.Operation) -> ir.WalkResult:
        operation = op.operation
        if operation.name == "stablehlo.scatter":
            operation.attributes["unique_indices"] = ir.BoolAttr.get(False, operation.context)
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.POST_ORDER)
