"""Large sums of what is computed from small values, as kernels that hold nothing large in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.dialects.builder import Val, reduce_sum
from nabla_mlir.dialects.regions import blocks_of, made_by
from nabla_mlir.dialects.stablehlo import BARRIERS, constant_splat
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype, tensor_type
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.iree.kernels.bindings import MAX_BINDINGS
from nabla_mlir.passes.iree.kernels.call import call_kernel
from nabla_mlir.passes.iree.kernels.graph import Node, NotSupported, Reader, Shape
from nabla_mlir.passes.iree.kernels.plan import SHORT, Space
from nabla_mlir.passes.iree.kernels.sums import Sum, SumsKernel
from nabla_mlir.passes.iree.regions import single_operation
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import is_elementwise, size_of


@register
@dataclass(frozen=True)
class FuseSumsPass(Pass):
    """Make large sums over one space, of values that are computed from small ones, in one kernel.

    IREE writes a value to memory that several sums read, or that is summed over a short axis before it is summed again: of
    the forces between n bodies some arrays of n x n x 3. Where all that is large is only summed, one pass over the space
    computes each element once, adds it to all sums, and stores none.

    Example: tests/filecheck/passes/fuse_sums.mlir
    """

    name: ClassVar = "nabla-fuse-sums"
    vector_bytes: int = 64  # width of the CPU's vector registers
    least_size: int = thresholds.FUSED_SUMS  # elements of the space

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        groups = [group for block in blocks_of(module) for group in _groups(block, self.least_size)]
        for i, group in enumerate(groups):
            with contextlib.suppress(NotSupported):
                group.replace(f"sums_{i}", self.vector_bytes)


@dataclass(frozen=True)
class _Group:
    """Sums over one space that do not depend on each other, and what they are computed from, in order."""

    sums: Sequence[ir.Operation]
    inner: Sequence[ir.Operation]

    def replace(self, name: str, vector_bytes: int) -> None:
        """Replaces the sums by a kernel. Raises NotSupported if there is none."""
        reader = Reader()
        for op in self.inner:
            reader.read(op)
        terms: dict[Node, Node] = {}
        sums = [Sum.of(_with_terms(reader.read(op), terms)) for op in self.sums]
        inputs = list(reader.inputs)
        space = min(size_of(op.operands[0]) for op in self.sums)
        if len(inputs) + len(sums) > MAX_BINDINGS or any(n.dtype[0] == "u" for n in reader.inputs.values()):
            raise NotSupported("these buffers")
        if any(thresholds.FUSED_SUMS_READ * size_of(v) > space for v in inputs):
            raise NotSupported("a large value that is there in any case")
        rows = sums[0].space.loops[0]
        groups = -(-rows // -(-rows // thresholds.FUSED_SUMS_GROUPS))
        text = SumsKernel(vector_bytes).write(name, sums, list(reader.inputs.values()), groups)
        types = []
        for s, op in zip(sums, self.sums, strict=True):
            shape, dtype = shape_and_dtype(op.results[0].type)
            types.append(tensor_type((groups, *shape) if s.is_partial else shape, dtype))
        first = self._place(inputs)
        with ir.InsertionPoint(first), first.location:
            results = [Val(r) for r in call_kernel(name, text, inputs, types, first)]
            totals = [reduce_sum(r, [0]) if s.is_partial else r for s, r in zip(sums, results, strict=True)]
        for op, total in zip(self.sums, totals, strict=True):
            op.results[0].replace_all_uses_with(total.value)
            op.erase()
        for op in reversed(self.inner):
            if is_unused(op.results[0]):
                op.erase()

    def _place(self, inputs: Sequence[ir.Value]) -> ir.Operation:
        """Where the kernel stands: before what reads a sum first, behind all that the kernel reads."""
        block = [o.operation for o in self.sums[0].block.operations]
        results = {op.results[0] for op in self.sums}
        places = [i for i, op in enumerate(block) if any(v in results for v in reads_of(op))]
        if not places:
            raise NotSupported("sums that nothing reads")
        place = places[0]
        late = {r for op in block[place:] for r in op.results}
        if any(v in late for v in inputs):
            raise NotSupported("a sum that is read before another can be made")
        return block[place]


def _groups(block: ir.Block, least_size: int) -> Iterator[_Group]:
    """The groups of a block: sums that have something computed in common, or are computed from other sums."""
    ops = [o.operation for o in block.operations]
    sums = [op for op in ops if _is_sum(op, least_size)]
    results = {op.results[0] for op in sums}
    inner: set[ir.Value] = set()
    for op in reversed(ops):
        if len(op.results) == 1 and op.results[0] not in results and _is_inner(op, least_size):
            readers = [use.owner.operation for use in op.results[0].uses]
            if all(len(r.results) == 1 and (r.results[0] in inner or r.results[0] in results) for r in readers):
                inner.add(op.results[0])
    stages: dict[ir.Value, int] = {}
    alike: dict[tuple[int, Shape], list[ir.Operation]] = {}
    for op in ops:
        stage = max((stages.get(v, 0) for v in reads_of(op)), default=0)
        is_sum = len(op.results) == 1 and op.results[0] in results
        stages.update((r, stage + is_sum) for r in op.results)
        if is_sum:
            alike.setdefault((stage, Space.of(tuple(op.operands[0].type.shape)).loops), []).append(op)
    for (_, loops), members in alike.items():
        whole: set[ir.Value] = set()
        common: set[ir.Value] = set()
        for cone in (_cone(op, inner) for op in members):
            common |= cone & whole
            whole |= cone
        is_stored = any(is_elementwise(made_by(v)) for v in common) or any(_adds(v.owner.operation) for v in whole)
        if len(loops) > 1 and is_stored:
            yield _Group(members, [op for op in ops if len(op.results) == 1 and op.results[0] in whole])


def _cone(op: ir.Operation, inner: set[ir.Value]) -> set[ir.Value]:
    """What a sum is computed from in a kernel."""
    cone: set[ir.Value] = set()
    work = [op.operands[0]]
    while work:
        value = work.pop()
        if value in inner and value not in cone:
            cone.add(value)
            work += list(value.owner.operation.operands)
    return cone


def _is_sum(op: ir.Operation, least_size: int) -> bool:
    """Whether it is a large sum from zero, over more than a short last axis."""
    if not _adds(op) or size_of(op.operands[0]) < least_size:
        return False
    return not _is_short(op) and constant_splat(made_by(op.operands[1])) == 0


def _adds(op: ir.Operation) -> bool:
    if op.name != "stablehlo.reduce" or len(op.operands) != 2 or not is_static_tensor(op.operands[0].type):
        return False
    start = made_by(op.operands[1])
    is_float = shape_and_dtype(op.operands[0].type)[1] in (np.float32, np.float64)
    is_sum = is_float and single_operation(op.regions[0]) == "stablehlo.add"
    return is_sum and start is not None and start.name == "stablehlo.constant"


def _is_short(op: ir.Operation) -> bool:
    shape = op.operands[0].type.shape
    return list(op.attributes["dimensions"]) == [len(shape) - 1] and shape[-1] <= SHORT


def _is_inner(op: ir.Operation, least_size: int) -> bool:
    """Whether it is large, and may be computed element by element where it is read."""
    if not is_static_tensor(op.results[0].type) or size_of(op.results[0]) * SHORT < least_size:
        return False
    return is_elementwise(op) or op.name in _MOVES or (_adds(op) and _is_short(op))


_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.transpose", "stablehlo.iota", "stablehlo.constant", "stablehlo.reshape",
          "stablehlo.bitcast_convert", *BARRIERS)  # fmt: skip


def _with_terms(node: Node, known: dict[Node, Node]) -> Node:
    """The same reduction, in which the short ones that it is computed from are written as their terms."""
    operands = tuple(_written(n, known) for n in node.operands)
    return Node(node.name, operands, node.shape, node.dtype, node.attributes)


def _written(node: Node, known: dict[Node, Node]) -> Node:
    if node not in known:
        operands = tuple(_written(n, known) for n in node.operands)
        if node.name == "reduce":
            known[node] = _terms(operands[0], node)
        elif all(a is b for a, b in zip(operands, node.operands, strict=True)):
            known[node] = node
        else:
            known[node] = Node(node.name, operands, node.shape, node.dtype, node.attributes)
    return known[node]


def _terms(x: Node, node: Node) -> Node:
    """The sum of the parts of `x` along its last axis."""
    *outer, length = x.shape
    total: Node | None = None
    for i in range(length):
        limits = {"start_indices": (*[0] * len(outer), i), "limit_indices": (*outer, i + 1), "strides": (1,) * len(x.shape)}
        part = Node("slice", (x,), (*outer, 1), x.dtype, limits)
        term = Node("reshape", (part,), node.shape, x.dtype)
        total = term if total is None else Node("add", (total, term), node.shape, x.dtype)
    assert total is not None
    return total
