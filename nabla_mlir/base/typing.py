"""Types of public signatures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np


class ArrayProtocol(Protocol):
    """An array of any system: of NumPy, of a device, of PyTorch or JAX, or a traced tensor."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


class Operator(Protocol):
    """A linear operator, given by its products, such as SciPy's `LinearOperator`."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def matmat(self, X: Any, /) -> Any:
        """The products with the columns of a matrix."""


ArrayLike: TypeAlias = bool | int | float | complex | np.generic | ArrayProtocol
PyTree: TypeAlias = Any  # an array, or nested dicts, lists, tuples and registered classes of arrays
DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any]
ShapeLike: TypeAlias = int | Sequence[int]
PathLike: TypeAlias = str | os.PathLike[str]
