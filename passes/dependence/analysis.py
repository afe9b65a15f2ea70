"""The inputs on which each element of each value depends: an analysis of a function, by the pattern rules of the records.

A rule describes one operation. This module applies the rules to a whole function: from the chosen arguments through
calls, branches (the union) and loops. A loop is followed iteration by iteration while its condition is a known number;
then the indices that it reads and writes are known too. Otherwise the result is a fixed point, which is widened if it
does not converge soon.

In a derivative with respect to its tangents, every operation is linear in the values that depend on them. So the
pattern of the results is that of the Jacobian or Hessian. The same holds for the function itself, if each operation is
elementwise or linear in the values that depend on the arguments; `jacobian_of` tries this first.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import PatternError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, last_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.dependence.trajectories import after_iterations
from nabla_mlir.passes.dependence.values import Cause, LinesNeeded, Values
from nabla_mlir.passes.normalize.known_numbers import fold_of
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.sparsity.operands import Operand, Shape, dense
from nabla_mlir.sparsity.powers import after
from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.table.regions import captures_by_rule, captures_of, ends_of, fixed_point
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.rules import UNSUPPORTED, ZERO, Zero
from nabla_mlir.table.tensor import wrap
from nabla_mlir.table.traits import CONSTANT


class DerivativeNeeded(Exception):  # noqa: N818  # not an error: it asks for another analysis
    """Raised for an operation whose derivative has another pattern: the caller must analyse the derivative instead."""


class Dependence(Values):
    """The patterns of the values of a function, each by the rule of its operation."""

    # ---------------------------------------------------------------- operations

    def run(self, block: ir.Block) -> list[ir.Value]:
        """The operands of the terminator of a block, whose operations have then been visited in order."""
        *body, end = block.operations
        for op in body:
            self.visit(op.operation)
        return list(end.operands)

    def visit(self, op: ir.Operation) -> None:
        """Records the patterns of the results of an operation: the inputs on which each element depends."""
        self._steps += 1
        operands, results, record = list(op.operands), list(op.results), REGISTRY.get(op.name)
        reads = [*operands, *captures_of(op)] if len(op.regions) else operands
        is_constant = self.relations.keys().isdisjoint(reads)
        self._note_numbers(op, operands, results, is_constant)
        runs = "" if record is None else record.runs
        if runs == "loop":
            self._loop(op, operands, results)
        elif is_constant or (record is not None and isinstance(record.jvp, Zero)):
            for result in results:
                self.relations.pop(result, None)
            return
        elif op.name in ("func.call", "call"):
            self._call(op, operands, results)
        elif runs in ("choice", "once"):
            self._branches(op, operands, results)
        else:
            self._apply(op, record, operands, results)
        self._note_cause(op, reads, results)

    def _apply(self, op: ir.Operation, record: OpDef | None, operands: list[ir.Value], results: list[ir.Value]) -> None:
        """Records the patterns of `results`, by the rule of the operation, from those of `operands` and of captured values."""
        types = [shape_and_dtype(r.type) for r in results]
        shapes = [shape for shape, _ in types]
        xs = [Operand(self.of(v), functools.partial(self.number, v)) for v in operands]
        params = {} if record is None or not record.has_params else record.read(op)
        captures = captures_of(op) if record is None else captures_by_rule(op, record)
        others = [Operand(self.of(v), functools.partial(self.number, v)) for v in captures if v in self.relations]
        if others and not self.is_derivative:
            raise DerivativeNeeded(op.name)
        if not self.is_derivative:
            xs = _as_in_tangent(op, record, xs, params)
        found = dense([*xs, *others], shapes) if others else _patterns_by_rule(record, xs, shapes, params)
        for result, (_, dtype), relation in zip(results, types, found, strict=True):
            self._keep(result, relation, dtype)

    def _note_numbers(self, op: ir.Operation, operands: list[ir.Value], results: list[ir.Value], is_constant: bool) -> None:
        """Records which results are constants with known numbers; `is_constant` is True if no operand depends on an input.

        Numbers that were folded from the numbers of a loop are forgotten, because they change in each iteration.
        """
        known = is_constant and (
            op.name in (CONSTANT, "stablehlo.iota")
            or (bool(operands) and all(map(self._is_known, operands)) and len(results) == 1 and fold_of(op) is not None)
        )
        if known:
            self._fixed.update(results)
        else:
            self._fixed.difference_update(results)
        if self._changing and any(v in self._changing for v in operands):
            self._changing.update(results)
            for result in results:
                self._folded.pop(result, None)

    def _note_cause(self, op: ir.Operation, reads: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
        """Records the operation as a cause, with the user's line, if it makes a dense result from operands that are not dense."""
        if self.columns < 2 or not self._is_dense(results) or self._is_dense(reads):
            return
        if not self.has_lines:
            raise LinesNeeded
        cause = Cause(op.name, source_of(op.location))
        if cause not in self.causes:
            self.causes.append(cause)

    def _is_dense(self, values: Sequence[ir.Value]) -> bool:
        """True if an element of one of the values depends on all columns."""
        for value in values:
            relation = self.relations.get(value)
            if relation is not None and relation.has_full_row:
                return True
        return False

    # ---------------------------------------------------------------- control flow

    def _call(self, op: ir.Operation, operands: list[ir.Value], results: list[ir.Value]) -> None:
        """Records the patterns of the results of a call, from those of its operands, by a visit of the body of the function."""
        block = self.functions[op.attributes["callee"].value].regions[0].blocks[0]
        for argument, value in zip(block.arguments, operands, strict=True):
            self._set(argument, self.of(value))
        for result, value in zip(results, self.run(block), strict=True):
            self._set(result, self.of(value))

    def _branches(self, op: ir.Operation, operands: list[ir.Value], results: list[ir.Value]) -> None:
        """Records the patterns of the results of a branch: the union over its regions, or those of a region known to run."""
        regions = list(op.regions)
        number = self.number(operands[0]) if operands and len(regions) > 1 else None
        if number is not None:
            position = (0 if number else 1) if number.dtype.kind == "b" else int(number)
            regions = [regions[position if 0 <= position < len(regions) else -1]]  # the last one for an index out of range
        found: list[Relation] | None = None
        for region in regions:
            block = region.blocks[0]
            for argument, value in zip(block.arguments, operands, strict=False):  # branches of a choice have no arguments
                self._set(argument, self.of(value))
            ends = [self.of(v) for v in self.run(block)]
            found = ends if found is None else [a.union(b) for a, b in zip(found, ends, strict=True)]
        for result, relation in zip(results, found or (), strict=True):
            self._set(result, relation)

    def _loop(self, op: ir.Operation, operands: list[ir.Value], results: list[ir.Value]) -> None:
        """Records the patterns of the results of a loop.

        The loop is followed iteration by iteration while its condition is a known number. After some iterations, the patterns at
        the end are computed at once if possible: by powers of the pattern of one iteration, or element by element
        (`trajectories.py`). A loop that would take too long becomes a fixed point.
        """
        state = [self.of(v) for v in operands]
        numbers = [self.number(v) if v in self._fixed else None for v in operands]
        arguments, _ = ends_of(op.regions[1])
        if all(r.is_empty for r in state) and not any(v in self.relations for v in captures_of(op)):
            for result in results:
                self.relations.pop(result, None)
            return
        if not self.has_lines:
            raise LinesNeeded
        start, iterations, trial = self._steps, 0, thresholds.PATTERN_ITERATIONS
        while True:
            iterations += 1
            if iterations == trial:  # the shorter ways are tried after 1, 4, 16, ... times PATTERN_ITERATIONS iterations
                trial *= 4
                is_too_long = self._is_too_long(op, iterations, self._steps - start)
                ends = self._end_by_powers(op, state, numbers, iterations - 1)
                if ends is None and iterations == thresholds.PATTERN_ITERATIONS:
                    ends = after_iterations(self, op, state, numbers, iterations - 1, exactly=not is_too_long)
                if ends is not None:
                    state = ends
                    break
                if iterations > thresholds.PATTERN_ITERATIONS and is_too_long:
                    state = self._fixed_point(op, state)
                    break
            goes_on = self._condition(op, numbers)
            if goes_on is None or self._steps - start > thresholds.PATTERN_STEPS:
                state = self._fixed_point(op, state)
                break
            if not goes_on:
                break
            new, numbers, reads_numbers = self._iteration(op, state, numbers)
            same = all(a.same_as(b) for a, b in zip(state, new, strict=True))
            state = new
            if same and not reads_numbers:
                break
        for value in arguments:
            self._numbers.pop(value, None)
        for result, relation in zip(results, state, strict=True):
            self._set(result, relation)

    def _is_too_long(self, op: ir.Operation, iterations: int, steps: int) -> bool:
        """True if the loop would reach the limit of steps before its end."""
        counter = find_counter(op)
        return counter is not None and steps * counter.trips > thresholds.PATTERN_STEPS * iterations

    def _end_by_powers(
        self, op: ir.Operation, state: Sequence[Relation], numbers: Sequence[np.ndarray | None], iterations: int
    ) -> list[Relation] | None:
        """The patterns at the end of a counted loop, by powers of the pattern of one iteration.

        `state` and `numbers` have the patterns and the known numbers of the carried values after `iterations` iterations. The
        result is None if the loop is not counted, if the pattern of an iteration depends on numbers such as the counter, or if the
        pattern is too large.
        """
        counter = find_counter(op)
        if counter is None or counter.trips <= iterations:
            return None
        captures = [v for v in captures_of(op) if v in self.relations]
        # One iteration as a pattern: its inputs are the carried elements, as new columns after the others.
        bases = itertools.accumulate([math.prod(r.shape) for r in state], initial=self.columns)
        *starts, columns = bases
        found = []
        # Once with the known numbers of the next iteration and once without: if the patterns agree, they hold for all iterations.
        for counts in (numbers, [None] * len(numbers)):
            inner = self.inside(columns)
            inner.relations = {v: self.relations[v].among(columns) for v in captures}
            seeds = [Relation.identity(r.shape, columns, base) for r, base in zip(state, starts, strict=True)]
            found.append(inner._iteration(op, seeds, counts)[0])
        try:
            if max(r.entries for r in (*found[0], *found[1], *state)) > thresholds.PATTERN_TERMS:
                return None
            is_steady = all(a.equals(b) for a, b in zip(*found, strict=True))
            return after(found[1], state, counter.trips - iterations) if is_steady else None
        except PatternError:
            return None

    def _condition(self, op: ir.Operation, numbers: Sequence[np.ndarray | None]) -> bool | None:
        """The condition of a loop before an iteration, from the known numbers of the carried values; None if it is not known."""
        block = op.regions[0].blocks[0]
        self.bind(block.arguments, numbers)
        (predicate,) = self.run(block)
        if predicate not in self._fixed:
            return None
        # The number of iterations may differ between the iterations of an outer loop.
        self._asked = self._asked or (predicate in self._changing and find_counter(op) is None)
        return bool(self._fold(predicate))

    def _iteration(
        self, op: ir.Operation, state: Sequence[Relation], numbers: Sequence[np.ndarray | None]
    ) -> tuple[list[Relation], list[np.ndarray | None], bool]:
        """The patterns and numbers of the carried values after an iteration, and True if a pattern depends on a changing number.

        Args:
          op: the loop.
          state: the patterns of the carried values before the iteration.
          numbers: their numbers; None for a value whose number is not known.
        """
        block = op.regions[1].blocks[0]
        self.bind(block.arguments, numbers)
        for argument, relation in zip(block.arguments, state, strict=True):
            self._set(argument, relation)
        before, self._asked = self._asked, False
        ends = self.run(block)
        asked, self._asked = self._asked, before or self._asked
        carried = [self._fold(v) if v in self._fixed and not v.type.shape else None for v in ends]
        return [self.of(v) for v in ends], carried, asked

    def _fixed_point(self, op: ir.Operation, state: Sequence[Relation]) -> list[Relation]:
        """The patterns after any number of iterations, from the patterns `state` before the loop.

        A pattern that does not converge becomes dense.
        """
        nothing: list[np.ndarray | None] = [None] * len(state)
        self._condition(op, nothing)
        rounds = itertools.count(1)

        def iterate(found: list[Relation]) -> list[Relation]:
            """The patterns after one more iteration, joined with those before; after many rounds, those that still grow are
            widened.
            """
            new = [self._joint(a, b) for a, b in zip(found, self._iteration(op, found, nothing)[0], strict=True)]
            if (iteration := next(rounds)) <= thresholds.PATTERN_ROUNDS:
                return new
            to_full = iteration > 2 * thresholds.PATTERN_ROUNDS
            return [b if a.equals(b) else self._widened(b, to_full) for a, b in zip(found, new, strict=True)]

        return fixed_point([*state], iterate, lambda old, new: all(a.equals(b) for a, b in zip(old, new, strict=True)))

    def _joint(self, a: Relation, b: Relation) -> Relation:
        """The union of two patterns of one value; a full pattern if the union would have too many entries."""
        try:
            return a.union(b)
        except PatternError:  # too many entries for an explicit pattern
            return self._widened(a, True)

    def _widened(self, relation: Relation, to_full: bool) -> Relation:
        """A larger pattern: a full one if `to_full`, else one in which each element depends on the columns of all elements."""
        if to_full:
            return Relation.full(relation.shape, self.columns)
        return relation.spread(range(len(relation.shape)))


