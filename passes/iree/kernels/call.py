"""Calls of kernels: an executable beside the functions of a module, and the operation that runs it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import arith

from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import function_around, functions_of
from nabla_mlir.passes.iree.kernels.text import Form, Memory
from nabla_mlir.passes.iree.target import machine

# Constants at the beginning of a block, by their type and number.
Constants = dict[tuple[ir.Block, ir.Type, int], ir.Value]

_ELEMENTS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


def has_form(x: Val) -> bool:
    """Whether kernels are written for the machine that is compiled for, and for numbers of this dtype."""
    return machine().vector_bytes > 0 and x.dtype in _ELEMENTS


def form_of(x: Val) -> Form:
    """Of the vectors and tiles of a kernel for them."""
    return Form.of(_ELEMENTS[x.dtype], machine().vector_bytes)


def call(name: str, text: str, operands: Sequence[Val], results: Sequence[Memory]) -> list[Val]:
    """The buffers of the results of a kernel, called at the insertion point; see `call_kernel`."""
    types = [ir.Type.parse(m.type.replace("memref", "tensor")) for m in results]
    at = ir.InsertionPoint.current.block.owner.operation
    return [Val(v) for v in call_kernel(name, text, [x.value for x in operands], types, at)]


def call_kernel(
    name: str,
    text: str,
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
    at: ir.Operation,
    numbers: Sequence[int] = (),
    workload: Sequence[int] = (),
    onto: ir.Value | None = None,
    constants: Constants | None = None,
) -> list[ir.Value]:
    """The results of a kernel, called at the insertion point.

    Args:
      name: of the kernel; one that the module already has is not written again.
      text: of the executable.
      operands: what it reads.
      types: of its results.
      at: an operation of the module's, anywhere in a function.
      numbers: that it is given as i32 before the operands.
      workload: that its number of workgroups is computed from.
      onto: what the first result is added to, in its memory; nothing else may use it.
      constants: those that there are by now. Kernels of a large module are given thousands, few of which differ.
    """
    module = function_around(at).parent.operation
    there = (op.operation for op in module.regions[0].blocks[0].operations if op.operation.name == _EXECUTABLE)
    if not any(op.attributes["sym_name"].value == name for op in there):
        first = next(iter(functions_of(module).values()))
        executable = ir.Module.parse(text)  # must live until its operation has moved
        executable.body.operations[0].operation.move_before(first)
    known = {} if constants is None else constants
    groups = [_constant(ir.IndexType.get(), n, known) for n in workload]
    scalars = [_constant(ir.IntegerType.get_signless(32), n, known) for n in numbers]
    arguments = [*scalars, *operands, *([] if onto is None else [onto])]
    ties = [-1 if onto is None else len(arguments) - 1, *[-1] * (len(types) - 1)]
    call = ir.Operation.create("flow.dispatch", results=list(types), operands=[*groups, *arguments], attributes={
        "entry_points": ir.Attribute.parse(f"[@{name}::@{name}]"),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(groups), len(arguments), 0, 0]),
        "tied_operands": ir.Attribute.parse(f"[{', '.join(f'{n} : index' for n in ties)}]"),
    })  # fmt: skip
    return list(call.results)


def _constant(type: ir.Type, number: int, known: Constants) -> ir.Value:
    block = ir.InsertionPoint.current.block
    key = block, type, number
    if key not in known:
        with ir.InsertionPoint.at_block_begin(block):
            known[key] = arith.ConstantOp(type, number).result
    return known[key]


def added_to(op: ir.Operation) -> ir.Value | None:
    """What the first result of a call is added to, in its memory; None of other operations."""
    if op.name != "flow.dispatch" or "tied_operands" not in op.attributes:
        return None
    place = ir.IntegerAttr(ir.ArrayAttr(op.attributes["tied_operands"])[0]).value
    groups, *_ = op.attributes["operandSegmentSizes"]
    return None if place < 0 else op.operands[groups + place]


_EXECUTABLE = "hal.executable.source"
