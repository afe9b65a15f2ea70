"""Numbers of tensors in a trace whose arguments are at hand: what `if` and `while` ask of a derivative that is computed at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, new_function
from nabla_mlir.interpreter import interpreted
from nabla_mlir.table.regions import clone_body, reads_of

MAIN = "main"


class Known:
    """The values of one trace that are decided by those of its arguments.

    What was computed once is kept, so that a loop of Python's runs each operation once.
    """

    arrays: dict[ir.Value, Any]
    others: dict[ir.Value, ir.Value]

    def __init__(self) -> None:
        self.arrays = {}  # of arguments, and of results computed so far
        self.others = {}  # the arguments of a region, and the values that they stand for

    def set(self, arguments: Iterable[ir.Value], arrays: Iterable[Any]) -> None:
        """The arguments of the function."""
        self.arrays.update(zip(arguments, arrays, strict=True))

    def bind(self, arguments: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
        """The arguments of a region, which have the values of others."""
        self.others.update(zip(arguments, values, strict=True))

    def read(self, value: ir.Value) -> np.ndarray | None:
        """The numbers of a value; None if they depend on an argument that has none, such as that of a loop or a map."""
        steps = self._steps(value)
        if steps is None:
            return None
        if steps:
            self._run(steps)
        return np.asarray(self.arrays[self._root(value)])

    def _root(self, value: ir.Value) -> ir.Value:
        while value in self.others:
            value = self.others[value]
        return value

    def _steps(self, value: ir.Value) -> list[ir.Operation] | None:
        """The operations that are still to be run for it, in their order."""
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
            stack.append((value, op))
            stack.extend((operand, None) for operand in reads_of(op))
        return steps

    def _run(self, steps: Sequence[ir.Operation]) -> None:
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
