"""The logarithm of the gamma function, its derivatives, and the Hurwitz zeta function from which they are computed."""

from __future__ import annotations

from typing import Any

from nabla_mlir.base.errors import RuleMissingError, user_frame
from nabla_mlir.ops.elementwise import exponential, log
from nabla_mlir.ops.shape import broadcast_in_dim, iota, reduce_sum
from nabla_mlir.table.kinds import elementwise
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.samples import reals, whole
from nabla_mlir.table.tensor import Tensor, full_like

# The roots of lgamma between -3 and -2, each with its rounding error in f64; and lgamma divided by their factors, a
# polynomial in 4 x + 10.25.
ROOTS = ((-2.4570247382208006, -3.7075610815513266e-17), (-2.7476826467274127, 9.055340329338315e-17))
OVER_ROOTS = (
    5.448962268750848,
    -0.8239132875236262,
    0.697841528009541,
    -0.2009297149010471,
    0.14058903114348204,
    -0.05260897084174532,
    0.03294955083046111,
    -0.014255901970678643,
    0.00838452633051735,
    -0.003957225413131771,
    0.002247145443036649,
    -0.001119310841257118,
    0.0006236398768997351,
    -0.00032142387293852717,
    0.00017769296489402055,
    -9.376420634947648e-05,
    5.055105114584275e-05,
    -2.6748731097529327e-05,
    1.7164266536967255e-05,
    -9.853127432792485e-06,
    8.510208066971233e-07,
    3.567287353219979e-07,
    5.962912878167284e-06,
    -4.104756545270802e-06,
    -3.7615698018814913e-06,
    2.6717712097073878e-06,
    2.6756873013848664e-06,
    -1.7643350059474352e-06,
    -9.344774658462263e-07,
    5.991356885356425e-07,
    1.9495529407632423e-07,
    -1.1866524181842342e-07,
)
#  The Hurwitz zeta function by the Euler-Maclaurin formula (DLMF 25.11.5): the first terms are summed directly, the
# others by an integral and corrections B_2j / (2j)!. For s above 4 (q + ZETA_TERMS) the others are negligible: (1 + 10
# / q)^-s is below 1e-17.
ZETA_TERMS = 10
ZETA_CORRECTIONS = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)
lgamma: OpDef = elementwise(
    "chlo.lgamma",
    doc="log |gamma(x)|.",
    partials=[lambda t, y, x: t * digamma(x)],
    numpy="scipy.special:gammaln",
    singular=((0.0,), (-1.0,)),
    sample=(reals(0.5, 4),),
    instructions=100,
)
digamma: OpDef = elementwise(
    "chlo.digamma",
    doc="Derivative of lgamma.",
    partials=[lambda t, y, x: t * polygamma(full_like(x, 1), x)],
    numpy="scipy.special:digamma",
    singular=((0.0,), (-1.0,)),
    sample=(reals(0.5, 4),),
    instructions=100,
)


def _refuse_order(*_: Any) -> Tensor:
    """Raises: the derivative of polygamma by its order is not defined."""
    raise RuleMissingError(
        "the derivative of chlo.polygamma requires that the order n does not vary, got a varying one.",
        where=user_frame(),
        help="it is defined for whole n only; hold n fixed with nm.stop_gradient.",
    )


polygamma: OpDef = elementwise(
    "chlo.polygamma",
    doc="The n-th derivative of digamma at x.",
    partials=[_refuse_order, lambda t, z, n, x: t * polygamma(n + 1.0, x)],
    numpy="scipy.special:polygamma",
    sample=(whole(1, 3), reals(0.5, 4)),
    instructions=200,
)

_SUMMED = 24  # the number of terms of the series that are summed directly
_CORRECTIONS = (1 / 12, -1 / 720, 1 / 30240)  # B_2j / (2j)! of the Euler-Maclaurin formula for the remaining terms


def _zeta_slope(s: Tensor, q: Tensor) -> Tensor:
    """The derivative of zeta by s, from the Euler-Maclaurin formula (Abramowitz and Stegun 23.2.3, for a = q + N).

    zeta = sum over k < N of (q + k)^-s + a^(1-s) / (s - 1) + a^-s / 2 + sum over j of c_j p_j(s) a^(1-s-2j), where
    p_j(s) = s (s + 1) ... (s + 2j - 2). The first omitted term is below 1e-13 of the leading one.
    """
    many, axes = (_SUMMED, *s.shape), tuple(range(1, s.ndim + 1))
    terms = iota(shape=many, dtype=q.dtype, iota_dimension=0) + broadcast_in_dim(q, shape=many, broadcast_dimensions=axes)
    logs = log(terms)
    total = reduce_sum(logs * exponential(-(broadcast_in_dim(s, shape=many, broadcast_dimensions=axes) * logs)), (0,))
    a, above = q + float(_SUMMED), s - 1.0
    last = log(a)
    power = exponential(-(s * last))
    total = total + power * (a * (last / above + 1.0 / (above * above)) + last * 0.5)
    power, p, slope = power / a, s, full_like(s, 1)
    for j, c in enumerate(_CORRECTIONS, start=1):
        total = total + power * (last * p - slope) * c
        factor = (s + (2.0 * j - 1)) * (s + 2.0 * j)
        power, p, slope = power / (a * a), p * factor, slope * factor + p * (s * 2.0 + (4.0 * j - 1))
    return -total


zeta: OpDef = elementwise(
    "chlo.zeta",
    doc="Hurwitz zeta function: sum over k of (q + k)**-s.",
    partials=[lambda t, z, s, q: t * _zeta_slope(s, q), lambda t, z, s, q: t * (zeta(s + 1.0, q) * -s)],
    numpy="scipy.special:zeta",
    sample=(reals(1.5, 4), reals(0.5, 4)),
    instructions=200,
)
