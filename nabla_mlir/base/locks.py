"""State that threads share: locks that are free after a fork, and attributes that are computed at first use without a lock."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
_locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A lock that is free again in a fork of the process, where the thread that held it does not exist."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as `logging` and `threading` do


def after_fork(function: Callable[[], object]) -> None:
    """Calls a function in each fork of the process. Windows has no forks.

    Args:
      function: a function without arguments.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


after_fork(_free_all)


class cached_property(Generic[T]):  # noqa: N801  # as functools names it
    """An attribute that is computed at first use; of two threads that do so at once, the first one's value counts.

    Until Python 3.12, the property of functools holds one lock for all instances of a class: a thread that compiles would block
    the first call of all others, and of a fork for ever.

    Example:
      >>> class Circle:
      ...     @cached_property
      ...     def area(self):
      ...         print("computed")
      ...         return 3.0
      >>> circle = Circle()
      >>> circle.area + circle.area
      computed
      6.0
    """

    def __init__(self, function: Callable[[Any], T]):
        self._function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self._name, self._function(instance))
