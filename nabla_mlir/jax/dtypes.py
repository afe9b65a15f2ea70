"""Dtypes, under the names of `jax.dtypes`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError
from nabla_mlir.dialects.types import PYTHON
from nabla_mlir.numpy import issubdtype as issubdtype
from nabla_mlir.numpy.dtypes import extended as _by_name
from nabla_mlir.numpy.dtypes import finfo as finfo
from nabla_mlir.numpy.dtypes import iinfo as iinfo
from nabla_mlir.numpy.dtypes import result_type as result_type
from nabla_mlir.random.keys import extended as extended
from nabla_mlir.random.keys import prng_key as prng_key
from nabla_mlir.transforms.symbolic_zeros import FLOAT0


class ExtendedDType:
    """The base class of dtypes that packages define. Here only the dtype of keys is one."""


class TypePromotionError(DtypeError, ValueError):
    """Dtypes cannot be promoted to a common dtype."""


# The dtype of the cotangents of integers, with elements of 0 bytes. A custom rule may return such an array instead of None.
float0: np.dtype[Any] = FLOAT0


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype:
    """The dtype; a Python type gives the default dtype of its kind. A dtype never becomes narrower.

    Example:
      >>> canonicalize_dtype(float), canonicalize_dtype("float64")
      (dtype('float32'), dtype('float64'))
    """
    return PYTHON.get(dtype) or result_type(dtype)


def __getattr__(name: str) -> Any:
    if name == "bfloat16":
        return _by_name(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
