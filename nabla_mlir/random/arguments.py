"""Arguments of the functions that draw: dtypes, shapes and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.pytree import is_array
from nabla_mlir.dialects.types import as_dtype, is_complex, is_float, is_integer
from nabla_mlir.numpy.axes import Shape, shape_of
from nabla_mlir.numpy.operands import asarray, convert, require_real
from nabla_mlir.table.promotion import Defaults, as_tensor, broadcast_shapes, broadcast_to, is_scalar, scalar_array
from nabla_mlir.table.tensor import Tensor

_WIDTHS = (2, 4, 8)  # the bytes of the supported floating-point dtypes


def float_dtype(name: str, dtype: Any, *, complex: bool = False) -> np.dtype:
    """The floating-point dtype `dtype`, or the default one for None; raises DtypeError for others, and for complex ones unless
    `complex`.

    `name` is the called function, for errors.
    """
    result = Defaults.float if dtype is None else as_dtype(dtype)
    part = np.zeros((), result).real.dtype if is_complex(result) else result
    if not is_float(part) or part.itemsize not in _WIDTHS or (is_complex(result) and not complex):
        kinds = "a real or complex" if complex else "a real"
        raise DtypeError(
            f"{name} requires {kinds} dtype of floating point with 16, 32 or 64 bits, got {result}.", where=user_frame()
        )
    return result


def integer_dtype(name: str, dtype: Any) -> np.dtype:
    """The integer dtype `dtype`, or the default one for None; raises DtypeError for others. `name` is the caller, for errors."""
    result = Defaults.int if dtype is None else as_dtype(dtype)
    if not is_integer(result):
        raise DtypeError(f"{name} requires a dtype of integers, got {result}.", where=user_frame())
    return result


def parameter(name: str, x: Any, dtype: np.dtype) -> Any:
    """The parameter `x` as an array, so that its value is not part of the code; a Python number gets `dtype`.

    `name` is the name of the function, for errors.

    Raises:
      DtypeError: the parameter is complex or not a number.
    """
    if is_scalar(x):
        return scalar_array(x, dtype, f"{name} requires real parameters")
    if not is_array(x):
        x = asarray(x, dtype)
    if is_complex(x.dtype):
        raise DtypeError(f"{name} requires real parameters, got {x.dtype}.", where=user_frame())
    return x


def parameters(name: str, dtype: np.dtype, *xs: Any) -> list[Any]:
    """Applies `parameter` to each argument."""
    return [parameter(name, x, dtype) for x in xs]


def shape_for(name: str, shape: Any, *xs: Any) -> Shape:
    """The shape `shape`, or for None that to which the parameters `xs` broadcast; `name` is the caller, for errors.

    Raises:
      ShapeError: the parameters do not broadcast to it.
    """
    return shape_over(name, shape, *(tuple(np.shape(x)) for x in xs))


def shape_over(name: str, shape: Any, *shapes: Shape) -> Shape:
    """The shape of the result: the requested one, or the broadcast of the parameters' `shapes` if `shape` is None.

    Raises ShapeError if the parameters do not broadcast to the requested shape. `name` is the name of the function.
    """
    if shape is None:
        return broadcast_shapes(name, shapes)
    result = shape_of(name, shape)
    try:
        fits = np.broadcast_shapes(result, *shapes) == result
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{name} requires parameters that broadcast to the shape {result}, got {' and '.join(map(str, shapes))}.",
            where=user_frame(),
        )
    return result


def real(name: str, x: Any, dtype: np.dtype) -> Tensor:
    """Converts a parameter to a tensor of a dtype."""
    return convert(require_real(name, as_tensor(x)), dtype)


def spread(name: str, xs: Sequence[Any], dtype: np.dtype, shape: Shape) -> list[Tensor]:
    """Converts parameters to tensors of a dtype and a shape."""
    return [broadcast_to(real(name, x, dtype), shape) for x in xs]
