"""Truth values and bits, and selection by truth values: comparison, select, clamp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects.stablehlo import enum
from nabla_mlir.sparsity import operands as patterns
from nabla_mlir.table.batching import all_prefixed, prefixed
from nabla_mlir.table.kinds import elementwise, general, structural
from nabla_mlir.table.registry import OpDef, add_any, operation
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case, booleans, integers, reals
from nabla_mlir.table.tensor import Tensor, full_like


def where_zero(condition: Tensor, t: Tensor) -> Tensor:
    """t where the condition holds, else 0."""
    return select(condition, t, full_like(t, 0))


# ---------------------------------------------------------------- truth values and bits: the derivative is zero
def _zero_derivative(name: str, doc: str, numpy: Any, sample: Any, **facts: Any) -> Any:
    """Registers an elementwise operation whose derivative is zero."""
    return elementwise(name, doc=doc, partials=ZERO, numpy=numpy, sample=sample, **facts)


is_finite: OpDef = _zero_derivative("stablehlo.is_finite", "True unless x is infinite or NaN.", np.isfinite, (reals(),))
logical_not: OpDef = _zero_derivative("stablehlo.not", "Bitwise or logical complement.", np.invert, (integers(),))
_BITS = (integers(), integers())
logical_and: OpDef = _zero_derivative("stablehlo.and", "Bitwise or logical and.", np.bitwise_and, _BITS, commutes=True)
logical_or: OpDef = _zero_derivative("stablehlo.or", "Bitwise or logical or.", np.bitwise_or, _BITS, commutes=True)
logical_xor: OpDef = _zero_derivative("stablehlo.xor", "Bitwise or logical exclusive or.", np.bitwise_xor, _BITS, commutes=True)
shift_left: OpDef = _zero_derivative("stablehlo.shift_left", "x * 2**n.", np.left_shift, (integers(), integers(0, 5)))
shift_right_arithmetic: OpDef = _zero_derivative(
    "stablehlo.shift_right_arithmetic", "x / 2**n, with the sign of x.", np.right_shift, (integers(), integers(0, 5))
)


def _shift_logically(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(x.view(unsigned), n.astype(unsigned)).view(x.dtype)


shift_right_logical: OpDef = _zero_derivative(
    "stablehlo.shift_right_logical", "x / 2**n, zeros shifted in.", _shift_logically, (integers(), integers(0, 5))
)


def _count_ones(x: np.ndarray) -> np.ndarray:
    """The number of one bits; the bits are read as unsigned, because NumPy counts those of the absolute value."""
    return np.bitwise_count(np.asarray(x).view(np.dtype(f"u{x.dtype.itemsize}"))).astype(x.dtype)


popcnt: OpDef = _zero_derivative("stablehlo.popcnt", "The number of one bits.", _count_ones, (integers(),))
count_leading_zeros: OpDef = _zero_derivative(
    "stablehlo.count_leading_zeros", "The number of leading zero bits.", lambda x: _leading_zeros(np.asarray(x)), (integers(),)
)


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    """The number of leading zero bits of each integer."""
    bits = 8 * x.dtype.itemsize
    return np.vectorize(lambda n: bits - (int(n) % (1 << bits)).bit_length(), otypes=[x.dtype])(x)


COMPARISONS: dict[str, np.ufunc] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

compare: OpDef = elementwise(
    "stablehlo.compare",
    doc="x < y, x == y, ... as bool.",
    partials=ZERO,
    attributes={"comparison_direction": enum("comparison_direction"), "compare_type": enum("comparison_type")},
    defaults={"compare_type": None},
    sample=[
        Case(((3, 2), (3, 2)), {"comparison_direction": d, "compare_type": None}, (integers(), integers()), numpy=f)
        for d, f in COMPARISONS.items()
    ],
)

# ---------------------------------------------------------------- selection


def _select_transpose(cts: Tensors, i: int, xs: Tensors) -> MaybeZero:
    """The cotangent of branch `i` of a selection: the cotangent of the result where the branch is selected, else 0.

    `xs` are the operands and `cts` the cotangents of the results.
    """
    pred, ct = xs[0], cts[0]
    if i == 1:
        return select(pred, ct, full_like(ct, 0))
    return select(pred, full_like(ct, 0), ct)


def _select_batch(xs: Tensors, mapped: Sequence[bool], size: int) -> list[Tensor]:
    """The selection for all `size` entries of a map; `mapped` is True for each operand that has the mapped axis first.

    A predicate with one truth value for each entry is broadcast to its elements.
    """
    pred, *branches = xs
    branches = all_prefixed(branches, mapped[1:], size)
    if pred.ndim == 0:
        return [select(pred, *branches)]
    if not mapped[0]:
        pred = prefixed(pred, size)
    if pred.ndim < branches[0].ndim:
        pred = operation("broadcast_in_dim")(pred, shape=branches[0].shape, broadcast_dimensions=(0,))
    return [select(pred, *branches)]


select: OpDef = structural(
    "stablehlo.select",
    pattern=patterns.choice,
    doc="x where pred is True, else y; a scalar pred selects all of x or all of y.",
    linear=(1, 2),
    transpose=_select_transpose,
    batch=_select_batch,
    sample=[
        Case(((3, 2), (3, 2), (3, 2)), domains=(booleans(),), numpy=np.where),
        Case(((), (3, 2), (3, 2)), domains=(booleans(),), numpy=np.where),
        Case(((), (), ()), domains=(booleans(),), numpy=np.where),
    ],
    elementwise=True,
    moves=True,
)

# ---------------------------------------------------------------- clamping


def _clamp_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros) -> list[MaybeZero]:
    """The tangent of a clamp: that of x strictly between the bounds, that of a bound that x exceeds, and 0 at a bound.

    `xs` are low, x and high, and `tangents` are theirs.
    """
    low, x, high = xs
    t_low, t, t_high = tangents
    spread_low, spread_high = (_spread(bound, x) for bound in (low, high))
    below = compare(x, spread_low, comparison_direction="LT")
    total: MaybeZero = ZERO
    if not isinstance(t, Zero):
        inside = logical_and(compare(x, spread_low, comparison_direction="GT"), compare(x, spread_high, comparison_direction="LT"))
        total = where_zero(inside, t)
    if not isinstance(t_low, Zero):  # if low > high, the result is high
        below = logical_and(below, compare(spread_low, spread_high, comparison_direction="LT"))
        total = add_any(total, where_zero(below, _spread(t_low, x)))
    if not isinstance(t_high, Zero):
        above = compare(operation("maximum")(x, spread_low), spread_high, comparison_direction="GT")
        total = add_any(total, where_zero(above, _spread(t_high, x)))
    return [total]


def _spread(bound: Tensor, x: Tensor) -> Tensor:
    """A bound, which may be a scalar, in the shape of x."""
    if bound.shape == x.shape:
        return bound
    return operation("broadcast_in_dim")(bound, shape=x.shape, broadcast_dimensions=())


def _clamp_batch(xs: Tensors, mapped: Sequence[bool], size: int) -> list[Tensor]:
    """The clamp for all `size` entries of a map; a bound that is a scalar for all entries stays one.

    `mapped` is True for each of low, x and high that has the mapped axis first.
    """
    low, x, high = xs
    if not mapped[0] and not mapped[2]:
        scalar = [b.ndim == 0 for b in (low, high)]
        bounds = [b if s else prefixed(b, size) for b, s in zip((low, high), scalar, strict=True)]
        return [clamp(bounds[0], x, bounds[1])]
    full_x = x if mapped[1] else prefixed(x, size)
    bounds = [_broadcast_bound(b, m, full_x, size) for b, m in ((low, mapped[0]), (high, mapped[2]))]
    return [clamp(bounds[0], full_x, bounds[1])]


def _broadcast_bound(bound: Tensor, mapped: bool, x: Tensor, size: int) -> Tensor:
    """A bound with the mapped axis in front, in the shape of x."""
    for_entries = bound if mapped else prefixed(bound, size)
    if for_entries.shape == x.shape:
        return for_entries
    return operation("broadcast_in_dim")(for_entries, shape=x.shape, broadcast_dimensions=(0,))


def _clip(low: Any, x: Any, high: Any) -> Any:
    return np.clip(x, low, high)


clamp: OpDef = general(
    "stablehlo.clamp",
    doc="min(max(x, low), high); scalar bounds hold for every element. Zero derivative at a bound.",
    jvp=_clamp_jvp,
    batch=_clamp_batch,
    result=lambda low, x, high: [(x.shape, x.dtype)],
    sample=[
        Case(((), (4, 2), ()), domains=(reals(-1, -0.5), None, reals(0.5, 1)), numpy=_clip),
        Case(((4,), (4,), (4,)), domains=(reals(-1, -0.5), None, reals(0.5, 1)), numpy=_clip),
    ],
    elementwise=True,
    instructions=3,
)
