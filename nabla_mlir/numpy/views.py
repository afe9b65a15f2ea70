"""Interprets the bits of arrays as another dtype."""

from __future__ import annotations

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike, DTypeLike
from nabla_mlir.dialects.types import as_dtype, is_complex
from nabla_mlir.numpy.joining import stack
from nabla_mlir.numpy.operands import convert, tensor
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor


@library
def view(a: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
    """A copy with the bits of the elements as elements of another dtype; a narrower dtype makes the last axis longer.

    A complex number is two adjacent real ones.

    Args:
      a: an array.
      dtype: the dtype of the result; None means the dtype of `a`.

    Raises:
      ShapeError: the last axis does not have a whole number of new elements.

    Example:
      >>> view(np.array([1 + 2j, 3j]), np.float64).tolist()
      [1.0, 2.0, 0.0, 3.0]
    """
    x = tensor(a)
    new = x.dtype if dtype is None else as_dtype(dtype)
    if is_complex(x.dtype) and new != x.dtype:
        parts = stack([ew.real(x), ew.imag(x)], -1)
        return view(reshaped(parts, (*x.shape[:-1], 2 * x.shape[-1])), new) if x.ndim else view(parts, new)
    if is_complex(new) and new != x.dtype:
        half = np.dtype(f"f{new.itemsize // 2}")
        parts = view(x, half)
        _check(x, parts.ndim > 0 and parts.shape[-1] % 2 == 0, new)
        return ew.make_complex(parts[..., ::2], parts[..., 1::2])
    if "b" in (x.dtype.kind, new.kind) and x.dtype != new:
        return view(x, np.uint8) != 0 if new.kind == "b" else view(convert(x, np.uint8), new)
    if new.itemsize == x.dtype.itemsize:
        return ew.bitcast_convert(x, shape=x.shape, dtype=new) if new != x.dtype else x
    _check(x, x.ndim > 0, new)
    ratio = max(new.itemsize, x.dtype.itemsize) // min(new.itemsize, x.dtype.itemsize)
    *before, n = x.shape
    if new.itemsize < x.dtype.itemsize:
        return reshaped(ew.bitcast_convert(x, shape=(*x.shape, ratio), dtype=new), (*before, n * ratio))
    _check(x, n % ratio == 0, new)
    return ew.bitcast_convert(reshaped(x, (*before, n // ratio, ratio)), shape=(*before, n // ratio), dtype=new)


def _check(x: Tensor, fits: bool, new: np.dtype) -> None:
    """Raises ShapeError unless `fits`: the last axis of `x` has a whole number of elements of the dtype `new`."""
    if not fits:
        raise ShapeError(
            f"view requires a last axis of whole elements of {new}, got {x.dtype} and shape {x.shape}.", where=user_frame()
        )
