"""Operators of ONNX on signals: Fourier transforms. The last axis has the real part, or the real and imaginary parts."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.reductions import numbers
from nabla_mlir.interop.onnx.table import Refusal, operator
from nabla_mlir.numpy import fft
from nabla_mlir.ops.elementwise import make_complex
from nabla_mlir.table.tensor import Tensor


def _complex(x: Tensor) -> Tensor:
    """The complex numbers whose real and imaginary parts are the last axis of x; with one part they are real."""
    real = x[..., 0]
    return make_complex(real, x[..., 1] if x.shape[-1] == 2 else nnp.zeros_like(real))


def _parts(z: Tensor) -> Tensor:
    return nnp.stack([nnp.real(z), nnp.imag(z)], -1)


def _transform(x: Tensor, length: Any, axis: int, inverse: int, onesided: int) -> Tensor:
    """The discrete Fourier transform of `x` along an axis, of the given length; `onesided` means the first half of a real signal's.

    The real and imaginary parts are the last axis of the argument and of the result.
    """
    rank = x.ndim
    axis %= rank
    n = x.shape[axis] if length is None else numbers(length)[0]
    if inverse and onesided:
        return fft.irfft(_complex(x), n if length is not None else None, axis)[..., None]
    z = (fft.ifft if inverse else fft.fft)(_complex(x), n, axis)
    half = tuple(slice(n // 2 + 1) if onesided and i == axis else slice(None) for i in range(rank - 1))
    return _parts(z[half])


@operator("DFT", since=17, static=("dft_length",))
def _dft_of_opset_17(x: Tensor, dft_length: Any = None, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Tensor:
    return _transform(x, dft_length, axis, inverse, onesided)


@operator("DFT", since=20, static=("dft_length", "axis"))
def _dft(x: Tensor, dft_length: Any = None, axis: Any = None, inverse: int = 0, onesided: int = 0) -> Tensor:
    return _transform(x, dft_length, -2 if axis is None else numbers(axis)[0], inverse, onesided)


@operator("STFT", static=("frame_step", "frame_length"))
def _stft(signal: Tensor, frame_step: Any, window: Any = None, frame_length: Any = None, onesided: int = 1) -> Tensor:
    """The Fourier transform of each frame of a signal, shape (batch, frames, frequencies, 2); the last axis has real and imaginary
    part.

    Frames have `frame_length` samples, by default those of `window`, by which they are multiplied, and start each `frame_step`
    samples. `onesided` leaves out the frequencies that mirror others.
    """
    n = window.shape[0] if frame_length is None else numbers(frame_length)[0]
    starts = np.arange(0, signal.shape[1] - n + 1, numbers(frame_step)[0])
    frames = nnp.take(signal, starts[:, None] + np.arange(n), 1)
    if window is not None:
        frames = frames * window[:, None]
    return _transform(frames, None, 2, 0, onesided)


@operator("MelWeightMatrix", static=("bins", "length", "rate", "low", "high"))
def _mel_weight_matrix(bins: Any, length: Any, rate: Any, low: Any, high: Any, output_datatype: int = 1) -> Any:
    """Raises Refusal: onnx computes this matrix from known inputs, and these are not known or not consistent."""
    raise Refusal("known inputs that are consistent", [np.ravel(x).tolist() for x in (bins, length, rate, low, high)])
