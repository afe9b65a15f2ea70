"""Legalisation of fast Fourier transforms: any length, up to three dimensions, single and double precision.

A transform of length n1 n2 consists of transforms of length n1 (a product with a small matrix), a multiplication by
roots of unity, and transforms of length n2. Real and imaginary parts are separate arrays, so all products are real.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.kernels.fourier import cosines_and_sines
from nabla_mlir.passes.iree.kernels.transforms import transform
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()


Parts = tuple[Val, Val | None]  # real and imaginary part; None is zero


@PATTERNS.of("stablehlo.fft")
def fft(op: ir.Operation, target: Target) -> Replacement:
    """A Fourier transform by kernels or products; None if IREE compiles it.

    IREE compiles transforms in single precision along the last axis if its length is a power of two.
    """
    (x,) = operands(op)
    lengths = hlo.I64Array.decode(op.attributes["fft_length"])
    kind = hlo.enum("fft_type").decode(op.attributes["fft_type"])
    result = Val(op.results[0])
    if 0 in x.shape or 0 in lengths:
        return b.full(0, result.shape, result.dtype)
    kernels = transform(x, kind, lengths)
    if kernels is not None:
        return kernels
    single = result.dtype.name in ("complex64", "float32")
    if len(lengths) == 1 and single and lengths[0] > 1 and lengths[0] & (lengths[0] - 1) == 0:
        return None
    inverse = kind in ("IFFT", "IRFFT")
    others = range(x.rank - len(lengths), x.rank - 1)
    parts: Parts = (b.real(x), b.imag(x) if x.dtype.kind == "c" else None)
    if kind == "IRFFT":
        for axis in others:
            parts = _along(parts, axis, True)
        parts = _along(_whole_spectrum(parts, lengths[-1]), x.rank - 1, True)
        return parts[0]
    parts = _along(parts, x.rank - 1, inverse)
    if kind == "RFFT":
        re, im = (b.cut(p, -1, 0, lengths[-1] // 2 + 1) for p in _both(parts))
        parts = re, im
    for axis in others:
        parts = _along(parts, axis, inverse)
    return b.complex_(*_both(parts))


def _both(parts: Parts) -> tuple[Val, Val]:
    """The real part, and the imaginary part, which is an array of zeros if it is None in `parts`."""
    return parts[0], b.splat(0.0, parts[0]) if parts[1] is None else parts[1]


def _whole_spectrum(parts: Parts, n: int) -> Parts:
    """The real and imaginary parts of all n values of the spectrum of a real signal, from those of the first half.

    The second half has the conjugates of the first half, in reverse order.
    """
    re, im = _both(parts)
    mirror = [b.reverse(b.cut(p, -1, 1, (n + 1) // 2), [p.rank - 1]) for p in (re, im) if n > 2]
    re, im = (b.cut(p, -1, 0, n // 2 + 1) for p in (re, im))
    if not mirror:
        return re, im
    return b.concat([re, mirror[0]], re.rank - 1), b.concat([im, -mirror[1]], im.rank - 1)


def _along(parts: Parts, axis: int, inverse: bool) -> Parts:
    """The real and imaginary parts of the transform along one axis; the inverse one is scaled by 1/n."""
    rank, shape = parts[0].rank, parts[0].shape
    order = [*(d for d in range(rank) if d != axis), axis]
    back = sorted(range(rank), key=lambda i: order[i])
    n = shape[axis]
    flat = (math.prod(shape) // n, n)
    re, im = (None if p is None else b.reshape(b.transpose(p, order), flat) for p in parts)
    assert re is not None
    if inverse:  # swapping the parts before and after changes the sign of the exponent
        im, re = _transform(_both((re, im))[1], re)
        assert re is not None
        re, im = re * (1.0 / n), im * (1.0 / n)
    else:
        re, im = _transform(re, im)
    order_shape = [shape[d] for d in order]
    return b.transpose(b.reshape(re, order_shape), back), b.transpose(b.reshape(im, order_shape), back)


def _roots(n: int, exponents: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The cosines and the sines of -2 pi k / n, for each k of the exponents."""
    both = cosines_and_sines(exponents, n).astype(dtype)
    return both[:, 0], both[:, 1]


def _radix(n: int) -> int:
    """The factor of n for one step: the largest one up to 32, else the smallest prime.

    It is n if n is prime, or small enough for one product.
    """
    if n <= thresholds.DENSE_TRANSFORM:
        return n
    small = [d for d in range(2, 33) if n % d == 0]
    if small:
        return small[-1]
    return next((d for d in range(33, math.isqrt(n) + 1) if n % d == 0), n)


