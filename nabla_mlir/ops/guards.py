"""Guards: products and quotients that are defined where their factors are not, and roots whose derivative at 0 is set to 0.

Guards stay in the IR until all derivatives are expanded. In the end a guard becomes a selection. The derivative of that
selection would lose the derivative of the guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import Codec
from nabla_mlir.ops.factors import cancelled, divided, times
from nabla_mlir.ops.logic import compare, logical_or, select, where_zero
from nabla_mlir.table.kinds import elementwise
from nabla_mlir.table.registry import OpDef, operation
from nabla_mlir.table.samples import Case, reals
from nabla_mlir.table.tensor import Tensor, full_like, splat_of, wrap


def _is_zero(x: Tensor) -> Tensor:
    return compare(x, full_like(x, 0), comparison_direction="EQ")


# ---------------------------------------------------------------- a constant 0 times any number
def _product(xs: Sequence[Tensor]) -> list[Tensor]:
    t, c = xs
    return [select(_is_zero(t), full_like(t, 0), t * c)]


def _product_numpy(t: Any, c: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(t == 0, np.zeros_like(t), t * c)


product: OpDef = elementwise(
    "ad.product",
    doc="t * c, but 0 where t is 0, even if c is infinite. t must not depend on the variables.",
    partials=[lambda s, z, t, c: product(s, c), lambda s, z, t, c: product(t, s)],
    linear=(0, 1),
    joint=False,
    result=lambda t, c: [(t.shape, t.dtype)],
    define=_product,
    numpy=_product_numpy,
    sample=(reals(), reals()),
    instructions=3,
)


def share_of(ct: Tensor) -> tuple[Tensor, Tensor] | None:
    """The factors t and c of a cotangent `ct` = ``product(t, c)``, which may be negated or masked; None for other cotangents.

    A rule then multiplies c instead of the product, so 0 stays 0 even if an infinite derivative follows: ``x * log(y)`` has the
    derivative 0 by y at x = y = 0.
    """
    op = made_by(ct.value)
    operands = [] if op is None else [wrap(v) for v in op.operands]
    if op is None or op.name == product.name:
        return (operands[0], operands[1]) if operands else None
    if op.name == "stablehlo.negate":
        inner = share_of(operands[0])
        return None if inner is None else (inner[0], -inner[1])
    if op.name == "stablehlo.select" and splat_of(operands[2]) == 0 and operands[0].shape == ct.shape:
        inner = share_of(operands[1])
        return None if inner is None else (inner[0], where_zero(operands[0], inner[1]))
    return None


# ---------------------------------------------------------------- a quotient that is 0 where its divisor is 0
def _quotient(xs: Sequence[Tensor]) -> list[Tensor]:
    """A list with a / y for `xs` = a, y; 0 where y is 0, and NaN where y is infinite."""
    a, y = xs
    zero = y - y  # NaN where y is infinite
    value = a / y + zero
    return [select(compare(y, zero, comparison_direction="EQ"), zero, value)]


def _quotient_numpy(a: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        zero = y - y
        return np.where(y == zero, zero, a / y + zero)


quotient: OpDef = elementwise(
    "ad.quotient",
    doc="a / y, 0 where y is 0, and NaN where y is infinite: the square of a length may have overflowed. "
    "Its derivative by y is infinite, or NaN, at 0.",
    partials=[lambda t, z, a, y: over(t, y), lambda t, z, a, y: -(t * (z / y))],
    linear=(0,),
    joint=False,
    result=lambda a, y: [(y.shape, y.dtype)],
    define=_quotient,
    numpy=_quotient_numpy,
    sample=(reals(), reals(0.5, 2)),
    instructions=8,
)


def over(t: Tensor, y: Tensor) -> Tensor:
    """t / y for a root y, and 0 where y is 0; the root cancels if t is recognised as a multiple of y."""
    rest = divided(t, y)
    return quotient(t, y) if rest is None else rest


# ---------------------------------------------------------------- the slope of a root
F64 = Codec(lambda v: ir.FloatAttr.get(ir.F64Type.get(context()), float(v), loc=ir.Location.unknown(context())), lambda a: a.value)


def _slope(xs: Sequence[Tensor], *, degree: float) -> list[Tensor]:
    """A list with a / p, for `xs` = a, p, where p is the power degree - 1 of a root.

    It is computed by way of the root's radicand, so that it is not finite where the radicand has lost its digits.
    """
    a, p = xs
    if degree == 2:
        return [a / (p * p) * p]
    root, radicand = (operation("power")(p, full_like(p, power / (degree - 1))) for power in (1, degree))
    return [a / radicand * root]


def _slope_over(t: Tensor, z: Tensor, a: Tensor, p: Tensor, degree: float) -> Tensor:
    rest = divided(t, p)
    return slope(t, p, degree=degree) if rest is None else rest


slope: OpDef = elementwise(
    "ad.slope",
    doc="a / p for p = root**(degree - 1), and not finite where root**degree is 0, infinite, or so small that it has lost digits.",
    attributes={"degree": F64},
    defaults={"degree": 2.0},
    partials=[_slope_over, lambda t, z, a, p, degree: -(t * (z / p))],
    linear=(0,),
    joint=False,
    result=lambda a, p, degree: [(p.shape, p.dtype)],
    define=_slope,
    instructions=10,
    sample=[Case(((3, 2), (3, 2)), {"degree": k}, (reals(), reals(0.5, 2)), numpy=np.divide) for k in (2.0, 3.0)],
)
radial: OpDef = elementwise(
    "ad.radial",
    doc="s * x, but 0 where x is 0, even if s is not finite: the derivative of a length. Its derivatives are x and s.",
    partials=[lambda t, z, s, x: t * x, lambda t, z, s, x: s * t],
    linear=(0, 1),
    joint=False,
    result=lambda s, x: [(x.shape, x.dtype)],
    define=lambda xs: _product([xs[1], xs[0]]),
    numpy=lambda s, x: _product_numpy(x, s),
    sample=(reals(), reals()),
    instructions=3,
)


# ---------------------------------------------------------------- roots
def _root(xs: Sequence[Tensor], *, degree: float) -> list[Tensor]:
    (x,) = xs
    return [operation("sqrt")(x) if degree == 2 else operation("power")(x, full_like(x, 1 / degree))]


def _root_slope(y: Tensor, degree: float) -> Tensor:
    """The derivative of the root y by its radicand."""
    power = y if degree == 2 else operation("power")(y, full_like(y, degree - 1))
    return slope(full_like(y, 1 / degree), power, degree=degree)


def _root_tangent(t: Tensor, y: Tensor, x: Tensor, degree: float) -> Tensor:
    """The tangent of the root y of x: the tangent t of the radicand times the slope; 0 where t is 0."""
    # The tangent of a squared length is 0 at the vector 0. A cotangent of 0 is not guarded: it may come from an overflow.
    rest = cancelled(t, slope_ := _root_slope(y, degree))
    return radial(slope_, t) if rest is None else rest


root: OpDef = elementwise(
    "ad.root",
    doc="The root of a degree (2 by default). Its derivative at 0 is 0 if the radicand does not change; see `ad.radial`.",
    attributes={"degree": F64},
    defaults={"degree": 2.0},
    partials=[lambda t, y, x, degree: times(t, _root_slope(y, degree))],
    forward=[_root_tangent],
    constant_partials=[lambda t, y, x, degree: product(t, _root_slope(y, degree))],
    result=lambda x, degree: [(x.shape, x.dtype)],
    define=_root,
    instructions=10,
    singular=((0.0,),),
    sample=[
        Case(((3, 2),), {"degree": 2.0}, (reals(0.2, 3),), numpy=np.sqrt),
        Case(((3, 2),), {"degree": 3.0}, (reals(0.2, 3),), numpy=np.cbrt),
    ],
)


def _hypot(xs: Sequence[Tensor]) -> list[Tensor]:
    """A list with the length of (x, y), for `xs` = x, y.

    It uses the ratio of the smaller to the larger number, so that no square overflows.
    """
    x, y = (operation("abs")(v) for v in xs)
    swap = compare(x, y, comparison_direction="LT")
    large, small = select(swap, y, x), select(swap, x, y)
    out = large * operation("sqrt")(operation("multiply")(*[small / select(_is_zero(large), full_like(large, 1), large)] * 2) + 1.0)
    infinity = full_like(out, np.inf)
    is_infinite = logical_or(*(compare(v, infinity, comparison_direction="EQ") for v in (x, y)))
    return [select(is_infinite, infinity, out)]


hypot: OpDef = elementwise(
    "ad.hypot",
    doc="sqrt(x * x + y * y) without overflow. Its derivatives at the origin are set to 0.",
    partials=[lambda t, r, x, y: times(t, quotient(x, r)), lambda t, r, x, y: times(t, quotient(y, r))],
    constant_partials=[lambda t, r, x, y: product(t, quotient(x, r)), lambda t, r, x, y: product(t, quotient(y, r))],
    result=lambda x, y: [(x.shape, x.dtype)],
    define=_hypot,
    numpy=np.hypot,
    singular=((0.0, 0.0),),
    sample=(reals(), reals(0.5, 2)),
    commutes=True,
    instructions=20,
)


def length_with_one(x: Tensor) -> Tensor:
    """sqrt(x**2 + 1), without overflow for real x."""
    return operation("sqrt")(x * x + 1.0) if x.dtype.kind == "c" else hypot(x, full_like(x, 1))


def _over_squares(xs: Sequence[Tensor]) -> list[Tensor]:
    """A list with x / (x * x + y * y) for `xs` = x, y; for real numbers as 1 / (x + y * (y / x))."""
    x, y = xs
    if x.dtype.kind == "c":
        return [x / (x * x + y * y)]
    if x.dtype == np.float16:  # squares of float16 overflow before the result loses digits
        (z,) = _over_squares([operation("convert")(v, dtype=np.float32) for v in xs])
        return [operation("convert")(z, dtype=np.float16)]
    return [1.0 / (x + y * (y / x))]


def _over_squares_by_x(t: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    other = over_squares(y, x)
    return t * (other - z) * (other + z)


def _over_squares_numpy(x: Any, y: Any) -> Any:
    return x / (x * x + y * y)


over_squares: OpDef = elementwise(
    "ad.over_squares",
    doc="x / (x * x + y * y) without overflow, and NaN at the origin: the derivative of an angle.",
    partials=[_over_squares_by_x, lambda t, z, x, y: t * (z * over_squares(y, x) * -2.0)],
    result=lambda x, y: [(x.shape, x.dtype)],
    define=_over_squares,
    numpy=_over_squares_numpy,
    singular=((0.0, 0.0),),
    sample=(reals(0.5, 2), reals(avoid=[0])),
    instructions=8,
)


# ---------------------------------------------------------------- derivatives of a power by its exponent
def _power_log(xs: Sequence[Tensor], *, degree: float) -> list[Tensor]:
    """A list with x**y log(x)**degree for `xs` = x, y: the derivative of x**y by y, of order `degree`; 0 where x**y is 0."""
    x, y = xs
    factor = logarithm = operation("log")(x)
    for _ in range(int(degree) - 1):
        factor = factor * logarithm
    return _product([operation("power")(x, y), factor])


def _power_log_by_base(t: Tensor, z: Tensor, x: Tensor, y: Tensor, degree: float) -> Tensor:
    """The tangent of z = x**y log(x)**degree for a tangent t of x."""
    less = y - 1.0
    lower = operation("power")(x, less) if degree == 1 else power_log(x, less, degree=degree - 1)
    return t * (product(y, power_log(x, less, degree=degree)) + lower * degree)


power_log: OpDef = elementwise(
    "ad.power_log",
    doc="x**y * log(x)**degree, and 0 where x**y is 0: the derivative of x**y by y, of order `degree`.",
    attributes={"degree": F64},
    defaults={"degree": 1.0},
    partials=[_power_log_by_base, lambda t, z, x, y, degree: t * power_log(x, y, degree=degree + 1)],
    result=lambda x, y, degree: [(x.shape, x.dtype)],
    define=_power_log,
    instructions=90,
    singular=tuple((0.0, y) for y in (0.0, 1.0, 2.0, 3.0, -1.0)),
    sample=[
        Case(((3, 2), (3, 2)), {"degree": k}, (reals(0.5, 2), reals()), numpy=lambda x, y, k=k: x**y * np.log(x) ** k)
        for k in (1.0, 2.0)
    ],
)
RECORDS: dict[str, OpDef] = {
    record.name: record for record in (product, quotient, slope, radial, root, hypot, over_squares, power_log)
}
