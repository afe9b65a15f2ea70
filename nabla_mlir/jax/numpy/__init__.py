"""`nabla_mlir.numpy` under the name of `jax.numpy`, with the class `numpy.dtype` as `dtype` and scalar types that make arrays."""

import numpy as _numpy

from nabla_mlir.jax.numpy.scalars import SCALARS as _SCALARS
from nabla_mlir.numpy import *  # noqa: F403
from nabla_mlir.numpy import __getattr__ as __getattr__

from nabla_mlir.jax.numpy.outside import take as take, take_along_axis as take_along_axis  # isort: skip  # these differ

globals().update(_SCALARS, dtype=_numpy.dtype)
