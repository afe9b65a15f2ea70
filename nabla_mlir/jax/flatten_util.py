"""Conversion of pytrees to vectors, under the name of `jax.flatten_util`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.operands import asarray, common_dtype
from nabla_mlir.numpy.shapes import ravel, reshape
from nabla_mlir.staging.specs import as_spec


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The elements of all leaves as one vector, and a function that converts such a vector to a pytree.

    Leaves of different dtypes are promoted to one dtype; the function restores their dtypes.

    Args:
      pytree: a pytree of arrays.

    Example:
      >>> vector, tree_of = ravel_pytree({"w": np.ones((2, 2)), "b": np.zeros(1)})
      >>> vector.tolist()
      [0.0, 1.0, 1.0, 1.0, 1.0]
      >>> tree_of(vector * 2)["w"].shape
      (2, 2)
    """
    leaves, spec = _flatten(pytree)
    specs = [as_spec(leaf) for leaf in leaves]
    sizes = [math.prod(s.shape) for s in specs]
    total = sum(sizes)
    if not leaves:
        return asarray(np.zeros(0, np.float32)), lambda _: _unflatten(spec, [])
    dtype = common_dtype(leaves)
    vector = concatenate([ravel(asarray(leaf).astype(dtype)) for leaf in leaves])
    ends = np.cumsum(sizes)

    def unravel(flat: Any) -> Any:
        """Converts a vector to a pytree with the shapes and dtypes of the leaves; raises ShapeError or DtypeError for a vector of
        another length or dtype.
        """
        if np.shape(flat) != (total,):
            raise ShapeError(f"unravel requires a vector of {total} elements, got shape {np.shape(flat)}.", where=user_frame())
        flat = asarray(flat)
        same = flat.dtype == dtype
        if not same and any(s.dtype != dtype for s in specs):
            raise DtypeError(f"unravel requires a vector of {dtype}, got {flat.dtype}.", where=user_frame(), help="use astype.")
        parts = [reshape(flat[end - n : end], s.shape) for s, n, end in zip(specs, sizes, ends.tolist(), strict=True)]
        return _unflatten(spec, [p.astype(s.dtype) if same else p for p, s in zip(parts, specs, strict=True)])

    return vector, unravel


_flatten, _unflatten = pytree.flatten, pytree.unflatten  # the argument has JAX's name
