"""Fourier transforms. Their transposes are plain (without conjugation), like the transposes of all operations here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.stablehlo import I64Array, enum
from nabla_mlir.ops.elementwise import conj
from nabla_mlir.sparsity import structure as patterns
from nabla_mlir.table.kinds import structural
from nabla_mlir.table.registry import OpDef, operation
from nabla_mlir.table.rules import Tensors
from nabla_mlir.table.samples import Case
from nabla_mlir.table.tensor import Tensor, constant
from nabla_mlir.table.traits import LONG

Shape = tuple[int, ...]


def _transpose(cts: Tensors, i: int, xs: Tensors, *, fft_type: str, fft_length: Shape) -> Tensor:
    """The cotangent of the operand xs[0] of a Fourier transform, from the cotangent cts[0] of its result.

    FFT and IFFT have symmetric matrices; the real transforms are each other's transposes up to weights. Only one half of the
    spectrum of a real signal is stored, so each of its inner frequencies counts twice.
    """
    ct = cts[0]
    if fft_type in ("FFT", "IFFT"):
        return fft(ct, fft_type=fft_type, fft_length=fft_length)
    n, size = fft_length[-1], math.prod(fft_length)
    twice = np.full(n // 2 + 1, 2.0)
    twice[0] = 1
    if n % 2 == 0:
        twice[-1] = 1
    if fft_type == "RFFT":
        return fft(conj(ct) * _weights(size / twice, ct), fft_type="IRFFT", fft_length=fft_length)
    spectrum = fft(ct, fft_type="RFFT", fft_length=fft_length)
    return conj(spectrum * _weights(twice / size, spectrum))


def _weights(row: np.ndarray, like: Tensor) -> Tensor:
    """A vector of weights, one for each frequency of the last axis, broadcast to the shape of `like`."""
    return operation("broadcast_in_dim")(constant(row.astype(like.dtype)), shape=like.shape, broadcast_dimensions=(like.ndim - 1,))


def _result(x: Tensor, fft_type: str, fft_length: Shape) -> list[Any]:
    """A list with the shape and the dtype of the result. RFFT returns one half of the spectrum, and IRFFT reads that half."""
    count, half = len(fft_length), (*fft_length[:-1], fft_length[-1] // 2 + 1)
    size, result_size = half if fft_type == "IRFFT" else fft_length, half if fft_type == "RFFT" else fft_length
    if x.shape[x.ndim - count :] != tuple(size):
        raise ShapeError(
            f"fft requires last axes of {tuple(size)} for {fft_type} of length {tuple(fft_length)}, got shape {x.shape}.",
            where=user_frame(),
        )
    dtype = np.result_type(x.dtype, np.complex64) if fft_type == "RFFT" else x.dtype
    dtype = x.dtype.type(0).real.dtype if fft_type == "IRFFT" else dtype
    return [((*x.shape[: x.ndim - count], *result_size), np.dtype(dtype))]


def _flops(outs: Tensors, xs: Tensors, fft_type: str, fft_length: Shape) -> int:
    """The operations of the Cooley-Tukey algorithm: five for each element and each halving; half as many for real numbers.

    `xs` are the operands and `outs` the results.
    """
    rows = max(xs[0].size, outs[0].size) // max(1, *(x.shape[-1] for x in (xs[0], outs[0])))
    halvings = math.log2(max(2, math.prod(fft_length)))
    return round((5 if fft_type in ("FFT", "IFFT") else 2.5) * rows * fft_length[-1] * halvings)


fft: OpDef = structural(
    "stablehlo.fft",
    pattern=patterns.last_axes,
    doc="Discrete Fourier transform over the last axes: FFT, IFFT, RFFT or IRFFT.",
    instructions=LONG,
    flops=_flops,
    attributes={"fft_type": enum("fft_type"), "fft_length": I64Array},
    result=_result,
    transpose=_transpose,
    batch=lambda xs, mapped, size, **params: [fft(xs[0], **params)],
    sample=[
        Case(((2, 5),), {"fft_type": "RFFT", "fft_length": (5,)}, numpy=np.fft.rfft),
        Case(((2, 3, 4),), {"fft_type": "RFFT", "fft_length": (3, 4)}, numpy=np.fft.rfft2),
    ],
)
