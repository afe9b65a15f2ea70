"""Legalisation of the gamma and error functions, where their stock expansions lose digits.

Coefficients are Chebyshev fits made with mpmath, to less than 1/5 ulp, in powers of t = 2 x - 3 from -1 to 1.
"""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val, convert, eq, select
from nabla_mlir.ops.gamma import OVER_ROOTS, ROOTS, ZETA_CORRECTIONS, ZETA_TERMS
from nabla_mlir.passes.iree.math.arithmetic import splat_of
from nabla_mlir.passes.iree.math.chlo import stock_expansion
from nabla_mlir.passes.iree.math.formats import F32, flip_sign, format_of, has_format, horner, rounded, sign_of, upper_half
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()

# log(gamma(x)) / ((x - 1) (x - 2))
_LGAMMA_F32 = (
    0.48312895049714205,
    -0.07297994794347135,
    0.015727853420749144,
    -0.003913561921359992,
    0.0010497821481305948,
    -0.00029453930586128245,
    8.525445100815736e-05,
    -2.5142240688178603e-05,
    7.223390333529342e-06,
    -2.1844008000601535e-06,
    9.360440366683313e-07,
    -2.8907417174097725e-07,
)
_LGAMMA_F64 = (
    0.4831289505409809,
    -0.07297994795715304,
    0.015727850268641236,
    -0.003913560937626187,
    0.0010498186644491197,
    -0.00029455070151955954,
    8.510090382266539e-05,
    -2.5094328669818345e-05,
    7.5113911543279285e-06,
    -2.2742474054826674e-06,
    6.948460789947273e-07,
    -2.138632494418463e-07,
    6.622926112005164e-08,
    -2.0620995364628568e-08,
    6.448043752521901e-09,
    -2.016989565826891e-09,
    6.353017600845751e-10,
    -2.0871311005452823e-10,
    6.615691316451458e-11,
    -1.5410479069560222e-11,
    4.892185826125285e-12,
    -3.8008085820640625e-12,
    1.2170358219385592e-12,
)
# The size of x up to which factors of gamma(x) are multiplied; f32 has no number close to a root further left.
_BY_FACTORS = 10
# log(gamma(x)) over the product of (x - root), between -3 and -2; the coefficients for f64 are ops.gamma.OVER_ROOTS.
_OVER_ROOTS_F32 = (
    5.448962262150946,
    -0.8239136148961802,
    0.6978423547486939,
    -0.2009178075482787,
    0.14057213743448316,
    -0.05273325464100253,
    0.033079955703060215,
    -0.013691131125404864,
    0.007896701835725793,
    -0.005246272769658344,
    0.0032158179104538015,
    0.00038967132648421235,
    -0.000394865442704778,
    -0.0011261255539138444,
    0.000673714973187016,
)
# digamma(x) / (x - root)
_DIGAMMA_F32 = (
    0.9510558754378758,
    -0.21181371044279412,
    0.06013566375913525,
    -0.018550629611152995,
    0.005936301096815212,
    -0.0019349019790636508,
    0.0006389618853826938,
    -0.00021143952188013511,
    6.607509272671307e-05,
    -2.1966869792712897e-05,
    1.0960113648864737e-05,
    -3.650802294453097e-06,
)
_DIGAMMA_F64 = (
    0.9510558760318328,
    -0.2118137106407303,
    0.060135621060196744,
    -0.018550615381735115,
    0.005936795278305649,
    -0.0019350666648590097,
    0.0006368880303257201,
    -0.00021074841140458636,
    6.995018873950506e-05,
    -2.325824239445257e-05,
    7.741232223504057e-06,
    -2.57809436305308e-06,
    8.589127353033379e-07,
    -2.86315275846934e-07,
    9.542050972688906e-08,
    -3.163020268955334e-08,
    1.0542687624027994e-08,
    -3.7075072647122386e-09,
    1.2358072433984831e-09,
    -2.7619635330317715e-10,
    9.206434499177992e-11,
    -8.498137230186096e-11,
    2.832706668021759e-11,
)
_ROOT, _ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17


