"""Discrete Fourier transforms with the names and semantics of `numpy.fft`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype, is_complex
from nabla_mlir.numpy.axes import Axis, axes_of, axis_of, padded
from nabla_mlir.numpy.inspection import placed
from nabla_mlir.numpy.operands import convert, inexact, require_real, tensor
from nabla_mlir.numpy.shapes import roll
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.fourier import fft as fft_record
from nabla_mlir.ops.shape import inverse, sliced, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor, constant

_NORMS = ("backward", "ortho", "forward")


# ---------------------------------------------------------------- helpers
def _input(name: str, x: Any, *, real: bool = False) -> Tensor:
    """The array `x` in a complex dtype, or in f32 or f64 if `real`, as the transform requires."""
    x = require_real(name, inexact(x)) if real else inexact(x)
    if not is_complex(x.dtype) and x.dtype.itemsize < 4:
        x = convert(x, np.float32)
    return x if real or is_complex(x.dtype) else convert(x, np.promote_types(x.dtype, np.complex64))


def _lengths(name: str, lengths: Sequence[Any]) -> tuple[int, ...]:
    """The lengths of a transform as integers; raises ShapeError if one is less than 1. `name` is the called function, for
    errors.
    """
    sizes = tuple(operator.index(n) for n in lengths)
    if any(n < 1 for n in sizes):
        raise ShapeError(f"{name} requires lengths of at least 1, got {sizes}.", where=user_frame())
    return sizes


def _fitted(x: Tensor, axis: int, length: int) -> Tensor:
    """Cuts or pads an axis to `length` elements; padding is zeros at the end."""
    n = x.shape[axis]
    return sliced(x, axis, 0, length) if n >= length else padded(x, axis, 0, length - n)


def _transform(name: str, x: Tensor, kind: str, sizes: Sequence[int], axes: Sequence[int], norm: str | None) -> Tensor:
    """The Fourier transform of `x` with the lengths `sizes` over `axes`, at most three at once, with the factor of `norm`.

    `name` is the caller, for errors, and `kind` is "FFT", "IFFT", "RFFT" or "IRFFT". A real transform computes half of the
    frequencies of the last axis, which is transformed first. Its inverse reads half of them and transforms this axis last.
    """
    norm = "backward" if norm is None else norm
    if norm not in _NORMS:
        raise ShapeError(f"{name} requires norm 'backward', 'ortho' or 'forward', got {norm!r}.", where=user_frame())
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name} requires different axes, got {tuple(axes)}.", where=user_frame())
    for axis, n in zip(axes, sizes, strict=True):
        half = kind == "IRFFT" and axis == axes[-1]
        x = _fitted(x, axis, n // 2 + 1 if half else n)
    groups = [list(range(i, min(i + 3, len(axes)))) for i in range(0, len(axes), 3)]
    complex_kind = {"RFFT": "FFT", "IRFFT": "IFFT"}.get(kind, kind)  # only the group with the last axis is real
    *others, last = groups
    order = [(last, kind), *((g, complex_kind) for g in others)]
    for group, step_kind in reversed(order) if kind == "IRFFT" else order:
        x = _over(x, step_kind, [sizes[i] for i in group], [axes[i] for i in group])
    n, is_inverse = math.prod(sizes), kind in ("IFFT", "IRFFT")
    factor = {"backward": 1, "ortho": n**0.5 if is_inverse else n**-0.5, "forward": n if is_inverse else 1 / n}[norm]
    return x if factor == 1 else x * factor


def _over(x: Tensor, kind: str, sizes: Sequence[int], axes: Sequence[int]) -> Tensor:
    """The transform of `x` of one kind ("FFT", "IFFT", "RFFT" or "IRFFT") over `axes`, of the lengths `sizes`, without a factor.

    The axes are moved to the end, where the operation transforms them, and back.
    """
    order = (*(d for d in range(x.ndim) if d not in axes), *axes)
    out = fft_record(transposed(x, order), fft_type=kind, fft_length=tuple(sizes))
    return transposed(out, inverse(order))


def _one(name: str, x: Tensor, kind: str, n: Any, axis: int, norm: str | None) -> Tensor:
    """The transform of `x` along one axis; `n` is the argument of the user: a length or None.

    `name` is the caller, for errors, and `kind` is "FFT", "IFFT", "RFFT" or "IRFFT".
    """
    axis = axis_of(name, axis, x.ndim)
    length = n if n is not None else 2 * (x.shape[axis] - 1) if kind == "IRFFT" else x.shape[axis]
    return _transform(name, x, kind, _lengths(name, [length]), [axis], norm)


def _many(name: str, x: Tensor, kind: str, s: Any, axes: Axis, norm: str | None) -> Tensor:
    """The transform of `x` along several axes; `s` and `axes` are the arguments of the user: lengths and axes, or None.

    `name` is the caller, for errors, and `kind` is "FFT", "IFFT", "RFFT" or "IRFFT".
    """
    if axes is None and s is not None:
        axes = tuple(range(x.ndim - len(s), x.ndim))
    positions = axes_of(name, axes, x.ndim)
    if s is None:
        s = [x.shape[d] for d in positions]
        if kind == "IRFFT" and s:
            s[-1] = 2 * (s[-1] - 1)
    sizes = _lengths(name, s)
    if len(sizes) != len(positions) or not positions:
        raise ShapeError(
            f"{name} requires a length for each of at least one axis, got {sizes} for {positions}.", where=user_frame()
        )
    return _transform(name, x, kind, sizes, positions, norm)


# ---------------------------------------------------------------- along one axis
@library
def fft(a: ArrayLike, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """``y[k] = sum_j a[j] exp(-2 pi i j k / n)`` along an axis.

    Args:
      a: an array; real numbers become complex.
      n: the length of the transform; `a` is cut or padded with zeros to this length.
      axis: the axis.
      norm: the direction with the factor 1/n: "backward" (the inverse; the default), "forward", or "ortho" (1/sqrt(n) in
        both).

    Raises:
      ShapeError: there is no such axis, length or norm.

    Example:
      >>> import numpy as np
      >>> np.abs(fft(np.array([1.0, 1.0, 1.0, 1.0]))).round(6).tolist()
      [4.0, 0.0, 0.0, 0.0]
    """
    return _one("fft", _input("fft", a), "FFT", n, axis, norm)


@library
def ifft(a: ArrayLike, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`; arguments and errors are those of `fft`.

    Example:
      >>> import numpy as np
      >>> np.abs(ifft(np.array([4.0, 0.0, 0.0, 0.0]))).round(6).tolist()
      [1.0, 1.0, 1.0, 1.0]
    """
    return _one("ifft", _input("ifft", a), "IFFT", n, axis, norm)


