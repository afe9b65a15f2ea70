"""Convolutions and spectra under the names of `scipy.signal`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.jax.scipy.detrending import detrend as detrend
from nabla_mlir.jax.scipy.spectral import csd as csd
from nabla_mlir.jax.scipy.spectral import istft as istft
from nabla_mlir.jax.scipy.spectral import stft as stft
from nabla_mlir.jax.scipy.spectral import welch as welch
from nabla_mlir.numpy.filtering import convolved
from nabla_mlir.numpy.operands import inexact
from nabla_mlir.numpy.shapes import flip
from nabla_mlir.numpy.ufuncs import conj
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor


@library
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Tensor:
    """The convolution of arrays along all axes: "full", "same" (the shape of the first array) or "valid".

    Args:
      in1, in2: arrays with the same number of axes.
      mode: the part of the convolution that is returned.
      method: has no effect; products are always summed directly.
      precision: has no effect; every product has the precision of its dtype.

    Raises:
      ShapeError: the numbers of axes differ, or the mode is unknown.

    Example:
      >>> convolve(np.ones((2, 2)), np.ones((1, 2)), "full").tolist()
      [[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]
    """
    x, y = inexact(in1), inexact(in2)
    if mode == "valid" and x.ndim == y.ndim and all(m <= n for m, n in zip(x.shape, y.shape, strict=True)):
        x, y = y, x
    return convolved("convolve", x, y, mode) if x.ndim else x * y


@library
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Tensor:
    """The correlation of arrays along all axes; arguments as for `convolve`."""
    x, y = inexact(in1), inexact(in2)
    swap = mode == "valid" and x.shape != y.shape and all(m <= n for m, n in zip(x.shape, y.shape, strict=True))
    if swap:
        return flip(conj(convolved("correlate", y, flip(conj(x)), mode)))
    return convolved("correlate", x, flip(conj(y)), mode) if x.ndim else x * conj(y)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: None = None) -> Any:
    """The convolution along all axes, as `convolve` does; no Fourier transform is used.

    Raises:
      ShapeError: `axes` is not None.
    """
    if axes is not None:
        raise ShapeError(f"fftconvolve requires axes=None, got {axes}.", where=user_frame(), help="use vmap over the others.")
    return convolve(in1, in2, mode)


def _two_axes(name: str, f: Any, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any) -> Any:
    """The result of ``f(in1, in2, mode)`` for two matrices; raises ShapeError for other arrays, and for a boundary other than
    zeros.
    """
    if np.ndim(in1) != 2 or np.ndim(in2) != 2 or boundary != "fill" or fillvalue != 0:
        raise ShapeError(
            f"{name} requires matrices and zeros around them, got {np.ndim(in1)} and {np.ndim(in2)} axes, "
            f"{boundary!r} and {fillvalue}.",
            where=user_frame(),
            help="pad the first one.",
        )
    return f(in1, in2, mode)


def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None) -> Any:
    """The convolution of matrices; arguments as for `convolve`."""
    return _two_axes("convolve2d", convolve, in1, in2, mode, boundary, fillvalue)


def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None) -> Any:
    """The correlation of matrices; arguments as for `convolve`.

    If the length of `in2` is even, "same" starts one element later than in `correlate`, as in SciPy.
    """
    out = _two_axes("correlate2d", correlate, in1, in2, "full" if mode == "same" else mode, boundary, fillvalue)
    if mode != "same":
        return out
    return out[tuple(slice(k // 2, k // 2 + n) for n, k in zip(np.shape(in1), np.shape(in2), strict=True))]
