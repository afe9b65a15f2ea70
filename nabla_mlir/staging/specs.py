"""Shapes and dtypes of arguments, for which a function is traced."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.typing import DTypeLike
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.table.narrowing import is_narrowing, narrow_dtype
from nabla_mlir.table.promotion import Defaults, is_inexact, is_scalar, scalar_dtype

# The dtype of tangents of integers and truth values, as in JAX; its elements have no bytes.
FLOAT0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])


_FIXED = (
    "the shapes of a program are fixed: compile it once for each size, pad the data to one size, or sum over batches with "
    "nm.SumOperator."
)


@dataclass(frozen=True)
class Spec:
    """The shape and the dtype of an argument; `nm.spec` makes it.

    Attributes:
      shape: the lengths of the axes.
      dtype: the dtype.
      weak: True for Python numbers, which take the dtype of the arrays with which they are combined.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a spec without axes")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def weak_type(self) -> bool:
        """True for the spec of a Python number, or of a result of Python numbers alone, under the name of JAX."""
        return self.weak

    @property
    def sharding(self) -> None:
        """None: a spec names no device."""
        return None

    def to_tangent_aval(self) -> Spec:
        """The shape and dtype of a tangent; the dtype is `float0`, without elements, for values without a derivative."""
        return Spec(self.shape, self.dtype if is_inexact(self.dtype) else FLOAT0)

    def update(self, **fields: Any) -> Spec:
        """A spec with another shape, dtype or `weak_type`; other fields of JAX must be None.

        Raises:
          TraceError: a spec has no such field.
        """
        given = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak, **fields}
        new_spec = Spec(tuple(given.pop("shape")), as_dtype(given.pop("dtype")), bool(given.pop("weak_type")))
        if unknown := [name for name, value in given.items() if value is not None]:
            raise TraceError(f"update requires shape, dtype or weak_type, got {', '.join(unknown)}.", where=user_frame())
        return new_spec


@dataclass(frozen=True)
class ArgInfo:
    """An argument of a stage.

    Attributes:
      shape: the lengths of the axes.
      dtype: the dtype.
      donated: True if a call may use its memory for results.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    donated: bool


def spec(shape: Sequence[int] | int = (), dtype: DTypeLike | None = None) -> Spec:
    """The shape and the dtype of an argument, for `nm.trace`.

    Args:
      shape: the lengths of its axes; an int stands for one axis.
      dtype: a dtype or its name. It is a name of NumPy, such as "i8" for int64, or a name of MLIR where NumPy has none,
        such as "bf16". The default is the default float dtype.

    Example:
      >>> print(spec((2, 3), "f64"))
      float64[2,3]
    """
    try:
        lengths = tuple(map(operator.index, shape if isinstance(shape, (Sequence, np.ndarray)) else (shape,)))
    except TypeError:
        advice = "a dtype is the second argument: spec(4, 'f32') for 4 numbers." if isinstance(shape, str) else _FIXED
        raise ShapeError(f"spec requires lengths that are integers, got {shape!r}.", where=user_frame(), help=advice) from None
    if any(n < 0 for n in lengths):
        raise ShapeError(f"spec requires lengths that are not negative, got {lengths}.", where=user_frame(), help=_FIXED)
    return Spec(lengths, Defaults.float if dtype is None else as_dtype(dtype))


def as_spec(leaf: Any) -> Spec:
    """The spec of an argument leaf, which is a spec, an array, or a Python scalar (which stays weak)."""
    if isinstance(leaf, Spec):
        return leaf
    if is_scalar(leaf):
        return Spec((), scalar_dtype(leaf), weak=True)
    if pytree.is_array(leaf):
        if isinstance(leaf, np.ma.MaskedArray):
            readable(leaf)  # raises
        if is_narrowing() and isinstance(leaf, (np.ndarray, np.generic)):
            return Spec(leaf.shape, narrow_dtype(leaf.dtype))
        return Spec(tuple(leaf.shape), np.dtype(leaf.dtype), getattr(leaf, "weak", False) is True)
    raise TraceError(
        f"an argument requires arrays, scalars or nm.spec, got {type(leaf).__name__}.",
        where=user_frame(),
        help=pytree.advice_for(leaf) or "pass other values as static arguments (functools.partial, or jit(static_argnums=...)).",
    )
