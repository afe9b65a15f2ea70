"""Where a cotangent is zero because a selection did not take the value.

``where(x > 0, log(x), 0)`` has a derivative at x = 0, though that of log(x) is not finite there. The cotangent of what
was not taken is zero by structure, and must stay so when it is multiplied by a partial that is infinite or NaN. The
mask is the predicate of the selection, not a test of the cotangent's value: a cotangent that merely happens to be
zero may have a tangent.
"""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.ops.elementwise import logical_not, logical_or
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.registry import record_of
from nabla_mlir.ops.tensor import Tensor, full, splat_of, wrap

_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.reverse", "stablehlo.slice",
          "stablehlo.transpose")  # fmt: skip
_SAME = ("stablehlo.negate", "stablehlo.convert")
Known = dict[ir.Value, Tensor | None]


def taken(ct: Tensor) -> Tensor | None:
    """A truth value per element of a cotangent, False where a selection made it zero; None where no one did."""
    return _mask(ct.value, {})


def _mask(value: ir.Value, known: Known) -> Tensor | None:
    if value not in known:
        known[value] = _mask_of(value, known)
    return known[value]


def _mask_of(value: ir.Value, known: Known) -> Tensor | None:
    op = made_by(value)
    if op is None:
        return None
    if op.name == "stablehlo.select":
        return _of_selection(op)
    if op.name in _SAME:
        return _mask(op.operands[0], known)
    if op.name in _MOVES:
        mask = _mask(op.operands[0], known)
        record = record_of(op, "vjp")
        return None if mask is None else record.apply([mask], record.read(op))[0]
    if op.name == "stablehlo.reduce":
        return _of_sum(op, known)
    if op.name == "stablehlo.add":  # what several uses contribute: zero where each of them is
        left = _mask(op.operands[0], known)
        right = None if left is None else _mask(op.operands[1], known)
        if left is None or right is None:
            return None
        return left if left.value == right.value else logical_or(left, right)
    return None


def _of_sum(op: ir.Operation, known: Known) -> Tensor | None:
    """A sum is zero where all that is summed is."""
    params = reduce.read(op)
    if params["body"] != "add" or len(op.operands) != 2 or not _is_zero(wrap(op.operands[1])):
        return None
    mask = _mask(op.operands[0], known)
    never = full((), False, np.dtype(bool))
    return None if mask is None else reduce(mask, never, dimensions=params["dimensions"], body="or")


def _of_selection(op: ir.Operation) -> Tensor | None:
    predicate, chosen, other = (wrap(v) for v in op.operands)
    if predicate.shape != chosen.shape:
        return None
    if _is_zero(other):
        return predicate
    if _is_zero(chosen):
        return logical_not(predicate)
    return None


def _is_zero(x: Tensor) -> bool:
    splat = splat_of(x)
    return splat is not None and splat == 0