def _patterns_by_rule(
    record: OpDef | None, xs: Sequence[Operand], outs: Sequence[Shape], params: dict[str, Any]
) -> Sequence[Relation]:
    """The patterns of the results (of shapes `outs`), by the rule of the operation; dense without one, or if it is too large."""
    if record is None or record.pattern is None:
        return dense(xs, outs)
    try:
        return record.pattern(xs, outs, **params)
    except PatternError:  # too many rows for an explicit pattern
        return dense(xs, outs)


def _as_in_tangent(op: ir.Operation, record: OpDef | None, xs: list[Operand], params: dict[str, Any]) -> list[Operand]:
    """The operands on which the tangent of the operation depends: an operand with derivative zero becomes a constant.

    `record` describes the operation `op`, whose operands have the patterns `xs`.

    Raises:
      DerivativeNeeded: the tangent may have another pattern than the operation, which is neither elementwise nor linear in the
        operands that depend on an argument.
    """
    if record is None or isinstance(record.jvp, UNSUPPORTED):
        raise DerivativeNeeded(op.name)
    if record.elementwise and record.partials is not None:
        if ZERO not in record.partials:
            return xs
        return [x.constant() if d is ZERO else x for x, d in zip(xs, record.partials, strict=True)]
    if record.linear == "all":
        return xs
    tensors = [wrap(v) for v in op.operands] if callable(record.linear) else []
    linear = record.linear_operands(tensors, params)
    if any(i not in linear and not x.relation.is_empty for i, x in enumerate(xs)):
        raise DerivativeNeeded(op.name)
    return xs


