"""Values with known numbers: the arithmetic with which modules compute their shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import last_of, made_by
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.dialects.types import dtype_of
from nabla_mlir.ops.logic import COMPARISONS
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import is_elementwise


def known(value: ir.Value) -> np.ndarray | None:
    """The array of numbers of a value, by folding the operations that compute it; None if it depends on an argument."""
    with np.errstate(all="ignore"):
        return _known(value, {})


Found = dict[ir.Value, np.ndarray | None]  # each value is folded once, however many operations read it


def _known(value: ir.Value, found: Found) -> np.ndarray | None:
    """The array of numbers of a value, from `found` (with the values folded before) or by folding; None if it is not known."""
    if value not in found:
        found[value] = _folded(value, found)
    return found[value]


def _folded(value: ir.Value, found: Found) -> np.ndarray | None:
    """The array of numbers of a value that depends on constants only, by folding; None for others. `found` has known ones."""
    source = passed_on(value)
    if source is not None:
        return _known(source, found)
    owner = made_by(value)
    if owner is None:
        return None
    if owner.name == "stablehlo.constant":
        return stablehlo.constant_array(owner)
    fold = fold_of(owner)
    if fold is None:
        return None
    xs = []
    for operand in owner.operands:
        x = _known(operand, found)
        if x is None:
            return None
        xs.append(x)
    return fold(owner, *xs)


def passed_on(value: ir.Value) -> ir.Value | None:
    """The value that an optimisation barrier or a loop passes on unchanged as `value`; None for other values."""
    owner = made_by(value)
    if owner is None:
        loop, index = value.owner.owner.operation, ir.BlockArgument(value).arg_number
        return _carried(loop, index) if loop.name == "stablehlo.while" else None
    index = ir.OpResult(value).result_number
    if owner.name == stablehlo.OPTIMIZATION_BARRIER:
        return owner.operands[index]
    return _carried(owner, index) if owner.name == "stablehlo.while" else None


def _carried(loop: ir.Operation, index: int) -> ir.Value | None:
    """The initial value of the carry `index`, if no iteration changes it; else None."""
    body = loop.regions[1].blocks[0]
    return loop.operands[index] if last_of(body).operands[index] == body.arguments[index] else None


def arguments_of(value: ir.Value) -> set[int]:
    """The indices of the function arguments whose elements, and not only whose shapes, determine the number of a value."""
    seen: set[ir.Value] = set()
    indices: set[int] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        source, owner = passed_on(value), made_by(value)
        if source is not None:
            stack.append(source)
        elif owner is not None and fold_of(owner) is not None:
            stack.extend(owner.operands)
        elif owner is None and value.owner.owner.operation.name == "func.func":
            indices.add(ir.BlockArgument(value).arg_number)
    return indices


def fold_of(op: ir.Operation) -> Callable[..., np.ndarray] | None:
    """The function that computes the numbers of the result of an operation from those of its operands; None if there is none.

    It gets the operation, and an array for each operand.
    """
    return _FOLDS.get(op.name, _elementwise if _has_numpy(op) else None)


def _has_numpy(op: ir.Operation) -> bool:
    """True for an elementwise operation whose record has a function of NumPy."""
    return is_elementwise(op) and callable(REGISTRY[op.name].numpy)


def _elementwise(op: ir.Operation, *xs: np.ndarray) -> np.ndarray:
    """The result of an elementwise operation, by the NumPy function of its record."""
    rank = len(op.results[0].type.shape)
    if "broadcast_dimensions" in op.attributes:  # where the axes of the operand with fewer axes go
        positions = I64Array.decode(op.attributes["broadcast_dimensions"])
        xs = tuple(x if x.ndim in (0, rank) else _broadcast_to_result(op, x, positions) for x in xs)
    return REGISTRY[op.name].numpy(*xs)  # type: ignore[misc]  # `_has_numpy` has checked it


def _broadcast_to_result(op: ir.Operation, x: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """The array with axis k at axis `positions[k]` of the result of `op`, broadcast to the shape of this result."""
    shape = tuple(op.results[0].type.shape)
    order = np.argsort(positions)
    sizes = [x.shape[list(positions).index(d)] if d in positions else 1 for d in range(len(shape))]
    return np.broadcast_to(x.transpose(order).reshape(sizes), shape)


def _compare(op: ir.Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The result of a comparison of two arrays, by its direction."""
    function = COMPARISONS[REGISTRY[op.name].read(op)["comparison_direction"]]
    return np.asarray(function(x, y))


def _cast(op: ir.Operation, x: Any) -> np.ndarray:
    """The array x in the dtype of the result of `op`."""
    return np.asarray(x).astype(dtype_of(op.results[0].type.element_type))


def _quotient(op: ir.Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quotient of floating-point numbers, or of integers, rounded toward zero."""
    if x.dtype.kind in "fc":
        return x / y
    exact = x - np.fmod(x, y)  # a multiple of y, so that the quotient needs no rounding
    return _cast(op, exact // y)


def _shift_right(kind: str) -> Callable[..., np.ndarray]:
    """The right shift of integers, read as signed (kind "i": the sign is shifted in) or unsigned (kind "u") numbers."""

    def shift(op: ir.Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        bits = np.dtype(f"{kind}{x.dtype.itemsize}")
        return np.right_shift(x.view(bits), y.astype(bits)).view(x.dtype)

    return shift


def _dynamic_slice(op: ir.Operation, x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    """The slice of x at the given start indices, clamped so that it lies in x."""
    sizes = I64Array.decode(op.attributes["slice_sizes"])
    first = [int(np.clip(int(s), 0, n - size)) for s, n, size in zip(starts, x.shape, sizes, strict=True)]
    return x[tuple(slice(s, s + size) for s, size in zip(first, sizes, strict=True))]


_FOLDS: dict[str, Callable[..., np.ndarray]] = {
    "stablehlo.convert": _cast,
    "stablehlo.reshape": lambda op, x: x.reshape(tuple(op.results[0].type.shape)),
    "stablehlo.concatenate": lambda op, *xs: np.concatenate(xs, op.attributes["dimension"].value),
    "stablehlo.broadcast_in_dim": lambda op, x: _broadcast_to_result(op, x, I64Array.decode(op.attributes["broadcast_dimensions"])),
    "stablehlo.slice": lambda op, x: x[
        tuple(
            slice(*bounds)
            for bounds in zip(
                *(I64Array.decode(op.attributes[k]) for k in ("start_indices", "limit_indices", "strides")), strict=True
            )
        )
    ],
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.divide": _quotient,
    "stablehlo.select": lambda op, *xs: _cast(op, np.where(*xs)),
    "stablehlo.compare": _compare,
    "stablehlo.clamp": lambda op, low, x, high: np.asarray(np.minimum(np.maximum(x, low), high)),
    "stablehlo.shift_right_arithmetic": _shift_right("i"),
    "stablehlo.shift_right_logical": _shift_right("u"),
}
