"""Modified Bessel functions of the first kind of order 0 and 1.

Chebyshev series of exp(-x) I0(x) and exp(-x) I1(x) / x (4 + x)^(3/2) on [0, 8], the latter a function that is nowhere small, and of
sqrt(x) exp(-x) I(x) in 16 / x - 1 beyond. The coefficients are computed with 40 digits from the functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir import pytree
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.errors import DtypeError, user_frame
from nabla_mlir.numpy.operands import convert, inexacts
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.scans import scan

_I0_LOW = (
    0.6767952744094761, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
    -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17,
)  # fmt: skip
_I0_HIGH = (
    0.8044904110141088, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11, -3.1499165279632416e-11,
    -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17,
)  # fmt: skip
_I1_LOW = (
    3.1304725782283653, -1.3184683945041278, 0.6566509193747436, -0.2902458837810422, 0.11396962937823193,
    -0.039594992221504, 0.012033243856000016, -0.003114304350405361, 0.0006389945118533842, -7.734924416673896e-05,
    -1.1237132123564694e-05, 1.1631753618159e-05, -4.9579106107115845e-06, 1.6049521125787806e-06,
    -4.3820147866709584e-07, 1.0425257866032521e-07, -2.170642715322716e-08, 3.867368497453769e-09,
    -5.412514316796323e-10, 3.7419195268696205e-11, 1.016904687077528e-11, -5.904238046530005e-12, 1.952748691134365e-12,
    -5.336104938526596e-13, 1.3185869642006022e-13, -3.06677756486323e-14, 6.874589583463885e-15, -1.5100678455576855e-15,
    3.29095188369337e-16, -7.181724768106303e-17,
)  # fmt: skip
_I1_HIGH = (
    0.7785762350182801, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06, -2.512236237870209e-07,
    -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10, -1.8974958123505413e-11,
    3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13, -4.0835511110921974e-13,
    -2.1015418427726643e-14, 4.272440016711951e-14, 1.0420276984128802e-14, -3.8144030724370075e-15,
    -1.8803547755107825e-15, 3.3082023109209285e-16, 2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17,
)  # fmt: skip


def _series(coefficients: Sequence[float], y: Tensor) -> Tensor:
    """The Chebyshev series, whose first coefficient counts half, at y in [-1, 1], by Clenshaw's recurrence.

    It is a loop, so that the code of second derivatives stays small.
    """

    def step(carry: tuple[Tensor, Tensor], c: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
        high, low = carry
        return (y * 2.0 * high - low + c, high), None

    zero = full_like(y, 0)
    (high, low), _ = scan(step, (zero, zero), np.array(coefficients[:0:-1], y.dtype))
    return y * high - low + coefficients[0] / 2


def _pieces(x: Tensor, low: Sequence[float], high: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
    """The absolute value, whether the first series holds there, and the one that does; the other one is at 8."""
    size, eight = ew.absolute(x), full_like(x, 8)
    is_near = lg.compare(size, eight, comparison_direction="LE")
    near, far = lg.select(is_near, size, eight), lg.select(is_near, eight, size)
    return size, is_near, lg.select(is_near, _series(low, near * 0.25 - 1.0), _series(high, 16.0 / far - 1.0))


@custom_jvp
def _i0e(x: Tensor) -> Tensor:
    size, is_near, series = _pieces(x, _I0_LOW, _I0_HIGH)
    return series * ew.rsqrt(lg.select(is_near, full_like(x, 1), size))


@_i0e.defjvp
def _i0e_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    y = _i0e(x)
    return y, t * (_i1e(x) - ew.sign(x) * y)


@custom_jvp
def _i1e(x: Tensor) -> Tensor:
    size, is_near, series = _pieces(x, _I1_LOW, _I1_HIGH)
    near, far = series / (size + 4.0) * x, series * ew.sign(x)
    return lg.select(is_near, near, far) * ew.rsqrt(lg.select(is_near, size + 4.0, size))


@_i1e.defjvp
def _i1e_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    y = _i1e(x)
    size, is_near, series = _pieces(x, _I1_LOW, _I1_HIGH)
    square = lg.select(is_near, size + 4.0, size)
    ratio = series * ew.rsqrt(square) / square  # I1(x) / x, which has a value at 0
    return y, t * (_i0e(x) - ratio - ew.sign(x) * y)


def of_real(name: str, f: Callable[..., Any], *xs: Any) -> Any:
    """The function of real numbers; those of 16 bits are computed in f32."""
    xs = tuple(inexacts(name, *xs))
    dtype = xs[0].dtype
    if is_complex(dtype):
        raise DtypeError(f"{name} requires real numbers, got {dtype}.", where=user_frame())
    if dtype.itemsize >= 4:
        return f(*xs)
    leaves, spec = pytree.flatten(f(*(convert(x, np.float32) for x in xs)))
    return pytree.unflatten(spec, [convert(y, dtype) for y in leaves])


@library
def i0e(x: Any) -> Tensor:
    """exp(-abs(x)) I0(x)."""
    return of_real("i0e", _i0e, x)


@library
def i1e(x: Any) -> Tensor:
    """exp(-abs(x)) I1(x)."""
    return of_real("i1e", _i1e, x)


@library
def i0(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Example:
      >>> round(float(i0(1.0)), 5)
      1.26607
    """
    return of_real("i0", lambda x: _i0e(x) * ew.exponential(ew.absolute(x)), x)


@library
def i1(x: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return of_real("i1", lambda x: _i1e(x) * ew.exponential(ew.absolute(x)), x)
