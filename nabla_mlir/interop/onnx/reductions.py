"""Operators of ONNX along axes: reductions, indices of extremes, running sums, softmax, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir import nn
from nabla_mlir.interop.onnx.dtypes import dtype_of
from nabla_mlir.interop.onnx.table import Refusal, define, operator
from nabla_mlir.numpy.reductions import logsumexp, widened
from nabla_mlir.table.tensor import Tensor


def numbers(values: Any) -> tuple[int, ...]:
    """The integers of an attribute or of a known input."""
    return tuple(int(n) for n in np.ravel(values))


def _reduction(f: Callable[..., Any]) -> Callable[..., Any]:
    """The operator of ONNX for a reduction `f`: its axes are an attribute or an input."""

    def run(x: Tensor, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        """Reduces x over `axes`; without axes over all, or over none if `noop_with_empty_axes` is true."""
        axis = None if axes is None or not len(np.ravel(axes)) else numbers(axes)
        if axis is None and noop_with_empty_axes:
            axis = ()
        return f(x, axis, bool(keepdims)).astype(x.dtype)

    return run


def _norm(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The root of the sum of squares of x over `axis`, in float32 for narrower floats."""
    x = widened(x)
    return nnp.sqrt(nnp.sum(x * x, axis, keepdims=keepdims))


_SUMS: dict[str, Callable[..., Any]] = {
    "ReduceSum": lambda x, axis, keep: nnp.sum(x, axis, keepdims=keep),
    "ReduceMean": lambda x, axis, keep: nnp.mean(x, axis, keepdims=keep),
    "ReduceProd": lambda x, axis, keep: nnp.prod(x, axis, keepdims=keep),
    "ReduceMax": lambda x, axis, keep: _extreme(nnp.max, x, axis, keep),
    "ReduceMin": lambda x, axis, keep: _extreme(nnp.min, x, axis, keep),
    "ReduceL1": lambda x, axis, keep: nnp.sum(nnp.abs(x), axis, keepdims=keep),
    "ReduceL2": _norm,
    "ReduceSumSquare": lambda x, axis, keep: nnp.sum(x * x, axis, keepdims=keep),
    "ReduceLogSum": lambda x, axis, keep: nnp.log(nnp.sum(widened(x), axis, keepdims=keep)),
    "ReduceLogSumExp": lambda x, axis, keep: logsumexp(x, axis, keepdims=keep),
}
for _name, _function in _SUMS.items():
    define(_name, _reduction(_function), static=("axes",))


def _extreme(f: Callable[..., Any], x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The largest or smallest element along the axes by `f`, nnp.max or nnp.min; for an empty axis, the lowest or highest
    number.
    """
    is_max = f is nnp.max
    if x.dtype.kind == "b":
        return (nnp.any if is_max else nnp.all)(x, axis, keepdims=keepdims)
    if 0 not in x.shape:
        return f(x, axis, keepdims=keepdims)
    start: Any = -np.inf if is_max else np.inf
    if x.dtype.kind in "iu":
        start = getattr(np.iinfo(x.dtype), "min" if is_max else "max")
    return f(x, axis, keepdims=keepdims, initial=start)


def _arg_reduction(f: Callable[..., Any]) -> Callable[..., Any]:
    """ONNX's ArgMax or ArgMin from `f`, NumPy's function; ONNX can also select the last of equal elements."""

    def run(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        """The index along `axis` at which `f`, such as argmax, finds its element: the first one, or the last with
        `select_last_index`.
        """
        positions = f(nnp.flip(x, axis) if select_last_index else x, axis=axis, keepdims=bool(keepdims)).astype(np.int64)
        return x.shape[axis] - 1 - positions if select_last_index else positions

    return run


define("ArgMax", _arg_reduction(nnp.argmax))
define("ArgMin", _arg_reduction(nnp.argmin))


def _running(f: Callable[..., Any], start: int) -> Callable[..., Any]:
    """The operator of ONNX for a running sum or product `f`, which begins with `start`."""

    def run(x: Tensor, axis: Any, exclusive: int = 0, reverse: int = 0) -> Tensor:
        """The running sum or product along an axis; with `exclusive` without the current element, with `reverse` from the end."""
        (axis,) = numbers(axis)
        x = nnp.flip(x, axis) if reverse else x
        if exclusive:  # shifted by one element: the last one is cut off, and `start` comes first
            widths = [(0, 0)] * x.ndim
            widths[axis] = (1, 0)
            without_last = tuple(slice(None, -1) if i == axis % x.ndim else slice(None) for i in range(x.ndim))
            x = nnp.pad(x[without_last], widths, constant_values=start)
        y = f(x, axis).astype(x.dtype)
        return nnp.flip(y, axis) if reverse else y

    return run


define("CumSum", _running(nnp.cumsum, 0), static=("axis",))
define("CumProd", _running(nnp.cumprod, 1), static=("axis",))

# ---------------------------------------------------------------- softmax


def _with_flattened_axes(f: Callable[..., Any]) -> Callable[..., Any]:
    """The operator `f` before opset 13, which flattens the axes from `axis` on to one axis."""

    def run(x: Tensor, axis: int = 1) -> Tensor:
        """The result of `f` for x as a matrix, whose columns are the axes from `axis` on; it has the shape of x."""
        axis = axis + x.ndim if axis < 0 else axis
        return f(x.reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape)

    return run


def _hardmax(x: Tensor, axis: int = -1) -> Tensor:
    """One at the first largest element along `axis` of x, zero elsewhere."""
    return nn.one_hot(nnp.argmax(x, axis), x.shape[axis], x.dtype, axis % x.ndim)


_SOFT: dict[str, Callable[..., Any]] = {"Softmax": nn.softmax, "LogSoftmax": nn.log_softmax, "Hardmax": _hardmax}
for _name, _function in _SOFT.items():
    define(_name, _with_flattened_axes(_function))
    define(_name, lambda x, axis=-1, f=_function: f(x, axis), since=13)


@operator("LpNormalization")
def _lp_normalization(x: Tensor, axis: int = -1, p: int = 2) -> Tensor:
    """x divided by its norm along an axis; zeros stay zeros."""
    dtype, x = x.dtype, widened(x)
    size = nnp.sum(nnp.abs(x), axis, keepdims=True) if p == 1 else nnp.sum(x * x, axis, keepdims=True)
    is_zero = size == 0
    size = nnp.where(is_zero, nnp.ones_like(size), size)
    return nnp.where(is_zero, nnp.zeros_like(x), x / (size if p == 1 else nnp.sqrt(size))).astype(dtype)


@operator("TopK", static=("k",))
def _top_k(x: Tensor, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis, and their indices; equal elements stay in their order."""
    (count,) = numbers(k)
    positions = nnp.argsort(x, axis, descending=bool(largest), stable=True)
    positions = nnp.take(positions, np.arange(count), axis)
    return nnp.take_along_axis(x, positions, axis), positions.astype(np.int64)


# ---------------------------------------------------------------- random numbers, and matrices shaped like an input


@operator(
    "Bernoulli",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    is_raw=True,
    is_folded=False,
)
def _random(*xs: Any, **attributes: Any) -> Any:
    raise Refusal("no random numbers, because ONNX does not define them", "a draw")


@operator("EyeLike")
def _eye_like(x: Tensor, dtype: Any = None, k: int = 0) -> Tensor:
    """A matrix of the shape of x with ones on diagonal k; raises Refusal if x is no matrix."""
    if x.ndim != 2:
        raise Refusal("a matrix", f"shape {x.shape}")
    return nnp.eye(*x.shape, k=k, dtype=x.dtype if dtype is None else dtype_of(dtype))
