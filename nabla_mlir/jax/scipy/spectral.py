"""Short-time Fourier transforms of a signal, and power spectra, which are means over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.jax.scipy.detrending import detrend as detrended
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.operands import common_dtype, inexact, inexact_dtype
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor

_WINDOWS: dict[str, Callable[[int], np.ndarray]] = {
    "hamming": np.hamming,
    "blackman": np.blackman,
    "bartlett": np.bartlett,
    "hann": np.hanning,
    "boxcar": np.ones,
}
_BOUNDARIES = {"zeros": "constant", "constant": "edge", "even": "reflect", "odd": "reflect"}


def _window(what: str, window: Any, nperseg: int, dtype: np.dtype) -> Any:
    """The weights of a window: the periodic form of a named window, or the given weights after a check of their number. Raises
    ShapeError for an unknown window.
    """
    if isinstance(window, str):
        if window not in _WINDOWS:
            raise ShapeError(
                f"{what} requires a window among {', '.join(_WINDOWS)}, or its weights, got {window!r}.",
                where=user_frame(),
                help="scipy.signal.get_window makes the weights of others.",
            )
        return _WINDOWS[window](nperseg + 1)[:nperseg].astype(dtype)
    weights = nnp.asarray(window)
    if weights.shape != (nperseg,):
        raise ShapeError(f"{what} requires as many weights as nperseg={nperseg}, got shape {weights.shape}.", where=user_frame())
    return weights


def _lengths(what: str, nperseg: int, noverlap: int | None, nfft: int | None) -> tuple[int, int]:
    """The overlap of the segments and the length of the transforms, with their defaults; raises ShapeError if they do not fit."""
    overlap, count = nperseg // 2 if noverlap is None else noverlap, nperseg if nfft is None else nfft
    if not 0 <= overlap < nperseg <= count:
        raise ShapeError(
            f"{what} requires 0 <= noverlap < nperseg <= nfft, got {overlap}, {nperseg} and {count}.", where=user_frame()
        )
    return overlap, count


def _segments(x: Tensor, nperseg: int, step: int) -> Tensor:
    """The overlapping segments of a signal along a new axis before the last one."""
    starts = np.arange(0, x.shape[-1] - nperseg + 1, step)
    return x[..., starts[:, None] + np.arange(nperseg)]


def _frequencies(count: int, is_onesided: bool, fs: Any) -> Any:
    return (nnp.fft.rfftfreq if is_onesided else nnp.fft.fftfreq)(count) * fs


def _transformed(segments: Tensor, detrend: Any, window: Any, count: int, is_onesided: bool) -> Tensor:
    """The Fourier transforms of length `count` of segments, after their trend is removed and they are multiplied by the window.

    `detrend` is a function, a name, or False; `is_onesided` keeps the frequencies that are not negative.
    """
    if callable(detrend):
        segments = detrend(segments)
    elif detrend:
        segments = detrended(segments, type=detrend)
    return (nnp.fft.rfft if is_onesided else nnp.fft.fft)(segments * window, count)


@library
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Static[int] = 256,
    noverlap: Static[int | None] = None,
    nfft: Static[int | None] = None,
    detrend: Static[Any] = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: Static[int] = -1,
) -> Any:
    """Computes the Fourier transforms of overlapping parts of a signal, each multiplied by a window.

    Args:
      x: a signal along `axis`.
      fs: the number of samples in a unit of time.
      window: "hann", "hamming", "blackman", "bartlett", "boxcar", or its weights.
      nperseg, noverlap: the length of a part, and the number of samples that it shares with the next part (by default half).
      nfft: the length of the transforms; parts are padded with zeros.
      detrend: False, or the trend that is subtracted from each part: "constant" or "linear".
      return_onesided: True returns only the frequencies >= 0 of a real signal.
      boundary: the extension of the signal by half a part at both ends: "zeros", "even", "odd", "constant", or None.
      padded: True pads the last part with zeros.
      axis: the axis of time.

    Returns:
      The frequencies, the times, and the transforms, with frequencies along `axis` and times along the last axis.

    Raises:
      ShapeError: the lengths, the window or the boundary are invalid.

    Example:
      >>> f, t, z = stft(np.ones(8), nperseg=4)
      >>> f.tolist(), z.shape
      ([0.0, 0.25, 0.5], (3, 5))
    """
    x = inexact(x)
    axis_number = axis_of("stft", axis, x.ndim)
    nperseg = min(nperseg, x.shape[axis_number])
    overlap, count = _lengths("stft", nperseg, noverlap, nfft)
    if boundary is not None and boundary not in _BOUNDARIES:
        raise ShapeError(f"stft requires a boundary among {', '.join(_BOUNDARIES)} and None, got {boundary!r}.", where=user_frame())
    rows, half = nnp.moveaxis(x, axis_number, -1), nperseg // 2
    none = [(0, 0)] * (rows.ndim - 1)
    if boundary is not None:
        around = nnp.pad(rows, [*none, (half, half)], mode=_BOUNDARIES[boundary])
        rows = 2 * nnp.pad(rows, [*none, (half, half)], mode="edge") - around if boundary == "odd" else around
    if padded:
        rows = nnp.pad(rows, [*none, (0, -(rows.shape[-1] - nperseg) % (nperseg - overlap) % nperseg)])
    weights = _window("stft", window, nperseg, np.dtype(rows.real.dtype))
    is_onesided = return_onesided and rows.dtype.kind != "c"
    z = _transformed(_segments(rows, nperseg, nperseg - overlap), detrend, weights, count, is_onesided) / nnp.abs(nnp.sum(weights))
    times = (half + np.arange(z.shape[-2]) * (nperseg - overlap) - (0 if boundary is None else half)) / nnp.asarray(fs)
    return _frequencies(count, is_onesided, fs), times, nnp.moveaxis(nnp.moveaxis(z, -1, -2), -2, axis_number)


@library
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Static[int | None] = None,
    noverlap: Static[int | None] = None,
    nfft: Static[int | None] = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: Static[int] = -1,
    freq_axis: Static[int] = -2,
) -> Any:
    """The inverse of `stft`: adds overlapping parts, and divides by the sum of the squared windows.

    Args:
      Zxx: the transforms.
      fs, window, nperseg, noverlap, nfft, input_onesided, boundary: the arguments of `stft`.
      time_axis, freq_axis: the axes of times and of frequencies.

    Returns:
      The times, and the signal, with time where `Zxx` has it if the axis of frequencies is left out.

    Raises:
      ShapeError: the lengths or the window do not fit.

    Example:
      >>> istft(stft(np.arange(8.0), nperseg=4)[2])[1].round(6).tolist()
      [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    z = inexact(Zxx)
    at, of_frequencies = (axis_of("istft", d, z.ndim) for d in (time_axis, freq_axis))
    z = nnp.moveaxis(z, (at, of_frequencies), (-2, -1))
    full = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    nperseg = full if nperseg is None else nperseg
    overlap, count = _lengths("istft", nperseg, noverlap, full if nfft is None else nfft)
    parts = (nnp.fft.irfft if input_onesided else nnp.fft.ifft)(z, count)[..., :nperseg]
    weights = _window("istft", window, nperseg, np.dtype(parts.real.dtype))
    step = nperseg - overlap
    length = nperseg + (parts.shape[-2] - 1) * step
    positions = np.arange(parts.shape[-2])[:, None] * step + np.arange(nperseg)
    x = nnp.zeros((*parts.shape[:-2], length), parts.dtype).at[..., positions].add(parts * weights) * nnp.abs(nnp.sum(weights))
    norm = nnp.zeros(length, weights.dtype).at[positions].add(nnp.broadcast_to(weights**2, positions.shape))
    x = x / nnp.where(norm > 1e-10, norm, 1)
    if boundary:
        x = x[..., nperseg // 2 : length - nperseg // 2]
    times = np.arange(x.shape[-1]) / nnp.asarray(fs)
    return times, nnp.moveaxis(x, -1, at - (of_frequencies < at))


@library
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Static[int | None] = None,
    noverlap: Static[int | None] = None,
    nfft: Static[int | None] = None,
    detrend: Static[Any] = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: Static[int] = -1,
    average: str = "mean",
) -> Any:
    """The cross power spectrum of two signals by the Welch method: the mean of ``conj(X) Y`` over overlapping parts.

    Args:
      x, y: signals along `axis`; y = None means x.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided: as for `stft`; the default of nperseg is 256.
      scaling: "density" (power for each unit of frequency) or "spectrum" (power).
      axis: the axis of time.
      average: "mean", or "median" divided by its bias.

    Returns:
      The frequencies and the spectrum.

    Raises:
      ShapeError: the lengths, the window, the scaling or the average are invalid.

    Example:
      >>> csd(np.ones(8), np.ones(8), nperseg=4, detrend=False)[1].round(4).real.tolist()
      [2.6667, 1.3333, 0.0]
    """
    if scaling not in ("density", "spectrum") or average not in ("mean", "median"):
        raise ShapeError(
            f"csd requires scaling density or spectrum and average mean or median, got {scaling!r} and {average!r}.",
            where=user_frame(),
        )
    first = nnp.asarray(x)
    second = first if y is None else nnp.asarray(y)
    axis_number = axis_of("csd", axis, first.ndim)
    dtype = inexact_dtype(common_dtype([first, second]))
    rows = [nnp.moveaxis(s.astype(dtype), axis_number, -1) for s in (first, second)]
    length = max(s.shape[-1] for s in rows)
    rows = [nnp.pad(s, [(0, 0)] * (s.ndim - 1) + [(0, length - s.shape[-1])]) for s in rows]
    nperseg = min(256 if nperseg is None else nperseg, length)
    overlap, count = _lengths("csd", nperseg, noverlap, nfft)
    weights = _window("csd", window, nperseg, np.dtype(rows[0].real.dtype))
    is_onesided = return_onesided and dtype.kind != "c"
    spectra = [_transformed(_segments(s, nperseg, nperseg - overlap), detrend, weights, count, is_onesided) for s in rows]
    scale = 1 / (fs * nnp.sum(weights**2)) if scaling == "density" else 1 / nnp.sum(weights) ** 2
    power = nnp.conj(spectra[0]) * spectra[1] * scale
    if is_onesided:
        factors = np.full(power.shape[-1], 2.0)
        factors[0] = 1.0
        if count % 2 == 0:
            factors[-1] = 1.0
        power = power * factors.astype(weights.dtype)
    power = nnp.mean(power, axis=-2) if average == "mean" else _median(power)
    return _frequencies(count, is_onesided, fs), nnp.moveaxis(power, -1, axis_number)


def _median(power: Tensor) -> Tensor:
    """The medians of the real and imaginary parts, divided by the bias of the median of a chi-squared distribution."""
    n = power.shape[-2]
    pairs = 2.0 * np.arange(1, (n - 1) // 2 + 1)
    bias = 1 + np.sum(1 / (pairs + 1) - 1 / pairs)
    return (nnp.median(power.real, axis=-2) + 1j * nnp.median(power.imag, axis=-2)) / float(bias)


def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Any:
    """The power spectrum of a signal; arguments as for `csd`.

    Example:
      >>> welch(np.ones(8), nperseg=4, detrend=False)[1].round(4).tolist()
      [2.6667, 1.3333, 0.0]
    """
    frequencies, power = csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return frequencies, power.real
