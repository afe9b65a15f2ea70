"""Numbers at equal ratios."""

from __future__ import annotations

from typing import Any

from nabla_mlir.base.typing import DTypeLike
from nabla_mlir.numpy.creation import linspace
from nabla_mlir.numpy.operands import convert, inexacts
from nabla_mlir.numpy.shapes import expand_dims
from nabla_mlir.numpy.ufuncs import absolute, log10, power, sign
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor


@library
def logspace(
    start: Any,
    stop: Any,
    num: Static[int] = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: DTypeLike | None = None,
    axis: Static[int] = 0,
) -> Tensor:
    """`num` numbers from ``base**start`` to ``base**stop`` at equal ratios; arguments as for `linspace`.

    Example:
      >>> logspace(0, 2, 3).tolist()
      [1.0, 10.0, 100.0]
    """
    out = power(base, linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else convert(out, dtype)


@library
def geomspace(
    start: Any, stop: Any, num: Static[int] = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: Static[int] = 0
) -> Tensor:
    """`num` numbers from start to stop, of one sign, at equal ratios; arguments as for `linspace`."""
    first, last = inexacts("geomspace", start, stop)
    low, high = log10(absolute(first)), log10(absolute(last))
    size = power(10.0, linspace(low, high, num, endpoint, axis=axis))
    signs = expand_dims(sign(first), axis) if first.ndim else sign(first)
    out = size * signs
    return out if dtype is None else convert(out, dtype)
