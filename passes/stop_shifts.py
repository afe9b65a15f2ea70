"""Shifts that cancel: log(sum(exp(x - m))) + m has no derivative by m, nor has exp(x - m) / sum(exp(x - m))."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.ad import STOP_GRADIENT
from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.dialects.stablehlo import I64Array, constant_splat, emit
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.passes.base import Pass, register

_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")


@dataclass(frozen=True)
class _Change:
    """What becomes of a value when each m_i becomes m_i + d_i: + n d, or times exp(n d).

    `axes` names, for each axis of the value, the axis of m that it runs along with, or -1.
    """

    factor: bool
    times: int
    axes: tuple[int, ...]


@register
@dataclass(frozen=True)
class StopShiftsPass(Pass):
    """Put `ad.stop_gradient` on a value that is subtracted before an exponential and cancels afterwards.

    So are written softmax, logsumexp and what is made of them. Their authors stop the gradient of the maximum; the
    exported module has lost that, and terms that cancel only up to rounding would be left in its derivatives. Whether
    all that the value enters cancels is computed from its uses; where that cannot be shown, nothing is changed.
    Example: tests/filecheck/passes/stop_shifts.mlir
    """

    name: ClassVar[str] = "nabla-stop-shifts"

    def run(self, module: ir.Operation) -> None:
        positions: dict[ir.Block, dict[ir.Value, int]] = {}
        for op in [op for op in nested(module) if op.name == "stablehlo.exponential"]:
            shift = _shift(op)
            if shift is None:
                continue
            place = positions.setdefault(op.operation.block, _positions(op.operation.block))
            if _cancels(shift, place):
                _stop(shift)


def _positions(block: ir.Block) -> dict[ir.Value, int]:
    """The place of the operation that makes each value (operations are compared by structure, so they are no keys)."""
    return {result: i for i, op in enumerate(block.operations) for result in op.operation.results}


def _shift(exponential: ir.Operation) -> ir.Value | None:
    """M of exp(x - m), before it was repeated; None if there is none, or it has no derivative."""
    difference = made_by(exponential.operands[0])
    if difference is None or difference.name != "stablehlo.subtract":
        return None
    value = difference.operands[1]
    while (maker := made_by(value)) is not None and maker.name in _MOVES:
        value = maker.operands[0]
    if maker is None or maker.name in (STOP_GRADIENT, "stablehlo.constant"):
        return None
    local = maker.operation.block == exponential.operation.block and len(maker.results) == 1
    return value if local and is_differentiable(shape_and_dtype(value.type)[1]) else None


def _cancels(shift: ir.Value, place: dict[ir.Value, int]) -> bool:
    """Whether nothing that leaves the block, or enters an operation without a rule here, changes with the shift."""
    axes = tuple(i if n > 1 else -1 for i, n in enumerate(shift.type.shape))
    changes = {shift: _Change(False, 1, axes)}
    pending: list[tuple[int, ir.Value]] = []

    def enter(value: ir.Value) -> bool:
        """Puts the users of a value in line; False if one of them is no operation of one result in this block."""
        for use in value.uses:
            results = use.owner.results
            if len(results) != 1 or results[0] not in place:
                return False
            if results[0] not in changes and all(results[0] != other for _, other in pending):
                heapq.heappush(pending, (place[results[0]], results[0]))
        return True

    if not enter(shift):
        return False
    while pending:
        _, value = heapq.heappop(pending)
        op = value.owner.operation
        change = _change(op, [changes.get(v) for v in op.operands])
        if change is None:
            return False
        if change.times:
            changes[value] = change
            if not enter(value):
                return False
    return True


def _change(op: ir.Operation, given: Sequence[_Change | None]) -> _Change | None:
    """How the result changes with the operands; None where that is no shift and no factor. In the block's order."""
    rule = _RULES.get(op.name)
    return None if rule is None else rule(op, given)


