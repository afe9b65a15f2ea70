"""Access to values of running programs, under the names of `jax.debug`.

The interpreter runs a program that prints or calls Python, also in `jit`. Code that IREE compiles cannot call Python, so
`compile` raises an error.
"""

from __future__ import annotations

import logging
import string
from collections.abc import Callable
from typing import Any

from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.transforms.callbacks import effect

_print, _logger = print, logging.getLogger("nabla_mlir.jax.debug")


class _Fields(string.Formatter):
    """A formatter that checks the fields of a format against the arguments, and prints nothing."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [*(i for i in range(len(args)) if i not in used_args), *(n for n in kwargs if n not in used_args)]
        if unused:
            raise IndexError(f"no field for {', '.join(map(str, unused))}")


def print(fmt: str, *args: Any, ordered: bool = False, skip_format_check: bool = False, **kwargs: Any) -> None:
    """Prints ``fmt.format(*args, **kwargs)`` whenever the program runs; the values are NumPy arrays.

    A loop prints in each iteration, `cond` prints in the selected branch, `vmap` prints for each entry, and a derivative prints
    the values of the function. Lines appear in the order of the program.

    Args:
      fmt: a format of `str.format`, with a field for each value.
      *args, **kwargs: pytrees of arrays.
      ordered: accepted for compatibility with JAX; lines always appear in order.
      skip_format_check: True allows values that no field of the format prints.

    Raises:
      TraceError: the format does not fit the values.

    Example:
      >>> import nabla_mlir as nm
      >>> def f(x):
      ...     nm.jax.debug.print("x = {x}, twice {}", 2 * x, x=x)
      ...     return x + 1
      >>> float(nm.jit(f)(3.0))
      x = 3.0, twice 6.0
      4.0
    """
    _check(fmt, args, kwargs, skip_format_check)
    effect(lambda *a, **k: _print(fmt.format(*a, **k)), args, kwargs, key=("print", fmt))


def log(fmt: str, *args: Any, ordered: bool = False, skip_format_check: bool = False, **kwargs: Any) -> None:
    """Writes a message to the logger `nabla_mlir.jax.debug` at the level INFO, when the program runs; see `print`."""
    _check(fmt, args, kwargs, skip_format_check)
    effect(lambda *a, **k: _logger.info(fmt.format(*a, **k)), args, kwargs, key=("log", fmt))


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Calls a Python function with the values of pytrees as NumPy arrays, whenever the program runs; see `print`.

    Args:
      callback: a function; its result is not used.
      *args, **kwargs: the arguments of `callback`, pytrees of arrays.
      ordered: accepted for compatibility with JAX; calls always happen in order.

    Example:
      >>> import nabla_mlir as nm
      >>> seen = []
      >>> def f(x):
      ...     nm.jax.debug.callback(lambda v: seen.append(float(v)), x)
      ...     return x * x
      >>> float(nm.grad(f)(3.0)), seen
      (6.0, [3.0])
    """
    effect(callback, args, kwargs)


def _check(fmt: str, args: Any, kwargs: Any, is_lax: bool) -> None:
    """Raises TraceError unless the fields of the format `fmt` match the values `args` and `kwargs`. With `is_lax`, nothing is
    checked.
    """
    if is_lax:
        return
    try:
        _Fields().vformat(fmt, args, kwargs)
    except (IndexError, KeyError, ValueError) as error:
        raise TraceError(
            f"debug.print requires a field for each value and a value for each field, got {fmt!r}: {error}.", where=user_frame()
        ) from None
