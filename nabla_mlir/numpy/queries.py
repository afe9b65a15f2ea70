"""Properties of arrays and dtypes that need no computation, and imports of arrays from files and other sources."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import get_printoptions as get_printoptions
from numpy import printoptions as printoptions
from numpy import save as save
from numpy import savez as savez
from numpy import set_printoptions as set_printoptions

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import PYTHON, as_dtype, is_complex
from nabla_mlir.numpy import logic
from nabla_mlir.numpy.axes import axes_of
from nabla_mlir.numpy.operands import asarray, operand, tensor
from nabla_mlir.numpy.special_values import described
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.eager import library
from nabla_mlir.table.promotion import is_scalar
from nabla_mlir.table.tensor import Tensor, full

number = np.number
inexact = np.inexact
floating = np.floating
complexfloating = np.complexfloating
integer = np.integer
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
generic = np.generic
flexible = np.flexible
character = np.character
object_ = np.object_
single = np.float32
double = np.float64
csingle = np.complex64
cdouble = np.complex128
float_ = np.float64
int_ = np.int64
uint = np.uint64
complex_ = np.complex128
ndarray = Array
ComplexWarning = np.exceptions.ComplexWarning


def ndim(a: ArrayLike) -> int:
    """The number of axes.

    Example:
      >>> ndim(np.ones((2, 3)))
      2
    """
    return len(shape(a))


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The lengths of the axes.

    Example:
      >>> shape(np.ones((2, 3)))
      (2, 3)
    """
    return tuple(np.shape(operand(a)))


def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the number along one or several axes.

    Example:
      >>> size(np.ones((2, 3)), axis=1)
      3
    """
    lengths = shape(a)
    return math.prod(lengths[d] for d in axes_of("size", axis, len(lengths)))


def isscalar(element: Any) -> bool:
    """True for a number, and for an array without axes.

    Example:
      >>> isscalar(1.0), isscalar(np.ones(1))
      (True, False)
    """
    return is_scalar(element) or isinstance(element, np.generic) or (hasattr(element, "shape") and element.shape == ())


def iterable(y: ArrayLike) -> bool:
    """True if `y` can be iterated over."""
    return np.iterable(y) and not (hasattr(y, "shape") and y.shape == ())


def iscomplexobj(x: ArrayLike) -> bool:
    """True if the dtype is complex."""
    return np.dtype(getattr(x, "dtype", None) or np.asarray(x).dtype).kind == "c"


def isrealobj(x: ArrayLike) -> bool:
    """True if the dtype is not complex."""
    return not iscomplexobj(x)


@library
def iscomplex(x: ArrayLike) -> Tensor:
    """True where the imaginary part is not 0."""
    x = tensor(x)
    return logic.not_equal(ew.imag(x), 0) if is_complex(x.dtype) else full(x.shape, False, np.dtype(bool))


@library
def isreal(x: ArrayLike) -> Tensor:
    """True where the imaginary part is 0."""
    return logic.logical_not(iscomplex(x))


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """True if a dtype belongs to a kind such as `floating`, or is equal to a dtype.

    Example:
      >>> issubdtype(np.float32, floating), issubdtype("int32", floating)
      (True, False)
    """
    scalar_type = getattr(arg1, "type", None)
    if isinstance(scalar_type, type) and not isinstance(arg1, (np.dtype, type)):  # a dtype that NumPy lacks, such as that of keys
        return arg1 == arg2 or (isinstance(arg2, type) and issubclass(scalar_type, arg2))
    kind = arg2 if isinstance(arg2, type) and issubclass(arg2, np.generic) else as_dtype(arg2)
    dtype = arg1 if isinstance(arg1, type) and issubclass(arg1, np.generic) and arg1.__module__ == "numpy" else as_dtype(arg1)
    if isinstance(dtype, np.dtype) and dtype.kind == "V":  # the narrow floats of ml_dtypes
        return kind in (np.generic, np.number, np.inexact, np.floating) or kind == dtype
    return np.issubdtype(dtype, kind)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Any:
    """True if two arrays have the same elements after broadcasting."""
    try:
        np.broadcast_shapes(shape(a1), shape(a2))
    except ValueError:
        return asarray(False)
    return logic.equal(a1, a2).all()


def array_repr(
    arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text of an array, as in NumPy."""
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(
    a: ArrayLike, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The elements of an array as text, as in NumPy."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def copy(a: ArrayLike, order: str | None = None) -> Any:
    """A separate array with the same elements; `order` has no effect, because arrays have no strides.

    Example:
      >>> copy(np.ones(2)).tolist()
      [1.0, 1.0]
    """
    return asarray(a, copy=True)


# ---------------------------------------------------------------- imports
def _from_host(name: str) -> Callable[..., Any]:
    """A function of NumPy that reads an array from a file, text or bytes."""
    reader = getattr(np, name)

    @described(name, f"The array that `numpy.{name}` reads.")
    def f(*args: Any, **kwargs: Any) -> Any:
        return asarray(reader(*args, **kwargs))

    return f


frombuffer: Callable[..., Any] = _from_host("frombuffer")
fromfile: Callable[..., Any] = _from_host("fromfile")
fromiter: Callable[..., Any] = _from_host("fromiter")
fromstring: Callable[..., Any] = _from_host("fromstring")


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a NumPy file (.npy), or a dictionary of the arrays in a .npz file."""
    content = np.load(file, *args, **kwargs)
    return asarray(content) if isinstance(content, np.ndarray) else {name: asarray(content[name]) for name in content.files}


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """Calls ``function(i, j, ...)`` with the index arrays of a shape.

    Example:
      >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int).tolist()
      [[0, 1], [1, 2]]
    """
    return function(*(asarray(i) for i in np.indices(shape, dtype=PYTHON.get(dtype, dtype))), **kwargs)
