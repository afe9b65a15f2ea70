"""Small loops as one dispatch each, of our own code, instead of several dispatches an iteration."""

from __future__ import annotations

import math

from iree.compiler import ir

from nabla_mlir.dialects.regions import blocks_of, made_by
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.kernels.call import call_kernel
from nabla_mlir.passes.kernels.graph import Node, NotSupported, Reader, Region
from nabla_mlir.passes.kernels.loops import Kernel
from nabla_mlir.passes.kernels.scalars import ELEMENTWISE

# A kernel saves about a microsecond for each dispatch that an iteration would be, and runs on one core. Measured on two
# cores, `tanh(h @ w + x)` is faster as a kernel up to 2,000,000 operations in an iteration, and equally fast after; the
# Hessian-vector products of recurrent networks take half the time of theirs below, and half as much again at 3,000,000.
MAX_WORK = 2_000_000
# Longer code than this takes the compiler seconds.
MAX_LINES = 20_000


def loops_as_kernels(module: ir.Operation, vector_bytes: int) -> None:
    """Replaces the outermost loops of functions by kernels, where there is code for all of a loop and it is small."""
    outermost = [op.operation for block in blocks_of(module) for op in block.operations
                 if op.operation.name == "stablehlo.while"]  # fmt: skip
    for i, loop in enumerate(outermost):
        try:
            _replace(loop, f"loop_{i}", vector_bytes)
        except NotSupported:
            continue


def _replace(op: ir.Operation, name: str, vector_bytes: int) -> None:
    reader = Reader()
    loop = reader.loop(op)
    wanted = [i for i, r in enumerate(op.results) if not is_unused(r)]
    if not wanted:
        raise NotSupported("a loop without results")
    if any(n.dtype[0] == "u" for n in (*reader.inputs.values(), *loop.inits)):
        raise NotSupported("an unsigned value between dispatches")
    if _work(loop.body) > MAX_WORK:
        raise NotSupported("a large loop")
    text, spare = Kernel(vector_bytes).write(name, loop, list(reader.inputs.values()), wanted)
    if text.count("\n") > MAX_LINES:
        raise NotSupported("long code")
    types = [op.results[i].type for i in wanted]
    if spare:
        types.append(ir.RankedTensorType.get([spare], ir.IntegerType.get_signless(8)))
    with ir.InsertionPoint(op), op.location:
        results = call_kernel(name, text, [_before(value) for value in reader.inputs], types, op)
    for i, result in zip(wanted, results, strict=False):
        op.results[i].replace_all_uses_with(result)
    op.erase()


def _before(value: ir.Value) -> ir.Value:
    """A value that the loop reads, as it is known before the loop: a constant may stand inside."""
    owner = made_by(value)
    if owner is None or owner.name != "stablehlo.constant":
        return value
    return owner.clone().results[0]


def _work(region: Region) -> int:
    """The operations of one iteration; an inner loop counts as one iteration of its own."""
    seen: set[Node] = set()
    work = [*region.results, *(n for loop in region.loops for n in loop.inits)]
    total = sum(n.size for n in region.results if n.name != "dynamic_update_slice")
    while work:
        node = work.pop()
        if node in seen or node.fixed:
            continue
        seen.add(node)
        work += node.operands
        if node.name == "reduce":
            total += math.prod(node.operands[0].shape)
        elif node.name in ELEMENTWISE:
            total += node.size * ELEMENTWISE[node.name].cost
    return total + sum(_work(loop.body) for loop in region.loops)
