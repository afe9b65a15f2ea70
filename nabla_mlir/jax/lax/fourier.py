"""The Fourier transform with the parameters of `jax.lax`; `numpy.fft` has a function for each kind."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy import fft as transforms
from nabla_mlir.numpy.operands import tensor
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor


class FftType(enum.IntEnum):
    """The kind of the transform: its direction, and a real input (RFFT) or a real result (IRFFT)."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


@library
def fft(x: Any, fft_type: Any, fft_lengths: Any) -> Tensor:
    """The Fourier transform along the last ``len(fft_lengths)`` axes.

    Args:
      x: an array; real for RFFT, complex for the others.
      fft_type: an `FftType`, or its name.
      fft_lengths: the length along each axis, or one number for one axis; the length of the real array for RFFT and IRFFT.

    Raises:
      ShapeError: a length does not fit, or the type is unknown.

    Example:
      >>> abs(fft(np.ones(4, np.complex64), "FFT", 4)).tolist()
      [4.0, 0.0, 0.0, 0.0]
    """
    if isinstance(fft_type, str) and fft_type.upper() not in FftType.__members__:
        raise ShapeError(f"fft requires a type among {', '.join(FftType.__members__)}, got {fft_type!r}.", where=user_frame())
    kind = FftType[fft_type.upper()] if isinstance(fft_type, str) else FftType(int(fft_type))
    lengths = tuple(int(n) for n in np.atleast_1d(np.asarray(fft_lengths)))
    shape = np.shape(x)
    if not lengths:
        return tensor(x)
    expected = (*lengths[:-1], lengths[-1] // 2 + 1) if kind is FftType.IRFFT else lengths
    if shape[len(shape) - len(lengths) :] != expected:
        raise ShapeError(f"fft requires axes of {expected} for lengths {lengths}, got the shape {shape}.", where=user_frame())
    return getattr(transforms, f"{kind.name.lower()}n")(x, s=lengths)
