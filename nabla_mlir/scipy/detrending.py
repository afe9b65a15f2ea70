"""What a signal has beside its trend."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.errors import ShapeError, user_frame
from nabla_mlir.numpy.axes import axis_of
from nabla_mlir.numpy.operands import inexact, tensor
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.reductions import mean
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def detrend(data: Any, axis: Static[int] = -1, type: str = "linear", bp: Static[Any] = 0, overwrite_data: None = None) -> Tensor:
    """The samples less their mean ("constant") or the line that fits them best ("linear") along an axis.

    Raises:
      ShapeError: there is no such type, or there are break points.
    """
    x = inexact(data)
    if type not in ("linear", "constant") or bp != 0:
        raise ShapeError(f"detrend requires type linear or constant and bp=0, got {type!r} and {bp}.", where=user_frame())
    at = axis_of("detrend", axis, x.ndim)
    if type == "constant":
        return x - mean(x, at, keepdims=True)
    rows, n = moveaxis(x, at, -1), x.shape[at]
    basis, _ = np.linalg.qr(np.stack([np.ones(n), np.arange(n)], 1))
    basis = basis.astype(x.dtype)
    return moveaxis(rows - matmul(matmul(rows, tensor(basis)), tensor(basis.T)), -1, at)
