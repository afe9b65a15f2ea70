"""Types for annotations, under the names of `jax.typing`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.runtime.array import Array
from nabla_mlir.table.tensor import Tensor

# The types that functions accept as an array; `nabla_mlir.numpy.asarray` also accepts lists.
ArrayLike = Array | Tensor | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike = str | type[Any] | np.dtype
