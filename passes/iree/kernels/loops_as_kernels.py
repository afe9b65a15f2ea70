"""Small loops as one dispatch each, instead of several dispatches per iteration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import blocks_of, made_by, nested
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.iree.internals.dispatches import call_kernel
from nabla_mlir.passes.iree.kernels.bindings import MAX_BINDINGS, Position, bind_reads, result_at, share_results
from nabla_mlir.passes.iree.kernels.graph import Compound, Node, NotSupported, Region, Scatter, Sort
from nabla_mlir.passes.iree.kernels.loops import Kernel
from nabla_mlir.passes.iree.kernels.reader import Reader
from nabla_mlir.passes.iree.kernels.scalars import ELEMENTWISE, instructions


@register
@dataclass(frozen=True)
class LoopsAsKernelsPass(Pass):
    """Replace loops by kernels, if the kernel language covers the whole loop and the loop is small: the outermost ones first.

    Example: tests/filecheck/passes/loops_as_kernels.mlir
    """

    name: ClassVar[str] = "nabla-loops-as-kernels"
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Replaces loops by calls of kernels, in place."""
        names = (f"loop_{i}" for i in itertools.count())
        for block in blocks_of(module):
            _replace_in(block, names, self.vector_bytes)


def _replace_in(block: ir.Block, names: Iterator[str], vector_bytes: int) -> None:
    """Replaces the loops of a block by kernels; if there is no kernel for a loop, the loops in its body."""
    for loop in [op.operation for op in block.operations if op.operation.name == "stablehlo.while"]:
        name = next(names)
        try:
            _replace(loop, name, vector_bytes)
        except NotSupported:
            _replace_in(loop.regions[1].blocks[0], names, vector_bytes)


def _replace(op: ir.Operation, name: str, vector_bytes: int) -> None:
    """Replaces a loop by a call of its kernel. Raises NotSupported if there is no kernel for it."""
    reader = Reader()
    loop = reader.loop(op)
    wanted = [i for i, r in enumerate(op.results) if not is_unused(r)]
    if not wanted:
        raise NotSupported("a loop without results")
    if _work(loop.body) > thresholds.KERNEL_WORK:
        raise NotSupported("a large loop")
    types = [_signed(op.results[i].type) for i in wanted]
    shared = len(reader.inputs) + len(types) >= MAX_BINDINGS
    bound, result_positions = share_results(types) if shared else (types, [Position(i) for i in range(len(types))])
    with ir.InsertionPoint(op), ir.Location.fused([op.location, *(inner.location for inner in nested(op))]):
        values = [_with_type(_before(value), _signed(value.type)) for value in reader.inputs]
        operands, input_positions = bind_reads(values, MAX_BINDINGS - 1 - len(bound))  # one binding is for scratch memory
        reads = dict(zip(reader.inputs.values(), input_positions, strict=True))
        positions = reads, dict(zip(wanted, result_positions, strict=True))
        text, spare = Kernel(vector_bytes).write(name, loop, *positions)
        if text.count("\n") > thresholds.KERNEL_LINES:
            raise NotSupported("long code")
        memory = [tensor_type((spare,), np.dtype(np.int8))] if spare else []
        results = call_kernel(name, text, operands, [*bound, *memory], op)
        for i, position, type in zip(wanted, result_positions, types, strict=True):
            result = result_at(position, results, type) if shared else results[position.buffer]
            op.results[i].replace_all_uses_with(_with_type(result, op.results[i].type))
    op.erase()


def _before(value: ir.Value) -> ir.Value:
    """The value as it can be read before the loop: a constant, which may be defined inside the loop, is copied there."""
    owner = made_by(value)
    if owner is None or owner.name != "stablehlo.constant":
        return value
    return owner.clone().results[0]


def _signed(type: ir.Type) -> ir.Type:
    """The type with signed integers of the same width if its integers are unsigned: dispatches have no unsigned arguments."""
    shape, dtype = shape_and_dtype(type)
    return tensor_type(shape, np.dtype(f"i{dtype.itemsize}")) if dtype.kind == "u" else type


def _with_type(value: ir.Value, type: ir.Type) -> ir.Value:
    """The value with its bits read as `type`."""
    return value if value.type == type else b.op("stablehlo.bitcast_convert", Val(value), type=type).value


def _work(region: Region) -> int:
    """The cost of one run of a region, in instructions; an inner loop counts as one iteration."""
    seen: set[Node] = set()
    work = [*region.results, *(n for compound in region.compounds for n in compound.inits)]
    # An update in place costs only the elements of its update.
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
            total += node.size * instructions(node.name)
    return total + sum(map(_work_of_compound, region.compounds))


def _work_of_compound(compound: Compound) -> int:
    """The cost of a loop (one iteration), of the most expensive branch, of a sort, or of a scatter."""
    if isinstance(compound, Sort):
        size = compound.results[0].size
        return size * size.bit_length() * (len(compound.results) + _work(compound.comparator))
    if isinstance(compound, Scatter):
        return sum(n.size for n in compound.inits)
    return max(map(_work, compound.regions))
