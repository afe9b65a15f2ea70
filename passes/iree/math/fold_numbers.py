"""Formulas of numbers: they are computed here, not by IREE's compiler, which makes a program for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.stablehlo import constant_splat, emit, splat
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.normalize.known_numbers import fold_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import CONSTANT, is_cheap

_BITS, _DIVIDE = "stablehlo.bitcast_convert", "stablehlo.divide"
_DECIDING = {"stablehlo.and": False, "stablehlo.or": True}  # the truth value that decides the result


@register
@dataclass(frozen=True)
class FoldNumbersPass(Pass):
    """Compute what is made of numbers alone, the same for all elements, by operations whose results are rounded once.

    Choices by known truth values are made.

    IREE 3.13 lifts such operations out of a program, compiles them as another one and runs that. In the formula of
    zeta(2, x), of which the derivative of digamma is made, these are 800: they took 30 s to compile.
    Example: tests/filecheck/passes/fold_numbers.mlir
    """

    name: ClassVar[str] = "nabla-fold-numbers"

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        constants: dict[ir.Value, ir.Operation] = {}
        for op in nested_in_functions(module):
            if op.name == CONSTANT:
                constants[op.results[0]] = op
                continue
            if (choice := _choice(op, constants)) is not None:
                op.results[0].replace_all_uses_with(choice)
                op.erase()
                continue
            new = _folded(op, constants) if is_cheap(op) or op.name in (_BITS, _DIVIDE) else None
            if new is not None:
                op.results[0].replace_all_uses_with(new.results[0])
                constants[new.results[0]] = new
                op.erase()


def _choice(op: ir.Operation, constants: Mapping[ir.Value, ir.Operation]) -> ir.Value | None:
    """The operand that a choice by a known truth value is, or a conjunction or disjunction with one; None if it is none.

    IREE 3.13 finds them inside of a chain, and then takes one result of the chain for another.
    """
    operands = list(op.operands)
    truths = {i: truth for i, x in enumerate(operands) if (truth := _truth(x, constants)) is not None}
    choice = None
    if op.name == "stablehlo.select" and 0 in truths:
        choice = operands[1 if truths[0] else 2]
    elif op.name in _DECIDING and truths:
        place, truth = next(iter(truths.items()))
        choice = operands[place if truth is _DECIDING[op.name] else 1 - place]
    return choice if choice is not None and choice.type == op.results[0].type else None


def _truth(x: ir.Value, constants: Mapping[ir.Value, ir.Operation]) -> bool | None:
    """The truth value of all elements, if it is known."""
    if x not in constants or shape_and_dtype(x.type)[1] != np.dtype(bool):
        return None
    number = constant_splat(constants[x])
    return None if number is None else bool(number)


def _folded(op: ir.Operation, constants: Mapping[ir.Value, ir.Operation]) -> ir.Operation | None:
    """The constant in place of an operation on constants; None for what NumPy does not compute exactly as it says."""
    operands = list(op.operands)
    if not operands or any(x not in constants for x in operands):
        return None
    (shape, dtype), *sources = (shape_and_dtype(x.type) for x in (op.results[0], *operands))
    if not _is_plain(dtype) or any(size not in ((), shape) or not _is_plain(d) for size, d in sources):
        return None
    numbers = [constant_splat(constants[x]) for x in operands]
    if any(number is None for number in numbers):
        return None
    found = _computed(op, dtype, [np.asarray(number, d) for number, (_, d) in zip(numbers, sources, strict=True)])
    if found is None or found.dtype != dtype or np.isnan(found):
        return None
    with ir.InsertionPoint(op), op.location:
        return emit(CONSTANT, [], attributes={"value": splat(found.item(), shape, dtype)})


def _is_plain(dtype: np.dtype) -> bool:
    return dtype.kind in "biuf" and dtype.name in np.sctypeDict


def _computed(op: ir.Operation, dtype: np.dtype, xs: Sequence[np.ndarray]) -> np.ndarray | None:
    fold, x = fold_of(op), xs[0]
    if op.name == _BITS:
        return x.view(dtype) if x.dtype.itemsize == dtype.itemsize else None
    if fold is None or (op.name == _DIVIDE and dtype.kind != "f"):
        return None
    if REGISTRY[op.name].read(op).get("compare_type") == "TOTALORDER":
        return None
    if len(xs) == 1 and x.dtype.kind == "f" and dtype.kind in "iu" and not _is_in_range(x, dtype):
        return None
    with np.errstate(all="ignore"):
        return fold(op, *xs)


def _is_in_range(x: np.ndarray, dtype: np.dtype) -> bool:
    info = np.iinfo(dtype)
    return bool(info.min <= np.trunc(x) < info.max)
