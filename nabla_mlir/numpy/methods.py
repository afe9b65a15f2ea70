"""The functions of this namespace that the methods and operators of arrays call."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rank_of, scalar_misfit
from nabla_mlir.base.pytree import is_array
from nabla_mlir.numpy import (
    creation,
    data_dependent,
    division,
    extrema,
    indexing,
    joining,
    logic,
    products,
    rearranging,
    reductions,
    repeats,
    running,
    shapes,
    sorting,
    ufuncs,
    updates,
    views,
)
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.named import VectorizedArray
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import is_tracing
from nabla_mlir.table.narrowing import stated_dtype
from nabla_mlir.table.promotion import is_scalar, refuse_list
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.vectorized import separate


def _compress(a: Any, condition: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The entries along `axis` (of the flattened array if None) where a vector of truth values is true."""
    return rearranging.compress(condition, a, axis, size=size, fill_value=fill_value)


_BINARY = {
    "add": ufuncs.add,
    "sub": ufuncs.subtract,
    "mul": ufuncs.multiply,
    "truediv": ufuncs.divide,
    "floordiv": division.floor_divide,
    "mod": division.remainder,
    "divmod": division.divmod,
    "pow": ufuncs.power,
    "matmul": products.matmul,
    "and": logic.bitwise_and,
    "or": logic.bitwise_or,
    "xor": logic.bitwise_xor,
    "lshift": logic.bitwise_left_shift,
    "rshift": logic.bitwise_right_shift,
}
_COMPARISONS = {
    "eq": logic.equal,
    "ne": logic.not_equal,
    "lt": logic.less,
    "le": logic.less_equal,
    "gt": logic.greater,
    "ge": logic.greater_equal,
}
_WITH_DTYPE = {"sum", "prod", "mean", "var", "std", "cumsum", "cumprod", "trace"}
_UNARY = {"neg": ufuncs.negative, "pos": ufuncs.positive, "abs": ufuncs.absolute, "invert": logic.bitwise_invert}
_METHODS: dict[str, Callable[..., Any]] = {
    "sum": reductions.sum,
    "prod": reductions.prod,
    "mean": reductions.mean,
    "var": reductions.var,
    "std": reductions.std,
    "max": extrema.max,
    "min": extrema.min,
    "argmax": extrema.argmax,
    "argmin": extrema.argmin,
    "any": reductions.any,
    "all": reductions.all,
    "cumsum": running.cumsum,
    "cumprod": running.cumprod,
    "ptp": extrema.ptp,
    "ravel": shapes.ravel,
    "flatten": shapes.ravel,
    "squeeze": shapes.squeeze,
    "astype": shapes.astype,
    "swapaxes": shapes.swapaxes,
    "repeat": repeats.repeat,
    "dot": products.dot,
    "trace": products.trace,
    "diagonal": creation.diagonal,
    "clip": logic.clip,
    "round": ufuncs.round,
    "conj": ufuncs.conj,
    "conjugate": ufuncs.conj,
    "sort": sorting.sort,
    "argsort": sorting.argsort,
    "take": indexing.take,
    "searchsorted": sorting.searchsorted,
    "nonzero": data_dependent.nonzero,
    "view": views.view,
    "argpartition": rearranging.argpartition,
    "aval": lambda x: Spec(tuple(x.shape), x.dtype),
    "choose": rearranging.choose,
    "compress": _compress,
}


def _binary(f: Callable[..., Any], name: str, flip: bool) -> Callable[..., Any]:
    """The method `name` for a binary operator of arrays, which calls `f`. `flip` exchanges the operands, as in `__radd__`."""

    def operator(self: Any, other: Any) -> Any:
        """The result of the binary operator on an array and `other`, in exchanged order if `flip`; NotImplemented for
        other types.
        """
        if not (is_scalar(other) or _has_numbers(other)):
            if name in _BINARY:
                refuse_list(f.__name__, self, other)
            return NotImplemented
        if name != "pow":  # the code of a power depends on the exponent
            other = _as_operand(self, other)
        return f(other, self) if flip else f(self, other)

    operator.__name__ = name
    return operator


