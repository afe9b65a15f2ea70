"""Groups of reductions over one space that one kernel computes, with the operations that they read.

The space of a reduction is the loops over the elements of its operand (see items.py). The inner operations of a group compute what
its reductions read; only members of the group read them, so the kernel need not store their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.builder import Val, reduce_with
from nabla_mlir.dialects.regions import made_by, within
from nabla_mlir.dialects.stablehlo import constant_splat
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype, tensor_type
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.iree.internals.dispatches import call_kernel
from nabla_mlir.passes.iree.kernels.bindings import MAX_BINDINGS
from nabla_mlir.passes.iree.kernels.graph import Node, NotSupported, Shape
from nabla_mlir.passes.iree.kernels.items import SHORT, Space
from nabla_mlir.passes.iree.kernels.reader import Reader
from nabla_mlir.passes.iree.kernels.sums import Sum, SumsKernel
from nabla_mlir.passes.iree.regions import single_operation
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import is_elementwise, size_of

Test = Callable[[ir.Operation], bool]
_STARTS = {"stablehlo.add": 0.0, "stablehlo.multiply": 1.0, "stablehlo.maximum": -np.inf, "stablehlo.minimum": np.inf}


class Names:
    """The names of the kernels of a pass; kernels with equal texts share a name.

    Args:
      prefix: the beginning of the names.
    """

    POSITION: ClassVar[str] = "kernel_without_name"

    def __init__(self, prefix: str):
        self._prefix = prefix
        self._names: dict[str, str] = {}

    def of(self, text: str) -> tuple[str, str]:
        """The name of the kernel with this text, and the text with the name instead of the word `POSITION`."""
        name = self._names.setdefault(text, f"{self._prefix}_{len(self._names)}")
        return name, text.replace(self.POSITION, name)


@dataclass(frozen=True)
class Group:
    """Independent reductions over one space, and the operations from which they are computed, in order."""

    sums: Sequence[ir.Operation]
    inner: Sequence[ir.Operation]

    @property
    def loops(self) -> Shape:
        """The sizes of the loops of the space."""
        return loops_of(self.sums[0])

    @property
    def size(self) -> int:
        """The number of elements of the space."""
        return min(size_of(op.operands[0]) for op in self.sums)

    @property
    def stores(self) -> bool:
        """True if IREE would write an inner value to memory: one that several reductions read, or a short reduction."""
        seen: set[ir.Value] = set()
        shared: set[ir.Value] = set()
        inner = {op.results[0] for op in self.inner}
        for op in self.sums:
            cone = _cone(op, inner)
            shared |= cone & seen
            seen |= cone
        return any(is_elementwise(made_by(v)) for v in shared) or any(combines(op) for op in self.inner)

    @property
    def inputs(self) -> list[ir.Value]:
        """The values that the group reads from memory, without duplicates."""
        inner = {op.results[0] for op in self.inner}
        # A reduction reads its operand 0 (operand 1 is its initial value), an inner operation all its operands.
        operands = (op.operands[0] for op in self.sums), (v for op in self.inner for v in op.operands)
        return [v for v in dict.fromkeys(v for part in operands for v in part) if v not in inner and not _is_number(v)]

    def replace(self, names: Names, vector_bytes: int) -> None:
        """Replaces the reductions by one kernel. Raises NotSupported if no kernel can compute them.

        `names` gives the kernel its name; `vector_bytes` is the size of a vector register of the CPU.
        """
        reader = Reader()
        for op in self.inner:
            reader.read(op)
        terms: dict[Node, Node] = {}
        sums = [Sum.of(_with_terms(reader.read(op), terms)) for op in self.sums]
        inputs = list(reader.inputs)
        if len(inputs) + len(sums) > MAX_BINDINGS or any(n.dtype[0] == "u" for n in reader.inputs.values()):
            raise NotSupported("these buffers")
        groups = self._workgroups()
        name, text = names.of(SumsKernel(vector_bytes).write(Names.POSITION, sums, list(reader.inputs.values()), groups))
        types = []
        for s, op in zip(sums, self.sums, strict=True):
            shape, dtype = shape_and_dtype(op.results[0].type)
            types.append(tensor_type((groups, *shape) if s.is_partial else shape, dtype))
        first = self._position(inputs)
        with ir.InsertionPoint(first), first.location:
            results = [Val(r) for r in call_kernel(name, text, inputs, types, first)]
            totals = [_total(op, r) if s.is_partial else r for s, op, r in zip(sums, self.sums, results, strict=True)]
        for op, total in zip(self.sums, totals, strict=True):
            op.results[0].replace_all_uses_with(total.value)
            op.erase()
        for op in reversed(self.inner):
            if is_unused(op.results[0]):
                op.erase()

    @property
    def parts(self) -> list[tuple[Group, Group]]:
        """Two groups for each reduction alone: one with the inner operations that the reduction reads, and one without them."""
        inner = {op.results[0] for op in self.inner}
        cones = [(op, _cone(op, inner)) for op in self.sums]
        return [(Group([op], [o for o in self.inner if o.results[0] in cone]), Group([op], [])) for op, cone in cones]

    def _workgroups(self) -> int:
        """The number of workgroups that share the first loop: a few per core, one for little work, more for long sums."""
        rows, size = self.loops[0], self.size
        limit = thresholds.FUSED_SUMS_GROUPS if size >= thresholds.FUSED_SUMS_SHARED else 1
        limit = max(limit, rows // thresholds.SUM_IN_PARTS)
        return -(-rows // -(-rows // limit))  # as many as equal shares of the rows need

    def _position(self, inputs: Sequence[ir.Value]) -> ir.Operation:
        """The operation before which the kernel is inserted: the first reader of a result.

        Raises NotSupported if one of `inputs` (the values that the kernel reads) is computed after it.
        """
        block = self.sums[0].block
        positions = [within(block, use.owner.operation) for op in self.sums for use in op.results[0].uses]
        if not positions:
            raise NotSupported("sums that nothing reads")
        first = positions[0]
        for position in positions[1:]:
            first = position if position.is_before_in_block(first) else first
        owners = (made_by(v) for v in inputs)
        if any(o is not None and o.block == block and not o.is_before_in_block(first) for o in owners):
            raise NotSupported("a sum that is read before another can be made")
        return first


def groups_of(block: ir.Block, is_sum: Test, is_inner: Test) -> Iterator[Group]:
    """The groups of a block: independent reductions over one space, with the operations that only the group reads.

    Args:
      block: a block of a function or a region.
      is_sum: True for the reductions to group.
      is_inner: True for operations with one result that may be computed in their reader.
    """
    ops = [o.operation for o in block.operations]
    results = {op.results[0] for op in ops if is_sum(op)}
    # Inner: every reader is a reduction, or inner itself. So readers are visited first.
    inner: set[ir.Value] = set()
    for op in reversed(ops):
        if len(op.results) == 1 and op.results[0] not in results and is_inner(op):
            readers = [use.owner.operation for use in op.results[0].uses]
            if all(len(r.results) == 1 and (r.results[0] in inner or r.results[0] in results) for r in readers):
                inner.add(op.results[0])
    # The stage of a value is the largest number of reductions on a path to it: reductions of one stage are independent.
    stages: dict[ir.Value, int] = {}
    alike: dict[tuple[int, Shape], list[ir.Operation]] = {}
    for op in ops:
        stage = max((stages.get(v, 0) for v in reads_of(op)), default=0)
        is_result = len(op.results) == 1 and op.results[0] in results
        stages.update((r, stage + 1 if is_result else stage) for r in op.results)
        if is_result:
            alike.setdefault((stage, loops_of(op)), []).append(op)
    positions = {value: position for position, value in enumerate(op.results[0] for op in ops if len(op.results) == 1)}
    for members in alike.values():
        cone = set().union(*(_cone(op, inner) for op in members))
        yield Group(members, [value.owner.operation for value in sorted(cone, key=positions.__getitem__)])


def _cone(op: ir.Operation, inner: set[ir.Value]) -> set[ir.Value]:
    """The values of `inner` from which a reduction is computed, directly or through other values of `inner`."""
    cone: set[ir.Value] = set()
    work = [op.operands[0]]
    while work:
        value = work.pop()
        if value in inner and value not in cone:
            cone.add(value)
            work += list(value.owner.operation.operands)
    return cone


def combines(op: ir.Operation) -> bool:
    """True for a reduction of floating-point numbers by one operation of `_STARTS`, whose initial value is the neutral element."""
    if op.name != "stablehlo.reduce" or len(op.operands) != 2 or not is_static_tensor(op.operands[0].type):
        return False
    start, combine = made_by(op.operands[1]), single_operation(op.regions[0])
    if shape_and_dtype(op.operands[0].type)[1] not in (np.float32, np.float64) or combine not in _STARTS:
        return False
    return start is not None and start.name == "stablehlo.constant" and constant_splat(start) == _STARTS[combine]


def loops_of(op: ir.Operation) -> Shape:
    """The sizes of the loops over the operand of a reduction; see `Space.of`."""
    return Space.of(tuple(op.operands[0].type.shape)).loops


def is_short(op: ir.Operation) -> bool:
    """True if a reduction is only over a short last axis."""
    shape = op.operands[0].type.shape
    return list(op.attributes["dimensions"]) == [len(shape) - 1] and shape[-1] <= SHORT


def _is_number(value: ir.Value) -> bool:
    """True for a constant that is filled with one number."""
    source = made_by(value)
    return source is not None and source.name == "stablehlo.constant" and constant_splat(source) is not None


def _total(op: ir.Operation, parts: Val) -> Val:
    """The result of the reduction `op` from the results of the workgroups, along the first axis of `parts`."""
    combine = single_operation(op.regions[0])
    assert combine is not None
    return reduce_with(combine, parts, _STARTS[combine], [0])


def _with_terms(node: Node, known: dict[Node, Node]) -> Node:
    """The reduction `node`, with reductions inside its operand written as sums of slices; `known` has nodes changed so far."""
    operands = tuple(_without_reductions(n, known) for n in node.operands)
    return Node(node.name, operands, node.shape, node.dtype, node.attributes)


def _without_reductions(node: Node, known: dict[Node, Node]) -> Node:
    """`node`, in which all reductions are written as sums of slices; `known` has the nodes changed so far."""
    if node not in known:
        operands = tuple(_without_reductions(n, known) for n in node.operands)
        if node.name == "reduce":
            known[node] = _combine_slices(operands[0], node)
        elif all(a is b for a, b in zip(operands, node.operands, strict=True)):
            known[node] = node
        else:
            known[node] = Node(node.name, operands, node.shape, node.dtype, node.attributes)
    return known[node]


def _combine_slices(x: Node, node: Node) -> Node:
    """The reduction `node` of `x` along its last axis, as elementwise operations on slices of `x`."""
    *outer, length = x.shape
    total: Node | None = None
    for i in range(length):
        limits = {"start_indices": (*[0] * len(outer), i), "limit_indices": (*outer, i + 1), "strides": (1,) * len(x.shape)}
        part = Node("slice", (x,), (*outer, 1), x.dtype, limits)
        term = Node("reshape", (part,), node.shape, x.dtype)
        total = term if total is None else Node(node.attributes["combine"], (total, term), node.shape, x.dtype)
    assert total is not None
    return total
