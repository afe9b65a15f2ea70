"""Cosine transforms under the names of `scipy.fft`; Fourier transforms are those of `nabla_mlir.numpy.fft`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.operands import inexact
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def dct(x: Any, type: Static[int] = 2, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """The cosine transform ``y[k] = 2 sum_j x[j] cos(pi k (2 j + 1) / (2 N))`` along an axis, by one Fourier transform.

    Args:
      x: an array; the real and imaginary parts of complex numbers are transformed separately.
      type: 2.
      n: the length to which x is cut, or padded with zeros.
      axis: the axis of the transform.
      norm: None or "backward" for the formula above, "ortho" for an orthogonal transform.

    Raises:
      ShapeError: the type, the norm or the axis is invalid.

    Example:
      >>> dct(np.array([1.0, 1.0])).tolist()
      [4.0, 0.0]
    """
    x = inexact(x)
    if is_complex(x.dtype):
        return dct(x.real, type, n, axis, norm) + 1j * dct(x.imag, type, n, axis, norm)
    rows, at = _rows("dct", x, type, n, axis, norm)
    count = rows.shape[-1]
    order = np.concatenate([np.arange(0, count, 2), np.arange(1, count, 2)[::-1]])  # even indices, then odd ones reversed (Makhoul)
    spectrum = nnp.fft.fft(rows[..., order])
    cosines, sines = _twiddles(count, rows.dtype)
    y = 2 * (spectrum.real * cosines + spectrum.imag * sines)
    return nnp.moveaxis(y * _scale(count, rows.dtype) if norm == "ortho" else y, -1, at)


@library
def idct(x: Any, type: Static[int] = 2, n: Static[int | None] = None, axis: Static[int] = -1, norm: str | None = None) -> Tensor:
    """The inverse of `dct`; arguments and errors are those of `dct`.

    Example:
      >>> idct(np.array([4.0, 0.0])).tolist()
      [1.0, 1.0]
    """
    x = inexact(x)
    if is_complex(x.dtype):
        return idct(x.real, type, n, axis, norm) + 1j * idct(x.imag, type, n, axis, norm)
    y, at = _rows("idct", x, type, n, axis, norm)
    count = y.shape[-1]
    if norm == "ortho":
        y = y / _scale(count, y.dtype)
    mirrored = nnp.concatenate([nnp.zeros_like(y[..., :1]), y[..., :0:-1]], axis=-1)
    cosines, sines = _twiddles(count, y.dtype)
    # The spectrum of the reordered signal: (y[k] - i y[count - k]) exp(i pi k / (2 count)) / 2, with y[count] = 0.
    spectrum = nnp.asarray((y * cosines + mirrored * sines) / 2) + 1j * ((y * sines - mirrored * cosines) / 2)
    v = nnp.fft.ifft(spectrum).real
    position = np.empty(count, np.int64)
    position[np.concatenate([np.arange(0, count, 2), np.arange(1, count, 2)[::-1]])] = np.arange(count)
    return nnp.moveaxis(v[..., position], -1, at)


def dctn(x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """`dct` along several axes, by default along all; `s` are their lengths."""
    return _along("dctn", dct, x, type, s, axes, norm)


def idctn(x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The inverse of `dctn`."""
    return _along("idctn", idct, x, type, s, axes, norm)


def _along(what: str, transform: Any, x: Any, type: int, s: Any, axes: Any, norm: str | None) -> Any:
    """The array after the one-dimensional `transform` along each of several axes; raises ShapeError unless each axis has a length.

    `what` is the called function, and `s` are the lengths, or None.
    """
    count = np.ndim(x)
    if s is not None and len(s) > count:
        raise ShapeError(f"{what} requires at most {count} lengths, got {tuple(s)}.", where=user_frame())
    if axes is None:
        axes = range(count) if s is None else range(count - len(s), count)
    lengths = [None] * len(axes) if s is None else list(s)
    if len(lengths) != len(axes):
        raise ShapeError(f"{what} requires a length for each axis, got {lengths} for axes {list(axes)}.", where=user_frame())
    for axis, length in zip(axes, lengths, strict=True):
        x = transform(x, type=type, n=length, axis=axis, norm=norm)
    return x


def _rows(what: str, x: Tensor, type: int, n: int | None, axis: int, norm: str | None) -> tuple[Tensor, int]:
    """The input with the transformed axis last, cut or padded to length `n`, and the number of that axis.

    Raises ShapeError for a type or norm that does not exist. `what` is the called function.
    """
    if type != 2 or norm not in (None, "backward", "ortho"):
        raise ShapeError(f"{what} requires type 2 and norm backward or ortho, got {type} and {norm!r}.", where=user_frame())
    number = axis_of(what, axis, x.ndim)
    rows = nnp.moveaxis(x, number, -1)
    if n is not None:
        more = max(0, n - rows.shape[-1])
        rows = nnp.pad(rows[..., :n], [(0, 0)] * (rows.ndim - 1) + [(0, more)])
    return rows, number


def _twiddles(count: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The cosines and sines of pi k / (2 count); with these factors, a cosine transform is a Fourier transform."""
    angles = np.pi * np.arange(count) / (2 * count)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def _scale(count: int, dtype: np.dtype) -> np.ndarray:
    """The factors of the norm "ortho", which make the cosine transform orthogonal."""
    scale = np.full(count, np.sqrt(1 / (2 * count)))
    scale[:1] = np.sqrt(1 / (4 * count))
    return scale.astype(dtype)