def dependence_of(
    function: ir.Operation,
    arguments: Sequence[int],
    module: ir.Operation | None = None,
    numbers: Mapping[ir.Value, np.ndarray] | None = None,
    is_derivative: bool = True,
    has_lines: bool = True,
) -> Dependence:
    """The patterns of the values of a function with respect to the elements of some arguments, in their order.

    Args:
      function: the operation that holds the block.
      arguments: the indices of the arguments.
      module: the module that holds the called functions.
      numbers: values with known numbers; the patterns hold for these numbers.
      is_derivative: True if the function is a derivative and the arguments are its tangents. If False, the patterns are
        those of the derivative of the function with respect to the arguments.
      has_lines: True if the operations have the lines of the user's code.

    Raises:
      LinesNeeded: the operations have no lines, and a pattern is dense or there is a loop.
      DerivativeNeeded: the derivative of an operation has another pattern than the operation.
    """
    block = function.regions[0].blocks[0]
    shapes = [shape_and_dtype(block.arguments[i].type)[0] for i in arguments]
    sizes = [math.prod(shape) for shape in shapes]
    found = Dependence(sum(sizes), {} if module is None else functions_of(module), is_derivative, has_lines)
    base = 0
    for i, shape, size in zip(arguments, shapes, sizes, strict=True):
        found._set(block.arguments[i], Relation.identity(shape, found.columns, base))
        base += size
    found._fixed.update(numbers or {})
    found._numbers.update(numbers or {})
    found.run(block)
    return found


def results_of(function: ir.Operation, found: Dependence) -> list[Relation]:
    """The patterns of the results of a function, from the analysis `found` of its values."""
    return [found.of(v) for v in last_of(function.regions[0].blocks[0]).operands]
