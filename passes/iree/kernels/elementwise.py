"""Elementwise operations over one shape as one `linalg.generic`, in a separate dispatch (a kernel that IREE generates)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from iree.compiler import ir, passmanager  # type: ignore[attr-defined]  # not in the stubs

from nabla_mlir.dialects.builder import Val, bitcast, broadcast, reshape, signless
from nabla_mlir.dialects.regions import last_of, made_by
from nabla_mlir.dialects.stablehlo import I64Array, emit
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.iree.internals.dispatches import Operand, workgroups
from nabla_mlir.passes.iree.kernels.code import NestWriter
from nabla_mlir.passes.iree.kernels.graph import NotSupported, Shape
from nabla_mlir.passes.iree.kernels.reader import Reader, splat_of
from nabla_mlir.passes.iree.kernels.writer import Code
from nabla_mlir.passes.slices import Slice


def space_of(op: ir.Operation) -> Shape | None:
    """The shape over which an operation is elementwise, if code can be written for it; else None.

    All values with one element count as scalars, and their reshapes as elementwise.
    """
    try:
        node = Reader().elementwise(op)
    except NotSupported:
        return None
    return space(node.shape)


def space(shape: Shape) -> Shape:
    """The index space of a value of that shape; empty for a single element."""
    return () if math.prod(shape) == 1 else shape


def sources(op: ir.Operation) -> list[ir.Value]:
    """The values in memory that an elementwise operation reads: sources of broadcasts, and no constants."""
    values = (_before_broadcast(value)[0] for value in op.operands)
    return [v for v in values if (maker := made_by(v)) is None or splat_of(maker) is None]


def as_dispatch(ops: Sequence[ir.Operation], results: Sequence[ir.Value]) -> None:
    """Replaces elementwise operations over one shape by one dispatch, at the position of the last operation.

    Args:
      ops: the operations, in the order of their block; no other operation between the first and the last one reads them.
      results: the results that other operations use.
    """
    reader = Reader()
    for op in ops:
        reader.elementwise(op)
    shape = space(shape_and_dtype(results[0].type)[0])
    writer = NestWriter(0)  # 0 bytes: the code is for one element, without vectors
    with ir.InsertionPoint(ops[-1]), ops[-1].location:
        inputs: list[_Input] = []
        indices: dict[tuple[ir.Value, tuple[int, ...]], int] = {}  # several broadcasts of one value may share one input
        for value, node in reader.inputs.items():
            source, dims = _before_broadcast(value)
            i = indices.setdefault((source, tuple(dims)), len(inputs))
            if i == len(inputs):
                inputs.append(_Input.of(source, dims))
            writer.values[node] = writer.writer.named(f"%in{i}", node.dtype)
        codes = [writer.scalar(reader.node(r)) for r in results]
        body = _simplified([x.element for x in inputs], writer.writer.blocks[0].lines, codes)
        outputs: dict[ir.Value, Val] = {}
        for value in body.results:
            if isinstance(value, ir.BlockArgument):
                i = value.arg_number
                outputs[value] = broadcast(inputs[i].value(), shape, inputs[i].dims)
            elif (maker := value.owner).name == "arith.constant":
                splat = ir.DenseElementsAttr.get_splat(ir.RankedTensorType.get(shape, value.type), maker.attributes["value"])
                outputs[value] = Val(emit("stablehlo.constant", [], attributes={"value": splat}).results[0])
        distinct = [value for value in dict.fromkeys(body.results) if value not in outputs]
        if distinct:
            dispatch = _parsed(_text(shape, inputs, distinct, body.lines), [x.memory for x in inputs], ops[-1])
            outputs.update(zip(distinct, map(Val, dispatch.results), strict=True))
        for old, value in zip(results, body.results, strict=True):
            old.replace_all_uses_with(_like(outputs[value], old.type).value)
    for op in reversed(ops):
        op.erase()


class _Input(NamedTuple):
    """A value that the dispatch reads, or the slice of a value.

    For example, the column `reshape(slice(x))` of a matrix x is read from x.

    Attributes:
      source: the column.
      memory: the matrix x.
      part: the elements of `memory` that are read.
      shape: the shape of the column, which may lack axes of size 1 that `part` has.
      dims: the dimensions of the dispatch along which the column runs.
    """

    source: ir.Value
    memory: Val
    part: Slice
    shape: Shape
    dims: Sequence[int]

    @staticmethod
    def of(source: ir.Value, dims: Sequence[int]) -> _Input:
        """The input for a value that runs along the dimensions `dims`."""
        shape = space(shape_and_dtype(source.type)[0])
        dims = dims if shape else ()
        maker = made_by(source)
        if maker is not None and maker.name == "stablehlo.reshape":
            maker = made_by(maker.operands[0])
        if maker is not None and maker.name == "stablehlo.slice":
            part = Slice.of(maker)
            if shape in (part.shape, tuple(n for n in part.shape if n != 1)):
                return _Input(source, signless(Val(maker.operands[0])), part, shape, dims)
        return _Input(source, reshape(signless(Val(source)), shape), Slice.whole(shape), shape, dims)

    def value(self) -> Val:
        """The value that is read, with the shape of the dispatch along its dimensions."""
        return reshape(signless(Val(self.source)), self.shape)

    @property
    def element(self) -> ir.Type:
        """The type of an element."""
        return self.memory.type.element_type

    def operand(self, name: str) -> Operand:
        """The operand of the dispatch that has this name."""
        return Operand(name, self.memory.type, self.part, ir.RankedTensorType.get(self.shape, self.element))


class _Body(NamedTuple):
    """The computation of one element: lines of code, and the values that are results."""

    module: ir.Module  # owns the values
    lines: list[str]
    results: list[ir.Value]


def _simplified(inputs: Sequence[ir.Type], lines: Sequence[str], codes: Sequence[Code]) -> _Body:
    """The computation of one element after MLIR's simplification, with inputs named %arg0, %arg1, ...

    `inputs` has their types; `lines` compute `codes` from inputs named %in0, %in1, ... IREE 3.13 simplifies the body of a dispatch,
    too. If results are then equal to each other (1 + x and x + 1), it refuses the dispatch.
    """
    arguments = ", ".join(f"%in{i}: {t}" for i, t in enumerate(inputs))
    types = ", ".join(code.type for code in codes)
    end = f"return {', '.join(code.name for code in codes)} : {types}"
    module = ir.Module.parse("\n".join([f"func.func @f({arguments}) -> ({types}) {{", *lines, end, "}"]))
    passmanager.PassManager.parse("builtin.module(canonicalize,cse,canonicalize)").run(module.operation)
    function = module.body.operations[0].operation
    # Printed as a whole, because MLIR numbers all values of the function to print a single operation.
    # The header of the function, the return and the closing brace are left out.
    _, *inner, _, _ = function.get_asm(use_local_scope=True).splitlines()
    return _Body(module, inner, list(last_of(function.regions[0].blocks[0]).operands))


def _text(shape: Shape, inputs: Sequence[_Input], codes: Sequence[ir.Value], lines: Sequence[str]) -> str:
    """The text of a function that contains the dispatch.

    Args:
      shape: the shape over which the operations are elementwise.
      inputs: the inputs of the dispatch; the arguments of the function are their values in memory.
      codes: the values of `lines` that are results.
      lines: the computation of one element, from %arg0, %arg1, ...
    """
    count, indices = len(codes), ", ".join(f"d{i}" for i in range(len(shape)))
    whole = range(len(shape))
    maps = [*(x.dims for x in inputs), *[whole] * count]
    index_maps = ", ".join(f"affine_map<({indices}) -> ({', '.join(f'd{i}' for i in dims)})>" for dims in maps)
    elements = [str(c.type) for c in codes]
    types = [ir.RankedTensorType.get(shape, c.type) for c in codes]
    operands = [x.operand(f"%x{i}") for i, x in enumerate(inputs)]
    reads = ", ".join(f"%m{i}" for i in range(len(operands)))
    ins = f"ins({reads} : {', '.join(str(x.type) for x in operands)}) " if operands else ""
    arguments = [f"%arg{i}: {x.element}" for i, x in enumerate(inputs)]
    arguments += [f"%out{i}: {e}" for i, e in enumerate(elements)]
    kinds = ", ".join(map(str, types))
    body = [
        *(f"%e{i} = tensor.empty() : {t}" for i, t in enumerate(types)),
        f"%y:{count} = linalg.generic {{indexing_maps = [{index_maps}], iterator_types = [{', '.join(_PARALLEL for _ in whole)}]}}",
        f"{ins}outs({', '.join(f'%e{i}' for i in range(count))} : {kinds}) {{",
        f"^bb0({', '.join(arguments)}):",
        *lines,
        f"linalg.yield {', '.join(c.get_name() for c in codes)} : {', '.join(elements)} }} -> ({kinds})",
    ]
    return "\n".join(
        [
            f"func.func @f({', '.join(f'{x.name}: {x.memory}' for x in operands)}) {{",
            *workgroups("%r", operands, types, body, "%y"),
            "return }",
        ]
    )


_PARALLEL = '"parallel"'


def _parsed(text: str, operands: Sequence[Val], before: ir.Operation) -> ir.Operation:
    """The operation in the text of a function of `operands` (a dispatch), moved before the operation `before`."""
    module = ir.Module.parse(text)  # must stay alive until the dispatch has moved
    block = module.body.operations[0].operation.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, operands, strict=True):
        argument.replace_all_uses_with(operand.value)
    dispatch = block.operations[0].operation
    dispatch.move_before(before)
    return dispatch


def _before_broadcast(value: ir.Value) -> tuple[ir.Value, Sequence[int]]:
    """The operand of a broadcast that makes `value`, and the dimensions of `value` along which the operand runs.

    The value with all its dimensions if it is not a broadcast, or if the broadcast repeats a dimension of size 1.
    """
    op, shape = made_by(value), value.type.shape
    if op is None or op.name != "stablehlo.broadcast_in_dim":
        return value, range(len(shape))
    dims = I64Array.decode(op.attributes["broadcast_dimensions"])
    source = op.operands[0]
    if math.prod(source.type.shape) == 1:
        return source, ()
    if any(shape[d] != n for d, n in zip(dims, source.type.shape, strict=True)):
        return value, range(len(shape))
    return source, dims


def _like(x: Val, type: ir.Type) -> Val:
    """The value `x` with the shape of `type`, and with its dtype if that is unsigned."""
    shape, dtype = shape_and_dtype(type)
    return reshape(bitcast(x, dtype) if dtype.kind == "u" else x, shape)
