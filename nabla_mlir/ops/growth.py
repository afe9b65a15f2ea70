"""Overflow of sums and products whose terms and factors do not overflow; the rules of roots and logarithms ask for it."""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.ops.logic import compare, select
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.table.traits import record_or_none

_VIEWS = frozenset(
    (
        "stablehlo.reshape",
        "stablehlo.broadcast_in_dim",
        "stablehlo.transpose",
        "stablehlo.convert",
        "stablehlo.abs",
        "stablehlo.negate",
    )
)
_SUMS = frozenset(("stablehlo.reduce", "stablehlo.dot_general"))
_DEEP = 4  # the largest depth of sums in sums that are examined
_MOST = 12  # the largest number of operations in which a largest element is searched


def unless_overflown(x: Tensor, value: Tensor, is_relative: bool = False) -> Tensor:
    """`value`, and NaN where x is a sum or a product that overflowed: ``sqrt(sum(x * x))``, ``log(sum(exp(x)))``.

    The factor 1 / x of a derivative would be 0 there, but the derivative is not 0. For a logarithm (`is_relative`) the overflow of
    one term does not matter, because its tangent is infinite, too.
    """
    if x.dtype.kind == "c" or not may_overflow(x.value, is_relative):
        return value
    return select(compare(x, full_like(x, np.inf), comparison_direction="EQ"), full_like(value, np.nan), value)


def may_overflow(value: ir.Value, is_relative: bool = False, depth: int = _DEEP) -> bool:
    """True for a value that may be infinite though its terms or factors are finite.

    These are sums of products or exponentials, products, powers, and views of them. The terms of a shifted exponential,
    ``exp(x - max(x))``, are at most 1, so their sum does not overflow.

    Args:
      value: the operand of a root or a logarithm.
      is_relative: True if the overflow of one term does not matter, because its tangent is infinite, too: in log(1 + exp(x)).
      depth: the largest number of nested sums and products with constants.
    """
    maker = _maker(value)
    if maker is None or depth == 0 or _is_nan_at_infinity(maker):
        return False
    name = maker.name
    if name in _SUMS:
        return not _is_shifted(maker.operands[0])
    if name == "stablehlo.divide" and _is_constant(maker.operands[1]):
        return _grows(maker.operands[0], is_relative, depth)
    if name in ("stablehlo.add", "stablehlo.multiply"):
        varying = [v for v in maker.operands if not _is_constant(v)]
        if name == "stablehlo.multiply" and len(varying) > 1:
            return True
        found = [_grows(v, is_relative, depth) for v in varying]
        return all(found) and len(found) == 2 if is_relative and name == "stablehlo.add" else any(found)
    record = record_or_none(maker)
    return record is not None and record.overflows


def _grows(value: ir.Value, is_relative: bool, depth: int) -> bool:
    """True for an exponential, or for a value that may overflow."""
    maker = _maker(value)
    if maker is None or _is_nan_at_infinity(maker):
        return False
    return maker.name == "stablehlo.exponential" or may_overflow(value, is_relative, depth - 1)


def _is_nan_at_infinity(op: ir.Operation) -> bool:
    """True for x + stop_gradient(x - x), which is NaN where x is infinite."""
    if op.name != "stablehlo.add":
        return False
    rest = made_by(op.operands[1])
    rest = made_by(rest.operands[0]) if rest is not None and rest.name == "ad.stop_gradient" else rest
    return rest is not None and rest.name == "stablehlo.subtract" and rest.operands[0] == rest.operands[1] == op.operands[0]


def _maker(value: ir.Value) -> ir.Operation | None:
    """The operation that computes a value, before views of it such as a reshape; None for an argument of a block."""
    maker = made_by(value)
    while maker is not None and maker.name in _VIEWS:
        maker = made_by(maker.operands[0])
    return maker


def _is_constant(value: ir.Value) -> bool:
    """True for a constant, or a view of one."""
    maker = _maker(value)
    return maker is not None and maker.name == "stablehlo.constant"


def _is_shifted(value: ir.Value) -> bool:
    """True for exp(x - y) if y contains a largest element."""
    exponential = _maker(value)
    if exponential is None or exponential.name != "stablehlo.exponential":
        return False
    difference = _maker(exponential.operands[0])
    if difference is None or difference.name != "stablehlo.subtract":
        return False
    work, left = [difference.operands[1]], _MOST
    while work and left:
        left -= 1
        op = made_by(work.pop())
        if op is not None and op.name == "stablehlo.reduce":
            return op.regions[0].blocks[0].operations[0].operation.name == "stablehlo.maximum"
        work += [] if op is None else list(op.operands)
    return False


def square_of(x: np.ndarray) -> np.ndarray:
    """x * x in NumPy.

    The real part of a complex square, (a - b) (a + b), is 0 where a equals b, even if both are infinite.
    """
    if np.asarray(x).dtype.kind != "c":
        return np.square(x)
    out = np.empty_like(x)
    gap = x.real - x.imag
    out.real, out.imag = np.where(gap == 0, 0, gap * (x.real + x.imag)), 2 * x.real * x.imag
    return out
