"""Constant folding of operations on numbers, which IREE's compiler would compile as a separate program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.stablehlo import constant_splat, emit, splat
from nabla_mlir.dialects.types import is_float, shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.normalize.known_numbers import fold_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import CONSTANT, is_cheap

_BITS, _COMPLEX = "stablehlo.bitcast_convert", "stablehlo.complex"
_DIVIDE, _SQRT = "stablehlo.divide", "stablehlo.sqrt"
_PARTS = {"stablehlo.real": np.real, "stablehlo.imag": np.imag}
_DECIDING = {"stablehlo.and": False, "stablehlo.or": True}  # the truth value that decides the result


@register
@dataclass(frozen=True)
class FoldNumbersPass(Pass):
    """Compute operations on constant numbers that are the same for all elements, if their results are rounded once.

    Selections by known truth values are made. Complex numbers are made of two real ones.

    IREE 3.13 moves such operations into another program, compiles it, and runs it. The formula of zeta(2, x), which the
    derivative of digamma uses, has 800 of them, and they took 30 s to compile. If there are some hundred, IREE may forget
    one and refuse the program. Also, a sum over a bfloat16 constant that is converted to f32 there takes one lane of each
    vector: the sum of 17 ones was 2.

    Example: tests/filecheck/passes/fold_numbers.mlir
    """

    name: ClassVar[str] = "nabla-fold-numbers"

    def run(self, module: ir.Operation) -> None:
        """Folds operations on constant numbers, in place."""
        numbers: dict[ir.Value, np.ndarray] = {}
        for op in nested_in_functions(module):
            if op.name == CONSTANT:
                if (number := _of_constant(op)) is not None:
                    numbers[op.results[0]] = number
                continue
            if (choice := _choice(op, numbers)) is not None:
                op.results[0].replace_all_uses_with(choice)
                op.erase()
                continue
            number = _folded(op, numbers) if is_cheap(op) or op.name in (_BITS, _DIVIDE, _SQRT) else None
            if number is not None and op.name == _COMPLEX:
                numbers[op.results[0]] = number
            elif number is not None:
                new = _made(op, number)
                op.results[0].replace_all_uses_with(new)
                numbers[new] = number
                op.erase()


def _of_constant(op: ir.Operation) -> np.ndarray | None:
    """The number with which a constant is filled; None if its elements differ, or are complex."""
    dtype = shape_and_dtype(op.results[0].type)[1]
    number = constant_splat(op) if _is_real(dtype) else None
    return None if number is None else np.asarray(number, dtype)


def _made(op: ir.Operation, number: np.ndarray) -> ir.Value:
    """A new constant filled with a number, in the shape of the result of `op`, inserted before `op`.

    A complex number is made of two constants, because IREE 3.13 confuses complex constants.
    """
    shape, dtype = shape_and_dtype(op.results[0].type)
    with ir.InsertionPoint(op), op.location:
        parts = [number.real, number.imag] if dtype.kind == "c" else [number]
        constants = [emit(CONSTANT, [], attributes={"value": splat(p.item(), shape, p.dtype)}).results[0] for p in parts]
        return constants[0] if len(parts) == 1 else emit(_COMPLEX, constants).results[0]


def _choice(op: ir.Operation, numbers: Mapping[ir.Value, np.ndarray]) -> ir.Value | None:
    """The operand that `op` returns, if it is a selection by a known truth value, or "and" or "or" with one; else None.

    `numbers` has the numbers of known values. IREE 3.13 folds these inside a chain, and then confuses results of the chain.
    """
    operands = list(op.operands)
    truths = {i: bool(numbers[x]) for i, x in enumerate(operands) if x in numbers and numbers[x].dtype.kind == "b"}
    choice = None
    if op.name == "stablehlo.select" and 0 in truths:
        choice = operands[1 if truths[0] else 2]
    elif op.name in _DECIDING and truths:
        position, truth = next(iter(truths.items()))
        choice = operands[position if truth is _DECIDING[op.name] else 1 - position]
    return choice if choice is not None and choice.type == op.results[0].type else None


def _folded(op: ir.Operation, numbers: Mapping[ir.Value, np.ndarray]) -> np.ndarray | None:
    """The number that all elements of the result have, from the `numbers` of known values; None if it is not known.

    NumPy must compute the number with a single rounding.
    """
    operands = list(op.operands)
    if not operands or any(x not in numbers for x in operands):
        return None
    (shape, dtype), *sources = (shape_and_dtype(x.type) for x in (op.results[0], *operands))
    if not (_is_real(dtype) or dtype.kind == "c") or any(size not in ((), shape) for size, _ in sources):
        return None
    found = _computed(op, dtype, [numbers[x] for x in operands])
    return None if found is None or found.dtype != dtype else found


def _is_real(dtype: np.dtype) -> bool:
    """True for booleans, integers that NumPy has, and floats."""
    return dtype.name in np.sctypeDict if dtype.kind in "biu" else is_float(dtype)


def _computed(op: ir.Operation, dtype: np.dtype, xs: Sequence[np.ndarray]) -> np.ndarray | None:
    """The result of `op` on the numbers `xs`, by NumPy; None if NumPy's result may differ from that of the operation."""
    fold, x = fold_of(op), xs[0]
    if op.name == _BITS:
        return x.view(dtype) if x.dtype.itemsize == dtype.itemsize else None
    if op.name == _COMPLEX:
        return np.stack(xs, -1).view(dtype)[..., 0]
    if op.name in _PARTS:
        return np.asarray(_PARTS[op.name](x))
    if fold is None or (op.name == _DIVIDE and dtype.kind in "biu") or (op.name == _SQRT and not is_float(dtype)):
        return None
    if REGISTRY[op.name].read(op).get("compare_type") == "TOTALORDER":
        return None
    if len(xs) == 1 and is_float(x.dtype) and dtype.kind in "iu" and not _is_in_range(x, dtype):
        return None
    with np.errstate(all="ignore"):
        return fold(op, *xs)


def _is_in_range(x: np.ndarray, dtype: np.dtype) -> bool:
    """True if an integer dtype can represent a float after truncation."""
    info = np.iinfo(dtype)
    return bool(info.min <= np.trunc(x) < info.max)
