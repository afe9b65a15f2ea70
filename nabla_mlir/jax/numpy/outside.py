"""Functions of `jax.numpy` that fill elements at known indices outside of an array; `nabla_mlir.numpy` raises as NumPy does."""

from __future__ import annotations

from typing import Any

from nabla_mlir.numpy import indexing


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: Any = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """The elements at `indices` along `axis`; see `nabla_mlir.numpy.take`. The default mode is "fill".

    Example:
      >>> import numpy as np
      >>> take(np.array([1.0, 2.0]), np.array([1, 5])).tolist()
      [2.0, nan]
    """
    return indexing.take(a, indices, axis, mode or "fill", fill_value=fill_value)


def take_along_axis(
    arr: Any, indices: Any, axis: int | None = -1, mode: Any = None, fill_value: Any = None, *, wrap_negative_indices: bool = True
) -> Any:
    """An element for each index; see `nabla_mlir.numpy.take_along_axis`. The default mode is "fill".

    Example:
      >>> import numpy as np
      >>> take_along_axis(np.array([1.0, 2.0]), np.array([1, 5]), 0).tolist()
      [2.0, nan]
    """
    return indexing.take_along_axis(arr, indices, axis, mode or "fill", fill_value, wrap_negative_indices=wrap_negative_indices)
