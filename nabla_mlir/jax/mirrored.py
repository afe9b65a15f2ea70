"""Functions of nabla_mlir as functions of JAX: in their calls, the rules of JAX for dtypes hold (`nabla_mlir.table.narrowing`).

The functions that a transform returns, such as a gradient, follow the same rule.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.table.narrowing import is_narrowing, is_wide, narrow_dtype, narrowing

_FUNCTIONS = (types.FunctionType, types.MethodType)
_OF_DTYPES = {"finfo", "iinfo", "dtype", "issubdtype", "isdtype", "can_cast"}  # they answer questions about the dtypes themselves


def mirrored(f: Callable[..., Any], module: str | None = None, name: str | None = None) -> Any:
    """A function that calls `f` with JAX's rules for dtypes.

    Args:
      f: a function of nabla_mlir, or a function that calls them.
      module, name: the module and the name under which others find the result; by default those of `f`.
    """

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Calls the function by JAX's rules for dtypes.

        After `nabla_mlir.jax.install()`, the 64-bit dtypes among the arguments become 32-bit dtypes, unless 64 bits are enabled.
        """
        with narrowing():  # JAX's rules for the dtypes of results
            if not is_narrowing():  # 64-bit dtypes stay
                return _with_mirrored_functions(f(*args, **kwargs))
            given = {key: _narrow_type(value, key == "dtype") for key, value in kwargs.items()}
            return _with_mirrored_functions(f(*map(_narrow_type, args), **given))

    call.__mirrored__ = f  # type: ignore[attr-defined]  # `original` reads it, and `mirror` skips functions that have it
    call.__module__, call.__qualname__ = module or call.__module__, name or call.__qualname__
    return call


def original(f: Any) -> Any:
    """The function that `mirrored` was called with to make `f`; it has NumPy's rules for dtypes. Other values are unchanged."""
    return getattr(f, "__mirrored__", f)


def _with_mirrored_functions(out: Any) -> Any:
    """The result `out` with `mirrored` applied to it if it is a function, or to the functions in it if it is a tuple."""
    if type(out) in _FUNCTIONS:
        return mirrored(out)
    if type(out) is tuple and any(type(x) in _FUNCTIONS for x in out):
        return tuple(mirrored(x) if type(x) in _FUNCTIONS else x for x in out)
    return out


def _narrow_type(x: Any, is_dtype: bool = False) -> Any:
    """The 32-bit dtype for a 64-bit dtype or scalar type; other values unchanged. With `is_dtype`, a string names a dtype."""
    if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, np.generic)) or (is_dtype and isinstance(x, str)):
        return narrow_dtype(as_dtype(x)) if x is not np.generic and is_wide(as_dtype(x)) else x
    return x


def mirror(namespace: dict[str, Any], leave: Iterable[str] = ()) -> None:
    """Replaces the public functions of a module by mirrored ones.

    Args:
      namespace: the names of the module.
      leave: names of functions that stay as they are.
    """
    for name, value in list(namespace.items()):
        is_public = not name.startswith("_") and name not in _OF_DTYPES.union(leave)
        if is_public and isinstance(value, types.FunctionType) and not hasattr(value, "__mirrored__"):
            namespace[name] = mirrored(value, namespace["__name__"], name)
