"""Python classes that count as arrays, under the names of `jax.interpreters.xla`.

Each class with `shape`, `dtype` and `__array__` counts as an array here. So a package may register its class in the tables,
but need not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.jax.dtypes import canonicalize_dtype
from nabla_mlir.jax.environment import typeof

canonicalize_dtype_handlers: dict[type, Callable[..., Any]] = {np.ndarray: lambda x: np.asarray(x, canonicalize_dtype(x.dtype))}
pytype_aval_mappings: dict[type, Callable[..., Any]] = {np.ndarray: typeof}
