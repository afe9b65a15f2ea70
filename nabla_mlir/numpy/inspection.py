"""Information about the namespace, in the form of the array API standard, and its devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.dialects.types import PYTHON, as_dtype
from nabla_mlir.runtime.device import Device, device
from nabla_mlir.staging.tracing import is_tracing

_DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)  # those of the standard
_DRIVERS = ("local-sync", "local-task")  # both are this CPU, which runs functions outside `jit`


class NamespaceInfo:
    """The information about a namespace that the array API standard defines.

    Example:
      >>> NamespaceInfo().default_dtypes()["indexing"]
      dtype('int32')
    """

    def capabilities(self) -> dict[str, Any]:
        """The capabilities: concrete arrays support masks and shapes that depend on values; NumPy has at most 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device on which arrays are created."""
        return device(_DRIVERS[0])

    def devices(self) -> tuple[Device, ...]:
        """The devices that run functions outside `jit`."""
        return tuple(map(device, _DRIVERS))

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes that `nm.set_default_dtypes` set, the same for all devices."""
        del device
        parts, whole = PYTHON[float], PYTHON[int]
        return {"real floating": parts, "complex floating": PYTHON[complex], "integral": whole, "indexing": whole}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The dtypes of the standard by name: all, or those of a kind of `isdtype`."""
        del device
        table = {name: as_dtype(name) for name in _DTYPES}
        return {name: dtype for name, dtype in table.items() if kind is None or (kind != () and np.isdtype(dtype, kind))}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  (the standard's name)
    """The capabilities, devices and dtypes of the namespace, in the form of the array API standard.

    Example:
      >>> __array_namespace_info__().capabilities()["boolean indexing"]
      True
    """
    return NamespaceInfo()


def placed(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: adds the keyword `device` for the device of the result of `f`; inside a trace, the target decides the device."""

    @functools.wraps(f)
    def call(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        """The result of `f`, on `device` unless that is None."""
        result = f(*args, **kwargs)
        return result if device is None or is_tracing() else result.to(device)

    return call
