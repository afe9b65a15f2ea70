"""Parts of a program that the interpreter would take too long for, compiled as functions of their own.

    while i < 10**6: x, i = x @ a, i + 1     becomes     part0(x, i, a, limit, seed, units) -> x, i, the number of iterations

A product or a convolution becomes a function of its operands. A loop becomes a function that runs at most `limit` iterations, and
can perturb its values as the interpreter does (`compiled_noise`). `nabla_mlir.compiling.part_runs` calls them in the place of the
interpreter, and compares them with it.
"""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.compiling.compiled_noise import perturb
from nabla_mlir.dialects import builder as hb
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of, is_private, made_by, nested, new_function
from nabla_mlir.dialects.stablehlo import emit
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.interpreter.cost import nanoseconds_of
from nabla_mlir.interpreter.rounding import PRODUCT, kind_of
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.table.regions import body_of, captures_of, clone_body
from nabla_mlir.table.registry import clone_op
from nabla_mlir.table.traits import CONSTANT, is_step, runs_regions

LOOP = "stablehlo.while"


def expensive_operations(module: ir.Module) -> list[ir.Operation]:
    """The products and loops of a lowered module that take the interpreter long, also those inside other loops."""
    found = []
    for function in functions_of(module.operation).values():
        for op in nested(function):
            if not is_step(op):
                continue
            is_product = kind_of(op) == PRODUCT and nanoseconds_of(op) > thresholds.PART
            if is_product or (op.name == LOOP and _is_long_loop(op)):
                found.append(op)
    return found


def _is_long_loop(op: ir.Operation) -> bool:
    """True if the operation is a loop that the interpreter would take long for, and that does not use the state of its module.

    A loop without a known number of iterations counts as long.
    """
    if any(inner.name.startswith("util.") for inner in nested(op)):
        return False  # it reads or writes the state of its module
    return find_counter(op) is None or _time(op) > thresholds.PART


def _time(op: ir.Operation) -> float:
    """The nanoseconds that the interpreter takes for an operation with its regions; unknown iterations are estimated."""
    nanoseconds = 1e3 * thresholds.STEP + nanoseconds_of(op)
    if not runs_regions(op):
        return nanoseconds
    inner = sum(_time(inner_op) for region in op.regions for inner_op in body_of(region)[1])
    counter = find_counter(op) if op.name == LOOP else None
    trips = counter.trips if counter else thresholds.UNKNOWN_TRIPS if op.name == LOOP else 1
    return nanoseconds + trips * inner


def outer_values(op: ir.Operation) -> list[ir.Value]:
    """The values that the regions of an operation capture, without constants."""
    return [v for v in captures_of(op) if not _is_constant(v)]


def _is_constant(value: ir.Value) -> bool:
    """True if the value is the result of a constant."""
    maker = made_by(value)
    return maker is not None and maker.name == CONSTANT


def module_of(parts: dict[str, ir.Operation], module: ir.Module) -> ir.Module:
    """A module with a function for each part, under its name in `parts`, and with copies of the private functions of `module`."""
    with context(), ir.Location.unknown():
        made = ir.Module.create()
        with ir.InsertionPoint(made.body):
            for function in functions_of(module.operation).values():
                if is_private(function):
                    function.clone()
            for name, op in parts.items():
                if op.name == LOOP:
                    _loop_function(name, op)
                else:
                    _product_function(name, op)
    made.operation.verify()
    return made


def _product_function(name: str, op: ir.Operation) -> None:
    """Adds a function `name` at the insertion point; it computes only the product `op` of its arguments."""
    block = new_function(name, [v.type for v in op.operands], [v.type for v in op.results])
    with ir.InsertionPoint(block):
        clone = clone_op(op, dict(zip(op.operands, block.arguments, strict=False)))
        for i, argument in enumerate(block.arguments):  # one value may be both operands
            clone.operands[i] = argument
        emit("func.return", list(clone.results), results=[])


def _loop_function(name: str, op: ir.Operation) -> None:
    """Adds a function `name` at the insertion point, which runs the loop `op`; it returns the carries and the iterations.

    Its arguments are the carries, the captured values, the largest number of iterations, the seed and the units of the noise.
    """
    carries, outer = [v.type for v in op.operands], outer_values(op)
    integer, number = tensor_type((), np.dtype("int32")), tensor_type((), np.dtype("float32"))
    block = new_function(name, [*carries, *(v.type for v in outer), integer, integer, number], [*carries, integer])
    *arguments, limit, seed, units = block.arguments
    with ir.InsertionPoint(block):
        mapping: dict[ir.Value, ir.Value] = dict(zip(outer, arguments[len(carries) :], strict=True))
        for value in captures_of(op):
            if _is_constant(value):
                clone_op(value.owner.operation, mapping)
        start = [*arguments[: len(carries)], hb.full(0, (), "int32").value]
        loop = emit(LOOP, start, results=[*carries, integer], regions=2)
        _fill_condition(op.regions[0], loop.regions[0], mapping, limit)
        _fill_body(op.regions[1], loop.regions[1], mapping, seed, units)
        emit("func.return", list(loop.results), results=[])


def _fill_condition(source: ir.Region, region: ir.Region, mapping: dict[ir.Value, ir.Value], limit: ir.Value) -> None:
    """Copies the condition of a loop into an empty region; the copy also ends the loop after `limit` iterations.

    `mapping` has the new value for each captured value of `source`, the old region. The new loop counts its iterations in a last
    carry.
    """
    old, ops, (predicate,) = body_of(source)
    *new, count = _arguments(region, old)
    values = {**mapping, **dict(zip(old, new, strict=True))}
    with ir.InsertionPoint(region.blocks[0]):
        clone_body(ops, values)
        goes_on = Val(values.get(predicate, predicate)) & (Val(count) < Val(limit))
        emit("stablehlo.return", [goes_on.value], results=[])


def _fill_body(source: ir.Region, region: ir.Region, mapping: dict[ir.Value, ir.Value], seed: ir.Value, units: ir.Value) -> None:
    """Copies the body of a loop into an empty region, with noise after each operation; a last carry counts the iterations.

    `mapping` has the new value for each captured value of `source`, the old region. `seed` and `units` are the scalars of the
    noise.
    """
    old, ops, returned = body_of(source)
    *new, count = _arguments(region, old)
    values = {**mapping, **dict(zip(old, new, strict=True))}
    with ir.InsertionPoint(region.blocks[0]):
        clones = clone_body(ops, values)
        emit("stablehlo.return", [*(values.get(v, v) for v in returned), (Val(count) + 1).value], results=[])
    steps = [op for clone in clones for op in (*nested(clone), clone) if is_step(op)]
    perturb(steps, seed, units)


def _arguments(region: ir.Region, old: list[ir.Value]) -> list[ir.Value]:
    """The block arguments of a new region of a loop: one for each carry in `old`, and a counter of iterations (i32)."""
    types = [*(v.type for v in old), tensor_type((), np.dtype("int32"))]
    return list(ir.Block.create_at_start(region, types, [ir.Location.unknown()] * len(types)).arguments)
