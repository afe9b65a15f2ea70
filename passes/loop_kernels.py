"""Small loops as one kernel of our own code, instead of several dispatches an iteration."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.kernel_graph import NotSupported, Reader
from nabla_mlir.passes.kernel_loops import Kernel


def loops_as_kernels(module: ir.Operation, vector_bytes: int) -> None:
    """Replaces the outermost loops of functions that can be kernels and are faster so."""
    body = module.regions[0].blocks[0]
    loops = [
        op.operation
        for function in body.operations
        if function.operation.name == "func.func"
        for block in function.operation.regions[0].blocks
        for op in block.operations
        if op.operation.name == "stablehlo.while"
    ]
    for i, loop in enumerate(loops):
        try:
            _replace(loop, body, f"loop_{i}", vector_bytes)
        except NotSupported as e:
            print("NOT", e, file=__import__("sys").stderr)
            continue


def _replace(op: ir.Operation, body: ir.Block, name: str, vector_bytes: int) -> None:
    reader = Reader()
    loop = reader.loop(op)
    wanted = [i for i, r in enumerate(op.results) if not is_unused(r)]
    if not wanted:
        return
    if any(n.dtype[0] == "u" for n in (*reader.inputs.values(), *loop.inits)):
        raise NotSupported("an unsigned value between operations")
    text, spare = Kernel(vector_bytes).write(name, loop, list(reader.inputs.values()), wanted)
    open("/tmp/k.mlir","w").write(text)
    executable = ir.Module.parse(text)
    executable.body.operations[0].operation.move_before(body.operations[0].operation)
    types = [op.results[i].type for i in wanted]
    if spare:
        types.append(ir.RankedTensorType.get([spare], ir.IntegerType.get_signless(8)))
    with ir.InsertionPoint(op), op.location:
        call = ir.Operation.create(
            "flow.dispatch", results=types, operands=list(reader.inputs), attributes={
                "entry_points": ir.Attribute.parse(f"[@{name}::@{name}]"),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(reader.inputs), 0, 0]),
                "tied_operands": ir.Attribute.parse(f"[{', '.join(['-1 : index'] * len(types))}]"),
            })  # fmt: skip
    for i, result in zip(wanted, call.results, strict=False):
        op.results[i].replace_all_uses_with(result)
    op.erase()