def _transform(re: Val, im: Val | None) -> tuple[Val, Val]:
    """The real and imaginary parts of the forward transform of the rows of batch x n; `im` is None for real rows.

    For n = n1 n2, element t1 n2 + t2 goes through three steps: a transform over t1 (to k1), a product with exp(-2 pi i t2 k1 / n),
    and a transform over t2 (to k2). The result has index k2 n1 + k1. A prime n is one product with a matrix, or Bluestein's
    algorithm.
    """
    rows, n = re.shape
    if n == 1:
        return _both((re, im))
    n1 = _radix(n)
    if n1 == n and n > thresholds.DENSE_PRIME_TRANSFORM:
        return _bluestein(re, im)
    if n1 == n:
        return _dense(re, im, 1)
    n2 = n // n1
    columns = None if im is None else b.reshape(im, (rows, n1, n2))
    both = _multiply_roots(*_dense(b.reshape(re, (rows, n1, n2)), columns, 1), n)  # rows, t2, k1
    re, im = (b.reshape(b.transpose(p, [0, 2, 1]), (rows * n1, n2)) for p in both)
    both = _transform(re, im)
    re, im = (b.reshape(b.transpose(b.reshape(p, (rows, n1, n2)), [0, 2, 1]), (rows, n)) for p in both)
    return re, im


def _dense(re: Val, im: Val | None, axis: int) -> tuple[Val, Val]:
    """The real and imaginary parts of the transform along `axis`, as a product with its matrix.

    The transformed axis is the last one of the result; `im` is None for real arrays.
    """
    n = re.shape[axis]
    cos, sin = _roots(n, np.outer(np.arange(n), np.arange(n)), re.dtype)
    matrix = b.constant(np.concatenate([cos, sin], 1))

    def product(p: Val) -> tuple[Val, Val]:
        """The real and imaginary parts of the transform of the real array p."""
        both = b.dot(p, matrix, ([axis], [0]))
        return b.cut(both, -1, 0, n), b.cut(both, -1, n, 2 * n)

    rr, ri = product(re)
    if im is None:
        return rr, ri
    ir_, ii = product(im)
    return rr - ii, ri + ir_


def _multiply_roots(re: Val, im: Val, n: int) -> tuple[Val, Val]:
    """The real and imaginary parts of the array, whose element (t, k) of each row is multiplied by exp(-2 pi i t k / n)."""
    _, n2, n1 = re.shape
    if n <= thresholds.CONSTANT_ROOTS:
        cos, sin = (b.constant(c) for c in _roots(n, np.outer(np.arange(n2), np.arange(n1)), re.dtype))
    else:
        k = b.iota((n2, n1), 0, np.int64) * b.iota((n2, n1), 1, np.int64)
        angle = b.convert(b.binary("stablehlo.remainder", k, n), re.dtype) * (-2.0 * math.pi / n)
        cos, sin = b.unary("stablehlo.cosine", angle), b.unary("stablehlo.sine", angle)
    cos, sin = (b.broadcast(c, re.shape, [1, 2]) for c in (cos, sin))
    return re * cos - im * sin, re * sin + im * cos


def _bluestein(re: Val, im: Val | None) -> tuple[Val, Val]:
    """The real and imaginary parts of the transform of rows of prime length n, by Bluestein's algorithm.

    With chirp_t = exp(-pi i t² / n): result k is chirp_k times the sum over t of x_t chirp_t conj(chirp_(k - t)), because 2 t k =
    t² + k² - (k - t)². The sum is a cyclic convolution whose length is a power of two. `im` is None for real rows.
    """
    n = re.shape[1]
    m = 1 << (2 * n - 2).bit_length()
    t = np.arange(n)
    cos, sin = _roots(2 * n, t * t, np.dtype(np.float64))
    chirp = cos + 1j * sin
    kernel = np.zeros(m, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[m - n + 1 :] = chirp.conj()[:0:-1]
    spectrum = np.fft.fft(kernel)

    def times(re: Val, im: Val, factor: np.ndarray) -> tuple[Val, Val]:
        """The rows times a constant row of complex numbers."""
        c, s = (b.broadcast(b.constant(f.astype(re.dtype)), re.shape, [1]) for f in (factor.real, factor.imag))
        return re * c - im * s, re * s + im * c

    re, im = _both((re, im))
    re, im = times(re, im, chirp)
    re, im = (b.pad(p, [0, 0], [0, m - n]) for p in (re, im))
    re, im = times(*_power_of_two(re, im), spectrum)
    im, re = _power_of_two(im, re)  # the inverse, up to 1/m
    re, im = (b.cut(p, -1, 0, n) * (1.0 / m) for p in (re, im))
    return times(re, im, chirp)


def _power_of_two(re: Val, im: Val) -> tuple[Val, Val]:
    """The real and imaginary parts of the transform of rows whose length is a power of two, by kernels or else by products."""
    kernels = transform(b.complex_(re, im), "FFT", re.shape[1:])
    return _transform(re, im) if kernels is None else (b.real(kernels), b.imag(kernels))


@register
@dataclass(frozen=True)
class LegalizeFftPass(PatternPass):
    """Write Fourier transforms as products with matrices of roots of unity.

    IREE compiles transforms in single precision along the last axis, if its length is a power of two. These stay. With
    `vector-bytes`, large transforms on a CPU are kernels of nabla_mlir.

    Example: tests/filecheck/passes/legalize_fft.mlir
    """

    name: ClassVar[str] = "nabla-legalize-fft"
    patterns: ClassVar[Patterns] = PATTERNS
    vector_bytes: int = 0  # width of the CPU's vector registers, for kernels of large transforms; 0: products
