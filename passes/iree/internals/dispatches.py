"""Calls of kernels: the executable in the module, the operation that runs it, and code that becomes one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir
from iree.compiler.dialects import arith

from nabla_mlir.dialects.regions import function_around, functions_of
from nabla_mlir.passes.iree.internals.executables import EXECUTABLE
from nabla_mlir.passes.slices import Slice

DISPATCH = "flow.dispatch"

# Constants at the beginning of a block, by type and number.
Constants = dict[tuple[ir.Block, ir.Type, int], ir.Value]


@dataclass(frozen=True)
class Operand:
    """A part of a value in memory that a kernel reads.

    Attributes:
      name: the name of the value.
      memory: the type of the value.
      part: the elements that are read.
      type: the type of the part; it may lack axes of size 1.
    """

    name: str
    memory: ir.RankedTensorType
    part: Slice
    type: ir.RankedTensorType


def workgroups(
    name: str, operands: Sequence[Operand], types: Sequence[ir.RankedTensorType], lines: Sequence[str], values: str
) -> list[str]:
    """The text of an operation that becomes one kernel.

    A `flow.dispatch.region` would be shorter, but IREE 3.13 confuses the results of a region if it finds two of them equal,
    for example after it has merged two operands. It refuses workgroups that store one value twice.

    Args:
      name: the name of its results, as in `%r`.
      operands: the operands; `lines` read operand number i as `%m{i}`.
      types: the types of its results.
      lines: its operations.
      values: the name of the operation in `lines` whose results it returns.
    """
    accesses = [*(f"readonly:{x.memory}" for x in operands), *(f"writeonly:{type}" for type in types)]
    memory = [f"!iree_tensor_ext.dispatch.tensor<{access}>" for access in accesses]
    loads = [
        f"%m{i} = iree_tensor_ext.dispatch.tensor.load %p{i}, {_window(x.part)} : {memory[i]} -> {x.type}"
        for i, x in enumerate(operands)
    ]
    stores = [
        f"iree_tensor_ext.dispatch.tensor.store {values}#{i}, %p{n}, {_window(Slice.whole(type.shape))} : {type} -> {memory[n]}"
        for i, (n, type) in enumerate(enumerate(types, len(operands)))
    ]
    names, sources = ", ".join(x.name for x in operands), ", ".join(str(x.memory) for x in operands)
    return [
        f"{name}:{len(types)} = flow.dispatch.workgroups({names}) : ({sources}) -> ({', '.join(map(str, types))}) =",
        f"({', '.join(f'%p{i}: {each}' for i, each in enumerate(memory))}) {{",
        *loads,
        *lines,
        *stores,
        "flow.return } count() -> (index, index, index) {",
        "%x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()",
        "flow.return %x, %y, %z : index, index, index }",
    ]


def _window(part: Slice) -> str:
    """The elements of a slice as the text of offsets, sizes and strides."""
    fields = {"offsets": part.start, "sizes": part.shape, "strides": part.strides}
    return ", ".join(f"{name} = [{', '.join(map(str, numbers))}]" for name, numbers in fields.items())


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
      name: the name of the kernel; a kernel that the module already has is not added again.
      text: the text of the executable.
      operands: the values that it reads.
      types: the types of its results.
      at: an operation in any function of the module.
      numbers: i32 arguments, which it gets before the operands.
      workload: the numbers from which its number of workgroups is computed.
      onto: the value to which the first result is added in place; it must have no other use.
      constants: constants that exist already. Kernels of a large module have thousands of arguments, few of which differ.
    """
    module = function_around(at).parent.operation
    executables = (op.operation for op in module.regions[0].blocks[0].operations if op.operation.name == EXECUTABLE)
    if not any(op.attributes["sym_name"].value == name for op in executables):
        first = next(iter(functions_of(module).values()))
        executable = ir.Module.parse(text)  # must stay alive until its operation has moved
        executable.body.operations[0].operation.move_before(first)
    known = {} if constants is None else constants
    groups = [_constant(ir.IndexType.get(), n, known) for n in workload]
    scalars = [_constant(ir.IntegerType.get_signless(32), n, known) for n in numbers]
    arguments = [*scalars, *operands, *([] if onto is None else [onto])]
    # The index of the argument in whose memory a result is written; -1 for a result with new memory.
    ties = [-1 if onto is None else len(arguments) - 1, *[-1] * (len(types) - 1)]
    call = ir.Operation.create(
        DISPATCH,
        results=list(types),
        operands=[*groups, *arguments],
        attributes={
            "entry_points": ir.Attribute.parse(f"[@{name}::@{name}]"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(groups), len(arguments), 0, 0]),
            "tied_operands": ir.Attribute.parse(f"[{', '.join(f'{n} : index' for n in ties)}]"),
        },
    )
    return list(call.results)


def _constant(type: ir.Type, number: int, known: Constants) -> ir.Value:
    """A constant at the beginning of the current block; `known` has the constants that exist, and gets new ones."""
    block = ir.InsertionPoint.current.block
    key = block, type, number  # a constant of another block may not be visible in this one
    if key not in known:
        with ir.InsertionPoint.at_block_begin(block):
            known[key] = arith.ConstantOp(type, number).result
    return known[key]


def added_to(op: ir.Operation) -> ir.Value | None:
    """The operand to which the first result of a call is added in place; None if there is none."""
    if op.name != DISPATCH or "tied_operands" not in op.attributes:
        return None
    position = ir.IntegerAttr(ir.ArrayAttr(op.attributes["tied_operands"])[0]).value
    groups, *_ = op.attributes["operandSegmentSizes"]
    return None if position < 0 else op.operands[groups + position]
