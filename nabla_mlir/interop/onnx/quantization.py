"""Operators of ONNX on quantized numbers, integers q that represent x = (q - zero_point) * scale."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.dtypes import dtype_of, saturated
from nabla_mlir.interop.onnx.table import operator
from nabla_mlir.interop.onnx.windows import convolve
from nabla_mlir.table.tensor import Tensor


def _along(vector: Tensor, like: Tensor, axis: int, block_size: int = 0) -> Tensor:
    """The scales or zero points `vector`, reshaped so that they broadcast with `like`: one for all, for each index of `axis`, or
    for each block of `block_size` indices.
    """
    if not vector.ndim or (vector.size == 1 and vector.ndim <= 1):
        return vector.reshape(())
    if block_size:
        repeated = nnp.repeat(vector, block_size, axis)
        return repeated[tuple(slice(n) for n in like.shape)]  # the last block may be shorter
    if vector.ndim > 1:
        return vector
    return vector.reshape([-1 if i == axis % like.ndim else 1 for i in range(like.ndim)])


@operator("QuantizeLinear")
def _quantize(
    x: Tensor,
    scale: Tensor,
    zero: Any = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    saturate: int = 1,
    precision: int = 0,
) -> Tensor:
    """The integers round(x / scale) + zero that represent x, clipped to their dtype; or narrow floats, which are not rounded.

    There is one `scale` and `zero`, or one for each index along `axis`, or for each block of `block_size` indices. The other
    parameters are ONNX's attributes: the dtypes of the result and of the quotient.
    """
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else np.dtype(np.uint8)
    wide = (
        dtype_of(precision) if precision else np.promote_types(np.float32, x.dtype) if x.dtype.kind == "f" else np.dtype(np.float32)
    )
    ratio = x.astype(wide) / _along(scale, x, axis, block_size).astype(wide)
    shift = 0 if zero is None else _along(zero, x, axis, block_size).astype(wide)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return nnp.clip(nnp.round(ratio) + shift, bounds.min, bounds.max).astype(dtype)
    return (saturated(ratio + shift, dtype) if saturate else ratio + shift).astype(dtype)


@operator("DequantizeLinear")
def _dequantize(x: Tensor, scale: Tensor, zero: Any = None, axis: int = 1, block_size: int = 0, output_dtype: int = 0) -> Tensor:
    """The real numbers (x - zero) * scale that the integers x represent, in `output_dtype` or in the dtype of `scale`.

    There is one `scale` and `zero`, or one for each index along `axis`, or for each block of `block_size` indices.
    """
    dtype = dtype_of(output_dtype) if output_dtype else scale.dtype
    wide = np.promote_types(np.float32, scale.dtype) if scale.dtype.kind == "f" else np.dtype(np.float32)
    shift = 0 if zero is None else _along(zero, x, axis, block_size).astype(wide)
    return ((x.astype(wide) - shift) * _along(scale, x, axis, block_size).astype(wide)).astype(dtype)


def _shifted(x: Tensor, zero: Any, axis: int) -> Tensor:
    """The integers `x` minus their zero point, in 32 bits; `zero` is a number, one for each index along `axis`, or None for 0."""
    x = x.astype(np.int32)
    return x if zero is None else x - _along(zero, x, axis).astype(np.int32)


def _rescaled(total: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """A sum of products of quantized integers as quantized integers: times `factor`, rounded, plus `zero`, and clipped to
    its dtype.
    """
    bounds = np.iinfo(zero.dtype)
    integers = nnp.round(total.astype(np.float32) * factor.astype(np.float32)) + zero.astype(np.float32)
    return nnp.clip(integers, bounds.min, bounds.max).astype(zero.dtype)


@operator("MatMulInteger")
def _matmul_integer(a: Tensor, b: Tensor, a_zero: Any = None, b_zero: Any = None) -> Tensor:
    return nnp.matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero, -1))


@operator("QLinearMatMul")
def _qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor
) -> Tensor:
    """The product of two quantized matrices, as quantized integers of the scale `y_scale` and the zero point `y_zero`.

    An integer q with its scale and zero point stands for the number scale * (q - zero).
    """
    total = nnp.matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero, -1))
    factor = a_scale.astype(np.float32) * b_scale.astype(np.float32) / y_scale.astype(np.float32)
    return _rescaled(total, factor, y_zero)


@operator("ConvInteger")
def _conv_integer(
    x: Tensor, w: Tensor, x_zero: Any = None, w_zero: Any = None, kernel_shape: Any = None, **attributes: Any
) -> Tensor:
    """The convolution of the integers x and w in 32 bits, after their zero points are subtracted. `kernel_shape` has no effect."""
    return convolve(_shifted(x, x_zero, 1), _shifted(w, w_zero, 0), **attributes)


@operator("QLinearConv")
def _qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Any = None,
    kernel_shape: Any = None,
    **attributes: Any,
) -> Tensor:
    """A convolution of quantized arrays, whose numbers are scale * (integer - zero): exact sums of integers, rescaled to those of
    y.

    `x`, `w` and `bias` are integers; the other arrays are the scales and zero points of x, w and the result y. `kernel_shape` is
    not used.
    """
    total = convolve(_shifted(x, x_zero, 1), _shifted(w, w_zero, 0), bias, **attributes)
    return _rescaled(total, _along(x_scale * w_scale / y_scale, total, 1), y_zero)
