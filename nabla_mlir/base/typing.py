"""Types of public signatures."""

from __future__ import annotations

import os
from typing import Any, Protocol, TypeAlias

import numpy as np


class ArrayProtocol(Protocol):
    """An array of any system: of NumPy, of a device, of PyTorch or JAX, or a traced tensor."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


ArrayLike: TypeAlias = bool | int | float | complex | np.generic | ArrayProtocol
PyTree: TypeAlias = Any  # an array, or nested dicts, lists, tuples and registered classes of arrays
DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any]
PathLike: TypeAlias = str | os.PathLike[str]
