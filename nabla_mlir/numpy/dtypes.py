"""Dtypes and constants. The dtypes are those of NumPy; bfloat16 and 8-bit floats are imported from ml_dtypes when used."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.base.names import no_attribute
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.table.narrowing import stated_dtype
from nabla_mlir.table.promotion import common_type, promote_dtypes

bool_ = np.bool_
int8 = np.int8
int16 = np.int16
int32 = np.int32
int64 = np.int64
uint8 = np.uint8
uint16 = np.uint16
uint32 = np.uint32
uint64 = np.uint64
float16 = np.float16
float32 = np.float32
float64 = np.float64
complex64 = np.complex64
complex128 = np.complex128
pi: float = np.pi
e: float = np.e
euler_gamma: float = np.euler_gamma
inf: float = np.inf
nan: float = np.nan
newaxis: None = None


def dtype(name: Any) -> np.dtype:
    """The NumPy dtype of a scalar type, a dtype, or a name (a name of NumPy, or of MLIR if NumPy has none)."""
    return as_dtype(name)


class Limits:
    """The limits that `finfo` and `iinfo` return, as in NumPy, with Python numbers for narrow dtypes."""

    def __init__(self, limits: Any):
        self._limits = limits

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._limits, name)
        return value.item() if isinstance(value, np.generic) and value.dtype.kind == "f" else value

    def __repr__(self) -> str:
        return repr(self._limits)


def _element(dtype: Any) -> np.dtype:
    """The dtype of an array or a dtype; the attribute `dtype` of a NumPy scalar type is not a dtype."""
    return as_dtype(dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype))


def finfo(dtype: Any) -> Any:
    """The limits of a floating-point dtype, or of the dtype of an array; for a complex dtype the limits of its parts.

    Example:
      >>> finfo("f32").eps == 2.0**-23
      True
    """
    return Limits(limits_of(_element(dtype)))


def iinfo(dtype: Any) -> Any:
    """The limits of an integer dtype, or of the dtype of an array.

    Example:
      >>> iinfo("i8").bits, iinfo("int8").max
      (64, 127)
    """
    return Limits(np.iinfo(_element(dtype)))


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """True if a dtype, or that of an array, may be converted to another, by the rules of NumPy; "safe" loses nothing.

    Example:
      >>> can_cast("int16", "float32"), can_cast("float64", "float32")
      (True, False)
    """
    return bool(np.can_cast(_element(from_), as_dtype(to), casting=casting))  # type: ignore[arg-type]


def result_type(*xs: Any) -> np.dtype:
    """The dtype to which arrays, dtypes and Python scalars are promoted; Python scalars are weak."""
    return promote_dtypes([np.empty((), as_dtype(x)) if isinstance(x, (str, type, np.dtype)) else x for x in xs])


def promote_types(a: ArrayLike, b: Any) -> np.dtype:
    """The dtype to which two dtypes are promoted, by the table of NumPy. If the default float dtype has 32 bits, an integer
    dtype and a floating-point dtype give the floating-point dtype.
    """
    return stated_dtype(common_type(as_dtype(a), as_dtype(b)))


def isdtype(dtype: Any, kind: Any) -> bool:
    """True if a dtype is of a kind; a kind is a dtype or one of the names of the array API standard."""
    return bool(np.isdtype(as_dtype(dtype), kind))


def extended(name: str) -> Any:
    """The scalar type of a narrow dtype such as bfloat16. Raises AttributeError for an unknown name."""
    if name != "bfloat16" and not name.startswith("float8_"):
        raise no_attribute("module 'nabla_mlir.numpy'", name, sys.modules[__package__])
    return as_dtype(name).type
