"""Long chains of elementwise operations as one operation each, because IREE would need exponential time to fuse them.

A chain is a set of connected elementwise operations over one shape, in the order of their block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.kernels.bindings import MAX_BINDINGS
from nabla_mlir.passes.iree.kernels.elementwise import as_dispatch, sources, space_of
from nabla_mlir.passes.iree.kernels.graph import Shape
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import is_part, runs_regions
from nabla_mlir.targets import TARGETS

# the operand limit of an operation into which IREE fuses others (kIreeMaxOperandCount)
_MAX_OPERANDS = 16


@register
@dataclass(frozen=True)
class FuseChainsPass(Pass):
    """Write each long chain of elementwise operations over one shape as one operation.

    IREE 3.13 fuses a producer into its consumer once for each operand that reads it. In a chain whose values are used
    several times (a recurrence of two terms, the stages of a Runge-Kutta method) the code doubles with each step. Values
    that are read much later become results of the dispatch, possibly more than a device binds.

    A chain becomes a `linalg.generic` in a separate dispatch in these cases; it becomes several if it is long or binds many
    buffers:

    - IREE's fusion would make many operations of it.
    - It is long, and IREE would make several dispatches of it. The sine in f64: seven dispatches, 89 ms for 10⁶ elements;
      in one 17 ms.
    - IREE would make three dispatches or more of it, each of which costs the host of a GPU 2 to 3 microseconds. The cell of an LSTM
      with its tangent: 15, then 3.
    - It is shorter, but IREE would write many of its values to memory. The Hessian-vector product of an optical flow of
      512x512 points: 39 MB, then 26.

    Other chains are left to IREE.

    Example: tests/filecheck/passes/fuse_chains.mlir
    """

    name: ClassVar[str] = "nabla-fuse-chains"
    max_copies: int = thresholds.CHAIN_COPIES  # the number of operations that IREE may write for a chain
    max_operations: int = thresholds.CHAIN_OPERATIONS  # the largest number in one dispatch
    least_operations: int = thresholds.LONG_CHAIN  # the least length of a chain of which IREE writes values to memory
    least_of_spills: int = thresholds.SPILLING_CHAIN  # the least length of a chain of which IREE writes many values
    least_spills: int = thresholds.CHAIN_SPILLS  # the number of values that counts as many
    max_bindings: int = MAX_BINDINGS  # the largest number of buffers of one dispatch
    target: str = "cpu"  # the kind of device: cpu, vulkan or cuda

    def run(self, module: ir.Operation) -> None:
        """Replaces long chains in all blocks by dispatches, in place."""
        for holder in [op for op in nested_in_functions(module) if runs_regions(op)]:
            for block in (block for region in holder.regions for block in region.blocks):
                for chain in _chains(block):
                    if self._is_long(chain):
                        for ops in self._pieces(chain):
                            _fuse(ops)

    def _is_long(self, chain: _Chain) -> bool:
        """True if IREE would write too much code for a chain, too many dispatches, or values of a long chain to memory."""
        steps = chain.steps()
        parts = _Parts.of(steps)
        copies = parts.copies()
        # IREE cuts a chain where it would copy a step into several readers, or where a step narrows its numbers.
        has_cuts = copies > len(steps) or any(map(_is_narrowing, chain.ops))
        if copies > self.max_copies or (has_cuts and len(steps) >= self.least_operations):
            return True
        if not TARGETS[self.target].codegen.cheap_dispatches and parts.dispatches() > 2:
            return True
        spills = parts.spills() - len(_read_in_parts(steps))
        return has_cuts and spills >= self.least_spills and len(steps) >= self.least_of_spills

    def _pieces(self, chain: _Chain) -> Iterator[Sequence[ir.Operation]]:
        """The operations of a chain in consecutive pieces, one for each dispatch; a piece ends where it binds few buffers."""
        start, steps = 0, chain.steps()
        codegen = TARGETS[self.target].codegen
        limit = self.max_bindings if codegen.cheap_dispatches else min(self.max_bindings, codegen.most_arguments)
        while start < len(steps):
            counts = list(_bindings(steps[: start + self.max_operations], start))
            fitting = [end for end, count in enumerate(counts, 1) if count <= limit] or [1]  # one operation cannot be divided
            end = fitting[-1]
            if start + end < len(steps):
                # Of the ends in the second half, the one with the fewest bindings, and among these the last one.
                end = min((n for n in fitting if 2 * n > end), key=lambda n: (counts[n - 1], -n))
            yield chain.ops[start : start + end]
            start += end


@dataclass(eq=False)
class _Chain:
    """Connected operations over one shape, in the order of their block; no path leaves the chain and returns."""

    ops: list[ir.Operation] = field(default_factory=list)

    def steps(self) -> list[_Step]:
        """The operations of the chain, each with its operands and number of uses; a result of a step is given by its index."""
        positions: dict[ir.Value, int] = {op.results[0]: i for i, op in enumerate(self.ops)}
        return [_Step([positions.get(v, v) for v in sources(op)], sum(1 for _ in op.results[0].uses)) for op in self.ops]


class _Step(NamedTuple):
    """An operation of a chain: its operands (values from outside, or indices of steps) and the number of uses of its result."""

    reads: list[ir.Value | int]
    uses: int


@dataclass(frozen=True)
class _Value:
    """A result of an operation in a block; the stage is the largest number of chains that a path of operands to it has left."""

    stage: int
    shape: Shape | None = None  # the shape of the chain; None if it is not in a chain


def _chains(block: ir.Block) -> list[_Chain]:
    """The chains of a block: connected elementwise operations over one shape, in an order in which each can be one dispatch.

    The stage of a value is the number of chains that must run before it. For example, ``y = sin(x) + 1`` over 10 elements is a
    chain of stage 0, and an elementwise operation over 10x5 elements that reads y is in a chain of stage 1.
    """
    known: dict[ir.Value, _Value] = {}
    chains: dict[ir.Value, _Chain] = {}
    order: dict[ir.Value, int] = {}
    fixed: set[ir.Value] = set()  # constant values, which need no dispatch
    for op in (o.operation for o in block.operations):
        reads = [(v, known[v]) for v in reads_of(op) if v in known]
        shape = space_of(op)
        if shape is not None and fixed.issuperset(sources(op)):
            fixed.add(op.results[0])
            continue
        if shape is None:
            stage = max((x.stage for _, x in reads), default=-1)
            known.update((r, _Value(stage)) for r in op.results)
            continue
        # A path that comes from a value of another chain has left one more chain.
        stage = max((x.stage + (1 if x.shape != shape else 0) for _, x in reads), default=0)
        inside = [(v, x) for v, x in reads if (x.shape, x.stage) == (shape, stage)]
        result = op.results[0]
        order[result] = len(order)
        known[result] = _Value(stage, shape)
        neighbours = list({chains[v] for v, _ in inside}) or [_Chain()]
        largest = max(neighbours, key=lambda c: len(c.ops))
        for chain in neighbours:
            if chain is not largest:
                chains.update((o.results[0], largest) for o in chain.ops)
                largest.ops += chain.ops
        largest.ops.append(op)
        chains[result] = largest
    found = list(dict.fromkeys(chains.values()))
    for chain in found:
        chain.ops.sort(key=lambda o: order[o.results[0]])
    # A dispatch gets its final operands when it is written. If constants and equal values were merged later, results of the
    # dispatch could become equal, and IREE would refuse it.
    return sorted(found, key=lambda chain: known[chain.ops[0].results[0]].stage)


def _is_narrowing(op: ir.Operation) -> bool:
    """True if an operation converts to fewer bits; IREE writes its result to memory for the readers."""
    if op.name != "stablehlo.convert":
        return False
    (source,), (result,) = op.operands, op.results
    return shape_and_dtype(result.type)[1].itemsize < shape_and_dtype(source.type)[1].itemsize


def _read_in_parts(steps: Sequence[_Step]) -> set[ir.Value]:
    """The slices of values from outside that a chain reads: only for a separate dispatch does IREE write them to memory."""
    return {v for step in steps for v in step.reads if isinstance(v, ir.Value) and is_part(made_by(v))}


@dataclass(frozen=True)
class _Parts:
    """A chain as IREE fuses it: a step becomes a part of its only reader, as long as the reader has few operands.

    A home is a step that is not a part of another step. Steps are given by their indices.
    """

    steps: Sequence[_Step]
    users: list[set[int]]  # for each step, the steps that read it
    home: list[int]  # for each step, the home of which it is a part, or itself
    reads: list[set[ir.Value | int]]  # the values that each home reads, including its parts
    sizes: list[int]  # the number of steps of each home, including its parts

    @staticmethod
    def of(steps: Sequence[_Step]) -> _Parts:
        """The steps of a chain as IREE fuses them: each becomes a part of its only reader if allowed, the last step first."""
        users: list[set[int]] = [set() for _ in steps]
        for position, step in enumerate(steps):
            for value in step.reads:
                if isinstance(value, int):
                    users[value].add(position)
        parts = _Parts(steps, users, list(range(len(steps))), [set(step.reads) for step in steps], [1] * len(steps))
        for position in reversed(range(len(steps))):
            parts._join_reader(position)
        return parts

    def copies(self) -> int:
        """The largest number of operations that IREE writes for one step, if it copies each home into all of its readers."""
        copies = [0] * len(self.steps)
        for position in self._homes():
            copies[position] = self.sizes[position] + sum(copies[v] for v in self.reads[position] if isinstance(v, int))
        return max(copies)

    def dispatches(self) -> int:
        """The number of dispatches that IREE makes of the chain."""
        return sum(1 for _ in self._homes())

    def spills(self) -> int:
        """The number of homes that only other steps of the chain read: IREE writes their results to memory."""
        return sum(1 for position in self._homes() if self.users[position] and self._is_inner(position))

    def _join_reader(self, position: int) -> None:
        """Makes the step at `position` a part of its only reader, if IREE's limit of operands allows it."""
        # The parts that read the step; the step joins a part only if it is the only one.
        homes = {self.home[user] for user in self.users[position]}
        if len(homes) != 1 or not self._is_inner(position):
            return
        (reader,) = homes
        both = self.reads[reader] - {position} | self.reads[position]
        if len(both) < _MAX_OPERANDS:
            self.home[position], self.reads[reader] = reader, both
            self.sizes[reader] += self.sizes[position]

    def _homes(self) -> Iterator[int]:
        """The steps that are not a part of another step."""
        return (position for position, home in enumerate(self.home) if home == position)

    def _is_inner(self, position: int) -> bool:
        """True if only steps of the chain read the result of the step at `position`."""
        return sum(self.steps[user].reads.count(position) for user in self.users[position]) == self.steps[position].uses