def _as_operand(x: Any, number: Any) -> Any:
    """The Python number `number` as an array of the dtype of `x`, so that one program serves all numbers.

    A number that the dtype cannot hold is returned unchanged.
    """
    if type(number) not in (int, float) or type(x) is not Array or is_tracing():
        return number
    fits = rank_of(x.dtype) > 0 and scalar_misfit(number, x.dtype) is None
    if not fits:
        return number
    array = np.asarray(number, x.dtype)
    if not x.weak:
        return array
    weak = Array.from_numpy(array, x.device)
    weak.weak = True
    return weak


def _has_numbers(x: Any) -> bool:
    """True for numbers and arrays, also of other frameworks; False for a sparse matrix, which has its own operators."""
    return hasattr(x, "__dlpack__") or (is_array(x) and (hasattr(x, "__array__") or hasattr(x, "__nabla_tensor__")))


def _unary(f: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method `name` for an operator with one operand, or for a function of one array, which calls `f`."""

    def operator(self: Any) -> Any:
        """The result of `f` for the array."""
        return f(self)

    operator.__name__ = name
    return operator


def _reshape(self: Any, *shape_: Any) -> Any:
    """The same elements with another shape, which is given as one tuple or as numbers; one length may be -1."""
    return shapes.reshape(self, shape_[0] if len(shape_) == 1 else shape_)


def _transpose(self: Any, *axes: Any) -> Any:
    """The axes permuted, reversed if no order is given."""
    return shapes.transpose(self, (axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes) or None)


def _iterate(self: Any) -> Iterator[Any]:
    """Iterates over the slices along the first axis. Raises TypeError for an array without axes."""
    if not self.shape:
        raise TypeError("iteration requires an array with an axis, got one of shape ().")
    if type(self) is Array and not is_tracing():  # a compiled program with a slice for each row would be slow to compile
        return (Array.from_numpy(row, self.device) for row in self.numpy())
    return iter(joining.unstack(self))


def _namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The module with the functions of arrays of this kind."""
    return sys.modules[__package__]


def _get(self: Any, index: Any) -> Any:
    """``self[index]``."""
    return indexing.get_index(self, index)


def _set(self: Any, index: Any, value: Any) -> None:
    """``self[index] = value``."""
    updates.assign(self, index, value)


def _copy(self: Any) -> Any:
    """A separate array with the same values."""
    return separate(self) if isinstance(self, Tensor) else type(self)(self.data.copy(), self.axes)


def _narrowing(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function `f` as a method that, if `is_narrowing`, uses a 32-bit dtype in place of the 64-bit one that a caller states."""

    @functools.wraps(f)
    def method(self: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The result of `f`, with the narrowed dtype if the caller states one."""
        if dtype is not None:
            kwargs["dtype"] = stated_dtype(dtype)
        return f(self, *args, **kwargs)

    return method


def functions() -> dict[str, Callable[..., Any]]:
    """The functions that the methods of `ArrayMethods` call, by name."""
    operators: dict[str, Callable[..., Any]] = {}
    for name, f in _BINARY.items():
        operators[f"__{name}__"] = _binary(f, name, flip=False)
        operators[f"__r{name}__"] = _binary(f, name, flip=True)
    for name, f in _COMPARISONS.items():
        operators[f"__{name}__"] = _binary(f, name, flip=False)
    for name, f in _UNARY.items():
        operators[f"__{name}__"] = _unary(f, name)
    special: dict[str, Callable[..., Any]] = {
        "__getitem__": _get,
        "__setitem__": _set,
        "copy": _copy,
        "__iter__": _iterate,
        "__array_namespace__": _namespace,
    }
    properties = {
        "T": shapes.transpose,
        "mT": shapes.matrix_transpose,
        "real": ufuncs.real,
        "imag": ufuncs.imag,
        "at": updates.IndexUpdate,
    }
    methods = {name: _narrowing(f) if name in _WITH_DTYPE else f for name, f in _METHODS.items()}
    return {**operators, **methods, **special, **properties, "reshape": _reshape, "transpose": _transpose}


for _cls in (Tensor, Array, VectorizedArray):
    # A tensor already has some operators, because rules use them without this namespace.
    _cls.functions = functions() | _cls.functions