@library
def rfft(a: ArrayLike, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 frequencies of a real signal; the others are their conjugates.

    Args and errors are those of `fft`; DtypeError if `a` is complex.

    Example:
      >>> import numpy as np
      >>> np.abs(rfft(np.array([1.0, 1.0, 1.0, 1.0]))).round(6).tolist()
      [4.0, 0.0, 0.0]
    """
    return _one("rfft", _input("rfft", a, real=True), "RFFT", n, axis, norm)


@library
def irfft(a: ArrayLike, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: a real signal of length n; the default for m frequencies is 2 (m - 1).

    Example:
      >>> import numpy as np
      >>> np.asarray(irfft(np.array([4.0, 0.0, 0.0]))).round(6).tolist()
      [1.0, 1.0, 1.0, 1.0]
    """
    return _one("irfft", _input("irfft", a), "IRFFT", n, axis, norm)


@library
def hfft(a: ArrayLike, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """The real spectrum of a Hermitian signal; ``a`` is the first half, and the other half is its reversed conjugate."""
    a = _input("hfft", a)
    inverse = {"forward": "backward", "ortho": "ortho"}.get(norm or "backward", "forward")
    return _one("hfft", ew.conj(a), "IRFFT", n, axis, inverse)


@library
def ihfft(a: ArrayLike, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first half of the Hermitian signal with the real spectrum `a`."""
    inverse = {"forward": "backward", "ortho": "ortho"}.get(norm or "backward", "forward")
    return ew.conj(_one("ihfft", _input("ihfft", a, real=True), "RFFT", n, axis, inverse))


# ---------------------------------------------------------------- along several axes
@library
def fftn(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = None, norm: str | None = None) -> Tensor:
    """`fft` along several axes.

    Args:
      a: an array.
      s: the length along each axis; None means the lengths of `a`.
      axes: the axes; None means the last ``len(s)``, or all.
      norm: as for `fft`.

    Raises:
      ShapeError: there is no such axis, length or norm.

    Example:
      >>> import numpy as np
      >>> np.abs(fftn(np.ones((2, 2)))).round(6).tolist()
      [[4.0, 0.0], [0.0, 0.0]]
    """
    return _many("fftn", _input("fftn", a), "FFT", s, axes, norm)


@library
def ifftn(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`."""
    return _many("ifftn", _input("ifftn", a), "IFFT", s, axes, norm)


@library
def rfftn(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = None, norm: str | None = None) -> Tensor:
    """`rfft` along the last of several axes, and `fft` along the others."""
    return _many("rfftn", _input("rfftn", a, real=True), "RFFT", s, axes, norm)


@library
def irfftn(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`."""
    return _many("irfftn", _input("irfftn", a), "IRFFT", s, axes, norm)


@library
def fft2(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = (-2, -1), norm: str | None = None) -> Tensor:
    """The Fourier transform `fftn` along two axes, by default the last two."""
    return _many("fft2", _input("fft2", a), "FFT", s, axes, norm)


@library
def ifft2(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `fft2`."""
    return _many("ifft2", _input("ifft2", a), "IFFT", s, axes, norm)


@library
def rfft2(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = (-2, -1), norm: str | None = None) -> Tensor:
    """The Fourier transform `rfftn` along two axes, by default the last two."""
    return _many("rfft2", _input("rfft2", a, real=True), "RFFT", s, axes, norm)


@library
def irfft2(a: ArrayLike, s: Static[Any] = None, axes: Static[Any] = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `rfft2`."""
    return _many("irfft2", _input("irfft2", a), "IRFFT", s, axes, norm)


# ---------------------------------------------------------------- frequencies
def _frequencies(values: np.ndarray, d: float, dtype: Any) -> Tensor:
    """Divides the numbers of the frequencies by the distance `d` of the samples."""
    return constant((values / d).astype(Defaults.float if dtype is None else as_dtype(dtype)))


@placed
@library
def fftfreq(n: Static[int], d: float = 1.0, dtype: DTypeLike | None = None, *, device: Any = None) -> Tensor:
    """The frequencies of the elements of `fft` of n samples at a distance of `d`.

    Example:
      >>> fftfreq(4).tolist()
      [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies(np.fft.fftfreq(_lengths("fftfreq", [n])[0]), d, dtype)


@placed
@library
def rfftfreq(n: Static[int], d: float = 1.0, dtype: DTypeLike | None = None, *, device: Any = None) -> Tensor:
    """The frequencies of the elements of `rfft` of n samples at a distance of `d`.

    Example:
      >>> rfftfreq(4).tolist()
      [0.0, 0.25, 0.5]
    """
    return _frequencies(np.fft.rfftfreq(_lengths("rfftfreq", [n])[0]), d, dtype)


@library
def fftshift(x: ArrayLike, axes: Static[Axis] = None) -> Tensor:
    """Sorts frequencies in ascending order: frequency zero moves to the middle of each axis.

    Example:
      >>> import numpy as np
      >>> fftshift(np.array([0.0, 0.25, -0.5, -0.25])).tolist()
      [-0.5, -0.25, 0.0, 0.25]
    """
    x = tensor(x)
    positions = axes_of("fftshift", axes, x.ndim)
    return roll(x, tuple(x.shape[d] // 2 for d in positions), positions)


@library
def ifftshift(x: ArrayLike, axes: Static[Axis] = None) -> Tensor:
    """The inverse of `fftshift`."""
    x = tensor(x)
    positions = axes_of("ifftshift", axes, x.ndim)
    return roll(x, tuple(-(x.shape[d] // 2) for d in positions), positions)
