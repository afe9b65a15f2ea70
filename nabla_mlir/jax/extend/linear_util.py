"""Functions with transformations around them, under the names of `jax.extend.linear_util`.

A transformation is a generator: it gets the arguments, yields new arguments and their keyword arguments, receives the result,
and yields the new result. One with an auxiliary value yields that, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nabla_mlir.base.errors import TraceError, user_frame

_EMPTY = object()


class Store:
    """Holds the auxiliary value of a transformation after a call."""

    def __init__(self) -> None:
        self.value: Any = _EMPTY

    def __call__(self) -> Any:
        if self.value is _EMPTY:
            raise TraceError("the auxiliary value of a function requires a call of it, got none yet.", where=user_frame())
        return self.value


class WrappedFun:
    """A function with transformations, outermost first.

    Attributes:
      f: the function.
      transforms: pairs of a generator function and its first arguments.
      params: the keyword arguments of the function.
    """

    def __init__(self, f: Callable[..., Any], transforms: tuple[Any, ...] = (), params: dict[str, Any] | None = None):
        self.f, self.transforms, self.params = f, transforms, dict(params or {})

    @property
    def __name__(self) -> str:
        return str(getattr(self.f, "__name__", "function"))

    def wrap(self, generator: Any, arguments: tuple[Any, ...], store: Store | None) -> WrappedFun:
        """The function with one more transformation around it."""
        return WrappedFun(self.f, ((generator, arguments, store), *self.transforms), self.params)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with all transformations."""
        running: list[Any] = []
        for generator, arguments, store in self.transforms:
            step = generator(*arguments, *args, **kwargs)
            args, kwargs = next(step)
            running.append((step, store))
        result = self.f(*args, **{**self.params, **kwargs})
        for step, store in reversed(running):
            result = step.send(result)
            if store is not None:
                result, store.value = result
        return result


def wrap_init(f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None) -> WrappedFun:
    """A `WrappedFun` of the function, without transformations yet.

    Args:
      f: the function.
      params: keyword arguments of each call.
      debug_info: the description that JAX's errors show; errors here show the user's line.

    Example:
      >>> wrap_init(lambda x: x + 1).call_wrapped(2)
      3
    """
    return WrappedFun(f, params=params)


def transformation(gen: Callable[..., Any], fun: WrappedFun | None = None, *gen_static_args: Any) -> Any:
    """Puts a transformation around a function; with one argument, a decorator of generator functions.

    Example:
      >>> @transformation
      ... def doubled(x):
      ...     y = yield (x,), {}
      ...     yield 2 * y
      >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(2)
      6
    """
    if fun is None:
        return functools.partial(transformation, gen)
    return fun.wrap(gen, gen_static_args, None)


def transformation_with_aux(gen: Callable[..., Any], fun: WrappedFun | None = None, *gen_static_args: Any) -> Any:
    """The function `fun` with a transformation that has an auxiliary value around it, and a reader of this value.

    The generator `gen` gets the further arguments, and yields ``(result, auxiliary value)`` last.
    """
    if fun is None:
        return functools.partial(transformation_with_aux, gen)
    store = Store()
    return fun.wrap(gen, gen_static_args, store), store
