"""Functions of `numpy.linalg` that act on the last two axes, unlike the functions of `numpy` with these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import DTypeLike
from nabla_mlir.numpy import creation, norms, products


def trace(x: Any, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """The sum of the diagonal of matrices of shape (..., m, n).

    Args:
      x: the matrices.
      offset: the offset of the diagonal: above the main diagonal, or below if negative.
      dtype: the dtype of the sum.

    Example:
      >>> trace(np.ones((4, 2, 3))).tolist()
      [2.0, 2.0, 2.0, 2.0]
    """
    return products.trace(x, offset, -2, -1, dtype=dtype)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonal of matrices of shape (..., m, n).

    Example:
      >>> diagonal(np.ones((4, 2, 3))).shape
      (4, 2)
    """
    return creation.diagonal(x, offset, -2, -1)


def outer(a: Any, b: Any, /) -> Any:
    """The products of all pairs of elements of two vectors, as a matrix.

    Raises:
      ShapeError: an argument is not a vector.
    """
    if np.ndim(a) != 1 or np.ndim(b) != 1:
        raise ShapeError(
            f"linalg.outer requires two vectors, got shapes {np.shape(a)} and {np.shape(b)}.",
            where=user_frame(),
            help="for stacks write a[..., None] * b[..., None, :].",
        )
    return products.outer(a, b)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of matrices of shape (..., m, n); see `norm`."""
    return norms.norm(x, ord, (-2, -1), keepdims)
