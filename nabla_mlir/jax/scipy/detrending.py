"""Removes the trend of signals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.operands import inexact, tensor
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.reductions import mean
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def detrend(data: Any, axis: Static[int] = -1, type: str = "linear", bp: Static[Any] = 0, overwrite_data: None = None) -> Tensor:
    """Subtracts the mean ("constant") or the best-fitting line ("linear") from samples along an axis.

    Args:
      data: the samples.
      axis: the axis of time.
      type: "linear" or "constant".
      bp: the indices where a new line begins.
      overwrite_data: accepted for compatibility with SciPy.

    Raises:
      ShapeError: the type is unknown, or an index is not less than the number of samples.

    Example:
      >>> detrend(np.array([0.0, 1.0, 2.0, 5.0, 3.0, 1.0]), bp=[3]).round(6).tolist()
      [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    x = inexact(data)
    axis_number = axis_of("detrend", axis, x.ndim)
    rows, n = moveaxis(x, axis_number, -1), x.shape[axis_number]
    ends = sorted({0, n, *np.ravel(bp).tolist()})
    if type not in ("linear", "constant") or ends[0] < 0 or ends[-1] > n:
        raise ShapeError(
            f"detrend requires type linear or constant and bp within {n} samples, got {type!r} and {bp}.", where=user_frame()
        )
    if type == "constant":
        return x - mean(x, axis_number, keepdims=True)
    parts = [_without_line(rows[..., start:end]) for start, end in pairwise(ends)]
    return moveaxis(concatenate(parts, axis=-1), -1, axis_number)


def _without_line(rows: Tensor) -> Tensor:
    """The samples minus their best-fitting line, along the last axis."""
    n = rows.shape[-1]
    basis, _ = np.linalg.qr(np.stack([np.ones(n), np.arange(n)], 1))
    basis = basis.astype(rows.dtype)
    return rows - matmul(matmul(rows, tensor(basis)), tensor(basis.T))
