"""Conversion of arrays of other systems, such as PyTorch, JAX and CuPy, to arrays of NumPy, through DLPack.

What is read is a view of the same memory wherever that is the host's, and nobody here writes to it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.array_methods import ArrayMethods
from nabla_mlir.base.errors import DtypeError, ExchangeError, user_frame

_HOST = {1, 3, 11}  # kDLCPU, and the host's memory that CUDA and ROCm have pinned
_DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda", 14: "oneapi"}
# What NumPy has no type for, by DLPack's code and the number of bits.
_NARROW = {
    (4, 16): "bfloat16",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
}


def readable(x: Any) -> Any:
    """An array of another system as an array of NumPy, which shares its memory if possible; other values unchanged.

    Raises:
      ExchangeError: its memory is not the host's, or its owner does not give it away.
      DtypeError: it is a masked array, whose mask would be lost.

    Example:
      >>> class Owner:
      ...     def __init__(self, x): self.x = x
      ...     def __dlpack__(self, **options): return self.x.__dlpack__(**options)
      ...     def __dlpack_device__(self): return self.x.__dlpack_device__()
      >>> readable(Owner(np.arange(3))).tolist(), readable(2.0)
      ([0, 1, 2], 2.0)
    """
    if isinstance(x, np.ma.MaskedArray):
        raise DtypeError(
            f"an array function requires an array without a mask, got a masked array of shape {x.shape}.",
            where=user_frame(),
            help="x.filled(np.nan) is an array; nm.numpy.where(x.mask, 0, x.data) leaves elements out of a sum.",
        )
    if isinstance(x, (ArrayMethods, np.ndarray, np.generic, type)) or not hasattr(x, "__dlpack__"):
        return x
    if isinstance(getattr(x, "dtype", None), np.dtype) and hasattr(x, "__array__"):  # JAX, which copies from other devices
        return _read_by(x, np.asarray)
    kind, index = _read_by(x, lambda x: x.__dlpack_device__())
    if int(kind) not in _HOST:
        raise ExchangeError(
            f"an argument requires numbers in the memory of the host, got {type(x).__name__} on "
            f"{_DEVICES.get(int(kind), f'device {int(kind)}')}:{index}.",
            where=user_frame(),
            help="copy it there first: x.cpu().",
        )
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError):  # perhaps a type that NumPy lacks
        return _read_by(x, _narrow)


def _read_by(x: Any, reader: Callable[[Any], Any]) -> Any:
    """The result of `reader` for the array `x`; an error becomes an ExchangeError that says how to pass the array."""
    try:
        return reader(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        is_of_jax = type(x).__module__.startswith("jax")
        raise ExchangeError(
            f"an argument requires numbers that can be read, got {type(x).__name__}: {reason}.",
            where=user_frame(),
            help="nm.interop.jax.function(f) is a function that JAX traces and differentiates." if is_of_jax else _advice_on(x),
        ) from None


def _advice_on(x: Any) -> str:
    """What to pass instead of an array that cannot be read, such as a tensor of PyTorch."""
    if getattr(x, "is_meta", False) is True:
        return "a tensor on the device meta has no numbers; nm.spec(x.shape) stands for it in nm.trace."
    if "sparse" in str(getattr(x, "layout", "")):
        return "x.to_dense() is the dense array."
    return "a tensor that requires a gradient is passed as x.detach(); others as a dense array of numbers on the host."


# ---------------------------------------------------------------- what NumPy cannot read


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Memory:
    """The memory that a DLPack capsule lends, as an object with NumPy's array interface; read-only, and it
    keeps the capsule alive.
    """

    def __init__(self, capsule: Any, tensor: _Tensor):
        """Describes the memory of a DLPack tensor by NumPy's array interface; `capsule` keeps the memory alive."""
        self._capsule = capsule
        size, shape = tensor.bits // 8, tuple(tensor.shape[: tensor.ndim])
        strides = tuple(n * size for n in tensor.strides[: tensor.ndim]) if tensor.strides else None
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": f"<u{size}",
            "strides": strides,
            "data": ((tensor.data or 0) + tensor.byte_offset, True),
        }


def _narrow(x: Any) -> np.ndarray:
    """An array of another system with a dtype of ml_dtypes, such as bfloat16, as an array of NumPy on the same memory.

    Raises TypeError for other dtypes.
    """
    capsule = x.__dlpack__()
    tensor = _tensor_of(capsule)
    name = _NARROW.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise TypeError(f"its elements are of DLPack's type {tensor.code} of {tensor.bits} bits")
    import ml_dtypes

    return np.asarray(_Memory(capsule, tensor)).view(getattr(ml_dtypes, name))


def _tensor_of(capsule: Any) -> _Tensor:
    """The description of the memory in a DLPack capsule of the first version, which may be changed in place."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return _Tensor.from_address(pointer(capsule, b"dltensor"))


def lent(host: np.ndarray, **options: Any) -> Any:
    """A DLPack capsule that shares the memory of a writable array of NumPy, whose dtype may be one of ml_dtypes, such as bfloat16.

    `options` are those of `__dlpack__`.
    """
    if host.dtype.isbuiltin == 1:  # NumPy itself knows the dtype
        return host.__dlpack__(**options)
    capsule = host.view(f"u{host.dtype.itemsize}").__dlpack__(**options)
    _tensor_of(capsule).code = next(code for (code, _), name in _NARROW.items() if name == host.dtype.name)
    return capsule
