"""A module through its passes: what it is after each, and what each operation came from."""

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

_PLAIN = "A pass of MLIR's."


@dataclass(frozen=True)
class OperationState:
    """An operation in one state of its module: its name, the numbers of its predecessors, its origin and its cost.

    `flops` and `bytes` are those of a call: in a loop as often as it runs, where that is known. `axes` are those that its
    results carry within a map.
    """

    name: str
    forerunners: tuple[int, ...]
    origin: Origin
    flops: int
    bytes: int
    axes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class State:
    """A module at one time: its lines, what is known of its operations, by number, and the bytes it keeps between calls."""

    lines: list[Line]
    operations: list[OperationState]
    state_bytes: int


@dataclass
class Row:
    """A pass, a part of one, or a named pipeline, which its passes are parts of.

    Attributes:
      name: of the pass, the pipeline, or the transform that was expanded.
      why: why it stands where it stands.
      doc: what it does.
      parent: the number of the row that it is a part of; -1 for none.
      before: the number of the state before it.
      after: the number of the state behind it: the same one if it changed nothing.
      seconds: how long it took.
    """

    name: str
    why: str
    doc: str
    parent: int
    before: int
    after: int = 0
    seconds: float = 0.0


class Recorder:
    """Runs passes on a module, and keeps what it is behind each that changes it."""

    def __init__(self, module: ir.Module):
        self.module: ir.Module = module
        self.rows: list[Row] = []
        self.states: list[State] = []
        self._parents = [-1]
        self._first = 0  # the number of the first operation of the last state
        self._text = ""
        self._costs: dict[str, tuple[int, int]] = {}
        self._overhead = 0.0  # seconds that were spent on keeping states
        self.keep()

    def run(self, item: NamedPipeline | Pass | str, why: str = "", verify_each: bool = True) -> None:
        """Runs a pipeline, pass by pass, or a pass."""
        name = item if isinstance(item, str) else item.name
        with self.row(name, why, _PLAIN if isinstance(item, str) else inspect.getdoc(type(item)) or ""):
            if isinstance(item, NamedPipeline):
                for step, inner in item.items():
                    self.run(inner, step.why, verify_each)
                return
            watch = _WatchedExpansion(item.simplify, self) if isinstance(item, ExpandPass) else item
            Pipeline((watch,)).run(self.module.operation, verify_each=verify_each)

    def replace(self, module: ir.Module, name: str) -> None:
        """Another module takes the place of this one; operations that read the same, in the same order, count as kept."""
        with self.row(name, "", "The operations of the second file, beside those of the first."), context():
            self.module = module
            ops = [op for op, _ in _with_trips(module.operation, 1)]
            marks.mark(ops, 0)
            mine = listing_of(module.operation)
            marks.unmark(ops)
            theirs = self.states[-1].lines
            matcher = difflib.SequenceMatcher(None, [x.shape for x in theirs], [x.shape for x in mine], autojunk=False)
            for block in matcher.get_matching_blocks():
                for a, b in zip(theirs[block.a :][: block.size], mine[block.b :][: block.size], strict=True):
                    if a.operation != NO_OPERATION and b.operation != NO_OPERATION:
                        marks.mark([ops[b.operation]], self._first + a.operation)

    def number_of(self, op: ir.Operation) -> int:
        """The number of an operation in the last state; -1 for one that is not in it."""
        return self.position_of(next(iter(marks.forerunners(op.location)), -1))

    def position_of(self, mark: int) -> int:
        """The number of the operation of the last state whose location holds `mark`; -1 for none."""
        number = mark - self._first
        return number if 0 <= number < len(self.states[-1].operations) else -1

    @contextlib.contextmanager
    def row(self, name: str, why: str, doc: str) -> Iterator[None]:
        """A context whose work is a row, which is a part of the row around it."""
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
        """Keeps what the module is now, if it is another one than before."""
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
        """The forerunners of an operation and its origin, which is that of the forerunner where nothing was done to it."""
        location = op.location
        positions = [n - self._first for n in marks.forerunners(location)]
        forerunners = tuple(n for n in positions if 0 <= n < len(last.operations))
        if forerunners and marks.is_same_position(location):
            return forerunners, last.operations[forerunners[0]].origin
        return forerunners, marks.origin_of(location)

    def _cost(self, op: ir.Operation, shape: str | None, times: int) -> tuple[int, int]:
        """The cost of an operation. Equal operations are computed once, and one without a line is a part of another one."""
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
    """The cost of a `linalg.generic`: the arithmetic of its body at each point of its loops, and the bytes of its operands."""
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
    """The expansion of all transforms; each is a row."""

    recorder: Any = None

    def expand(self, op: ir.Operation) -> None:
        """Expands the operation as the pass does."""
        if op.name not in EXPANSIONS:
            super().expand(op)
            return
        with self.recorder.row(op.name, "The innermost transforms come first.", inspect.getdoc(EXPANSIONS[op.name]) or ""):
            super().expand(op)


def _with_trips(op: ir.Operation, times: int) -> Iterator[tuple[ir.Operation, int]]:
    """The operations in the regions of `op`, inner ones first, and how often each runs in a call, which runs `op` so often."""
    counter = find_counter(op) if op.name == "stablehlo.while" else None
    for i, region in enumerate(op.regions):
        trips = times if counter is None else times * (counter.trips + (i == 0))  # the condition is asked once more
        for block in region.blocks:
            for inner in (o.operation for o in block.operations):
                yield from _with_trips(inner, trips)
                yield inner, trips


def _axes(module: ir.Module) -> dict[int, tuple[str, ...]]:
    """The mapped axes that the first result of each operation within a map carries."""
    copy = module.operation.clone()
    ExplainBatchPass().run(copy.operation)
    attributes = (op.attributes for op, _ in _with_trips(copy.operation, 1))
    carried = {i: ir.ArrayAttr(own[RESULTS])[0] for i, own in enumerate(attributes) if RESULTS in own}
    return {i: tuple(axis.value for axis in ir.ArrayAttr(axes)) for i, axes in carried.items()}


def _bytes_of_type(kind: ir.Type) -> int:
    if not isinstance(kind, ir.RankedTensorType):
        return 0
    shape, dtype = shape_and_dtype(kind)
    return math.prod(shape) * dtype.itemsize
