"""Arrays with named axes, outside of traced functions. Needs only NumPy, because artifacts accept and return them, too."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from nabla_mlir.base.array_methods import ArrayMethods
from nabla_mlir.base.errors import TraceError, user_frame


class VectorizedArray(ArrayMethods):
    """An array with named axes, outside of traced functions; inside it is a tensor with the same axes.

    Attributes:
      data: the whole array; its named axes lead.
      axes: the names and sizes of the named axes, in order.
      shape: the shape of one entry.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> x = nm.vectorize(np.array([[1.0, 2.0], [3.0, 4.0]]), "batch")
      >>> x.shape, x.vectorized_axes
      ((2,), {'batch': 2})
      >>> nm.devectorize(x * nm.vectorize(np.array([1.0, 10.0]), "batch")).tolist()
      [[1.0, 2.0], [30.0, 40.0]]
    """

    __slots__ = ("axes", "data")
    axes: tuple[tuple[str, int], ...]
    data: Any

    def __init__(self, data: Any, axes: Iterable[tuple[str, int]]):
        """An array whose leading axes have these names and sizes."""
        self.data = data
        self.axes = tuple((name, size) for name, size in axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one entry."""
        return tuple(self.data.shape[len(self.axes) :])

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return np.dtype(self.data.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes of one entry."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements of one entry."""
        return math.prod(self.shape)

    @property
    def vectorized_axes(self) -> dict[str, int]:
        """The sizes of the named axes, in order."""
        return dict(self.axes)

    def __repr__(self) -> str:
        names = ", ".join(f"{name}: {size}" for name, size in self.axes)
        return f"{self.data!r} vectorized over {names}"

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Raises TraceError: a NumPy function would take named axes for others."""
        raise TraceError(
            f"a NumPy function requires an array without vectorised axes, got axes {[name for name, _ in self.axes]}.",
            where=user_frame(),
            help="call nm.devectorize first, or read `data`.",
        )
