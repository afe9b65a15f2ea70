"""Functions of `jax.numpy` that make arrays from Python numbers: the results are weak, as the numbers are.

A weak array takes the dtype of other operands. So the result of ``x * asarray(2.0)`` has the dtype of ``x``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.numpy import creation, operands
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.specs import FLOAT0
from nabla_mlir.table.promotion import is_weak
from nabla_mlir.table.tensor import Tensor


def _like(out: Any, x: Any, dtype: Any) -> Any:
    """The new array `out`, marked as weak if `x` is weak and no dtype is stated."""
    if type(out) is Array or isinstance(out, Tensor):
        out.weak = dtype is None and is_weak(x) and not isinstance(x, (bool, np.generic))
    return out


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, device: Any = None) -> Any:
    """Converts `a` to an array; see `nabla_mlir.numpy.asarray`. A Python number gives a weak array.

    Example:
      >>> asarray(2.0).weak_type, asarray([2.0]).weak_type
      (True, False)
    """
    return _like(operands.asarray(a, dtype, copy=copy, device=device), a, dtype)


def array(object: Any, dtype: Any = None, copy: bool = True, order: Any = "K", ndmin: int = 0, *, device: Any = None) -> Any:
    """Converts `object` to a separate array; see `nabla_mlir.numpy.array`. A Python number gives a weak array.

    Example:
      >>> array(2, ndmin=1).weak_type
      True
    """
    return _like(operands.array(object, dtype, copy, ndmin=ndmin, device=device), object, dtype)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of zeros; see `nabla_mlir.numpy.zeros`. For the dtype `float0` it is an array of NumPy."""
    if isinstance(dtype, np.dtype) and dtype == FLOAT0:
        return np.zeros(shape, FLOAT0)
    return creation.zeros(shape, dtype, device=device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Any:
    """An array of one value; see `nabla_mlir.numpy.full`. A Python number gives a weak array.

    Example:
      >>> full(2, 1.0).weak_type, full(2, 1.0, "float32").weak_type
      (True, False)
    """
    return _like(creation.full(shape, fill_value, dtype, device=device), fill_value, dtype)


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """An array of one value with the shape and dtype of `a`; see `nabla_mlir.numpy.full_like`. It is weak if `a` is."""
    return _like(creation.full_like(a, fill_value, dtype, shape, device=device), a, dtype)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Zeros with the shape and dtype of `a`; see `nabla_mlir.numpy.zeros_like`. They are weak if `a` is."""
    return _like(creation.zeros_like(a, dtype, shape, device=device), a, dtype)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Any:
    """Ones with the shape and dtype of `a`; see `nabla_mlir.numpy.ones_like`. They are weak if `a` is."""
    return _like(creation.ones_like(a, dtype, shape, device=device), a, dtype)
