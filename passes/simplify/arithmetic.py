"""Simplifications of elementwise operations: neutral elements, signs, constant folding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.passes.simplify.pattern import defining, has_free_zeros, has_one_use, owner, pattern
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import Tensor, full, full_like, splat_of, wrap
from nabla_mlir.table.traits import is_linear_in


@pattern("stablehlo.add")
def add_zero(a: Tensor, b: Tensor) -> Tensor | None:
    """x + 0 -> x. For an operation of the user and a positive zero, -0 + 0 stays 0."""
    if a.dtype.kind == "b":
        return None
    for x, zero in ((a, b), (b, a)):
        if splat_of(zero) == 0 and (has_free_zeros(a) or _is_negative_zero(zero)):
            return x
    return None


def _is_negative_zero(x: Tensor) -> bool:
    """True for a constant whose elements are all -0."""
    number = splat_of(x)
    return isinstance(number, float) and number == 0 and math.copysign(1, number) < 0


@pattern("stablehlo.add")
def add_negated(a: Tensor, b: Tensor) -> Tensor | None:
    """x + (-y) -> x - y."""
    negation = defining(b, "stablehlo.negate")
    if negation:
        return ew.subtract(a, negation[0][0])
    negation = defining(a, "stablehlo.negate")
    return ew.subtract(b, negation[0][0]) if negation else None


@pattern("stablehlo.subtract")
def subtract_zero(a: Tensor, b: Tensor) -> Tensor | None:
    """x - 0 -> x, 0 - x -> -x. For an operation of the user, -0 - -0 and 0 - 0 stay 0."""
    if splat_of(b) == 0 and (has_free_zeros(a) or (a.dtype.kind != "c" and not _is_negative_zero(b))):
        return a
    return ew.negate(b) if splat_of(a) == 0 and (has_free_zeros(a) or _is_negative_zero(a)) else None


@pattern("stablehlo.subtract")
def subtract_negated(a: Tensor, b: Tensor) -> Tensor | None:
    """The rewrite x - (-y) -> x + y."""
    negation = defining(b, "stablehlo.negate")
    return ew.add(a, negation[0][0]) if negation else None


@pattern("stablehlo.subtract")
def subtract_from_negated(a: Tensor, b: Tensor) -> Tensor | None:
    """(-x) - y -> -(x + y), because the sign can often cancel later. For an operation of the user, -1 - -1 stays 0."""
    negation = defining(a, "stablehlo.negate") if has_free_zeros(a) else None
    return ew.negate(ew.add(negation[0][0], b)) if negation and has_one_use(a) else None


@pattern("stablehlo.reduce_precision")
def reduce_nothing(x: Tensor, exponent_bits: int, mantissa_bits: int) -> Tensor | None:
    """reduce_precision(x) -> x for a format that has all bits of the dtype of x.

    IREE folds it, too, but then writes an updated copy of a donated x to the memory of the result (testing/donations.py).
    """
    limits = limits_of(x.dtype)
    return x if exponent_bits >= limits.nexp and mantissa_bits >= limits.nmant else None


@pattern("stablehlo.real", "chlo.conj")
def part_of_real(x: Tensor) -> Tensor | None:
    """The rewrites real(x) -> x and conj(x) -> x for real x; see `reduce_nothing` for the reason."""
    return None if x.dtype.kind == "c" else x


@pattern("stablehlo.add")
def add_same_multiple(a: Tensor, b: Tensor) -> Tensor | None:
    """x * c + x * c -> x * (2 * c) for a constant c."""
    multiple = _scaled(a) if a.value == b.value and len(list(a.value.uses)) == 2 else None
    if multiple is None:
        return None
    x, c = multiple
    return ew.multiply(x, full_like(x, c + c)) if np.isfinite(np.add(c, c, dtype=a.dtype)) else None


def _scaled(x: Tensor) -> tuple[Tensor, float] | None:
    """The value x and the number c of a floating-point product x * c; None if `x` is no such product."""
    product = defining(x, "stablehlo.multiply") if x.dtype.kind == "f" else None
    if product is None:
        return None
    for value, factor in (product[0], product[0][::-1]):
        c = splat_of(factor)
        if c is not None:
            return value, c  # type: ignore[return-value]
    return None


@pattern("stablehlo.negate")
def negate_multiple(x: Tensor) -> Tensor | None:
    """-(x * c) -> x * (-c) for a constant c."""
    multiple = _scaled(x) if has_one_use(x) else None
    return ew.multiply(multiple[0], full_like(x, -multiple[1])) if multiple else None


@pattern("stablehlo.multiply")
def multiply_one(a: Tensor, b: Tensor) -> Tensor | None:
    """x * 1 -> x, x * -1 -> -x; for integers also x * 0 -> 0 (0 * inf is not 0)."""
    for x, y in ((a, b), (b, a)):
        factor = splat_of(y)
        if factor is None:
            continue
        if factor == 1:
            return x
        if factor == -1 and x.dtype.kind != "u":
            return ew.negate(x)
        if factor == 0 and x.dtype.kind in "biu":
            return y
    return None


@pattern("stablehlo.multiply")
def multiply_negated(a: Tensor, b: Tensor) -> Tensor | None:
    """(-x) * (-y) -> x * y, (-x) * c -> x * (-c) for a constant c; otherwise the sign moves out: -(x * y)."""
    left, right = defining(a, "stablehlo.negate"), defining(b, "stablehlo.negate")
    if left and right:
        return ew.multiply(left[0][0], right[0][0])
    for negation, other in ((left, b), (right, a)):
        value = splat_of(other) if negation else None
        if negation and value is not None:
            return ew.multiply(negation[0][0], full_like(other, -value))
    for negation, negated, other in ((left, a, b), (right, b, a)):
        if negation and has_one_use(negated):
            return ew.negate(ew.multiply(negation[0][0], other))
    return None


@pattern("stablehlo.multiply")
def multiply_constants(a: Tensor, b: Tensor) -> Tensor | None:
    """(x * c) * d -> x * (c * d) for constants c and d of floating point."""
    if a.dtype.kind not in "fc":
        return None
    for product, other in ((a, b), (b, a)):
        d = splat_of(other)
        inner = defining(product, "stablehlo.multiply") if d is not None else None
        if inner is None or d is None:
            continue
        for x, y in (inner[0], inner[0][::-1]):
            c = splat_of(y)
            if c is not None:
                value = np.multiply(c, d, dtype=a.dtype)
                if np.isfinite(value) and value != 0:
                    return ew.multiply(x, full_like(a, value.item()))
    return None


@pattern("stablehlo.multiply")
def multiply_twice(a: Tensor, b: Tensor) -> Tensor | None:
    """(x + x) * c -> x * (2 * c) for a constant c of floating point, as in half of a sum of squares."""
    for total, other in ((a, b), (b, a)):
        c = splat_of(other) if a.dtype.kind == "f" and has_one_use(total) else None
        addition = defining(total, "stablehlo.add") if c is not None else None
        if c is not None and addition is not None and addition[0][0].value == addition[0][1].value:
            twice = np.add(c, c, dtype=a.dtype)
            return ew.multiply(addition[0][0], full_like(a, twice.item())) if np.isfinite(twice) else None
    return None


@pattern("stablehlo.divide")
def divide_one(a: Tensor, b: Tensor) -> Tensor | None:
    """x / 1 -> x; x / c -> x * (1 / c) where 1 / c is exact, which holds for powers of two."""
    divisor = splat_of(b)
    if divisor is None:
        return None
    if divisor == 1:
        return a
    if a.dtype.kind != "f" or divisor == 0 or not np.isfinite(divisor):
        return None
    mantissa, exponent = np.frexp(divisor)
    exact = abs(mantissa) == 0.5 and abs(exponent) < 14
    return ew.multiply(a, full_like(a, 1 / divisor)) if exact else None


@pattern("stablehlo.negate")
def negate_negated(x: Tensor) -> Tensor | None:
    """-(-x) -> x."""
    negation = defining(x, "stablehlo.negate")
    return negation[0][0] if negation else None


@pattern("stablehlo.not")
def fold_not(x: Tensor) -> Tensor | None:
    """Not True -> False, not False -> True."""
    value = splat_of(x) if x.dtype.kind == "b" else None
    return None if value is None else full_like(x, not value)


@pattern("stablehlo.select")
def select_once(pred: Tensor, a: Tensor, b: Tensor) -> Tensor | None:
    """The rewrite where(p, f(where(p, x, 0)), 0) -> where(p, f(x), 0) for a product, a quotient or a sign change f."""
    maker = owner(a)
    if splat_of(b) != 0 or maker is None or not is_linear_in(maker, 0) or not has_one_use(a):
        return None
    operands = [wrap(v) for v in maker.operands]
    inner = defining(operands[0], "stablehlo.select")
    if inner is None or inner[0][0].value != pred.value or splat_of(inner[0][2]) != 0 or not has_one_use(operands[0]):
        return None
    record = REGISTRY[maker.name]
    return lg.select(pred, record.apply([inner[0][1], *operands[1:]], record.read(maker))[0], b)


@pattern("stablehlo.select")
def select_same(pred: Tensor, a: Tensor, b: Tensor) -> Tensor | None:
    """The rewrites select(p, x, x) -> x, select(True, x, y) -> x and select(False, x, y) -> y."""
    if a.value == b.value:
        return a
    number = splat_of(pred)
    return None if number is None else a if number else b


@pattern("stablehlo.convert")
def convert_same(x: Tensor, dtype: np.dtype) -> Tensor | None:
    """convert(x) -> x for the same dtype, and convert(convert(x)) -> convert(x) if the inner conversion is lossless."""
    if x.dtype == dtype:
        return x
    inner = defining(x, "stablehlo.convert")
    if inner is None:
        return None
    source = inner[0][0]
    # For example bool -> int -> float: the middle type can represent every value of the source.
    lossless = source.dtype.kind == "b" and x.dtype.kind in "iufc"
    lossless |= source.dtype.kind == x.dtype.kind == "f" and source.dtype.itemsize <= x.dtype.itemsize
    if not lossless or (source.dtype.kind == "b" and dtype.kind == "b"):
        return None
    return source if source.dtype == dtype else ew.convert(source, dtype=dtype)


@pattern("stablehlo.and", "stablehlo.or")
def logical_neutral(a: Tensor, b: Tensor) -> Tensor | None:
    """p and p -> p, p or p -> p."""
    return a if a.value == b.value else None


@pattern("stablehlo.and")
def and_true(a: Tensor, b: Tensor) -> Tensor | None:
    """p and True -> p, p and False -> False."""
    for x, y in ((a, b), (b, a)):
        value = splat_of(y)
        if x.dtype.kind == "b" and value is not None:
            return x if value else y
    return None


@pattern("stablehlo.or")
def or_false(a: Tensor, b: Tensor) -> Tensor | None:
    """p or False -> p, p or True -> True."""
    for x, y in ((a, b), (b, a)):
        value = splat_of(y)
        if x.dtype.kind == "b" and value is not None:
            return y if value else x
    return None


@pattern("stablehlo.power")
def power_of_constant(x: Tensor, y: Tensor) -> Tensor | None:
    """x**1 -> x, x**2 -> x*x, x**-1 -> 1/x. Other powers stay one operation with one derivative; x**0.5 is not sqrt."""
    exponent = splat_of(y)
    if exponent == 0:
        return full_like(x, 1)
    if exponent == 1:
        return x
    if exponent == 2:
        return ew.multiply(x, x)
    return ew.divide(full_like(x, 1), x) if exponent == -1 and x.dtype.kind in "fc" else None


# ---------------------------------------------------------------- constant folding
def _fold_pattern(function: Any) -> Any:
    """A pattern that replaces an operation on constants with equal elements by a constant, computed by a function of NumPy."""

    def fold(*xs: Tensor) -> Tensor | None:
        """The constant; None if an operand is no constant, or has a dtype that NumPy lacks."""
        values = [splat_of(x) for x in xs]
        if any(v is None for v in values) or xs[0].dtype.kind not in "iuf" or xs[0].dtype.name not in np.sctypeDict:
            return None
        with np.errstate(all="ignore"):
            return full_like(xs[0], function(*(np.asarray(v, x.dtype) for v, x in zip(values, xs, strict=True))).item())

    fold.__doc__ = "An operation on constants."
    return fold


def _fold_all(*names: str) -> None:
    """Registers a folding pattern for each operation, by the NumPy function of its record."""
    for name in names:
        pattern(name)(_fold_pattern(REGISTRY[name].numpy))


_fold_all(  # the results are rounded once, so that the device would compute the same number
    "stablehlo.add",
    "stablehlo.subtract",
    "stablehlo.multiply",
    "stablehlo.negate",
    "stablehlo.maximum",
    "stablehlo.minimum",
    "stablehlo.sqrt",
    "stablehlo.abs",
    "stablehlo.sign",
    "stablehlo.floor",
)


@pattern("stablehlo.divide")
def fold_divide(a: Tensor, b: Tensor) -> Tensor | None:
    """c / d -> constant, for floating-point constants c and d other than d = 0."""
    c, d = splat_of(a), splat_of(b)
    if c is None or d is None or a.dtype.kind != "f" or a.dtype.name not in np.sctypeDict or d == 0:
        return None
    return full_like(a, np.divide(np.asarray(c, a.dtype), np.asarray(d, a.dtype)).item())


@pattern("stablehlo.convert")
def fold_convert(x: Tensor, dtype: np.dtype) -> Tensor | None:
    """convert(constant) -> constant; to integers only if the value is in range."""
    value = splat_of(x)
    if value is None:
        return None
    if dtype.kind in "iu":
        if isinstance(value, complex) or not np.isfinite(value):
            return None
        value = int(value)
        info = np.iinfo(dtype) if dtype.name in np.sctypeDict else None
        if info is None or not info.min <= value <= info.max:
            return None
    if isinstance(value, complex) and dtype.kind != "c":
        return None
    return full(x.shape, bool(value) if dtype.kind == "b" else value, dtype)


@pattern("stablehlo.compare")
def fold_compare(a: Tensor, b: Tensor, comparison_direction: str, compare_type: str | None) -> Tensor | None:
    """A comparison of constants, or of an integer with itself, -> constant; in total order it is not folded."""
    if compare_type == "TOTALORDER":
        return None
    c, d = splat_of(a), splat_of(b)
    if c is not None and d is not None and not isinstance(c, complex):
        return full(a.shape, bool(lg.COMPARISONS[comparison_direction](c, d)), np.dtype(bool))
    if a.value == b.value and a.dtype.kind in "biu":
        return full(a.shape, comparison_direction in ("EQ", "LE", "GE"), np.dtype(bool))
    return None