@PATTERNS.of("chlo.lgamma", "chlo.digamma", "chlo.erf", "chlo.erfc", "chlo.zeta", "chlo.polygamma")
def narrow(op: ir.Operation, target: Target) -> Replacement:
    """The function computed in f32 for 16-bit formats, and converted back; None for other formats."""
    xs = operands(op)
    if not all(x.static for x in xs) or has_format(xs[-1]):
        return None
    return convert(b.op(op.name, *(convert(x, F32.dtype) for x in xs), type=b.like(xs[-1], F32.dtype)), xs[-1].dtype)


@PATTERNS.of("chlo.lgamma")
def lgamma(op: ir.Operation, target: Target) -> Replacement:
    """The logarithm of |gamma(x)|, for |x| < 10 by polynomials, because the stock expansion loses digits; None for 16 bits.

    The expansion has errors of thousands of ulp near 1 and 2, where log gamma is 0, and tens of ulp up to 10.
    """
    (x,) = operands(op)
    if not (x.static and has_format(x)):
        return None
    is_below_one, unit = x < 1.0, b.full(1.0, x.shape, x.dtype)
    # y from 1 to 2, with gamma(x) = gamma(y) times or divided by the factor; y - 1 and y - 2 are exact.
    one = x - b.floor(x)
    two = one - 1.0
    factor = select(is_below_one, x, 1.0)
    for k in range(1, _BY_FACTORS + 1):
        factor = factor * select(x < 1.0 - k, x + float(k), select(x < 1.0 + k, unit, x - float(k)))
    logarithm = b.log(abs(factor))
    near = one * two * horner(one + two, _LGAMMA_F32 if format_of(x) is F32 else _LGAMMA_F64)
    near = near + select(is_below_one, -logarithm, logarithm)
    near = select((x > -2.8125) & (x < -2.3125), _between(x), near)
    return select(abs(x) < float(_BY_FACTORS), near, stock_expansion(op)[0])


def _between(x: Val) -> Val:
    """The logarithm of |gamma(x)| between -3 and -2, where it is small: a polynomial times the distances from its roots."""
    result = horner(x * 4.0 + 10.25, _OVER_ROOTS_F32 if format_of(x) is F32 else OVER_ROOTS)
    for root, low in ROOTS:
        high = format_of(x).round(root)
        result = result * (rounded(x - high) - ((root - high) + low))
    return result


@PATTERNS.of("chlo.digamma")
def digamma(op: ir.Operation, target: Target) -> Replacement:
    """The digamma function, from 1 to 2 by a polynomial: near its root the stock expansion has errors of thousands of ulp."""
    (x,) = operands(op)
    if not (x.static and has_format(x)):
        return None
    single = format_of(x) is F32
    root = float(np.float32(_ROOT)) if single else _ROOT
    distance = rounded(x - root) - (_ROOT - root if single else _ROOT_LOW)
    near = distance * horner(x + x - 3.0, _DIGAMMA_F32 if single else _DIGAMMA_F64)
    pole = flip_sign(b.full(-math.inf, x.shape, x.dtype), sign_of(x))  # at zeros, which the expansion treats as one
    return select((x >= 1.0) & (x <= 2.0), near, select(eq(x, 0.0), pole, stock_expansion(op)[0]))


@PATTERNS.of("chlo.zeta")
def zeta(op: ir.Operation, target: Target) -> Replacement:
    """The Hurwitz zeta function by the Euler-Maclaurin formula, because the stock expansion is wrong; None for 16 bits.

    It is wrong for q below -9.5 (by factors of 10^11), NaN at infinity, and 0 where q^-s leaves the range of f32. Negative numbers
    use the interpreter's formula: zeta(s, q) = zeta(s, 1 - r) + (-1)^s (zeta(s, r) - zeta(s, |q| + 1)) for r = |q| - floor(|q|).
    """
    s, q = operands(op)
    if not (q.static and has_format(q)):
        return None
    size, is_negative = abs(q), q < 0.0
    fraction = size - b.floor(size)
    number = splat_of(s.value)
    s = s if number is None else b.splat(number.real, q)
    total = _zeta_of_positive(s, number, select(is_negative, size + 1.0, q))
    if number is not None and not number.real.is_integer():
        total = select(is_negative, math.nan, total)
    else:
        sign = 1.0 - (s - b.floor(s * 0.5) * 2.0) * 2.0
        below = _zeta_of_positive(s, number, 1.0 - fraction) + sign * (_zeta_of_positive(s, number, fraction) - total)
        total = select(is_negative, select(eq(s, b.floor(s)), below, math.nan), total)
    total = select((q <= 0.0) & ~(fraction > 0.0), math.inf, total)
    total = select(eq(s, 1.0), math.inf, total)
    return select((s >= 1.0) & eq(q, q), total, math.nan)


