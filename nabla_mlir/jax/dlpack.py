"""Import of arrays from other systems, under the name of `jax.dlpack`."""

from __future__ import annotations

from typing import Any

from nabla_mlir.numpy import operands
from nabla_mlir.runtime.array import Array


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An array of another framework as an array of nabla_mlir; see `nm.numpy.from_dlpack`.

    Example:
      >>> import numpy as np
      >>> from_dlpack(np.arange(3.0)).tolist()
      [0.0, 1.0, 2.0]
    """
    return operands.from_dlpack(external_array, device=device, copy=copy)
