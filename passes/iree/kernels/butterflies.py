"""Discrete Fourier transforms of a few numbers in registers: the butterflies of longer transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from nabla_mlir.passes.iree.kernels.text import Text


class Complex(NamedTuple):
    """A vector of complex numbers, as two vectors."""

    re: str
    im: str


def dft(t: Text, xs: Sequence[Complex]) -> list[Complex]:
    """The discrete Fourier transform y of n vectors x: y_k is the sum over j of x_j exp(-2 pi i j k / n).

    For even n: y_k = E_k + w_k O_k and y_(k + n/2) = E_k - w_k O_k, where E and O are the transforms of the elements with even and
    odd indices, and w_k = exp(-2 pi i k / n).
    """
    n = len(xs)
    if n == 1:
        return list(xs)
    if n % 2:
        return _odd(t, xs)
    even, odd = dft(t, xs[0::2]), [_turned(t, x, k, n) for k, x in enumerate(dft(t, xs[1::2]))]
    pairs = list(zip(even, odd, strict=True))
    return [*(plus(t, x, y) for x, y in pairs), *(minus(t, x, y) for x, y in pairs)]


def plus(t: Text, x: Complex, y: Complex) -> Complex:
    """The sum x + y of vectors of complex numbers."""
    return Complex(t.plus(x.re, y.re), t.plus(x.im, y.im))


def minus(t: Text, x: Complex, y: Complex) -> Complex:
    """The difference x - y of vectors of complex numbers."""
    return Complex(t.minus(x.re, y.re), t.minus(x.im, y.im))


def times(t: Text, x: Complex, y: Complex) -> Complex:
    """The product x y of vectors of complex numbers."""
    re = t.minus(t.multiplied(x.re, y.re), t.multiplied(x.im, y.im))
    return Complex(re, t.plus(t.multiplied(x.re, y.im), t.multiplied(x.im, y.re)))


def _turned(t: Text, x: Complex, k: int, n: int) -> Complex:
    """The product x exp(-2 pi i k / n), for k below n / 2; without a multiplication if the factor is 1 or -i."""
    if k == 0:
        return x
    if 4 * k == n:
        return Complex(x.im, t.result(f"arith.negf {x.re} : {t.form.vector}"))
    cos, sin = _root(t, k, n)
    if 8 * k == n:  # cosine and sine have the same size
        return Complex(t.multiplied(t.plus(x.re, x.im), cos), t.multiplied(t.minus(x.im, x.re), cos))
    return times(t, x, Complex(cos, sin))


def _odd(t: Text, xs: Sequence[Complex]) -> list[Complex]:
    """The transform of an odd number n of vectors: elements j and n - j share the cosine, and have sines of opposite signs.

    With c = cos(-2 pi j k / n) and s = sin(-2 pi j k / n): result k is x_0 + sum (x_j + x_(n-j)) c + i sum (x_j - x_(n-j)) s over j
    = 1 ... n // 2, and result n - k has the other sign before i.
    """
    n = len(xs)
    sums = [plus(t, xs[j], xs[n - j]) for j in range(1, n // 2 + 1)]
    differences = [minus(t, xs[j], xs[n - j]) for j in range(1, n // 2 + 1)]
    first = xs[0]
    for x in sums:
        first = plus(t, first, x)
    results = [first] * n
    for k in range(1, n // 2 + 1):
        # even: the sum with the cosines; odd: the sum with the sines, without the factor i.
        even, odd = xs[0], None
        for j, (x, y) in enumerate(zip(sums, differences, strict=True), 1):
            cos, sin = _root(t, j * k % n, n)
            even = Complex(*(t.plus(e, t.multiplied(v, cos)) for e, v in zip(even, x, strict=True)))
            terms = Complex(t.multiplied(y.re, sin), t.multiplied(y.im, sin))
            odd = terms if odd is None else plus(t, odd, terms)
        assert odd is not None
        results[k] = Complex(t.minus(even.re, odd.im), t.plus(even.im, odd.re))
        results[n - k] = Complex(t.plus(even.re, odd.im), t.minus(even.im, odd.re))
    return results


def _root(t: Text, k: int, n: int) -> tuple[str, str]:
    """Cosine and sine of -2 pi k / n in every lane."""
    angle = -2.0 * math.pi * k / n
    cos, sin = (t.constant(f"dense<{f(angle):.17e}>", t.form.vector) for f in (math.cos, math.sin))
    return cos, sin
