"""Vector quantisation under the name of `scipy.cluster.vq`."""

from __future__ import annotations

from typing import Any

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.operands import in_one_dtype, inexact
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor


@library
def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """Returns, for each row of `obs`, the index of the nearest row of `code_book` and the distance to it.

    Args:
      obs: observations of shape (m, n), or m numbers.
      code_book: codes of shape (k, n), or k numbers.
      check_finite: has no effect.

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> codes, distances = vq([[1.0, 1.0], [0.0, 3.0]], [[1.0, 1.0], [0.0, 2.0]])
      >>> codes.tolist(), distances.tolist()
      ([0, 1], [0.0, 1.0])
    """
    x, codes = (inexact(v) for v in in_one_dtype(obs, code_book))
    if x.ndim != codes.ndim or x.ndim not in (1, 2) or x.shape[1:] != codes.shape[1:] or not codes.shape[0]:
        raise ShapeError(
            f"vq requires observations and codes of shapes (m, n) and (k, n), got {x.shape} and {codes.shape}.", where=user_frame()
        )
    rows, columns = (v.reshape((v.shape[0], -1)) for v in (x, codes))
    distances = nnp.linalg.norm(rows[:, None] - columns, axis=-1)
    return nnp.argmin(distances, -1), nnp.min(distances, -1)