def _moved(op: ir.Operation, given: Sequence[_Change | None]) -> _Change | None:
    (change,) = given
    assert change is not None
    shape, result = op.operands[0].type.shape, op.results[0].type.shape
    if op.name == "stablehlo.reshape":
        kept = [d for d, n in enumerate(result) if n > 1]
        if [n for n in shape if n > 1] != [result[d] for d in kept]:
            return None
        places = iter(kept)
        dims = [next(places) if n > 1 else -1 for n in shape]
    else:
        dims = list(I64Array.decode(op.attributes["broadcast_dimensions"]))
    axes = [-1] * len(result)
    for d, axis in zip(dims, change.axes, strict=True):
        if axis >= 0:
            axes[d] = axis
    return replace(change, axes=tuple(axes))


def _summed(op: ir.Operation, given: Sequence[_Change | None]) -> _Change | None:
    """A sum of two: shifts add up; a factor must be the same in both."""
    left, right = given
    sign = -1 if op.name == "stablehlo.subtract" else 1
    if left is not None and right is not None:
        if (left.factor, left.axes) != (right.factor, right.axes):
            return None
        if left.factor:
            return left if left.times == right.times else None
        return replace(left, times=left.times + sign * right.times)
    change = left or right
    assert change is not None
    if change.factor:
        return None
    return change if change is left else replace(change, times=sign * change.times)


def _multiplied(op: ir.Operation, given: Sequence[_Change | None]) -> _Change | None:
    """A product or a quotient of two: the exponents of factors add up."""
    left, right = given
    sign = -1 if op.name == "stablehlo.divide" else 1
    if any(c is not None and not c.factor for c in given):
        return None
    if left is not None and right is not None:
        return replace(left, times=left.times + sign * right.times) if left.axes == right.axes else None
    change = left or right
    assert change is not None
    return change if change is left else replace(change, times=sign * change.times)


def _reduced(op: ir.Operation, given: Sequence[_Change | None]) -> _Change | None:
    """A sum along axes on which a factor does not vary."""
    params, change = reduce.read(op), given[0]
    start = made_by(op.operands[1]) if len(given) == 2 else None
    zero = start is not None and start.name == "stablehlo.constant" and constant_splat(start) == 0
    if params["body"] != "add" or not zero or change is None or not change.factor:
        return None
    if any(change.axes[d] >= 0 for d in params["dimensions"]):
        return None
    return replace(change, axes=tuple(a for d, a in enumerate(change.axes) if d not in params["dimensions"]))


def _sign(op: ir.Operation, given: Sequence[_Change | None]) -> _Change | None:
    """Factors are positive."""
    (change,) = given
    return replace(change, times=0) if change is not None and change.factor else None


def _kind(before: bool, after: bool) -> Callable[[ir.Operation, Sequence[_Change | None]], _Change | None]:
    """A function of one operand that makes of shifts factors, or the other way round, or keeps either."""

    def rule(op: ir.Operation, given: Sequence[_Change | None]) -> _Change | None:
        (change,) = given
        return replace(change, factor=after) if change is not None and change.factor == before else None

    return rule


_RULES: dict[str, Callable[[ir.Operation, Sequence[_Change | None]], _Change | None]] = {
    **dict.fromkeys(_MOVES, _moved),
    **dict.fromkeys(("stablehlo.add", "stablehlo.subtract"), _summed),
    **dict.fromkeys(("stablehlo.multiply", "stablehlo.divide"), _multiplied),
    "stablehlo.reduce": _reduced,
    "stablehlo.exponential": _kind(before=False, after=True),
    "stablehlo.log": _kind(before=True, after=False),
    "stablehlo.abs": _kind(before=True, after=True),
    "stablehlo.sign": _sign,
}


def _stop(shift: ir.Value) -> None:
    uses = [(use.owner, use.operand_number) for use in shift.uses]
    with ir.InsertionPoint.after(shift.owner), shift.owner.location:
        stopped = emit(STOP_GRADIENT, [shift], results=[shift.type]).results[0]
    for user, i in uses:
        user.operands[i] = stopped
