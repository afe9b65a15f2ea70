"""The dtypes of NumPy and the element types of IREE's runtime."""

from __future__ import annotations

import functools

import numpy as np
from iree.runtime import HalElementType

from nabla_mlir.base.errors import DtypeError

_ELEMENT_TYPES = {
    "bool": HalElementType.BOOL_8,
    "int8": HalElementType.INT_8,
    "int16": HalElementType.INT_16,
    "int32": HalElementType.INT_32,
    "int64": HalElementType.INT_64,
    "uint8": HalElementType.UINT_8,
    "uint16": HalElementType.UINT_16,
    "uint32": HalElementType.UINT_32,
    "uint64": HalElementType.UINT_64,
    "float16": HalElementType.FLOAT_16,
    "float32": HalElementType.FLOAT_32,
    "float64": HalElementType.FLOAT_64,
    "complex64": HalElementType.COMPLEX_64,
    "complex128": HalElementType.COMPLEX_128,
    "bfloat16": HalElementType.BFLOAT_16,
    "float8_e4m3fn": HalElementType.FLOAT_8_E4M3_FN,
    "float8_e4m3fnuz": HalElementType.FLOAT_8_E4M3_FNUZ,
    "float8_e5m2": HalElementType.FLOAT_8_E5M2,
    "float8_e5m2fnuz": HalElementType.FLOAT_8_E5M2_FNUZ,
}
_SIGNED = {
    HalElementType.SINT_8: "int8",
    HalElementType.SINT_16: "int16",
    HalElementType.SINT_32: "int32",
    HalElementType.SINT_64: "int64",
}
_DTYPE_NAMES = {int(element): name for name, element in _ELEMENT_TYPES.items()} | {int(k): v for k, v in _SIGNED.items()}


@functools.cache
def dtype_named(name: str) -> np.dtype:
    """The NumPy dtype of a name such as "float32" or "bfloat16". The narrow types come from ml_dtypes.

    Raises:
      DtypeError: device arrays cannot have this dtype.
    """
    if name not in _ELEMENT_TYPES:
        raise DtypeError(f"an array requires a numeric dtype, got {name}.", help=f"one of {', '.join(_ELEMENT_TYPES)}.")
    if name == "bfloat16" or name.startswith("float8"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


@functools.cache
def element_type(dtype: np.dtype) -> HalElementType:
    """The element type of IREE for a dtype. Raises DtypeError if it has none."""
    dtype_named(dtype.name)
    return _ELEMENT_TYPES[dtype.name]


@functools.cache
def dtype_of(element_type: int) -> np.dtype:
    """The NumPy dtype of IREE's element type. Raises DtypeError if there is none."""
    if element_type not in _DTYPE_NAMES:
        raise DtypeError(f"an array requires an element type with a NumPy counterpart, got {element_type:#x}.")
    return dtype_named(_DTYPE_NAMES[element_type])
