"""Assignments to elements of an array, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rank_of
from nabla_mlir.base.errors import DtypeError, IndexingError, ShapeError, TraceError, user_frame
from nabla_mlir.base.exchange import readable


def assign(host: np.ndarray, index: Any, value: Any) -> None:
    """Writes `host[index] = value`, in the memory of the NumPy array `host`.

    Raises:
      TraceError: the value is traced.
      DtypeError: the value is of a wider kind, such as a complex number for a real array, or has a mask.
      IndexingError, ShapeError: the index lies outside the array, or the value does not broadcast to its part.
    """
    if hasattr(value, "__nabla_tensor__"):
        raise TraceError(
            f"x[...] = v requires known numbers for an array of known numbers, got {value!r}.",
            where=user_frame(),
            help="write x = x.at[...].set(v).",
        )
    array = np.asarray(readable(value))
    if rank_of(array.dtype) > rank_of(host.dtype):
        raise DtypeError(
            f"x[...] = v requires values of a dtype of the kind of {host.dtype}, got {array.dtype}.",
            where=user_frame(),
            help="convert one of them with astype.",
        )
    try:
        part = host[index]
    except IndexError as error:
        raise IndexingError(
            f"x[index] = v requires an index of an array of shape {host.shape}, got {index!r:.40}: {error}.", where=user_frame()
        ) from None
    try:
        host[index] = array
    except ValueError:
        raise ShapeError(
            f"x[...] = v requires a value that broadcasts to this part of x, of shape {np.shape(part)}, got shape {array.shape}.",
            where=user_frame(),
        ) from None
