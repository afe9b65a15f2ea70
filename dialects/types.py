"""Element types and tensor types: NumPy dtypes on one side, MLIR types on the other."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, user_frame
from nabla_mlir.dialects.context import context

# MLIR spelling of each element type; unsigned integers keep their sign in StableHLO, signed ones are signless.
_BUILTIN = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
# These come from the ml_dtypes package, which is needed only by those who use them.
_EXTENDED = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "int4": "i4",
    "uint4": "ui4",
    "int2": "i2",
    "uint2": "ui2",
}
_TO_MLIR = _BUILTIN | _EXTENDED
_FROM_MLIR = {v: k for k, v in _TO_MLIR.items()}


# The default dtypes of Python's numbers, which `nm.set_default_dtypes` sets.
PYTHON: dict[Any, np.dtype] = {int: np.dtype(np.int32), float: np.dtype(np.float32), complex: np.dtype(np.complex64)}
_PYTHON_NAMES: dict[Any, type] = {kind.__name__: kind for kind in PYTHON}


def as_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype for a dtype, a scalar type, or a name.

    A name has NumPy's meaning if it has one, such as "i4" for int32; otherwise that of MLIR, such as "i32" and "bf16".
    Python's `int`, `float` and `complex`, also as names, are the default dtypes.

    Raises:
      DtypeError: the name does not exist.

    Example:
      >>> as_dtype("f32"), as_dtype("f4"), as_dtype("i8")
      (dtype('float32'), dtype('float32'), dtype('int64'))
    """
    is_default = isinstance(dtype, (type, str)) and _PYTHON_NAMES.get(dtype, dtype) in PYTHON
    result = PYTHON[_PYTHON_NAMES.get(dtype, dtype)] if is_default else _in_numpy(dtype)
    if isinstance(dtype, str) and (result is None or result.name not in _BUILTIN):
        result = _in_mlir(dtype) or result
    if result is None:
        raise DtypeError(
            f"a dtype requires a name of NumPy or MLIR, or a type, got {dtype!r}.",
            where=user_frame(),
            help="for example 'f32', 'float64', np.float32 or float."
            + (" A shape is one tuple: ones((2, 3))." if isinstance(dtype, int) else ""),
        )
    return result


def _in_numpy(name: Any) -> np.dtype | None:
    """The dtype that NumPy makes of the object `name`, in native byte order; None if it makes none."""
    try:
        return np.dtype(name).newbyteorder("=")
    except (TypeError, ValueError):
        return None


def _in_mlir(word: str) -> np.dtype | None:
    """The dtype of an MLIR word or of a full name; None for other words."""
    name = _FROM_MLIR.get(word, word)
    if name in _EXTENDED:
        return _extended_dtype(name)
    return np.dtype(name) if name in _BUILTIN else None


def dtype_in_mlir(word: str) -> np.dtype:
    """The dtype of an MLIR word, such as "i8", which is int8, or of a full name, such as "int8".

    Raises:
      DtypeError: it is neither.
    """
    result = _in_mlir(word)
    if result is None:
        raise DtypeError(f"an element type requires one of {', '.join(_FROM_MLIR)}, got {word!r}.")
    return result


@functools.cache
def _extended_dtype(name: str) -> np.dtype:
    """A dtype of the package ml_dtypes. Raises DtypeError if the package is not installed."""
    try:
        import ml_dtypes
    except ImportError:
        raise DtypeError(f"{name} requires the package ml_dtypes.", help="pip install ml_dtypes") from None
    return np.dtype(getattr(ml_dtypes, name))


@functools.cache
def element_type(dtype: np.dtype) -> ir.Type:
    """The MLIR element type of a NumPy dtype. Raises DtypeError if there is none."""
    text = _TO_MLIR.get(dtype.name)
    if text is None:
        raise DtypeError(f"a tensor requires a numeric dtype, got {dtype}.", where=user_frame())
    return ir.Type.parse(text, context())


@functools.cache
def dtype_of(element: ir.Type) -> np.dtype:
    """The NumPy dtype of an MLIR element type. Raises DtypeError if there is none."""
    name = _FROM_MLIR.get(str(element))
    if name is None:
        raise DtypeError(f"an element type with a NumPy counterpart is required, got {element}.")
    return dtype_in_mlir(name)


def tensor_type(shape: tuple[int, ...] | list[int], dtype: np.dtype) -> ir.RankedTensorType:
    """The type tensor<shape x dtype>."""
    return _tensor_type(tuple(shape), dtype)


@functools.lru_cache(maxsize=65536)
def _tensor_type(shape: tuple[int, ...], dtype: np.dtype) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(shape, element_type(dtype), loc=ir.Location.unknown(context()))


@functools.lru_cache(maxsize=65536)
def shape_and_dtype(type: ir.Type) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of a ranked tensor type with static shape.

    Raises:
      DtypeError: the type is not a ranked tensor of static shape.
    """
    if not isinstance(type, ir.RankedTensorType) or not type.has_static_shape:
        raise DtypeError(f"a ranked tensor of static shape is required, got {type}.")
    return tuple(type.shape), dtype_of(type.element_type)


def element_dtype(type: ir.Type) -> np.dtype:
    """The dtype of the elements of a ranked tensor type, whatever its shape."""
    return dtype_of(ir.RankedTensorType(type).element_type)


def is_static_tensor(type: ir.Type) -> bool:
    """True for a ranked tensor of static shape whose elements have a NumPy counterpart."""
    try:
        shape_and_dtype(type)
    except DtypeError:
        return False
    return True


def is_scalar_integer(type: ir.Type) -> bool:
    """True for the type of one integer or one boolean, such as an index."""
    shape, dtype = shape_and_dtype(type)
    return not shape and dtype.kind in "iub"


def is_float(dtype: np.dtype) -> bool:
    """True for real floating-point types, the narrow ones included."""
    return dtype.kind == "f" or dtype.name == "bfloat16" or dtype.name.startswith("float8")


def is_narrow(dtype: np.dtype) -> bool:
    """True for floating-point types of two bytes and fewer, in which sums lose digits."""
    return is_float(dtype) and dtype.itemsize <= 2


def is_complex(dtype: np.dtype) -> bool:
    """True for complex types."""
    return dtype.kind == "c"


def is_differentiable(dtype: np.dtype) -> bool:
    """True for types that carry tangents: real and complex floating point."""
    return is_float(dtype) or is_complex(dtype)


def is_integer(dtype: np.dtype) -> bool:
    """True for signed and unsigned integers, the narrow ones included; not for bool."""
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")
