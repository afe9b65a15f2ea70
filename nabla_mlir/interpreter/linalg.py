"""Factorisations, triangular systems and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nabla_mlir.interpreter.evaluations import evaluation, in_groups


@evaluation("stablehlo.cholesky")
def cholesky(x: np.ndarray, lower: bool) -> np.ndarray:
    """L with L Lᴴ = x, or its adjoint, from the same triangle of x; NaN if x is not positive definite."""

    def one(a: np.ndarray) -> np.ndarray:
        """The Cholesky factor of one matrix, or NaN in its triangle if the matrix is not positive definite."""
        triangle = np.tril(a) if lower else np.triu(a).conj().T
        try:
            factor = np.linalg.cholesky(triangle)
        except np.linalg.LinAlgError:
            factor = np.tril(np.full_like(a, np.nan))
        return factor if lower else factor.conj().T

    return in_groups(one, x, 2)


@evaluation("stablehlo.triangular_solve")
def triangular_solve(
    a: np.ndarray, b: np.ndarray, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str
) -> np.ndarray:
    """The solution of op(a) x = b, or of x op(a) = b, by substitution; the other triangle of a is not read."""
    if not left_side:
        a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
        lower = not lower
    if transpose_a != "NO_TRANSPOSE":
        a = np.swapaxes(a, -1, -2)
        lower = not lower
    if transpose_a == "ADJOINT":
        a = a.conj()
    x = b.copy()
    n = a.shape[-1]
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        x[..., i, :] -= (a[..., i, None, known] @ x[..., known, :])[..., 0, :]
        if not unit_diagonal:
            x[..., i, :] /= a[..., i, i, None]
    return x if left_side else np.swapaxes(x, -1, -2)


_TRANSFORMS: dict[str, Callable[..., np.ndarray]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


@evaluation("stablehlo.fft")
def fft(x: np.ndarray, fft_type: str, fft_length: Sequence[int]) -> np.ndarray:
    """The discrete Fourier transform of the last axes of `x`; `fft_type` is "FFT", "IFFT", "RFFT" or "IRFFT".

    `fft_length` has their lengths; for "RFFT" and "IRFFT" those of the real array.
    """
    lengths = tuple(fft_length)
    axes = tuple(range(-len(lengths), 0))
    if not math.prod(x.shape):
        return _empty_transform(x, fft_type, lengths)
    return _TRANSFORMS[fft_type](x, lengths, axes)


def _empty_transform(x: np.ndarray, fft_type: str, lengths: tuple[int, ...]) -> np.ndarray:
    """The Fourier transform of an array without elements: zeros of the shape and dtype of the result.

    `lengths` are the lengths of the transformed axes.
    """
    last = {"RFFT": lengths[-1] // 2 + 1 if lengths[-1] else 0, "IRFFT": lengths[-1]}.get(fft_type, x.shape[-1])
    kind = np.result_type(x, np.complex64) if fft_type != "IRFFT" else x.real.dtype
    return np.zeros((*x.shape[:-1], last), kind)
