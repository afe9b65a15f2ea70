"""Bessel functions of the first kind of integer orders, and spherical harmonics, by stable recurrences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.numpy.bessel import of_real
from nabla_mlir.numpy.extrema import max
from nabla_mlir.numpy.joining import stack
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert, inexacts, require_integer, tensor
from nabla_mlir.numpy.ufuncs import absolute, cos, floor, minimum, sin, sqrt
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.scans import scan


def _orders(z: Tensor, v: int, n_iter: int) -> Tensor:
    """The Bessel functions of z of orders 0 to v, along a new first axis.

    Ratios of neighbouring orders are computed by downward recurrence, and normalised by 1 = J0 + 2 J2 + 2 J4 + ... The recurrence
    starts `n_iter` orders above those that it needs.
    """
    inside = absolute(z) < np.inf
    x = where(inside, z, 0.0)
    first = convert(floor(1.5 * max(absolute(x), initial=0.0)), x.dtype) + float(v + n_iter)

    def down(k: Any, r: Any, evens: Any) -> tuple[Any, Any]:
        """One step of the recurrence: the ratio r of the orders k and k - 1, and the sum of the even orders relative to order k
        - 1.
        """
        r = x / (2.0 * k - x * r)
        return r, where(k == 2.0 * floor(0.5 * k), r * (evens + 1.0), r * evens)

    def body(carry: Any) -> Any:
        """The state after a step down from order k."""
        k, *rest = carry
        return (k - 1.0, *down(k, *rest))

    zero = full_like(x, 0)
    _, r, evens = while_loop(lambda carry: carry[0] > float(v), body, (first, zero, zero))
    ratios = []
    for k in range(v, 0, -1):
        r, evens = down(full_like(first, k), r, evens)
        ratios.append(r)
    values = [1.0 / (1.0 + 2.0 * evens)]
    for r in reversed(ratios):
        values.append(values[-1] * r)
    return stack([where(inside, y, np.nan) for y in values])


_bessel: Any = custom_jvp(_orders, nondiff_argnums=(1, 2))


@_bessel.defjvp  # type: ignore[untyped-decorator]
def _bessel_jvp(v: int, n_iter: int, primals: Any, tangents: Any) -> Any:
    """The values and tangents of orders 0 to v; the derivative of an order is half the difference of its neighbours."""
    values = _bessel(primals[0], v + 1, n_iter)
    slopes = [-values[1], *(0.5 * (values[k - 1] - values[k + 1]) for k in range(1, v + 1))]
    return values[: v + 1], tangents[0] * stack(slopes)


@library
def bessel_jn(z: Any, *, v: Static[int], n_iter: Static[int] = 50) -> Tensor:
    """The Bessel functions of the first kind of orders 0 to v, along a new first axis.

    Args:
      z: real numbers; the cost grows with the largest one.
      v: the highest order.
      n_iter: the distance of the first order of the recurrence above the orders and the arguments.

    Raises:
      ShapeError: `v` is negative, or `n_iter` is not positive.

    Example:
      >>> [round(float(y), 5) for y in bessel_jn(1.0, v=1)]
      [0.7652, 0.44005]
    """
    if v < 0 or n_iter < 1:
        raise ShapeError(f"bessel_jn requires v of at least 0 and n_iter of at least 1, got {v} and {n_iter}.", where=user_frame())
    return of_real("bessel_jn", lambda z: _bessel(z, v, n_iter), z)


@library
def _harmonics(n: Any, m: Any, theta: Any, phi: Any, n_max: Static[int]) -> Tensor:
    """The spherical harmonics of degree n and order m at the angles theta and phi, by a recurrence in the order, then in the
    degree.

    `n_max` is the largest degree.
    """
    n, m = (require_integer("sph_harm_y", tensor(x)) for x in (n, m))
    n, m, theta, phi = (x + 0.0 for x in inexacts("sph_harm_y", n, m, theta, phi))
    n, order = minimum(stop_gradient(n), float(n_max)), absolute(stop_gradient(m))
    x, s = cos(theta), sin(theta)

    def step(carry: Any, k: Any) -> Any:
        """One step from degree k - 1 to k: updates the function of degree and order k, and the last two degrees of order m."""
        diagonal, last, older, found = carry
        diagonal = where(k <= order, -diagonal * s * sqrt((2.0 * k + 1.0) / (2.0 * k)), diagonal)
        above = k > order
        gap = where(above, k * k - order * order, 1.0)
        before = where(above, (k - 1.0) ** 2 - order * order, 0.0) / (4.0 * (k - 1.0) ** 2 - 1.0)
        new = sqrt((4.0 * k * k - 1.0) / gap) * (x * last - sqrt(where(before > 0.0, before, 0.0)) * older)
        new = where(k == order, diagonal, where(above, new, 0.0))
        return (diagonal, new, last, where(k == n, new, found)), None

    start = x * 0.0 + order * 0.0 + n * 0.0 + math.sqrt(0.25 / math.pi)
    last = where(order == 0.0, start, 0.0)
    degrees = np.arange(1.0, n_max + 1, dtype=x.dtype)
    (_, _, _, found), _ = scan(step, (start, last, start * 0.0, where(n == 0.0, last, 0.0)), degrees)
    angle = order * phi
    odd = order != 2.0 * floor(0.5 * order)
    below = m < 0.0
    # SciPy and JAX read abs(sin(theta)), which differs outside [0, pi] in odd orders.
    found = where((below ^ (s < 0.0)) & odd, -found, found)
    return ew.make_complex(found * cos(angle), where(below, -found, found) * sin(angle))


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: None = None, n_max: int | None = None) -> Tensor:
    """The spherical harmonics of degree n and order m, with the phase of Condon and Shortley, orthonormal on the sphere.

    Args:
      n, m: whole numbers, ``abs(m) <= n``.
      theta, phi: the polar angle in [0, pi], and the azimuth.
      diff_n: None; for derivatives use `grad`.
      n_max: the highest degree; larger degrees are clamped. None means the largest value of `n`, which must then be known.

    Raises:
      ShapeError: `diff_n` is not None.
      TraceError: `n_max` is None and `n` is traced.

    Example:
      >>> round(float(sph_harm_y(1, 0, 0.0, 0.0).real), 5)
      0.4886
    """
    if diff_n is not None:
        raise ShapeError("sph_harm_y requires diff_n=None.", where=user_frame(), help="use nm.grad or nm.jacfwd.")
    if n_max is None and isinstance(n, Tensor):
        raise TraceError("sph_harm_y requires n_max where n is traced.", where=user_frame(), help="pass n_max, the highest degree.")
    return _harmonics(n, m, theta, phi, int(np.max(n)) if n_max is None else n_max)
