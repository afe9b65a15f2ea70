"""The rules of JAX for dtypes, which hold in calls of the functions of `nabla_mlir.jax`, also for the functions that they trace.

Results of Python numbers alone are weak, like the numbers: they take the dtype of an array with which they are combined.
After `nabla_mlir.jax.install()`, 64-bit data of NumPy count as 32-bit data while new arrays have 32 bits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.array_methods import ArrayMethods
from nabla_mlir.base.conversion import integers_beyond
from nabla_mlir.base.errors import RangeError, user_frame
from nabla_mlir.dialects.types import PYTHON, as_dtype

_NARROW = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (("float64", "float32"), ("complex128", "complex64"), ("int64", "int32"), ("uint64", "uint32"))
}


class _Mode(threading.local):
    is_on = False


_mode = _Mode()


@contextlib.contextmanager
def narrowing() -> Iterator[None]:
    """A context in which the rules of JAX for dtypes hold."""
    before, _mode.is_on = _mode.is_on, True
    try:
        yield
    finally:
        _mode.is_on = before


def narrow_everywhere() -> None:
    """From now on, the rules hold in all code of this process, also for operators of arrays outside of calls."""
    _Mode.is_on = _mode.is_on = True


def follows_jax() -> bool:
    """True if the rules of JAX for dtypes hold."""
    return _mode.is_on


def is_narrowing() -> bool:
    """True if 64-bit data of NumPy become 32-bit data: after `narrow_everywhere`, while new arrays have 32 bits."""
    return _Mode.is_on and PYTHON[float].itemsize < 8


def narrow_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of 32 bits in place of one of 64 bits; another dtype is returned unchanged."""
    return _NARROW.get(dtype, dtype)


def stated_dtype(dtype: Any) -> Any:
    """A dtype that a user states; with 32 bits in place of 64, if `is_narrowing` is true."""
    return narrow_dtype(as_dtype(dtype)) if is_narrowing() else dtype


def is_wide(dtype: np.dtype) -> bool:
    """True for a dtype that `narrow_dtype` changes."""
    return dtype in _NARROW


def has_wide(xs: Iterable[Any]) -> bool:
    """True if one of the values is a traced array, or an array of a device, with 64 bits. NumPy's data next to it keep 64 bits."""
    return any(isinstance(x, ArrayMethods) and getattr(x, "dtype", None) in _NARROW for x in xs)


def all_narrowed(xs: Sequence[Any]) -> list[Any]:
    """The arguments of a function, narrowed unless `has_wide` is true for them."""
    return list(xs) if has_wide(xs) else list(map(narrowed, xs))


def narrowed(x: Any) -> Any:
    """The array or number of NumPy `x` with a dtype of at most 32 bits; other values are returned unchanged.

    Raises:
      RangeError: an integer has no 32-bit form.
    """
    if not isinstance(x, (np.ndarray, np.generic)) or x.dtype not in _NARROW:
        return x
    dtype = _NARROW[x.dtype]
    if got := integers_beyond(np.asarray(x), dtype):
        raise RangeError(
            f"an array of {x.dtype} requires the range of {dtype}, got {got}.",
            where=user_frame(),
            help='64-bit arrays need jax.config.update("jax_enable_x64", True).',
        )
    with np.errstate(over="ignore"):  # infinity, as in JAX
        return x.astype(dtype)
