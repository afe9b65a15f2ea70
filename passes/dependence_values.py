"""Patterns and numbers of the values of a function, as far as an analysis has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.errors import SourceRange
from nabla_mlir.passes.normalize.known_numbers import fold_of
from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.table.traits import CONSTANT


@dataclass(frozen=True)
class Cause:
    """An operation whose result has an element that depends on all columns, although its operands have none."""

    operation: str
    where: SourceRange | None


class LinesNeeded(Exception):  # noqa: N818  # no error: it says what to look at
    """What made a value dense is to be named, or a loop takes longer than its lines: the IR must have lines."""


@dataclass
class Values:
    """The patterns of the values of a function.

    Attributes:
      columns: how many inputs are asked about.
      functions: those that are called, by name.
      relations: the patterns of the values that depend on anything.
      causes: what made values dense, in order.
      is_derivative: whether the function is a derivative, with its tangents asked about; else it is to be differentiated.
      has_lines: whether its operations know the user's lines.
    """

    columns: int
    functions: Mapping[str, ir.Operation] = field(default_factory=dict)
    is_derivative: bool = True
    has_lines: bool = True
    relations: dict[ir.Value, Relation] = field(default_factory=dict)
    causes: list[Cause] = field(default_factory=list)
    _numbers: dict[ir.Value, np.ndarray] = field(default_factory=dict)  # of loops: what is carried
    _fixed: set[ir.Value] = field(default_factory=set)  # values that have one number
    _folded: dict[ir.Value, np.ndarray] = field(default_factory=dict)
    _steps: int = 0
    _asked: bool = False  # whether a rule has read a number that a loop changes
    _changing: set[ir.Value] = field(default_factory=set)

    def visit(self, op: ir.Operation) -> None:
        """Gives the results of an operation their patterns."""
        raise NotImplementedError

    def inside(self, columns: int) -> Self:
        """An analysis of what stands in a region, with other columns: it knows the numbers that are known here."""
        inner = type(self)(columns, self.functions, self.is_derivative, self.has_lines)
        inner._fixed, inner._numbers, inner._folded = set(self._fixed), dict(self._numbers), dict(self._folded)
        return inner

    def bind(self, arguments: Sequence[ir.Value], numbers: Sequence[np.ndarray | None]) -> None:
        """Gives the arguments of a turn of a loop their numbers."""
        for argument, number in zip(arguments, numbers, strict=True):
            self._changing.add(argument)
            if number is None:
                self._fixed.discard(argument)
                self._numbers.pop(argument, None)
            else:
                self._fixed.add(argument)
                self._numbers[argument] = number

    def of(self, value: ir.Value) -> Relation:
        """The pattern of a value."""
        found = self.relations.get(value)
        return Relation.none(shape_and_dtype(value.type)[0], self.columns) if found is None else found

    def _set(self, value: ir.Value, relation: Relation) -> None:
        self._keep(value, relation, shape_and_dtype(value.type)[1])

    def _keep(self, value: ir.Value, relation: Relation, dtype: np.dtype) -> None:
        if relation.is_empty or not is_differentiable(dtype):
            self.relations.pop(value, None)
        else:
            self.relations[value] = relation

    def number(self, value: ir.Value) -> np.ndarray | None:
        """The numbers of a value that are known, or None."""
        if not self._is_known(value):
            return None
        self._asked = self._asked or value in self._changing
        return self._fold(value)

    def _is_known(self, value: ir.Value) -> bool:
        if value in self._fixed:
            return True
        if value in self.relations:
            return False
        maker = made_by(value)  # a constant that was not visited stands outside
        return maker is not None and maker.name == CONSTANT

    def _fold(self, value: ir.Value) -> np.ndarray:
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
    shape, dtype = shape_and_dtype(op.results[0].type)
    axis = op.attributes["iota_dimension"].value
    line = np.arange(shape[axis]).astype(dtype).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.broadcast_to(line, shape)
