"""A record of a module during its passes: its state after each pass, and the predecessors of each operation."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.batch import VmapOp
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.explorer import marks
from nabla_mlir.explorer.listing import ELIDED, NO_OPERATION, Line, listing_of
from nabla_mlir.explorer.marks import Origin
from nabla_mlir.passes.base import NamedPipeline, Pass
from nabla_mlir.passes.expand import EXPANSIONS, ExpandPass
from nabla_mlir.passes.explain_batch import RESULTS, ExplainBatchPass
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import bytes_of, flops_of, is_free, runs_regions

_PLAIN = "A pass of MLIR."


@dataclass(frozen=True)
class OperationState:
    """An operation in one state of its module: its name, the numbers of its predecessors, its origin and its cost.

    `flops` and `bytes` are the cost in one call; in a loop with a known number of iterations, all iterations count. `axes` are
    the mapped axes of its results, if it is inside a map.
    """

    name: str
    predecessors: tuple[int, ...]
    origin: Origin
    flops: int
    bytes: int
    axes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class State:
    """A module after a pass: its lines, its operations by number, and the bytes that it stores between calls."""

    lines: list[Line]
    operations: list[OperationState]
    state_bytes: int


@dataclass
class Row:
    """A pass, a part of a pass, or a named pipeline, whose passes are its parts.

    Attributes:
      name: the name of the pass, of the pipeline, or of the expanded transform.
      why: the reason for its position in the pipeline.
      doc: its documentation.
      parent: the number of the row that contains it; -1 for none.
      before: the number of the state before it.
      after: the number of the state after it; it is equal to `before` if the pass changed nothing.
      seconds: its duration.
    """

    name: str
    why: str
    doc: str
    parent: int
    before: int
    after: int = 0
    seconds: float = 0.0


class Recorder:
    """Runs passes on a module, and stores the state after each pass that changes the module."""

    def __init__(self, module: ir.Module):
        """Starts a recording, with the module as its first state."""
        self.module: ir.Module = module
        self.rows: list[Row] = []
        self.states: list[State] = []
        self._parents = [-1]
        self._first = 0  # the number of the first operation of the last state
        self._text = ""
        self._costs: dict[str, tuple[int, int]] = {}
        self._overhead = 0.0  # the seconds spent on storing states
        self.keep()

    def run(self, item: NamedPipeline | Pass | str, why: str = "", verify_each: bool = True) -> None:
        """Runs a pass, or all passes of a pipeline, and records a row for each; `why` is the reason that the page shows."""
        name = item if isinstance(item, str) else item.name
        with self.row(name, why, _PLAIN if isinstance(item, str) else inspect.getdoc(type(item)) or ""):
            if isinstance(item, NamedPipeline):
                for step, inner in item.items():
                    self.run(inner, step.why, verify_each)
                return
            watch = _WatchedExpansion(item.simplify, self) if isinstance(item, ExpandPass) else item
            Pipeline((watch,)).run(self.module.operation, verify_each=verify_each)

    def replace(self, module: ir.Module, name: str) -> None:
        """Replaces the module by another one; operations with the same text in the same order count as unchanged."""
        with self.row(name, "", "The operations of the second file, compared with those of the first."), context():
            self.module = module
            ops = [op for op, _ in _with_trips(module.operation, 1)]
            # A mark is a number in the location of an operation, by which a line of text finds its operation.
            marks.mark(ops, 0)
            new_lines = listing_of(module.operation)
            marks.unmark(ops)
            old_lines = self.states[-1].lines
            matcher = difflib.SequenceMatcher(None, [x.shape for x in old_lines], [x.shape for x in new_lines], autojunk=False)
            # An operation with an equal line gets the number of the old operation, which makes that its predecessor.
            for block in matcher.get_matching_blocks():
                for a, b in zip(old_lines[block.a :][: block.size], new_lines[block.b :][: block.size], strict=True):
                    if a.operation != NO_OPERATION and b.operation != NO_OPERATION:
                        marks.mark([ops[b.operation]], self._first + a.operation)

    def number_of(self, op: ir.Operation) -> int:
        """The number of an operation in the last state; -1 if the state does not contain it."""
        return self.position_of(next(iter(marks.predecessors(op.location)), -1))

    def position_of(self, mark: int) -> int:
        """The number of the operation of the last state with `mark` in its location; -1 for none."""
        number = mark - self._first
        return number if 0 <= number < len(self.states[-1].operations) else -1

    @contextlib.contextmanager
    def row(self, name: str, why: str, doc: str) -> Iterator[None]:
        """A context that records the passes inside it as one row, which is a part of the enclosing row.

        `name`, `why` and `doc` are the texts of the row: the name of the pass, the reason that it runs, and its description.
        """
        row = Row(name, why, doc, self._parents[-1], len(self.states) - 1)
        self._parents.append(len(self.rows))
        self.rows.append(row)
        start, overhead = time.perf_counter(), self._overhead
        yield
        now = time.perf_counter()
        row.seconds = now - start - (self._overhead - overhead)
        self._parents.pop()
        self.keep()
        self._overhead += time.perf_counter() - now
        row.after = len(self.states) - 1

    def keep(self) -> None:
        """Stores the state of the module if its text has changed since the last state."""
        with context():
            text = self.module.operation.get_asm(large_elements_limit=ELIDED)
            if text == self._text:
                return
            self._text = text
            ops = list(_with_trips(self.module.operation, 1))
            last = self.states[-1] if self.states else State([], [], 0)
            origins = [self._origin(op, last) for op, _ in ops]
            first = self._first + len(last.operations)
            marks.mark([op for op, _ in ops], first)
            lines = listing_of(self.module.operation)
            for line in lines:
                line.operation -= first if line.operation != NO_OPERATION else 0
            axes = _axes(self.module) if any(op.name == VmapOp.name for op, _ in ops) else {}
            shapes = {line.operation: line.shape for line in lines if line.is_first}
            operations = [
                OperationState(op.name, *origin, *self._cost(op, shapes.get(i), times), axes.get(i))
                for i, ((op, times), origin) in enumerate(zip(ops, origins, strict=True))
            ]
            size = sum(_bytes_of_type(ir.TypeAttr(op.attributes["type"]).value) for op, _ in ops if op.name == "util.global")
        self._first = first
        self.states.append(State(lines, operations, size))

    def _origin(self, op: ir.Operation, last: State) -> tuple[tuple[int, ...], Origin]:
        """The numbers of the operation's predecessors in the state `last` before, and its origin in the user's program.

        An unchanged operation has the origin of its predecessor.
        """
        location = op.location
        positions = [n - self._first for n in marks.predecessors(location)]
        predecessors = tuple(n for n in positions if 0 <= n < len(last.operations))
        if predecessors and marks.is_same_position(location):
            return predecessors, last.operations[predecessors[0]].origin
        return predecessors, marks.origin_of(location)

    def _cost(self, op: ir.Operation, shape: str | None, times: int) -> tuple[int, int]:
        """The FLOPs and the bytes of an operation that runs `times` times; zeros if it has no line (`shape` is None).

        Operations that are parts of another operation have no line.
        """
        if shape is None or runs_regions(op):
            return 0, 0
        if op.name == "linalg.generic":
            flops, size = cost_of_generic(op)
            return flops * times, size * times
        if op.name not in REGISTRY:
            return 0, 0
        if shape not in self._costs:
            size = 0 if is_free(op) else sum(map(bytes_of, [*op.operands, *op.results]))
            self._costs[shape] = flops_of(op), size
        flops, size = self._costs[shape]
        return flops * times, size * times


def cost_of_generic(op: ir.Operation) -> tuple[int, int]:
    """The FLOPs and the bytes of a `linalg.generic`: the arithmetic of its body for each iteration, and its operands."""
    lengths: dict[int, int] = {}
    size = 0
    for value, attribute in zip(op.operands, ir.ArrayAttr(op.attributes["indexing_maps"]), strict=True):
        shape, dtype = shape_and_dtype(value.type)
        size += math.prod(shape) * dtype.itemsize
        for expression, length in zip(ir.AffineMapAttr(attribute).value.results, shape, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                lengths[expression.position] = length
    body = [o.operation.name for o in op.regions[0].blocks[0].operations]
    arithmetic = sum(1 for name in body if name.startswith(("arith.", "math.")) and not name.startswith(_NO_FLOPS))
    return arithmetic * math.prod(lengths.values()), size


_NO_FLOPS = ("arith.constant", "arith.ext", "arith.trunc", "arith.index", "arith.select", "arith.cmp", "arith.bitcast")


@dataclass(frozen=True)
class _WatchedExpansion(ExpandPass):
    """The pass that expands all transforms, with a row for each transform."""

    recorder: Any = None

    def expand(self, op: ir.Operation) -> None:
        """Expands the transform `op` as the pass does, and records a row for it."""
        if op.name not in EXPANSIONS:
            super().expand(op)
            return
        with self.recorder.row(op.name, "The innermost transforms come first.", inspect.getdoc(EXPANSIONS[op.name]) or ""):
            super().expand(op)


def _with_trips(op: ir.Operation, times: int) -> Iterator[tuple[ir.Operation, int]]:
    """Yields the operations inside `op`, inner ones first, each with its number of runs if `op` runs `times` times."""
    counter = find_counter(op) if op.name == "stablehlo.while" else None
    for i, region in enumerate(op.regions):
        # The condition (region 0) is evaluated once more than the body.
        trips = times if counter is None else times * (counter.trips + (i == 0))
        for block in region.blocks:
            for inner in (o.operation for o in block.operations):
                yield from _with_trips(inner, trips)
                yield inner, trips


def _axes(module: ir.Module) -> dict[int, tuple[str, ...]]:
    """The mapped axes of the first result of each operation inside a map, by the number of the operation."""
    copy = module.operation.clone()
    ExplainBatchPass().run(copy.operation)
    attributes = (op.attributes for op, _ in _with_trips(copy.operation, 1))
    carried = {
        i: ir.ArrayAttr(attributes_of_argument[RESULTS])[0]
        for i, attributes_of_argument in enumerate(attributes)
        if RESULTS in attributes_of_argument
    }
    return {i: tuple(axis.value for axis in ir.ArrayAttr(axes)) for i, axes in carried.items()}


def _bytes_of_type(kind: ir.Type) -> int:
    """The size in bytes of a tensor of this type, or 0 for other types."""
    if not isinstance(kind, ir.RankedTensorType):
        return 0
    shape, dtype = shape_and_dtype(kind)
    return math.prod(shape) * dtype.itemsize
