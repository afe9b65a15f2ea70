"""`nabla_mlir.numpy` under the name of `jax.numpy`, with the class `numpy.dtype` as `dtype` and scalar types that make arrays."""

import numpy as _numpy

from nabla_mlir.base.names import module_named as _module_named
from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.jax.numpy.scalars import SCALARS as _SCALARS
from nabla_mlir.numpy import *  # noqa: F403
from nabla_mlir.numpy import __getattr__ as __getattr__

from nabla_mlir.jax.numpy.constructors import (  # type: ignore[assignment]  # isort: skip  # these differ
    array as array,
    asarray as asarray,
    full as full,
    full_like as full_like,
)
from nabla_mlir.jax.numpy.constructors import ones_like as ones_like, zeros as zeros, zeros_like as zeros_like  # isort: skip
from nabla_mlir.jax.numpy.outside import take as take, take_along_axis as take_along_axis  # isort: skip  # these differ


fft, linalg = _module_named(f"{__name__}.fft"), _module_named(f"{__name__}.linalg")  # in place of those of `nabla_mlir.numpy`
_mirror(globals())
globals().update(_SCALARS, dtype=_numpy.dtype)