def _bindings(steps: Sequence[_Step], start: int = 0) -> Iterator[int]:
    """The numbers of buffers that dispatches with the steps `start` to k would bind, for k = start, start + 1, ..."""
    inputs: set[ir.Value | int] = set()
    outputs: dict[ir.Value | int, int] = {}  # with the number of remaining uses
    for position, step in enumerate(steps[start:], start):
        for value in step.reads:
            if value not in outputs:
                inputs.add(value)
                continue
            outputs[value] -= 1
            if not outputs[value]:
                del outputs[value]
        if step.uses:
            outputs[position] = step.uses
        yield len(inputs) + len(outputs)


def _fuse(ops: Sequence[ir.Operation]) -> None:
    """Replaces operations by one dispatch at the position of the last one; operations between that depend on them move down."""
    values = {op.results[0] for op in ops}
    block = [o.operation for o in ops[0].block.operations]
    positions = [i for i, op in enumerate(block) if _makes(op, values)]
    # Operations in between that read a result of the dispatch, directly or not, move after it.
    latest, late = block[positions[-1]], set(values)
    for op in block[positions[0] : positions[-1]]:
        if not _makes(op, values) and any(v in late for v in reads_of(op)):
            op.move_after(latest)
            latest = op
            late.update(op.results)
    inside = [block[i] for i in positions]
    results = [op.results[0] for op in inside if any(not _makes(use.owner, values) for use in op.results[0].uses)]
    if results:
        as_dispatch(inside, results)


def _makes(op: ir.Operation, values: set[ir.Value]) -> bool:
    """True if an operation has one result, and it is one of `values`."""
    return len(op.results) == 1 and op.results[0] in values
