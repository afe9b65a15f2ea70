"""The methods `outer`, `reduce`, `accumulate` and `at` of functions of two arrays, which are ufuncs in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy import extrema, logic, reductions, running, ufuncs
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.operands import asarray
from nabla_mlir.numpy.shapes import moveaxis, reshape
from nabla_mlir.runtime.array import Array
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.scans import associative_scan

Function = Callable[..., Any]


def _elements(f: Function, a: Any, dtype: Any) -> Any:
    """The operand `a` of a method of the function `f` as an array of `dtype`; operands of logical functions become truth values."""
    x = asarray(a)
    dtype = np.bool_ if f in (logic.logical_and, logic.logical_or, logic.logical_xor) else dtype
    return x if dtype is None else x.astype(dtype)


def _outer(f: Function) -> Function:
    """The method `outer` of the binary function `f`."""

    def outer(a: Any, b: Any, /) -> Any:
        """The function of all pairs of elements; the shape of the result is ``a.shape + b.shape``."""
        x, y = asarray(a), asarray(b)
        return f(reshape(x, (*x.shape, *(1,) * y.ndim)), y)

    return outer


def _reduce(f: Function, total: Function | None) -> Function:
    """The method `reduce` of the binary function `f`. `total` is the reduction that exists for it, such as `sum` for `add`, or
    None.
    """

    def reduce(
        a: Any, axis: int | None = 0, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Any:
        """Combines the elements along `axis` (None: all)."""
        x = _elements(f, a, dtype)
        if total is not None:
            options = {"initial": initial, "where": where}
            return total(x, axis=axis, keepdims=keepdims, **{k: v for k, v in options.items() if v is not None})
        if where is not None:
            raise ShapeError(f"{f.__name__}.reduce requires where=None, got a mask.", where=user_frame())
        shape = (1,) * x.ndim if axis is None else tuple(1 if d == axis % x.ndim else n for d, n in enumerate(x.shape))
        rows = reshape(x, (x.size,)) if axis is None else moveaxis(x, axis, 0)
        if not rows.shape[0]:
            raise ShapeError(f"{f.__name__}.reduce requires an element, got shape {x.shape}.", where=user_frame())
        out = associative_scan(f, rows)[-1]
        out = out if initial is None else f(initial, out)
        return reshape(out, shape) if keepdims else out

    return reduce


def _accumulate(f: Function, running_total: Function | None) -> Function:
    """The method `accumulate` of the binary function `f`. `running_total` is the function that exists for it, such as `cumsum`, or
    None.
    """

    def accumulate(a: Any, axis: int = 0, dtype: Any = None) -> Any:
        """Combines the elements up to each position along `axis`."""
        x = _elements(f, a, dtype)
        axis = axis_of(f"{f.__name__}.accumulate", axis, x.ndim)
        return associative_scan(f, x, axis=axis) if running_total is None else running_total(x, axis)

    return accumulate


def _at(f: Function, update: str) -> Function:
    """The method `at` of the binary function `f`; `update` is the name of the indexed update, such as "add"."""

    def at(a: Any, indices: Any, b: Any, /, *, inplace: bool = True) -> Any:
        """Combines `b` into the elements of `a` at indices, which may repeat; assigns the result to `a` if `inplace`."""
        if inplace and not isinstance(a, (Array, Tensor)):
            raise ShapeError(
                f"{f.__name__}.at requires inplace=False or an array of nabla_mlir, got {type(a).__name__}.",
                where=user_frame(),
                help="with inplace=False the result is the new array.",
            )
        result = getattr(asarray(a).at[indices], update)(b)
        if not inplace:
            return result
        a[...] = result
        return None

    return at


# For each function: its reduction, its running form, and its update of indexed elements.
_METHODS: dict[Function, tuple[Function | None, Function | None, str | None]] = {
    ufuncs.add: (reductions.sum, running.cumsum, "add"),
    ufuncs.multiply: (reductions.prod, running.cumprod, "multiply"),
    ufuncs.maximum: (extrema.max, running.cummax, "max"),
    ufuncs.minimum: (extrema.min, running.cummin, "min"),
    ufuncs.logaddexp: (None, running.cumlogsumexp, None),
    ufuncs.logaddexp2: (None, None, None),
    logic.logical_and: (reductions.all, None, None),
    logic.logical_or: (reductions.any, None, None),
    logic.logical_xor: (None, None, None),
    logic.bitwise_and: (None, None, None),
    logic.bitwise_or: (None, None, None),
    logic.bitwise_xor: (None, None, None),
}
_PAIRS = (ufuncs.subtract, ufuncs.divide, ufuncs.power, ufuncs.arctan2, ufuncs.hypot)  # not associative

for _f, (_total, _running, _update) in _METHODS.items():
    _f.__dict__.update(outer=_outer(_f), reduce=_reduce(_f, _total), accumulate=_accumulate(_f, _running))
    if _update is not None:
        _f.__dict__["at"] = _at(_f, _update)
for _f in _PAIRS:
    _f.__dict__["outer"] = _outer(_f)
ufuncs.subtract.__dict__["at"] = _at(ufuncs.subtract, "subtract")
