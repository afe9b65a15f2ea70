"""Patterns and numbers of the values of a function, as far as an analysis has advanced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import SourceRange
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.passes.normalize.known_numbers import fold_of
from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.table.traits import CONSTANT


@dataclass(frozen=True)
class Cause:
    """An operation whose result has an element that depends on all columns, although its operands have none."""

    operation: str
    where: SourceRange | None


class LinesNeeded(Exception):  # noqa: N818  # not an error: it asks for other IR
    """The analysis needs IR with lines: to name the operation that made a value dense, or because a loop takes long anyway."""


@dataclass
class Values:
    """The patterns of the values of a function.

    Attributes:
      columns: the number of inputs.
      functions: the called functions, by name.
      relations: the patterns of the values that depend on an input.
      causes: the operations that made values dense, in order.
      is_derivative: True if the function is a derivative and the inputs are its tangents; False if it is to be
        differentiated.
      has_lines: True if its operations have the lines of the user's code.
    """

    columns: int
    functions: Mapping[str, ir.Operation] = field(default_factory=dict)
    is_derivative: bool = True
    has_lines: bool = True
    relations: dict[ir.Value, Relation] = field(default_factory=dict)
    causes: list[Cause] = field(default_factory=list)
    _numbers: dict[ir.Value, np.ndarray] = field(default_factory=dict)  # the numbers of carried values
    _fixed: set[ir.Value] = field(default_factory=set)  # values with a single number
    _folded: dict[ir.Value, np.ndarray] = field(default_factory=dict)  # numbers that `_fold` has computed
    _steps: int = 0  # visited operations
    _asked: bool = False  # True if a rule has read a number that a loop changes
    _changing: set[ir.Value] = field(default_factory=set)  # values whose numbers a loop changes

    def visit(self, op: ir.Operation) -> None:
        """Records the patterns of the results of an operation."""
        raise NotImplementedError

    def inside(self, columns: int) -> Self:
        """A new analysis of a region, whose patterns have `columns` columns; it starts with the numbers that are known here."""
        inner = type(self)(columns, self.functions, self.is_derivative, self.has_lines)
        inner._fixed, inner._numbers, inner._folded = set(self._fixed), dict(self._numbers), dict(self._folded)
        return inner

    def bind(self, arguments: Sequence[ir.Value], numbers: Sequence[np.ndarray | None]) -> None:
        """Sets the numbers of the arguments of an iteration; None for an argument whose number is not known."""
        for argument, number in zip(arguments, numbers, strict=True):
            self._changing.add(argument)
            if number is None:
                self._fixed.discard(argument)
                self._numbers.pop(argument, None)
            else:
                self._fixed.add(argument)
                self._numbers[argument] = number

    def of(self, value: ir.Value) -> Relation:
        """The pattern of a value: for each element the inputs on which it depends; none for a value without a recorded pattern."""
        found = self.relations.get(value)
        return Relation.none(shape_and_dtype(value.type)[0], self.columns) if found is None else found

    def _set(self, value: ir.Value, relation: Relation) -> None:
        """Records the pattern of a value."""
        self._keep(value, relation, shape_and_dtype(value.type)[1])

    def _keep(self, value: ir.Value, relation: Relation, dtype: np.dtype) -> None:
        """Records the pattern of a value of this dtype; values without a derivative, such as integers, have none."""
        if relation.is_empty or not is_differentiable(dtype):
            self.relations.pop(value, None)
        else:
            self.relations[value] = relation

    def number(self, value: ir.Value) -> np.ndarray | None:
        """The array of numbers of a value if they are known, or None."""
        if not self._is_known(value):
            return None
        self._asked = self._asked or value in self._changing
        return self._fold(value)

    def _is_known(self, value: ir.Value) -> bool:
        """True if the numbers of a value are known."""
        if value in self._fixed:
            return True
        if value in self.relations:
            return False
        maker = made_by(value)  # a constant outside the analysed region has not been visited
        return maker is not None and maker.name == CONSTANT

    def _fold(self, value: ir.Value) -> np.ndarray:
        """The array of numbers of a value, by folding the operations that compute it."""
        if value in self._numbers:
            return self._numbers[value]
        if value not in self._folded:
            op = value.owner.operation
            if op.name == CONSTANT:
                found = stablehlo.constant_array(op)
            elif op.name == "stablehlo.iota":
                found = _iota(op)
            else:
                fold = fold_of(op)
                assert fold is not None
                found = fold(op, *(self._fold(v) for v in op.operands))
            self._folded[value] = found
        return self._folded[value]


def _iota(op: ir.Operation) -> np.ndarray:
    """The array of numbers of an iota."""
    shape, dtype = shape_and_dtype(op.results[0].type)
    axis = op.attributes["iota_dimension"].value
    line = np.arange(shape[axis]).astype(dtype).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.broadcast_to(line, shape)