def _zeta_of_positive(s: Val, number: complex | None, q: Val) -> Val:
    """The zeta function zeta(s, q) for positive q by the Euler-Maclaurin formula, see `ZETA_CORRECTIONS`.

    With a = q + N: the sum of (q + k)^-s over k < N, plus a^(1 - s) (1 / (s - 1) + 1 / (2 a) + the sum over j >= 1 of c_j s (s + 1)
    ... (s + 2 j - 2) / a^(2 j)). `number` is the value of s if it is a constant: powers of q are then products.
    """
    power = lambda x, y: b.binary("stablehlo.power", x, y)  # noqa: E731
    minus, last = (-s, 1.0 - s) if number is None else (b.splat(-number.real, q), b.splat(1.0 - number.real, q))
    a = q + float(ZETA_TERMS)
    terms = power(q, minus)
    for k in range(1, ZETA_TERMS):
        terms = terms + power(q + float(k), minus)
    near, unit = b.minimum(s, a * 4.0), 1.0 / a
    factor, series = near * unit, 1.0 / (s - 1.0) + unit * 0.5
    corrections = ZETA_CORRECTIONS[: 5 if format_of(q) is F32 else None]
    for j, c in enumerate(corrections, start=1):
        series = series + factor * unit * c
        factor = factor * ((near + (2.0 * j - 1.0)) * unit) * ((near + 2.0 * j) * unit)
    tail = power(a, last) * series
    return terms + select(a < math.inf, tail, 0.0)


@PATTERNS.of("chlo.polygamma")
def polygamma(op: ir.Operation, target: Target) -> Replacement:
    """The polygamma function as (-1)^(n + 1) n! zeta(n + 1, x), because the stock expansion is wrong."""
    n, x = operands(op)
    if not (x.static and has_format(x)):
        return None
    order = splat_of(n.value)
    if order == 0:
        return b.op("chlo.digamma", x, type=x.type)
    if order is not None and 0 < order.real <= 170 and order.real.is_integer():
        value = b.op("chlo.zeta", b.splat(order.real + 1.0, x), x, type=x.type)
        return value * (math.gamma(order.real + 1.0) * (1.0 if order.real % 2 else -1.0))
    value = b.op("chlo.zeta", n + 1.0, x, type=x.type)
    parity = n - b.floor(n * 0.5) * 2.0
    value = value * b.exp(b.op("chlo.lgamma", n + 1.0, type=n.type)) * (parity * 2.0 - 1.0)
    value = select(eq(n, 0.0), b.op("chlo.digamma", x, type=x.type), value)
    return select((n >= 0.0) & eq(n, b.floor(n)), value, math.nan)


@PATTERNS.of("chlo.erfc")
def erfc(op: ir.Operation, target: Target) -> Replacement:
    """The stock expansion of erfc with a correction, because it rounds the square in exp(-x^2): 60 ulp at x = 8.

    exp(-x²) = exp(-square) exp(-error), where error is x² - square, and exp(-error) is about 1 - error.
    """
    (x,) = operands(op)
    if not (x.static and has_format(x)):
        return None
    result = stock_expansion(op)[0]
    high = upper_half(x)
    low = x - high
    square = rounded(x * x)
    error = ((high * high - square) + 2.0 * high * low) + low * low
    return select((x > 1.0) & (x < 30.0), result * (1.0 - error), result)
