"""Large Fourier transforms as kernels: one kernel for each axis, two for a long axis.

Functions return None if there is no kernel: a length has a prime factor that is too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.passes.iree.internals.dispatches import call_kernel
from nabla_mlir.passes.iree.kernels.fourier import Strides, Transforms, cosines_and_sines, fourier_text, radices, roots, share
from nabla_mlir.passes.iree.kernels.scalars import BYTES
from nabla_mlir.passes.iree.kernels.text import Form
from nabla_mlir.passes.iree.target import machine

_FLOATS = {"f32": np.float32, "f64": np.float64}


def transform(x: Val, kind: str, lengths: Sequence[int]) -> Val | None:
    """The transform of the last axes of `x`; None if `x` is small, or if a length has a large prime factor.

    Args:
      x: the operand.
      kind: FFT, IFFT, RFFT or IRFFT.
      lengths: the lengths of the transformed axes.
    """
    size = math.prod(x.shape[: x.rank - len(lengths)]) * math.prod(lengths)
    if machine().vector_bytes == 0 or not x.static or size < thresholds.TRANSFORM_AS_KERNEL:
        return None
    last, others = x.rank - 1, range(x.rank - len(lengths), x.rank - 1)
    result: Val | None = x
    if kind == "RFFT":
        result = _of_real_rows(x)
    elif kind != "IRFFT":
        result = _along(x, last, kind == "IFFT")
    for axis in others:
        result = None if result is None else _along(result, axis, kind in ("IFFT", "IRFFT"), result is not x)
    if kind == "IRFFT":
        return None if result is None else _to_real_rows(result, lengths[-1])
    return result


def _along(x: Val, axis: int, inverse: bool, in_place: bool = False) -> Val | None:
    """The transform of complex numbers along one axis; None if the length has a large prime factor.

    `in_place` allows that the result is written to the memory of `x`.
    """
    n, outer, inner = x.shape[axis], math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    scale = 1 / n if inverse else 1.0
    if n == 1:
        return x
    form, result = _form(x.dtype), (x.shape, x.dtype)
    if inner >= form.lanes and _is_one_step(n, form):
        strides = Strides(n * inner, 1, inner)
        spec = Transforms(n, outer, inner, strides, strides, inverse, scale, in_place=in_place)
        return _call(x, spec, *result)
    if inner > 1:
        order = [*(d for d in range(x.rank) if d != axis), axis]
        rows = _along(b.transpose(x, order), x.rank - 1, inverse)
        return None if rows is None else b.transpose(rows, sorted(range(x.rank), key=order.__getitem__))
    if outer >= form.lanes and _is_one_step(n, form):
        strides = Strides(0, n, 1)
        return _call(x, Transforms(n, 1, outer, strides, strides, inverse, scale), *result)
    return _in_two_steps(x, n, inverse, scale, *result)


def _in_two_steps(x: Val, n: int, inverse: bool, scale: float, shape: Sequence[int], dtype: np.dtype) -> Val | None:
    """The transforms of rows of n = n1 n2 numbers in two kernels, as an array of `shape`; None if n has no such factors.

    A row is seen as a matrix of n1 x n2. The first kernel transforms its columns and multiplies by roots of unity, the second one
    transforms its rows and writes them as columns.
    """
    form, rows = _form(x.dtype), math.prod(shape) // n if dtype.kind == "c" else math.prod(shape) // (2 * n)
    factors = _factors(n, form)
    if factors is None:
        return None
    n1, n2 = factors
    columns = Strides(n, 1, n2)
    first = Transforms(n1, rows, n2, columns, columns, inverse, whole=n)
    second = Transforms(n2, rows, n1, Strides(n, n2, 1), Strides(n, 1, n1), inverse, scale)
    return _call(_call(x, first, (rows, n), _complex(x.dtype)), second, shape, dtype)


def _of_real_rows(x: Val) -> Val | None:
    """The first half of the spectrum of real rows; None if the length has a large prime factor.

    If the length is even, two neighbours form one complex number.
    """
    n, rows, form = x.shape[-1], math.prod(x.shape[:-1]), _form(x.dtype)
    h, shape, dtype = n // 2, (*x.shape[:-1], n // 2 + 1), _complex(x.dtype)
    if n % 2 or n == 2:
        spectrum = _along(b.complex_(x, 0.0), x.rank - 1, False)
        return None if spectrum is None else b.cut(spectrum, -1, 0, n // 2 + 1)
    if rows >= form.lanes and _is_one_step(h, form):
        return _call(x, Transforms(h, 1, rows, Strides(0, h, 1), Strides(0, h + 1, 1), real=True), shape, dtype)
    pairs = _in_two_steps(x, h, False, 1.0, (*x.shape[:-1], h), dtype)
    if pairs is None:
        return None
    # Z(k) and conj Z(h - k), of which E, O and the result are computed as in `_part_halves` of fourier.py.
    first = b.concat([pairs, b.cut(pairs, -1, 0, 1)], x.rank - 1)
    mirror = b.reverse(first, [x.rank - 1])
    re, im, other_re, other_im = b.real(first), b.imag(first), b.real(mirror), -b.imag(mirror)
    cos, sin = _twiddles(h + 1, n, re)
    odd_re, odd_im = im - other_im, other_re - re
    parts = re + other_re + odd_re * cos - odd_im * sin, im + other_im + odd_re * sin + odd_im * cos
    return b.complex_(parts[0] * 0.5, parts[1] * 0.5)


def _to_real_rows(x: Val, n: int) -> Val | None:
    """The real rows of length n from the first half `x` of their spectrum; None if n has a large prime factor."""
    h, rows, form, dtype = n // 2, math.prod(x.shape[:-1]), _form(x.dtype), np.zeros(0, x.dtype).real.dtype
    shape = (*x.shape[:-1], n)
    x = b.cut(x, -1, 0, h + 1)
    if n % 2 or n == 2:
        mirrored = b.reverse(b.cut(x, -1, 1, (n + 1) // 2), [x.rank - 1])
        mirrored = b.complex_(b.real(mirrored), -b.imag(mirrored))
        first = b.cut(x, -1, 0, 1)  # its imaginary part is ignored
        whole = [b.complex_(b.real(first), 0.0), b.cut(x, -1, 1, h + 1), mirrored]
        rows_of = _along(b.concat(whole, x.rank - 1), x.rank - 1, True)
        return None if rows_of is None else b.real(rows_of)
    if rows >= form.lanes and _is_one_step(h, form):
        spec = Transforms(h, 1, rows, Strides(0, h + 1, 1), Strides(0, h, 1), True, 1 / n, real=True)
        return _call(x, spec, shape, dtype)
    # X(k) and conj X(h - k), of which 2 Z is computed as in `_join_halves` of fourier.py.
    first, mirror = b.cut(x, -1, 0, h), b.reverse(b.cut(x, -1, 1, h + 1), [x.rank - 1])
    re, im, other_re, other_im = b.real(first), b.imag(first), b.real(mirror), -b.imag(mirror)
    is_first = b.compare("EQ", b.iota(re.shape, x.rank - 1, np.int32), 0)
    im, other_im = (b.select(is_first, b.splat(0.0, part), part) for part in (im, other_im))
    cos, sin = _twiddles(h, n, re)
    odd_re, odd_im = re - other_re, im - other_im
    parts = re + other_re - (odd_im * cos - odd_re * sin), im + other_im + odd_re * cos + odd_im * sin
    return _in_two_steps(b.complex_(*parts), h, True, 1 / n, shape, dtype)


def _twiddles(count: int, n: int, like: Val) -> tuple[Val, Val]:
    """The cosines and sines of -2 pi k / n, k = 0 ... count - 1, along the last axis of arrays like `like`.

    They are products of entries of two tables, each of about sqrt(count) entries.
    """
    step, tables = share(count), []
    for k in (step * np.arange(-(-count // step)), np.arange(step)):
        tables.append([b.constant(part) for part in cosines_and_sines(k, n).T.astype(like.dtype)])
    shape = tuple(t[0].shape[0] for t in tables)
    (cos, sin), (low_cos, low_sin) = ([b.broadcast(p, shape, [d]) for p in parts] for d, parts in enumerate(tables))
    # The root k = high + low by the sum of angles: exp(i (a + b)) = exp(i a) exp(i b).
    both = cos * low_cos - sin * low_sin, cos * low_sin + sin * low_cos
    flat = (b.cut(b.reshape(p, (math.prod(shape),)), 0, 0, count) for p in both)
    re, im = (b.broadcast(p, like.shape, [like.rank - 1]) for p in flat)
    return re, im


def _call(x: Val, spec: Transforms, shape: Sequence[int], dtype: np.dtype) -> Val:
    """The result, of this shape and dtype, of a kernel that computes the transforms `spec` of x.

    The kernel sees a complex array as twice as many real numbers, and a row of real numbers as pairs.
    """
    form = _form(x.dtype)
    name = "_".join(
        map(
            str,
            (
                "irfft" if spec.real and spec.inverse else "rfft" if spec.real else "ifft" if spec.inverse else "fft",
                spec.n,
                spec.groups,
                spec.columns,
                *spec.source,
                *spec.target,
                spec.whole,
                round(1 / spec.scale),
                int(spec.in_place),
                form.element,
            ),
        )
    )
    tables = roots(spec, form)
    text, (_, memory) = fourier_text(name, spec, form, tables)
    types = [tensor_type(tuple(shape), dtype), ir.Type.parse(memory.type.replace("memref", "tensor"))]
    at = ir.InsertionPoint.current.block.owner.operation
    operands = [*([] if spec.in_place else [x.value]), *(b.constant(table.astype(_FLOATS[form.element])).value for table in tables)]
    result, _ = call_kernel(name, text, operands, types, at, onto=x.value if spec.in_place else None)
    return Val(result)


def _form(dtype: np.dtype) -> Form:
    """The form of vectors for real or complex numbers of this precision."""
    single = dtype in (np.float32, np.complex64)
    return Form.of("f32" if single else "f64", machine().vector_bytes)


def _complex(dtype: np.dtype) -> np.dtype:
    """The complex dtype with the precision of a real or complex dtype."""
    return np.dtype(np.complex64 if dtype in (np.float32, np.complex64) else np.complex128)


def _is_one_step(n: int, form: Form) -> bool:
    """True if one kernel can transform this length: its memory fits into a core's cache."""
    return n * form.lanes * BYTES[form.element] <= thresholds.TRANSFORM_MEMORY and radices(n, form) is not None


def _factors(n: int, form: Form) -> tuple[int, int] | None:
    """Two factors of about equal size that kernels can transform, each at least the number of lanes; None if there are none."""
    if radices(n, form) is None:
        return None
    for n1 in range(math.isqrt(n), form.lanes - 1, -1):
        if n % n1 == 0 and _is_one_step(n // n1, form):
            return n1, n // n1
    return None
