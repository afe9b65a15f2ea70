"""Conversion of a caller's numbers to the dtype of a program; a conversion that would lose digits is refused.

Needs only NumPy.
"""

from __future__ import annotations

import cmath
import functools
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError
from nabla_mlir.base.exchange import readable

_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}  # ml_dtypes' types are of kind V
_SCALARS = {bool: 0, int: 1, float: 2, complex: 3}


def rank_of(dtype: np.dtype) -> int:
    """The rank of a dtype: 0 for bool, then integers, real and complex floating point; -1 if it is no number."""
    return _RANKS.get(dtype.kind, -1) if dtype.fields is None else -1


@functools.cache
def range_of(scalar: type, dtype: np.dtype) -> tuple[Any, Any] | None:
    """The smallest and the largest Python number of the type `scalar` that surely fit in a dtype;
    None if no such range is known.
    """
    if scalar not in (int, float) or dtype.kind not in "iuf" or _SCALARS[scalar] > rank_of(dtype):
        return None
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def integers_beyond(x: np.ndarray, dtype: np.dtype) -> str:
    """The range of the integers in `x` as text, such as "-5 to 300", if an integer dtype cannot hold it; "" if it can."""
    if dtype.kind not in "iu" or x.dtype.kind not in "iu" or not x.size:
        return ""
    limits, low, high = np.iinfo(dtype), x.min(), x.max()
    return f"{low} to {high}" if low < limits.min or high > limits.max else ""


def scalar_misfit(value: Any, dtype: np.dtype) -> str | None:
    """The reason why the Python scalar `value` does not fit in a dtype, as text; None if it fits."""
    kind: Any = type(value)
    known = range_of(kind, dtype)  # most are in it
    if known is not None and known[0] <= value <= known[1]:
        return None
    kind = next(t for t in _SCALARS if isinstance(value, t))
    if _SCALARS[kind] > rank_of(dtype):
        return f"a Python {kind.__name__}, {value!r}"
    try:
        with np.errstate(over="ignore"):
            overflows = cmath.isfinite(value) and not np.isfinite(np.array(value, dtype))
    except OverflowError:
        overflows = True
    return f"{value!r}, which is out of its range" if overflows else None


def rounded(value: Any, dtype: np.dtype, name: str) -> np.ndarray:
    """The array `value` converted to another dtype; floating-point numbers are rounded if the dtype is narrower.

    `name` is the name of the argument, for errors.

    Raises:
      DtypeError: an imaginary part, a fraction, an integer that the dtype cannot hold, or a finite number out of its
        range would be lost.
    """
    array = np.asarray(readable(value))
    if array.dtype == dtype:
        return array
    if not 0 <= rank_of(array.dtype) <= rank_of(dtype):
        raise DtypeError(f"{name} requires numbers of {dtype}, got {array.dtype}.", help="convert it with astype.")
    if rank_of(array.dtype) == 1 and array.size:
        extremes, limits = (int(array.min()), int(array.max())), _integer_range(dtype)
        if not limits[0] <= extremes[0] <= extremes[1] <= limits[1]:
            raise DtypeError(
                f"{name} requires integers that {dtype} holds, from {limits[0]} to {limits[1]}, got {extremes[0]} to "
                f"{extremes[1]}.",
                help="convert it with astype if it may change.",
            )
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    if rank_of(dtype) > 1 and np.any(np.isfinite(array) & ~np.isfinite(result)):
        raise DtypeError(
            f"{name} requires numbers in the range of {dtype}, got {array.dtype} beyond it.",
            help="scale it, or compile for a wider dtype.",
        )
    return result


def _integer_range(dtype: np.dtype) -> tuple[int, int]:
    """The smallest and the largest integer of the range in which a dtype holds all integers."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    exact = 2 << int(limits_of(dtype).nmant)
    return -exact, exact


def limits_of(dtype: np.dtype) -> Any:
    """`numpy.finfo` of every floating-point dtype, the narrow ones of ml_dtypes included."""
    if dtype.kind != "V":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)
