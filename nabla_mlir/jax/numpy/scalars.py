"""The scalar types of `jax.numpy`: they are dtypes, and a call makes an array, also of a traced value."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.numpy import operands
from nabla_mlir.table.narrowing import narrowing


class ScalarType(type):
    """The class of the scalar types. Each is a subclass of the type of NumPy, and equal to it.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.jax.numpy.float32 == np.float32, np.dtype(nm.jax.numpy.float32)
      (True, dtype('float32'))
      >>> nm.jit(lambda x: nm.jax.numpy.int32(x))(2.7).tolist()
      2
    """

    @property
    def dtype(cls) -> np.dtype:
        """The dtype."""
        return np.dtype(cls.__mro__[1])

    def __call__(cls, x: Any = 0) -> Any:
        """An array with this dtype and the values of `x`."""
        with narrowing():
            return operands.asarray(x, dtype=cls.dtype)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, cls.__mro__[1])

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1])

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, type):
            return getattr(other, "__mro__", (other, other))[1 if isinstance(other, ScalarType) else 0] is cls.__mro__[1]
        return isinstance(other, np.dtype) and other == cls.dtype

    def __hash__(cls) -> int:
        return hash(cls.__mro__[1])

    def __repr__(cls) -> str:
        return f"jax.numpy.{cls.__name__}"


def _scalar_type(name: str) -> Any:
    """The scalar type with a name, such as "float32"."""
    kind = as_dtype(name).type
    return ScalarType(name, (kind,), {"__module__": __package__, "__doc__": kind.__doc__})


_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_ALIASES = {
    "bool_": "bool",
    "single": "float32",
    "double": "float64",
    "csingle": "complex64",
    "cdouble": "complex128",
    "int_": "int64",
    "uint": "uint64",
    "float_": "float64",
    "complex_": "complex128",
}
SCALARS: dict[str, Any] = {name: _scalar_type(name) for name in _NAMES}  # the scalar types by their names in `jax.numpy`
SCALARS |= {alias: SCALARS[name] for alias, name in _ALIASES.items()}
