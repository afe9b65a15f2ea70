"""Operators of ONNX on single elements: arithmetic, comparisons, functions, activations, conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir import nn
from nabla_mlir.interop.onnx.dtypes import dtype_of, saturated
from nabla_mlir.interop.onnx.table import define, operator
from nabla_mlir.jax.lax.elementwise import bitcast_convert_type, div
from nabla_mlir.jax.mirrored import original
from nabla_mlir.jax.scipy import special
from nabla_mlir.table.tensor import Tensor

# ---------------------------------------------------------------- one operand

_OF_ONE: dict[str, Callable[..., Any]] = {
    "Abs": nnp.abs,
    "Acos": nnp.acos,
    "Acosh": nnp.acosh,
    "Asin": nnp.asin,
    "Asinh": nnp.asinh,
    "Atan": nnp.atan,
    "Atanh": nnp.atanh,
    "BitwiseNot": nnp.bitwise_invert,
    "Ceil": nnp.ceil,
    "Cos": nnp.cos,
    "Cosh": nnp.cosh,
    "Erf": original(special.erf),
    "Exp": nnp.exp,
    "Floor": nnp.floor,
    "IsNaN": nnp.isnan,
    "Log": nnp.log,
    "Neg": nnp.negative,
    "Not": nnp.logical_not,
    "Reciprocal": nnp.reciprocal,
    "Relu": nn.relu,
    "Round": nnp.round,
    "Sigmoid": nn.sigmoid,
    "Sign": nnp.sign,
    "Sin": nnp.sin,
    "Sinh": nnp.sinh,
    "Softplus": nn.softplus,
    "Softsign": nn.soft_sign,
    "Sqrt": nnp.sqrt,
    "Tan": nnp.tan,
    "Tanh": nnp.tanh,
    "Mish": nn.mish,
    "HardSwish": lambda x: x * nnp.clip(x / 6 + 0.5, 0, 1),
}
for _name, _function in _OF_ONE.items():
    define(_name, lambda x, consumed_inputs=None, f=_function: f(x))


@operator("Identity", is_raw=True)
def _identity(x: Any) -> Any:
    return x


@operator("IsInf")
def _is_inf(x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """True at infinite elements of x: negative ones if `detect_negative`, positive ones if `detect_positive`."""
    signs = [x < 0] * bool(detect_negative) + [x > 0] * bool(detect_positive)
    return nnp.isinf(x) & functools.reduce(nnp.logical_or, signs, nnp.zeros_like(x, dtype=bool))


@operator("Clip")
def _clip(x: Tensor, min: Any = None, max: Any = None, consumed_inputs: Any = None) -> Tensor:
    """The array x with its elements limited to at least `min` and at most `max`; None is no limit."""
    x = x if min is None else nnp.maximum(x, min)
    return x if max is None else nnp.minimum(x, max)


# ---------------------------------------------------------------- activations


@operator("LeakyRelu")
def _leaky_relu(x: Tensor, alpha: float = 0.01, consumed_inputs: Any = None) -> Tensor:
    return nnp.where(x < 0, x * alpha, x)


@operator("ThresholdedRelu")
def _thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return nnp.where(x > alpha, x, nnp.zeros_like(x))


@operator("Elu")
def _elu(x: Tensor, alpha: float = 1.0, consumed_inputs: Any = None) -> Tensor:
    return nn.elu(x, alpha)


@operator("Celu")
def _celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return nn.celu(x, alpha)


@operator("Selu")
def _selu(
    x: Tensor, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875, consumed_inputs: Any = None
) -> Tensor:
    """The scaled exponential linear unit: gamma times x, or gamma * alpha * (exp(x) - 1) for negative x."""
    return nn.elu(x, alpha) * gamma


@operator("HardSigmoid")
def _hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None) -> Tensor:
    return nnp.clip(x * alpha + beta, 0, 1)


@operator("Gelu")
def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return nn.gelu(x, approximate == "tanh")


@operator("Swish")
def _swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    return x * nn.sigmoid(x * alpha)


@operator("Shrink")
def _shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    return nnp.where(x < -lambd, x + bias, nnp.where(x > lambd, x - bias, nnp.zeros_like(x))).astype(x.dtype)


@operator("PRelu")
def _prelu(x: Tensor, slope: Tensor, consumed_inputs: Any = None) -> Tensor:
    """x, with negative elements multiplied by `slope`."""
    if slope.ndim == 1 and x.ndim > 2 and slope.shape[0] == x.shape[1] != x.shape[-1]:  # slopes for channels, as before opset 7
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    return nnp.where(x < 0, x * slope, x)


# ---------------------------------------------------------------- two operands


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """The quotient; the quotient of integers is rounded towards zero."""
    return div(*nnp.broadcast_arrays(x, y)) if x.dtype.kind in "iu" else x / y


def _power(x: Tensor, y: Tensor) -> Tensor:
    """The power in the dtype of the base."""
    return nnp.power(x, y).astype(x.dtype)


def _with_broadcast_axis(f: Callable[..., Any]) -> Callable[..., Any]:
    """The operator `f` before opset 7: with `broadcast`, the axes of the second operand match the axes of the first from `axis`
    on.
    """

    def run(x: Tensor, y: Tensor, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None) -> Any:
        """The result of `f`; with `broadcast`, the first axis of y belongs to the axis `axis` of x, as in the first opsets."""
        if broadcast and axis is not None:
            y = y.reshape(*y.shape, *(1,) * (x.ndim - axis % max(x.ndim, 1) - y.ndim))
        return f(x, y)

    return run


_WITH_AXIS: dict[str, Callable[..., Any]] = {
    "Add": nnp.add,
    "Sub": nnp.subtract,
    "Mul": nnp.multiply,
    "Div": _quotient,
    "Pow": _power,
    "And": nnp.logical_and,
    "Or": nnp.logical_or,
    "Xor": nnp.logical_xor,
    "Less": nnp.less,
    "Greater": nnp.greater,
    "Equal": nnp.equal,
}
for _name, _function in _WITH_AXIS.items():
    define(_name, _with_broadcast_axis(_function))
    define(_name, lambda x, y, f=_function: f(x, y), since=7)

_OF_TWO: dict[str, Callable[..., Any]] = {
    "LessOrEqual": nnp.less_equal,
    "GreaterOrEqual": nnp.greater_equal,
    "BitwiseAnd": nnp.bitwise_and,
    "BitwiseOr": nnp.bitwise_or,
    "BitwiseXor": nnp.bitwise_xor,
}
for _name, _function in _OF_TWO.items():
    define(_name, lambda x, y, f=_function: f(x, y))


@operator("Mod")
def _mod(x: Tensor, y: Tensor, fmod: int = 0) -> Tensor:
    return nnp.fmod(x, y) if fmod else nnp.remainder(x, y)


@operator("BitShift")
def _bit_shift(x: Tensor, y: Tensor, direction: str = "") -> Tensor:
    return nnp.bitwise_left_shift(x, y) if direction == "LEFT" else nnp.bitwise_right_shift(x, y)


_VARIADIC: dict[str, Callable[..., Any]] = {"Max": nnp.maximum, "Min": nnp.minimum, "Sum": nnp.add}
for _name, _function in _VARIADIC.items():
    define(_name, lambda *xs, consumed_inputs=None, f=_function: functools.reduce(f, xs))


@operator("Mean")
def _mean(*xs: Tensor, consumed_inputs: Any = None) -> Tensor:
    return functools.reduce(nnp.add, xs) / len(xs)


@operator("Where")
def _where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return nnp.where(condition, x, y)


# ---------------------------------------------------------------- conversions


def cast(x: Tensor, dtype: np.dtype, saturate: int = 1) -> Tensor:
    """The elements of `x` in another dtype, as ONNX converts: integers of fewer bits wrap, and floats of 8 bits saturate on
    request.
    """
    if x.dtype.kind in "iu" and dtype.kind in "iu":
        return x.astype(dtype)
    return (saturated(x, dtype) if saturate else x).astype(dtype)


@operator("Cast")
def _cast(x: Tensor, to: Any = None, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return cast(x, dtype_of(to), saturate)


@operator("CastLike")
def _cast_like(x: Tensor, like: Tensor, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return cast(x, like.dtype, saturate)


@operator("BitCast")
def _bit_cast(x: Tensor, to: Any = None) -> Tensor:
    """The bits of x as elements of the dtype `to`, a number of ONNX's list."""
    dtype = dtype_of(to)
    if "bool" in (x.dtype.name, dtype.name):
        return x.astype(dtype)
    return bitcast_convert_type(x, dtype)
