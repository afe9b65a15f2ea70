"""Values of tensors in a trace whose arguments are known, for `if` and `while` in a derivative that is computed at once.

Python may read such a value. But if a derivative follows the value, results that Python computes from it would lose
their derivative, so the value cannot be read. A derivative follows a value if the value depends on its variables. Each open
derivative has a level, counted from the outermost. The levels of a value are those of the derivatives that follow it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, new_function
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.interpreter import interpreted
from nabla_mlir.table.regions import clone_body, reads_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.rules import Zero

MAIN = "main"

Role = Literal["plain", "function", "rule"]  # the role of a region: any region, a function with a custom rule, or such a rule


@dataclass(frozen=True)
class _Arguments:
    """The arguments of one region: the values that they have, and the derivatives that follow them.

    Attributes:
      values: the values outside the region that the arguments have.
      level: the level of the region's derivative, if the region is differentiated.
      role: the role of the region in a call with a custom rule. The innermost derivative that follows the call applies the
        rule. So only the derivatives around it follow the rule, and none follows the function.
    """

    values: tuple[ir.Value, ...]
    level: int | None
    role: Role


class Known:
    """The values of one trace that the values of its arguments determine.

    Computed values are stored, so that a Python loop runs each operation once.

    Attributes:
      arrays: the arrays of arguments, and of the results computed so far.
      others: for each argument of a region, the value outside that it has.
      applies_rules: True if derivatives apply custom rules. Taylor mode, which follows the functions themselves, does not.
    """

    applies_rules: bool
    arrays: dict[ir.Value, Any]
    others: dict[ir.Value, ir.Value]

    def __init__(self) -> None:
        """Starts without known arrays."""
        self.arrays, self.others = {}, {}
        self.applies_rules = True
        self._regions: dict[ir.Value, _Arguments] = {}  # by argument
        self._unfollowed: set[ir.Value] = set()  # values known to have no level

    def assign(self, arguments: Iterable[ir.Value], arrays: Iterable[Any]) -> None:
        """Sets the values of the arguments of the function."""
        self.arrays.update(zip(arguments, arrays, strict=True))

    @contextlib.contextmanager
    def without_rules(self) -> Iterator[None]:
        """A context in which no custom rules are applied."""
        before, self.applies_rules = self.applies_rules, False
        try:
            yield
        finally:
            self.applies_rules = before

    def bind(
        self, arguments: Sequence[ir.Value], values: Sequence[ir.Value], level: int | None = None, role: Role = "plain"
    ) -> None:
        """States that the arguments of a region have the values of other tensors.

        Args:
          arguments: the arguments.
          values: the tensors outside.
          level, role: see `_Arguments`.
        """
        self.others.update(zip(arguments, values, strict=True))
        self._regions.update(dict.fromkeys(arguments, _Arguments(tuple(values), level, role if self.applies_rules else "plain")))

    def is_followed(self, value: ir.Value) -> bool:
        """True if an open derivative of this trace depends on the derivative of the value."""
        return bool(self._levels(value))

    def _levels(self, value: ir.Value) -> set[int]:
        """The numbers of the open derivatives that follow a value, counted from the outermost one."""
        levels: set[int] = set()
        seen: set[ir.Value] = set()
        stack = [value]
        while stack:
            value = stack.pop()
            if value in seen or value in self._unfollowed or not is_differentiable(shape_and_dtype(value.type)[1]):
                continue
            seen.add(value)
            op = made_by(value)
            if op is not None:
                record = REGISTRY.get(op.name)
                stack.extend([] if record is not None and isinstance(record.jvp, Zero) else reads_of(op))
            elif value in self._regions:
                levels |= self._levels_of_argument(value)
        if not levels:
            self._unfollowed |= seen
        return levels

    def _levels_of_argument(self, argument: ir.Value) -> set[int]:
        """The numbers of the open derivatives that follow an argument of a region, counted from the outermost one."""
        region = self._regions[argument]
        if region.role == "function":
            return set()
        levels = self._levels(self.others[argument])
        if region.role == "rule":  # the innermost derivative applies the rule, so it does not follow the rule
            levels.discard(max((level for value in region.values for level in self._levels(value)), default=0))
        return levels if region.level is None else levels | {region.level}

    def read(self, value: ir.Value) -> np.ndarray | None:
        """The numbers of a value; None if it depends on an unknown argument, such as the argument of a loop or a map."""
        steps = self._steps(value)
        if steps is None:
            return None
        if steps:
            self._run(steps)
        return np.asarray(self.arrays[self._root(value)])

    def _root(self, value: ir.Value) -> ir.Value:
        """The value outside all regions that is passed to an argument of a region; another value is returned unchanged."""
        while value in self.others:
            value = self.others[value]
        return value

    def _steps(self, value: ir.Value) -> list[ir.Operation] | None:
        """The operations that must still run to compute a value, in order; None if it depends on an unknown argument."""
        steps: list[ir.Operation] = []
        seen: set[ir.Value] = set()
        stack: list[tuple[ir.Value, ir.Operation | None]] = [(value, None)]
        while stack:
            value, op = stack.pop()
            if op is not None:
                steps.append(op)
                continue
            value = self._root(value)
            if value in self.arrays or value in seen:
                continue
            op = made_by(value)
            if op is None:
                return None
            seen.update(op.results)
            # The operation is added after those of its operands, which are on top of the stack.
            stack.append((value, op))
            stack.extend((operand, None) for operand in reads_of(op))
        return steps

    def _run(self, steps: Sequence[ir.Operation]) -> None:
        """Interprets the operations `steps`, in order, and stores the arrays of their results in `arrays`."""
        inputs = {self._root(v): None for op in steps for v in reads_of(op) if self._root(v) in self.arrays}
        results = [v for op in steps for v in op.results]
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            block = new_function(MAIN, [v.type for v in inputs], [v.type for v in results])
        mapping = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for op in steps:
                mapping.update((v, mapping[self._root(v)]) for v in reads_of(op) if v in self.others)
                clone_body([op], mapping)
            ir.Operation.create("func.return", operands=[mapping[v] for v in results])
        found = interpreted(module.operation, MAIN)([np.asarray(self.arrays[v]) for v in inputs])
        self.arrays.update(zip(results, found, strict=True))
